// SPDX-License-Identifier: GPL-3.0-or-later
//! Rows for caches of which this system has no record, and for disks that may belong to a cache, and the questions that
//! their buttons ask.

use adw::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::{DiskCandidate, Failure, FoundCache};

use crate::a11y;
use crate::display::{Consent, candidate_words, found_words};
use crate::widgets::remove_dialog::{show, show_failure};

/// Action: uses a cache without a record. Its target is the object path of the SSD, as that of the next one.
pub const TAKE_OVER: &str = "win.take-over";
/// Action: gives up what a cache without a record holds.
pub const DISCARD_FOUND: &str = "win.discard-found";
/// Action: confirms the disk of a cache. Its target is the object path of the disk.
pub const CONFIRM_DISK: &str = "cache.confirm-disk";

/// A cache without a record.
pub fn found_row(found: &FoundCache) -> adw::ActionRow {
    let row = row(found_words(found));
    let (name, ssd) = (row.title(), found.ssd.object.as_str());
    if !found.disk.is_none() {
        row.add_suffix(&button(&gettext("Use…"), &name, TAKE_OVER, ssd));
    }
    row.add_suffix(&button(&gettext("Discard…"), &name, DISCARD_FOUND, ssd));
    row
}

/// A disk that may belong to a cache.
pub fn candidate_row(candidate: &DiskCandidate) -> adw::ActionRow {
    let row = row(candidate_words(candidate));
    let (name, disk) = (row.title(), candidate.device.object.as_str());
    let confirm = gettext("This Is My Disk…");
    row.add_suffix(&button(&confirm, &name, CONFIRM_DISK, disk));
    row
}

fn row([title, subtitle]: [String; 2]) -> adw::ActionRow {
    adw::ActionRow::builder()
        .use_markup(false)
        .title(title)
        .subtitle(subtitle)
        .title_lines(0)
        .subtitle_lines(0)
        .build()
}

/// `about`: the device, for people who hear the button.
pub(super) fn button(label: &str, about: &str, action: &str, object: &str) -> gtk::Button {
    let button = gtk::Button::builder()
        .label(label)
        .valign(gtk::Align::Center)
        .action_name(action)
        .action_target(&object.to_variant())
        .build();
    a11y::set_description(&button, about);
    button
}

/// Asks, and does what the person agrees to. A failure is shown.
pub fn ask<F: Future<Output = Result<(), Failure>> + 'static>(
    parent: Option<&gtk::Window>,
    consent: &Consent,
    destroys: bool,
    agreed: impl Fn() -> F + 'static,
) {
    let dialog = adw::MessageDialog::builder()
        .heading(&consent.heading)
        .body(&consent.body)
        .body_use_markup(false)
        .build();
    dialog.set_transient_for(parent);
    dialog.add_responses(&[("cancel", &gettext("_Cancel")), ("agree", &consent.agree)]);
    let appearance = match destroys {
        true => adw::ResponseAppearance::Destructive,
        false => adw::ResponseAppearance::Suggested,
    };
    dialog.set_response_appearance("agree", appearance);
    dialog.set_default_response(Some("cancel"));
    dialog.set_close_response("cancel");
    let parent = parent.cloned();
    dialog.connect_response(Some("agree"), move |_, _| {
        let (done, parent) = (agreed(), parent.clone());
        glib::spawn_future_local(async move {
            if let Err(failure) = done.await {
                show_failure(parent.as_ref(), &failure);
            }
        });
    });
    show(&dialog);
}
