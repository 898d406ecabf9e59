// SPDX-License-Identifier: GPL-3.0-or-later
//! The past of a cache on its page: the chart with its ranges, the hit rates, the export.

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use gtk::{gio, prelude::*};
use tandem_api::{Mode, Span};

use super::CachePage;
use super::numbers::speeds;
use crate::a11y;
use crate::display::{Place, Shown, bytes, file_name, fill, plain_name, range_name};
use crate::model::bars::{csv, long_bars};
use crate::model::range::Range;
use crate::model::series::Series;
use crate::widgets::remove_dialog::{not_saved, show_failure};

impl CachePage {
    pub(super) fn prepare_chart(&self) {
        let imp = self.imp();
        let names: Vec<String> = Range::ALL.into_iter().map(range_name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Before 4.10 GTK gives the name of a list only to the list, and the focus goes to the button in it.
        if let Some(button) = imp.range.first_child() {
            a11y::set_label(&button, &gettext("Time Range"));
        }
        imp.range.set_model(Some(&gtk::StringList::new(&names)));
        imp.range.connect_selected_notify(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| {
                page.refresh_chart();
                page.load_histories();
            }
        ));
        imp.chart.connect_selected(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.refresh_speeds()
        ));
    }

    /// The range that the person has chosen.
    pub(super) fn range(&self) -> Range {
        let chosen = self.imp().range.selected();
        let chosen = usize::try_from(chosen)
            .ok()
            .and_then(|at| Range::ALL.get(at));
        chosen.copied().unwrap_or_default()
    }

    /// Asks the service for the last day and for the span of the chart.
    pub(super) fn load_histories(&self) {
        let (Some(client), Some(cache)) = (self.imp().client.get().cloned(), self.cache()) else {
            return;
        };
        let range = self.range();
        glib::spawn_future_local(clone!(
            #[weak(rename_to = page)]
            self,
            async move {
                let path = cache.facts().path;
                // Without the history the chart and the rates stay empty.
                let none = |failure| tracing::debug!("no long history: {failure}");
                let day = client.long_history(&path, Span::Day).await;
                let day = day.map_err(none).unwrap_or_default();
                let kept = match range {
                    Range::Kept(Span::Day) => Some((Span::Day, day.clone())),
                    Range::Kept(span) => {
                        let kept = client.long_history(&path, span).await;
                        Some((span, kept.map_err(none).unwrap_or_default()))
                    }
                    Range::Live => None,
                };
                // Another cache or another range may be shown by now.
                if page.cache().is_some_and(|shown| shown == cache) && page.range() == range {
                    page.imp().day.replace(day);
                    page.imp().kept.replace(kept);
                    page.refresh_rates();
                    page.refresh_chart();
                }
            }
        ));
    }

    pub(super) fn refresh_chart(&self) {
        let imp = self.imp();
        let Some(cache) = self.cache() else { return };
        let mode = cache.facts().mode;
        let range = self.range();
        let now = glib::real_time() as f64 / 1e6;
        let (bars, now) = match (range, &*imp.kept.borrow()) {
            (Range::Live, _) => (cache.with_series(|series| series.bars(now)), now),
            (Range::Kept(wanted), Some((span, kept))) if wanted == *span => {
                let bars = long_bars(kept, *span);
                let end = bars.last().map_or(now, |bar| bar.end.max(now));
                (bars, end)
            }
            _ => (Vec::new(), now),
        };
        let was_dirty = bars.iter().any(|bar| bar.dirty > 0);
        let dirty = was_dirty || cache.with_series(|series| shows_dirty(series, mode));
        imp.dirty_legend.set_visible(dirty);
        let (amount, _) = cache.with_series(Series::unwritten);
        imp.dirty_legend.set_label(fill(
            // Translators: {limit} is the most that can wait
            &gettext("Waiting to be written: {amount} now, at most {limit}"),
            &[
                ("amount", &bytes(amount)),
                ("limit", &bytes(cache.facts().most_dirty())),
            ],
        ));
        let shown = Shown {
            range,
            dirty,
            whole: false,
        };
        imp.chart.show(bars, shown, now);
        self.refresh_speeds();
    }

    /// Shows the values of the selected bar, or else the speeds of now.
    pub(super) fn refresh_speeds(&self) {
        let Some(cache) = self.cache() else { return };
        let words = self.imp().chart.selected_words();
        let words = words.unwrap_or_else(|| {
            cache.with_series(|series| speeds(series, Place::of(&cache.facts().ssd)))
        });
        self.imp().speeds.set_label(&words);
    }

    /// Asks for a file, and writes the bars of the chart to it.
    pub(super) fn export(&self) {
        let Some(cache) = self.cache() else { return };
        let window = self.root().and_downcast::<gtk::Window>();
        let chooser = gtk::FileChooserNative::builder()
            .title(gettext("Export as CSV"))
            .action(gtk::FileChooserAction::Save)
            .modal(true)
            .build();
        chooser.set_transient_for(window.as_ref());
        chooser.set_current_name(&format!(
            "{}.csv",
            file_name(&plain_name(&cache.facts().origin))
        ));
        let table = csv(&self.imp().chart.bars(), utc);
        glib::spawn_future_local(async move {
            let answer = chooser.run_future().await;
            let (gtk::ResponseType::Accept, Some(file)) = (answer, chooser.file()) else {
                return;
            };
            let written = file.replace_contents_future(
                table.into_bytes(),
                None,
                false,
                gio::FileCreateFlags::NONE,
            );
            if let Err((_, error)) = written.await {
                show_failure(window.as_ref(), &not_saved(&file, &error));
            }
        });
    }
}

/// Whether data can wait on the SSD, or has waited there: only then the chart shows the dirty data.
fn shows_dirty(series: &Series, mode: Mode) -> bool {
    mode == Mode::Writeback || series.had_dirty()
}

/// A moment in seconds of Unix time, as other programs read it.
fn utc(seconds: f64) -> String {
    glib::DateTime::from_unix_utc(seconds as i64)
        .and_then(|time| time.format_iso8601())
        .map_or_else(|_| String::new(), |words| words.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::Sample;

    #[test]
    fn what_waits_is_shown_only_where_something_can_wait_or_has_waited() {
        let sample = |time_us| Sample {
            time_us,
            ..Sample::default()
        };
        let clean = Series::from_history(vec![sample(1)]);
        assert!(!shows_dirty(&clean, Mode::Writethrough));
        assert!(shows_dirty(&clean, Mode::Writeback));
        let mut dirty = sample(1);
        dirty.dirty_sectors = 32;
        let left = Series::from_history(vec![dirty, sample(2)]);
        assert!(shows_dirty(&left, Mode::Writethrough));
        let mut was = sample(1);
        was.write_back_sectors = 8;
        assert!(shows_dirty(
            &Series::from_history(vec![was]),
            Mode::Writearound
        ));
    }

    #[test]
    fn moments_are_written_so_that_other_programs_read_them() {
        assert_eq!(utc(0.0), "1970-01-01T00:00:00Z");
    }
}
