// SPDX-License-Identifier: GPL-3.0-or-later
//! Keeps the indicator up to date with the service, and sends notifications. Never starts the service: the service runs
//! while there is a cache.

use std::collections::HashMap;

use futures_util::{StreamExt, stream};
use ksni::Handle;
use tandem_api::{
    BUS_NAME, CACHE_INTERFACE, CacheProxy, CacheState, ManagerProxy, ROOT_PATH, SECTOR_BYTES,
    Sample, SelfReport,
};
use zbus::fdo::{DBusProxy, NameOwnerChanged, ObjectManagerProxy};
use zbus::names::BusName;
use zbus::proxy::CacheProperties;
use zbus::{Connection, MatchRule, Message, MessageStream, OwnedObjectPath, message};

use crate::indicator::{self, Indicator};
use crate::notices::Notices;
use crate::words::Shown;

/// What happens while the program runs.
enum News {
    /// The indicator has a place, or will have none.
    Registered(Option<Handle<Indicator>>),
    /// The service tells something.
    Signal(zbus::Result<Message>),
    /// The service has come or gone.
    Owner(NameOwnerChanged),
    /// A person activates the notification with this number.
    Activated(u32),
}

/// Follows the service until the bus or the indicator is gone. `register` gives the indicator when there is a place for
/// it.
///
/// # Errors
/// There is no system bus, or the connection to it ends.
pub async fn follow(register: impl Future<Output = Option<Handle<Indicator>>>) -> zbus::Result<()> {
    let connection = Connection::system().await?;
    // zbus holds a whole connection while the queue of one of its streams is full. Nothing reads the queues of this one
    // while an answer is awaited, so the answers have a connection of their own.
    let calls = Connection::system().await?;
    let rule = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .sender(BUS_NAME)
        .path_namespace(ROOT_PATH)
        .build()?;
    let signals = MessageStream::for_match_rule(rule, &connection, None).await?;
    let bus = DBusProxy::new(&connection).await?;
    let owners = bus
        .receive_name_owner_changed_with_args(&[(0, BUS_NAME)])
        .await?;
    let mut notices = Notices::new().await;
    let activated = notices.activated().await.map(News::Activated);
    let registered = stream::once(Box::pin(register)).map(News::Registered);
    let mut news = stream::select(
        stream::select(signals.map(News::Signal), owners.map(News::Owner)),
        stream::select(activated, registered),
    );

    let mut handle = None;
    let mut table = CacheTable::default();
    let name = BusName::try_from(BUS_NAME)?;
    if DBusProxy::new(&calls).await?.name_has_owner(name).await? {
        table.load(&calls).await;
    }
    show(None, &mut notices, &table).await;
    while let Some(item) = news.next().await {
        match item {
            News::Registered(registered) => handle = registered,
            News::Activated(id) => {
                if notices.is_ours(id) {
                    indicator::open();
                }
                continue;
            }
            News::Signal(message) => {
                let message = message?;
                match Sample::told_by(&message) {
                    Some((path, sample)) => table.sample(&path, sample),
                    None if concerns_caches(&message) => table.load(&calls).await,
                    None => continue,
                }
            }
            News::Owner(change) => {
                if change.args()?.new_owner().is_some() {
                    table.load(&calls).await;
                } else {
                    table.caches.clear();
                    table.kernels.clear();
                }
            }
        }
        if !show(handle.as_ref(), &mut notices, &table).await {
            break;
        }
    }
    Ok(())
}

/// The caches by object path.
#[derive(Default)]
struct CacheTable {
    caches: HashMap<String, Entry>,
    /// Releases of the kernels that may start next and have no module.
    kernels: Vec<String>,
}

/// One cache.
struct Entry {
    shown: Shown,
    /// The last sample, from which the next hit rate is counted.
    sample: Sample,
    /// Time of the last sample without dirty data, in microseconds of `CLOCK_BOOTTIME`.
    clean_at_us: Option<u64>,
}

impl CacheTable {
    /// Reads all caches anew; keeps the rates and last samples of known caches.
    async fn load(&mut self, connection: &Connection) {
        match caches(connection).await {
            Ok(read) => {
                let mut old = std::mem::take(&mut self.caches);
                for (path, shown, sample) in read {
                    let mut entry = Entry {
                        shown,
                        sample,
                        clean_at_us: None,
                    };
                    if let Some(before) = old.remove(&path) {
                        entry.shown.hit_rate = before.shown.hit_rate;
                        entry.shown.rate_seconds = before.shown.rate_seconds;
                        entry.shown.dirty_seconds = before.shown.dirty_seconds;
                        entry.clean_at_us = before.clean_at_us;
                        entry.sample = before.sample;
                    }
                    self.caches.insert(path, entry);
                }
            }
            // As below.
            Err(error) => tracing::debug!("the service: {error}"),
        }
        match kernels(connection).await {
            Ok(kernels) => self.kernels = kernels,
            // The service has left meanwhile; the change of the owner of its name is handled elsewhere.
            Err(error) => tracing::debug!("the service: {error}"),
        }
    }

    fn sample(&mut self, path: &str, sample: Sample) {
        let Some(entry) = self.caches.get_mut(path) else {
            return;
        };
        if sample.dirty_sectors == 0 {
            entry.clean_at_us = Some(sample.time_us);
        }
        let between = sample.time_us.saturating_sub(entry.sample.time_us);
        let shown = &mut entry.shown;
        shown.hit_rate = sample.read_hit_rate_since(&entry.sample);
        shown.rate_seconds = (between + 500_000) / 1_000_000;
        shown.dirty_bytes = dirty_bytes(&sample);
        shown.dirty_seconds = entry
            .clean_at_us
            .map(|clean| sample.time_us.saturating_sub(clean).div_ceil(1_000_000));
        shown.drain_seconds = sample.drain_seconds;
        entry.sample = sample;
    }
}

/// Bytes that are on the SSD only; `None` for the empty sample before the first one.
fn dirty_bytes(sample: &Sample) -> Option<u64> {
    (sample.time_us > 0).then(|| sample.dirty_sectors.saturating_mul(SECTOR_BYTES))
}

async fn caches(connection: &Connection) -> zbus::Result<Vec<(String, Shown, Sample)>> {
    let manager = ObjectManagerProxy::builder(connection)
        .destination(BUS_NAME)
        .path(ROOT_PATH)
        .build()
        .await?;
    let objects = manager.get_managed_objects().await?;
    let mut all = Vec::new();
    for (path, interfaces) in objects {
        if interfaces
            .keys()
            .any(|interface| interface.as_str() == CACHE_INTERFACE)
        {
            all.push(cache(connection, path).await?);
        }
    }
    all.sort_by(|one, other| one.1.uuid.cmp(&other.1.uuid));
    Ok(all)
}

async fn kernels(connection: &Connection) -> zbus::Result<Vec<String>> {
    let manager = ManagerProxy::builder(connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    manager.kernels_without_module().await
}

async fn cache(
    connection: &Connection,
    path: OwnedObjectPath,
) -> zbus::Result<(String, Shown, Sample)> {
    let proxy = CacheProxy::builder(connection)
        .path(path.clone())
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let (chosen, disk) = (proxy.chosen_name().await?, proxy.origin_text().await?);
    let latest = proxy.latest().await?;
    let (state, minutes) = (proxy.state().await?, proxy.shutdown_minutes().await?);
    let runs = matches!(state, CacheState::Active | CacheState::Suspended);
    let shown = Shown {
        uuid: proxy.uuid().await?,
        disk: [chosen, disk.label, disk.model, disk.name]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default(),
        // A service of an older version does not say that.
        target: proxy.target().await.unwrap_or_default(),
        mode: proxy.mode().await?,
        state,
        reason: proxy.state_reason().await?,
        may_be_unwritten: proxy.may_be_unwritten().await?,
        paused: proxy.paused().await?,
        sharing: proxy.sharing().await?,
        ssd_failing: proxy.ssd_health().await?.report == SelfReport::Failing,
        content: disk.content,
        in_memory: proxy.ssd_text().await?.is_memory(),
        hit_rate: None,
        rate_seconds: 0,
        dirty_bytes: dirty_bytes(&latest),
        dirty_seconds: None,
        drain_seconds: latest.drain_seconds,
        shutdown_seconds: (runs && minutes > 0).then(|| u64::from(minutes) * 60),
    };
    Ok((path.to_string(), shown, latest))
}

/// Whether a signal may change the indicator. Most signals of jobs do not.
fn concerns_caches(message: &Message) -> bool {
    message
        .header()
        .path()
        .is_some_and(|path| !path.as_str().contains("/jobs/"))
}

/// Updates the notifications and the indicator; returns false if the indicator is gone.
async fn show(
    handle: Option<&Handle<Indicator>>,
    notices: &mut Notices,
    table: &CacheTable,
) -> bool {
    let mut caches: Vec<Shown> = table
        .caches
        .values()
        .map(|entry| entry.shown.clone())
        .collect();
    caches.sort_by(|one, other| one.uuid.cmp(&other.uuid));
    notices.update(&caches, &table.kernels).await;
    let Some(handle) = handle else { return true };
    handle
        .update(|indicator| {
            if indicator.caches != caches {
                indicator.caches = caches;
            }
            if indicator.kernels != table.kernels {
                indicator.kernels.clone_from(&table.kernels);
            }
        })
        .await
        .is_some()
}
