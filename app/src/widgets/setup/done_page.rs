// SPDX-License-Identifier: GPL-3.0-or-later
//! Says that the cache is set up, and what happens next.

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib;

use tandem_api::PlanReply;

use crate::display::{fill, plan_title, short_name};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "done_page.ui")]
    pub struct DonePage {
        #[template_child]
        pub title: TemplateChild<gtk::Label>,
        #[template_child]
        pub after: TemplateChild<gtk::Label>,
        #[template_child]
        pub pair: TemplateChild<gtk::Label>,
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
    /// Shows the words for this executed plan.
    pub fn show(&self, plan: &PlanReply) {
        let (title, words, after) = if plan.at_next_start {
            (
                gettext("Restart to Begin"),
                gettext("{ssd} will speed up {disk} after the next start of the computer."),
                gettext(
                    "Until then nothing changes on the hard disk, and you can cancel on the page of the cache.",
                ),
            )
        } else {
            (
                gettext("The Cache Is Ready"),
                gettext("{ssd} is now speeding up {disk}."),
                gettext(
                    "Use your files as always. The SSD fills as you go: the first time is as slow as before, the second is fast.\n\nThe cache starts automatically with your computer.",
                ),
            )
        };
        self.imp().title.set_label(&title);
        self.imp().after.set_label(&after);
        self.imp().pair.set_label(&fill(
            &words,
            &[
                ("ssd", &short_name(&plan.ssd)),
                ("disk", &plan_title(&plan.origin)),
            ],
        ));
    }
}
