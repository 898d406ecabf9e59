// SPDX-License-Identifier: GPL-3.0-or-later

use std::collections::BTreeMap;
use std::fs;

use super::drive::{Drive, SECTOR};
use super::{Chance, Cut, Recorder, Snapshot};
use crate::disks::Scratch;

/// A disk of eight sectors, each full of `old`.
fn disk(scratch: &Scratch, old: u8) -> Drive {
    let file = scratch.path().join("disk");
    fs::write(&file, vec![old; 8 * SECTOR]).unwrap();
    Drive::open(&file).unwrap()
}

/// The first byte of each sector on the medium: what is left when all of the write cache is lost.
fn medium(disk: &Drive) -> Vec<u8> {
    let mut disk = disk.clone();
    let lost = (0..).find(|seed| {
        let mut cut = disk.clone();
        let lost = cut.cut(&mut Chance(*seed)).kept == 0;
        if lost {
            disk = cut;
        }
        lost
    });
    assert!(lost.is_some());
    let mut bytes = [0; 8 * SECTOR];
    disk.read(0, &mut bytes).unwrap();
    bytes.chunks(SECTOR).map(|sector| sector[0]).collect()
}

#[test]
fn a_read_returns_what_was_written_before_and_after_a_flush() {
    let scratch = Scratch::new().unwrap();
    let mut disk = disk(&scratch, 1);
    disk.write(2 * SECTOR as u64, &[2; 2 * SECTOR], false)
        .unwrap();
    let mut read = [0; 4 * SECTOR];
    disk.read(SECTOR as u64, &mut read).unwrap();
    assert_eq!(
        read.map(usize::from).iter().sum::<usize>(),
        (1 + 2 + 2 + 1) * SECTOR
    );
    assert_eq!(medium(&disk), [1; 8]);
    disk.flush();
    assert_eq!(medium(&disk), [1, 1, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn a_forced_write_is_on_the_medium_and_older_writes_do_not_come_back() {
    let scratch = Scratch::new().unwrap();
    let mut disk = disk(&scratch, 1);
    disk.write(0, &[2; 2 * SECTOR], false).unwrap();
    disk.write(0, &[3; SECTOR], true).unwrap();
    assert_eq!(medium(&disk)[..2], [3, 1]);
    disk.flush();
    assert_eq!(medium(&disk)[..2], [3, 2]);
}

#[test]
fn a_cut_loses_some_of_what_was_not_flushed_and_nothing_else() {
    let scratch = Scratch::new().unwrap();
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..64 {
        let mut disk = disk(&scratch, 1);
        disk.write(0, &[2; 4 * SECTOR], false).unwrap();
        disk.flush();
        disk.write(2 * SECTOR as u64, &[3; 4 * SECTOR], false)
            .unwrap();
        let cut = disk.cut(&mut Chance(seed));
        let now = medium(&disk);
        assert_eq!(now[..2], [2, 2]);
        assert!(now[2..4].iter().all(|byte| [2, 3].contains(byte)));
        assert!(now[4..6].iter().all(|byte| [1, 3].contains(byte)));
        assert_eq!(now[6..], [1, 1]);
        let new = now.iter().filter(|byte| **byte == 3).count() as u64;
        assert_eq!(
            cut,
            Cut {
                kept: new,
                lost: 4 - new
            }
        );
        kept += u32::from(cut.lost == 0);
        lost += u32::from(cut.kept == 0);
    }
    assert!(kept > 0 && lost > 0 && kept + lost < 64);
}

#[test]
fn a_disk_and_its_clone_change_apart_and_the_file_does_not() {
    let scratch = Scratch::new().unwrap();
    let mut disk = disk(&scratch, 1);
    disk.write(0, &[2; SECTOR], true).unwrap();
    let mut clone = disk.clone();
    clone.write(0, &[3; SECTOR], true).unwrap();
    disk.write(SECTOR as u64, &[4; SECTOR], true).unwrap();
    assert_eq!(medium(&clone)[..2], [3, 1]);
    assert_eq!(medium(&disk)[..2], [2, 4]);
    let file = fs::read(scratch.path().join("disk")).unwrap();
    assert!(file.iter().all(|byte| *byte == 1));
}

#[test]
fn a_recorder_keeps_moments_of_the_whole_time() {
    for events in [1_u64, 3, 6, 7, 12, 100, 1000] {
        let mut recorder = Recorder::new(3);
        let mut taken = Vec::new();
        for event in 0..events {
            let before = recorder.kept.len();
            recorder.changes(|| {
                taken.push(event);
                Snapshot(BTreeMap::new())
            });
            assert!(recorder.kept.len() <= 6, "{before}");
        }
        assert!(recorder.kept.len() as u64 >= events.min(3), "{events}");
        // The last one lies in the second half.
        assert!(*taken.last().unwrap() >= events / 2);
    }
}

#[test]
fn a_request_beyond_the_end_or_within_a_sector_is_refused() {
    let scratch = Scratch::new().unwrap();
    let mut disk = disk(&scratch, 1);
    for (offset, length) in [(8 * SECTOR, SECTOR), (7 * SECTOR, 2 * SECTOR), (1, SECTOR)] {
        let written = disk.write(offset as u64, &vec![2; length], false);
        assert!(written.is_err(), "{offset} {length}");
    }
    assert!(disk.write(u64::MAX - 511, &[2; SECTOR], false).is_err());
}
