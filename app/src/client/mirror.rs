// SPDX-License-Identifier: GPL-3.0-or-later
//! A copy of another service's objects that follows its signals.
//!
//! The copy is read with one `GetManagedObjects` at the start and then follows `InterfacesAdded`, `InterfacesRemoved`
//! and `PropertiesChanged`: nothing is asked for twice and nothing polls. Signals that overtake an answer are applied
//! again on top of the answer. The copy then ends at the same values, because signals come in order. The streams are
//! always drained, also while an answer is awaited: zbus holds the whole connection, and with it that answer, as soon
//! as the queue of one stream is full.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use tandem_api::JOB_INTERFACE;
use zbus::fdo::{DBusProxy, NameOwnerChanged, ObjectManagerProxy, PropertiesProxy};
use zbus::names::{BusName, InterfaceName};
use zbus::wire::serialized::Context;
use zbus::wire::{LE, to_bytes};
use zbus::{
    Connection, MatchRule, Message, MessageStream, OwnedObjectPath, OwnedVariant, Type, as_variant,
    message,
};

/// Properties by name.
pub type Properties = HashMap<String, OwnedVariant>;
/// Objects by path, interfaces by name.
pub type Objects = BTreeMap<String, HashMap<String, Properties>>;

/// Time between the end of a service and its new start. A service that crashes again and again over a broken drive does
/// not keep all drives awake.
const RESTART_AFTER: Duration = Duration::from_secs(5);

/// What [`follow`] tells.
pub enum News<'a> {
    /// The objects after one or more changes.
    Objects(&'a Objects),
    /// Any other signal.
    Signal(&'a Message),
    /// The service has left the bus. Never told of a service that is started again.
    Left,
    /// The service could not be asked.
    Failed(zbus::Error),
}

/// The service whose objects are followed.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Name on the bus.
    pub service: &'static str,
    /// Path of the object manager.
    pub root: &'static str,
    /// Interface of the object at `root` itself that is followed as well.
    pub interface: Option<&'static str>,
    /// The service is started again when it leaves, and its objects stay as they were until then.
    pub always: bool,
}

/// Follows the objects of a service until the connection ends. Starts the service.
pub async fn follow(connection: &Connection, source: Source, mut tell: impl FnMut(News<'_>)) {
    if let Err(error) = try_follow(connection, source, &mut tell).await {
        tell(News::Failed(error));
    }
}

async fn try_follow(
    connection: &Connection,
    source: Source,
    tell: &mut impl FnMut(News<'_>),
) -> zbus::Result<()> {
    let Source { service, root, .. } = source;
    let rule = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .sender(service)
        .path_namespace(root)
        .build()?;
    let signals = MessageStream::for_match_rule(rule, connection, None).await?;
    let bus = DBusProxy::new(connection).await?;
    let owners = bus
        .receive_name_owner_changed_with_args(&[(0, service)])
        .await?;
    let mut all = stream::select(signals.map(Either::Left), owners.map(Either::Right));

    let mut objects = Objects::new();
    let mut waiting = Backlog::default();
    let name = BusName::try_from(service)?;
    let first = async {
        let loaded = load(connection, source).await;
        (loaded, bus.get_name_owner(name).await.ok())
    };
    let (loaded, mut owner) = draining(first, &mut all, &mut waiting).await;
    match loaded {
        Ok(loaded) => {
            objects = loaded;
            tell(News::Objects(&objects));
        }
        Err(error) => tell(News::Failed(error)),
    }

    loop {
        let mut changed = waiting.lost();
        // Changes that have arrived together are told together.
        let mut next = match waiting.items.pop_front() {
            None if changed == Effect::None => all.next().await,
            waited => waited,
        };
        if next.is_none() && changed == Effect::None {
            return Ok(());
        }
        while let Some(item) = next {
            match item {
                Either::Left(Ok(message)) => {
                    // A match rule by a well-known name lets other senders' direct signals through.
                    let known = owner.as_ref().map(|name| name.as_str());
                    if message.header().sender().map(|name| name.as_str()) == known {
                        match apply(&mut objects, &message) {
                            Effect::None => tell(News::Signal(&message)),
                            effect => changed = changed.max(effect),
                        }
                    }
                }
                Either::Left(Err(error)) => return Err(error),
                Either::Right(change) => {
                    let args = change.args()?;
                    owner = args.new_owner().as_ref().map(|name| name.to_owned().into());
                    if owner.is_some() || source.always {
                        changed = Effect::Reload;
                    } else {
                        // The last that the service told came before it left.
                        if changed == Effect::Applied {
                            tell(News::Objects(&objects));
                        }
                        objects.clear();
                        changed = Effect::None;
                        tell(News::Left);
                    }
                }
            }
            let waited = waiting.items.pop_front();
            next = waited.or_else(|| all.next().now_or_never().flatten());
        }
        if changed == Effect::Reload {
            if owner.is_none() && source.always {
                let pause = gtk::glib::timeout_future(RESTART_AFTER);
                draining(pause, &mut all, &mut waiting).await;
            }
            match draining(load(connection, source), &mut all, &mut waiting).await {
                Ok(loaded) => objects = loaded,
                Err(error) => {
                    tell(News::Failed(error));
                    continue;
                }
            }
        }
        if changed != Effect::None {
            tell(News::Objects(&objects));
        }
    }
}

/// A signal of the service, or a change of the owner of its bus name.
type Item = Either<zbus::Result<Message>, NameOwnerChanged>;

/// The signals and owner changes that arrived while an answer was awaited, in order.
#[derive(Default)]
struct Backlog {
    items: VecDeque<Item>,
    overflowed: bool,
}

impl Backlog {
    /// Most items that are kept. With more than this, reading all objects anew is cheaper.
    const MOST: usize = 4096;

    fn push(&mut self, item: Item) {
        if self.items.len() < Self::MOST {
            self.items.push_back(item);
            return;
        }
        self.overflowed = true;
        // A change of owner must not be missed; what signals said can be read again.
        self.items.retain(|kept| matches!(kept, Either::Right(_)));
        if matches!(item, Either::Right(_)) {
            self.items.push_back(item);
        }
    }

    /// The effect of items that were not kept.
    fn lost(&mut self) -> Effect {
        if std::mem::take(&mut self.overflowed) {
            Effect::Reload
        } else {
            Effect::None
        }
    }
}

/// Awaits `work` and puts the items that arrive meanwhile into `waiting`.
async fn draining<T>(
    work: impl Future<Output = T>,
    all: &mut (impl Stream<Item = Item> + Unpin),
    waiting: &mut Backlog,
) -> T {
    let mut work = pin!(work);
    loop {
        match select(work.as_mut(), all.next()).await {
            Either::Left((done, _)) => return done,
            Either::Right((Some(item), _)) => waiting.push(item),
            Either::Right((None, _)) => return work.await,
        }
    }
}

async fn load(connection: &Connection, source: Source) -> zbus::Result<Objects> {
    let Source {
        service,
        root,
        interface,
        ..
    } = source;
    let manager = ObjectManagerProxy::builder(connection)
        .destination(service)
        .path(root)
        .build()
        .await?;
    let objects = manager.get_managed_objects().await?;
    let mut objects: Objects = objects
        .into_iter()
        .map(|(path, interfaces)| {
            let interfaces = interfaces
                .into_iter()
                .map(|(name, values)| (name.to_string(), values))
                .collect();
            (path.to_string(), interfaces)
        })
        .collect();
    // An object manager gives every reader the same values. Only `GetAll` by this user names the programs of this user
    // in the end of a job.
    let jobs = objects.iter_mut();
    for (path, interfaces) in jobs.filter(|(_, all)| all.contains_key(JOB_INTERFACE)) {
        let own = PropertiesProxy::builder(connection)
            .destination(service)
            .path(path.as_str())
            .build()
            .await?;
        // If the job is gone by now, a later signal removes the job from the copy.
        if let Ok(values) = own.get_all(InterfaceName::try_from(JOB_INTERFACE)?).await {
            interfaces.insert(JOB_INTERFACE.to_owned(), values);
        }
    }
    // An object manager lists the objects below it, not itself.
    if let Some(interface) = interface {
        let own = PropertiesProxy::builder(connection)
            .destination(service)
            .path(root)
            .build()
            .await?;
        let values = own.get_all(InterfaceName::try_from(interface)?).await?;
        objects
            .entry(root.to_owned())
            .or_default()
            .insert(interface.to_owned(), values);
    }
    Ok(objects)
}

/// What a signal did to the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    None,
    Applied,
    Reload,
}

fn apply(objects: &mut Objects, message: &Message) -> Effect {
    let header = message.header();
    let (Some(interface), Some(member), Some(path)) =
        (header.interface(), header.member(), header.path())
    else {
        return Effect::None;
    };
    let body = message.body();
    let done = match (interface.as_str(), member.as_str()) {
        ("org.freedesktop.DBus.ObjectManager", "InterfacesAdded") => body
            .deserialize::<(OwnedObjectPath, HashMap<String, Properties>)>()
            .map(|(path, interfaces)| {
                objects
                    .entry(path.to_string())
                    .or_default()
                    .extend(interfaces);
                Effect::Applied
            }),
        ("org.freedesktop.DBus.ObjectManager", "InterfacesRemoved") => body
            .deserialize::<(OwnedObjectPath, Vec<String>)>()
            .map(|(path, gone)| {
                if let Some(interfaces) = objects.get_mut(path.as_str()) {
                    interfaces.retain(|name, _| !gone.contains(name));
                    if interfaces.is_empty() {
                        objects.remove(path.as_str());
                    }
                }
                Effect::Applied
            }),
        ("org.freedesktop.DBus.Properties", "PropertiesChanged") => body
            .deserialize::<(String, Properties, Vec<String>)>()
            .map(|(interface, values, invalidated)| {
                let Some(known) = objects
                    .get_mut(path.as_str())
                    .and_then(|all| all.get_mut(&interface))
                else {
                    return Effect::Applied;
                };
                known.extend(values);
                if invalidated.is_empty() {
                    Effect::Applied
                } else {
                    Effect::Reload
                }
            }),
        _ => return Effect::None,
    };
    done.unwrap_or(Effect::Reload)
}

/// Reads a property as `T`; `None` if it is missing or of another type.
pub fn read<T>(properties: &Properties, name: &str) -> Option<T>
where
    T: Type + for<'de> serde::Deserialize<'de>,
{
    let encoded = to_bytes(Context::new(LE, 0), properties.get(name)?).ok()?;
    let (value, _) = encoded
        .deserialize::<as_variant::Deserialize<'_, T>>()
        .ok()?;
    Some(value.0)
}
