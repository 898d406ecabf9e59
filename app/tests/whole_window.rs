// SPDX-License-Identifier: GPL-3.0-or-later
//! The whole window on a simulated machine: from the first click to the plain disk, by pressing what is on the screen.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use adw::prelude::*;
use gtk::glib;
use stage::{hand, opened, wizard};
use tandem_api::{CacheState, JobKind, ManagerProxy, SimulationProxy, StepKind};
use tandem_app::client::Client;
use tandem_app::display::mode_name;
use tandem_app::model::facts::JobFacts;
use tandem_app::model::objects::JobObject;
use tandem_app::widgets::chart::Chart;
use tandem_app::widgets::job_card::JobCard;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

#[gtk::test]
async fn from_the_first_click_to_the_plain_disk() {
    let opened = opened::open(150).await;
    let (window, levers) = (&opened.window, &opened.levers);

    overview_is_live(window, levers).await;
    window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;
    the_usual_case_is_chosen_and_can_be_changed(&dialog).await;
    the_review_names_what_is_erased(&dialog).await;
    failures_are_explained_on_the_page(&dialog, levers).await;
    a_double_click_begins_one_job(&dialog, &opened.bus).await;
    hand::press(&dialog, "Show Cache").await;
    cache_page_shows_what_the_service_tells(window, levers).await;
    trying_again_follows_the_service_once(window).await;
    a_pause_or_cancel_that_fails_is_told(window).await;
    removal_gives_the_plain_disk_back(window, &opened.application, levers).await;
}

async fn overview_is_live(window: &Window, levers: &SimulationProxy<'_>) {
    for title in ["Archive", "Windows", "Projects", "Private"] {
        assert!(
            hand::row(window, title).is_some(),
            "{title} is not among:\n{}",
            hand::words(window)
        );
    }
    assert!(!hand::words(window).contains("New Disk 3000"));
    let blocks = levers
        .plug("disk", "New Disk 3000", "ND3K", 3_000_000_000_000)
        .await
        .unwrap();
    hand::wait(window, "new disk", || {
        hand::words(window).contains("New Disk 3000").then_some(())
    })
    .await;
    levers.unplug(&blocks[0]).await.unwrap();
    hand::wait(window, "end of the new disk", || {
        (!hand::words(window).contains("New Disk 3000")).then_some(())
    })
    .await;
}

async fn the_usual_case_is_chosen_and_can_be_changed(dialog: &Wizard) {
    let review = || hand::button(dialog, "Review").unwrap();
    let can = || review().is_sensitive();
    hand::wait(dialog, "Archive", || hand::row(dialog, "Archive")).await;
    assert!(!can(), "no disk is chosen yet");
    wizard::choose(dialog, "Hard Disk", "Archive").await;
    wizard::is_chosen(dialog, "SSD", wizard::EMPTY).await;
    assert!(can());
    for reason in [
        "Speed Up Archive",
        "Your files stay on it.",
        "It is empty, so nothing is erased.",
        "Best for most people.",
        "All of the SSD is used unless you choose less.",
    ] {
        hand::wait(dialog, reason, || {
            hand::words(dialog).contains(reason).then_some(())
        })
        .await;
    }
    let ssd = wizard::choice(dialog, "SSD").unwrap();
    ssd.set_expanded(true);
    let small = hand::wait(dialog, "small SSD", || {
        hand::row(dialog, "Transcend TS32MSSD")
    })
    .await;
    assert!(
        !small.is_activatable() && small.is_sensitive() && small.grab_focus(),
        "an SSD that is too small cannot be chosen, but read"
    );
    for (ssd, content) in [
        (wizard::EMPTY, "Empty"),
        ("KINGSTON SA400S37120G", "Unrecognized content"),
    ] {
        let holds =
            |row: &adw::ActionRow| row.subtitle().is_some_and(|words| words.contains(content));
        hand::wait(dialog, content, || hand::row(dialog, ssd).filter(holds)).await;
    }
    // The SSD of the system is there once: with its free space.
    let system = hand::shown(dialog)
        .into_iter()
        .filter_map(|widget| widget.downcast::<adw::ActionRow>().ok())
        .filter(|row| row.title().contains("970 EVO"));
    assert_eq!(system.count(), 1);
    // The bar shows what a partition in the free space beside others takes; a whole SSD has no shares.
    hand::choose(dialog, "Free space on Samsung SSD 970 EVO 500GB").await;
    assert!(!ssd.is_expanded(), "the list closes when one is picked");
    let words = hand::words(dialog);
    for share in [
        "Other partitions",
        "317.5\u{a0}GB",
        "New cache",
        "182.5\u{a0}GB",
        "what else is on this SSD stays",
    ] {
        assert!(words.contains(share), "no {share} among:\n{words}");
    }
    wizard::choose(dialog, "SSD", "CT500MX500SSD1").await;
    let words = hand::words(dialog);
    assert!(!words.contains("New cache"));
    assert!(words.contains("will be erased, including “Games”."));
    let mode = mode_name(tandem_api::Mode::Writearound);
    wizard::choose(dialog, "Mode", &mode).await;
    // What the person chose stays, on the way back and when other disks come.
    hand::press(dialog, "Review").await;
    hand::wait(dialog, "review", || hand::row(dialog, "Time")).await;
    wizard::back(dialog);
    wizard::is_chosen(dialog, "SSD", "CT500MX500SSD1").await;
    wizard::is_chosen(dialog, "Mode", &mode).await;
}

async fn the_review_names_what_is_erased(dialog: &Wizard) {
    hand::press(dialog, "Review").await;
    let erase = "Erase CT500MX500SSD1 and Set Up";
    let button = hand::wait(dialog, erase, || hand::button(dialog, erase)).await;
    assert!(button.has_css_class("destructive-action"));
    assert!(
        !button.is_sensitive(),
        "a second click on “Review” must not erase"
    );
    let words = hand::words(dialog);
    let chosen = hand::row(dialog, "Mode").unwrap().subtitle().unwrap();
    assert_eq!(chosen, mode_name(tandem_api::Mode::Writearound));
    for fact in [
        "2148E5A1B2C3",
        "WD-WCC7K4ABCDEF",
        "500.0\u{a0}GB",
        "will be erased, including “Games”.",
        "Will be erased",
        "Unmount /media/anna/Archive",
        "Usually less than a minute",
        "while the cache runs",
        "everything on CT500MX500SSD1 is erased. What I need of it",
    ] {
        assert!(words.contains(fact), "{fact} is not among:\n{words}");
    }
    glib::timeout_future(Duration::from_secs(1)).await;
    assert!(
        !button.is_sensitive(),
        "nothing is erased without the promise of a backup"
    );
    hand::choose(dialog, "I have a backup").await;
}

async fn failures_are_explained_on_the_page(dialog: &Wizard, levers: &SimulationProxy<'_>) {
    levers.set_authorized(false).await.unwrap();
    hand::press(dialog, "Erase CT500MX500SSD1 and Set Up").await;
    hand::wait(dialog, "refusal", || {
        hand::words(dialog).contains("Not Allowed").then_some(())
    })
    .await;
    assert!(hand::words(dialog).contains("Nothing was changed."));
    levers.set_authorized(true).await.unwrap();
    hand::press(dialog, "Try Again").await;

    levers.fail_next(StepKind::Map).await.unwrap();
    hand::press(dialog, "Erase CT500MX500SSD1 and Set Up").await;
    hand::wait(dialog, "failure", || {
        hand::words(dialog)
            .contains("Could Not Set Up the Cache")
            .then_some(())
    })
    .await;
    assert!(hand::words(dialog).contains("The SSD is already erased."));
    hand::press(dialog, "Try Again").await;

    // A job can be cancelled, and the window says so.
    levers.set_step_time(1500).await.unwrap();
    hand::press(dialog, "Set Up the Cache").await;
    hand::press(dialog, "Cancel").await;
    hand::wait(dialog, "end of the job", || {
        hand::words(dialog)
            .contains("You canceled the change.")
            .then_some(())
    })
    .await;
    levers.set_step_time(150).await.unwrap();
    hand::press(dialog, "Try Again").await;
}

async fn a_double_click_begins_one_job(dialog: &Wizard, bus: &zbus::Connection) {
    let begin = hand::wait(dialog, "button", || {
        hand::button(dialog, "Set Up the Cache").filter(WidgetExt::is_sensitive)
    })
    .await;
    begin.emit_clicked();
    begin.emit_clicked();
    hand::wait(dialog, "Show Cache", || hand::button(dialog, "Show Cache")).await;
    let manager = ManagerProxy::new(bus).await.unwrap();
    assert_eq!(manager.engine().await.unwrap(), "simulated");
    let objects = zbus::fdo::ObjectManagerProxy::builder(bus)
        .destination(tandem_api::BUS_NAME)
        .path(tandem_api::ROOT_PATH)
        .build()
        .await
        .unwrap();
    let caches = objects.get_managed_objects().await.unwrap();
    assert_eq!(
        caches
            .keys()
            .filter(|path| path.as_str().contains("/caches/"))
            .count(),
        1
    );
}

async fn cache_page_shows_what_the_service_tells(window: &Window, levers: &SimulationProxy<'_>) {
    hand::wait(window, "cache page", || hand::removal(window)).await;
    assert!(
        hand::shown(window)
            .iter()
            .any(glib::object::ObjectExt::is::<Chart>)
    );
    levers.advance(600).await.unwrap();
    hand::wait(window, "speeds", || {
        hand::words(window).contains("from the SSD, ").then_some(())
    })
    .await;
    let words = hand::words(window);
    for fact in [
        "From the SSD",
        "From the Hard Disk",
        "Skipped: Large Transfers",
        "To the Hard Disk Only",
    ] {
        assert!(words.contains(fact), "{fact} is not among:\n{words}");
    }
    let times = hand::shown(window)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Label>().ok())
        .find(|label| label.label().contains(" instead of "))
        .unwrap();
    let shown = times.label();
    let (ssd, disk) = shown.split_once(" instead of ").unwrap();
    assert!(
        hand::is_spoken(&times, &format!("SSD {ssd}, hard disk {disk}")),
        "a screen reader says which time is of the SSD"
    );
    let uuid = window.shown_cache().unwrap().facts().uuid;
    levers
        .set_state(&uuid, CacheState::Bypass, "ssd-error")
        .await
        .unwrap();
    hand::wait(window, "banner", || {
        hand::words(window)
            .contains("The SSD failed. The hard disk keeps working")
            .then_some(())
    })
    .await;
    let words = hand::words(window);
    assert_eq!(
        words.matches("nothing").count() + words.matches("safe").count(),
        1,
        "the safety line alone says that nothing is lost: {words}"
    );
    levers
        .set_state(&uuid, CacheState::Active, "")
        .await
        .unwrap();
    hand::wait(window, "end of the banner", || {
        (!hand::words(window).contains("The SSD failed. The hard disk keeps working")).then_some(())
    })
    .await;
}

async fn trying_again_follows_the_service_once(window: &Window) {
    let cache = window.shown_cache().unwrap();
    for _ in 0..3 {
        WidgetExt::activate_action(window, "win.retry", None).unwrap();
        glib::timeout_future(Duration::from_millis(300)).await;
    }
    let times = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&times);
    let samples = cache.follow_samples(move |cache| {
        let time = cache.with_series(|series| series.latest().map(|sample| sample.time_us));
        seen.borrow_mut().push(time);
    });
    hand::wait(window, "samples", || {
        (times.borrow().len() >= 4).then_some(())
    })
    .await;
    drop(samples);
    let mut distinct = times.borrow().clone();
    distinct.dedup();
    assert_eq!(distinct, *times.borrow(), "a sample is told once");
}

async fn a_pause_or_cancel_that_fails_is_told(window: &Window) {
    let job = JobObject::new(JobFacts {
        path: "/org/tandemcache/Tandem1/jobs/gone".into(),
        kind: JobKind::Flush,
        progress: 0.5,
        cancellable: true,
        pausable: true,
        ..JobFacts::default()
    });
    let card: JobCard = glib::Object::new();
    card.connect_to(&Client::connect().await.unwrap());
    card.show(Some(&job));
    let around = gtk::Window::builder().child(&card).build();
    around.present();
    for button in ["Pause", "Cancel"] {
        hand::press(&around, button).await;
        let told = hand::wait(window, "failure", || {
            gtk::Window::list_toplevels()
                .into_iter()
                .filter_map(|window| window.downcast::<adw::MessageDialog>().ok())
                .find(|dialog| dialog.transient_for().as_ref() == Some(&around))
        })
        .await;
        hand::press(&told, "Close").await;
        glib::timeout_future(Duration::from_millis(100)).await;
    }
    // A job that has ended shows its end itself.
    let mut over = job.facts();
    over.finished = Some(Ok(()));
    job.update(over);
    hand::button(&around, "Cancel").unwrap().emit_clicked();
    glib::timeout_future(Duration::from_millis(500)).await;
    let dialogs = gtk::Window::list_toplevels();
    assert!(
        !dialogs
            .iter()
            .any(|window| window.is::<adw::MessageDialog>() && window.is_mapped())
    );
    around.destroy();
}

async fn removal_gives_the_plain_disk_back(
    window: &Window,
    application: &adw::Application,
    levers: &SimulationProxy<'_>,
) {
    levers.set_step_time(400).await.unwrap();
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    // The steps come first, which the keyboard can reach. After them the harmless answer has the focus, and the other
    // answer is next to it.
    let cancel = hand::button(&question, "Cancel").unwrap();
    assert_eq!(RootExt::focus(&question), Some(cancel.upcast()));
    assert!(question.child_focus(gtk::DirectionType::TabForward));
    let agree = hand::button(&question, "Remove Cache").unwrap();
    assert_eq!(RootExt::focus(&question), Some(agree.upcast()));
    hand::agree(&question).await;
    hand::wait(window, "progress", || {
        hand::words(window)
            .contains("Removing the Cache")
            .then_some(())
    })
    .await;
    hand::wait(window, "Set Up a Cache…", || {
        hand::button(window, "Set Up a Cache…")
    })
    .await;
    // The window hears of the end of the job and of the cache by two signals.
    hand::wait(window, "the cache is removed", || {
        hand::words(window)
            .contains("Archive: the cache is removed\n")
            .then_some(())
    })
    .await;
    glib::timeout_future(Duration::from_millis(50)).await;
    let archive = hand::row(window, "Archive").unwrap();
    assert!(!archive.subtitle().unwrap().contains("Already cached"));
}
