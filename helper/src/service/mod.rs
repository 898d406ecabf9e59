// SPDX-License-Identifier: GPL-3.0-or-later
//! Manages the plans that were given out, the jobs that run and the caches that are shown.
//!
//! Locks: `inner` is a plain lock, is never held across an await, and is taken last. Each other lock serialises the
//! work that its name says. `recovering` is taken before `refreshing`, and `recording` and `module` after both; no code
//! holds these two at the same time.

pub mod apply;
mod attempts;
pub mod auth;
mod away;
mod caches;
mod confirm;
pub mod connection;
mod devices;
mod disk;
mod execute;
mod found;
pub mod history;
mod iface;
mod inhibit;
mod jobs;
mod kernels;
mod memory;
mod module;
mod names;
mod offers;
mod other_history;
mod others;
mod plans;
pub(crate) mod queue;
mod reading;
mod removals;
mod risk;
pub mod sampler;
mod speed;
pub mod speed_test;
mod steps;
mod tune;
mod watches;

use self::attempts::Attempts;
use self::jobs::Jobs;
use self::memory::MemoryRoom;
use self::module::ModuleView;
use self::offers::Offers;
use self::other_history::OtherHistories;
use self::queue::{Caller, QueueSlot, Queues};
use self::reading::Reading;
use self::speed::{RunningTest, Tests};
use self::watches::Watches;
use crate::host::Host;
use crate::machine::store::Store;
use crate::model::action::Pair;
use crate::model::facts::{Facts, Ident};
use crate::service::iface::bounded::Bounded;
use crate::service::iface::manager::ManagerObject;
use crate::service::sampler::Sampler;
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tandem_api::{BUS_NAME, Failure, FoundCache, JudgedDevice, OtherCache, ROOT_PATH};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use zbus::Connection;
use zbus::message::Header;
use zbus::object_server::{InterfaceRef, SignalEmitter};

/// The service exits after this time without a call, a cache and a watched disk.
const IDLE: Duration = Duration::from_secs(60);
/// Time between two questions to another system whether something is still to be put back, while nothing else is to be done.
const ASKS: Duration = Duration::from_secs(600);
/// Least time between two refreshes, so that many events do not cause as many signals.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// Time between two attempts to finish or undo an unfinished job; the attempts may themselves cause events.
const RETRY: Duration = Duration::from_secs(60);

/// A cache that is shown.
struct Shown {
    pair: Pair,
    sampler: Arc<Sampler>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Inner {
    offers: Offers,
    jobs: Jobs,
    shown: BTreeMap<String, Shown>,
    /// The last attempts to put caches over their disks.
    attempts: Attempts,
    /// How the mappings over disks that can be unplugged are used, by the UUIDs of their caches.
    uses: BTreeMap<String, away::Use>,
    /// The disks whose caches (by UUID) were stopped, so that they can be unplugged.
    put_away: BTreeMap<String, Ident>,
    /// Length in sectors of the mappings (by UUID of the cache) that the service has tried to make as long as their
    /// grown disks.
    grown: BTreeMap<String, u64>,
    /// Bytes of the SSDs (by UUID of the cache) that the service has tried to use whole.
    grown_ssds: BTreeMap<String, u64>,
    /// Whether caches may keep their memory, or have it again.
    memory: MemoryRoom,
    /// The wear of drives in percent, by their object paths, with the time at which it was read.
    worn: BTreeMap<String, (u64, i32)>,
    /// Kernels that may start next and lack the module, as last signalled.
    kernels: Vec<String>,
    /// The module and its key, as last looked at.
    module: ModuleView,
    /// The caches without a record, as last signalled.
    found: Vec<FoundCache>,
    /// The caches of other systems, as last signalled.
    others: Vec<OtherCache>,
    /// What they did in the last hour.
    other_histories: OtherHistories,
    /// The judgement on each device, as last signalled.
    judged: Vec<JudgedDevice>,
    /// The devices, as the last refresh has found them.
    devices: Arc<Facts>,
    touched: Option<Instant>,
    /// The speed test that runs.
    test: Option<RunningTest>,
}

/// The service.
pub struct Service {
    host: Arc<dyn Host>,
    store: Store,
    connection: Connection,
    inner: Mutex<Inner>,
    refreshing: tokio::sync::Mutex<()>,
    queues: Arc<Queues>,
    reading: Arc<Reading>,
    tests: Tests,
    watches: Watches,
    /// Held during a recovery: one runs at a time.
    recovering: tokio::sync::Mutex<()>,
    /// Held from the query of the module's status until the record is written, and never longer.
    recording: tokio::sync::Mutex<()>,
    /// When the whole module was last looked at. Held from a look at the module until its changes are signalled.
    module: tokio::sync::Mutex<Option<Instant>>,
    /// Calls that are being answered, some of which wait for a person to authenticate.
    calls: AtomicUsize,
    again: Notify,
    /// A refresh has found the devices.
    others_again: Notify,
    /// The first look at the caches of other systems is over.
    others_looked: Notify,
}

/// Keeps the service from exiting while a call is answered.
pub(crate) struct Call<'a>(&'a Service);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
        self.0.note_activity();
    }
}

impl Service {
    /// A service that is not started yet.
    fn new(host: Arc<dyn Host>, store: Store, connection: Connection) -> Self {
        Self {
            host,
            store,
            connection,
            inner: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            queues: Arc::default(),
            reading: Arc::default(),
            tests: Tests::default(),
            watches: Watches::default(),
            recovering: tokio::sync::Mutex::default(),
            recording: tokio::sync::Mutex::default(),
            module: tokio::sync::Mutex::default(),
            calls: AtomicUsize::new(0),
            again: Notify::new(),
            others_again: Notify::new(),
            others_looked: Notify::new(),
        }
    }

    /// Finishes or undoes unfinished jobs, shows the caches that exist, and then takes the bus name, so that no
    /// client sees a state in between.
    ///
    /// # Errors
    /// If the bus refuses the name or an object.
    pub async fn start(
        host: Arc<dyn Host>,
        store: Store,
        connection: Connection,
    ) -> zbus::Result<Arc<Self>> {
        let this = Arc::new(Self::new(host, store, connection.clone()));
        this.note_activity();
        let server = connection.object_server();
        let objects = Bounded::new(zbus::fdo::ObjectManager, this.queues.clone());
        server.at(ROOT_PATH, objects).await?;
        let manager = Bounded::new(ManagerObject(this.clone()), this.queues.clone());
        server.at(ROOT_PATH, manager).await?;
        // The recovery may wait for a check of a file system, so the records are followed beside it.
        tokio::spawn(this.clone().follow_risk());
        this.recover().await;
        this.take_up_removals().await;
        this.load_watches().await;
        tokio::spawn(this.clone().follow_others());
        let seen = this.refresh().await;
        this.others_known().await;
        this.look_at_kernels().await;
        this.look_at_module(false).await?;
        connection.request_name(BUS_NAME).await?;
        tokio::spawn(this.clone().follow_machine(seen));
        tokio::spawn(this.clone().follow_names());
        tokio::spawn(this.clone().tell_watches());
        tokio::spawn(this.clone().follow_memory());
        Ok(this)
    }

    /// Requests a refresh, for a change that causes no event.
    pub(crate) fn look_again(&self) {
        self.again.notify_one();
    }

    /// Signals a change of a property. `what`: for the log if that fails.
    pub(super) async fn tell(
        &self,
        what: &str,
        signal: impl AsyncFnOnce(&ManagerObject, &SignalEmitter<'_>) -> zbus::Result<()>,
    ) {
        let told = async {
            let manager = self.manager().await?;
            signal(&*manager.get().await, manager.signal_emitter()).await
        };
        if let Err(e) = told.await {
            tracing::warn!("cannot tell of {what}: {e}");
        }
    }

    pub(super) async fn manager(&self) -> zbus::Result<InterfaceRef<Bounded<ManagerObject>>> {
        self.connection.object_server().interface(ROOT_PATH).await
    }

    /// The host.
    pub fn host(&self) -> &dyn Host {
        &*self.host
    }

    /// The records.
    pub(crate) fn store(&self) -> Store {
        self.store.clone()
    }

    /// Saves the long histories of all caches, and what was seen of the watched disks. To be called before the program
    /// ends.
    pub async fn finish(&self) {
        self.end_watches().await;
        for (uuid, shown) in &self.inner().shown {
            shown.sampler.save_history(&self.store, uuid, true);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the time of a call.
    pub fn note_activity(&self) {
        self.inner().touched = Some(Instant::now());
    }

    /// User id of a caller.
    pub(crate) async fn uid(&self, header: &Header<'_>) -> Result<u32, Failure> {
        auth::sender_uid(&self.connection, header).await
    }

    /// The caller. Its call counts as open until the result is dropped.
    ///
    /// # Errors
    /// `TooMany` open calls; `NotAuthorized` if the bus does not know the caller.
    pub(crate) async fn caller(&self, header: &Header<'_>) -> Result<Caller, Failure> {
        let uid = auth::sender_uid(&self.connection, header).await?;
        self.queues.caller(uid)
    }

    /// Waits for the caller's turn to get a plan or a history, and returns it.
    ///
    /// # Errors
    /// As [`Self::caller`].
    pub(crate) async fn queue_slot(&self, header: &Header<'_>) -> Result<QueueSlot, Failure> {
        self.caller(header).await?.queue_slot().await
    }

    /// Counts a call until the result is dropped.
    pub(crate) fn call(&self) -> Call<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Call(self)
    }

    /// Returns when the service has nothing left to do and has released the bus name.
    pub async fn until_idle(self: &Arc<Self>) {
        let mut asked: Option<Instant> = None;
        let idle = || {
            let inner = self.inner();
            let quiet = inner.touched.is_none_or(|at| at.elapsed() > IDLE);
            let called = self.calls.load(Ordering::SeqCst) > 0;
            quiet && !inner.offers.any_is_valid() && !called && inner.jobs.is_empty()
        };
        // The records are checked, not the shown caches: those may be out of date.
        let records = || {
            let store = &self.store;
            !store.intents().is_empty() || !store.caches().is_empty() || !store.watches().is_empty()
        };
        loop {
            tokio::time::sleep(IDLE / 12).await;
            if !idle() || records() || asked.is_some_and(|at| at.elapsed() < ASKS) {
                continue;
            }
            let waits = self.awaits_a_cache().await;
            if waits && asked.is_none() {
                // A mode that could not be put back is tried once more.
                self.take_up_removals_of(&self.other_caches()).await;
            }
            asked = Some(Instant::now());
            // The question may have taken a while.
            if !waits && idle() && !records() {
                break;
            }
        }
        let _ = self.connection.release_name(BUS_NAME).await;
        // Calls that the bus delivered before the release are still answered.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    async fn follow_machine(self: Arc<Self>, mut seen: bool) {
        let mut tried = Instant::now();
        loop {
            let unfinished = !seen || !self.store.intents().is_empty();
            tokio::select! {
                // follow_risk notifies this, too.
                () = self.again.notified() => {}
                // The cause of a failure may pass without an event.
                () = tokio::time::sleep(RETRY), if unfinished => {}
            }
            seen = self.refresh().await;
            if self.waits_for_kernels() {
                self.look_at_kernels().await;
            }
            let intents = self.store.intents();
            let waits = intents.iter().any(|i| i.draining().is_some());
            if waits || (tried.elapsed() >= RETRY && !intents.is_empty()) {
                // A job that could not be finished or undone before may be possible now.
                self.recover().await;
                tried = Instant::now();
            }
            tokio::time::sleep(REFRESH_INTERVAL).await;
        }
    }

    /// Ends the watching and the speed tests of programs that left the bus.
    async fn follow_names(self: Arc<Self>) {
        let follow = async {
            let bus = zbus::fdo::DBusProxy::new(&self.connection).await?;
            let mut lost = bus.receive_name_owner_changed_with_args(&[(2, "")]).await?;
            while let Some(signal) = lost.next().await {
                let Ok(args) = signal.args() else { continue };
                let name = args.name().as_str();
                self.end_test_of(name);
                for shown in self.inner().shown.values() {
                    shown.sampler.unwatch(name);
                }
            }
            zbus::Result::Ok(())
        };
        if let Err(e) = follow.await {
            tracing::error!("cannot follow the names on the bus: {e}");
        }
    }
}
