// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks the person to promise that there is a backup.

use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};

use crate::display::fill;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "backup_page.ui")]
    pub struct BackupPage {
        #[template_child]
        pub row: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub check: TemplateChild<gtk::CheckButton>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for BackupPage {
        const NAME: &'static str = "TandemBackupPage";
        type Type = super::BackupPage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for BackupPage {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| {
                vec![
                    Signal::builder("promised")
                        .param_types([bool::static_type()])
                        .build(),
                ]
            })
        }

        fn constructed(&self) {
            self.parent_constructed();
            self.check.connect_toggled(clone!(
                #[weak(rename_to = page)]
                self.obj(),
                move |check| page.emit_by_name::<()>("promised", &[&check.is_active()])
            ));
        }
    }

    impl WidgetImpl for BackupPage {}
    impl BinImpl for BackupPage {}
}

glib::wrapper! {
    /// "I have a backup", to be checked.
    pub struct BackupPage(ObjectSubclass<imp::BackupPage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl BackupPage {
    /// Asks about the disk of this name.
    pub fn ask(&self, disk: &str, promised: bool) {
        let words = gettext("My files on {disk} are backed up elsewhere");
        self.imp()
            .row
            .set_subtitle(&gtk::glib::markup_escape_text(&fill(
                &words,
                &[("disk", disk)],
            )));
        self.imp().check.set_active(promised);
    }

    /// Calls `then` when the promise is given or taken back.
    pub fn connect_promised(&self, then: impl Fn(bool) + 'static) {
        self.connect_closure(
            "promised",
            false,
            glib::closure_local!(move |_: &Self, promised: bool| then(promised)),
        );
    }
}
