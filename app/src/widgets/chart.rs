// SPDX-License-Identifier: GPL-3.0-or-later
//! The live chart of a cache: hit rate and what is not on the disk yet, over the last minutes.

mod axis;
mod curve;
mod paint;

use std::cell::RefCell;

use gettextrs::gettext;
use gtk::glib::{self, clone, subclass::prelude::*};
use gtk::subclass::prelude::*;
use gtk::{gdk, prelude::*};

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
    /// Draws the series of a [`CacheObject`] and tells it in words to those who do not see it.
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
        a11y::set_label(self, &cache.with_series(summary));
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
        // A context of its own: the widget's would become smaller each time.
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
        if let Err(error) =
            cache.with_series(|series| paint::paint(cairo, size, series, &palette, &labels))
        {
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

/// The chart in words.
fn summary(series: &Series) -> String {
    let rates: Vec<f64> = series.points().filter_map(|point| point.hit_rate).collect();
    let dirty = series.last().map_or(0.0, |point| point.dirty);
    let (Some(last), false) = (rates.last(), rates.is_empty()) else {
        return fill(
            &gettext(
                "Chart of the last five minutes: nothing was read yet; not on the hard disk yet {dirty}.",
            ),
            &[("dirty", &percent(dirty))],
        );
    };
    let (low, high) = rates.iter().fold((1.0_f64, 0.0_f64), |(low, high), rate| {
        (low.min(*rate), high.max(*rate))
    });
    fill(
        &gettext(
            "Chart of the last five minutes: hit rate now {now}, lowest {low}, highest {high}; not on the hard disk yet {dirty}.",
        ),
        &[
            ("now", &percent(*last)),
            ("low", &percent(low)),
            ("high", &percent(high)),
            ("dirty", &percent(dirty)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{Direction, Sample};

    #[test]
    fn the_chart_can_be_told_in_words() {
        assert!(summary(&Series::default()).contains("nothing was read"));
        let sample = |seconds: u64, requested, hit| Sample {
            time_us: seconds * 10_000_000,
            read: Direction {
                requested,
                hit,
                ..Direction::default()
            },
            ..Sample::default()
        };
        let series = Series::from_history(vec![
            sample(1, 0, 0),
            sample(2, 100, 20),
            sample(3, 200, 110),
        ]);
        assert_eq!(
            summary(&series),
            "Chart of the last five minutes: hit rate now 90 %, lowest 20 %, highest 90 %; not on the hard disk yet 0 %."
        );
    }
}
