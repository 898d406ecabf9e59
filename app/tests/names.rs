// SPDX-License-Identifier: GPL-3.0-or-later
//! The wizard where the start would not find the disk with a cache: the wizard shows the changes of one file after the
//! other, and makes them when the person agrees.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use stage::{hand, opened, wizard};
use tandem_app::widgets::wizard::Wizard;
use zbus::OwnedObjectPath;

#[gtk::test]
async fn the_wizard_changes_the_names_and_goes_on() {
    let opened = opened::open(20).await;
    let disk = OwnedObjectPath::try_from("/org/freedesktop/UDisks2/block_devices/sda1").unwrap();
    opened
        .levers
        .set_fstab_name(&disk, "/dev/sda1")
        .await
        .unwrap();
    opened
        .levers
        .add_start_entry(
            &disk,
            "/etc/default/grub",
            "GRUB_CMDLINE_LINUX",
            "root=/dev/sda1",
        )
        .await
        .unwrap();
    opened.window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;
    wizard::answer(&dialog, "Archive").await;

    // Without the authorisation nothing is changed, and the wizard says so.
    hand::wait(&dialog, "offer", || {
        hand::button(&dialog, "Change /etc/fstab")
    })
    .await;
    let words = hand::words(&dialog);
    assert!(words.contains("UUID=5eed"), "{words}");
    assert!(words.contains("instead of /dev/sda1"), "{words}");
    opened.levers.set_authorized(false).await.unwrap();
    hand::press(&dialog, "Change /etc/fstab").await;
    hand::press(&dialog, "Try Again").await;
    opened.levers.set_authorized(true).await.unwrap();
    hand::press(&dialog, "Change /etc/fstab").await;
    hand::wait(&dialog, "offer for GRUB", || {
        hand::button(&dialog, "Change /etc/default/grub")
    })
    .await;
    let words = hand::words(&dialog);
    assert!(words.contains("root=UUID=5eed"), "{words}");
    assert!(words.contains("instead of root=/dev/sda1"), "{words}");
    hand::press(&dialog, "Change /etc/default/grub").await;
    hand::press(&dialog, "Set Up the Cache").await;
    hand::press(&dialog, "Show Cache").await;
    hand::wait(&opened.window, "cache", || opened.window.shown_cache()).await;
}
