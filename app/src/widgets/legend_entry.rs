// SPDX-License-Identifier: GPL-3.0-or-later
//! One entry of the legend of a chart: a color and what it stands for. The color is a class of the style sheet, which the
//! entry has.

use gtk::glib::{self, subclass::InitializingObject};
use gtk::subclass::prelude::*;
use gtk::{CompositeTemplate, prelude::*};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate, glib::Properties)]
    #[properties(wrapper_type = super::LegendEntry)]
    #[template(file = "legend_entry.ui")]
    pub struct LegendEntry {
        /// The words for the color.
        #[template_child]
        #[property(name = "label", set = Self::set_label, type = String)]
        pub words: TemplateChild<gtk::Label>,
    }

    impl LegendEntry {
        fn set_label(&self, words: &str) {
            self.words.set_label(words);
        }
    }

    #[glib::object_subclass]
    impl ObjectSubclass for LegendEntry {
        const NAME: &'static str = "TandemLegendEntry";
        type Type = super::LegendEntry;
        type ParentType = gtk::Box;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &InitializingObject<Self>) {
            object.init_template();
        }
    }

    #[glib::derived_properties]
    impl ObjectImpl for LegendEntry {}
    impl WidgetImpl for LegendEntry {}
    impl BoxImpl for LegendEntry {}
}

glib::wrapper! {
    /// A widget that shows what a color of a chart stands for.
    pub struct LegendEntry(ObjectSubclass<imp::LegendEntry>)
        @extends gtk::Box, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget, gtk::Orientable;
}
