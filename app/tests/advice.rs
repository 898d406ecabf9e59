// SPDX-License-Identifier: GPL-3.0-or-later
//! The advisor in the window, on a simulated machine.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use gtk::glib::translate::IntoGlib;
use stage::opened::Opened;
use stage::{hand, opened, wizard};
use tandem_app::widgets::advice_dialog::AdviceDialog;
use tandem_app::widgets::curve::Curve;
use tandem_app::widgets::wizard::Wizard;

const DAY: u32 = 86_400;

#[gtk::test]
async fn a_person_has_a_disk_watched_and_gets_an_answer() {
    let opened = opened::open(20).await;
    let (window, levers) = (&opened.window, &opened.levers);
    // The service tells of new requests after 60 of these.
    levers.set_sample_period(20).await.unwrap();

    // A person who is not allowed to learns that, and nothing is watched.
    levers.set_authorized(false).await.unwrap();
    let dialog = advise(&opened, "Archive").await;
    hand::press(&dialog, "Watch This Disk").await;
    let refusal: adw::MessageDialog = hand::window(&opened.application).await;
    hand::press(&refusal, "Close").await;
    assert!(hand::button(&dialog, "Watch This Disk").is_some());
    levers.set_authorized(true).await.unwrap();

    hand::press(&dialog, "Watch This Disk").await;
    says(&dialog, "Too Early to Say").await;
    assert!(curve(&dialog).is_none(), "nothing was seen yet");
    levers.advance(DAY / 4).await.unwrap();
    says(&dialog, "18 hours more").await;
    levers.advance(2 * DAY).await.unwrap();
    says(&dialog, "An SSD Would Help").await;
    says(&dialog, "More room gains little.").await;
    // The SSDs that are there are named with what they would do.
    let row = hand::row(&dialog, "Samsung SSD 870 EVO 250GB").unwrap();
    assert!(hand::words(&row).contains('%'), "{}", hand::words(&row));
    the_curve_is_read_with_the_keys(&dialog).await;
    dialog.close();
    let archive = hand::row(window, "Archive").unwrap();
    let told = archive.subtitle().unwrap();
    assert!(told.ends_with("Watched: an SSD would help"), "{told}");

    // A disk that is not connected keeps its watch.
    levers.unplug(&block("sda1")).await.unwrap();
    let told = "Watched Disks That Are Not Connected";
    hand::wait(window, told, || {
        hand::words(window).contains(told).then_some(())
    })
    .await;
    let dialog = advise(&opened, "Archive").await;
    says(&dialog, "Nothing is counted until").await;
    assert!(hand::button(&dialog, "Speed Up…").is_none());
    // All that was on the drive comes back.
    for name in ["sda", "sda1", "sda2"] {
        levers.replug(&block(name)).await.unwrap();
    }
    hand::wait(&dialog, "disk", || hand::button(&dialog, "Speed Up…")).await;
    dialog.close();

    // From the answer to the wizard is one press.
    let dialog = advise(&opened, "Archive").await;
    hand::press(&dialog, "Speed Up…").await;
    let wizard: Wizard = hand::window(&opened.application).await;
    wizard.close();

    let dialog = advise(&opened, "Archive").await;
    hand::press(&dialog, "Stop Watching…").await;
    let question: adw::MessageDialog = hand::window(&opened.application).await;
    says_question(&question, "is forgotten").await;
    hand::agree(&question).await;
    hand::wait(&dialog, "first page", || {
        hand::button(&dialog, "Watch This Disk")
    })
    .await;
    dialog.close();

    // The wizard offers the same where the disk is chosen.
    window.set_up(None);
    let wizard: Wizard = hand::window(&opened.application).await;
    wizard::choose(&wizard, "Hard Disk", "Archive").await;
    hand::press(&wizard, "Would an SSD Help?").await;
    let dialog: AdviceDialog = hand::window(&opened.application).await;
    says(&dialog, "Find Out Before You Buy").await;
}

fn block(name: &str) -> zbus::OwnedObjectPath {
    let path = format!("/org/freedesktop/UDisks2/block_devices/{name}");
    zbus::OwnedObjectPath::try_from(path).unwrap()
}

/// Opens the window of the advisor from the row of this disk.
async fn advise(opened: &Opened, disk: &str) -> AdviceDialog {
    let window = &opened.window;
    let named = format!("Would an SSD help {disk}?");
    let button = hand::wait(window, &named, || {
        let row = hand::row(window, disk)?;
        let all = hand::shown(&row).into_iter();
        all.filter_map(|widget| widget.downcast::<gtk::Button>().ok())
            .find(|button| button.action_name().as_deref() == Some("win.advise"))
            .filter(WidgetExt::is_sensitive)
    })
    .await;
    assert!(hand::is_spoken(&button, &named));
    button.emit_clicked();
    hand::window(&opened.application).await
}

fn curve(dialog: &AdviceDialog) -> Option<Curve> {
    let all = hand::shown(dialog).into_iter();
    all.filter_map(|widget| widget.downcast().ok()).next()
}

async fn the_curve_is_read_with_the_keys(dialog: &AdviceDialog) {
    let curve = curve(dialog).unwrap();
    assert_eq!(curve.selected_words(), None);
    says(dialog, "The band shows the possible error").await;
    for (name, start) in [("Right", "536.9\u{a0}MB: "), ("Right", "1.1\u{a0}GB: ")] {
        press_key(&curve, name);
        let words = curve.selected_words().unwrap();
        assert!(words.starts_with(start), "{words}");
        assert!(hand::is_spoken(&curve, &words));
        says(dialog, &words).await;
    }
    press_key(&curve, "Escape");
    assert_eq!(curve.selected_words(), None);
}

/// Presses a key as the keyboard does, for the controllers of this widget.
fn press_key(widget: &Curve, name: &str) {
    let key = gtk::gdk::Key::from_name(name).unwrap().into_glib();
    let controllers = widget.observe_controllers();
    let keys = (0..controllers.n_items())
        .filter_map(|at| {
            controllers
                .item(at)
                .and_downcast::<gtk::EventControllerKey>()
        })
        .next()
        .unwrap();
    let code = 0_u32;
    let none = gtk::gdk::ModifierType::empty();
    let _: bool = keys.emit_by_name("key-pressed", &[&key, &code, &none]);
}

async fn says(dialog: &AdviceDialog, words: &str) {
    hand::wait(dialog, words, || {
        hand::words(dialog).contains(words).then_some(())
    })
    .await;
}

async fn says_question(dialog: &adw::MessageDialog, words: &str) {
    hand::wait(dialog, words, || {
        hand::words(dialog).contains(words).then_some(())
    })
    .await;
}
