// SPDX-License-Identifier: GPL-3.0-or-later
//! Rows for caches that other systems have made.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::{gio, glib};
use tandem_api::OtherCache;

use crate::a11y;
use crate::display::{SEPARATOR, job_title, other_words, progress_words};
use crate::model::facts::JobFacts;
use crate::widgets::found::button;

/// Action: asks whether a cache of another system is to be removed. Its target is the id of the cache.
pub const REMOVE_OTHER: &str = "win.remove-other";
/// Action: shows the last hour of such a cache. Its target is the id of the cache.
pub const SHOW_OTHER: &str = "win.show-other";
/// Action: has such a cache write everything back. Its target is the id of the cache.
pub const WRITE_BACK_OTHER: &str = "win.write-back-other";
/// Action: cancels the job of such a cache. Its target is the object path of the job.
pub const CANCEL_OTHER: &str = "win.cancel-other";

/// A cache of another system, with the job that removes it.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherShown {
    /// The cache.
    pub cache: OtherCache,
    /// The row's job, while the job runs.
    pub job: Option<JobFacts>,
}

impl OtherShown {
    /// Whether the row of `self` can show `other`: the cache and the button are the same.
    #[must_use]
    pub fn keeps_row(&self, other: &Self) -> bool {
        let of = |shown: &Self| {
            let job = shown.job.as_ref();
            let job = job.map(|job| (job.path.clone(), job.cancellable));
            (shown.cache.kind, shown.cache.id.clone(), job)
        };
        of(self) == of(other)
    }
}

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct OtherRow {
        pub menu: gio::Menu,
        /// The labels and actions in the menu.
        pub entries: RefCell<Vec<(String, &'static str)>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for OtherRow {
        const NAME: &'static str = "TandemOtherRow";
        type Type = super::OtherRow;
        type ParentType = adw::ActionRow;
    }

    impl ObjectImpl for OtherRow {}
    impl WidgetImpl for OtherRow {}
    impl ListBoxRowImpl for OtherRow {}
    impl PreferencesRowImpl for OtherRow {}
    impl ActionRowImpl for OtherRow {}
}

glib::wrapper! {
    /// A cache of another system, which shows its last hour when it is activated. Those that the service can change have a menu, or
    /// a button that cancels their job.
    pub struct OtherRow(ObjectSubclass<imp::OtherRow>)
        @extends adw::ActionRow, adw::PreferencesRow, gtk::ListBoxRow, gtk::Widget,
        @implements gtk::Actionable, gtk::Buildable, gtk::ConstraintTarget;
}

impl OtherRow {
    /// A row that shows this cache.
    pub fn new(shown: &OtherShown) -> Self {
        let row: Self = glib::Object::builder()
            .property("use-markup", false)
            .property("title-lines", 0)
            .property("subtitle-lines", 0)
            .property("activatable", true)
            .build();
        row.set_action_target_value(Some(&shown.cache.id.to_variant()));
        row.set_action_name(Some(SHOW_OTHER));
        row.refresh(shown);
        let name = row.title();
        match &shown.job {
            Some(job) => {
                let cancel = button(&gettext("Cancel"), &name, CANCEL_OTHER, &job.path);
                cancel.set_visible(job.cancellable);
                row.add_suffix(&cancel);
            }
            None if shown.cache.kind.can_be_removed() => row.add_suffix(&row.menu_button(&name)),
            None => {}
        }
        let more = gtk::Image::builder()
            .icon_name("go-next-symbolic")
            .accessible_role(gtk::AccessibleRole::Presentation)
            .build();
        row.add_suffix(&more);
        row
    }

    /// Shows the figures of the same cache. An open menu stays open, because the row keeps its button.
    pub fn refresh(&self, shown: &OtherShown) {
        let [title, mut subtitle] = other_words(&shown.cache);
        if let Some(job) = &shown.job {
            let progress = progress_words(job.progress, job.rate, job.seconds_left);
            let line = [job_title(job.kind, job.undoing), progress].join(SEPARATOR);
            subtitle = format!("{line}\n{subtitle}");
        }
        self.set_title(&title);
        self.set_subtitle(&subtitle);

        let imp = self.imp();
        let entries = entries(&shown.cache);
        if *imp.entries.borrow() == entries {
            return;
        }
        imp.menu.remove_all();
        for (label, action) in &entries {
            let item = gio::MenuItem::new(Some(label), None);
            item.set_action_and_target_value(Some(action), Some(&shown.cache.id.to_variant()));
            imp.menu.append_item(&item);
        }
        imp.entries.replace(entries);
        a11y::name_entries_in(self.upcast_ref());
    }

    /// The button of the menu. Buttons with words would leave the title no room in a narrow window.
    fn menu_button(&self, about: &str) -> gtk::MenuButton {
        let words = gettext("Cache Menu");
        let button = gtk::MenuButton::builder()
            .icon_name("view-more-symbolic")
            .menu_model(&self.imp().menu)
            .tooltip_text(&words)
            .valign(gtk::Align::Center)
            .css_classes(["flat"])
            .build();
        a11y::set_label(&button, &words);
        a11y::set_description(&button, about);
        a11y::name_entries(&button);
        button
    }
}

/// The entries of a cache's menu, each with its label and its action.
fn entries(cache: &OtherCache) -> Vec<(String, &'static str)> {
    let unwritten = cache.may_be_unwritten();
    let mut entries = Vec::new();
    if unwritten && cache.kind.can_write_back() {
        let words = gettext("Write Everything to the Hard Disk Now");
        entries.push((words, WRITE_BACK_OTHER));
    }
    let remove = match unwritten {
        true => gettext("Write Back and Remove…"),
        false if cache.is_left_alone() => gettext("Make a Plain Partition…"),
        false => gettext("Remove…"),
    };
    entries.push((remove, REMOVE_OTHER));
    entries
}
