// SPDX-License-Identifier: GPL-3.0-or-later
//! Speed tests: one at a time on the machine. A job with one of the devices comes first and ends the test.

use super::Service;
use super::jobs::shared;
use super::plans::mapped;
use crate::decide::plan;
use crate::host::reads::Slot;
use crate::machine::clock::unix_seconds;
use crate::model::facts::Ident;
use crate::service::auth::{self, Permission};
use crate::service::iface::manager::ManagerObject;
use crate::service::speed_test::{self, CacheTarget, Target};
use std::sync::Arc;
use std::time::Duration;
use tandem_api::{DeviceText, Failure, Kind, ROOT_PATH, SECTOR_BYTES, SpeedTest};
use tokio::sync::{Semaphore, watch};
use zbus::OwnedObjectPath;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;

/// How long a job waits for the last read of a test that it has ended. A mapping cannot be removed while a read of the
/// test is in progress; a device that does not answer for so long makes the job fail anyway.
const LAST_READ: Duration = Duration::from_secs(3);

/// The right to test, which the test that runs has.
pub(super) struct Tests {
    slot: Arc<Semaphore>,
}

impl Default for Tests {
    fn default() -> Self {
        Self {
            slot: Arc::new(Semaphore::new(1)),
        }
    }
}

/// The test that runs.
pub(super) struct RunningTest {
    uid: u32,
    /// Unique bus name of the caller.
    sender: String,
    devices: [Ident; 2],
    /// The reason why the test has to end.
    end: watch::Sender<Option<Failure>>,
}

impl RunningTest {
    fn end(&self, failure: Failure) {
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            end.get_or_insert(failure);
            first
        });
    }

    /// Ends the test if it uses one of these devices. Returns whether it does.
    pub(super) fn make_way(&self, devices: &[Ident; 2]) -> bool {
        let uses = shared(&self.devices, devices);
        if uses {
            let failure = Failure::new(Kind::SpeedTestFailed).name("changed");
            self.end(failure.device(&self.devices[0].text));
        }
        uses
    }
}

/// Removes the test from the service when it is dropped.
struct Registered<'a>(&'a Service);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.inner().test = None;
    }
}

impl Service {
    /// `Cache.TestSpeed`.
    pub(crate) async fn test_cache(
        self: &Arc<Self>,
        header: &Header<'_>,
        uuid: &str,
    ) -> Result<SpeedTest, Failure> {
        let _call = self.call();
        let caller = self.caller(header).await?;
        self.permitted(header, uuid, Permission::TestSpeed).await?;

        let (record, status) = self.working(uuid).await?;
        // A paused cache would store nothing of what the test reads.
        if status.sample.paused() == Some(true) {
            return Err(Failure::new(Kind::WrongState).name("paused"));
        }
        let (facts, pair) = (self.host.facts().await?, record.pair);
        let gone = |text: &DeviceText| Failure::new(Kind::DeviceGone).device(text);
        let origin = facts.same_hardware(&pair.origin);
        let ssd = facts.same_hardware(&pair.ssd);
        let frames = status.sample.frames_total;
        let bytes = frames.saturating_mul(status.sample.frame_sectors);
        let target = Target {
            disk: origin.ok_or_else(|| gone(&pair.origin.text))?.clone(),
            cache: Some(CacheTarget {
                uuid: uuid.to_owned(),
                mapping: mapped(&facts, &pair)
                    .ok_or_else(|| gone(&pair.origin.text))?
                    .clone(),
                ssd: ssd.ok_or_else(|| gone(&pair.ssd.text))?.clone(),
                bytes: bytes.saturating_mul(SECTOR_BYTES),
                mode: status.mode,
            }),
        };
        let devices = [pair.origin.clone(), pair.ssd.clone()];
        let result = self.test(header, caller.uid, target, devices).await?;
        self.keep_result(uuid, &result).await;
        Ok(result)
    }

    /// `Manager.TestSpeed`.
    pub(crate) async fn test_disk(
        self: &Arc<Self>,
        header: &Header<'_>,
        disk: &OwnedObjectPath,
    ) -> Result<SpeedTest, Failure> {
        let _call = self.call();
        let caller = self.caller(header).await?;
        let (shown, _) = self.shown_device(header, disk).await?;
        plan::readable_alone(&shown)?;
        let (text, nothing) = (&shown.ident.text, DeviceText::none());
        auth::check(
            &self.connection,
            header,
            Permission::TestSpeed,
            text,
            &nothing,
        )
        .await?;
        // The answer of the user may have taken minutes.
        let device = plan::find(&self.host.facts().await?, disk)?.clone();
        if !device.ident.same_device(&shown.ident) {
            return Err(Failure::new(Kind::DeviceChanged).device(text));
        }
        plan::readable_alone(&device)?;
        let devices = [device.ident.clone(), device.ident.clone()];
        let target = Target {
            disk: device,
            cache: None,
        };
        self.test(header, caller.uid, target, devices).await
    }

    /// `Manager.CancelSpeedTest`.
    pub(crate) async fn cancel_test(&self, header: &Header<'_>) -> Result<(), Failure> {
        let uid = auth::sender_uid(&self.connection, header).await?;
        let inner = self.inner();
        let Some(test) = &inner.test else {
            return Ok(());
        };
        if uid != test.uid && uid != 0 {
            return Err(Failure::new(Kind::NotAuthorized).detail("not the test's owner"));
        }
        test.end(Failure::new(Kind::Cancelled));
        Ok(())
    }

    /// Ends the test of a program that has left the bus.
    pub(super) fn end_test_of(&self, name: &str) {
        if let Some(test) = &self.inner().test
            && test.sender == name
        {
            test.end(Failure::new(Kind::Cancelled));
        }
    }

    /// Waits until no read of a test is in progress.
    pub(super) async fn wait_for_test(&self) {
        let ended = tokio::time::timeout(LAST_READ, self.tests.slot.acquire()).await;
        if ended.is_err() {
            tracing::warn!("a speed test has ended and its last read has not");
        }
    }

    /// Tests these devices, which the caller may do.
    async fn test(
        &self,
        header: &Header<'_>,
        uid: u32,
        target: Target,
        devices: [Ident; 2],
    ) -> Result<SpeedTest, Failure> {
        let disk = &target.disk.ident.text;
        let busy = || Failure::new(Kind::Busy).device(disk).name("speed-test");
        let sender = header.sender().map(ToString::to_string);
        let permit = self.tests.slot.clone().try_acquire_owned();
        let slot = Arc::new(Slot(permit.map_err(|_| busy())?));
        let (end, mut ended) = watch::channel(None);
        let _registered = {
            let mut inner = self.inner();
            inner.jobs.free(&devices)?;
            inner.test = Some(RunningTest {
                uid,
                sender: sender.unwrap_or_default(),
                devices,
                end,
            });
            Registered(self)
        };
        // The caller may have left the bus before its test could be ended.
        self.uid(header).await?;
        let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
        let (tell, told) = watch::channel(None);
        let run = speed_test::run(self.host(), &target, seed, slot, move |progress| {
            tell.send_replace(Some(progress));
        });
        let result = tokio::select! {
            result = run => result,
            () = self.tell_progress(told) => Err(Failure::new(Kind::Internal)),
            end = ended.wait_for(Option::is_some) => match end {
                Ok(failure) => Err((*failure).clone().unwrap_or_else(Failure::none)),
                Err(e) => Err(Failure::new(Kind::Internal).detail(e)),
            },
        };
        let time = unix_seconds().max(1);
        result.map(|result| SpeedTest { time, ..result })
    }

    /// Emits a signal for each report of the progress, until the reports end. Does not return then, because the test
    /// has its own result.
    async fn tell_progress(&self, mut told: watch::Receiver<Option<speed_test::Progress>>) {
        let Ok(emitter) = SignalEmitter::new(&self.connection, ROOT_PATH) else {
            return;
        };
        while told.changed().await.is_ok() {
            let progress = *told.borrow_and_update();
            if let Some(speed_test::Progress {
                done,
                through_cache,
            }) = progress
                && let Err(e) =
                    ManagerObject::speed_test_progressed(&emitter, done, through_cache).await
            {
                tracing::warn!("cannot tell the progress of a speed test: {e}");
            }
        }
        std::future::pending().await
    }
}
