// SPDX-License-Identifier: GPL-3.0-or-later
//! The banner for a cache with a fault: what happened, where the data is, and what to do next.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::CompositeTemplate;
use gtk::glib;

use crate::a11y;
use crate::display::{CacheWords, Severity};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "state_banner.ui")]
    pub struct StateBanner {
        #[template_child]
        pub icon: TemplateChild<gtk::Image>,
        #[template_child]
        pub title: TemplateChild<gtk::Label>,
        #[template_child]
        pub what: TemplateChild<gtk::Label>,
        #[template_child]
        pub data: TemplateChild<gtk::Label>,
        #[template_child]
        pub next: TemplateChild<gtk::Label>,
        #[template_child]
        pub resume: TemplateChild<gtk::Button>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for StateBanner {
        const NAME: &'static str = "TandemStateBanner";
        type Type = super::StateBanner;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for StateBanner {
        fn constructed(&self) {
            self.parent_constructed();
            a11y::name_by_labels(&*self.resume);
        }
    }

    impl WidgetImpl for StateBanner {}
    impl BinImpl for StateBanner {}
}

glib::wrapper! {
    /// A widget that shows [`CacheWords`] while they have something to explain.
    pub struct StateBanner(ObjectSubclass<imp::StateBanner>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl StateBanner {
    /// Shows these words, or nothing if there is nothing to explain.
    pub fn show(&self, words: &CacheWords) {
        let imp = self.imp();
        self.set_visible(!words.what.is_empty());
        imp.icon.set_icon_name(Some(words.icon));
        for severity in Severity::ALL {
            imp.icon.remove_css_class(severity.css_class());
        }
        imp.icon.add_css_class(words.severity.css_class());
        imp.title.set_label(&words.title);
        imp.what.set_label(&words.what);
        imp.data.set_label(&words.data);
        imp.data.set_visible(!words.data.is_empty());
        imp.next.set_label(&words.next);
        imp.resume.set_visible(words.resumable);
    }
}
