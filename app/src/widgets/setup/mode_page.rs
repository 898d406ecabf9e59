// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks for the mode.

use adw::subclass::prelude::*;
use gtk::CompositeTemplate;
use gtk::glib;
use gtk::prelude::*;

use crate::widgets::mode_list::ModeList;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "mode_page.ui")]
    pub struct ModePage {
        #[template_child]
        pub list: TemplateChild<ModeList>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ModePage {
        const NAME: &'static str = "TandemModePage";
        type Type = super::ModePage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            ModeList::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ModePage {}
    impl WidgetImpl for ModePage {}
    impl BinImpl for ModePage {}
}

glib::wrapper! {
    /// A question with the modes under it.
    pub struct ModePage(ObjectSubclass<imp::ModePage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl ModePage {
    /// The list of modes, which emits the chosen one.
    #[must_use]
    pub fn list(&self) -> ModeList {
        self.imp().list.get()
    }
}
