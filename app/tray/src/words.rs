// SPDX-License-Identifier: GPL-3.0-or-later
//! States in words and icons. Pure.

use gettextrs::{gettext, ngettext};
use tandem_api::{CacheState, Mode, Sharing, Target};
use tandem_words::{
    Reader, SafetyAmounts, SafetyFacts, Severity, StateFacts, bytes, duration, fill, safety,
    state_words,
};

/// One cache as the indicator shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// 32 hex digits.
    pub uuid: String,
    /// Name that a person gave the cache, or label or model of its disk.
    pub disk: String,
    /// The target that serves the cache.
    pub target: Target,
    /// How writes are treated.
    pub mode: Mode,
    /// State of the cache.
    pub state: CacheState,
    /// Why, as a word; may be empty.
    pub reason: String,
    /// Whether data may be on the SSD only, as far as the service has it recorded.
    pub may_be_unwritten: bool,
    /// Whether a person has paused the cache.
    pub paused: bool,
    /// What changes the disk beside the cache.
    pub sharing: Sharing,
    /// Whether the SSD reports that it is failing.
    pub ssd_failing: bool,
    /// Type of the content of the disk, as udev names it.
    pub content: String,
    /// Whether the cache is in memory in the place of an SSD.
    pub in_memory: bool,
    /// Share of reads served by the SSD, 0 to 1; `None` while nothing is read.
    pub hit_rate: Option<f64>,
    /// Seconds over which that share was taken.
    pub rate_seconds: u64,
    /// Bytes that are on the SSD only; `None` before the first sample.
    pub dirty_bytes: Option<u64>,
    /// Seconds that they can have waited at most; `None` if that time is not known.
    pub dirty_seconds: Option<u64>,
    /// Seconds to write them to the disk, 0 if that time is not known.
    pub drain_seconds: u64,
    /// Seconds that a shutdown may take to write them to the disk; `None` if it cannot or does not do that.
    pub shutdown_seconds: Option<u64>,
}

impl Shown {
    /// Whether dirty data can be written to the disk now.
    pub fn can_write_back(&self) -> bool {
        self.state == CacheState::Active && self.dirty_bytes.is_some_and(|dirty| dirty > 0)
    }

    /// Whether the cache works, so that a person can pause it or have it go on. dm-cache knows no pause.
    pub fn can_pause(&self) -> bool {
        self.state == CacheState::Active && self.target == Target::Tandem
    }

    /// How urgently the cache asks for attention.
    fn severity(&self) -> Severity {
        let facts = StateFacts {
            state: self.state,
            reason: &self.reason,
            unwritten: self.unwritten(),
            paused: self.paused,
            grub_would_fail: false,
            sharing: self.sharing,
        };
        let severity = state_words(&facts, Reader::Window).severity;
        match self.ssd_failing {
            true => severity.max(Severity::Warning),
            false => severity,
        }
    }

    /// Whether data may be on the SSD only.
    fn unwritten(&self) -> bool {
        self.dirty_bytes.is_some_and(|dirty| dirty > 0) || self.may_be_unwritten
    }
}

/// Name of the icon for all caches: a fault comes first, then a cache that works.
pub fn icon(caches: &[Shown]) -> &'static str {
    let severities = || caches.iter().map(Shown::severity);
    let fault = severities().max().filter(|most| *most >= Severity::Warning);
    fault
        .or(severities().min())
        .unwrap_or(Severity::Calm)
        .icon()
}

/// Whether a person should look.
pub fn needs_attention(caches: &[Shown]) -> bool {
    caches
        .iter()
        .any(|cache| cache.severity() >= Severity::Warning)
}

/// One cache in a line: "Films: working, 87% read from SSD (10 s), 120 MB waiting to be written".
pub fn line(cache: &Shown) -> String {
    let words = match (cache.state, cache.reason.as_str(), cache.hit_rate) {
        (_, "ssd-gone-dirty", _) => gettext("{disk}: the SSD is missing, it holds unwritten data"),
        (_, "disk-error", _) => gettext("{disk}: the hard disk reported an error"),
        (CacheState::Bypass | CacheState::Stopped, "disk-missing", _) => {
            gettext("{disk}: the hard disk is missing")
        }
        (CacheState::Active, ..)
            if matches!(cache.sharing, Sharing::Filesystem | Sharing::Snapshots) =>
        {
            gettext("{disk}: something else changes the disk")
        }
        (CacheState::Active, ..) if cache.paused => gettext("{disk}: paused"),
        (CacheState::Active, _, Some(_)) => {
            gettext("{disk}: working, {rate}% read from SSD ({seconds} s)")
        }
        (CacheState::Active, _, None) => gettext("{disk}: working"),
        (CacheState::Suspended, ..) => gettext("{disk}: paused briefly"),
        (CacheState::Bypass, "memory-needed", _) => {
            gettext("{disk}: paused, programs need the memory")
        }
        (CacheState::Bypass, "ssd-error", _) => gettext("{disk}: cache off, your data is safe"),
        (CacheState::Stopped, "put-away", _) if cache.sharing == Sharing::Network => {
            gettext("{disk}: not in use")
        }
        (CacheState::Stopped, "put-away", _) => gettext("{disk}: ready to unplug"),
        (CacheState::Stopped, ..) if cache.unwritten() => {
            gettext("{disk}: not started, some of your data may not yet be on the hard disk")
        }
        (CacheState::Bypass, ..) if cache.unwritten() => gettext("{disk}: cache off"),
        (CacheState::Bypass, ..) => gettext("{disk}: cache off, your data is safe"),
        (CacheState::Stopped, ..) => gettext("{disk}: not started, your data is safe"),
        (CacheState::Pending, ..) => gettext("{disk}: works after a restart"),
        (CacheState::Detached, ..) => gettext("{disk}: removed"),
    };
    let rate = format!("{:.0}", cache.hit_rate.unwrap_or_default() * 100.0);
    let line = fill(
        &words,
        &[
            ("disk", &cache.disk),
            ("rate", &rate),
            ("seconds", &cache.rate_seconds.to_string()),
        ],
    );
    let here = matches!(cache.state, CacheState::Active | CacheState::Suspended);
    if let Some(dirty) = cache.dirty_bytes.filter(|dirty| here && *dirty > 0) {
        fill(
            // Translators: {line} is what a cache does, for example "Films: working"; {size} is for example "120 MB"
            &gettext("{line}, {size} waiting to be written"),
            &[("line", &line), ("size", &bytes(dirty))],
        )
    } else {
        line
    }
}

/// The cache in a line, and its safety line.
pub fn tooltip(cache: &Shown) -> String {
    format!("{}\n{}", line(cache), safety_line(cache))
}

/// What happens if the SSD dies now, if the disk is moved, and at a shutdown.
pub fn safety_line(cache: &Shown) -> String {
    let answers = safety(&SafetyFacts {
        state: cache.state,
        reason: &cache.reason,
        mode: cache.mode,
        dirty: cache.dirty_bytes,
        may_be_unwritten: cache.may_be_unwritten,
        ssd_failing: cache.ssd_failing,
        content: &cache.content,
    })
    .in_memory(cache.in_memory);
    let amounts = SafetyAmounts {
        size: bytes(cache.dirty_bytes.unwrap_or_default()),
        age: cache.dirty_seconds.map(duration),
        time: (cache.drain_seconds > 0).then(|| duration(cache.drain_seconds)),
        shutdown: cache.shutdown_seconds.map(duration),
    };
    answers.line(&amounts)
}

/// The kernels that may start next and have no module, if there are any.
pub fn kernels(releases: &[String]) -> Option<String> {
    let count = u32::try_from(releases.len()).unwrap_or(u32::MAX);
    let words = ngettext(
        "Kernel {kernels} has no Tandem module. Open Tandem to see what to do.",
        "Kernels {kernels} have no Tandem module. Open Tandem to see what to do.",
        count,
    );
    (count > 0).then(|| fill(&words, &[("kernels", &releases.join(", "))]))
}

/// A text without markup: desktops take the body of a notification and the tooltip for markup.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn cache(state: CacheState, hit_rate: Option<f64>) -> Shown {
        Shown {
            uuid: String::new(),
            disk: "Films".into(),
            target: Target::Tandem,
            mode: Mode::Writethrough,
            state,
            reason: String::new(),
            may_be_unwritten: false,
            paused: false,
            sharing: Sharing::Alone,
            ssd_failing: false,
            content: "ext4".into(),
            in_memory: false,
            shutdown_seconds: None,
            hit_rate,
            rate_seconds: 10,
            dirty_bytes: Some(0),
            dirty_seconds: None,
            drain_seconds: 0,
        }
    }

    #[test]
    fn a_cache_is_one_line() {
        assert_eq!(
            line(&cache(CacheState::Active, Some(0.874))),
            "Films: working, 87% read from SSD (10 s)"
        );
        for state in CacheState::ALL.iter().copied() {
            for reason in [
                "",
                "ssd-error",
                "ssd-gone-dirty",
                "disk-error",
                "disk-missing",
                "new",
            ] {
                let shown = Shown {
                    reason: reason.into(),
                    ..cache(state, None)
                };
                let words = line(&shown);
                assert!(
                    words.starts_with("Films") && !words.contains('{'),
                    "{words}"
                );
            }
        }
    }

    #[test]
    fn only_a_cache_that_can_be_paused_has_an_entry_for_it() {
        let works = cache(CacheState::Active, None);
        assert!(works.can_pause());
        let of_dm_cache = Shown {
            target: Target::DmCache,
            ..works
        };
        assert!(!of_dm_cache.can_pause());
    }

    #[test]
    fn a_cache_that_a_person_has_paused_says_so_and_asks_for_nothing() {
        let paused = Shown {
            paused: true,
            ..cache(CacheState::Active, Some(0.5))
        };
        assert_eq!(line(&paused), "Films: paused");
        assert_eq!(
            icon(std::slice::from_ref(&paused)),
            "tandem-paused-symbolic"
        );
        let works = cache(CacheState::Active, None);
        assert_eq!(icon(&[paused.clone(), works]), "tandem-active-symbolic");
        assert!(!needs_attention(&[paused]));
    }

    #[test]
    fn a_disk_that_can_be_unplugged_is_no_fault() {
        let away = Shown {
            reason: "put-away".into(),
            ..cache(CacheState::Stopped, None)
        };
        assert_eq!(line(&away), "Films: ready to unplug");
        assert!(safety_line(&away).contains("Safe to move the disk: yes."));
        assert_eq!(icon(&[away]), "tandem-paused-symbolic");
    }

    #[test]
    fn a_disk_that_something_else_changes_asks_for_attention() {
        let shared = Shown {
            sharing: Sharing::Snapshots,
            ..cache(CacheState::Active, Some(0.5))
        };
        assert_eq!(line(&shared), "Films: something else changes the disk");
        assert!(needs_attention(&[shared]));
    }

    #[test]
    fn an_ssd_that_fails_asks_for_attention_and_is_told() {
        let good = cache(CacheState::Active, None);
        assert!(!needs_attention(std::slice::from_ref(&good)));
        let failing = Shown {
            ssd_failing: true,
            ..good
        };
        assert!(tooltip(&failing).contains("The SSD reports that it is failing."));
        assert!(needs_attention(&[failing]));
    }

    #[test]
    fn what_is_not_on_the_disk_yet_is_told_and_never_called_safe() {
        let shown = Shown {
            dirty_bytes: Some(119_500_000),
            ..cache(CacheState::Active, Some(0.5))
        };
        assert_eq!(
            line(&shown),
            "Films: working, 50% read from SSD (10 s), 119.5\u{a0}MB waiting to be written"
        );
        for state in [CacheState::Bypass, CacheState::Stopped] {
            let mut shown = cache(state, None);
            assert!(line(&shown).contains("safe"));
            shown.may_be_unwritten = true;
            assert!(!line(&shown).contains("safe"), "{}", line(&shown));
            // The disk is missing, whatever is on it.
            shown.may_be_unwritten = false;
            shown.reason = "disk-missing".into();
            assert_eq!(line(&shown), "Films: the hard disk is missing");
        }
    }

    #[test]
    fn the_tooltip_ends_with_the_safety_line() {
        assert_eq!(
            tooltip(&cache(CacheState::Active, None)),
            "Films: working\nIf the SSD dies now, you lose nothing. Safe to move the disk: yes, after you \
             unmount it or shut down. Shutting down takes no longer."
        );
        let shown = Shown {
            mode: Mode::Writeback,
            dirty_bytes: Some(1),
            dirty_seconds: Some(3),
            drain_seconds: 61,
            ..cache(CacheState::Active, None)
        };
        let words = tooltip(&shown);
        assert!(
            words.contains("you lose 1 byte, at most 3 seconds old"),
            "{words}"
        );
        assert!(words.contains("takes about 2 minutes"), "{words}");
    }

    #[test]
    fn every_state_and_mode_has_its_safety_line_in_the_tooltip() {
        for state in CacheState::ALL.iter().copied() {
            for mode in Mode::ALL.iter().copied() {
                for dirty_bytes in [None, Some(0), Some(5)] {
                    let words = tooltip(&Shown {
                        mode,
                        dirty_bytes,
                        ..cache(state, None)
                    });
                    let safety = words.lines().last().unwrap_or_default();
                    assert!(safety.contains("Safe to move the disk: "), "{words}");
                    assert!(safety.contains("Shutting down takes no longer"), "{words}");
                }
            }
        }
    }

    #[test]
    fn a_name_is_no_markup() {
        assert_eq!(escaped("<b>A & B</b>"), "&lt;b&gt;A &amp; B&lt;/b&gt;");
    }

    #[test]
    fn the_icon_is_that_of_the_cache_that_needs_attention() {
        let well = cache(CacheState::Active, None);
        let failed = cache(CacheState::Bypass, None);
        assert_eq!(icon(std::slice::from_ref(&well)), "tandem-active-symbolic");
        assert_eq!(icon(&[well.clone(), failed]), "tandem-bypass-symbolic");
        assert_eq!(
            icon(&[cache(CacheState::Suspended, None)]),
            "tandem-paused-symbolic"
        );
        let disk = Shown {
            reason: "disk-error".into(),
            ..well
        };
        assert_eq!(icon(&[disk]), "tandem-bypass-symbolic");
    }
}
