// SPDX-License-Identifier: GPL-3.0-or-later
//! Recognises the cache's format on an SSD. The bytes may be anybody's: everything is checked and
//! nothing but the identity is taken. The layout is described in kmod/FORMAT.md.

use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of one copy.
pub const BYTES: usize = 4096;
/// Where the two copies lie, bytes from the start.
pub const OFFSETS: [u64; 2] = [0, 512 << 10];
/// Bytes at the start that hold nothing but the copies.
pub const AREA_BYTES: u64 = 1 << 20;

const MAGIC: &[u8; 8] = b"TANDEM01";
const CRC: std::ops::Range<usize> = 8..12;
const COPY: std::ops::Range<usize> = 24..28;
const UUID: std::ops::Range<usize> = 32..48;

/// The uuid of the cache (32 hex digits) that a sound copy number `copy` names.
pub fn uuid(bytes: &[u8; BYTES], copy: usize) -> Option<String> {
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let word = |range: std::ops::Range<usize>| {
        Some(u32::from_le_bytes(bytes.get(range)?.try_into().ok()?))
    };
    if usize::try_from(word(COPY)?).ok()? != copy {
        return None;
    }
    let mut blanked = *bytes;
    blanked.get_mut(CRC)?.fill(0);
    if crc32c::crc32c(&blanked) != word(CRC)? {
        return None;
    }
    bytes.get(UUID).map(crate::hex)
}

/// The uuid of the cache whose format a device carries.
///
/// The second copy counts only where the first is blank or a damaged one of ours: a partition table
/// or a file system that somebody has put there since leaves the second copy standing, and the device
/// is theirs then.
///
/// # Errors
/// If the device cannot be read; one shorter than a copy has none.
pub fn read(device: &impl FileExt) -> io::Result<Option<String>> {
    let mut copies = [[0; BYTES]; 2];
    for (bytes, offset) in copies.iter_mut().zip(OFFSETS) {
        match device.read_exact_at(bytes, offset) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
    }
    Ok(choose(&copies))
}

fn choose([first, second]: &[[u8; BYTES]; 2]) -> Option<String> {
    let vacant = first.starts_with(MAGIC) || first.iter().all(|byte| *byte == 0);
    uuid(first, 0).or_else(|| vacant.then(|| uuid(second, 1)).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound(copy: u32) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[COPY].copy_from_slice(&copy.to_le_bytes());
        bytes[UUID].copy_from_slice(&[0xab; 16]);
        let crc = crc32c::crc32c(&bytes);
        bytes[CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn a_sound_copy_names_its_cache() {
        assert_eq!(uuid(&sound(0), 0), Some("ab".repeat(16)));
        assert_eq!(uuid(&sound(1), 1), Some("ab".repeat(16)));
    }

    #[test]
    fn every_flipped_bit_and_a_copy_in_the_wrong_place_are_noticed() {
        assert_eq!(uuid(&sound(1), 0), None);
        for byte in (0..48).chain([200, 4095]) {
            for bit in 0..8 {
                let mut bytes = sound(0);
                bytes[byte] ^= 1 << bit;
                assert_eq!(uuid(&bytes, 0), None, "byte {byte} bit {bit}");
            }
        }
        assert_eq!(uuid(&[0; BYTES], 0), None);
    }

    #[test]
    fn the_second_copy_counts_only_where_the_first_is_nobody_elses() {
        let ours = Some("ab".repeat(16));
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
}
