// SPDX-License-Identifier: GPL-3.0-or-later
//! The service that a test calls: a simulated one on a private bus, or the service of this machine.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod flood;
pub mod introspect;

use futures_util::StreamExt;
use std::process::Command;
use std::time::{Duration, Instant};
use tandem_api::*;
use tandem_stage::bus::{self, Running};
use zbus::fdo::ObjectManagerProxy;
use zbus::{Connection, OwnedObjectPath};

/// Time limit of each wait. An emulated machine is slow.
pub const LIMIT: Duration = Duration::from_secs(90);

/// A bus with the service. Dropping this value ends both.
pub struct Machine {
    service: Option<Running>,
    _daemon: Option<Running>,
    state: std::path::PathBuf,
    /// Address of the bus; empty for the bus of this machine.
    pub address: String,
    pub connection: Connection,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The service writes files when it ends, so it ends before the folder is removed.
        self.service = None;
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

impl Machine {
    /// Process id of the service that this test started.
    pub fn pid(&self) -> u32 {
        self.service.as_ref().unwrap().0.id()
    }

    /// The simulated service on a private bus, with quick steps.
    pub async fn simulated() -> Self {
        let (daemon, address) = bus::start();
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let state =
            std::env::temp_dir().join(format!("tandem-test-{}-{number}", std::process::id()));
        let service = begin(&state, &address);
        let connection = zbus::connection::Builder::address(address.as_str())
            .build()
            .await
            .unwrap();
        let this = Self {
            service: Some(service),
            _daemon: Some(daemon),
            state,
            address,
            connection,
        };
        this.answers().await;
        this
    }

    async fn answers(&self) {
        until("the service", async || {
            self.manager().await.version().await.is_ok()
        })
        .await;
        self.simulation().await.set_step_time(1).await.unwrap();
    }

    /// Kills the service, and starts it again with the same records, on a machine at its first start.
    pub async fn restart_service(&mut self) {
        self.service = None;
        self.service = Some(begin(&self.state, &self.address));
        self.answers().await;
    }

    /// A private bus on which the test itself serves, and a second connection to it.
    pub async fn empty() -> (Self, Connection) {
        let (daemon, address) = bus::start();
        let connect = async || {
            zbus::connection::Builder::address(address.as_str())
                .build()
                .await
                .unwrap()
        };
        let this = Self {
            service: None,
            _daemon: Some(daemon),
            state: "/nonexistent".into(),
            address: String::new(),
            connection: connect().await,
        };
        (this, connect().await)
    }

    /// The service of this machine.
    pub async fn real() -> Self {
        let connection = Connection::system().await.unwrap();
        Self {
            service: None,
            _daemon: None,
            state: "/nonexistent".into(),
            address: String::new(),
            connection,
        }
    }

    /// From now on every change of this cache's record fails.
    pub fn no_cache_record(&self, uuid: &str) {
        // The store writes a new record to this path before it replaces the old record.
        let beside = format!("caches/{uuid}.cache.new");
        std::fs::create_dir(self.state.join(beside)).unwrap();
    }

    /// Loses the record of this cache, as a system does that is installed anew.
    pub fn lose_record(&self, uuid: &str) {
        std::fs::remove_file(self.state.join(format!("caches/{uuid}.cache.json"))).unwrap();
    }

    /// From now on every change of this cache's long history fails.
    pub fn no_history(&self, uuid: &str) {
        let beside = format!("history/{uuid}.history.new");
        std::fs::create_dir(self.state.join(beside)).unwrap();
    }

    /// The file with what the advisor of a watch has seen.
    pub fn watch_state(&self, id: &str) -> std::path::PathBuf {
        self.state.join(format!("watches/{id}.advisor.state"))
    }

    pub async fn manager(&self) -> ManagerProxy<'static> {
        // A test needs the present values, not the values that a proxy keeps.
        ManagerProxy::builder(&self.connection)
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await
            .unwrap()
    }

    pub async fn simulation(&self) -> SimulationProxy<'static> {
        SimulationProxy::new(&self.connection).await.unwrap()
    }

    pub async fn caches(&self) -> Vec<CacheProxy<'static>> {
        let manager = ObjectManagerProxy::builder(&self.connection)
            .destination(BUS_NAME)
            .path(ROOT_PATH)
            .build()
            .await
            .unwrap();
        let mut caches = Vec::new();
        for (path, interfaces) in manager.get_managed_objects().await.unwrap() {
            if interfaces.keys().any(|n| n.as_str() == CACHE_INTERFACE) {
                caches.push(
                    CacheProxy::builder(&self.connection)
                        .path(path)
                        .cache_properties(zbus::proxy::CacheProperties::No)
                        .build()
                        .await
                        .unwrap(),
                );
            }
        }
        caches
    }

    pub async fn job(&self, path: OwnedObjectPath) -> JobProxy<'static> {
        JobProxy::builder(&self.connection)
            .path(path)
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await
            .unwrap()
    }

    /// Waits for a job's end.
    pub async fn end(&self, path: OwnedObjectPath) -> Result<(), Failure> {
        let job = self.job(path).await;
        let mut completed = job.receive_completed().await.unwrap();
        let (over, success, failure) = job.finished().await.unwrap();
        if over {
            return if success { Ok(()) } else { Err(failure) };
        }
        let signal = tokio::time::timeout(LIMIT, completed.next())
            .await
            .expect("job ends")
            .unwrap();
        if signal.args().unwrap().success {
            return Ok(());
        }
        let (_, _, failure) = job.finished().await.unwrap();
        Err(failure)
    }

    pub async fn plan(&self, spec: &PlanSpec) -> Result<PlanReply, Failure> {
        self.manager().await.plan(spec).await.map_err(Failure::from)
    }

    pub async fn create(&self, spec: &PlanSpec) -> Result<(), Failure> {
        let plan = self.plan(spec).await?;
        let job = self
            .manager()
            .await
            .create(&plan.plan_id, &plan.digest)
            .await?;
        self.end(job).await
    }

    pub async fn remove(&self, cache: &CacheProxy<'_>) -> Result<(), Failure> {
        let again = |failure: &Failure| failure.kind == Kind::DeviceChanged;
        let mut job = self.begin_removal(cache).await;
        // A job of the service itself may be about to end.
        until("no other job", async || {
            let busy = job
                .as_ref()
                .is_err_and(|failure| failure.kind == Kind::Busy);
            if busy {
                job = self.begin_removal(cache).await;
            }
            !busy
        })
        .await;
        // On a real machine, a program may have mounted or unmounted something since the plan was made. Then a new
        // plan is needed.
        if job.as_ref().is_err_and(again) {
            job = self.begin_removal(cache).await;
        }
        self.end(job?).await
    }

    async fn begin_removal(&self, cache: &CacheProxy<'_>) -> Result<OwnedObjectPath, Failure> {
        let plan = cache.plan_remove().await?;
        Ok(cache.remove(&plan.plan_id, &plan.digest).await?)
    }

    /// Size of a block object as UDisks2 gives it, in bytes.
    pub async fn size(&self, object: &OwnedObjectPath) -> u64 {
        let proxy = zbus::Proxy::new(
            &self.connection,
            "org.freedesktop.UDisks2",
            object.clone(),
            "org.freedesktop.UDisks2.Block",
        );
        proxy.await.unwrap().get_property("Size").await.unwrap()
    }

    pub async fn resize(&self, cache: &CacheProxy<'_>, bytes: u64) -> Result<(), Failure> {
        let plan = cache.plan_resize(bytes).await?;
        self.end(cache.resize(&plan.plan_id, &plan.digest).await?)
            .await
    }

    /// Where UDisks2 says that a block object is mounted.
    pub async fn mounted(&self, object: &str) -> Vec<String> {
        let proxy = zbus::Proxy::new(
            &self.connection,
            "org.freedesktop.UDisks2",
            object.to_owned(),
            "org.freedesktop.UDisks2.Filesystem",
        )
        .await
        .unwrap();
        let points: Vec<Vec<u8>> = proxy.get_property("MountPoints").await.unwrap_or_default();
        points
            .iter()
            .map(|p| String::from_utf8_lossy(p).trim_end_matches('\0').to_owned())
            .collect()
    }
}

/// Starts the simulated service with these records on this bus.
fn begin(state: &std::path::Path, address: &str) -> Running {
    let service = Command::new(env!("CARGO_BIN_EXE_tandem-simulated"))
        .arg("--state")
        .arg(state)
        .env("DBUS_SYSTEM_BUS_ADDRESS", address)
        .env("TANDEM_LOG", "off")
        .spawn();
    Running(service.unwrap())
}

/// Object path of a block device.
pub fn block(name: &str) -> OwnedObjectPath {
    OwnedObjectPath::try_from(format!("/org/freedesktop/UDisks2/block_devices/{name}")).unwrap()
}

/// The target that serves the caches of the tests: dm-cache if `TANDEM_TEST_TARGET` is `dm-cache`.
pub fn target() -> Target {
    match std::env::var("TANDEM_TEST_TARGET").as_deref() {
        Ok("dm-cache") => Target::DmCache,
        Ok(other) => panic!("unknown target {other}"),
        Err(_) => Target::Tandem,
    }
}

/// Write-through, and write-back where the target has it.
pub fn modes() -> Vec<Mode> {
    let writeback = (target() == Target::Tandem).then_some(Mode::Writeback);
    [Mode::Writethrough].into_iter().chain(writeback).collect()
}

/// A request for a cache, by the kernel names of the disk and the SSD.
pub fn spec(origin: &str, ssd: &str) -> PlanSpec {
    PlanSpec {
        origin: block(origin),
        ssd: block(ssd),
        mode: Mode::Writethrough,
        erase_ssd: false,
        at_next_start: false,
        partition_bytes: 0,
        target: target(),
        memory_bytes: 0,
    }
}

/// Waits until the condition is true. `what`: the condition in words, for the failure.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < LIMIT, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
