// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache in write-back on a simulated machine: the mode is chosen with its warnings, the cache is flushed with a
//! pause, the mode is changed, and the cache is removed with its data, by pressing what is on the screen.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use adw::prelude::*;
use gtk::glib;
use stage::{hand, opened, wizard};
use tandem_api::{CacheState, DirtyLimit, Mode, SimulationProxy};
use tandem_app::display::{bytes, mode_name};
use tandem_app::model::series::Series;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

const FLUSH: &str = "Write Everything to the Hard Disk Now";
const RISK: &str =
    ", and the file system may be damaged. Safe to move the disk: no, turn off Fast Saving first";
const ELSEWHERE: &str = "Do not open this disk in Windows, a live system or another computer";

#[gtk::test]
async fn what_is_not_yet_on_the_disk_is_told_written_and_given_up() {
    let opened = opened::open(20).await;
    let (application, window, levers) = (&opened.application, &opened.window, &opened.levers);

    write_back_is_chosen_with_its_warnings(application, window).await;
    what_waits_is_told(window, levers).await;
    a_shutdown_writes_everything_if_the_person_wants_that(application, window, levers).await;
    how_much_may_wait_is_chosen(application, window, levers).await;
    the_question_before_the_removal_names_its_time(application, window).await;
    a_flush_can_be_paused_and_comes_to_an_end(window, levers).await;
    the_mode_changes_when_the_service_says_so(application, window).await;
    what_the_disk_refuses_can_be_given_up(application, window, levers).await;
    what_cannot_be_written_can_be_given_up(application, window, levers).await;
}

async fn write_back_is_chosen_with_its_warnings(application: &adw::Application, window: &Window) {
    window.set_up(None);
    let dialog: Wizard = hand::window(application).await;
    let back = mode_name(Mode::Writeback);
    // A disk that Windows reads too is not offered this mode, and the row says why.
    wizard::choose(&dialog, "Hard Disk", "Windows").await;
    wizard::choice(&dialog, "Mode").unwrap().set_expanded(true);
    let row = hand::wait(&dialog, "refusal", || {
        hand::row(&dialog, &back).filter(|row| !row.is_activatable())
    })
    .await;
    assert!(
        row.subtitle()
            .unwrap()
            .contains("other systems that use it")
    );
    assert!(!check(&row).is_sensitive());
    wizard::choose(&dialog, "Hard Disk", "Archive").await;
    hand::wait(&dialog, "offer", || {
        hand::row(&dialog, &back).filter(adw::prelude::ListBoxRowExt::is_activatable)
    })
    .await;
    assert!(
        !check(&hand::row(&dialog, &back).unwrap()).is_active(),
        "nobody is given write-back who does not ask for it"
    );
    assert!(!hand::words(&dialog).contains("beyond repair"));
    hand::choose(&dialog, &back).await;
    let words = hand::words(&dialog);
    assert!(
        words.contains("may be damaged beyond repair") && words.contains(ELSEWHERE),
        "{words}"
    );
    the_risk_needs_the_promise_of_a_backup(&dialog).await;
    hand::press(&dialog, "Set Up the Cache").await;
    hand::press(&dialog, "Show Cache").await;
}

/// The promise is of this mode: after another mode it has to be given again.
async fn the_risk_needs_the_promise_of_a_backup(dialog: &Wizard) {
    let begin = || hand::button(dialog, "Set Up the Cache").unwrap();
    for (place, mode) in [Mode::Writeback, Mode::Writearound, Mode::Writeback]
        .into_iter()
        .enumerate()
    {
        if place > 0 {
            wizard::back(dialog);
        }
        wizard::choose(dialog, "Mode", &mode_name(mode)).await;
        hand::press(dialog, "Review").await;
        hand::wait(dialog, "review", || {
            hand::row(dialog, "Mode").filter(|row| row.subtitle().unwrap() == mode_name(mode))
        })
        .await;
        // Longer than a button that erases stays locked.
        glib::timeout_future(Duration::from_secs(1)).await;
        if mode == Mode::Writearound {
            assert!(begin().is_sensitive(), "nothing is at risk");
            continue;
        }
        let words = hand::words(dialog);
        for part in [
            "beyond repair",
            ELSEWHERE,
            "if the SSD fails, files on Archive can be lost.",
        ] {
            assert!(words.contains(part), "no {part} among:\n{words}");
        }
        assert!(!begin().is_sensitive(), "the promise is not given yet");
        hand::choose(dialog, "I have a backup").await;
        assert!(begin().is_sensitive());
    }
}

/// Without the right the row shows the old setting again.
async fn a_shutdown_writes_everything_if_the_person_wants_that(
    application: &adw::Application,
    window: &Window,
    levers: &SimulationProxy<'_>,
) {
    let row = hand::row(window, "Write Everything Before Shutting Down").unwrap();
    let row = row.downcast::<adw::ComboRow>().unwrap();
    let line =
        "Shutting down first writes everything to the hard disk, which takes 5 minutes at most.";
    levers.set_authorized(false).await.unwrap();
    row.set_selected(1);
    let refusal: adw::MessageDialog = hand::window(application).await;
    hand::press(&refusal, "Close").await;
    hand::wait(window, "old setting", || {
        (row.selected() == 0).then_some(())
    })
    .await;
    assert!(!hand::words(window).contains(line));
    levers.set_authorized(true).await.unwrap();
    row.set_selected(1);
    hand::wait(window, "new safety line", || {
        hand::words(window).contains(line).then_some(())
    })
    .await;
    assert_eq!(row.selected(), 1);
    row.set_selected(0);
    hand::wait(window, "old safety line", || {
        (!hand::words(window).contains(line)).then_some(())
    })
    .await;
}

async fn how_much_may_wait_is_chosen(
    application: &adw::Application,
    window: &Window,
    levers: &SimulationProxy<'_>,
) {
    let row = hand::row(window, "Limit for Unwritten Data").unwrap();
    let row = row.downcast::<adw::ComboRow>().unwrap();
    let limit = || window.shown_cache().unwrap().facts().dirty_limit;
    let rest = hand::row(window, "Let the Hard Disk Rest").unwrap();
    let rest = rest.downcast::<adw::ComboRow>().unwrap();
    rest.set_selected(2);
    hand::wait(window, "an hour of rest", || {
        (limit().rest == 60).then_some(())
    })
    .await;
    assert_eq!((rest.selected(), limit().seconds), (2, DirtyLimit::SECONDS));
    hand::wait(window, "row that can be used", || {
        rest.is_sensitive().then_some(())
    })
    .await;
    rest.set_selected(0);
    hand::wait(window, "no rest", || (limit().rest == 0).then_some(())).await;
    hand::wait(window, "row that can be used", || {
        row.is_sensitive().then_some(())
    })
    .await;
    assert_eq!((row.selected(), limit()), (3, DirtyLimit::default()));
    levers.set_authorized(false).await.unwrap();
    row.set_selected(4);
    let refusal: adw::MessageDialog = hand::window(application).await;
    hand::press(&refusal, "Close").await;
    hand::wait(window, "old limit", || (row.selected() == 3).then_some(())).await;
    levers.set_authorized(true).await.unwrap();
    for (place, seconds, bytes) in [
        (4, DirtyLimit::SECONDS, 100_000_000),
        (0, 5, 0),
        (3, DirtyLimit::SECONDS, 0),
    ] {
        // The page takes one command at a time.
        hand::wait(window, "row that can be used", || {
            row.is_sensitive().then_some(())
        })
        .await;
        row.set_selected(place);
        let wanted = DirtyLimit {
            seconds,
            bytes,
            rest: 0,
        };
        hand::wait(window, "new limit", || (limit() == wanted).then_some(())).await;
        assert_eq!(row.selected(), place);
    }
}

async fn what_waits_is_told(window: &Window, levers: &SimulationProxy<'_>) {
    hand::wait(window, "cache page", || hand::removal(window)).await;
    // The write-back is so slow that it still runs when the test looks at it.
    levers.set_drain_rate(5_000_000).await.unwrap();
    levers.advance(60).await.unwrap();
    hand::wait(window, "safety line", || {
        let words = hand::words(window);
        // Until the first sample comes the line has no amount.
        (words.contains(RISK) && words.contains("If the SSD dies now, you lose ")).then_some(())
    })
    .await;
    let words = hand::words(window);
    assert!(words.contains("waiting to be written, about "));
    let cache = window.shown_cache().unwrap();
    assert!(cache.with_series(Series::unwritten).0 > 0);
    assert!(
        words.contains("at most 187.5\u{a0}GB"),
        "the chart shows what waits: {words}"
    );
    assert!(words.contains("To the SSD First"));
}

async fn the_question_before_the_removal_names_its_time(
    application: &adw::Application,
    window: &Window,
) {
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    let words = hand::words(&question);
    assert!(
        words.contains("Writing everything to the hard disk takes about "),
        "{words}"
    );
    hand::press(&question, "Cancel").await;
}

async fn a_flush_can_be_paused_and_comes_to_an_end(window: &Window, levers: &SimulationProxy<'_>) {
    let dirty = || {
        window
            .shown_cache()
            .unwrap()
            .with_series(Series::unwritten)
            .0
    };
    flush(window).emit_clicked();
    hand::press(window, "Pause").await;
    hand::wait(window, "Resume", || hand::button(window, "Resume")).await;
    assert!(hand::words(window).contains("paused"));
    assert!(
        hand::words(window).contains(RISK),
        "the warning stands as long as something waits"
    );
    // The first sample may have been taken before the pause.
    samples(window, 2).await;
    let before = dirty();
    samples(window, 2).await;
    assert_eq!(dirty(), before, "nothing is written while it is paused");
    assert!(before > 0);
    levers.set_drain_rate(2_000_000_000).await.unwrap();
    hand::press(window, "Resume").await;
    hand::wait(window, "end of the flush", || {
        hand::words(window)
            .contains("Archive: everything is on the hard disk")
            .then_some(())
    })
    .await;
    assert_eq!(levers.lost_bytes().await.unwrap(), 0);
}

/// Waits for so many further samples of the cache on the page.
async fn samples(window: &Window, number: u32) {
    let cache = window.shown_cache().unwrap();
    let seen = Rc::new(Cell::new(0));
    let counted = Rc::clone(&seen);
    let samples = cache.follow_samples(move |_| counted.set(counted.get() + 1));
    hand::wait(window, "samples", || (seen.get() >= number).then_some(())).await;
    drop(samples);
}

async fn the_mode_changes_when_the_service_says_so(
    application: &adw::Application,
    window: &Window,
) {
    for mode in [Mode::Writearound, Mode::Writeback] {
        let row = hand::wait(window, "mode", || {
            hand::row(window, "Mode").filter(adw::prelude::ListBoxRowExt::is_activatable)
        })
        .await;
        row.emit_by_name::<()>("activated", &[]);
        let dialog: adw::Window = hand::window(application).await;
        assert!(!hand::button(&dialog, "Change").unwrap().is_sensitive());
        hand::choose(&dialog, &mode_name(mode)).await;
        let warned = hand::words(&dialog).contains("damaged beyond repair");
        assert_eq!(warned, mode == Mode::Writeback);
        hand::press(&dialog, "Change").await;
        hand::wait(window, "new mode", || {
            let row = hand::row(window, "Mode")?;
            row.subtitle()?.starts_with(&mode_name(mode)).then_some(())
        })
        .await;
    }
}

/// The removal begins, and fails when the disk has refused all writes for long enough.
async fn what_the_disk_refuses_can_be_given_up(
    application: &adw::Application,
    window: &Window,
    levers: &SimulationProxy<'_>,
) {
    levers.advance(60).await.unwrap();
    hand::wait(window, "something that waits", || {
        hand::words(window).contains(RISK).then_some(())
    })
    .await;
    let facts = window.shown_cache().unwrap().facts();
    levers.set_stall_limit(1_000).await.unwrap();
    levers
        .set_state(&facts.uuid, CacheState::Active, "disk-error")
        .await
        .unwrap();
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    hand::agree(&question).await;
    let refusal = dialog(window, "Cannot Write to the Hard Disk").await;
    assert!(hand::words(&refusal).contains("copy them to another disk"));
    // While the refusal is read, the machine saves more data.
    let amount = |words: &str| {
        let amount = words.split_once(" on ").map(|(before, _)| before);
        amount.unwrap().lines().last().unwrap().to_owned()
    };
    let refused = amount(&hand::words(&refusal));
    levers.advance(60).await.unwrap();
    hand::press(&refusal, "Discard…").await;
    let question = dialog(window, "Discard Unwritten Data?").await;
    let words = hand::words(&question);
    for device in [&facts.origin, &facts.ssd] {
        assert!(!device.serial.is_empty());
        for fact in [&device.model, &device.serial, &bytes(device.size)] {
            assert!(words.contains(fact.as_str()), "no {fact} in {words}");
        }
    }
    let lost = words
        .lines()
        .find_map(|line| line.split_once(" of data stored only on "));
    let lost = lost.unwrap().0;
    assert!(lost.contains("MB") && lost != refused, "{words}");
    assert!(words.contains("not mounted again"), "{words}");
    assert_eq!(
        question.response_appearance("agree"),
        adw::ResponseAppearance::Destructive
    );
    hand::press(&question, "Cancel").await;
    assert_eq!(levers.lost_bytes().await.unwrap(), 0);
    levers
        .set_state(&facts.uuid, CacheState::Active, "")
        .await
        .unwrap();
}

/// The dialog with these words.
async fn dialog(window: &Window, words: &str) -> adw::MessageDialog {
    hand::wait(window, words, || {
        let all = gtk::Window::list_toplevels().into_iter();
        all.filter_map(|window| window.downcast::<adw::MessageDialog>().ok())
            .find(|dialog| hand::words(dialog).contains(words))
    })
    .await
}

async fn what_cannot_be_written_can_be_given_up(
    application: &adw::Application,
    window: &Window,
    levers: &SimulationProxy<'_>,
) {
    levers.set_drain_rate(5_000_000).await.unwrap();
    levers.advance(60).await.unwrap();
    hand::wait(window, "something that waits", || {
        hand::words(window).contains(RISK).then_some(())
    })
    .await;
    let uuid = window.shown_cache().unwrap().facts().uuid;
    levers
        .set_state(&uuid, CacheState::Bypass, "ssd-gone-dirty")
        .await
        .unwrap();
    hand::wait(window, "banner", || {
        hand::words(window)
            .contains("Nothing is lost if you reconnect the SSD unchanged.")
            .then_some(())
    })
    .await;
    assert!(!hand::words(window).contains("safe"));
    hand::press_removal(window).await;
    let refusal: adw::MessageDialog = hand::window(application).await;
    assert!(hand::words(&refusal).contains("cannot be written back now"));
    hand::press(&refusal, "Discard…").await;
    let question = dialog(window, "Discard Unwritten Data?").await;
    let words = hand::words(&question);
    assert!(
        words.contains("of data stored only on ")
            && words.contains("beyond repair")
            && words.contains("This takes a few seconds."),
        "{words}"
    );
    hand::press(&question, "Discard and Remove").await;
    hand::wait(window, "Set Up a Cache…", || {
        hand::button(window, "Set Up a Cache…")
    })
    .await;
    assert!(levers.lost_bytes().await.unwrap() > 0);
}

fn check(row: &adw::ActionRow) -> gtk::CheckButton {
    hand::shown(row)
        .into_iter()
        .find_map(|widget| widget.downcast::<gtk::CheckButton>().ok())
        .unwrap()
}

fn flush(window: &Window) -> gtk::Button {
    hand::shown(window)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Button>().ok())
        .find(|button| hand::words(button).contains(FLUSH))
        .unwrap()
}
