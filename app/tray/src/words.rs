// SPDX-License-Identifier: GPL-3.0-or-later
//! States in words and icons. Pure.

use gettextrs::gettext;
use tandem_api::CacheState;

/// One cache as the indicator shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// 32 hex digits.
    pub uuid: String,
    /// Label or model of its disk.
    pub disk: String,
    /// What it is doing.
    pub state: CacheState,
    /// Share of reads served by the SSD, 0 to 1; `None` while nothing is read.
    pub hit_rate: Option<f64>,
}

/// Name of the icon for all caches: the one that most wants to be noticed.
pub fn icon(caches: &[Shown]) -> &'static str {
    if needs_attention(caches) {
        "tandem-bypass-symbolic"
    } else if caches.iter().any(|cache| cache.state == CacheState::Active) {
        "tandem-active-symbolic"
    } else {
        "tandem-paused-symbolic"
    }
}

/// Whether a person should look.
pub fn needs_attention(caches: &[Shown]) -> bool {
    caches
        .iter()
        .any(|cache| matches!(cache.state, CacheState::Bypass | CacheState::Stopped))
}

/// One cache in a line: "Films: working, hit rate 87 %".
pub fn line(cache: &Shown) -> String {
    let words = match (cache.state, cache.hit_rate) {
        (CacheState::Active, Some(_)) => gettext("{disk}: working, hit rate {rate} %"),
        (CacheState::Active, None) => gettext("{disk}: working"),
        (CacheState::Suspended, _) => gettext("{disk}: pausing for a moment"),
        (CacheState::Bypass, _) => gettext("{disk}: the SSD is not in use, your data is safe"),
        (CacheState::Stopped, _) => gettext("{disk}: not started, your data is safe"),
        (CacheState::Detached, _) => gettext("{disk}: removed"),
    };
    let rate = format!("{:.0}", cache.hit_rate.unwrap_or_default() * 100.0);
    // The rate first: a disk may be called "{rate}".
    words
        .replace("{rate}", &rate)
        .replace("{disk}", &cache.disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(state: CacheState, hit_rate: Option<f64>) -> Shown {
        Shown {
            uuid: String::new(),
            disk: "Films".into(),
            state,
            hit_rate,
        }
    }

    #[test]
    fn a_cache_is_one_line() {
        assert_eq!(
            line(&cache(CacheState::Active, Some(0.874))),
            "Films: working, hit rate 87 %"
        );
        for state in CacheState::ALL.iter().copied() {
            let words = line(&cache(state, None));
            assert!(
                words.starts_with("Films") && !words.contains('{'),
                "{words}"
            );
        }
    }

    #[test]
    fn the_icon_is_that_of_the_cache_that_needs_attention() {
        let well = cache(CacheState::Active, None);
        let failed = cache(CacheState::Bypass, None);
        assert_eq!(icon(std::slice::from_ref(&well)), "tandem-active-symbolic");
        assert_eq!(icon(&[well, failed]), "tandem-bypass-symbolic");
        assert_eq!(
            icon(&[cache(CacheState::Suspended, None)]),
            "tandem-paused-symbolic"
        );
    }
}
