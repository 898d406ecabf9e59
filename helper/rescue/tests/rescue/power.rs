// SPDX-License-Identifier: GPL-3.0-or-later
//! A rescue writes exactly what was promised, is cut at each of its writes and flushes, and goes on from there.

use fastrand::Rng;
use tandem_core::start::Verdict;
use tandem_rescue::{
    Cache, Check, Content, Doubt, Error, Kind, Map, Medium, Outcome, View, open, verify, write_back,
};

use crate::drives::Drives;
use tandem_stage::pair::{Pair, SECTOR, Sector, block_of};

fn load(ssd: &dyn Medium) -> Cache {
    Cache::load(ssd).unwrap()
}

fn rescue(drives: &Drives) -> Result<Outcome, Error> {
    let mut cache = Cache::load(&drives.ssd)?;
    write_back(&mut cache, &drives.ssd, &drives.disk, &[], &mut |_| {})
}

/// What the SSD says of the content of the disk.
fn content(drives: &Drives) -> Option<Content> {
    let cache = load(&drives.ssd);
    verify(&cache, &drives.ssd, Some(&drives.disk), Check::Sampled).disk
}

/// What the SSD and the disk show together.
fn shown(drives: &Drives) -> Vec<Sector> {
    let cache = load(&drives.ssd);
    let view = View::new(&cache, &drives.ssd, &drives.disk);
    let mut all = vec![[0; SECTOR]; view.sectors() as usize];
    // Pieces of a length that no frame has.
    for (number, piece) in all.chunks_mut(57).enumerate() {
        view.read(number as u64 * 57, piece.as_flattened_mut())
            .unwrap();
    }
    all
}

fn differing(one: &[Sector], other: &[Sector]) -> Vec<usize> {
    assert_eq!(one.len(), other.len());
    let differs = |&at: &usize| one[at] != other[at];
    (0..one.len()).filter(differs).take(8).collect()
}

// promise 10: rescue/rescue::power::the_view_shows_what_the_users_were_promised
#[test]
fn the_view_shows_what_the_users_were_promised() {
    for seed in 0..4 {
        let pair = Pair::new(seed, seed % 2 == 0);
        let drives = Drives::of(&pair);
        assert_eq!(
            differing(&shown(&drives), &pair.shown),
            [0; 0],
            "seed {seed}"
        );
        assert!(differing(&pair.disk, &pair.shown).len() > 4);
        assert_eq!(drives.power.disk_writes.get(), 0);
    }
}

// promise 28: rescue/rescue::power::the_disk_alone_has_all_of_it_afterwards
#[test]
fn the_disk_alone_has_all_of_it_afterwards() {
    for seed in 0..4 {
        let pair = Pair::new(seed, true);
        let drives = Drives::of(&pair);
        let dirty = load(&drives.ssd).dirty_bytes();
        let outcome = rescue(&drives).unwrap();
        assert_eq!(outcome.written_bytes, dirty);
        assert_eq!((outcome.left_bytes, outcome.left_at.len()), (0, 0));
        assert_eq!(differing(&drives.disk.content(), &pair.shown), [0; 0]);
        // The data on the disk is durable, and the SSD has a record of that.
        let mut rng = Rng::with_seed(seed);
        let disk = drives.disk.after_power_cut(&mut rng, 0);
        let ssd = drives.ssd.after_power_cut(&mut rng, 0);
        assert_eq!(differing(&disk, &pair.shown), [0; 0]);
        let again = Drives::new(disk, ssd, None);
        let cache = load(&again.ssd);
        assert_eq!(cache.dirty_bytes(), 0);
        assert!(cache.summary().clean_bytes >= dirty, "the cache stays warm");
        let compared = cache
            .core
            .compare(&cache.samples, &|at| Some(block_of(&pair.shown, at)));
        assert_eq!(
            compared,
            Verdict::Same,
            "a start finds the disk as it was left"
        );
        assert_eq!(rescue(&again).unwrap(), Outcome::default());
        assert_eq!(again.power.disk_writes.get(), 0);
        let report = verify(&cache, &again.ssd, Some(&again.disk), Check::Whole);
        assert!(
            report.is_good() && report.disk == Some(Content::Same),
            "{report:?}"
        );
    }
}

// promise 21: rescue/rescue::power::copies_that_may_be_older_than_the_disk_are_not_believed_afterwards
#[test]
fn copies_that_may_be_older_than_the_disk_are_not_believed_afterwards() {
    for seed in 0..4 {
        let whole = Pair::new(seed, true);
        // The disk was written elsewhere, where the stopped cache has a sample.
        let mut elsewhere = Pair::new(seed, true);
        for sector in elsewhere.disk.iter_mut().take(64) {
            sector[1] ^= 0xff;
        }
        for (pair, doubts, is_believed) in [
            (&whole, &[][..], true),
            (&whole, &[Doubt::Outdated][..], false),
            (&Pair::new(seed, false), &[][..], false),
            (&elsewhere, &[Doubt::Changed][..], false),
            (&elsewhere, &[][..], false),
        ] {
            let drives = Drives::of(pair);
            let mut cache = load(&drives.ssd);
            write_back(&mut cache, &drives.ssd, &drives.disk, doubts, &mut |_| {}).unwrap();
            let cache = load(&drives.ssd);
            assert_eq!(cache.dirty_bytes(), 0);
            assert_eq!(cache.summary().stopped, is_believed, "{seed}, {doubts:?}");
        }
    }
}

// promise 9: rescue/rescue::power::cut_at_each_step_and_repeated_it_comes_to_the_same_end
#[test]
fn cut_at_each_step_and_repeated_it_comes_to_the_same_end() {
    let mut cuts = 0;
    for seed in 0..2 {
        let pair = Pair::new(seed, seed == 0);
        let whole = Drives::of(&pair);
        rescue(&whole).unwrap();
        let steps = whole.power.steps.get();
        assert!(steps >= 60, "{steps}");
        for end in 0..steps {
            for keep in [0, 128] {
                let mut rng = Rng::with_seed(seed << 32 | end << 8 | u64::from(keep));
                let drives = Drives::new(pair.disk.clone(), pair.ssd.clone(), Some(end));
                let error = rescue(&drives).unwrap_err();
                assert!(error.kind == Kind::Stopped || end == 0, "{error}");
                let disk = drives.disk.after_power_cut(&mut rng, keep);
                let ssd = drives.ssd.after_power_cut(&mut rng, keep);
                let left = Drives::new(disk, ssd, None);
                let why = format!("seed {seed}, cut at step {end} of {steps}, {keep} of 256 kept");
                let seen = shown(&left);
                let lost = differing(&seen, &pair.shown);
                assert!(lost.is_empty(), "{why}: lost at {lost:?}");
                // Dirty data is only left together with a note that fits the disk.
                assert_ne!(content(&left), Some(Content::Changed), "{why}");
                rescue(&left).unwrap();
                let differs = differing(&left.disk.content(), &pair.shown);
                assert!(
                    differs.is_empty(),
                    "{why}: {differs:?} after the second rescue"
                );
                assert_eq!(load(&left.ssd).dirty_bytes(), 0, "{why}");
                cuts += 1;
            }
        }
    }
    println!("{cuts} cuts");
}

/// The disk is used without its SSD: a file system writes its superblock.
fn use_elsewhere(drives: &Drives) {
    let mut sector = drives.disk.content()[3];
    sector[100] ^= 1;
    drives.disk.write(3, &sector).unwrap();
}

// promise 21: rescue/rescue::power::a_use_of_the_disk_after_an_interrupted_rescue_is_told
#[test]
fn a_use_of_the_disk_after_an_interrupted_rescue_is_told() {
    let mut cuts = 0;
    for seed in 0..4 {
        let pair = Pair::new(seed, seed % 2 == 0);
        let whole = Drives::of(&pair);
        rescue(&whole).unwrap();
        let steps = whole.power.steps.get();
        for end in (0..steps).step_by(3) {
            let drives = Drives::new(pair.disk.clone(), pair.ssd.clone(), Some(end));
            rescue(&drives).unwrap_err();
            let (disk, ssd) = (drives.disk.content(), drives.ssd.content());
            let left = Drives::new(disk, ssd, None);
            if drives.power.disk_writes.get() == 0 || load(&left.ssd).dirty_bytes() == 0 {
                continue;
            }
            assert_ne!(content(&left), Some(Content::Changed), "{seed}, {end}");
            use_elsewhere(&left);
            assert_eq!(content(&left), Some(Content::Changed), "{seed}, {end}");
            cuts += 1;
        }
    }
    assert!(cuts > 40, "{cuts}");
}

// promise 18: rescue/rescue::power::what_the_ssd_cannot_read_is_left_and_named_and_the_rest_is_written
#[test]
fn what_the_ssd_cannot_read_is_left_and_named_and_the_rest_is_written() {
    let pair = Pair::new(1, true);
    let drives = Drives::of(&pair);
    let cache = load(&drives.ssd);
    let mut ranges = Vec::new();
    cache.dirty(0, |range| {
        ranges.push(range);
        true
    });
    let bad = ranges[ranges.len() / 2];
    drives.ssd.bad.borrow_mut().push(bad.ssd_sector + 1);
    let outcome = rescue(&drives).unwrap();
    assert_eq!(outcome.left_bytes, 4096);
    assert_eq!(outcome.left_at, [bad.sector * 512]);
    let differs = differing(&drives.disk.content(), &pair.shown);
    let lost = bad.sector as usize..bad.sector as usize + 8;
    assert!(!differs.is_empty() && differs.iter().all(|at| lost.contains(at)));
    assert_ne!(content(&drives), Some(Content::Changed));
    let used = Drives::new(drives.disk.content(), drives.ssd.content(), None);
    use_elsewhere(&used);
    assert_eq!(content(&used), Some(Content::Changed));
    // The SSD can be read again.
    drives.ssd.bad.borrow_mut().clear();
    assert_eq!(rescue(&drives).unwrap().written_bytes, 4096);
    assert_eq!(differing(&drives.disk.content(), &pair.shown), [0; 0]);
}

// promise 18: rescue/rescue::power::what_an_image_lacks_is_left_and_named
#[test]
fn what_an_image_lacks_is_left_and_named() {
    let pair = Pair::new(1, true);
    let drives = Drives::of(&pair);
    let mut ranges = Vec::new();
    load(&drives.ssd).dirty(0, |range| {
        ranges.push(range);
        true
    });
    let bad = ranges[ranges.len() / 2];
    // As ddrescue leaves what it could not read.
    let lacks = bad.ssd_sector as usize + 1;
    let mut ssd = pair.ssd.clone();
    ssd[lacks] = [0; SECTOR];
    let folder = tempfile::tempdir().unwrap();
    let [image, map] = ["ssd.img", "ssd.map"].map(|name| folder.path().join(name));
    std::fs::write(&image, ssd.as_flattened()).unwrap();
    let [at, end] = [lacks, pair.ssd.len()].map(|sector| sector * SECTOR);
    let behind = at + SECTOR;
    let text = format!(
        "{end} + 1\n0 {at} +\n{at} {SECTOR} -\n{behind} {} +\n",
        end - behind
    );
    std::fs::write(&map, text).unwrap();
    let image = open(&image, true)
        .unwrap()
        .with_map(Map::read(&map).unwrap());
    let mut cache = load(image.medium.as_ref());
    let outcome = write_back(
        &mut cache,
        image.medium.as_ref(),
        &drives.disk,
        &[],
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(outcome.left_bytes, 4096);
    assert_eq!(outcome.left_at, [bad.sector * 512]);
    let differs = differing(&drives.disk.content(), &pair.shown);
    let left = bad.sector as usize..bad.sector as usize + 8;
    assert!(!differs.is_empty() && differs.iter().all(|at| left.contains(at)));
    for at in left {
        assert_eq!(
            drives.disk.content()[at],
            pair.disk[at],
            "the older version stays"
        );
    }
}

// promise 20: rescue/rescue::power::what_the_disk_does_not_take_is_left_and_named_and_the_rest_is_written
#[test]
fn what_the_disk_does_not_take_is_left_and_named_and_the_rest_is_written() {
    for late in [false, true] {
        let pair = Pair::new(1, true);
        let mut drives = Drives::of(&pair);
        drives.disk.refuses_late = late;
        let mut ranges = Vec::new();
        load(&drives.ssd).dirty(0, |range| {
            ranges.push(range);
            true
        });
        let bad = ranges[ranges.len() / 2];
        drives.disk.refuses.borrow_mut().push(bad.sector + 1);
        let outcome = rescue(&drives).unwrap();
        assert_eq!(
            (outcome.refused_bytes, outcome.left_bytes),
            (4096, 0),
            "{late}"
        );
        assert_eq!(outcome.refused_at, [bad.sector * 512]);
        assert_eq!(load(&drives.ssd).dirty_bytes(), 4096);
        let differs = differing(&drives.disk.content(), &pair.shown);
        let left = bad.sector as usize..bad.sector as usize + 8;
        assert!(!differs.is_empty() && differs.iter().all(|at| left.contains(at)));
        // The disk takes it now.
        drives.disk.refuses.borrow_mut().clear();
        assert_eq!(rescue(&drives).unwrap().written_bytes, 4096);
        assert_eq!(differing(&drives.disk.content(), &pair.shown), [0; 0]);
        // A disk that takes nothing at all ends the rescue.
        let dead = Drives::of(&pair);
        dead.disk
            .refuses
            .borrow_mut()
            .extend(0..pair.disk.len() as u64);
        let error = rescue(&dead).unwrap_err();
        assert_eq!(error.kind, Kind::Stopped);
        assert_eq!(differing(&dead.disk.content(), &pair.disk), [0; 0]);
    }
}

#[test]
fn a_place_that_neither_can_read_nor_take_hides_no_other() {
    for late in [false, true] {
        let pair = Pair::new(1, true);
        let mut drives = Drives::of(&pair);
        drives.disk.refuses_late = late;
        let mut ranges = Vec::new();
        load(&drives.ssd).dirty(0, |range| {
            ranges.push(range);
            true
        });
        // Side by side, so that one batch has both.
        let middle = ranges.len() / 2;
        let (unreadable, refused) = (ranges[middle], ranges[middle + 1]);
        drives.ssd.bad.borrow_mut().push(unreadable.ssd_sector);
        drives.disk.refuses.borrow_mut().push(refused.sector);
        let outcome = rescue(&drives).unwrap();
        assert_eq!(outcome.left_at, [unreadable.sector * 512]);
        assert_eq!(outcome.refused_at, [refused.sector * 512]);
        assert_eq!((outcome.left_bytes, outcome.refused_bytes), (4096, 4096));
    }
}
