// SPDX-License-Identifier: GPL-3.0-or-later
//! Single widgets, fed with facts and without a bus.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

use std::cell::RefCell;
use std::rc::Rc;

use adw::prelude::*;
use gtk::glib;
use tandem_api::{
    CacheState, DeviceText, Direction, Failure, JobKind, Kind, Mode, ModuleProblem, ModuleState,
    Sample, SigningKey, Step, StepKind,
};
use tandem_app::application;
use tandem_app::display::Choice;
use tandem_app::model::facts::{CacheFacts, JobFacts, ModuleFacts, ServiceFacts};
use tandem_app::model::inventory::{Block, CacheParts, Drive, Snapshot};
use tandem_app::model::objects::CacheObject;
use tandem_app::model::store::Store;
use tandem_app::widgets::cache_page::CachePage;
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::choice_list::ChoiceList;
use tandem_app::widgets::error_view::ErrorView;
use tandem_app::widgets::job_view::JobView;
use tandem_app::widgets::overview::Overview;

mod stage;

use stage::hand;

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

fn choice(path: &str, obstacle: &str) -> Choice {
    Choice {
        path: path.into(),
        title: format!("Title of {path}"),
        subtitle: "2.0 TB".into(),
        icon: "drive-harddisk-symbolic",
        obstacle: obstacle.into(),
    }
}

#[gtk::test]
fn what_is_chosen_is_told_once_and_what_is_gone_is_no_longer_chosen() {
    adw::init().unwrap();
    let list: ChoiceList = glib::Object::new();
    let told = Rc::new(RefCell::new(Vec::new()));
    let keep = told.clone();
    list.connect_chosen(move |path| keep.borrow_mut().push(path));
    list.show(
        vec![choice("/a", ""), choice("/b", ""), choice("/c", "Swap")],
        None,
    );
    let window = shown_in_window(&list);
    let rows = |window: &gtk::Window| {
        hand::shown(window)
            .into_iter()
            .filter_map(|widget| widget.downcast::<adw::ActionRow>().ok())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&window).len(), 3);
    let closed = rows(&window)[2].clone();
    assert!(!closed.is_activatable() && closed.is_sensitive());
    assert!(
        closed.grab_focus(),
        "the keyboard reaches what cannot be chosen"
    );
    assert!(rows(&window)[2].subtitle().unwrap().contains("Swap"));
    ActionRowExt::activate(&rows(&window)[1]);
    assert_eq!(*told.borrow(), [Some("/b".to_owned())]);
    list.show(vec![choice("/a", "")], Some("/b"));
    assert_eq!(*told.borrow(), [Some("/b".to_owned()), None]);
    told.borrow_mut().clear();
    let only = rows(&window)[0].clone();
    for _ in 0..2 {
        ActionRowExt::activate(&only);
    }
    let button = hand::shown(&only)
        .into_iter()
        .find_map(|widget| widget.downcast::<gtk::CheckButton>().ok());
    assert!(
        button.unwrap().is_active(),
        "a choice among one is no box that can be unticked"
    );
    assert_eq!(*told.borrow(), [Some("/a".to_owned())]);
    window.destroy();
}

#[gtk::test]
async fn what_cannot_be_chosen_can_be_read() {
    adw::init().unwrap();
    for scheme in [adw::ColorScheme::ForceLight, adw::ColorScheme::ForceDark] {
        adw::StyleManager::default().set_color_scheme(scheme);
        let list: ChoiceList = glib::Object::new();
        list.show(vec![choice("/a", ""), choice("/b", "Too small")], None);
        let window = shown_in_window(&list);
        // The style of the application, which a bare window does not have.
        let style = gtk::CssProvider::new();
        style.load_from_resource("/org/tandemcache/Tandem/style.css");
        gtk::style_context_add_provider_for_display(
            &gtk::gdk::Display::default().unwrap(),
            &style,
            gtk::STYLE_PROVIDER_PRIORITY_APPLICATION,
        );
        glib::timeout_future(std::time::Duration::from_millis(500)).await;
        let row = hand::row(&window, "Title of /b").unwrap();
        let mut labels = 0;
        for label in hand::shown(&row) {
            if let Some(label) = label.downcast_ref::<gtk::Label>()
                && !label.label().is_empty()
            {
                let contrast = contrast(&window, label);
                assert!(contrast >= 4.5, "{scheme:?} {}: {contrast}", label.label());
                labels += 1;
            }
        }
        assert_eq!(labels, 2, "title and subtitle with the reason");
        window.destroy();
    }
    adw::StyleManager::default().set_color_scheme(adw::ColorScheme::Default);
}

/// Contrast between the paper of a label and its ink, as WCAG has it.
fn contrast(window: &gtk::Window, label: &gtk::Label) -> f64 {
    let paintable = gtk::WidgetPaintable::new(Some(window));
    let snapshot = gtk::Snapshot::new();
    let (width, height) = (window.width(), window.height());
    paintable.snapshot(&snapshot, f64::from(width), f64::from(height));
    let texture = window
        .renderer()
        .unwrap()
        .render_texture(snapshot.to_node().unwrap(), None);
    let (width, height) = (texture.width() as usize, texture.height() as usize);
    let mut pixels = vec![0; width * height * 4];
    texture.download(&mut pixels, width * 4);
    let bounds = label.compute_bounds(window).unwrap();
    let mut seen = std::collections::HashMap::new();
    for y in bounds.y() as usize..(bounds.y() + bounds.height()) as usize {
        for x in bounds.x() as usize..(bounds.x() + bounds.width()) as usize {
            let pixel = &pixels[(y * width + x) * 4..][..3];
            *seen.entry([pixel[0], pixel[1], pixel[2]]).or_insert(0) += 1;
        }
    }
    let paper = seen.iter().max_by_key(|(_, count)| **count).unwrap().0;
    let light = |pixel: &[u8; 3]| {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.03928 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        // Blue, green, red.
        0.0722 * part(pixel[0]) + 0.7152 * part(pixel[1]) + 0.2126 * part(pixel[2]) + 0.05
    };
    let paper = light(paper);
    seen.keys()
        .map(light)
        .map(|ink| (ink / paper).max(paper / ink))
        .fold(1.0, f64::max)
}

/// Label and action of each entry for the shown cache.
fn menu_of_cache(window: &gtk::Window) -> Vec<(String, String)> {
    let menu = hand::shown(window)
        .into_iter()
        .find_map(|widget| widget.downcast::<gtk::MenuButton>().ok())
        .and_then(|button| button.menu_model())
        .unwrap();
    let section = menu.item_link(0, "section").unwrap();
    let text = |item, attribute| {
        let value = section.item_attribute_value(item, attribute, None).unwrap();
        value.get::<String>().unwrap()
    };
    (0..section.n_items())
        .map(|item| (text(item, "label"), text(item, "action")))
        .collect()
}

#[gtk::test]
fn the_menu_of_a_cache_has_its_mode_and_its_removal() {
    adw::init().unwrap();
    let page: CachePage = glib::Object::new();
    let window = shown_in_window(&page);
    page.show(Some(&CacheObject::new(cache_facts("a"))));
    let menu = menu_of_cache(&window);
    let actions: Vec<&str> = menu.iter().map(|(_, action)| action.as_str()).collect();
    assert_eq!(actions, ["cache.change-mode", "cache.remove"]);
    page.show(None);
    window.destroy();
}

#[gtk::test]
fn the_menu_and_the_button_say_the_same_of_the_removal() {
    adw::init().unwrap();
    let page: CachePage = glib::Object::new();
    let window = shown_in_window(&page);
    let cache = CacheObject::new(cache_facts("a"));
    page.show(Some(&cache));
    let says = |words: &str| {
        let menu = menu_of_cache(&window);
        assert_eq!(menu.len(), 2, "{menu:?}");
        assert_eq!(menu[1], (words.to_owned(), "cache.remove".to_owned()));
        let button = hand::removal(&window).unwrap();
        assert_eq!(button.label().unwrap(), words);
        assert_eq!(hand::names(&button), 1, "names of the button {words}");
    };
    says("_Remove Cache…");
    let mut facts = cache_facts("a");
    facts.mode = Mode::Writeback;
    let dirty = Sample {
        dirty_sectors: 320,
        ..Sample::default()
    };
    cache.update(facts.clone());
    cache.sample(dirty);
    says("_Write Back and Remove…");
    // The service writes nothing back from a cache that does not run.
    facts.state = CacheState::Stopped;
    cache.update(facts.clone());
    says("_Remove Cache…");
    facts.state = CacheState::Pending;
    cache.update(facts);
    says("_Cancel Setup…");
    page.show(None);
    window.destroy();
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
    let job = tandem_app::model::objects::JobObject::new(facts.clone());
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
        mode: Mode::Writethrough,
        refused_modes: vec![],
        may_be_unwritten: false,
        state: CacheState::Active,
        reason: String::new(),
        mount_points: vec![],
        cache_bytes: 1_000_000,
        job: None,
    }
}

fn service(caches: Vec<CacheFacts>) -> ServiceFacts {
    ServiceFacts {
        module: ModuleFacts {
            state: ModuleState::Loaded,
            problem: ModuleProblem::None,
            detail: String::new(),
            key: SigningKey::NotNeeded,
            kernel: "6.1".into(),
        },
        kernels_without_module: vec![],
        minimum_ssd_bytes: 0,
        caches,
        jobs: vec![],
    }
}

fn snapshot(names: &[&str]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for name in names {
        let drive = Drive {
            path: format!("/d/{name}"),
            model: format!("Model {name}"),
            rotation_rate: Some(7200),
            ..Drive::default()
        };
        let block = Block {
            path: format!("/b/{name}"),
            device: format!("/dev/{name}"),
            size: 1_000_000_000_000,
            drive: Some(drive.path.clone()),
            ..Block::default()
        };
        snapshot.drives.insert(drive.path.clone(), drive);
        snapshot.blocks.insert(block.path.clone(), block);
    }
    snapshot
}

#[gtk::test]
fn the_overview_follows_its_store_and_keeps_what_stays() {
    adw::init().unwrap();
    let overview: Overview = glib::Object::new();
    let window = shown_in_window(&overview);
    let store = Store::default();
    overview.connect_to(&store);
    assert!(
        hand::button(&window, "Set Up a Cache…").is_none(),
        "nothing is known yet"
    );
    store.apply_disks(Ok(snapshot(&["sdb"])));
    store.apply_service(service(vec![]));
    assert!(hand::button(&window, "Set Up a Cache…").is_some());
    let group = |name: &str| {
        let words = format!("Model {name}");
        hand::shown(&window)
            .into_iter()
            .filter_map(|widget| widget.downcast::<adw::PreferencesGroup>().ok())
            .find(|group| group.title() == words)
    };
    let before = group("sdb").unwrap();
    store.apply_disks(Ok(snapshot(&["sda", "sdb", "sdc"])));
    assert_eq!(
        group("sdb").unwrap(),
        before,
        "a disk that stays keeps its widget, and with it the focus"
    );
    let titles: Vec<_> = hand::shown(&window)
        .into_iter()
        .filter_map(|widget| widget.downcast::<adw::PreferencesGroup>().ok())
        .map(|group| group.title().to_string())
        .filter(|title| title.starts_with("Model"))
        .collect();
    assert_eq!(titles, ["Model sda", "Model sdb", "Model sdc"]);

    store.apply_service(service(vec![cache_facts("a")]));
    assert!(hand::button(&window, "Set Up a Cache…").is_none());
    let row = |window: &gtk::Window| {
        hand::shown(window)
            .into_iter()
            .find_map(|widget| widget.downcast::<CacheRow>().ok())
    };
    assert_eq!(row(&window).unwrap().title(), "Films");
    let sample = |time_us, requested, hit| Sample {
        time_us,
        read: Direction {
            requested,
            hit,
            ..Direction::default()
        },
        ..Sample::default()
    };
    store.apply_sample("/caches/a", sample(1, 0, 0));
    store.apply_sample("/caches/a", sample(10_000_000, 100, 75));
    assert!(hand::words(&window).contains("75%"));
    let mut failed = cache_facts("a");
    failed.state = CacheState::Bypass;
    failed.reason = "ssd-error".into();
    store.apply_service(service(vec![failed]));
    assert!(
        !hand::words(&window).contains("75%"),
        "an SSD that failed has no live figures"
    );
    assert!(
        row(&window)
            .unwrap()
            .subtitle()
            .unwrap()
            .contains("SSD Failed")
    );

    store.service_left();
    assert!(
        hand::button(&window, "Set Up a Cache…").is_some(),
        "it leaves when there is no cache"
    );
    window.destroy();
}

#[gtk::test]
fn one_service_that_fails_does_not_hide_what_the_other_tells() {
    adw::init().unwrap();
    // A page that fades out would still be on the screen.
    gtk::Settings::default()
        .unwrap()
        .set_gtk_enable_animations(false);
    let overview: Overview = glib::Object::new();
    let window = shown_in_window(&overview);
    let store = Store::default();
    overview.connect_to(&store);
    let failed = |name| Failure::new(Kind::ServiceUnavailable).name(name);
    let notice = |name: &str| hand::words(&window).contains(&format!("“{name}” did not answer"));

    store.apply_disks(Ok(snapshot(&["sda"])));
    store.service_failed(failed("tandem"));
    assert!(hand::words(&window).contains("Model sda") && notice("tandem"));
    assert!(hand::button(&window, "Try Again").is_some());
    assert!(
        hand::button(&window, "Set Up a Cache…").is_none() && !store.is_known(),
        "a cache cannot be set up without the service"
    );
    store.apply_service(service(vec![cache_facts("a")]));
    assert!(!notice("tandem") && hand::row(&window, "Films").is_some());

    store.apply_disks(Err(failed("UDisks2")));
    assert!(hand::row(&window, "Films").is_some() && notice("UDisks2"));
    store.service_failed(failed("tandem"));
    assert!(
        hand::row(&window, "Films").is_none(),
        "nothing can be asked"
    );
    store.apply_disks(Ok(snapshot(&["sda"])));
    assert!(hand::row(&window, "Films").is_some() && notice("tandem"));
    window.destroy();
}

#[gtk::test]
fn a_page_has_live_figures_only_while_its_devices_work() {
    adw::init().unwrap();
    let page: CachePage = glib::Object::new();
    let window = shown_in_window(&page);
    let cache = CacheObject::new(cache_facts("a"));
    let sample = |time_us, requested, hit, dirty_sectors| Sample {
        time_us,
        read: Direction {
            requested,
            hit,
            missed: requested - hit,
            ..Direction::default()
        },
        dirty_sectors,
        frames_total: 100,
        frame_sectors: 32,
        ..Sample::default()
    };
    // The SSD's share of all reads since the start differs from its share now.
    cache.sample(sample(1, 900_000, 0, 0));
    cache.sample(sample(10_000_001, 1_000_000, 94_000, 0));
    page.show(Some(&cache));
    let words = || hand::words(&window);
    let live = [
        "94%",
        "Read from SSD now (10 s)",
        "Last 5 Minutes",
        "(last 10 s)",
    ];
    for figure in live {
        assert!(words().contains(figure), "no {figure} in:\n{}", words());
    }
    let (least, ..) = page.measure(gtk::Orientation::Horizontal, -1);
    assert!(least <= 360, "{least} pixels are more than a phone has");
    assert!(
        !words().contains("Waiting to be written"),
        "nothing can wait in write-through"
    );
    for (state, reason) in [
        (CacheState::Bypass, "ssd-error"),
        (CacheState::Bypass, "disk-missing"),
        (CacheState::Bypass, "-"),
        (CacheState::Stopped, "ssd-missing"),
        (CacheState::Detached, ""),
    ] {
        let mut facts = cache_facts("a");
        (facts.state, facts.reason) = (state, reason.into());
        cache.update(facts);
        for figure in live {
            assert!(
                !words().contains(figure),
                "{state} {reason}: {figure} in:\n{}",
                words()
            );
        }
    }
    cache.update(cache_facts("a"));
    cache.sample(sample(20_000_001, 1_100_000, 188_000, 320));
    assert!(words().contains("94%") && words().contains("Waiting to be written"));
    page.show(None);
    window.destroy();
}

#[gtk::test]
fn a_kernel_that_cannot_run_a_cache_is_told_on_the_first_page() {
    adw::init().unwrap();
    let overview: Overview = glib::Object::new();
    let window = shown_in_window(&overview);
    let store = Store::default();
    overview.connect_to(&store);
    store.apply_disks(Ok(snapshot(&["sda"])));
    let mut facts = service(vec![]);
    facts.module.state = ModuleState::NotBuilt;
    store.apply_service(facts);
    assert!(hand::words(&window).contains("not built for the running kernel, 6.1"));
    window.destroy();
}
