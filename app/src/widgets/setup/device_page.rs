// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks for a device: the disk, or the SSD.

use std::cell::RefCell;

use adw::subclass::prelude::*;
use gtk::CompositeTemplate;
use gtk::glib::{self, Properties};
use gtk::prelude::*;

use crate::widgets::choice_list::ChoiceList;
use crate::widgets::size_row::SizeRow;
use crate::widgets::ssd_bar::SsdBar;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate, Properties)]
    #[template(file = "device_page.ui")]
    #[properties(wrapper_type = super::DevicePage)]
    pub struct DevicePage {
        /// The question.
        #[property(get, set)]
        title: RefCell<String>,
        /// The consequence of the answer.
        #[property(get, set)]
        description: RefCell<String>,
        #[template_child]
        pub list: TemplateChild<ChoiceList>,
        #[template_child]
        pub size: TemplateChild<SizeRow>,
        #[template_child]
        pub bar: TemplateChild<SsdBar>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for DevicePage {
        const NAME: &'static str = "TandemDevicePage";
        type Type = super::DevicePage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            ChoiceList::ensure_type();
            SizeRow::ensure_type();
            SsdBar::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    #[glib::derived_properties]
    impl ObjectImpl for DevicePage {}
    impl WidgetImpl for DevicePage {}
    impl BinImpl for DevicePage {}
}

glib::wrapper! {
    /// A question with a list of devices under it.
    pub struct DevicePage(ObjectSubclass<imp::DevicePage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl DevicePage {
    /// The list of devices, which emits the chosen one.
    #[must_use]
    pub fn list(&self) -> ChoiceList {
        self.imp().list.get()
    }

    /// The row under the list, for the size of the cache; hidden at first.
    #[must_use]
    pub fn size(&self) -> SizeRow {
        self.imp().size.get()
    }

    /// The bar under the list, for the shares of the chosen SSD.
    #[must_use]
    pub fn bar(&self) -> SsdBar {
        self.imp().bar.get()
    }
}
