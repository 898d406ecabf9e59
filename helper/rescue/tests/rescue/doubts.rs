// SPDX-License-Identifier: GPL-3.0-or-later
//! What is refused, with nothing written: a wrong or changed disk, an outdated SSD, devices in use, any bytes as metadata.

use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use tandem_core::start::{COPIES, Flags};
use tandem_core::{Core, Geometry, Region};
use tandem_helper::machine::store::Store;
use tandem_helper::model::facts::Ident;
use tandem_helper::model::record::CacheRecord;
use tandem_rescue::{
    Cache, Consent, Disk, Doubt, Error, Kind, Known, User, View, Why, judge, open, record,
};

use crate::drives::Drives;
use tandem_stage::pair::Pair;

/// A folder with `disk.img` and `ssd.img`, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, pair: &Pair) -> Self {
        let folder =
            std::env::temp_dir().join(format!("tandem-rescue-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("disk.img"), pair.disk.as_flattened()).unwrap();
        fs::write(folder.join("ssd.img"), pair.ssd.as_flattened()).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The verdict with a serial number, over what is newer, of a whole image.
    fn judge(&self, serial: Option<&str>) -> Result<Vec<Doubt>, Error> {
        self.judge_with(Consent {
            serial,
            over_newer: true,
            ssd_is_whole: true,
        })
    }

    fn judge_with(&self, consent: Consent<'_>) -> Result<Vec<Doubt>, Error> {
        let (ssd, disk) = (self.open("ssd.img"), self.open("disk.img"));
        let cache = Cache::load(ssd.medium.as_ref()).unwrap();
        let record = record(&cache, &self.0);
        let record = record.as_ref().map(Option::as_ref);
        judge(&cache, &ssd, &disk, record, consent).map(|(_, doubts)| doubts)
    }

    fn open(&self, name: &str) -> Disk {
        open(&self.path(name), false).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refused(result: Result<Vec<Doubt>, Error>) -> Why {
    let error = result.unwrap_err();
    assert_eq!(error.kind, Kind::Refused);
    error.why
}

fn in_doubt(result: Result<Vec<Doubt>, Error>) -> (Vec<Doubt>, Known) {
    match refused(result) {
        Why::InDoubt(doubts, known) => (doubts, known),
        other => panic!("{other:?}"),
    }
}

// promise 21: rescue/rescue::doubts::an_image_is_taken_only_by_its_name
#[test]
fn an_image_is_taken_only_by_its_name() {
    let pair = Pair::new(1, true);
    let folder = Folder::new("name", &pair);
    assert_eq!(
        in_doubt(folder.judge(None)),
        (vec![Doubt::Image], Known::Image("disk.img".into()))
    );
    assert_eq!(
        in_doubt(folder.judge(Some("WD-1"))).1,
        Known::NamedAs("WD-1".into())
    );
    assert_eq!(folder.judge(Some("disk.img")).unwrap(), [Doubt::Image]);
}

// promise 21: rescue/rescue::doubts::a_disk_that_was_written_elsewhere_is_told_by_samples_and_by_clean_copies
#[test]
fn a_disk_that_was_written_elsewhere_is_told_by_samples_and_by_clean_copies() {
    for stopped in [true, false] {
        let mut pair = Pair::new(2, stopped);
        let folder = Folder::new("same", &pair);
        assert_eq!(folder.judge(Some("disk.img")).unwrap(), [Doubt::Image]);
        drop(folder);
        if stopped {
            // A file system that is mounted writes its superblock.
            pair.disk[8][100] ^= 1;
        } else {
            // After a crash there are no samples; a clean copy says what the disk should hold, in each of its quarters.
            let drives = Drives::of(&pair);
            let cache = Cache::load(&drives.ssd).unwrap();
            let mut last = None;
            cache.clean(|range| {
                last = Some(range.sector + range.count - 1);
                true
            });
            pair.disk[last.unwrap() as usize][100] ^= 1;
        }
        let folder = Folder::new("elsewhere", &pair);
        let (doubts, _) = in_doubt(folder.judge(None));
        assert!(doubts.contains(&Doubt::Changed), "{doubts:?}");
        // It is the right disk: what is on it is to be lost is another question.
        let right = Consent {
            serial: Some("disk.img"),
            ssd_is_whole: true,
            ..Consent::default()
        };
        let newer = refused(folder.judge_with(right));
        assert!(
            matches!(&newer, Why::Newer(doubts) if doubts[..] == [Doubt::Changed]),
            "{newer:?}"
        );
        let named = folder.judge(Some("disk.img")).unwrap();
        assert_eq!(named, [Doubt::Image, Doubt::Changed]);
    }
}

#[test]
fn a_disk_of_another_size_is_told() {
    let pair = Pair::new(3, true);
    let folder = Folder::new("size", &pair);
    let disk = pair.disk.as_flattened();
    fs::write(folder.path("disk.img"), &disk[..disk.len() - 512]).unwrap();
    let smaller = refused(folder.judge(Some("disk.img")));
    assert!(matches!(smaller, Why::DiskTooSmall(..)), "{smaller:?}");
    fs::write(folder.path("disk.img"), [disk, &[0; 512]].concat()).unwrap();
    let named = folder.judge(Some("disk.img")).unwrap();
    assert_eq!(named, [Doubt::Image, Doubt::Larger]);
}

// promise 19: rescue/rescue::doubts::an_ssd_that_the_service_calls_lost_is_outdated
#[test]
fn an_ssd_that_the_service_calls_lost_is_outdated() {
    let pair = Pair::new(4, true);
    let folder = Folder::new("lost", &pair);
    let cache = {
        let ssd = folder.open("ssd.img");
        Cache::load(ssd.medium.as_ref()).unwrap()
    };
    let store = Store::open(&folder.0).unwrap();
    // As a record that an earlier version wrote: it has the fields that have always been there.
    let nowhere = serde_json::to_value(Ident::default()).unwrap();
    let pair = serde_json::json!({
        "uuid": cache.uuid(),
        "origin": nowhere,
        "ssd": nowhere,
        "origin_id": cache.disk_id(),
        "mode": tandem_api::Mode::Writeback,
    });
    let mut recorded = CacheRecord::new(serde_json::from_value(pair).unwrap());
    for (lost, origin_diverged, outdated) in [
        (0, false, false),
        (cache.summary().generation - 1, false, false),
        (cache.summary().generation, false, true),
        (0, true, true),
    ] {
        (recorded.pair.lost_generation, recorded.origin_diverged) = (lost, origin_diverged);
        store.save_cache(&recorded).unwrap();
        let doubts = folder.judge(Some("disk.img")).unwrap();
        assert_eq!(
            doubts.contains(&Doubt::Outdated),
            outdated,
            "{lost} {origin_diverged}"
        );
    }
    assert!(in_doubt(folder.judge(None)).0.contains(&Doubt::Outdated));
    // A record that cannot be read is not one that is not there.
    let file = format!("caches/{}.cache.json", cache.uuid());
    for copy in [file.clone(), file.replace("json", "copy")] {
        fs::write(folder.path(&copy), "{").unwrap();
    }
    let doubts = folder.judge(Some("disk.img")).unwrap();
    assert_eq!(doubts, [Doubt::Image, Doubt::NoRecord]);
    fs::remove_dir_all(folder.path("caches")).unwrap();
    assert_eq!(folder.judge(Some("disk.img")).unwrap(), [Doubt::Image]);
}

// promise 18: rescue/rescue::doubts::an_image_that_may_lack_something_is_refused
#[test]
fn an_image_that_may_lack_something_is_refused() {
    let folder = Folder::new("lacks", &Pair::new(8, true));
    let right = Consent {
        serial: Some("disk.img"),
        ..Consent::default()
    };
    let why = refused(folder.judge_with(right));
    assert!(matches!(why, Why::MayLack), "{why:?}");
    let whole = Consent {
        ssd_is_whole: true,
        ..right
    };
    assert_eq!(folder.judge_with(whole).unwrap(), [Doubt::Image]);
}

#[test]
fn an_image_that_another_rescue_works_on_is_refused() {
    let folder = Folder::new("busy", &Pair::new(5, true));
    let writing = open(&folder.path("disk.img"), true).unwrap();
    let error = open(&folder.path("disk.img"), false).err().unwrap();
    assert!(matches!(error.why, Why::InUse(User::Rescue)), "{error}");
    drop(writing);
    assert!(open(&folder.path("disk.img"), false).is_ok());
    let missing = open(&folder.path("missing"), false).err().unwrap().why;
    assert!(matches!(missing, Why::NotOpened(_)), "{missing:?}");
    let folder = open(&folder.path("."), false).err().unwrap().why;
    assert!(matches!(folder, Why::NoDisk), "{folder:?}");
}

/// Loads the SSD, and reads all that it shows if it is taken. Returns whether it was taken.
fn is_taken(pair: &Pair) -> bool {
    let drives = Drives::of(pair);
    let taken = match Cache::load(&drives.ssd) {
        Err(error) => {
            assert_eq!(error.kind, Kind::Refused);
            false
        }
        Ok(cache) => {
            let view = View::new(&cache, &drives.ssd, &drives.disk);
            let mut bytes = vec![0; view.sectors().min(pair.disk.len() as u64) as usize * 512];
            view.read(0, &mut bytes).unwrap();
            let _ = cache.summary();
            true
        }
    };
    // A flush of the SSD, and nothing else.
    assert!(drives.power.steps.get() <= 1);
    taken
}

// promise 27: rescue/rescue::doubts::any_bytes_as_superblocks_are_refused
#[test]
fn any_bytes_as_superblocks_are_refused() {
    let sound = Pair::new(6, true);
    let corpus =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod/sim/fuzz/corpus/superblock");
    let mut inputs = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let mut bytes = fs::read(entry.unwrap().path()).unwrap();
        bytes.resize(4096, 0);
        for skip in [0, 1, 8] {
            let mut pair = sound.clone();
            bytes.rotate_left(skip);
            for place in COPIES {
                pair.write(place, &bytes);
            }
            assert!(!is_taken(&pair));
            inputs += 1;
        }
    }
    assert!(inputs > 10, "{inputs}");
    // Sound checksums over any numbers.
    let mut rng = Rng::with_seed(6);
    for _ in 0..150 {
        let mut pair = sound.clone();
        let copies = COPIES.map(|place| {
            let mut copy = [0; 8192];
            copy.copy_from_slice(pair.ssd[place as usize..place as usize + 16].as_flattened());
            copy
        });
        let core = Core::linked();
        let mut geometry = core.choose_super(&copies, 1).unwrap().geometry;
        hostile(&mut geometry, &mut rng);
        for (number, place) in (0..).zip(COPIES) {
            let flags = Flags(rng.u32(..4));
            pair.write(place, &core.encode_super(&geometry, flags, number));
        }
        is_taken(&pair);
    }
}

fn hostile(geometry: &mut Geometry, rng: &mut Rng) {
    let any = |rng: &mut Rng| match rng.u8(..4) {
        0 => rng.u64(..),
        1 => u64::MAX - rng.u64(..64),
        2 => rng.u64(..64),
        _ => rng.u64(..20_000),
    };
    match rng.u8(..8) {
        0 => geometry.origin_sectors = any(rng),
        1 => geometry.ssd_sectors = any(rng),
        2 => geometry.groups = any(rng) as u32,
        3 => geometry.run_shift = any(rng) as u32,
        4 => geometry.way_shift = any(rng) as u32,
        _ => {
            let region = Region {
                start: any(rng),
                length: any(rng),
            };
            match rng.u8(..4) {
                0 => geometry.journal = region,
                1 => geometry.checkpoint = region,
                2 => geometry.intent = region,
                _ => geometry.data = region,
            }
        }
    }
}

// promise 27: rescue/rescue::doubts::damaged_metadata_is_refused_or_recovered
#[test]
fn damaged_metadata_is_refused_or_recovered() {
    let sound = Pair::new(7, false);
    assert!(is_taken(&sound));
    let mut rng = Rng::with_seed(7);
    let (mut taken, tries) = (0, 150);
    for _ in 0..tries {
        let mut pair = sound.clone();
        for _ in 0..rng.u32(1..4) {
            // Journal, checkpoints and marks.
            let sector = rng.usize(2048..2048 + 800);
            pair.ssd[sector][rng.usize(..512)] ^= 1 << rng.u8(..8);
        }
        taken += u32::from(is_taken(&pair));
    }
    assert!(taken > 0 && taken < tries, "{taken} of {tries}");
}
