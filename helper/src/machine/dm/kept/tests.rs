// SPDX-License-Identifier: GPL-3.0-or-later

use super::*;

const UUID: &str = "0a0b0c0d0e0f00010203040506070809";
/// Sectors of the disk: 4 MiB.
pub const SECTORS: u64 = 8192;
const CACHE: Of<'_> = Of {
    uuid: UUID,
    sectors: SECTORS,
};

/// A disk with the superblock of this file system, and an empty SSD.
fn devices(at: u64, magic: &[u8]) -> [File; 2] {
    let [disk, ssd] = [SECTORS * SECTOR_BYTES, 2 << 20].map(|length| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(length).unwrap();
        file
    });
    disk.write_all_at(magic, at).unwrap();
    [disk, ssd]
}

/// A disk with the superblock of ext4.
pub fn ext4() -> File {
    let [disk, _] = with_ext4();
    disk
}

fn with_ext4() -> [File; 2] {
    devices(1024 + 56, &[0x53, 0xef, 1, 0])
}

fn is_same([disk, ssd]: &[File; 2], cache: Of<'_>) -> bool {
    is_as_noted(disk, ssd, cache).unwrap()
}

// promise 19: programs/tandem_helper::machine::dm::kept::tests::a_disk_that_was_used_elsewhere_is_not_as_noted
#[test]
fn a_disk_that_was_used_elsewhere_is_not_as_noted() {
    let devices = with_ext4();
    let [disk, ssd] = &devices;
    assert!(!is_same(&devices, CACHE), "nothing is noted");
    assert!(note(disk, ssd, CACHE).unwrap());
    assert!(is_same(&devices, CACHE));
    // A place that no use of the file system changes alone.
    disk.write_all_at(&[1], 1 << 20).unwrap();
    assert!(!is_same(&devices, CACHE), "a fixed quarter");
    disk.write_all_at(&[0], 1 << 20).unwrap();
    assert!(is_same(&devices, CACHE));
    // A mount counts itself.
    disk.write_all_at(&[1], 1024 + 52).unwrap();
    assert!(!is_same(&devices, CACHE), "the superblock");
}

// promise 19: programs/tandem_helper::machine::dm::kept::tests::a_file_system_that_was_not_left_in_order_is_not_noted
#[test]
fn a_file_system_that_was_not_left_in_order_is_not_noted() {
    // Mounted for writing; errors were met; the journal is to be replayed.
    for (at, byte) in [(58, 0), (58, 3), (96, 4)] {
        let [disk, ssd] = with_ext4();
        disk.write_all_at(&[byte], 1024 + at).unwrap();
        assert!(!note(&disk, &ssd, CACHE).unwrap(), "{byte} at {at}");
        assert!(!is_same(&[disk, ssd], CACHE));
    }
}

#[test]
fn a_note_is_of_one_cache_and_one_life() {
    let devices = with_ext4();
    let [disk, ssd] = &devices;
    note(disk, ssd, CACHE).unwrap();
    let other = "ff".repeat(16);
    assert!(!is_same(
        &devices,
        Of {
            uuid: &other,
            ..CACHE
        }
    ));
    // A torn copy counts for nothing, and the other one is whole.
    ssd.write_all_at(&[1], places()[1] + 100).unwrap();
    assert!(is_same(&devices, CACHE));
    forget(ssd).unwrap();
    assert!(!is_same(&devices, CACHE));
}

#[test]
fn only_where_each_use_shows_itself_anything_is_noted() {
    let btrfs = devices(65536 + 64, b"_BHRfS_M");
    let [disk, ssd] = &btrfs;
    // The superblock's own place, and one disk.
    disk.write_all_at(&65536_u64.to_le_bytes(), 65536 + 48)
        .unwrap();
    disk.write_all_at(&1_u64.to_le_bytes(), 65536 + 136)
        .unwrap();
    assert!(note(disk, ssd, CACHE).unwrap());
    assert!(is_same(&btrfs, CACHE));
    disk.write_all_at(&2_u64.to_le_bytes(), 65536 + 136)
        .unwrap();
    forget(ssd).unwrap();
    assert!(!note(disk, ssd, CACHE).unwrap(), "several disks");
    for [disk, ssd] in [
        devices(0, b"XFSB"),
        devices(0, b"LUKS\xba\xbe\0\x02"),
        devices(0, b""),
        // The journal of another file system.
        devices(1024 + 96, &[8]),
    ] {
        assert!(!note(&disk, &ssd, CACHE).unwrap());
        // Also where an SSD says that it was noted.
        let copies = [0, 1].map(|copy| {
            let zeroes = |_| Some([0; BLOCK_BYTES]);
            Core::linked().encode_samples(&CACHE.geometry(), true, copy, &zeroes)
        });
        for (bytes, at) in copies.iter().zip(places()) {
            ssd.write_all_at(bytes, at).unwrap();
        }
        let blank = tempfile::tempfile().unwrap();
        blank.set_len(SECTORS * SECTOR_BYTES).unwrap();
        assert!(!is_same(&[blank, ssd], CACHE));
    }
    let [disk, ssd] = devices(3, b"NTFS    ");
    disk.write_all_at(&[0x55, 0xaa], 510).unwrap();
    assert!(!note(&disk, &ssd, CACHE).unwrap());
}

#[test]
fn a_disk_that_cannot_be_read_is_not_noted() {
    let [disk, ssd] = with_ext4();
    disk.set_len(1 << 20).unwrap();
    note(&disk, &ssd, CACHE).unwrap_err();
    disk.set_len(SECTORS * SECTOR_BYTES).unwrap();
    assert!(!is_same(&[disk, ssd], CACHE));
}

/// The first block as kernel 6.1 writes it for blocks of 64 KiB.
pub fn head(layout: &Layout) -> [u8; METADATA_HEAD] {
    let mut head = [0; METADATA_HEAD];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(4, &1_u32.to_le_bytes());
    put(32, &0o6_142_003_u64.to_le_bytes());
    put(40, &1_u32.to_le_bytes());
    put(BLOCK, &u32::try_from(layout.block).unwrap().to_le_bytes());
    let blocks = u32::try_from(layout.data.1 / layout.block).unwrap();
    put(BLOCKS, &blocks.to_le_bytes());
    head
}

// promise 19: programs/tandem_helper::machine::dm::kept::tests::metadata_counts_if_the_target_was_stopped_in_order
#[test]
fn metadata_counts_if_the_target_was_stopped_in_order() {
    let layout = Layout::of(1 << 21).unwrap();
    assert!(was_closed(&head(&layout), &layout));
    assert!(!was_closed(&[0; METADATA_HEAD], &layout));
    for flags in [0_u32, 2, 3] {
        let mut head = head(&layout);
        head[4..8].copy_from_slice(&flags.to_le_bytes());
        assert!(!was_closed(&head, &layout), "flags {flags}");
    }
    for at in [32, BLOCK, BLOCKS] {
        let mut head = head(&layout);
        head[at] ^= 1;
        assert!(!was_closed(&head, &layout), "{at}");
    }
}

#[test]
fn a_mount_of_ext_counts_itself() {
    let [disk, _] = with_ext4();
    let mount = |time: u32, count: u16| {
        disk.write_all_at(&time.to_le_bytes(), 1024 + 44).unwrap();
        disk.write_all_at(&count.to_le_bytes(), 1024 + 52).unwrap();
        last_mount(&disk).unwrap().unwrap()
    };
    let first = mount(7, 1);
    assert_eq!(first, LastMount { time: 7, count: 1 });
    // What an unmount writes: the time of the last write, and the state.
    disk.write_all_at(&[9; 4], 1024 + 48).unwrap();
    disk.write_all_at(&[1; 2], 1024 + 58).unwrap();
    assert_eq!(last_mount(&disk).unwrap(), Some(first));
    assert_ne!(mount(8, 1), mount(7, 1));
    assert_ne!(mount(7, 2), mount(7, 1));
    let [other, _] = devices(0, b"XFSB");
    assert_eq!(last_mount(&other).unwrap(), None);
}
