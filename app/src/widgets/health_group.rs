// SPDX-License-Identifier: GPL-3.0-or-later
//! The health of the SSD of a cache: its condition, how long it lasts, and what the cache wrote to it.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::CompositeTemplate;
use gtk::glib;

use crate::display::HealthWords;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "health_group.ui")]
    pub struct HealthGroup {
        #[template_child]
        pub icon: TemplateChild<gtk::Image>,
        #[template_child]
        pub condition: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub life: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub written: TemplateChild<adw::ActionRow>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for HealthGroup {
        const NAME: &'static str = "TandemHealthGroup";
        type Type = super::HealthGroup;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for HealthGroup {}
    impl WidgetImpl for HealthGroup {}
    impl BinImpl for HealthGroup {}
}

glib::wrapper! {
    /// A widget that shows [`HealthWords`].
    pub struct HealthGroup(ObjectSubclass<imp::HealthGroup>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl HealthGroup {
    /// Shows what the SSD says.
    pub fn show_health(&self, words: &HealthWords) {
        let imp = self.imp();
        imp.condition.set_subtitle(&words.condition);
        imp.icon.set_icon_name(Some(words.icon));
        let class = Some(words.class).filter(|class| !class.is_empty());
        imp.icon.set_css_classes(class.as_slice());
        imp.life.set_subtitle(&words.life);
    }

    /// Shows what the cache wrote.
    pub fn show_written(&self, words: &str) {
        self.imp().written.set_subtitle(words);
    }
}
