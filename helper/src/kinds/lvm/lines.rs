// SPDX-License-Identifier: GPL-3.0-or-later
//! The lines that LVM prints while it removes a cache or writes it back. The lines are those of lvm2 2.03.16 and 2.03.31.

use super::write_back::CacheMode;

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

/// The columns of the lines that `lvs -o lv_uuid,…` prints of the volume with this UUID, without the UUID. Warnings may be among
/// the lines.
fn columns<'a>(output: &'a str, volume_uuid: &str) -> impl Iterator<Item = Vec<&'a str>> {
    output.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        let uuid = words.next()?.replace('-', "");
        (uuid == volume_uuid).then(|| words.take(4).collect())
    })
}

/// Whether a line is of the volume with this UUID.
pub fn knows(output: &str, volume_uuid: &str) -> bool {
    columns(output, volume_uuid).next().is_some()
}

/// Whether the volume with this UUID has a cache, by `lvs -o lv_uuid,segtype`. Nothing if no line is of this volume.
pub fn has_cache(output: &str, volume_uuid: &str) -> Option<bool> {
    let mut cached = None;
    for columns in columns(output, volume_uuid) {
        if let [kind] = columns.as_slice() {
            let is_cache = matches!(*kind, "cache" | "writecache");
            cached = Some(is_cache || cached == Some(true));
        }
    }
    cached
}

/// What LVM says of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The volume has no cache.
    Plain,
    /// The volume has a cache of dm-cache in this mode, on this pool.
    Cache(CacheMode, Pool),
}

/// The UUID of the volume on the SSD: a volume may get another cache. None if LVM tells none.
pub type Pool = Option<[u8; 32]>;

fn pool(uuid: &str) -> Pool {
    uuid.replace('-', "").into_bytes().try_into().ok()
}

/// The volume with this UUID, by the lines of `lvs -o lv_uuid,segtype,cache_mode,pool_lv_uuid`. None if no line is of this volume,
/// or if the line is not known.
pub fn shown(output: &str, volume_uuid: &str) -> Option<Shown> {
    let mut seen = None;
    for columns in columns(output, volume_uuid) {
        seen = match columns.as_slice() {
            ["cache", word, rest @ ..] => {
                let mut modes = CacheMode::ALL.into_iter();
                let mode = modes.find(|mode| mode.word() == *word)?;
                let pool = rest.first().and_then(|uuid| pool(uuid));
                return Some(Shown::Cache(mode, pool));
            }
            ["cache" | "writecache", ..] => return None,
            _ => Some(Shown::Plain),
        };
    }
    seen
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
    fn the_mode_of_a_cache_is_one_that_is_known() {
        let uuid = "iAxIPyVFqvPyT9m3zMSXGZLbW6vXxkHg";
        let line = |words: &str| format!("  iAxIPy-VFqv-PyT9-m3zM-SXGZ-LbW6-vXxkHg {words} \n");
        for mode in CacheMode::ALL {
            let told = format!(
                "  WARNING: a b\n{}",
                line(&format!("cache {}", mode.word()))
            );
            assert_eq!(shown(&told, uuid), Some(Shown::Cache(mode, None)));
            let on = format!(
                "cache {} sJVTnc-PxK5-Psqz-bGL1-Xmll-UCHF-0cUVTY",
                mode.word()
            );
            let pool = *b"sJVTncPxK5PsqzbGL1XmllUCHF0cUVTY";
            assert_eq!(
                shown(&line(&on), uuid),
                Some(Shown::Cache(mode, Some(pool)))
            );
            assert_eq!(shown(&told, "x"), None);
        }
        assert_eq!(shown(&line("linear"), uuid), Some(Shown::Plain));
        for unknown in [
            "cache",
            "cache --force",
            "writecache",
            "writecache writeback",
        ] {
            assert_eq!(shown(&line(unknown), uuid), None, "{unknown}");
        }
    }
}
