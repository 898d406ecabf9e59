// SPDX-License-Identifier: GPL-3.0-or-later
//! The attempts of the service to put caches over their disks.
//!
//! There is one attempt for the same devices in the same use. A further attempt with nothing changed would only take the
//! disk from its programs again. So the next attempt is made when
//! * the disk or the SSD is another device: it was away, also if the service did not see that;
//! * the disk is used otherwise than at the beginning of an attempt that failed: a program has mounted the disk
//!   while the service was at work, or the disk was unmounted since;
//! * nothing changed for a while, and nobody has the disk mounted;
//! * a person asks for the attempt.

use crate::decide::lifecycle::{Attempt, Reason};
use crate::model::action::Pair;
use crate::model::facts::{Device, Ident};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What uses a disk beside its mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DiskUse {
    /// Mount points, with the folders that are mounted there.
    mounts: Vec<(String, String)>,
    /// The volumes above the disk.
    volumes: Vec<String>,
    swap: bool,
}

impl DiskUse {
    /// The use of a disk, which may be missing.
    pub fn of(disk: Option<&Device>) -> Self {
        let Some(disk) = disk else {
            return Self::default();
        };
        let mounts = disk.mounts.iter();
        let mut mounts: Vec<_> = mounts.map(|m| (m.point.clone(), m.root.clone())).collect();
        mounts.sort();
        let others = disk.holders.iter().filter(|h| h.kind != "tandem");
        Self {
            mounts,
            volumes: others.map(|h| h.name.clone()).collect(),
            swap: disk.swap,
        }
    }
}

/// The end of an attempt that failed.
#[derive(Debug, Clone)]
struct Failed {
    /// What used the disk when the attempt began.
    used: DiskUse,
    /// When the attempt ended.
    at: Instant,
}

/// The last attempt of a cache.
#[derive(Debug, Clone)]
struct Tried {
    /// The disk and the SSD.
    devices: [Ident; 2],
    /// The reason of the module, if the module refused the devices for good.
    refused: Option<Reason>,
    /// The end, if the reason of the failure may pass.
    failed: Option<Failed>,
}

/// An SSD that is lost, and there again before that is seen, is used again at once so often within [`FLAPS_WITHIN`].
const FLAPS: usize = 3;
/// See [`FLAPS`].
const FLAPS_WITHIN: Duration = Duration::from_secs(600);

/// The last attempts, by the UUIDs of the caches.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    tried: BTreeMap<String, Tried>,
    /// When SSDs were lost that were there again at once.
    flaps: BTreeMap<String, Vec<Instant>>,
}

impl Attempts {
    /// An attempt begins with the present devices of the pair.
    pub fn begin(&mut self, pair: &Pair) {
        let tried = Tried {
            devices: [pair.origin.clone(), pair.ssd.clone()],
            refused: None,
            failed: None,
        };
        self.tried.insert(pair.uuid.clone(), tried);
    }

    /// The SSD is lost, which counts as an attempt that failed. But an SSD that `is_back` already was only unplugged, unless that
    /// happens again and again: each loss gives errors to programs.
    pub fn lost(&mut self, pair: &Pair, is_back: bool) {
        if !is_back {
            self.begin(pair);
            return;
        }
        self.forget(&pair.uuid);
        let flaps = self.flaps.entry(pair.uuid.clone()).or_default();
        flaps.retain(|at| at.elapsed() < FLAPS_WITHIN);
        flaps.push(Instant::now());
    }

    fn flaps(&self, uuid: &str) -> bool {
        let flaps = self.flaps.get(uuid).into_iter().flatten();
        flaps.filter(|at| at.elapsed() < FLAPS_WITHIN).count() > FLAPS
    }

    /// The attempt that runs has failed, and the reason may pass. `used`: what used the disk when the attempt began.
    /// Returns the time, which names the attempt for [`Self::forget_failed`].
    pub fn fail(&mut self, uuid: &str, used: DiskUse) -> Instant {
        let at = Instant::now();
        if let Some(tried) = self.tried.get_mut(uuid) {
            tried.failed = Some(Failed { used, at });
        }
        at
    }

    /// The module has refused the devices for good.
    pub fn refuse(&mut self, uuid: &str, why: Reason) {
        if let Some(tried) = self.tried.get_mut(uuid) {
            tried.refused = Some(why);
        }
    }

    /// The next attempt may begin.
    pub fn forget(&mut self, uuid: &str) {
        self.tried.remove(uuid);
    }

    /// The next attempt may begin if the last one is that which failed at this time; at any time without one. Returns
    /// whether it may.
    pub fn forget_failed(&mut self, uuid: &str, at: Option<Instant>) -> bool {
        let failed = self.tried.get(uuid).and_then(|tried| tried.failed.as_ref());
        let ours = failed.is_some_and(|failed| at.is_none_or(|at| at == failed.at));
        if ours {
            self.forget(uuid);
        }
        ours
    }

    /// Why the module refused the devices of the last attempt for good.
    pub fn refusal(&self, uuid: &str) -> Option<Reason> {
        self.tried.get(uuid)?.refused
    }

    /// The last attempt with the present devices of the pair. `used`: what uses the disk, as the machine was looked at
    /// not before `seen`. What was seen before the end of an attempt may be the attempt's own doing.
    pub fn last(&self, pair: &Pair, used: &DiskUse, seen: Instant) -> Attempt {
        if self.flaps(&pair.uuid) {
            return Attempt::Failed;
        }
        let Some(tried) = self.tried.get(&pair.uuid) else {
            return Attempt::None;
        };
        let [disk, ssd] = &tried.devices;
        let same = is_still(&pair.origin, disk) && is_still(&pair.ssd, ssd);
        match (tried.refused, &tried.failed) {
            _ if !same => Attempt::None,
            (Some(why), _) => Attempt::Refused(why),
            (None, Some(failed)) if failed.used != *used && failed.at < seen => Attempt::None,
            (None, _) => Attempt::Failed,
        }
    }
}

/// Whether a device was not plugged in again. Its identity is not asked: an SSD that its superblock names may have none,
/// and would get one attempt after the other.
fn is_still(now: &Ident, before: &Ident) -> bool {
    let place = |ident: &Ident| (ident.boot.clone(), ident.diskseq, ident.text.name.clone());
    // Memory is made by the attempt itself.
    place(now) == place(before) || (now.is_memory() && now.hardware == before.hardware)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::tests::device;
    use crate::model::facts::{Mount, Mounter};
    use tandem_api::Mode;

    fn pair() -> Pair {
        Pair {
            origin: device("sda", 1 << 30).ident,
            ssd: device("sdb", 1 << 30).ident,
            ..Pair::nowhere(Mode::Writethrough)
        }
    }

    fn mounted(points: &[&str]) -> DiskUse {
        let mut disk = device("sda", 1 << 30);
        let mount = |point: &&str| Mount {
            point: (*point).to_owned(),
            root: "/".to_owned(),
            fstype: "ext4".to_owned(),
            options: "rw".to_owned(),
            mounter: Mounter::Other,
        };
        disk.mounts = points.iter().map(mount).collect();
        DiskUse::of(Some(&disk))
    }

    /// The attempts of the pair, the last of which failed while its disk was used so.
    fn failed(pair: &Pair, used: DiskUse) -> (Attempts, Instant) {
        let mut attempts = Attempts::default();
        attempts.begin(pair);
        let at = attempts.fail(&pair.uuid, used);
        (attempts, at)
    }

    #[test]
    fn another_use_of_the_disk_is_a_reason_for_another_attempt() {
        let pair = pair();
        for (begun, now) in [(&[][..], &["/x"][..]), (&["/x"], &[]), (&["/x"], &["/y"])] {
            let (attempts, at) = failed(&pair, mounted(begun));
            let last = |points, seen| attempts.last(&pair, &mounted(points), seen);
            assert_eq!(
                last(now, Instant::now()),
                Attempt::None,
                "{begun:?} {now:?}"
            );
            assert_eq!(last(begun, Instant::now()), Attempt::Failed);
            assert_eq!(last(now, at), Attempt::Failed, "seen during the attempt");
        }
    }

    #[test]
    fn another_device_is_a_reason_for_another_attempt() {
        let pair = pair();
        let (attempts, _) = failed(&pair, mounted(&["/x"]));
        let last = |pair| attempts.last(pair, &mounted(&["/x"]), Instant::now());
        assert_eq!(last(&pair), Attempt::Failed);
        let (mut disk, mut ssd) = (pair.clone(), pair.clone());
        disk.origin.diskseq += 1;
        ssd.ssd.diskseq += 1;
        assert_eq!([last(&disk), last(&ssd)], [Attempt::None; 2]);
    }

    #[test]
    fn an_ssd_that_is_back_at_once_is_used_again_but_not_for_ever() {
        let pair = pair();
        let mut attempts = Attempts::default();
        let last = |attempts: &Attempts| attempts.last(&pair, &DiskUse::default(), Instant::now());
        attempts.lost(&pair, false);
        assert_eq!(last(&attempts), Attempt::Failed);
        for _ in 0..FLAPS {
            attempts.lost(&pair, true);
            assert_eq!(last(&attempts), Attempt::None);
        }
        attempts.lost(&pair, true);
        attempts.forget(&pair.uuid);
        assert_eq!(last(&attempts), Attempt::Failed);
    }

    #[test]
    fn an_ssd_without_an_identity_gets_one_attempt() {
        let mut pair = pair();
        pair.ssd.hardware = String::new();
        pair.ssd.part_uuid = String::new();
        let (attempts, _) = failed(&pair, DiskUse::default());
        let last = attempts.last(&pair, &DiskUse::default(), Instant::now());
        assert_eq!(last, Attempt::Failed);
    }

    #[test]
    fn what_did_not_fail_or_was_refused_is_not_tried_in_another_use() {
        let pair = pair();
        let mut attempts = Attempts::default();
        attempts.begin(&pair);
        let last = |attempts: &Attempts| attempts.last(&pair, &mounted(&["/x"]), Instant::now());
        assert_eq!(last(&attempts), Attempt::Failed);
        assert!(!attempts.forget_failed(&pair.uuid, None));
        attempts.refuse(&pair.uuid, Reason::SsdDamaged);
        assert_eq!(last(&attempts), Attempt::Refused(Reason::SsdDamaged));
        assert_eq!(attempts.refusal(&pair.uuid), Some(Reason::SsdDamaged));
        attempts.forget(&pair.uuid);
        assert_eq!(last(&attempts), Attempt::None);
    }

    #[test]
    fn a_timer_ends_its_own_attempt_only() {
        let pair = pair();
        let (mut attempts, first) = failed(&pair, DiskUse::default());
        std::thread::sleep(std::time::Duration::from_millis(1));
        attempts.begin(&pair);
        let second = attempts.fail(&pair.uuid, DiskUse::default());
        assert!(!attempts.forget_failed(&pair.uuid, Some(first)));
        assert!(attempts.forget_failed(&pair.uuid, Some(second)));
        assert!(!attempts.forget_failed(&pair.uuid, None));
    }
}
