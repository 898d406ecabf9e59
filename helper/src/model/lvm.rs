// SPDX-License-Identifier: GPL-3.0-or-later
//! The removal of a cache that LVM has made, and what LVM prints meanwhile. The lines are those of lvm2 2.03.16 and 2.03.31.

use crate::model::facts::Ident;
use serde::{Deserialize, Serialize};
use tandem_api::{OtherKind, Step};

/// How the UUIDs of LVM's mappings begin. The UUIDs of the group and of the volume follow.
const UUID_PREFIX: &str = "LVM-";
/// Characters of a UUID of LVM.
const UUID_CHARS: usize = 32;

/// The removal of a cache that LVM has made. All of it comes from the facts of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LvmRemoval {
    /// UUID of the volume's mapping.
    pub id: String,
    /// `group/volume`
    pub volume: String,
    /// The kind of cache.
    pub kind: OtherKind,
    /// Disk and SSD.
    pub devices: [Ident; 2],
    /// The steps, as the plan shows them.
    pub steps: Vec<Step>,
    /// Bytes that were on the SSD only when the removal began.
    pub unwritten_bytes: u64,
    /// Whether data may have been on the SSD only then.
    pub may_be_unwritten: bool,
    /// User that has asked for it.
    pub owner: u32,
}

impl LvmRemoval {
    /// UUID of the volume, 32 letters and digits.
    pub fn volume_uuid(&self) -> &str {
        self.id
            .get(self.id.len().saturating_sub(UUID_CHARS)..)
            .unwrap_or_default()
    }
}

/// Whether this is the UUID of the mapping of a whole volume. A hidden part of a volume has a longer one.
pub fn is_volume_id(id: &str) -> bool {
    id.strip_prefix(UUID_PREFIX).is_some_and(|uuids| {
        uuids.len() == 2 * UUID_CHARS && uuids.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// Whether this is `group/volume`, in characters that LVM allows. None of the two begins like an option.
pub fn is_volume_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"+_.-".contains(&b);
    let is_name =
        |part: &str| !part.is_empty() && !part.starts_with(['-', '.']) && part.bytes().all(allowed);
    name.split_once('/')
        .is_some_and(|(group, volume)| is_name(group) && is_name(volume))
}

/// How far LVM is with a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LvmProgress {
    /// Blocks that the disk lacks, as LVM has printed last.
    pub blocks_left: Option<u64>,
    /// The end, once LVM has ended.
    pub ended: Option<LvmEnd>,
}

/// How LVM ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LvmEnd {
    /// Its exit status; none if it was killed, or if nobody knows.
    pub status: Option<i32>,
    /// Whether LVM says afterwards that the volume has a cache; none if it does not say.
    pub cached: Option<bool>,
    /// The last lines that it printed.
    pub said: String,
}

/// The blocks that the disk lacks, by the last line that tells them.
pub fn blocks_left(output: &str) -> Option<u64> {
    output.lines().rev().find_map(blocks_of)
}

fn blocks_of(line: &str) -> Option<u64> {
    let words: Vec<_> = line.split_ascii_whitespace().take(6).collect();
    match words.as_slice() {
        ["Flushing", blocks, "blocks", ..]
        | ["Detaching", "writecache", "cleaning", blocks, "blocks", ..] => blocks.parse().ok(),
        ["Detaching", "writecache", "completed" | "already", ..] => Some(0),
        _ => None,
    }
}

/// Whether the volume with this UUID has a cache, by `lvs -o lv_uuid,segtype`. Nothing if no line is of this volume:
/// warnings may be among the lines.
pub fn has_cache(output: &str, volume_uuid: &str) -> Option<bool> {
    let mut cached = None;
    for line in output.lines() {
        let words: Vec<_> = line.split_ascii_whitespace().take(3).collect();
        if let [uuid, kind] = words.as_slice()
            && uuid.replace('-', "") == volume_uuid
        {
            let is_cache = matches!(*kind, "cache" | "writecache");
            cached = Some(is_cache || cached == Some(true));
        }
    }
    cached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flush that was stopped, as it was recorded. The last line is not true.
    const STOPPED: &str = "  Flushing 668 blocks for cache vg2/m.\n  Flushing 543 blocks for cache vg2/m.\n  \
        Interrupted...\n  Flushing of vg2/m aborted.\n  \
        Logical volume vg2/m is not cached and vg2/cm_cvol is removed.\n";
    const WRITECACHE: &str = "  Detaching writecache setting cleaner.\n  Detaching writecache cleaning 8635 blocks\n  \
        This command can be cancelled and rerun to complete writecache detach.\n";

    #[test]
    fn the_last_line_with_a_number_says_what_the_disk_lacks() {
        assert_eq!(blocks_left("  Flushing 1 blocks for cache vg2/m."), Some(1));
        assert_eq!(blocks_left(STOPPED), Some(543));
        assert_eq!(blocks_left(WRITECACHE), Some(8635));
        let done = format!("{WRITECACHE}  Detaching writecache completed cleaning.\n");
        assert_eq!(blocks_left(&done), Some(0));
        assert_eq!(
            blocks_left("  Detaching writecache already clean."),
            Some(0)
        );
    }

    #[test]
    fn other_lines_and_lines_that_are_cut_say_nothing() {
        for line in [
            "",
            "  Detaching writecache setting cleaner.",
            "  Flushing of vg2/m aborted.",
            "  Flushing -1 blocks for cache vg2/m.",
            "  Flushing 18446744073709551616 blocks for cache vg2/m.",
            "  Logical volume vg2/m is not cached and vg2/cm_cvol is removed.",
            "  Giving up waiting for lock.",
        ] {
            assert_eq!(blocks_left(line), None, "{line}");
        }
        let line = "  Flushing 668 blocks for cache vg2/m.";
        for end in 0..line.find("blocks").unwrap() {
            assert_eq!(blocks_left(&line[..end]), None);
        }
    }

    #[test]
    fn what_lvs_says_counts_for_this_volume_only() {
        let uuid = "iAxIPyVFqvPyT9m3zMSXGZLbW6vXxkHg";
        let line = |kind: &str| format!("  iAxIPy-VFqv-PyT9-m3zM-SXGZ-LbW6-vXxkHg {kind} \n");
        assert_eq!(has_cache(&line("cache"), uuid), Some(true));
        assert_eq!(has_cache(&line("writecache"), uuid), Some(true));
        let twice = [line("linear"), line("linear")].concat();
        assert_eq!(has_cache(&twice, uuid), Some(false));
        let warned = format!("  WARNING: VG vg1 is missing PV\n{}", line("cache"));
        assert_eq!(has_cache(&warned, uuid), Some(true));
        assert_eq!(has_cache(&line("linear"), "x"), None);
        assert_eq!(has_cache("  Failed to find logical volume", uuid), None);
    }

    #[test]
    fn only_names_and_ids_of_whole_volumes_are_used() {
        let both = "a1".repeat(UUID_CHARS);
        assert!(is_volume_id(&format!("LVM-{both}")));
        for id in [
            both.clone(),
            format!("LVM-{both}-real"),
            format!("LVM-{}", &both[1..]),
            format!("LVM-{}/", &both[1..]),
        ] {
            assert!(!is_volume_id(&id), "{id}");
        }
        assert!(is_volume_name("films/my-movies") && is_volume_name("a+b_c.d/0"));
        for name in [
            "films",
            "films/",
            "/movies",
            "-f/movies",
            "films/--force",
            "a/b/c",
            "a/b c",
            "a/$b",
            "a/b\n",
            "../a",
        ] {
            assert!(!is_volume_name(name), "{name}");
        }
    }
}
