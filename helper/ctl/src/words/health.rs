// SPDX-License-Identifier: GPL-3.0-or-later
//! The health of an SSD in words: the report of the SSD, and how much its cache wrote.

use super::bytes;
use tandem_api::{Lifetime, SelfReport, SsdHealth, SsdWritten};

const DAY: u64 = 24 * 3600;

/// The health, and how long the SSD will last.
pub fn health(health: &SsdHealth) -> String {
    let report = match health.report {
        SelfReport::Unknown => {
            return "not known: the SSD does not tell, or UDisks2 cannot read it".to_owned();
        }
        SelfReport::Good => "good, by the SSD's own report",
        SelfReport::Failing => "FAILING, by the SSD's own report: replace it soon",
    };
    let used = match health.used_percent {
        0.. => format!("{} % of its life used", health.used_percent),
        _ => "how much of its life is used is not known".to_owned(),
    };
    let left = match health.lifetime() {
        Lifetime::NotKnown | Lifetime::Failing => String::new(),
        Lifetime::LittleUsed => "; too little to say how long it lasts".to_owned(),
        Lifetime::TooNew => "; it ran too briefly to say how long it lasts".to_owned(),
        Lifetime::Over => "; it may work on".to_owned(),
        Lifetime::Hours(hours) => format!(
            "; at the pace so far it lasts for {} more of being on",
            running_time(hours)
        ),
    };
    format!("{report}; {used}{left}")
}

fn running_time(hours: u64) -> String {
    const MONTH: u64 = 730;
    match hours / MONTH {
        0 => "less than a month".to_owned(),
        1 => "about a month".to_owned(),
        months @ 2..24 => format!("about {months} months"),
        months => format!("about {} years", months / 12),
    }
}

/// The words for how much a cache wrote to its SSD. `now`: seconds of Unix time.
pub fn written(written: &SsdWritten, now: u64) -> String {
    if written.since == 0 {
        return "nothing counted yet".to_owned();
    }
    let days = now.saturating_sub(written.since) / DAY;
    let size = bytes(written.bytes);
    match days {
        0 => format!("at least {size} in less than a day"),
        1 => format!("at least {size} in a day"),
        _ => format!(
            "at least {size} in {days} days, about {} a day",
            bytes(written.bytes / days)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_estimated() {
        let of = |report, used_percent, hours_on| {
            health(&SsdHealth {
                report,
                used_percent,
                hours_on,
                read_at: 1,
            })
        };
        assert!(health(&SsdHealth::unknown()).starts_with("not known"));
        assert!(!of(SelfReport::Good, -1, 9000).contains("lasts"));
        assert!(of(SelfReport::Good, 6, 9300).ends_with("about 16 years more of being on"));
        assert!(of(SelfReport::Failing, 90, 9000).contains("FAILING"));
        assert!(of(SelfReport::Good, 90, 9000).contains("about a month more"));
    }

    #[test]
    fn what_was_written_names_its_time() {
        let since = |since| {
            let bytes = 20_000_000_000;
            written(&SsdWritten { since, bytes }, 1000 + 10 * DAY)
        };
        assert_eq!(since(0), "nothing counted yet");
        assert_eq!(
            since(1000),
            "at least 20.0 GB in 10 days, about 2.0 GB a day"
        );
        assert!(since(999 + 10 * DAY).ends_with("less than a day"));
    }
}
