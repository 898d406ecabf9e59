// SPDX-License-Identifier: GPL-3.0-or-later
//! The only place that speaks D-Bus: commands go down as calls, facts come up through the two `follow` functions.
//!
//! Every function is asynchronous and is awaited on the main context of GLib; none blocks it. Errors are always a
//! [`Failure`], so that there is one road from a failed call to the words on the screen.

mod mirror;
mod others;
mod spec;
mod tandem;
mod udisks;

use std::pin::pin;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use tandem_api::{
    CacheProxy, DirtyLimit, Failure, FoundCache, JobProxy, Kind, LongHistory, ManagerProxy, Mode,
    NameChange, PlanReply, PlanSpec, Sample, Span, SpeedTest, SsdPart,
};
use zbus::{Connection, OwnedObjectPath, proxy::CacheProperties};

use crate::display::SYSTEM_BUS;
use crate::model::facts::ServiceFacts;
use crate::model::inventory::Snapshot;
use mirror::News;
pub use spec::{draft_spec, whole_spec};

/// News from the service.
#[derive(Debug)]
pub enum ServiceEvent {
    /// All facts of the service, told after each change.
    Facts(ServiceFacts),
    /// A sample of the cache at this object path.
    Sampled(String, Sample),
    /// The service has left the bus; the service leaves when there is nothing to do.
    Left,
    /// The service could not be reached.
    Failed(Failure),
}

/// What a speed test reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpeedTarget {
    /// The cache at this object path, and its disk.
    Cache(String),
    /// The disk at this block path, without a cache.
    Disk(String),
}

/// A connection to the system bus.
#[derive(Clone, Debug)]
pub struct Client {
    connection: Connection,
}

impl Client {
    /// Connects to the system bus.
    ///
    /// # Errors
    /// There is no system bus.
    pub async fn connect() -> Result<Self, Failure> {
        let connection = Connection::system().await.map_err(|error| {
            Failure::new(Kind::ServiceUnavailable)
                .name(SYSTEM_BUS)
                .detail(error)
        })?;
        Ok(Self { connection })
    }

    /// Calls `tell` with what UDisks2 shows, now and after every change, until the connection ends.
    pub async fn follow_disks(&self, mut tell: impl FnMut(Result<Snapshot, Failure>)) {
        mirror::follow(&self.connection, udisks::SOURCE, |news| match news {
            News::Objects(objects) => tell(Ok(udisks::snapshot(objects))),
            News::Left | News::Signal(_) => {}
            News::Failed(error) => {
                tell(Err(Failure::new(Kind::ServiceUnavailable)
                    .name("UDisks2")
                    .detail(error)));
            }
        })
        .await;
    }

    /// Calls `tell` with what the service tells, now and after every change, until the connection ends.
    pub async fn follow_service(&self, mut tell: impl FnMut(ServiceEvent)) {
        mirror::follow(&self.connection, tandem::SOURCE, |news| match news {
            News::Objects(objects) => match tandem::service(objects) {
                Some(facts) => tell(ServiceEvent::Facts(facts)),
                None => tell(ServiceEvent::Failed(
                    Failure::new(Kind::InvalidArgument).detail("no manager object"),
                )),
            },
            News::Signal(message) => {
                if let Some((path, sample)) = Sample::told_by(message) {
                    tell(ServiceEvent::Sampled(path, sample));
                }
            }
            News::Left => tell(ServiceEvent::Left),
            News::Failed(error) => tell(ServiceEvent::Failed(error.into())),
        })
        .await;
    }

    /// Has the bus start the service if it has left, and the service stay for a while.
    ///
    /// # Errors
    /// The service does not answer.
    pub async fn wake(&self) -> Result<(), Failure> {
        self.manager().await?.other_caches().await?;
        Ok(())
    }

    /// Asks what creating a cache would do exactly. Changes nothing.
    ///
    /// # Errors
    /// Why the cache cannot be created.
    pub async fn plan(&self, spec: &PlanSpec) -> Result<PlanReply, Failure> {
        Ok(self.manager().await?.plan(spec).await?)
    }

    /// Asks how a whole SSD is divided.
    ///
    /// # Errors
    /// The SSD is gone, or cannot be divided.
    pub async fn ssd_layout(&self, ssd: &str) -> Result<Vec<SsdPart>, Failure> {
        Ok(self.manager().await?.ssd_layout(&path(ssd)?).await?)
    }

    /// Executes a plan and returns the path of its job. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the job was not begun.
    pub async fn create(&self, plan: &PlanReply) -> Result<String, Failure> {
        let job = self
            .manager()
            .await?
            .create(&plan.plan_id, &plan.digest)
            .await?;
        Ok(job.to_string())
    }

    /// Asks what removing a cache would do exactly. Changes nothing.
    ///
    /// # Errors
    /// Why the cache cannot be removed.
    pub async fn plan_remove(&self, cache: &str) -> Result<PlanReply, Failure> {
        Ok(self.cache(cache).await?.plan_remove().await?)
    }

    /// Executes the plan of a removal and returns the path of its job. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the job was not begun.
    pub async fn remove(&self, cache: &str, plan: &PlanReply) -> Result<String, Failure> {
        let job = self
            .cache(cache)
            .await?
            .remove(&plan.plan_id, &plan.digest)
            .await?;
        Ok(job.to_string())
    }

    /// Asks what removing a cache would do exactly if the data that is only on the SSD were given up. Changes nothing.
    ///
    /// # Errors
    /// Why the cache cannot be removed in that way.
    pub async fn plan_discard(&self, cache: &str) -> Result<PlanReply, Failure> {
        Ok(self.cache(cache).await?.plan_discard().await?)
    }

    /// Asks what another size of a cache would mean exactly. Changes nothing.
    ///
    /// # Errors
    /// Why the cache cannot have that size.
    pub async fn plan_resize(&self, cache: &str, bytes: u64) -> Result<PlanReply, Failure> {
        Ok(self.cache(cache).await?.plan_resize(bytes).await?)
    }

    /// Executes the plan of another size and returns the path of its job. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the job was not begun.
    pub async fn resize(&self, cache: &str, plan: &PlanReply) -> Result<String, Failure> {
        let cache = self.cache(cache).await?;
        let job = cache.resize(&plan.plan_id, &plan.digest).await?;
        Ok(job.to_string())
    }

    /// Changes the mode of a cache. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the mode is not changed.
    pub async fn set_mode(&self, cache: &str, mode: Mode) -> Result<(), Failure> {
        Ok(self.cache(cache).await?.set_mode(mode).await?)
    }

    /// Sets how many minutes a shutdown may take to write everything to the disk; 0: it does not do that. Waits while the
    /// user authenticates.
    ///
    /// # Errors
    /// Why the setting is as before.
    pub async fn set_shutdown_minutes(&self, cache: &str, minutes: u32) -> Result<(), Failure> {
        let cache = self.cache(cache).await?;
        Ok(cache.set_shutdown_minutes(minutes).await?)
    }

    /// Sets how much data of a cache may be on the SSD only. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the setting is as before.
    pub async fn set_dirty_limit(&self, cache: &str, limit: DirtyLimit) -> Result<(), Failure> {
        Ok(self.cache(cache).await?.set_dirty_limit(limit).await?)
    }

    /// Pauses a cache, or lets it go on. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub async fn set_paused(&self, cache: &str, paused: bool) -> Result<(), Failure> {
        Ok(self.cache(cache).await?.set_paused(paused).await?)
    }

    /// Starts a cache that was stopped so that its disk can be unplugged. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub async fn start(&self, cache: &str) -> Result<(), Failure> {
        Ok(self.cache(cache).await?.start().await?)
    }

    /// Gives a cache a name; an empty one takes the name away. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the name is as before.
    pub async fn set_name(&self, cache: &str, name: &str) -> Result<(), Failure> {
        Ok(self.cache(cache).await?.set_name(name).await?)
    }

    /// Begins to write all dirty data back to the disk. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the flush was not begun.
    pub async fn flush(&self, cache: &str) -> Result<(), Failure> {
        self.cache(cache).await?.flush().await?;
        Ok(())
    }

    /// Has a cache used of which this system has no record.
    ///
    /// # Errors
    /// Why the cache is not used.
    pub async fn take_over(&self, found: &FoundCache) -> Result<(), Failure> {
        let manager = self.manager().await?;
        Ok(manager.take_over(&found.ssd.object, &found.uuid).await?)
    }

    /// Gives up what a cache holds of which this system has no record.
    ///
    /// # Errors
    /// Why nothing was given up.
    pub async fn discard_found(&self, found: &FoundCache) -> Result<(), Failure> {
        let manager = self.manager().await?;
        let ssd = &found.ssd.object;
        Ok(manager.discard_found(ssd, &found.uuid).await?)
    }

    /// Says that a disk is the disk of a cache.
    ///
    /// # Errors
    /// Why it is not on record as that.
    pub async fn confirm_disk(&self, cache: &str, disk: &OwnedObjectPath) -> Result<(), Failure> {
        Ok(self.cache(cache).await?.confirm_disk(disk).await?)
    }

    /// Asks a job to stop and to undo what it did.
    ///
    /// # Errors
    /// The job is over.
    pub async fn cancel(&self, job: &str) -> Result<(), Failure> {
        Ok(self.job(job).await?.cancel().await?)
    }

    /// Pauses a job, or lets it go on.
    ///
    /// # Errors
    /// The job cannot be paused now.
    pub async fn pause(&self, job: &str, pause: bool) -> Result<(), Failure> {
        let proxy = self.job(job).await?;
        if pause {
            proxy.pause().await?;
        } else {
            proxy.resume().await?;
        }
        Ok(())
    }

    /// Asks for a sample each second, or ends that.
    ///
    /// # Errors
    /// The cache is gone.
    pub async fn watch(&self, cache: &str, watch: bool) -> Result<(), Failure> {
        let proxy = self.cache(cache).await?;
        if watch {
            proxy.watch().await?;
        } else {
            proxy.unwatch().await?;
        }
        Ok(())
    }

    /// Returns the samples that the service kept, oldest first.
    ///
    /// # Errors
    /// The cache is gone.
    pub async fn history(&self, cache: &str) -> Result<Vec<Sample>, Failure> {
        Ok(self.cache(cache).await?.history().await?)
    }

    /// Returns what a cache did in a longer time.
    ///
    /// # Errors
    /// The cache is gone, or the service is older than the window.
    pub async fn long_history(&self, cache: &str, span: Span) -> Result<LongHistory, Failure> {
        Ok(self.cache(cache).await?.long_history(span).await?)
    }

    /// Begins the figures since the set-up of a cache anew, or takes that back (`undo`). Waits while the user
    /// authenticates.
    ///
    /// # Errors
    /// Why the figures are as before.
    pub async fn reset_statistics(&self, cache: &str, undo: bool) -> Result<(), Failure> {
        let cache = self.cache(cache).await?;
        match undo {
            true => Ok(cache.undo_reset_statistics().await?),
            false => Ok(cache.reset_statistics().await?),
        }
    }

    /// Tests the speed. Calls `tell` with the progress, 0 to 1, and whether the test reads through the cache. Returns
    /// after half a minute at the latest.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn test_speed(
        &self,
        target: &SpeedTarget,
        mut tell: impl FnMut(f64, bool),
    ) -> Result<SpeedTest, Failure> {
        let manager = self.manager().await?;
        let mut told = manager.receive_speed_test_progressed().await?;
        let mut test = pin!(async {
            match target {
                SpeedTarget::Cache(cache) => Ok(self.cache(cache).await?.test_speed().await?),
                SpeedTarget::Disk(disk) => Ok(manager.test_speed(&path(disk)?).await?),
            }
        });
        loop {
            match select(test.as_mut(), told.next()).await {
                Either::Left((result, _)) => return result,
                Either::Right((None, _)) => return test.await,
                Either::Right((Some(signal), _)) => {
                    let progress = signal.args()?;
                    tell(progress.done, progress.through_cache);
                }
            }
        }
    }

    /// Ends the speed test that runs, if the user has started it.
    ///
    /// # Errors
    /// The service does not answer.
    pub async fn cancel_speed_test(&self) -> Result<(), Failure> {
        Ok(self.manager().await?.cancel_speed_test().await?)
    }

    /// Has the service watch how a disk is used. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the disk is not watched.
    pub async fn watch_disk(&self, disk: &str) -> Result<(), Failure> {
        self.manager().await?.watch_disk(&path(disk)?).await?;
        Ok(())
    }

    /// Ends the watch with this id; what was seen is forgotten. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the disk is still watched.
    pub async fn stop_watching(&self, id: &str) -> Result<(), Failure> {
        Ok(self.manager().await?.stop_watching(id).await?)
    }

    /// Has the firmware ask at the next start whether to trust the key of the kernel module. Waits while the user
    /// authenticates.
    ///
    /// # Errors
    /// Why the key is not enrolled.
    pub async fn enroll_key(&self, password: &str) -> Result<(), Failure> {
        Ok(self.manager().await?.enroll_key(password).await?)
    }

    /// Says how a file has to be changed before this disk can have a cache.
    ///
    /// # Errors
    /// The disk is gone, or nothing tells its file system from others.
    pub async fn name_changes(&self, disk: &str) -> Result<Vec<NameChange>, Failure> {
        Ok(self.manager().await?.name_changes(&path(disk)?).await?)
    }

    /// Changes that file. Waits while the user authenticates.
    ///
    /// # Errors
    /// Why the file is as before.
    pub async fn change_names(&self, disk: &str, changes: &[NameChange]) -> Result<(), Failure> {
        let manager = self.manager().await?;
        manager.change_names(&path(disk)?, changes).await?;
        Ok(())
    }

    /// Asks logind to restart the computer. Waits while the user authenticates.
    ///
    /// # Errors
    /// logind does not answer, or another program or user keeps the computer from restarting.
    pub async fn restart_computer(&self) -> Result<(), Failure> {
        let may_ask = true;
        let manager = "org.freedesktop.login1.Manager";
        let path = "/org/freedesktop/login1";
        let name = Some("org.freedesktop.login1");
        self.connection
            .call_method(name, path, Some(manager), "Reboot", &may_ask)
            .await?;
        Ok(())
    }

    async fn manager(&self) -> Result<ManagerProxy<'static>, Failure> {
        Ok(ManagerProxy::builder(&self.connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await?)
    }

    async fn job(&self, job: &str) -> Result<JobProxy<'static>, Failure> {
        Ok(JobProxy::builder(&self.connection)
            .path(path(job)?)
            .cache_properties(CacheProperties::No)
            .build()
            .await?)
    }

    async fn cache(&self, cache: &str) -> Result<CacheProxy<'static>, Failure> {
        Ok(CacheProxy::builder(&self.connection)
            .path(path(cache)?)
            .cache_properties(CacheProperties::No)
            .build()
            .await?)
    }
}

fn path(path: &str) -> zbus::Result<OwnedObjectPath> {
    OwnedObjectPath::try_from(path)
}
