// SPDX-License-Identifier: GPL-3.0-or-later
//! The history of a cache of another system.

use crate::Bench;
use crate::common::until;
use tandem_api::*;

fn device(serial: &str) -> DeviceText {
    DeviceText {
        serial: serial.into(),
        ..DeviceText::none()
    }
}

fn cache(kind: OtherKind, id: &str) -> OtherCache {
    OtherCache {
        kind,
        id: id.into(),
        name: id.into(),
        mapped: DeviceText::none().object,
        mount_points: vec![],
        disks: vec![device("D1")],
        ssds: vec![device("S1")],
        state: OtherState::Working,
        mode: OtherMode::Writeback,
        cache_bytes: 1 << 30,
        used_bytes: 1 << 20,
        unwritten_bytes: 4096,
        unwritten_known: true,
        read_hits: 1_000,
        read_misses: 100,
    }
}

struct Looks {
    bench: Bench,
    manager: ManagerProxy<'static>,
    levers: SimulationProxy<'static>,
}

impl Looks {
    async fn new() -> Self {
        let bench = Bench::simulated().await;
        let manager = bench.machine.manager().await;
        let levers = bench.machine.simulation().await;
        Self {
            bench,
            manager,
            levers,
        }
    }

    /// Lets 14 s pass, and has the service look at these caches then.
    async fn look(&self, caches: &[OtherCache]) {
        self.levers.advance(14).await.unwrap();
        self.levers.set_other_caches(caches).await.unwrap();
        until("the look", async || {
            self.manager.other_caches().await.unwrap() == caches
        })
        .await;
    }

    async fn history(&self, id: &str) -> Vec<OtherPeriod> {
        self.manager.other_history(id).await.unwrap()
    }
}

#[tokio::test]
async fn each_look_at_a_cache_adds_a_period_of_its_block_devices() {
    let looks = Looks::new().await;
    let mut lvm = cache(OtherKind::LvmCache, "LVM-1");
    looks.look(std::slice::from_ref(&lvm)).await;
    assert_eq!(looks.history("LVM-1").await, []);
    for look in 1..4 {
        lvm.read_hits += 90;
        lvm.read_misses += 10;
        lvm.unwritten_bytes += 4096;
        looks.look(std::slice::from_ref(&lvm)).await;
        let periods = looks.history("LVM-1").await;
        assert_eq!(periods.len(), look);
        let last = periods[look - 1];
        let seconds = (last.end_us - last.start_us) / 1_000_000;
        assert!((14..30).contains(&seconds), "{seconds}");
        assert!(last.ssd_known && last.read_ssd > 8 * last.read_disk && last.written > 0);
        let off = last.read.abs_diff(last.read_disk + last.read_ssd);
        assert!(off <= 4, "{last:?}");
        assert_eq!((last.hits, last.misses), (90, 10));
        assert_eq!(last.unwritten_bytes, lvm.unwritten_bytes);
    }
    let periods = looks.history("LVM-1").await;
    let near = |two: &[OtherPeriod]| two[0].end_us.abs_diff(two[1].start_us) < 400_000;
    assert!(periods.windows(2).all(near), "{periods:?}");
}

#[tokio::test]
async fn a_rate_is_told_only_of_counters_that_can_be_compared() {
    let looks = Looks::new().await;
    let mut lvm = cache(OtherKind::LvmCache, "LVM-1");
    let mut boost = cache(OtherKind::DmWriteboost, "boost");
    let mut step = async |hits: u64, misses: u64| {
        (lvm.read_hits, lvm.read_misses) = (hits, misses);
        boost.read_hits = hits;
        looks.look(&[lvm.clone(), boost.clone()]).await;
        looks.history("LVM-1").await
    };
    step((1 << 32) - 40, 7).await;
    // The counter wraps, and then a table is loaded.
    let wrapped = *step(60, 7).await.last().unwrap();
    assert_eq!((wrapped.hits, wrapped.misses), (100, 0));
    let jumped = *step(20, 9).await.last().unwrap();
    assert_eq!((jumped.hits, jumped.misses), (0, 0));
    assert!(jumped.read_ssd > 0, "the block devices count on");
    let last = *step(30, 10).await.last().unwrap();
    assert_eq!((last.hits, last.misses), (10, 1));
    let boost = looks.history("boost").await;
    assert!(boost.len() == 3 && boost.iter().all(|p| (p.hits, p.misses) == (0, 0)));
}

#[tokio::test]
async fn another_disk_has_no_past_and_an_unknown_cache_no_answer() {
    let looks = Looks::new().await;
    let mut bcache = cache(OtherKind::Bcache, "bcache0");
    for used in 1..4 {
        bcache.used_bytes = used;
        looks.look(std::slice::from_ref(&bcache)).await;
    }
    assert_eq!(looks.history("bcache0").await.len(), 2);
    bcache.disks = vec![device("D2")];
    looks.look(std::slice::from_ref(&bcache)).await;
    assert_eq!(looks.history("bcache0").await, []);
    // The reads of the new SSD are not known in the first period.
    bcache.used_bytes += 1;
    looks.look(std::slice::from_ref(&bcache)).await;
    bcache.ssds = vec![device("S2")];
    looks.look(std::slice::from_ref(&bcache)).await;
    let periods = looks.history("bcache0").await;
    let known: Vec<_> = periods.iter().map(|period| period.ssd_known).collect();
    assert_eq!(known, [true, false]);
    looks.look(&[]).await;
    for id in ["bcache0", "", "/dev/sda", "../../etc/shadow"] {
        let refused = looks.manager.other_history(id).await.unwrap_err();
        assert_eq!(Failure::from(refused).kind, Kind::WrongState, "{id}");
    }
    drop(looks.bench);
}
