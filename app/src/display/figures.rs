// SPDX-License-Identifier: GPL-3.0-or-later
//! What a cache has done besides answering: counters that a person understands, with what they mean.

use gettextrs::gettext;
use tandem_api::{Latency, SECTOR_BYTES, Sample};

use super::{bytes, fill, percent, short_time};

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What was counted.
    pub title: String,
    /// What that means.
    pub meaning: String,
    /// How much.
    pub value: String,
}

/// The counters of a cache, the useful ones first; errors only where there were any.
#[must_use]
pub fn figures(sample: &Sample) -> Vec<Figure> {
    let sectors = |count: u64| bytes(count.saturating_mul(SECTOR_BYTES));
    let frames = |event| sectors(sample.event(event).saturating_mul(sample.frame_sectors));
    let times = |event| sample.event(event).to_string();
    let mut all = vec![
        (
            gettext("Kept for the Next Time"),
            gettext("Read from the hard disk and stored on the SSD"),
            frames("fills"),
        ),
        (
            gettext("Given Up for Something Better"),
            gettext("Left the SSD because it was full"),
            frames("evictions"),
        ),
        (
            gettext("Brought to the Hard Disk"),
            gettext("Saved to the SSD first, written to the hard disk later"),
            sectors(sample.drained_sectors),
        ),
        (
            gettext("Hard Disk Made Sure"),
            gettext("Times that everything in the hard disk's own memory had to be written down"),
            times("flushes_disk"),
        ),
        (
            gettext("SSD Made Sure"),
            gettext("The same for the SSD, which is quicker at it"),
            times("flushes_ssd"),
        ),
    ];
    if sample.journal_total > 0 {
        all.push((
            gettext("Journal in Use"),
            gettext("Where the SSD notes what is on it; at half it is tidied up by itself"),
            percent(sample.journal_used as f64 / sample.journal_total as f64),
        ));
    }
    all.extend(wait(gettext("Wait for the SSD"), &sample.ssd_latency));
    all.extend(wait(
        gettext("Wait for the Hard Disk"),
        &sample.disk_latency,
    ));
    let errors = [
        ("disk_errors", gettext("Errors of the Hard Disk")),
        ("ssd_errors", gettext("Errors of the SSD")),
    ];
    for (event, title) in errors {
        if sample.event(event) > 0 {
            let meaning =
                gettext("Check the health of this device, and keep your backup up to date");
            all.push((title, meaning, times(event)));
        }
    }
    let figure = |(title, meaning, value)| Figure {
        title,
        meaning,
        value,
    };
    all.into_iter().map(figure).collect()
}

/// How long a typical request and a slow one took; nothing while none was measured.
fn wait(title: String, latency: &Latency) -> Option<(String, String, String)> {
    let (half, most) = latency.below_us(0.5).zip(latency.below_us(0.99))?;
    let below = |bound: u64| {
        if bound == u64::MAX {
            gettext("more than a second")
        } else {
            // Translators: {time} is for example "16 ms"
            fill(&gettext("up to {time}"), &[("time", &short_time(bound))])
        }
    };
    // Translators: of 100 requests 99 took {time}, for example "up to 16 ms"
    let meaning = gettext("A typical request; 99 of 100 took {time}");
    Some((
        title,
        fill(&meaning, &[("time", &below(most))]),
        below(half),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{Bucket, Counter};

    fn sample(events: &[(&str, u64)]) -> Sample {
        let event = |(name, value): &(&str, u64)| Counter {
            name: (*name).to_owned(),
            value: *value,
        };
        Sample {
            frame_sectors: 32,
            drained_sectors: 4_000,
            journal_used: 16,
            journal_total: 64,
            events: events.iter().map(event).collect(),
            ..Sample::default()
        }
    }

    #[test]
    fn each_counter_is_in_the_unit_that_it_is_said_in() {
        let shown = figures(&sample(&[("fills", 100), ("flushes_disk", 7)]));
        let value = |title: &str| {
            let found = shown.iter().find(|figure| figure.title == title).unwrap();
            found.value.replace('\u{a0}', " ")
        };
        // 100 frames of 16 KiB, 4,000 sectors, 16 of 64 blocks.
        assert_eq!(value("Kept for the Next Time"), "1.6 MB");
        assert_eq!(value("Brought to the Hard Disk"), "2.0 MB");
        assert_eq!(value("Journal in Use"), "25 %");
        assert_eq!(value("Hard Disk Made Sure"), "7");
        assert!(shown.iter().all(|figure| !figure.title.contains("Error")));
    }

    #[test]
    fn waits_are_those_of_the_half_and_of_nearly_all() {
        let mut measured = sample(&[]);
        assert!(
            figures(&measured)
                .iter()
                .all(|figure| !figure.title.starts_with("Wait"))
        );
        let bucket = |below_us, requests| Bucket { below_us, requests };
        measured.ssd_latency.buckets = vec![bucket(128, 90), bucket(1024, 10)];
        measured.disk_latency.buckets = vec![bucket(16_384, 3), bucket(u64::MAX, 1)];
        let shown = figures(&measured);
        let of = |title: &str| {
            let found = shown.iter().find(|figure| figure.title == title).unwrap();
            (found.value.clone(), found.meaning.clone())
        };
        let words = |value: &str, most: &str| {
            (
                value.to_owned(),
                format!("A typical request; 99 of 100 took {most}"),
            )
        };
        assert_eq!(of("Wait for the SSD"), words("up to 128 µs", "up to 1 ms"));
        assert_eq!(
            of("Wait for the Hard Disk"),
            words("up to 16 ms", "more than a second")
        );
    }

    #[test]
    fn errors_are_shown_when_there_were_any() {
        let shown = figures(&sample(&[("ssd_errors", 2)]));
        let last = shown.last().unwrap();
        assert_eq!(
            (last.title.as_str(), last.value.as_str()),
            ("Errors of the SSD", "2")
        );
    }
}
