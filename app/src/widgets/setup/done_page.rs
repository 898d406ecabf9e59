// SPDX-License-Identifier: GPL-3.0-or-later
//! Says that the cache is set up, and what it changes in daily life.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib;

use tandem_api::{PlanReply, Target};

use crate::display::{daily_words, fill, plan_title, short_name};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "done_page.ui")]
    pub struct DonePage {
        #[template_child]
        pub title: TemplateChild<gtk::Label>,
        #[template_child]
        pub pair: TemplateChild<gtk::Label>,
        #[template_child]
        pub daily: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub test: TemplateChild<gtk::Button>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for DonePage {
        const NAME: &'static str = "TandemDonePage";
        type Type = super::DonePage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for DonePage {}
    impl WidgetImpl for DonePage {}
    impl BinImpl for DonePage {}
}

glib::wrapper! {
    /// The end of the wizard.
    pub struct DonePage(ObjectSubclass<imp::DonePage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl DonePage {
    /// Shows the words for this executed plan. `target`: what serves the cache.
    pub fn show(&self, plan: &PlanReply, target: Target) {
        let imp = self.imp();
        let (title, words) = if plan.at_next_start {
            (
                gettext("Restart to Begin"),
                gettext("{ssd} will speed up {disk} after the next start of the computer."),
            )
        } else {
            (
                gettext("The Cache Is Ready"),
                gettext("{ssd} is now speeding up {disk}."),
            )
        };
        imp.title.set_label(&title);
        while let Some(row) = imp.daily.first_child() {
            imp.daily.remove(&row);
        }
        for [title, subtitle] in daily_words(plan, target) {
            let row = adw::ActionRow::builder()
                .use_markup(false)
                .title(title)
                .subtitle(subtitle)
                .title_lines(0)
                .subtitle_lines(0)
                .build();
            imp.daily.append(&row);
        }
        imp.pair.set_label(&fill(
            &words,
            &[
                ("ssd", &short_name(&plan.ssd)),
                ("disk", &plan_title(&plan.origin)),
            ],
        ));
    }

    /// Shows or hides the button of the speed test.
    pub fn offer_speed_test(&self, offered: bool) {
        self.imp().test.set_visible(offered);
    }
}
