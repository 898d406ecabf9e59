// SPDX-License-Identifier: GPL-3.0-or-later
//! Keeps the indicator up to date with the service. Never starts the service: the service runs while there is a cache.

use std::collections::HashMap;

use futures_util::{StreamExt, future::Either, stream};
use ksni::Handle;
use tandem_api::{BUS_NAME, CACHE_INTERFACE, CacheProxy, ROOT_PATH, SECTOR_BYTES, Sample};
use zbus::fdo::{DBusProxy, ObjectManagerProxy};
use zbus::names::BusName;
use zbus::proxy::CacheProperties;
use zbus::{Connection, MatchRule, Message, MessageStream, OwnedObjectPath, message};

use crate::indicator::Indicator;
use crate::words::Shown;

/// Follows the service until the bus or the indicator is gone.
///
/// # Errors
/// There is no system bus, or the connection to it ends.
pub async fn follow(handle: &Handle<Indicator>) -> zbus::Result<()> {
    let connection = Connection::system().await?;
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
    let mut news = stream::select(signals.map(Either::Left), owners.map(Either::Right));

    let mut known = Known::default();
    if bus.name_has_owner(BusName::try_from(BUS_NAME)?).await? {
        known.load(&connection).await;
    }
    show(handle, &known).await;
    while let Some(item) = news.next().await {
        match item {
            Either::Left(message) => {
                let message = message?;
                match Sample::told_by(&message) {
                    Some((path, sample)) => known.sample(&path, sample),
                    None if concerns_caches(&message) => known.load(&connection).await,
                    None => continue,
                }
            }
            Either::Right(change) => {
                if change.args()?.new_owner().is_some() {
                    known.load(&connection).await;
                } else {
                    known.caches.clear();
                }
            }
        }
        if !show(handle, &known).await {
            break;
        }
    }
    Ok(())
}

/// The caches by object path, each with its last sample, from which the next hit rate is counted.
#[derive(Default)]
struct Known {
    caches: HashMap<String, (Shown, Sample)>,
}

impl Known {
    /// Reads all caches anew; keeps the rates and last samples of known caches.
    async fn load(&mut self, connection: &Connection) {
        match caches(connection).await {
            Ok(read) => {
                let mut old = std::mem::take(&mut self.caches);
                for (path, mut shown, sample) in read {
                    let sample = match old.remove(&path) {
                        Some((before, earlier)) => {
                            shown.hit_rate = before.hit_rate;
                            shown.rate_seconds = before.rate_seconds;
                            earlier
                        }
                        None => sample,
                    };
                    self.caches.insert(path, (shown, sample));
                }
            }
            // The service has left meanwhile; the change of the owner of its name is handled elsewhere.
            Err(error) => tracing::debug!("the service: {error}"),
        }
    }

    fn sample(&mut self, path: &str, sample: Sample) {
        if let Some((shown, earlier)) = self.caches.get_mut(path) {
            shown.hit_rate = sample.read_hit_rate_since(earlier);
            let between = sample.time_us.saturating_sub(earlier.time_us);
            shown.rate_seconds = (between + 500_000) / 1_000_000;
            shown.dirty_bytes = dirty_bytes(&sample);
            *earlier = sample;
        }
    }
}

fn dirty_bytes(sample: &Sample) -> u64 {
    sample.dirty_sectors.saturating_mul(SECTOR_BYTES)
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

async fn cache(
    connection: &Connection,
    path: OwnedObjectPath,
) -> zbus::Result<(String, Shown, Sample)> {
    let proxy = CacheProxy::builder(connection)
        .path(path.clone())
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    let disk = proxy.origin_text().await?;
    let latest = proxy.latest().await?;
    let shown = Shown {
        uuid: proxy.uuid().await?,
        disk: [disk.label, disk.model, disk.name]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default(),
        state: proxy.state().await?,
        reason: proxy.state_reason().await?,
        may_be_unwritten: proxy.may_be_unwritten().await?,
        hit_rate: None,
        rate_seconds: 0,
        dirty_bytes: dirty_bytes(&latest),
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

/// Updates the indicator; returns false if the indicator is gone.
async fn show(handle: &Handle<Indicator>, known: &Known) -> bool {
    let mut caches: Vec<Shown> = known
        .caches
        .values()
        .map(|(shown, _)| shown.clone())
        .collect();
    caches.sort_by(|one, other| one.uuid.cmp(&other.uuid));
    handle
        .update(|indicator| {
            if indicator.caches != caches {
                indicator.caches = caches;
            }
        })
        .await
        .is_some()
}
