// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks for a name of a cache.

use adw::prelude::*;
use gettextrs::{gettext, ngettext};
use gtk::glib::{self, clone};
use tandem_api::{MAX_NAME_CHARS, checked_name};

use crate::a11y;
use crate::client::Client;
use crate::display::{fill, plain_name};
use crate::model::facts::CacheFacts;
use crate::widgets::choice_window::ChoiceWindow;
use crate::widgets::remove_dialog::show_failure;

/// Height of the window: the question, the entry and the words below it.
const HEIGHT: i32 = 320;

/// Shows the name, and has the service set another one if the person types it. The cache page shows the new name when
/// the service reports it.
pub fn ask_for_name(parent: Option<&gtk::Window>, client: &Client, cache: &CacheFacts) {
    let ChoiceWindow {
        window,
        content,
        go_on: rename,
        ..
    } = ChoiceWindow::new(parent, &gettext("Rename the Cache"), &gettext("Re_name"));
    window.set_default_height(HEIGHT);
    rename.add_css_class("suggested-action");
    let entry = adw::EntryRow::builder()
        .title(gettext("Name"))
        .text(&cache.chosen_name)
        .activates_default(true)
        .build();
    let list = gtk::ListBox::builder()
        .selection_mode(gtk::SelectionMode::None)
        .css_classes(["boxed-list"])
        .build();
    list.append(&entry);
    let words = gtk::Label::builder().wrap(true).xalign(0.0).build();
    content.append(&list);
    content.append(&words);
    window.set_default_widget(Some(&rename));
    let (before, own) = (cache.chosen_name.clone(), plain_name(&cache.origin));
    let check = clone!(
        #[weak]
        rename,
        #[weak]
        words,
        move |entry: &adw::EntryRow| {
            let text = entry.text();
            let name = checked_name(&text);
            words.set_label(&name.map_or_else(refusal, |_| without_a_name(&own)));
            rename.set_sensitive(name.is_some_and(|name| name != before));
        }
    );
    check(&entry);
    entry.connect_changed(check);
    let (client, path) = (client.clone(), cache.path.clone());
    let parent = parent.cloned();
    rename.connect_clicked(clone!(
        #[weak]
        window,
        #[weak]
        entry,
        move |_| {
            window.close();
            let (client, path, parent) = (client.clone(), path.clone(), parent.clone());
            let name = entry.text();
            glib::spawn_future_local(async move {
                if let Err(failure) = client.set_name(&path, &name).await {
                    show_failure(parent.as_ref(), &failure);
                }
            });
        }
    ));
    a11y::name_by_labels(&window);
    window.present();
    entry.grab_focus();
}

fn without_a_name(own: &str) -> String {
    // Translators: {disk} is the label or the model of a disk
    let words = gettext("If you leave the name empty, the cache is called “{disk}” like its disk.");
    fill(&words, &[("disk", own)])
}

fn refusal() -> String {
    let most = u32::try_from(MAX_NAME_CHARS).unwrap_or(u32::MAX);
    let words = ngettext(
        "A name has at most {count} character, on one line.",
        "A name has at most {count} characters, all on one line.",
        most,
    );
    fill(&words, &[("count", &most.to_string())])
}
