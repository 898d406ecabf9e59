// SPDX-License-Identifier: GPL-3.0-or-later
//! What the module's own code writes is recognised, and what that code takes is taken here with the same values. This
//! notices each change of the format that [`super`] does not follow.

use super::*;
use tandem_sim::engine::start::{Flags, SuperCopy, SuperError};
use tandem_sim::engine::{Core, Geometry};

/// Numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.0 >> 33
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next() as u8);
    }
}

fn geometry(core: &Core, numbers: &mut Numbers) -> Geometry {
    let mut geometry = Geometry {
        ssd_sectors: (1 << 20) + numbers.below(1 << 30),
        origin_sectors: (1 << 12) + numbers.below(1 << 31),
        block_sectors: 1,
        sequence: numbers.below(1 << 30) + 1,
        origin_id_bytes: 1 + numbers.below(DISK_ID_ROOM as u64) as u32,
        ..Geometry::default()
    };
    numbers.fill(&mut geometry.uuid);
    let length = geometry.origin_id_bytes as usize;
    numbers.fill(&mut geometry.origin_id[..length]);
    assert!(core.plan(&mut geometry));
    geometry
}

/// Both copies with what lies behind them, as [`Core::choose_super`] reads them.
fn with_samples(copies: &[[u8; BYTES]; 2], samples: &[[u8; BYTES]; 2]) -> [SuperCopy; 2] {
    [0, 1].map(|copy: usize| {
        let mut whole = [0; 2 * BYTES];
        whole[..BYTES].copy_from_slice(&copies[copy]);
        whole[BYTES..].copy_from_slice(&samples[copy]);
        whole
    })
}

fn damage(numbers: &mut Numbers, bytes: &mut [u8; BYTES]) {
    let at = numbers.below(BYTES as u64) as usize;
    match numbers.below(6) {
        0 => bytes[at] ^= 1 << numbers.below(8),
        1 => bytes.fill(0),
        2 => numbers.fill(bytes),
        _ => {}
    }
}

#[test]
fn what_the_module_takes_is_recognised_with_the_same_values() {
    let (core, mut numbers) = (Core::linked(), Numbers(1));
    let none = [[0; BYTES]; 2];
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..4000 {
        let written = geometry(&core, &mut numbers);
        let mut copies = [[0; BYTES]; 2];
        for (bytes, copy) in copies.iter_mut().zip(0..) {
            // A cut may leave copies from before and after a change.
            let mut changed: Geometry = written;
            changed.sequence += numbers.below(2);
            *bytes = core.encode_super(&changed, Flags(numbers.below(4) as u32), copy);
        }
        copies
            .iter_mut()
            .for_each(|copy| damage(&mut numbers, copy));
        let ours = choose(&copies);
        match core.choose_super(&with_samples(&copies, &none), 1) {
            Ok(found) => {
                let geometry = found.geometry;
                let length = geometry.origin_id_bytes as usize;
                let expected = Carried {
                    uuid: crate::hex(&geometry.uuid),
                    origin_sectors: geometry.origin_sectors,
                    ssd_sectors: geometry.ssd_sectors,
                    disk_id: crate::hex(&geometry.origin_id[..length]),
                    clean: found.flags.has(Flags::CLEAN),
                    target: Target::Tandem,
                    sequence: geometry.sequence,
                };
                assert_eq!(ours, Some(expected));
                taken += 1;
            }
            // The module leaves an SSD alone whose second copy is something else. The disk is still that of a cache.
            Err(SuperError::Overwritten) => assert_eq!(ours, parse(&copies[0], 0)),
            Err(error) => {
                let known = [SuperError::Blank, SuperError::Foreign, SuperError::Damaged];
                assert!(known.contains(&error), "{error:?}");
                assert_eq!(ours, None, "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(taken > 2000 && refused > 100, "{taken} {refused}");
}

/// A module that is older than the cache refuses it. The service and the start must see the cache all the same, or they
/// would show a disk whose newest data is on the SSD.
#[test]
fn a_cache_of_a_newer_module_is_recognised() {
    let (core, mut numbers) = (Core::linked(), Numbers(2));
    let written = geometry(&core, &mut numbers);
    for (at, value, expected) in [(12, 2, SuperError::Version), (20, 8, SuperError::Feature)] {
        let copies = [0, 1].map(|copy| {
            let mut bytes = core.encode_super(&written, Flags(0), copy);
            bytes[at] = value;
            bytes[CRC].fill(0);
            let crc = crc32c::crc32c(&bytes);
            bytes[CRC].copy_from_slice(&crc.to_le_bytes());
            bytes
        });
        let found = core.choose_super(&with_samples(&copies, &[[0; BYTES]; 2]), 1);
        assert_eq!(found.map(|_| ()), Err(expected));
        assert_eq!(choose(&copies).unwrap().uuid, crate::hex(&written.uuid));
    }
}

/// A part of one SSD was copied to another: that one of two caches is clean says nothing of the other.
#[test]
fn copies_of_two_caches_are_refused() {
    let (core, mut numbers) = (Core::linked(), Numbers(4));
    for _ in 0..100 {
        let one = geometry(&core, &mut numbers);
        let mut other: Geometry = one;
        let flags = [0, 1].map(|_| Flags(numbers.below(2) as u32));
        let chosen = |other: &Geometry| {
            let copies = [
                core.encode_super(&one, flags[0], 0),
                core.encode_super(other, flags[1], 1),
            ];
            let none = [[0; BYTES]; 2];
            core.choose_super(&with_samples(&copies, &none), 1)
                .map(drop)
        };
        assert_eq!(chosen(&other), Ok(()));
        other.uuid[numbers.below(16) as usize] ^= 1 << numbers.below(8);
        assert_eq!(chosen(&other), Err(SuperError::Overwritten));
    }
}

#[test]
fn the_samples_of_the_module_say_the_same() {
    let (core, mut numbers) = (Core::linked(), Numbers(3));
    let (mut stopped, mut running) = (0, 0);
    for _ in 0..1000 {
        let written = geometry(&core, &mut numbers);
        let read = |sector: u64| Some([sector as u8; BYTES]);
        let mut blocks = [0, 1].map(|copy| {
            let ended = numbers.below(2) == 0;
            core.encode_samples(&written, ended, copy, &read)
        });
        blocks
            .iter_mut()
            .for_each(|block| damage(&mut numbers, block));
        let theirs = core.choose_samples(&with_samples(&[[0; BYTES]; 2], &blocks), &written);
        let uuid = crate::hex(&written.uuid);
        let sound = [0, 1].map(|copy: usize| samples(&blocks[copy], copy, &uuid));
        let newest = sound
            .into_iter()
            .max_by_key(|found| found.map(|(sequence, _)| sequence));
        let newest = newest.flatten();
        // Two of the same number cannot be told apart, and the module never writes them with different states.
        let [first, second] = sound;
        if first
            .zip(second)
            .is_some_and(|(a, b)| a.0 == b.0 && a.1 != b.1)
        {
            continue;
        }
        assert_eq!(
            newest.is_some_and(|(_, state)| state == STOPPED),
            theirs.is_stopped()
        );
        match theirs.is_stopped() {
            true => stopped += 1,
            false => running += 1,
        }
    }
    assert!(stopped > 100 && running > 100, "{stopped} {running}");
}

/// The module must not take an SSD whose regions dm-cache has for its own, whatever a person does by hand.
#[test]
fn the_module_refuses_an_ssd_that_dm_cache_serves() {
    let core = Core::linked();
    let (uuid, disk) = ("0a".repeat(16), "00ff".to_owned());
    let copies = [0, 1].map(|copy| of_dm_cache(&uuid, &disk, [1 << 20, 1 << 24], copy));
    let found = core.choose_super(&with_samples(&copies, &[[0; BYTES]; 2]), 1);
    assert_eq!(found.map(|_| ()), Err(SuperError::Feature));
    let carried = Carried {
        uuid,
        origin_sectors: 1 << 20,
        ssd_sectors: 1 << 24,
        disk_id: disk,
        clean: true,
        target: Target::DmCache,
        sequence: 1,
    };
    assert_eq!(choose(&copies), Some(carried));
}
