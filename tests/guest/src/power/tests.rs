// SPDX-License-Identifier: GPL-3.0-or-later

use std::fs;

use super::drive::{Drive, SECTOR};
use super::{Chance, Cut};
use crate::disks::Scratch;

/// A disk of eight sectors, each full of `old`.
fn disk(scratch: &Scratch, old: u8) -> Drive {
    let file = scratch.path().join("disk");
    fs::write(&file, vec![old; 8 * SECTOR]).unwrap();
    Drive::open(&file).unwrap()
}

/// The first byte of each sector on the medium.
fn medium(scratch: &Scratch) -> Vec<u8> {
    let bytes = fs::read(scratch.path().join("disk")).unwrap();
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
    assert_eq!(medium(&scratch), [1; 8]);
    disk.flush().unwrap();
    assert_eq!(medium(&scratch), [1, 1, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn a_forced_write_is_on_the_medium_and_older_writes_do_not_come_back() {
    let scratch = Scratch::new().unwrap();
    let mut disk = disk(&scratch, 1);
    disk.write(0, &[2; 2 * SECTOR], false).unwrap();
    disk.write(0, &[3; SECTOR], true).unwrap();
    assert_eq!(medium(&scratch)[..2], [3, 1]);
    disk.flush().unwrap();
    assert_eq!(medium(&scratch)[..2], [3, 2]);
}

#[test]
fn a_cut_loses_some_of_what_was_not_flushed_and_nothing_else() {
    let scratch = Scratch::new().unwrap();
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..64 {
        let mut disk = disk(&scratch, 1);
        disk.write(0, &[2; 4 * SECTOR], false).unwrap();
        disk.flush().unwrap();
        disk.write(2 * SECTOR as u64, &[3; 4 * SECTOR], false)
            .unwrap();
        let cut = disk.cut(&mut Chance(seed)).unwrap();
        let now = medium(&scratch);
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
fn a_request_beyond_the_end_or_within_a_sector_is_refused() {
    let scratch = Scratch::new().unwrap();
    let mut disk = disk(&scratch, 1);
    for (offset, length) in [(8 * SECTOR, SECTOR), (7 * SECTOR, 2 * SECTOR), (1, SECTOR)] {
        let written = disk.write(offset as u64, &vec![2; length], false);
        assert!(written.is_err(), "{offset} {length}");
    }
    assert!(disk.write(u64::MAX - 511, &[2; SECTOR], false).is_err());
}
