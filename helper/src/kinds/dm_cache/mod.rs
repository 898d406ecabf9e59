// SPDX-License-Identifier: GPL-3.0-or-later
//! dm-cache of the kernel, also as LVM sets it up.

mod remove;

pub(super) use remove::BARE;

use super::lvm;
use super::system::{Find, SetUp, System, Target, Told, devices_at};
use crate::machine::dm::dm_cache::{CacheLine, has_failed};
use tandem_api::{OtherKind, OtherMode, OtherState, SECTOR_BYTES};

pub(super) const SYSTEM: System = System {
    find: Find::Mappings(Target {
        name: "cache",
        kind: |set_up| match set_up {
            SetUp::Lvm => OtherKind::LvmCache,
            SetUp::InMemory | SetUp::Other => OtherKind::DmCache,
        },
        // Metadata, cache, origin.
        devices: |words| devices_at(words, 2, &[1, 0]),
        told,
    }),
    may_hang: &[],
    removers: &[
        (OtherKind::LvmCache, &lvm::Remove),
        (OtherKind::DmCache, &BARE),
    ],
};

fn told(_table: &str, status: &str) -> Option<Told> {
    if has_failed(status) {
        return Some(Told::of(OtherState::Failed, OtherMode::Unknown));
    }
    let line = CacheLine::parse(status)?;
    let state = match line.works {
        true if line.policy == "cleaner" => OtherState::Cleaning,
        true => OtherState::Working,
        false => OtherState::Failed,
    };
    let mode = line.features.iter().find_map(|word| match word.as_str() {
        "writethrough" => Some(OtherMode::Writethrough),
        "writeback" => Some(OtherMode::Writeback),
        "passthrough" => Some(OtherMode::Off),
        _ => None,
    });
    let block = line.block.saturating_mul(SECTOR_BYTES);
    let bytes = |blocks: u64| blocks.saturating_mul(block);
    let (writes, moves) = (line.writes, line.moves);
    Some(Told {
        cache_bytes: bytes(line.total),
        used_bytes: bytes(line.used),
        unwritten_bytes: Some(bytes(line.dirty)),
        reads: line.reads,
        // The last two are 0 after each load of a table.
        beside: vec![writes.0, writes.1, moves.0, moves.1],
        ..Told::of(state, mode.unwrap_or(OtherMode::Unknown))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: &str = "8 58/8192 128 265/16384 8943 316 8192 0 0 0 5 1 writethrough 2 migration_threshold 2048 smq 0 rw -";

    #[test]
    fn lines_of_kernels_6_1_and_7_3_are_understood() {
        let told = told("253:1 253:0 8:16 128 1 writethrough smq 0", CACHE).unwrap();
        assert_eq!(told.state, OtherState::Working);
        assert_eq!(told.mode, OtherMode::Writethrough);
        assert_eq!(
            (told.used_bytes, told.cache_bytes),
            (265 << 16, 16384 << 16)
        );
        assert_eq!(
            (told.unwritten_bytes, told.reads),
            (Some(5 << 16), (8943, 316))
        );
        assert_eq!(told.beside, [8192, 0, 0, 0]);
    }

    #[test]
    fn a_cache_volume_has_ten_words_of_policy_and_a_flush_shows_as_cleaner() {
        let mq = "8 58/8192 128 265/16384 1 2 3 4 5 6 668 2 metadata2 writethrough 2 migration_threshold 2048 mq 10 \
            random_threshold 0 sequential_threshold 0 discard_promote_adjustment 0 read_promote_adjustment 0 \
            write_promote_adjustment 0 rw -";
        let told = |line: &str| super::told("", line).unwrap();
        assert_eq!(told(mq).state, OtherState::Working);
        let cleaner = CACHE.replace("smq", "cleaner");
        assert_eq!(told(&cleaner).state, OtherState::Cleaning);
        assert_eq!(
            told(&CACHE.replace(" rw ", " ro ")).state,
            OtherState::Failed
        );
        assert_eq!(told("Fail").state, OtherState::Failed);
    }

    #[test]
    fn a_line_that_is_cut_anywhere_says_nothing_and_ends_nothing() {
        for end in 0..CACHE.len() - 3 {
            let cut = told("", &CACHE[..end]);
            assert!(cut.is_none(), "{}: {cut:?}", &CACHE[..end]);
        }
        for strange in [
            "8 1/2 128 3/4 1 1 1 1 1 1 1 18446744073709551615 x",
            "-1",
            "a b c",
            "",
        ] {
            assert_eq!(told("", strange), None);
        }
    }
}
