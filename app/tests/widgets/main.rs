// SPDX-License-Identifier: GPL-3.0-or-later
//! Single widgets, fed with facts and without a bus.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod cache_page;
mod choices;
mod overview;
#[path = "../stage/mod.rs"]
mod stage;

use adw::prelude::*;
use gtk::glib;
use stage::hand;
use tandem_api::{
    CacheState, DeviceText, DirtyLimit, Failure, JobKind, Kind, Mode, Sharing, SsdHealth, Step,
    StepKind, Target,
};
use tandem_app::application;
use tandem_app::model::facts::{CacheFacts, JobFacts};
use tandem_app::model::inventory::CacheParts;
use tandem_app::model::objects::JobObject;
use tandem_app::widgets::error_view::ErrorView;
use tandem_app::widgets::job_view::JobView;

fn shown_in_window(widget: &impl IsA<gtk::Widget>) -> gtk::Window {
    let _ = application::register_resources();
    let window = gtk::Window::builder()
        .child(widget)
        .default_width(400)
        .default_height(600)
        .build();
    window.present();
    window
}

#[gtk::test]
fn an_error_says_what_where_the_data_is_and_what_is_next() {
    adw::init().unwrap();
    let view: ErrorView = glib::Object::new();
    let window = shown_in_window(&view);
    view.show(&Failure::new(Kind::DeviceGone).detail("udev said remove"));
    let words = hand::words(&window);
    for part in ["A Device Is Gone", "Nothing was changed.", "Reconnect it"] {
        assert!(words.contains(part), "{part} is not among:\n{words}");
    }
    assert!(
        !words.contains("udev said"),
        "details are shown only when asked for"
    );
    window.destroy();
}

#[gtk::test]
fn a_job_is_shown_as_the_service_tells_it() {
    adw::init().unwrap();
    let step = |kind| Step {
        kind,
        device: DeviceText::none(),
        target: "/srv".into(),
        bytes: 0,
    };
    let mut facts = JobFacts {
        path: "/j".into(),
        kind: JobKind::Create,
        steps: vec![step(StepKind::Unmount), step(StepKind::Mount)],
        progress: 0.25,
        seconds_left: 30,
        cancellable: true,
        ..JobFacts::default()
    };
    let job = JobObject::new(facts.clone());
    let view: JobView = glib::Object::new();
    let window = shown_in_window(&view);
    view.show(Some(&job));
    let words = hand::words(&window);
    assert!(
        words.contains("Setting Up the Cache")
            && words.contains("25%")
            && words.contains("30 seconds")
    );
    facts.undoing = true;
    facts.progress = 0.1;
    job.update(facts);
    assert!(hand::words(&window).contains("Restoring Everything"));
    window.destroy();
}

fn cache_facts(uuid: &str) -> CacheFacts {
    let device = |model: &str, label: &str| DeviceText {
        model: model.into(),
        label: label.into(),
        size: 1_000_000_000,
        ..DeviceText::none()
    };
    CacheFacts {
        path: format!("/caches/{uuid}"),
        uuid: uuid.into(),
        parts: CacheParts {
            origin: "/b/sda".into(),
            ssd: String::new(),
            mapped: String::new(),
        },
        origin: device("Disk", "Films"),
        ssd: device("Flash", ""),
        target: Target::Tandem,
        mode: Mode::Writethrough,
        waits_for_kernel: false,
        grub_would_fail: false,
        sharing: Sharing::Alone,
        refused_modes: vec![],
        may_be_unwritten: false,
        shutdown_minutes: 0,
        dirty_limit: DirtyLimit::default(),
        paused: false,
        health: SsdHealth::unknown(),
        chosen_name: String::new(),
        candidates: vec![],
        state: CacheState::Active,
        reason: String::new(),
        mount_points: vec![],
        cache_bytes: 1_000_000,
        job: None,
        speed: None,
    }
}
