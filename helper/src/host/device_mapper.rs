// SPDX-License-Identifier: GPL-3.0-or-later
//! The host over a real machine: device-mapper, UDisks2, systemd and the kernel's own files.

pub(crate) mod guards;
mod mapping;
mod mounting;
mod observing;
mod partitions;
mod ssd;

use self::guards::DeviceNode;
use crate::host::names;
use crate::host::systemd;
use crate::host::traits::{Computer, Disks};
use crate::host::watch::{self, TRACEFS};
use crate::machine::dm::control::{Control, DmFailure};
use crate::machine::dm::dm_cache::Traffic;
use crate::machine::hibernation;
use crate::machine::wipe;
use crate::model::action::{MountDevice, Pair};
use crate::model::facts::{Device, Ident};
use async_trait::async_trait;
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tandem_api::udisks::UDISKS;
use tandem_api::{Failure, Kind, NameChange};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, Semaphore};
use zbus::{Connection, MatchRule, MessageStream};

/// How long UDisks2 and the mount table may take to show a change.
pub(super) const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Writes back at a shutdown. Where the first cache was made after the start of the machine, the unit is not active yet.
const DRAIN_UNIT: &str = "tandem-drain.service";
pub(super) const PAUSE: Duration = Duration::from_millis(100);
const MAX_SEARCHES: usize = 4;

/// The real host.
pub struct DeviceMapper {
    pub(crate) connection: Connection,
    events: Arc<Notify>,
    listening: Arc<AtomicBool>,
    /// Searches for the users of a file system at a time: each keeps a thread as long as it takes.
    searches: Arc<Semaphore>,
    /// What went through the mappings of dm-cache, by the UUIDs of the caches. Taken after no other lock.
    traffic: Mutex<BTreeMap<String, Traffic>>,
}

impl DeviceMapper {
    /// Begins to follow the machine, and resumes the mappings that an earlier process left suspended.
    ///
    /// # Errors
    /// If the bus refuses the subscription.
    pub async fn new(connection: Connection) -> zbus::Result<Self> {
        let this = Self {
            connection,
            events: Arc::default(),
            listening: Arc::default(),
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
            traffic: Mutex::default(),
        };
        // The rule names the path too: inside this process, a rule with a well-known sender matches the signals of
        // every sender.
        let rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .sender(UDISKS)
            .path_namespace("/org/freedesktop/UDisks2")
            .build()?;
        let mut signals = MessageStream::for_match_rule(rule, &this.connection, None).await?;
        let events = this.events.clone();
        tokio::spawn(async move {
            while signals.next().await.is_some() {
                events.notify_one();
            }
        });
        this.listen();
        if let Ok(Err(e)) = blocking(|| Control::open()?.resume_forgotten()).await {
            tracing::warn!("no mapping looked after: {e}");
        }
        watch::sweep(Path::new(TRACEFS));
        Ok(this)
    }

    /// Listens to device-mapper's events, once it is there.
    fn listen(&self) {
        if self.listening.swap(true, Ordering::SeqCst) {
            return;
        }
        let (events, listening) = (self.events.clone(), self.listening.clone());
        tokio::spawn(async move {
            if let Err(e) = follow(&events).await {
                tracing::info!("not listening to device-mapper: {e}");
            }
            listening.store(false, Ordering::SeqCst);
        });
    }

    /// The device that this ident means now.
    pub(crate) async fn locate(&self, ident: &Ident) -> Result<Device, Failure> {
        let facts = self.facts().await?;
        let found = facts
            .locate(ident, &crate::machine::blocks::boot_id())
            .cloned();
        found.ok_or_else(|| Failure::new(Kind::DeviceGone).device(&ident.text))
    }

    /// Node and number of a device, if the device is there.
    async fn mount_place(&self, device: &MountDevice) -> Result<Option<DeviceNode>, Failure> {
        match device {
            MountDevice::Origin(ident) => match self.locate(ident).await {
                Ok(device) => Ok(DeviceNode::of(
                    &device.ident.text.name,
                    device.ident.node(),
                    device.object(),
                )),
                Err(e) if e.kind == Kind::DeviceGone => Ok(None),
                Err(e) => Err(e),
            },
            MountDevice::Mapping(pair) => {
                let facts = self.facts().await?;
                let dm_uuid = pair.dm_uuid();
                let device = facts.devices.iter().find(|d| d.ident.hardware == dm_uuid);
                let node = format!("/dev/mapper/{}", pair.name());
                Ok(device.and_then(|d| DeviceNode::of(&d.ident.text.name, node, d.object())))
            }
        }
    }

    /// Makes udev and UDisks2 handle both devices again: their rules depend on the mappings above a device.
    async fn look_again(&self, pair: &Pair) {
        for ident in [&pair.origin, &pair.ssd] {
            if let Ok(device) = self.locate(ident).await {
                let node = device.ident.node();
                if let Ok(Err(e)) = blocking(move || wipe::trigger_udev(&node)).await {
                    tracing::warn!(
                        "cannot have {} looked at again: {e}",
                        device.ident.text.name
                    );
                }
            }
        }
    }
}

pub(super) fn step(detail: &str) -> Failure {
    Failure::new(Kind::StepFailed).detail(detail)
}

fn failed(e: DmFailure) -> Failure {
    step(&e.to_string())
}

pub(crate) async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(f)
        .await
        .map_err(|e| Failure::new(Kind::Internal).detail(e))
}

/// Waits until the condition is true, and returns whether it became true.
async fn shown(f: impl Fn() -> Result<bool, Failure>, limit: Duration) -> Result<bool, Failure> {
    let begun = tokio::time::Instant::now();
    loop {
        if f()? {
            return Ok(true);
        }
        if begun.elapsed() > limit {
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Passes on every event of device-mapper until the control device fails.
async fn follow(events: &Notify) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let control = Control::open()?;
    let file = control.file().as_fd().try_clone_to_owned()?;
    // SAFETY: the descriptor is owned by the AsyncFd, which keeps it open as long as it lives.
    let poll = unsafe { AsyncFd::register_with_interest(file, Interest::READABLE)? };
    loop {
        control.arm()?;
        let mut ready = poll.readable().await?;
        ready.clear_ready();
        events.notify_one();
    }
}

#[async_trait]
impl Computer for DeviceMapper {
    fn name(&self) -> &'static str {
        "device-mapper"
    }

    fn boot_id(&self) -> String {
        crate::machine::blocks::boot_id()
    }

    async fn changed(&self) {
        self.events.notified().await;
    }

    async fn change_names(&self, changes: &[NameChange]) -> Result<String, Failure> {
        names::change(&self.connection, changes).await
    }

    async fn drain_at_shutdown(&self) -> Result<(), Failure> {
        systemd::start(&self.connection, DRAIN_UNIT).await
    }

    async fn tell_sleep(&self) {
        let told = blocking(|| hibernation::tell_systemd(Path::new("/"))).await;
        if let Ok(Err(e)) = told {
            tracing::error!("systemd is not told whether the computer may hibernate: {e}");
        }
    }
}
