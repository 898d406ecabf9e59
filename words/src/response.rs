// SPDX-License-Identifier: GPL-3.0-or-later
//! The response times of the SSD and of the hard disk side by side: "0.1 ms instead of 8 ms".
//!
//! The kernel counts measured requests in buckets, each twice as wide as the one before. The typical time is therefore an
//! estimate, and the words say so.

use gettextrs::gettext;
use tandem_api::{Latency, Sample};

use crate::{Place, fill, short_time};

/// Fewest measured requests of a device whose typical time is told: chance moves the median of fewer too far.
const ENOUGH: u64 = 30;

/// Words for the response times of both devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseWords {
    /// Both times: "0.1 ms instead of 8 ms"; a dash while they cannot be compared.
    pub title: String,
    /// The title as a screen reader says it.
    pub spoken: String,
    /// The meaning of the title, and the period of the measurement.
    pub caption: String,
}

/// Compares the response times of the last minutes, `recent`: of the SSD and of the disk. If too few requests were
/// measured there, compares those since the start of the cache, which are in its newest sample.
#[must_use]
pub fn response_words(
    recent: Option<(Latency, Latency)>,
    newest: Option<&Sample>,
    place: Place,
) -> ResponseWords {
    let recent = recent.and_then(|(ssd, disk)| typical_us(&ssd).zip(typical_us(&disk)));
    let started = || {
        let sample = newest?;
        typical_us(&sample.ssd_latency).zip(typical_us(&sample.disk_latency))
    };
    let Some((ssd, disk)) = recent.or_else(started) else {
        return ResponseWords {
            // Translators: shown instead of a number while there is none
            title: gettext("–"),
            spoken: gettext("No response times"),
            caption: match place {
                Place::Ssd => gettext("Too few requests measured to compare SSD and hard disk"),
                Place::Memory => {
                    gettext("Too few requests measured to compare memory and hard disk")
                }
            },
        };
    };
    let caption = match (ssd < disk, recent.is_some()) {
        (true, true) if place == Place::Memory => gettext(
            "Typical response time of the memory compared with the hard disk, in the last minutes (estimate)",
        ),
        (true, false) if place == Place::Memory => gettext(
            "Typical response time of the memory compared with the hard disk, since startup (estimate)",
        ),
        (false, _) if place == Place::Memory => {
            gettext("Typical response times (estimate). The memory is not faster.")
        }
        (true, true) => gettext(
            "Typical response time of the SSD compared with the hard disk, in the last minutes (estimate)",
        ),
        (true, false) => gettext(
            "Typical response time of the SSD compared with the hard disk, since startup (estimate)",
        ),
        (false, true) => gettext(
            "Typical response times in the last minutes (estimate). The SSD is not faster right now.",
        ),
        (false, false) => {
            gettext("Typical response times since startup (estimate). The SSD was not faster.")
        }
    };
    let put = |words: String| fill(&words, &[("ssd", &time(ssd)), ("disk", &time(disk))]);
    // Translators: two response times, for example "SSD 0.1 ms, hard disk 8 ms"
    let both = put(match place {
        Place::Ssd => gettext("SSD {ssd}, hard disk {disk}"),
        Place::Memory => gettext("Memory {ssd}, hard disk {disk}"),
    });
    ResponseWords {
        title: if ssd < disk {
            // Translators: two response times, for example "0.1 ms instead of 8 ms"
            put(gettext("{ssd} instead of {disk}"))
        } else {
            both.clone()
        },
        spoken: both,
        caption,
    }
}

/// The time in microseconds that half of the requests stayed below, [`u64::MAX`] for a time beyond all bounds. `None`
/// if too few requests were measured.
///
/// The requests of a bucket are taken as spread evenly on the scale of the buckets, on which each step doubles the time.
/// Whatever their times are, the estimate is off by less than a factor of two.
fn typical_us(latency: &Latency) -> Option<u64> {
    let all = latency.requests();
    if all < ENOUGH {
        return None;
    }
    let half = all as f64 / 2.0;
    let (mut sum, mut from) = (0.0, None);
    for bucket in &latency.buckets {
        let requests = bucket.requests as f64;
        if bucket.requests > 0 && sum + requests >= half {
            if bucket.below_us == u64::MAX {
                return Some(u64::MAX);
            }
            let below = bucket.below_us as f64;
            let from = from.unwrap_or(below / 2.0);
            let place = (half - sum) / requests;
            return Some((from * (below / from).powf(place)).round() as u64);
        }
        sum += requests;
        from = Some(bucket.below_us as f64);
    }
    None
}

/// An estimated time in milliseconds, with no more digits than an estimate has.
fn time(us: u64) -> String {
    if us == u64::MAX {
        return gettext("over a second");
    }
    let digits = match us {
        0..95 => format!("0{}", ((us + 5) / 10).max(1)),
        95..950 => ((us + 50) / 100).to_string(),
        _ => String::new(),
    };
    let words = if digits.is_empty() {
        short_time((us + 500) / 1000 * 1000)
    } else {
        // Translators: less than a millisecond, for example "0.1 ms"; with the decimal mark of your language
        fill(&gettext("0.{digits} ms"), &[("digits", &digits)])
    };
    words.replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::Bucket;

    fn latency(requests: &[(u64, u64)]) -> Latency {
        let bucket = |&(below_us, requests): &(u64, u64)| Bucket { below_us, requests };
        Latency {
            buckets: requests.iter().map(bucket).collect(),
        }
    }

    fn words(recent: Option<(Latency, Latency)>, sample: Option<&Sample>) -> ResponseWords {
        let mut words = response_words(recent, sample, Place::Ssd);
        for text in [&mut words.title, &mut words.spoken] {
            *text = text.replace('\u{a0}', " ");
        }
        words
    }

    fn quick() -> Latency {
        latency(&[(64, 0), (128, 60), (256, 1)])
    }

    fn slow() -> Latency {
        latency(&[(4_096, 0), (8_192, 10), (16_384, 20), (u64::MAX, 1)])
    }

    #[test]
    fn an_ssd_that_is_faster_answers_instead_of_the_disk() {
        let told = words(Some((quick(), slow())), None);
        assert_eq!(told.title, "0.09 ms instead of 10 ms");
        assert_eq!(told.spoken, "SSD 0.09 ms, hard disk 10 ms");
        assert!(told.caption.contains("in the last minutes (estimate)"));
        let stalled = latency(&[(16_384, 1), (u64::MAX, 99)]);
        let told = words(Some((quick(), stalled)), None);
        assert_eq!(told.title, "0.09 ms instead of over a second");
    }

    #[test]
    fn an_ssd_that_is_not_faster_is_not_praised() {
        for ssd in [slow(), latency(&[(u64::MAX, 50)])] {
            let told = words(Some((ssd, slow())), None);
            assert!(told.title.starts_with("SSD "), "{told:?}");
            assert_eq!(told.title, told.spoken);
            assert!(told.caption.ends_with("The SSD is not faster right now."));
        }
    }

    #[test]
    fn few_requests_are_not_compared() {
        let few = latency(&[(16_384, ENOUGH - 1)]);
        assert_eq!(typical_us(&few), None);
        assert!(typical_us(&latency(&[(16_384, ENOUGH)])).is_some());
        let told = words(Some((quick(), few.clone())), Some(&Sample::default()));
        assert_eq!(told.title, "–");
        assert!(told.caption.starts_with("Too few requests measured"));
        assert_eq!(words(None, None), told);
        // The measurements since the start are more.
        let sample = Sample {
            ssd_latency: quick(),
            disk_latency: slow(),
            ..Sample::default()
        };
        let told = words(Some((quick(), few)), Some(&sample));
        assert_eq!(told.title, "0.09 ms instead of 10 ms");
        assert!(told.caption.contains("since startup (estimate)"));
    }

    #[test]
    fn the_estimate_is_in_the_bucket_of_the_middle_request() {
        for (requests, least, most) in [
            (&[(16, 40)][..], 8, 16),
            (&[(64, 19), (128, 21)], 64, 66),
            (&[(64, 20), (128, 20)], 64, 64),
            (&[(64, 0), (128, 40)], 90, 91),
            (&[(64, 1), (128, 0), (256, 39)], 128, 256),
        ] {
            let typical = typical_us(&latency(requests)).unwrap();
            assert!((least..=most).contains(&typical), "{requests:?}: {typical}");
        }
    }

    #[test]
    fn times_have_no_more_digits_than_an_estimate() {
        let shown = |us| time(us).replace('\u{a0}', " ");
        for (us, words) in [
            (3, "0.01 ms"),
            (64, "0.06 ms"),
            (94, "0.09 ms"),
            (95, "0.1 ms"),
            (949, "0.9 ms"),
            (950, "1 ms"),
            (7_600, "8 ms"),
            (400_000, "400 ms"),
            (1_048_576, "1 s"),
        ] {
            assert_eq!(shown(us), words);
        }
    }
}
