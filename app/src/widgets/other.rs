// SPDX-License-Identifier: GPL-3.0-or-later
//! Rows for caches that other systems have made.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::gio;
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
    /// Whether the row of `self` can show `other`, because the button stays.
    #[must_use]
    pub fn keeps_row(&self, other: &Self) -> bool {
        let of = |shown: &Self| {
            let job = shown.job.as_ref();
            let job = job.map(|job| (job.path.clone(), job.cancellable));
            let cache = &shown.cache;
            let unwritten = cache.kind.can_be_removed() && cache.may_be_unwritten();
            let menu = (unwritten, cache.is_left_alone());
            (cache.kind, cache.id.clone(), menu, job)
        };
        of(self) == of(other)
    }
}

/// A cache of another system, which shows its last hour when it is activated. Those that the service can change have a menu, or a
/// button that cancels their job.
pub fn other_row(shown: &OtherShown) -> adw::ActionRow {
    let row = adw::ActionRow::builder()
        .use_markup(false)
        .title_lines(0)
        .subtitle_lines(0)
        .activatable(true)
        .build();
    row.set_action_target_value(Some(&shown.cache.id.to_variant()));
    row.set_action_name(Some(SHOW_OTHER));
    set_other(&row, shown);
    let name = row.title();
    match &shown.job {
        Some(job) => {
            let cancel = button(&gettext("Cancel"), &name, CANCEL_OTHER, &job.path);
            cancel.set_visible(job.cancellable);
            row.add_suffix(&cancel);
        }
        None if shown.cache.kind.can_be_removed() => row.add_suffix(&menu(&shown.cache, &name)),
        None => {}
    }
    let more = gtk::Image::builder()
        .icon_name("go-next-symbolic")
        .accessible_role(gtk::AccessibleRole::Presentation)
        .build();
    row.add_suffix(&more);
    row
}

/// The menu of what can be done with a cache. Buttons with words would leave the title no room in a narrow window.
fn menu(cache: &OtherCache, about: &str) -> gtk::MenuButton {
    let menu = gio::Menu::new();
    let add = |label: &str, action: &str| {
        let item = gio::MenuItem::new(Some(label), None);
        item.set_action_and_target_value(Some(action), Some(&cache.id.to_variant()));
        menu.append_item(&item);
    };
    let unwritten = cache.may_be_unwritten();
    if unwritten && cache.kind.can_write_back() {
        add(
            &gettext("Write Everything to the Hard Disk Now"),
            WRITE_BACK_OTHER,
        );
    }
    let remove = match unwritten {
        true => gettext("Write Back and Remove…"),
        false if cache.is_left_alone() => gettext("Make a Plain Partition…"),
        false => gettext("Remove…"),
    };
    add(&remove, REMOVE_OTHER);
    let words = gettext("Cache Menu");
    let button = gtk::MenuButton::builder()
        .icon_name("view-more-symbolic")
        .menu_model(&menu)
        .tooltip_text(&words)
        .valign(gtk::Align::Center)
        .css_classes(["flat"])
        .build();
    a11y::set_label(&button, &words);
    a11y::set_description(&button, about);
    button
}

/// Shows the figures of a cache in its row.
pub fn set_other(row: &adw::ActionRow, shown: &OtherShown) {
    let [title, mut subtitle] = other_words(&shown.cache);
    if let Some(job) = &shown.job {
        let progress = progress_words(job.progress, job.rate, job.seconds_left);
        let line = [job_title(job.kind, job.undoing), progress].join(SEPARATOR);
        subtitle = format!("{line}\n{subtitle}");
    }
    row.set_title(&title);
    row.set_subtitle(&subtitle);
}
