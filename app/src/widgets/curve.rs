// SPDX-License-Identifier: GPL-3.0-or-later
//! The curve of a disk that is watched: what share of its reads would come from an SSD, by the size of the cache. The
//! pointer and the arrow keys select a size.

mod paint;

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use gtk::glib::{self, subclass::Signal, subclass::prelude::*};
use gtk::subclass::prelude::*;
use gtk::{gdk, prelude::*};
use tandem_api::{AdvicePoint, DiskWatch};

use crate::a11y;
use crate::display::{SsdMark, curve_words, point_words};
use crate::widgets::chart::label_context;
use crate::widgets::chart::reading::{Readable, prepare};
use paint::{Contents, Palette, frame, paint};

/// Height in pixels.
const HEIGHT: i32 = 200;

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct Curve {
        pub points: RefCell<Vec<AdvicePoint>>,
        pub marks: RefCell<Vec<SsdMark>>,
        /// The whole curve in words.
        pub words: RefCell<String>,
        pub selected: Cell<Option<usize>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Curve {
        const NAME: &'static str = "TandemCurve";
        type Type = super::Curve;
        type ParentType = gtk::DrawingArea;

        fn class_init(class: &mut Self::Class) {
            class.set_accessible_role(gtk::AccessibleRole::Img);
        }
    }

    impl ObjectImpl for Curve {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| vec![Signal::builder("selected").build()])
        }

        fn constructed(&self) {
            self.parent_constructed();
            prepare(&*self.obj(), HEIGHT);
        }
    }

    impl WidgetImpl for Curve {}
    impl DrawingAreaImpl for Curve {}
}

glib::wrapper! {
    /// A widget that draws the curve, and describes it in words for a screen reader. Emits `selected` when another
    /// size is selected.
    pub struct Curve(ObjectSubclass<imp::Curve>)
        @extends gtk::DrawingArea, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl Curve {
    /// Shows what is predicted, with these SSDs marked.
    pub fn show(&self, watch: &DiskWatch, marks: Vec<SsdMark>) {
        let imp = self.imp();
        let points = watch.points.clone();
        let more = imp.points.replace(points).len() != watch.points.len();
        imp.marks.replace(marks);
        imp.words.replace(curve_words(watch));
        if more {
            imp.selected.set(None);
        }
        self.tell();
    }

    /// The prediction for the selected size, if one is selected.
    #[must_use]
    pub fn selected_words(&self) -> Option<String> {
        let imp = self.imp();
        let points = imp.points.borrow();
        Some(point_words(points.get(imp.selected.get()?)?))
    }

    /// Calls `then` when another size is selected, or none, and when the prediction has changed.
    pub fn connect_selected(&self, then: impl Fn(&Self) + 'static) {
        self.connect_closure(
            "selected",
            false,
            glib::closure_local!(move |curve: &Self| then(curve)),
        );
    }

    fn tell(&self) {
        self.queue_draw();
        // A screen reader says the name of the focused widget again when the name changes.
        let words = self.selected_words();
        a11y::set_label(
            self,
            &words.unwrap_or_else(|| self.imp().words.borrow().clone()),
        );
        self.emit_by_name::<()>("selected", &[]);
    }

    fn with_contents<T>(&self, use_them: impl FnOnce(&Contents<'_>) -> T) -> T {
        let imp = self.imp();
        use_them(&Contents {
            points: &imp.points.borrow(),
            marks: &imp.marks.borrow(),
            selected: imp.selected.get(),
        })
    }
}

impl Readable for Curve {
    fn draw(&self, cairo: &gtk::cairo::Context, size: (i32, i32)) {
        let style = self.style_context();
        let named = |name, other| style.lookup_color(name).unwrap_or(other);
        let palette = Palette {
            text: style.color(),
            ssd: named("tandem_hit_color", gdk::RGBA::new(0.11, 0.44, 0.85, 1.0)),
            mark: named("tandem_write_color", gdk::RGBA::new(0.51, 0.24, 0.61, 1.0)),
        };
        let labels = label_context(self);
        let drawn = self.with_contents(|contents| paint(cairo, size, contents, &palette, &labels));
        if let Err(error) = drawn {
            tracing::warn!("the curve could not be drawn: {error}");
        }
    }
    fn place_at(&self, x: f64) -> Option<usize> {
        let size = (self.width(), self.height());
        self.with_contents(|contents| contents.nearest(&frame(size, &label_context(self)), x))
    }

    fn places(&self) -> usize {
        self.imp().points.borrow().len()
    }

    fn first_to_the_right(&self) -> Option<usize> {
        (self.places() > 0).then_some(0)
    }

    fn selected_place(&self) -> Option<usize> {
        self.imp().selected.get()
    }

    fn select(&self, index: Option<usize>) {
        if self.imp().selected.replace(index) != index {
            self.tell();
        }
    }
}
