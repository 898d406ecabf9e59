// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks for the password that the firmware asks for after the restart, twice.

use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};

use crate::display::{enrollment_steps, password_answer};
use crate::widgets::task_list::show_tasks;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "enroll_form.ui")]
    pub struct EnrollForm {
        #[template_child]
        pub steps: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub first: TemplateChild<adw::PasswordEntryRow>,
        #[template_child]
        pub second: TemplateChild<adw::PasswordEntryRow>,
        #[template_child]
        pub wrong: TemplateChild<gtk::Label>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for EnrollForm {
        const NAME: &'static str = "TandemEnrollForm";
        type Type = super::EnrollForm;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for EnrollForm {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| vec![Signal::builder("typed").build()])
        }

        fn constructed(&self) {
            self.parent_constructed();
            show_tasks(&self.steps, &enrollment_steps());
            self.wrong.set_visible(false);
            for entry in [&self.first, &self.second] {
                entry.connect_changed(clone!(
                    #[weak(rename_to = form)]
                    self.obj(),
                    move |_| form.typed()
                ));
            }
        }
    }

    impl WidgetImpl for EnrollForm {}
    impl BinImpl for EnrollForm {}
}

glib::wrapper! {
    /// Two entries for a password; emits `typed`.
    pub struct EnrollForm(ObjectSubclass<imp::EnrollForm>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl EnrollForm {
    fn answer(&self) -> (bool, String) {
        let imp = self.imp();
        password_answer(&imp.first.text(), &imp.second.text())
    }

    fn typed(&self) {
        let imp = self.imp();
        let (_, wrong) = self.answer();
        imp.wrong.set_visible(!wrong.is_empty());
        imp.wrong.set_label(&wrong);
        self.emit_by_name::<()>("typed", &[]);
    }

    /// The password, if both entries have the same one and the blue screen can take it.
    #[must_use]
    pub fn password(&self) -> Option<String> {
        let (good, _) = self.answer();
        good.then(|| self.imp().first.text().to_string())
    }

    /// Empties both entries.
    pub fn clear(&self) {
        self.imp().first.set_text("");
        self.imp().second.set_text("");
    }

    /// Puts the focus into the first entry.
    pub fn begin(&self) {
        self.imp().first.grab_focus();
    }

    /// Calls `then` after each change of an entry.
    pub fn connect_typed(&self, then: impl Fn() + 'static) {
        self.connect_closure("typed", false, glib::closure_local!(move |_: &Self| then()));
    }
}
