// SPDX-License-Identifier: GPL-3.0-or-later
//! The wizard when a job cannot be cancelled: the page says that the setup goes on and what to do, and the setup comes
//! to its end. The bus of this machine refuses the call.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use stage::{hand, opened, wizard};
use tandem_app::widgets::wizard::Wizard;

#[gtk::test]
async fn a_setup_that_cannot_be_canceled_goes_on_and_says_so() {
    let bus = "app/tests/stage/no-cancel-bus.conf";
    let opened = opened::open_on(bus, 20).await;
    opened.window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;
    wizard::answer(&dialog, "Archive").await;
    // The first step lasts until the step time is set again.
    opened.levers.set_step_time(3_600_000).await.unwrap();
    hand::press(&dialog, "Set Up the Cache").await;
    let told = "The setup could not be canceled, and goes on.";
    for _ in 0..2 {
        hand::press(&dialog, "Cancel").await;
        hand::wait(&dialog, "failure", || {
            hand::words(&dialog).contains(told).then_some(())
        })
        .await;
        // The person can cancel again.
        let cancel = hand::button(&dialog, "Cancel").unwrap();
        assert!(cancel.is_sensitive());
    }
    assert!(hand::words(&dialog).contains("then remove the cache"));
    opened.levers.set_step_time(20).await.unwrap();
    hand::press(&dialog, "Show Cache").await;
    hand::wait(&opened.window, "cache", || opened.window.shown_cache()).await;
}
