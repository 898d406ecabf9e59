// SPDX-License-Identifier: GPL-3.0-or-later
//! The safety line in all states.

use super::*;
use CacheState::{Active, Bypass, Detached, Stopped, Suspended};
use Mode::{Writeback, Writethrough};

fn facts(
    state: CacheState,
    reason: &str,
    mode: Mode,
    dirty: Option<u64>,
    may_be_unwritten: bool,
) -> SafetyFacts<'_> {
    SafetyFacts {
        state,
        reason,
        mode,
        dirty,
        may_be_unwritten,
        ssd_failing: false,
        content: "ext4",
    }
}

fn every() -> Vec<SafetyFacts<'static>> {
    let mut all = Vec::new();
    for state in CacheState::ALL.iter().copied() {
        for reason in REASONS {
            for mode in Mode::ALL.iter().copied() {
                for dirty in [None, Some(0), Some(5)] {
                    for may_be_unwritten in [false, true] {
                        all.push(facts(state, reason, mode, dirty, may_be_unwritten));
                    }
                }
            }
        }
    }
    all
}

fn amounts() -> SafetyAmounts {
    SafetyAmounts {
        size: "120 MB".into(),
        age: Some("40 seconds".into()),
        time: Some("2 minutes".into()),
        shutdown: None,
    }
}

#[test]
fn the_line_is_as_written_for_the_states_that_people_meet() {
    // A shutdown that writes everything back.
    let drained = SafetyAmounts {
        size: "5 B".to_owned(),
        shutdown: Some("5 minutes".to_owned()),
        ..SafetyAmounts::default()
    };
    let shutdown = |facts| safety(&facts).line(&drained);
    let line = shutdown(facts(Active, "", Writeback, Some(5), true));
    assert!(line.ends_with("hard disk, which takes 5 minutes at most."));
    let line = shutdown(facts(Active, "", Writeback, Some(0), true));
    assert!(line.ends_with("Shutting down takes no longer."));
    let line = shutdown(facts(Active, "disk-error", Writeback, Some(5), true));
    assert!(line.ends_with("stays on the SSD."));
    for (facts, line) in [
        (
            facts(Active, "", Writethrough, Some(0), false),
            "If the SSD dies now, you lose nothing. Safe to move the disk: yes, after you unmount it or shut down. \
             Shutting down takes no longer.",
        ),
        (
            facts(Active, "", Writeback, Some(0), true),
            "If the SSD dies now, you lose nothing. Safe to move the disk: no, turn off Fast Saving first. \
             Shutting down takes no longer.",
        ),
        (
            facts(Active, "", Writeback, Some(9), true),
            "If the SSD dies now, you lose 120 MB, at most 40 seconds old, and the file system may be damaged. \
             Safe to move the disk: no, turn off Fast Saving first; writing everything takes about 2 minutes. \
             Shutting down takes no longer; what is not yet written stays on the SSD.",
        ),
        (
            facts(Active, "", Writethrough, Some(9), true),
            "If the SSD dies now, you lose 120 MB, at most 40 seconds old, and the file system may be damaged. \
             Safe to move the disk: in about 2 minutes, when everything is written. \
             Shutting down takes no longer; what is not yet written stays on the SSD.",
        ),
        (
            facts(Active, "disk-error", Writethrough, Some(9), true),
            "If the SSD dies now, you lose 120 MB, at most 40 seconds old, and the file system may be damaged. \
             Safe to move the disk: no, only together with the SSD. \
             Shutting down takes no longer; what is not yet written stays on the SSD.",
        ),
        (
            facts(Active, "", Writeback, None, true),
            "If the SSD dies now, you may lose data that is not yet on the hard disk, and the file system may be \
             damaged. Safe to move the disk: no, turn off Fast Saving first. \
             Shutting down takes no longer; what is not yet written stays on the SSD.",
        ),
        (
            facts(Bypass, "ssd-error", Writeback, Some(0), true),
            "The SSD failed, and you lost nothing. Safe to move the disk: yes, after you unmount it or shut down. \
             Shutting down takes no longer.",
        ),
        (
            facts(Bypass, "ssd-gone-dirty", Writeback, Some(9), true),
            "Some of your data is only on the missing SSD. Safe to move the disk: no, only together with the SSD. \
             Shutting down takes no longer.",
        ),
        (
            facts(Stopped, "ssd-missing", Writethrough, None, false),
            "The SSD is missing, and you lost nothing. Safe to move the disk: yes. Shutting down takes no longer.",
        ),
        (
            facts(Stopped, "module-not-built", Writeback, None, false),
            "If the SSD dies now, you lose nothing. Safe to move the disk: yes. Shutting down takes no longer.",
        ),
        (
            facts(Detached, "", Writethrough, None, false),
            "The SSD is no longer used. Safe to move the disk: yes, after you unmount it or shut down. \
             Shutting down takes no longer.",
        ),
    ] {
        assert_eq!(safety(&facts).line(&amounts()), line, "{facts:?}");
    }
}

#[test]
fn a_cache_in_memory_names_no_ssd() {
    let facts = facts(Bypass, "memory-needed", Writethrough, Some(0), false);
    let line = safety(&facts).in_memory(true).line(&amounts());
    assert!(
        !line.contains("SSD") && line.contains("disk: yes"),
        "{line}"
    );
}

#[test]
fn every_state_has_three_whole_sentences() {
    for facts in every() {
        for amounts in [amounts(), SafetyAmounts::default()] {
            let line = safety(&facts).line(&amounts);
            let ends = line.matches(". ").count() + 1;
            assert!(
                ends == 3 && line.ends_with('.') && !line.contains('{'),
                "{line}"
            );
        }
    }
}

#[test]
fn an_ssd_that_fails_is_told_first_while_it_is_in_use() {
    for facts in every() {
        let fails = SafetyFacts {
            ssd_failing: true,
            ..facts
        };
        let (before, now) = (safety(&facts), safety(&fails));
        let line = now.line(&amounts());
        assert!(line.ends_with(&before.line(&amounts())), "{line}");
        assert!(!before.ssd_fails());
        let unused = matches!(
            now.loss,
            Loss::SsdFailed
                | Loss::SsdMissing
                | Loss::SsdUnused
                | Loss::WithMissingSsd
                | Loss::WithDamagedSsd
        );
        let told = line.starts_with("The SSD reports that it is failing");
        assert_eq!((now.ssd_fails(), told), (!unused, !unused), "{facts:?}");
        // Data that only a failing SSD has is not left there.
        if line.contains("Replace it soon") {
            assert!(
                line.contains("lose nothing") && line.contains("disk: yes"),
                "{line}"
            );
        }
    }
}

#[test]
fn a_disk_that_is_in_use_is_left_first_and_a_change_that_may_not_show_is_told() {
    let in_use = [Active, Suspended, Bypass, Detached];
    let running = every()
        .into_iter()
        .filter(|facts| in_use.contains(&facts.state));
    for facts in running {
        for content in ["ext4", "xfs", "exfat", "crypto_LUKS", ""] {
            let facts = SafetyFacts { content, ..facts };
            let line = safety(&facts).line(&amounts());
            assert!(
                !line.contains("disk: yes") || line.contains("shut down"),
                "{facts:?}: {line}"
            );
            let here = matches!(facts.state, Active | Suspended);
            if line.contains("disk: yes") && here {
                let hidden = ["crypto_LUKS", ""].contains(&content);
                assert_eq!(line.contains("changed elsewhere"), hidden, "{line}");
            }
        }
    }
}

#[test]
fn only_a_complete_disk_is_called_safe() {
    for facts in every() {
        let line = safety(&facts).line(&amounts());
        let safe = line.contains("disk: yes");
        let unwritten = facts.may_be_unwritten || facts.dirty.is_some_and(|dirty| dirty > 0);
        let runs = matches!(facts.state, Active | Suspended);
        let gone = facts.state == Bypass && facts.reason == "ssd-error" || facts.state == Detached;
        if safe && unwritten && !gone {
            // The newest sample of a running cache is newer than the record.
            assert!(runs && facts.dirty == Some(0), "{facts:?}: {line}");
            assert_ne!(facts.mode, Writeback, "{facts:?}");
        }
        if line.contains("lose nothing") || line.contains("lost nothing") {
            assert!(!safety(&facts).risks_data());
            assert!(!unwritten || gone || facts.dirty == Some(0), "{facts:?}");
            assert_ne!(facts.reason, "ssd-gone-dirty");
        }
    }
}
