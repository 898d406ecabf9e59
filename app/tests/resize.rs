// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache gets a share of an SSD, and later another share, by pressing what is on the screen.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use stage::opened::Opened;
use stage::{hand, opened, wizard};
use tandem_api::{CacheState, StepKind};
use tandem_app::widgets::size_row::SizeRow;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

const GB: u64 = 1_000_000_000;
const SHARED: &str = "Free space on Samsung SSD 970 EVO 500GB";

#[gtk::test]
async fn a_share_is_chosen_and_changed_later() {
    let opened = opened::open(20).await;
    sizes_are_offered_with_their_reasons(&opened).await;
    a_share_is_set_up(&opened).await;
    another_share_is_shown_before_it_is_made(&opened).await;
    what_fails_is_told_with_what_is_left(&opened).await;
}

fn size_row(root: &impl IsA<gtk::Widget>) -> Option<SizeRow> {
    let mut all = hand::shown(root).into_iter();
    all.find_map(|widget| widget.downcast::<SizeRow>().ok())
}

async fn says(root: &impl IsA<gtk::Widget>, sentence: &str) {
    hand::wait(root, sentence, || {
        let words = hand::words(root).replace('\u{a0}', " ");
        words.contains(sentence).then_some(())
    })
    .await;
}

async fn sizes_are_offered_with_their_reasons(opened: &Opened) {
    opened.window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;
    wizard::choose(&dialog, "Hard Disk", "Archive").await;
    // A whole SSD is used as a whole, unless less is chosen; then the bar shows what stays free.
    wizard::is_chosen(&dialog, "SSD", wizard::EMPTY).await;
    says(&dialog, "All of the SSD is used unless you choose less.").await;
    assert!(!hand::words(&dialog).contains("New cache"));
    let row = hand::wait(&dialog, "sizes", || size_row(&dialog)).await;
    row.choose(100 * GB);
    says(&dialog, "New cache\n100.0 GB").await;
    says(&dialog, "Free\n150.0 GB").await;
    row.choose(u64::MAX);
    assert!(!hand::words(&dialog).contains("New cache"));
    // In free space beside other partitions, the size of the disk says what is offered first.
    wizard::choose(&dialog, "SSD", SHARED).await;
    says(
        &dialog,
        "All of the free space is used unless you choose less.",
    )
    .await;
    says(&dialog, "New cache\n182.5 GB").await;
    row.choose(50 * GB);
    says(&dialog, "New cache\n50.0 GB").await;
    // A size is of one SSD.
    wizard::choose(&dialog, "SSD", wizard::EMPTY).await;
    wizard::choose(&dialog, "SSD", SHARED).await;
    says(&dialog, "New cache\n182.5 GB").await;
    row.choose(50 * GB);
}

async fn a_share_is_set_up(opened: &Opened) {
    let dialog: Wizard = hand::window(&opened.application).await;
    hand::press(&dialog, "Review").await;
    says(&dialog, "New cache\n50.0 GB").await;
    hand::press(&dialog, "Set Up the Cache").await;
    hand::press(&dialog, "Show Cache").await;
    let share = hand::wait(&opened.window, "cache page", || share(&opened.window)).await;
    assert!(share > 49 * GB && share <= 50 * GB, "{share}");
}

/// Bytes of the share of the cache that is shown.
fn share(window: &Window) -> Option<u64> {
    let facts = window.shown_cache()?.facts();
    (facts.state == CacheState::Active && facts.job.is_none()).then_some(facts.ssd.size)
}

/// Asks for another size, and goes on to the question.
async fn ask_for(opened: &Opened, bytes: u64) -> adw::MessageDialog {
    hand::wait(&opened.window, "the action", || {
        let page = hand::shown(&opened.window)
            .into_iter()
            .find(|widget| widget.activate_action("cache.change-size", None).is_ok());
        page.map(drop)
    })
    .await;
    let dialog = hand::wait(&opened.window, "sizes", || {
        let mut windows = gtk::Window::list_toplevels().into_iter();
        windows.find(|window| size_row(window).is_some())
    })
    .await;
    let go_on = hand::button(&dialog, "Continue").unwrap();
    assert!(!go_on.is_sensitive(), "nothing is changed yet");
    says(&dialog, "Nothing on the hard disk changes").await;
    let row = size_row(&dialog).unwrap();
    row.choose(bytes);
    says(&dialog, "Cache of Archive\n").await;
    hand::press(&dialog, "Continue").await;
    hand::window(&opened.application).await
}

async fn another_share_is_shown_before_it_is_made(opened: &Opened) {
    let window = &opened.window;
    // The window follows a job that it sees before the end.
    opened.levers.set_step_time(150).await.unwrap();
    for bytes in [120 * GB, 20 * GB] {
        let before = share(window).unwrap();
        let question = ask_for(opened, bytes).await;
        let kept = ["42", "17"][usize::from(bytes < before)];
        says(&question, &format!("It keeps about {kept}")).await;
        let after = format!("to {}.0 GB.", bytes / GB);
        says(&question, &after).await;
        hand::press(&question, "Change Size").await;
        let now = hand::wait(window, "the new size", || {
            share(window).filter(|now| *now != before)
        })
        .await;
        assert!(now.abs_diff(bytes) < 2 << 20, "{now} in place of {bytes}");
        says(window, "the cache has its new size").await;
    }
}

async fn what_fails_is_told_with_what_is_left(opened: &Opened) {
    let levers = &opened.levers;
    let question = ask_for(opened, 30 * GB).await;
    levers.fail_next(StepKind::ResizeCache).await.unwrap();
    hand::press(&question, "Change Size").await;
    let failure = hand::wait(&opened.window, "failure", || {
        let windows = gtk::Window::list_toplevels().into_iter();
        windows
            .filter_map(|window| window.downcast::<adw::MessageDialog>().ok())
            .find(|dialog| dialog.is_mapped() && hand::words(dialog).contains("Could Not Change"))
    })
    .await;
    says(&failure, "Nothing was changed.").await;
    hand::press(&failure, "Close").await;
}
