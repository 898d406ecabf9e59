// SPDX-License-Identifier: GPL-3.0-or-later
//! A failure on a page: what happened, what became of the data, what to do next, and the details to copy.

use std::cell::RefCell;

use adw::subclass::prelude::*;
use gtk::glib::{self, clone};
use gtk::{CompositeTemplate, prelude::*};
use tandem_api::{DataState, Failure};

use crate::a11y;
use crate::display::failure_words;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "error_view.ui")]
    pub struct ErrorView {
        #[template_child]
        pub title: TemplateChild<gtk::Label>,
        #[template_child]
        pub what: TemplateChild<gtk::Label>,
        #[template_child]
        pub fate: TemplateChild<gtk::Image>,
        #[template_child]
        pub data: TemplateChild<gtk::Label>,
        #[template_child]
        pub next: TemplateChild<gtk::Label>,
        #[template_child]
        pub expander: TemplateChild<gtk::Expander>,
        #[template_child]
        pub details: TemplateChild<gtk::Label>,
        #[template_child]
        pub copy: TemplateChild<gtk::Button>,
        pub shown: RefCell<Option<Failure>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ErrorView {
        const NAME: &'static str = "TandemErrorView";
        type Type = super::ErrorView;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ErrorView {
        fn constructed(&self) {
            self.parent_constructed();
            a11y::name_by_labels(&*self.obj());
            self.copy.connect_clicked(clone!(
                #[weak(rename_to = imp)]
                self,
                move |button| {
                    let words =
                        [imp.title.label(), imp.what.label(), imp.details.label()].join("\n");
                    button.clipboard().set_text(&words);
                }
            ));
        }
    }

    impl WidgetImpl for ErrorView {}
    impl BinImpl for ErrorView {}
}

glib::wrapper! {
    /// A widget that shows a [`Failure`].
    pub struct ErrorView(ObjectSubclass<imp::ErrorView>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl Default for ErrorView {
    fn default() -> Self {
        glib::Object::new()
    }
}

impl ErrorView {
    /// Shows this failure.
    pub fn show(&self, failure: &Failure) {
        let imp = self.imp();
        // The person may be reading the details of this failure.
        if imp.shown.replace(Some(failure.clone())).as_ref() == Some(failure) {
            return;
        }
        let words = failure_words(failure);
        imp.title.set_label(&words.title);
        imp.what.set_label(&words.what);
        imp.data.set_label(&words.data);
        let (icon, class) = match failure.data {
            DataState::Unwritten
            | DataState::Incomplete
            | DataState::Erased
            | DataState::OnDisk
            | DataState::Removed => ("dialog-warning-symbolic", "warning"),
            _ => ("security-high-symbolic", "success"),
        };
        imp.fate.set_icon_name(Some(icon));
        imp.fate.set_css_classes(&[class]);
        imp.next.set_label(&words.next);
        imp.next.set_visible(!words.next.is_empty());
        imp.details.set_label(&words.details);
        imp.expander.set_expanded(false);
    }
}
