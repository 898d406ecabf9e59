// SPDX-License-Identifier: GPL-3.0-or-later
//! One way that data took, with its share of all data.

use std::cell::RefCell;

use gtk::glib::{self, subclass::InitializingObject};
use gtk::subclass::prelude::*;
use gtk::{CompositeTemplate, prelude::*};

use crate::a11y;
use crate::display::{Share, bytes, percent};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "share_row.ui")]
    pub struct ShareRow {
        #[template_child]
        pub title: TemplateChild<gtk::Label>,
        #[template_child]
        pub subtitle: TemplateChild<gtk::Label>,
        #[template_child]
        pub amount: TemplateChild<gtk::Label>,
        #[template_child]
        pub share: TemplateChild<gtk::Label>,
        #[template_child]
        pub bar: TemplateChild<gtk::ProgressBar>,
        pub key: RefCell<String>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ShareRow {
        const NAME: &'static str = "TandemShareRow";
        type Type = super::ShareRow;
        type ParentType = gtk::ListBoxRow;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ShareRow {}
    impl WidgetImpl for ShareRow {}
    impl ListBoxRowImpl for ShareRow {}
}

glib::wrapper! {
    /// A widget that shows a [`Share`].
    pub struct ShareRow(ObjectSubclass<imp::ShareRow>)
        @extends gtk::ListBoxRow, gtk::Widget,
        @implements gtk::Actionable, gtk::Buildable, gtk::ConstraintTarget;
}

impl ShareRow {
    fn new(share: &Share) -> Self {
        let row: Self = glib::Object::new();
        row.imp().key.replace(share.key.clone());
        row.imp().bar.add_css_class(match share.key.as_str() {
            "hit" | "back" => "from-ssd",
            "missed" => "from-disk",
            _ => "past-cache",
        });
        row
    }

    fn update(&self, share: &Share) {
        let imp = self.imp();
        imp.title.set_label(&share.title);
        imp.subtitle.set_label(&share.subtitle);
        imp.subtitle.set_visible(!share.subtitle.is_empty());
        imp.amount.set_label(&bytes(share.bytes));
        imp.share.set_label(&percent(share.share));
        imp.bar.set_fraction(share.share);
        let amount = format!("{}, {}", bytes(share.bytes), percent(share.share));
        a11y::set_label(self, &format!("{}: {amount}", share.title));
        a11y::set_description(self, &share.subtitle);
    }
}

/// Makes `list` show these shares; rows that stay are kept.
pub fn show_shares(list: &gtk::ListBox, shares: &[Share]) {
    let mut rows: Vec<ShareRow> = Vec::new();
    let mut child = list.first_child();
    while let Some(widget) = child {
        child = widget.next_sibling();
        rows.extend(widget.downcast::<ShareRow>());
    }
    let same = rows.len() == shares.len()
        && rows
            .iter()
            .zip(shares)
            .all(|(row, share)| *row.imp().key.borrow() == share.key);
    if !same {
        for row in rows.drain(..) {
            list.remove(&row);
        }
        rows.extend(shares.iter().map(ShareRow::new));
        for row in &rows {
            list.append(row);
        }
    }
    for (row, share) in rows.iter().zip(shares) {
        row.update(share);
    }
}
