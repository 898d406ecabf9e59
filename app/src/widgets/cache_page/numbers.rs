// SPDX-License-Identifier: GPL-3.0-or-later
//! The figures of the newest sample.

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::prelude::*;
use tandem_api::{CacheState, SECTOR_BYTES, Sample, Target};

use super::CachePage;
use crate::a11y;
use crate::display::{
    Place, bytes, figures, fill, percent, rate, read_shares, response_words, write_shares,
};
use crate::model::range::Range;
use crate::model::series::Series;
use crate::widgets::figure_list::show_figures;
use crate::widgets::share_row::show_shares;

impl CachePage {
    pub(super) fn refresh_numbers(&self) {
        let imp = self.imp();
        let Some(cache) = self.cache() else { return };
        let facts = cache.facts();
        let place = Place::of(&facts.ssd);
        // While the size is changed the cache has no SSD for a moment.
        imp.numbers
            .set_visible(facts.is_live() && facts.cache_bytes > 0);
        imp.chart_card.set_visible(facts.is_live());
        // A cache that does not run has no counters of its own; the last sample may be of another start.
        imp.counters.set_visible(!matches!(
            facts.state,
            CacheState::Stopped | CacheState::Pending
        ));
        cache.with_series(|series| {
            imp.hit_rate.set_label(&hit_rate_words(series));
            imp.hit_caption.set_label(&hit_caption(series, place));
            let times = response_words(series.latencies(), series.latest(), place);
            imp.times.set_label(&times.title);
            a11y::set_label(&*imp.times, &times.spoken);
            imp.times_caption.set_label(&times.caption);
            // dm-cache measures no response times.
            imp.times_tile.set_visible(facts.target == Target::Tandem);
            let none = Sample::default();
            let sample = series.latest().unwrap_or(&none);
            let filled = sample.frames_used as f64 / sample.frames_total.max(1) as f64;
            imp.filled.set_label(&percent(filled));
            let used = sample
                .frames_used
                .saturating_mul(sample.frame_sectors)
                .saturating_mul(SECTOR_BYTES);
            imp.filled_of.set_label(&fill(
                &gettext("{used} of {size} used"),
                &[
                    ("used", &bytes(used.min(facts.cache_bytes))),
                    ("size", &bytes(facts.cache_bytes)),
                ],
            ));
            show_shares(&imp.reads, &read_shares(&sample.read, facts.target, place));
            show_shares(
                &imp.writes,
                &write_shares(&sample.write, sample.write_back_sectors, place),
            );
            let mut rows = imp.figure_rows.borrow_mut();
            show_figures(&imp.figures, &mut rows, &figures(sample));
        });
        if self.range() == Range::Live {
            self.refresh_chart();
        }
        self.refresh_state();
    }
}

/// Share of reads that the SSD served in the newest window.
pub(crate) fn hit_rate_words(series: &Series) -> String {
    share_words(series.hit_rate())
}

/// The caption of that share: its meaning, and the time over which it is taken.
pub(crate) fn hit_caption(series: &Series, place: Place) -> String {
    let words = match place {
        // Translators: beside a share of the last {seconds} seconds
        Place::Ssd => gettext("Read from SSD now ({seconds} s)"),
        // Translators: beside a share of the last {seconds} seconds
        Place::Memory => gettext("Read from memory now ({seconds} s)"),
    };
    fill(&words, &[("seconds", &series.window_seconds().to_string())])
}

/// A share, or a dash while there is none.
pub(super) fn share_words(share: Option<f64>) -> String {
    // Translators: shown instead of a number while there is none
    share.map_or_else(|| gettext("–"), percent)
}

/// The speeds of reads from the SSD and from the disk in the newest window.
pub(super) fn speeds(series: &Series, place: Place) -> String {
    let (Some(now), Some(earlier)) = (series.latest(), series.earlier()) else {
        return gettext("Waiting for the first numbers…");
    };
    let time = (now.time_us - earlier.time_us).max(1);
    let per_second = |now: u64, earlier: u64| {
        let moved = u128::from(now.saturating_sub(earlier)) * u128::from(SECTOR_BYTES);
        u64::try_from(moved * 1_000_000 / u128::from(time)).unwrap_or(u64::MAX)
    };
    let past = |sample: &Sample| sample.read.bypassed_sectors();
    let ssd = per_second(now.read.hit, earlier.read.hit);
    let disk = per_second(
        now.read.missed + past(now),
        earlier.read.missed + past(earlier),
    );
    if ssd == 0 && disk == 0 {
        return gettext("Idle");
    }
    let words = match place {
        // Translators: {seconds} is the time over which the two speeds were taken
        Place::Ssd => {
            gettext("Reading {ssd} from the SSD, {disk} from the hard disk (last {seconds} s)")
        }
        // Translators: {seconds} is the time over which the two speeds were taken
        Place::Memory => {
            gettext("Reading {ssd} from memory, {disk} from the hard disk (last {seconds} s)")
        }
    };
    fill(
        &words,
        &[
            ("ssd", &rate(ssd)),
            ("disk", &rate(disk)),
            ("seconds", &series.window_seconds().to_string()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::Direction;

    #[test]
    fn speeds_are_those_of_the_last_seconds_and_what_went_past_came_from_the_disk() {
        let sample = |seconds: u64, hit, missed| Sample {
            time_us: seconds * 1_000_000,
            read: Direction {
                requested: hit + missed,
                hit,
                missed,
                bypassed: vec![],
            },
            ..Sample::default()
        };
        assert!(speeds(&Series::default(), Place::Ssd).starts_with("Waiting"));
        let idle = Series::from_history(vec![sample(1, 5, 5), sample(2, 5, 5)]);
        assert_eq!(speeds(&idle, Place::Ssd), "Idle");
        let busy = Series::from_history(vec![sample(0, 0, 0), sample(10, 200_000, 20_000)]);
        assert_eq!(
            speeds(&busy, Place::Ssd).replace('\u{a0}', " "),
            "Reading 10.2 MB/s from the SSD, 1.0 MB/s from the hard disk (last 10 s)"
        );
    }
}
