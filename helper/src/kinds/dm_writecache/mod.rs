// SPDX-License-Identifier: GPL-3.0-or-later
//! dm-writecache of the kernel, also as LVM sets it up. RapidDisk makes its write-back of it, with a cache in memory.

mod remove;

pub(super) use remove::BARE;

use super::lvm;
use super::system::{Find, SetUp, System, Target, Told, devices_at};
use tandem_api::{OtherKind, OtherMode, OtherState};

pub(super) const SYSTEM: System = System {
    find: Find::Mappings(Target {
        name: "writecache",
        kind: |set_up| match set_up {
            SetUp::Lvm => OtherKind::LvmWritecache,
            SetUp::InMemory => OtherKind::RapidDisk,
            SetUp::Other => OtherKind::DmWritecache,
        },
        // Kind of the memory, origin, cache.
        devices: |words| devices_at(words, 1, &[2]),
        told,
    }),
    may_hang: &[],
    removers: &[
        (OtherKind::LvmWritecache, &lvm::Remove),
        (OtherKind::DmWritecache, &BARE),
    ],
};

/// Each used block is one that the disk does not have: a block that was written back is free.
fn told(table: &str, status: &str) -> Option<Told> {
    let block: u64 = table.split_ascii_whitespace().nth(3)?.parse().ok()?;
    let numbers: Vec<u64> = status
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let [error, total, free, _under_way, rest @ ..] = numbers.as_slice() else {
        return None;
    };
    let state = match error {
        0 => OtherState::Working,
        _ => OtherState::Failed,
    };
    let (reads, beside) = match rest {
        [reads, hits, beside @ ..] => ((*hits, reads.saturating_sub(*hits)), beside.to_vec()),
        _ => ((0, 0), Vec::new()),
    };
    let used = total.saturating_sub(*free).saturating_mul(block);
    Some(Told {
        cache_bytes: total.saturating_mul(block),
        used_bytes: used,
        unwritten_bytes: Some(used),
        reads,
        beside,
        ..Told::of(state, OtherMode::Writeback)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_used_block_is_one_that_the_disk_lacks() {
        let line = "0 130561 130391 0 1204 181 170 0 0 0 170 0 0 0";
        let told = super::told("s 8:16 8:1 4096 0", line).unwrap();
        assert_eq!(told.used_bytes, 170 << 12);
        assert_eq!(told.unwritten_bytes, Some(170 << 12));
        assert_eq!(told.reads, (181, 1023));
        assert_eq!(told.beside, [170, 0, 0, 0, 170, 0, 0, 0]);
    }

    #[test]
    fn a_strange_line_says_nothing() {
        for strange in ["-1", "a b c", ""] {
            assert_eq!(told("s 8:1 8:2 4096 0", strange), None);
        }
    }
}
