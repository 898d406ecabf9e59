// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks what the SSD should keep.

use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};
use tandem_api::Mode;

use crate::display::{fill, mode_description, mode_name, recommended};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "mode_page.ui")]
    pub struct ModePage {
        #[template_child]
        pub writethrough_row: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub writethrough: TemplateChild<gtk::CheckButton>,
        #[template_child]
        pub writearound_row: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub writearound: TemplateChild<gtk::CheckButton>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ModePage {
        const NAME: &'static str = "TandemModePage";
        type Type = super::ModePage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ModePage {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| vec![Signal::builder("chosen").build()])
        }

        fn constructed(&self) {
            self.parent_constructed();
            let rows = [
                (
                    Mode::Writethrough,
                    &self.writethrough_row,
                    &self.writethrough,
                ),
                (Mode::Writearound, &self.writearound_row, &self.writearound),
            ];
            for (mode, row, button) in rows {
                let name = mode_name(mode);
                if mode == recommended() {
                    row.set_title(&fill(&gettext("{mode} (recommended)"), &[("mode", &name)]));
                } else {
                    row.set_title(&name);
                }
                row.set_subtitle(&mode_description(mode));
                button.connect_toggled(clone!(
                    #[weak(rename_to = page)]
                    self.obj(),
                    move |button| if button.is_active() {
                        page.emit_by_name::<()>("chosen", &[]);
                    }
                ));
            }
        }
    }

    impl WidgetImpl for ModePage {}
    impl BinImpl for ModePage {}
}

glib::wrapper! {
    /// The two modes, the recommended one first.
    pub struct ModePage(ObjectSubclass<imp::ModePage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl ModePage {
    /// The mode that is marked.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.imp().writearound.is_active() {
            Mode::Writearound
        } else {
            Mode::Writethrough
        }
    }

    /// Calls `then` with the mode that is chosen.
    pub fn connect_chosen(&self, then: impl Fn(Mode) + 'static) {
        self.connect_closure(
            "chosen",
            false,
            glib::closure_local!(move |page: &Self| then(page.mode())),
        );
    }
}
