// SPDX-License-Identifier: GPL-3.0-or-later
//! The result of a speed test as a picture, in the window and to save or copy.

mod paint;

use std::cell::RefCell;

use gtk::glib::{self, clone, subclass::prelude::*};
use gtk::subclass::prelude::*;
use gtk::{cairo, gdk, pango, prelude::*};

use crate::a11y;
use crate::display::SpeedWords;
use paint::{Look, height, paint};

/// Width of a saved picture, and the width of its margins, in pixels before the scale.
const SAVED_WIDTH: i32 = 600;
const SAVED_MARGIN: i32 = 32;
/// A saved picture has so many pixels for each of its pixels in a window.
const SAVED_SCALE: i32 = 2;
/// Least width in the window.
const LEAST_WIDTH: i32 = 240;

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct SpeedPicture {
        pub words: RefCell<Option<SpeedWords>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for SpeedPicture {
        const NAME: &'static str = "TandemSpeedPicture";
        type Type = super::SpeedPicture;
        type ParentType = gtk::DrawingArea;

        fn class_init(class: &mut Self::Class) {
            class.set_accessible_role(gtk::AccessibleRole::Img);
        }
    }

    impl ObjectImpl for SpeedPicture {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().prepare();
        }
    }

    impl WidgetImpl for SpeedPicture {
        fn request_mode(&self) -> gtk::SizeRequestMode {
            gtk::SizeRequestMode::HeightForWidth
        }

        fn measure(&self, orientation: gtk::Orientation, for_size: i32) -> (i32, i32, i32, i32) {
            if orientation == gtk::Orientation::Horizontal {
                return (LEAST_WIDTH, SAVED_WIDTH, -1, -1);
            }
            let width = for_size.max(LEAST_WIDTH);
            let picture = self.obj();
            let words = self.words.borrow();
            let tall = words.as_ref().map_or(0, |words| {
                height(words, width, &picture.create_pango_context())
            });
            (tall, tall, -1, -1)
        }
    }

    impl DrawingAreaImpl for SpeedPicture {}
}

glib::wrapper! {
    /// A widget that draws a result, and tells it in words to a screen reader.
    pub struct SpeedPicture(ObjectSubclass<imp::SpeedPicture>)
        @extends gtk::DrawingArea, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl SpeedPicture {
    fn prepare(&self) {
        self.set_hexpand(true);
        self.set_focusable(true);
        self.add_css_class("chart");
        self.set_draw_func(|area, cairo, width, _| {
            if let Some(picture) = area.downcast_ref::<Self>() {
                picture.draw(cairo, width, &picture.look());
            }
        });
        adw::StyleManager::default().connect_dark_notify(clone!(
            #[weak(rename_to = picture)]
            self,
            move |_| picture.queue_draw()
        ));
    }

    /// Shows this result.
    pub fn show(&self, words: SpeedWords) {
        a11y::set_label(self, &words.spoken());
        self.imp().words.replace(Some(words));
        self.queue_resize();
    }

    /// The words of the result that is shown.
    #[must_use]
    pub fn words(&self) -> Option<SpeedWords> {
        self.imp().words.borrow().clone()
    }

    /// The picture on a white ground, as it is saved and copied.
    ///
    /// # Errors
    /// Cairo cannot draw, for example because there is no memory.
    pub fn texture(&self) -> Result<gdk::Texture, cairo::Error> {
        let tall = self.imp().words.borrow().as_ref().map_or(0, |words| {
            height(
                words,
                SAVED_WIDTH - 2 * SAVED_MARGIN,
                &self.create_pango_context(),
            )
        });
        let (width, height) = (
            SAVED_WIDTH * SAVED_SCALE,
            (tall + 2 * SAVED_MARGIN) * SAVED_SCALE,
        );
        let mut surface = cairo::ImageSurface::create(cairo::Format::ARgb32, width, height)?;
        {
            let cairo = cairo::Context::new(&surface)?;
            cairo.set_source_rgb(1.0, 1.0, 1.0);
            cairo.paint()?;
            cairo.scale(SAVED_SCALE.into(), SAVED_SCALE.into());
            cairo.translate(SAVED_MARGIN.into(), SAVED_MARGIN.into());
            self.draw(&cairo, SAVED_WIDTH - 2 * SAVED_MARGIN, &Look::ON_WHITE);
        }
        let stride = usize::try_from(surface.stride()).unwrap_or_default();
        let pixels = surface.data().map_err(|_| cairo::Error::SurfaceFinished)?;
        let pixels = glib::Bytes::from(&pixels[..]);
        // Cairo's pixels are words in the order of the machine.
        let format = if cfg!(target_endian = "little") {
            gdk::MemoryFormat::B8g8r8a8Premultiplied
        } else {
            gdk::MemoryFormat::A8r8g8b8Premultiplied
        };
        Ok(gdk::MemoryTexture::new(width, height, format, &pixels, stride).upcast())
    }

    fn draw(&self, cairo: &cairo::Context, width: i32, look: &Look) {
        let words = self.imp().words.borrow();
        let Some(words) = words.as_ref() else { return };
        let mirrored = self.direction() == gtk::TextDirection::Rtl;
        let text: pango::Context = self.create_pango_context();
        paint(cairo, words, width, &text, look, mirrored);
    }

    fn look(&self) -> Look {
        let style = self.style_context();
        let named = |name, other| style.lookup_color(name).unwrap_or(other);
        Look {
            text: style.color(),
            ssd: named("tandem_hit_color", Look::ON_WHITE.ssd),
            disk: named("tandem_disk_color", Look::ON_WHITE.disk),
            warning: named("tandem_dirty_color", Look::ON_WHITE.warning),
        }
    }
}
