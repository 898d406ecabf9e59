// SPDX-License-Identifier: GPL-3.0-or-later
//! The engine over a real machine: device-mapper, UDisks2, systemd and the kernel's own files.

pub(crate) mod guards;
mod mapping;
mod mounting;
mod partitions;
mod ssd;
mod timing;

use self::guards::DeviceNode;
use super::{Engine, LiveMapping, Status};
use crate::action::{Action, MountDevice, Pair};
use crate::boot::late::Marks;
use crate::disks;
use crate::dm::control::{Control, DmFailure};
use crate::dm::message::{Flush, Message};
use crate::facts::{Device, Facts, Ident};
use crate::module::{self, problem};
use crate::mounts::systemd;
use crate::speed::{Pass, Work};
use crate::watch::{self, Requests, TRACEFS, Watch, Watched};
use crate::{hibernation, initramfs, kernels, names, smart, wipe};
use async_trait::async_trait;
use futures_util::StreamExt;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tandem_api::udisks::UDISKS;
use tandem_api::{
    Failure, FileUser, Kind, Mode, ModuleProblem, ModuleState, NameChange, SigningKey,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, Semaphore};
use zbus::{Connection, MatchRule, MessageStream};

/// How long UDisks2 and the mount table may take to show a change.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Writes back at a shutdown. Where the first cache was made after the start of the machine, the unit is not active yet.
const DRAIN_UNIT: &str = "tandem-drain.service";
const PAUSE: Duration = Duration::from_millis(100);
const MAX_SEARCHES: usize = 4;

/// The real engine.
pub struct DeviceMapper {
    connection: Connection,
    events: Arc<Notify>,
    listening: Arc<AtomicBool>,
    /// Searches for the users of a file system at a time: each keeps a thread as long as it takes.
    searches: Arc<Semaphore>,
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
    async fn locate(&self, ident: &Ident) -> Result<Device, Failure> {
        let facts = self.facts().await?;
        let found = facts.locate(ident, &crate::machine::boot_id()).cloned();
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

fn step(detail: &str) -> Failure {
    Failure::new(Kind::StepFailed).detail(detail)
}

fn failed(e: DmFailure) -> Failure {
    step(&e.to_string())
}

async fn blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
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
impl Engine for DeviceMapper {
    fn name(&self) -> &'static str {
        "device-mapper"
    }

    fn kernel(&self) -> String {
        module::release()
    }

    fn boot_id(&self) -> String {
        crate::machine::boot_id()
    }

    async fn module_state(&self) -> ModuleState {
        module::state()
    }

    async fn module_problem(&self) -> (ModuleProblem, String) {
        let look = || problem::of(Path::new("/"), &module::release(), module::state());
        let none = (ModuleProblem::None, String::new());
        blocking(look).await.unwrap_or(none)
    }

    async fn signing_key(&self) -> SigningKey {
        let look = || problem::signing_key(Path::new("/"), module::refuses_unsigned());
        blocking(look).await.unwrap_or(SigningKey::Unknown)
    }

    async fn enroll_key(&self, password: &str) -> Result<(), Failure> {
        let password = password.to_owned();
        blocking(move || problem::enroll(Path::new("/"), &password))
            .await?
            .map_err(|e| step(&e))
    }

    async fn change_names(&self, changes: &[NameChange]) -> Result<String, Failure> {
        names::change(&self.connection, changes).await
    }

    async fn kernels_without_module(&self) -> Vec<String> {
        let root = Path::new("/");
        let signed = module::refuses_unsigned();
        crate::waiting(|| kernels::without_module(root, &module::release(), signed))
    }

    async fn facts(&self) -> Result<Facts, Failure> {
        disks::facts(&self.connection).await
    }

    async fn blank(&self, device: &Device) -> Result<bool, Failure> {
        let (node, size) = (device.ident.node(), device.ident.text.size);
        blocking(move || wipe::is_blank(&node, size))
            .await?
            .map_err(|e| step(&e.to_string()).device(&device.ident.text))
    }

    async fn claimed(&self, device: &Device) -> Result<bool, Failure> {
        let node = device.ident.node();
        blocking(move || wipe::is_claimed(&node))
            .await?
            .map_err(|e| step(&e.to_string()).device(&device.ident.text))
    }

    async fn used_percent(&self, device: &Device) -> Result<Option<i32>, Failure> {
        let Some(drive) = &device.drive else {
            return Ok(None);
        };
        let text = &device.ident.text;
        let asked = smart::used_percent(&self.connection, drive, &text.model);
        let answer = tokio::time::timeout(CHANGE_TIMEOUT, asked).await;
        let answer = answer.map_err(|_| step("UDisks2 does not answer").device(text))?;
        answer.map_err(|e| step(&e.to_string()).device(text))
    }

    async fn users(&self, device: &Device) -> Vec<FileUser> {
        match DeviceNode::of(
            &device.ident.text.name,
            device.ident.node(),
            device.object(),
        ) {
            Some(place) => self.users_of(&place, &device.mounts).await,
            None => Vec::new(),
        }
    }

    async fn apply(&self, action: &Action) -> Result<(), Failure> {
        match action {
            Action::LoadModule => {
                module::load(&self.connection).await?;
                self.listen();
                Ok(())
            }
            Action::Unmount(device, mount) => self.unmount(device, mount).await,
            Action::Mount(device, mount) => self.mount(device, mount).await,
            Action::Erase(ident) => self.erase(ident).await,
            Action::Map(pair) => self.map(pair, true).await,
            Action::Prepare(pair) => self.prepare(pair).await,
            Action::UpdateInitramfs(_) => initramfs::update(&self.connection).await,
            Action::Assemble(pair) => self.map(pair, false).await,
            Action::Detach(pair) => self.detach(pair).await,
            Action::FreeSsd(pair) => self.free(pair).await,
            Action::CreatePartition(pair) => self.create_partition(pair).await,
            Action::DeletePartition(pair) => self.delete_partition(pair).await,
            Action::Unmap(pair) => self.unmap(pair).await,
            Action::Disassemble(pair) => self.disassemble(pair).await,
            Action::Hold(pair) => self.hold(pair).await,
            Action::EnableWriteback(pair) => {
                self.send_message(&pair.uuid, Message::Mode(Mode::Writeback))
                    .await
            }
            Action::Drain(pair) => {
                self.send_message(&pair.uuid, Message::Flush(Flush::Start))
                    .await
            }
        }
    }

    async fn mount_left_out(&self, pair: &Pair) {
        self.mount_left(pair).await;
    }

    fn hold_at_return(&self, uuid: &str, hold: bool) {
        let marks = Marks::default();
        match hold {
            true if marks.has(uuid) => {}
            true => {
                if let Err(e) = marks.set(uuid) {
                    tracing::error!(
                        uuid,
                        "a disk that comes back is held by the service only: {e}"
                    );
                }
            }
            false => marks.clear(uuid),
        }
    }

    async fn send_message(&self, uuid: &str, message: Message) -> Result<(), Failure> {
        let uuid = uuid.to_owned();
        blocking(move || Control::open()?.send_message(&uuid, message))
            .await?
            .map_err(failed)
    }

    async fn drain_at_shutdown(&self) -> Result<(), Failure> {
        systemd::start(&self.connection, DRAIN_UNIT).await
    }

    async fn grow(&self, uuid: &str, sectors: u64) -> Result<(), Failure> {
        let uuid = uuid.to_owned();
        blocking(move || Control::open()?.grow(&uuid, sectors))
            .await?
            .map_err(failed)
    }

    async fn live_mappings(&self) -> Result<Vec<LiveMapping>, Failure> {
        // Without device-mapper there are no mappings.
        blocking(|| {
            Control::open()
                .and_then(|c| c.live_mappings())
                .or_else(|e| {
                    if Path::new("/dev/mapper/control").exists() {
                        Err(e)
                    } else {
                        Ok(Vec::new())
                    }
                })
        })
        .await?
        .map_err(failed)
    }

    async fn status(&self, uuid: &str) -> Result<Status, Failure> {
        let uuid = uuid.to_owned();
        let line = blocking(move || Control::open()?.status(&uuid))
            .await?
            .map_err(failed)?;
        if !line.is_complete() {
            return Err(step("the mapping's table is being replaced"));
        }
        Ok(line.status(crate::clock::boottime_us()))
    }

    async fn timed_reads(&self, device: &Device, pass: &Pass) -> Result<Vec<Duration>, Failure> {
        timing::timed_reads(device, pass).await
    }

    async fn disk_work(&self, device: &Device) -> Option<Work> {
        let name = device.ident.text.name.clone();
        blocking(move || crate::speed::disk_work(&name))
            .await
            .ok()?
    }

    async fn requests(&self, device: &Device) -> Result<Box<dyn Requests>, Failure> {
        let (text, device) = (device.ident.text.clone(), device.clone());
        let start = move || {
            let watched = Watched::of(&device).ok_or(std::io::ErrorKind::NotFound)?;
            Watch::start(Path::new(TRACEFS), watched)
        };
        match blocking(start).await? {
            Ok(watch) => Ok(Box::new(watch)),
            Err(e) => Err(step(&format!("tracefs: {e}")).device(&text)),
        }
    }

    async fn tell_sleep(&self) {
        let told = blocking(|| hibernation::tell_systemd(Path::new("/"))).await;
        if let Ok(Err(e)) = told {
            tracing::error!("systemd is not told whether the computer may hibernate: {e}");
        }
    }

    async fn changed(&self) {
        self.events.notified().await;
    }
}
