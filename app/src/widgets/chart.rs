// SPDX-License-Identifier: GPL-3.0-or-later
//! The live chart of a cache over the last minutes: the share of reads that the SSD served and, in write-back, the
//! share of the cache that waits to be written to the disk.

mod axis;
mod curve;
mod paint;

use std::cell::RefCell;

use gettextrs::gettext;
use gtk::glib::{self, clone, subclass::prelude::*};
use gtk::subclass::prelude::*;
use gtk::{gdk, prelude::*};
use tandem_api::Mode;

use crate::a11y;
use crate::display::{fill, percent};
use crate::model::objects::CacheObject;
use crate::model::series::Series;
use paint::Palette;

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct Chart {
        pub cache: RefCell<Option<(CacheObject, glib::SignalHandlerId)>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Chart {
        const NAME: &'static str = "TandemChart";
        type Type = super::Chart;
        type ParentType = gtk::DrawingArea;

        fn class_init(class: &mut Self::Class) {
            class.set_accessible_role(gtk::AccessibleRole::Img);
        }
    }

    impl ObjectImpl for Chart {
        fn constructed(&self) {
            self.parent_constructed();
            let chart = self.obj();
            chart.set_content_height(200);
            chart.set_hexpand(true);
            chart.set_draw_func(|area, cairo, width, height| {
                if let Some(chart) = area.downcast_ref::<super::Chart>() {
                    chart.draw(cairo, (width, height));
                }
            });
            adw::StyleManager::default().connect_dark_notify(clone!(
                #[weak]
                chart,
                move |_| chart.queue_draw()
            ));
        }

        fn dispose(&self) {
            self.obj().show(None);
        }
    }

    impl WidgetImpl for Chart {}
    impl DrawingAreaImpl for Chart {}
}

glib::wrapper! {
    /// Draws the series of a [`CacheObject`] and describes it in words for a screen reader.
    pub struct Chart(ObjectSubclass<imp::Chart>)
        @extends gtk::DrawingArea, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl Chart {
    /// Shows this cache from now on, or none.
    pub fn show(&self, cache: Option<&CacheObject>) {
        if let Some((old, handler)) = self.imp().cache.take() {
            old.disconnect(handler);
        }
        if let Some(cache) = cache {
            let handler = cache.connect_sampled(clone!(
                #[weak(rename_to = chart)]
                self,
                move |cache| chart.refresh(cache)
            ));
            self.imp().cache.replace(Some((cache.clone(), handler)));
            self.refresh(cache);
        }
    }

    fn refresh(&self, cache: &CacheObject) {
        let mode = cache.facts().mode;
        a11y::set_label(self, &cache.with_series(|series| summary(series, mode)));
        self.queue_draw();
    }

    fn draw(&self, cairo: &gtk::cairo::Context, size: (i32, i32)) {
        let Some(cache) = self
            .imp()
            .cache
            .borrow()
            .as_ref()
            .map(|(cache, _)| cache.clone())
        else {
            return;
        };
        let palette = self.palette();
        let mode = cache.facts().mode;
        // A fresh Pango context: the font of the widget's own context would become smaller each time.
        let labels = self.create_pango_context();
        if let Some(mut font) = labels.font_description() {
            let smaller = font.size() * 17 / 20;
            if font.is_size_absolute() {
                font.set_absolute_size(f64::from(smaller));
            } else {
                font.set_size(smaller);
            }
            labels.set_font_description(&font);
        }
        if let Err(error) = cache.with_series(|series| {
            let dirty = shows_dirty(series, mode);
            paint::paint(cairo, size, series, dirty, &palette, &labels)
        }) {
            tracing::warn!("the chart could not be drawn: {error}");
        }
    }

    fn palette(&self) -> Palette {
        let style = self.style_context();
        let named = |name, other| style.lookup_color(name).unwrap_or(other);
        Palette {
            text: style.color(),
            hit: named("tandem_hit_color", gdk::RGBA::new(0.11, 0.44, 0.85, 1.0)),
            dirty: named("tandem_dirty_color", gdk::RGBA::new(0.78, 0.27, 0.0, 1.0)),
        }
    }
}

/// Whether data can wait on the SSD, or has waited there: only then the chart shows the dirty share.
#[must_use]
pub fn shows_dirty(series: &Series, mode: Mode) -> bool {
    mode == Mode::Writeback || series.had_dirty()
}

/// The chart in words.
fn summary(series: &Series, mode: Mode) -> String {
    let rates: Vec<f64> = series.points().filter_map(|point| point.hit_rate).collect();
    let mut words = match rates.last() {
        None => gettext("Chart of the last five minutes: nothing was read."),
        Some(last) => {
            let (low, high) = rates.iter().fold((1.0_f64, 0.0_f64), |(low, high), rate| {
                (low.min(*rate), high.max(*rate))
            });
            fill(
                &gettext(
                    "Chart of the last five minutes: read from SSD now {now}, lowest {low}, highest {high}.",
                ),
                &[
                    ("now", &percent(*last)),
                    ("low", &percent(low)),
                    ("high", &percent(high)),
                ],
            )
        }
    };
    if shows_dirty(series, mode) {
        let share = series.last().map_or(0.0, |point| point.dirty);
        words.push(' ');
        words.push_str(&fill(
            // Translators: {share} is a share of the cache
            &gettext("Waiting to be written: {share} of the cache."),
            &[("share", &percent(share))],
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{Direction, Sample};

    fn sample(seconds: u64, requested: u64, hit: u64) -> Sample {
        Sample {
            time_us: seconds * 10_000_000,
            read: Direction {
                requested,
                hit,
                ..Direction::default()
            },
            frames_total: 10,
            frame_sectors: 32,
            ..Sample::default()
        }
    }

    #[test]
    fn the_chart_can_be_told_in_words() {
        let told = |series: &Series| summary(series, Mode::Writethrough);
        assert!(told(&Series::default()).contains("nothing was read"));
        let series = Series::from_history(vec![
            sample(1, 0, 0),
            sample(2, 100, 20),
            sample(3, 200, 110),
        ]);
        assert_eq!(
            told(&series),
            "Chart of the last five minutes: read from SSD now 90%, lowest 20%, highest 90%."
        );
        assert!(
            summary(&series, Mode::Writeback).ends_with("Waiting to be written: 0% of the cache.")
        );
    }

    #[test]
    fn what_waits_is_shown_only_where_something_can_wait_or_has_waited() {
        let clean = Series::from_history(vec![sample(1, 0, 0)]);
        assert!(!shows_dirty(&clean, Mode::Writethrough));
        assert!(shows_dirty(&clean, Mode::Writeback));
        let mut dirty = sample(1, 0, 0);
        dirty.dirty_sectors = 32;
        let left = Series::from_history(vec![dirty, sample(2, 0, 0)]);
        assert!(shows_dirty(&left, Mode::Writethrough));
        let mut was = sample(1, 0, 0);
        was.write_back_sectors = 8;
        assert!(shows_dirty(
            &Series::from_history(vec![was]),
            Mode::Writearound
        ));
    }
}
