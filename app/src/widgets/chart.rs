// SPDX-License-Identifier: GPL-3.0-or-later
//! The chart of a cache: what was read from the SSD and from the disk, stacked, and what was written; below it, in
//! write-back, the data that waits to be written to the disk. The pointer and the arrow keys select a bar.

pub(super) mod axis;
pub(super) mod brush;
mod paint;
pub(super) mod reading;

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use gtk::glib::{self, subclass::Signal, subclass::prelude::*};
use gtk::subclass::prelude::*;
use gtk::{gdk, pango, prelude::*};

use crate::a11y;
use crate::display::{Shown, bar_words, chart_words};
use crate::model::bars::Bar;
use paint::{Contents, Palette, frames, paint};
use reading::{Readable, prepare};

/// Height of the plot of rates, and of both plots, in pixels.
const HEIGHT: [i32; 2] = [200, 290];

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct Chart {
        pub bars: RefCell<Vec<Bar>>,
        pub shown: Cell<Shown>,
        /// The time of the right edge, in seconds of Unix time.
        pub now: Cell<f64>,
        /// The start of the bar that the person looks at.
        pub selected: Cell<Option<f64>>,
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
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| vec![Signal::builder("selected").build()])
        }

        fn constructed(&self) {
            self.parent_constructed();
            prepare(&*self.obj(), HEIGHT[0]);
        }
    }

    impl WidgetImpl for Chart {}
    impl DrawingAreaImpl for Chart {}
}

glib::wrapper! {
    /// A widget that draws bars, and describes them in words for a screen reader. Emits `selected` when another bar is
    /// selected.
    pub struct Chart(ObjectSubclass<imp::Chart>)
        @extends gtk::DrawingArea, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl Chart {
    /// Shows these bars. `now` is the time of the right edge, in seconds of Unix time.
    pub fn show(&self, bars: Vec<Bar>, shown: Shown, now: f64) {
        let imp = self.imp();
        let range_changed = imp.shown.replace(shown).range != shown.range;
        imp.bars.replace(bars);
        imp.now.set(now);
        self.set_content_height(HEIGHT[usize::from(shown.dirty)]);
        self.queue_draw();
        if range_changed || imp.selected.get().is_some() && self.selected_index().is_none() {
            self.select(None);
        }
        self.name();
    }

    /// The bars that are shown.
    #[must_use]
    pub fn bars(&self) -> Vec<Bar> {
        self.imp().bars.borrow().clone()
    }

    /// The values of the selected bar, if one is selected.
    #[must_use]
    pub fn selected_words(&self) -> Option<String> {
        let imp = self.imp();
        let bar = *imp.bars.borrow().get(self.selected_index()?)?;
        Some(bar_words(&bar, imp.shown.get()))
    }

    /// Calls `then` when another bar is selected, or none.
    pub fn connect_selected(&self, then: impl Fn(&Self) + 'static) {
        self.connect_closure(
            "selected",
            false,
            glib::closure_local!(move |chart: &Self| then(chart)),
        );
    }

    /// Names the chart for a screen reader, which says the name of the focused widget again when the name changes.
    fn name(&self) {
        let imp = self.imp();
        let words = self.selected_words();
        let words = words.unwrap_or_else(|| chart_words(&imp.bars.borrow(), imp.shown.get()));
        a11y::set_label(self, &words);
    }

    fn selected_index(&self) -> Option<usize> {
        let start = self.imp().selected.get()?;
        let same = |bar: &Bar| (bar.start - start).abs() < 0.5;
        self.imp().bars.borrow().iter().position(same)
    }

    fn with_contents<T>(&self, use_them: impl FnOnce(&Contents<'_>) -> T) -> T {
        let imp = self.imp();
        let bars = imp.bars.borrow();
        use_them(&Contents {
            bars: &bars,
            range: imp.shown.get().range,
            now: imp.now.get(),
            dirty: imp.shown.get().dirty,
            selected: self.selected_index(),
        })
    }

    fn palette(&self) -> Palette {
        let style = self.style_context();
        let named = |name, other| style.lookup_color(name).unwrap_or(other);
        Palette {
            text: style.color(),
            ssd: named("tandem_hit_color", gdk::RGBA::new(0.11, 0.44, 0.85, 1.0)),
            disk: named("tandem_disk_color", gdk::RGBA::new(0.47, 0.46, 0.48, 1.0)),
            written: named("tandem_write_color", gdk::RGBA::new(0.51, 0.24, 0.61, 1.0)),
            dirty: named("tandem_dirty_color", gdk::RGBA::new(0.78, 0.27, 0.0, 1.0)),
        }
    }
}

impl Readable for Chart {
    fn draw(&self, cairo: &gtk::cairo::Context, size: (i32, i32)) {
        let palette = self.palette();
        let labels = label_context(self);
        let drawn = self.with_contents(|contents| paint(cairo, size, contents, &palette, &labels));
        if let Err(error) = drawn {
            tracing::warn!("the chart could not be drawn: {error}");
        }
    }

    fn place_at(&self, x: f64) -> Option<usize> {
        let size = (self.width(), self.height());
        self.with_contents(|contents| {
            let (frame, _) = frames(size, contents, &label_context(self));
            let moment = frame.moment(x, contents.times());
            let here = |bar: &Bar| (bar.start..bar.end).contains(&moment);
            contents.bars.iter().position(here)
        })
    }

    fn places(&self) -> usize {
        self.imp().bars.borrow().len()
    }

    fn first_to_the_right(&self) -> Option<usize> {
        self.places().checked_sub(1)
    }

    fn selected_place(&self) -> Option<usize> {
        self.selected_index()
    }

    fn select(&self, index: Option<usize>) {
        let imp = self.imp();
        let start = index.and_then(|at| imp.bars.borrow().get(at).map(|bar| bar.start));
        if imp.selected.replace(start) == start {
            return;
        }
        self.queue_draw();
        self.name();
        self.emit_by_name::<()>("selected", &[]);
    }
}

/// A fresh Pango context for the labels: the font of the widget's own context would become smaller each time.
pub(super) fn label_context(chart: &impl IsA<gtk::Widget>) -> pango::Context {
    let labels = chart.create_pango_context();
    if let Some(mut font) = labels.font_description() {
        let smaller = font.size() * 17 / 20;
        if font.is_size_absolute() {
            font.set_absolute_size(f64::from(smaller));
        } else {
            font.set_size(smaller);
        }
        labels.set_font_description(&font);
    }
    labels
}
