// SPDX-License-Identifier: GPL-3.0-or-later
//! Recognises the cache's format on an SSD. Any program may have written the bytes: everything is checked and nothing
//! but the identity is taken. The layout is described in kmod/FORMAT.md.
//!
//! This code takes more than the module does: a cache of a newer module, too, whose disk must not be shown while data is
//! on the SSD only. `superblock/module.rs` compares it with the module's own code.

use std::io;
use std::os::unix::fs::FileExt;
use tandem_api::Target;

/// Bytes of one copy.
pub const BYTES: usize = 4096;
/// Where the two copies lie, bytes from the start.
pub const OFFSETS: [u64; 2] = [0, 512 << 10];
/// Bytes at the start that hold nothing but the copies.
pub const AREA_BYTES: u64 = 1 << 20;

const MAGIC: &[u8; 8] = b"TANDEM01";
/// The first one is of modules whose notes have other checksums of the disk's content.
const SAMPLES_MAGICS: [&[u8; 8]; 2] = [b"TDSMPL01", b"TDSMPL02"];
/// State of samples that were taken when the cache was stopped.
const STOPPED: u32 = 2;
const CRC: std::ops::Range<usize> = 8..12;
const VERSION: std::ops::Range<usize> = 12..16;
const COPY: std::ops::Range<usize> = 24..28;
const FRAME_SHIFT: std::ops::Range<usize> = 28..32;
const UUID: std::ops::Range<usize> = 32..48;
const SEQUENCE: std::ops::Range<usize> = 48..56;
const ORIGIN_SECTORS: std::ops::Range<usize> = 56..64;
const SSD_SECTORS: std::ops::Range<usize> = 64..72;
const INCOMPAT: std::ops::Range<usize> = 20..24;
/// Flag of `INCOMPAT`: nothing is dirty.
const CLEAN: u32 = 1;
/// Flag of `INCOMPAT`: dm-cache has the rest of the SSD.
const DM_CACHE: u32 = 8;
const DISK_ID_BYTES: std::ops::Range<usize> = 84..88;
/// Where the identity of the disk begins.
const DISK_ID: usize = 88;
const DISK_ID_ROOM: usize = 64;

/// The cache whose format is on an SSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// UUID of the cache, 32 hex digits.
    pub uuid: String,
    /// Length of the disk, as the module knows it. The module takes a table of this length only.
    pub origin_sectors: u64,
    /// Length of the SSD when the format was made.
    pub ssd_sectors: u64,
    /// Identity of the disk ([`crate::model::facts::Ident::origin_id`]), hex.
    pub disk_id: String,
    /// No data is on the SSD only.
    pub clean: bool,
    /// The target that serves the cache.
    pub target: Target,
    sequence: u64,
}

/// What a sound copy number `copy` says.
fn parse(bytes: &[u8; BYTES], copy: usize) -> Option<Carried> {
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let word = |range: std::ops::Range<usize>| {
        Some(u32::from_le_bytes(bytes.get(range)?.try_into().ok()?))
    };
    let long = |range: std::ops::Range<usize>| {
        Some(u64::from_le_bytes(bytes.get(range)?.try_into().ok()?))
    };
    if usize::try_from(word(COPY)?).ok()? != copy {
        return None;
    }
    let mut blanked = *bytes;
    blanked.get_mut(CRC)?.fill(0);
    if crc32c::crc32c(&blanked) != word(CRC)? {
        return None;
    }
    let length = usize::try_from(word(DISK_ID_BYTES)?).ok()?;
    let disk_id = bytes.get(DISK_ID..DISK_ID + length.min(DISK_ID_ROOM))?;
    Some(Carried {
        disk_id: crate::hex(disk_id),
        clean: word(INCOMPAT)? & CLEAN != 0,
        target: match word(INCOMPAT)? & DM_CACHE {
            0 => Target::Tandem,
            _ => Target::DmCache,
        },
        uuid: crate::hex(bytes.get(UUID)?),
        origin_sectors: long(ORIGIN_SECTORS)?,
        ssd_sectors: long(SSD_SECTORS)?,
        sequence: long(SEQUENCE)?,
    })
}

/// The cache whose format is on a device. Of two sound copies the one with the higher sequence number counts.
///
/// The second copy counts only if the place of the first copy is blank or has a damaged copy. A program that has made a
/// partition table or a file system on the device has overwritten the first copy and not the second: then the device
/// has no format of a cache any more.
///
/// A copy that cannot be read counts as one that was never written, as in the module: a bad block in one of them keeps no
/// machine from starting.
///
/// # Errors
/// If no copy can be read. A device that is shorter than a copy has no format.
pub fn read(device: &impl FileExt) -> io::Result<Option<Carried>> {
    let mut copies = [[0; BYTES]; 2];
    let mut unreadable = [None, None];
    for (number, offset) in OFFSETS.into_iter().enumerate() {
        let bytes = &mut copies[number];
        match device.read_exact_at(bytes, offset) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => {
                bytes.fill(0);
                unreadable[number] = Some(e);
            }
            Ok(()) => {}
        }
    }
    match unreadable {
        [Some(e), Some(_)] => Err(e),
        _ => Ok(choose(&copies)),
    }
}

/// Copy number `copy` of the superblock of a cache that dm-cache serves. `disk_id`: identity of the disk
/// ([`crate::model::facts::Ident::origin_id`]), hex. `sectors`: lengths of the disk and of the SSD.
///
/// dm-tandem refuses the flag. This superblock says nothing of a region: the regions follow from the length of the SSD. With
/// another length than the superblock has, dm-cache begins empty.
pub fn of_dm_cache(uuid: &str, disk_id: &str, sectors: [u64; 2], copy: usize) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let mut put = |at: usize, value: &[u8]| {
        if let Some(place) = bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    };
    let [disk, ssd] = sectors;
    let mut identity = crate::unhex(disk_id);
    identity.truncate(DISK_ID_ROOM);
    put(0, MAGIC);
    put(VERSION.start, &1_u32.to_le_bytes());
    put(INCOMPAT.start, &(CLEAN | DM_CACHE).to_le_bytes());
    put(COPY.start, &u32::try_from(copy).unwrap_or(0).to_le_bytes());
    put(FRAME_SHIFT.start, &5_u32.to_le_bytes());
    put(UUID.start, &crate::unhex(uuid));
    put(SEQUENCE.start, &1_u64.to_le_bytes());
    put(ORIGIN_SECTORS.start, &disk.to_le_bytes());
    put(SSD_SECTORS.start, &ssd.to_le_bytes());
    let length = u32::try_from(identity.len()).unwrap_or(0);
    put(DISK_ID_BYTES.start, &length.to_le_bytes());
    put(DISK_ID, &identity);
    let crc = crc32c::crc32c(&bytes);
    if let Some(place) = bytes.get_mut(CRC) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// Whether the cache `uuid` on this device was stopped in order, so that the device knew of all writes to the disk.
///
/// # Errors
/// If the device cannot be read.
pub fn stopped(device: &impl FileExt, uuid: &str) -> io::Result<bool> {
    let mut newest = None;
    for (copy, offset) in OFFSETS.into_iter().enumerate() {
        let mut bytes = [0; BYTES];
        device.read_exact_at(&mut bytes, offset + BYTES as u64)?;
        newest = newest.max(samples(&bytes, copy, uuid));
    }
    Ok(newest.is_some_and(|(_, state)| state == STOPPED))
}

/// Sequence number and state of copy number `copy` of the samples, if the copy is sound.
fn samples(bytes: &[u8; BYTES], copy: usize, uuid: &str) -> Option<(u64, u32)> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let crc = crc32c::crc32c_append(crc32c::crc32c(&crate::unhex(uuid)), bytes.get(12..)?);
    let sound = SAMPLES_MAGICS.iter().any(|magic| bytes.starts_with(*magic))
        && word(8)? == crc
        && usize::try_from(word(24)?).ok()? == copy;
    let sequence = u64::from(word(16)?) | u64::from(word(20)?) << 32;
    sound.then_some((sequence, word(12)?))
}

fn choose([first, second]: &[[u8; BYTES]; 2]) -> Option<Carried> {
    let vacant = first.starts_with(MAGIC) || first.iter().all(|byte| *byte == 0);
    let second = parse(second, 1).filter(|_| vacant);
    let both: Vec<_> = parse(first, 0).into_iter().chain(second).collect();
    // The flag is taken from both copies before anything becomes dirty, so a flag in one sound copy is right. But a copy of
    // another cache says nothing.
    let same = both.iter().all(|copy| copy.uuid == both[0].uuid);
    let clean = same && both.iter().any(|copy| copy.clean);
    let newest = both.into_iter().max_by_key(|copy| copy.sequence)?;
    Some(Carried { clean, ..newest })
}

#[cfg(test)]
mod module;
#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A copy as dm-tandem writes it.
    pub fn sound(copy: u32) -> [u8; BYTES] {
        sound_of(copy, 1, 2048)
    }

    fn sound_of(copy: u32, sequence: u64, origin_sectors: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[SEQUENCE].copy_from_slice(&sequence.to_le_bytes());
        bytes[ORIGIN_SECTORS].copy_from_slice(&origin_sectors.to_le_bytes());
        bytes[..8].copy_from_slice(MAGIC);
        bytes[COPY].copy_from_slice(&copy.to_le_bytes());
        bytes[UUID].copy_from_slice(&[0xab; 16]);
        let crc = crc32c::crc32c(&bytes);
        bytes[CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn a_sound_copy_names_its_cache() {
        for copy in 0..2 {
            let carried = parse(&sound(copy), copy as usize).unwrap();
            assert_eq!(
                (carried.uuid, carried.origin_sectors),
                ("ab".repeat(16), 2048)
            );
        }
    }

    #[test]
    fn every_flipped_bit_and_a_copy_in_the_wrong_place_are_noticed() {
        assert_eq!(parse(&sound(1), 0), None);
        for byte in (0..48).chain([200, 4095]) {
            for bit in 0..8 {
                let mut bytes = sound(0);
                bytes[byte] ^= 1 << bit;
                assert_eq!(parse(&bytes, 0), None, "byte {byte} bit {bit}");
            }
        }
        assert_eq!(parse(&[0; BYTES], 0), None);
    }

    /// A copy of the samples behind a copy of the superblock, as the module writes it.
    pub fn sampled(copy: u32, sequence: u64, state: u32) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(SAMPLES_MAGICS[usize::try_from(sequence % 2).unwrap()]);
        bytes[12..16].copy_from_slice(&state.to_le_bytes());
        bytes[16..24].copy_from_slice(&sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&copy.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&[0xab; 16]), &bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    // promise 19: programs/tandem_helper::machine::superblock::tests::a_cache_was_stopped_in_order_if_the_newest_sound_samples_say_so
    #[test]
    fn a_cache_was_stopped_in_order_if_the_newest_sound_samples_say_so() {
        let path = std::env::temp_dir().join(format!("tandem-samples-{}", std::process::id()));
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        file.set_len(1 << 20).unwrap();
        let uuid = "ab".repeat(16);
        let is = |first: [u8; BYTES], second: [u8; BYTES]| {
            for (bytes, offset) in [first, second].iter().zip(OFFSETS) {
                file.write_all_at(bytes, offset + 4096).unwrap();
            }
            stopped(&file, &uuid).unwrap()
        };
        let mut torn = sampled(1, 9, 1);
        torn[2000] ^= 1;
        assert!(!is([0; BYTES], [0; BYTES]));
        assert!(is(sampled(0, 7, 2), sampled(1, 7, 2)));
        assert!(is(sampled(0, 7, 2), sampled(1, 6, 1)));
        assert!(!is(sampled(0, 7, 2), sampled(1, 8, 1)), "it runs");
        assert!(!is(sampled(0, 7, 1), sampled(1, 6, 2)));
        assert!(is(sampled(0, 7, 2), torn), "a torn copy counts for nothing");
        assert!(!is(sampled(1, 7, 2), [0; BYTES]), "the other place");
        assert!(!stopped(&file, &"cd".repeat(16)).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_superblock_names_its_disk_and_says_whether_anything_is_dirty() {
        let with = |copy: u32, clean: bool| {
            let mut bytes = sound(copy);
            bytes[INCOMPAT].copy_from_slice(&u32::from(clean).to_le_bytes());
            bytes[DISK_ID_BYTES].copy_from_slice(&3_u32.to_le_bytes());
            bytes[DISK_ID..DISK_ID + 3].copy_from_slice(&[1, 2, 0xff]);
            bytes[CRC].fill(0);
            let crc = crc32c::crc32c(&bytes);
            bytes[CRC].copy_from_slice(&crc.to_le_bytes());
            bytes
        };
        let says = |first, second| {
            let carried = choose(&[first, second]).unwrap();
            (carried.disk_id, carried.clean)
        };
        let disk = "0102ff".to_owned();
        assert_eq!(says(with(0, false), with(1, false)), (disk.clone(), false));
        assert_eq!(says(with(0, true), with(1, false)), (disk.clone(), true));
        assert_eq!(says(with(0, false), [0; BYTES]), (disk, false));
    }

    /// A cut may leave copies from before and after the growth of the disk.
    #[test]
    fn the_newer_of_two_sound_copies_counts() {
        let sectors = |first, second| choose(&[first, second]).unwrap().origin_sectors;
        assert_eq!(sectors(sound_of(0, 7, 4096), sound_of(1, 6, 2048)), 4096);
        assert_eq!(sectors(sound_of(0, 7, 2048), sound_of(1, 8, 4096)), 4096);
    }

    #[test]
    fn the_second_copy_counts_only_where_the_first_is_nobody_elses() {
        let ours = parse(&sound(0), 0);
        let blank = [0; BYTES];
        let mut torn = sound(0);
        torn[100] ^= 1;
        let mut foreign = blank;
        // A boot record's signature.
        foreign[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(choose(&[sound(0), blank]), ours);
        assert_eq!(choose(&[blank, sound(1)]), ours);
        assert_eq!(choose(&[torn, sound(1)]), ours);
        assert_eq!(choose(&[foreign, sound(1)]), None);
        assert_eq!(choose(&[blank, blank]), None);
    }

    /// Both copies of a superblock, one of which a read fails.
    struct BadBlock {
        copies: [[u8; BYTES]; 2],
        bad: [bool; 2],
    }

    impl FileExt for BadBlock {
        fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
            let copy = OFFSETS.iter().position(|at| *at == offset).unwrap();
            if self.bad[copy] {
                return Err(io::Error::from_raw_os_error(5));
            }
            bytes.copy_from_slice(&self.copies[copy]);
            Ok(bytes.len())
        }

        fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
    }

    #[test]
    fn one_copy_that_cannot_be_read_hides_no_cache() {
        let read = |bad| {
            let copies = [sound(0), sound(1)];
            read(&BadBlock { copies, bad }).map(|found| found.is_some())
        };
        for bad in [[false, false], [true, false], [false, true]] {
            assert!(read(bad).unwrap(), "{bad:?}");
        }
        assert!(read([true, true]).is_err());
    }

    #[test]
    fn a_copy_of_another_cache_makes_none_clean() {
        let of = |copy, uuid, flags: u32, sequence| {
            let mut bytes = sound_of(copy, sequence, 2048);
            bytes[UUID].fill(uuid);
            bytes[INCOMPAT].copy_from_slice(&flags.to_le_bytes());
            bytes[CRC].fill(0);
            let crc = crc32c::crc32c(&bytes);
            bytes[CRC].copy_from_slice(&crc.to_le_bytes());
            bytes
        };
        let clean = |uuid| {
            choose(&[of(0, 1, 0, 2), of(1, uuid, CLEAN, 1)])
                .unwrap()
                .clean
        };
        assert!(clean(1) && !clean(2));
    }
}
