// SPDX-License-Identifier: GPL-3.0-or-later
//! Superblocks of caches that blkid does not know: without a name, such an SSD would pass for one with unknown content, though
//! it may have data that its hard disk lacks.

use crate::model::other_format::Format;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Whether the file has this format. A file that is too short has none.
///
/// # Errors
/// If the file cannot be read.
pub fn is_on(format: Format, file: &File) -> io::Result<bool> {
    let mut word = [0; 4];
    match file.read_exact_at(&mut word, format.at) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
        Ok(()) => Ok(format.values.contains(&u32::from_le_bytes(word))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::other_format::FORMATS;

    #[test]
    fn each_format_is_told_by_its_mark_and_by_no_other() {
        for format in FORMATS {
            let file = tempfile::tempfile().unwrap();
            assert!(!is_on(format, &file).unwrap(), "too short");
            file.set_len(1 << 20).unwrap();
            for value in format.values {
                file.write_all_at(&value.to_le_bytes(), format.at).unwrap();
                let found = FORMATS.into_iter().filter(|f| is_on(*f, &file).unwrap());
                assert_eq!(found.collect::<Vec<_>>(), [format]);
            }
            assert!(Format::is_named(format.word));
        }
        assert!(!Format::is_named("ext4") && !Format::is_named(""));
        // As dmsetup leaves it there: the bytes 21 93 48 23.
        assert_eq!(0x2348_9321_u32.to_le_bytes(), [0x21, 0x93, 0x48, 0x23]);
    }
}
