// SPDX-License-Identifier: GPL-3.0-or-later
//! The first page, fed with what the two services tell.

use adw::prelude::*;
use gtk::glib;
use tandem_api::{
    CacheState, DeviceText, Direction, Failure, JobKind, JudgedDevice, Kind, ModuleProblem,
    ModuleState, OtherCache, OtherKind, Sample, SigningKey,
};
use tandem_app::model::facts::{CacheFacts, JobFacts, ModuleFacts, ServiceFacts};
use tandem_app::model::inventory::{Block, Drive, Snapshot};
use tandem_app::model::store::Store;
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::overview::Overview;

use crate::stage::hand;
use crate::{cache_facts, shown_in_window};

fn service(caches: Vec<CacheFacts>) -> ServiceFacts {
    ServiceFacts {
        module: ModuleFacts {
            state: ModuleState::Loaded,
            problem: ModuleProblem::None,
            detail: String::new(),
            key: SigningKey::NotNeeded,
            kernel: "6.1".into(),
            has_dm_cache: false,
        },
        kernels_without_module: vec![],
        minimum_ssd_bytes: 0,
        memory_for_caches: 0,
        caches,
        jobs: vec![],
        watches: vec![],
        found: vec![],
        others: vec![],
        devices: judged(&["sda", "sdb", "sdc"]),
    }
}

/// The service would make a cache of each of these disks.
fn judged(names: &[&str]) -> Vec<JudgedDevice> {
    let of = |name: &&str| JudgedDevice {
        device: DeviceText {
            object: format!("/b/{name}").try_into().unwrap(),
            ..DeviceText::none()
        },
        against_disk: vec![],
        against_disk_later: vec![],
        against_ssd: vec![],
    };
    names.iter().map(of).collect()
}

/// A window with the first page, and the store that the page shows.
fn first_page() -> (gtk::Window, Store) {
    adw::init().unwrap();
    let overview: Overview = glib::Object::new();
    let window = shown_in_window(&overview);
    let store = Store::default();
    overview.connect_to(&store);
    (window, store)
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
    let (window, store) = first_page();
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

    assert!(store.service_left(), "it was stopped or killed");
    assert!(
        row(&window).is_some(),
        "the cache goes on without the service"
    );
    store.apply_service(service(vec![]));
    assert!(!store.service_left(), "it leaves when there is no cache");
    assert!(hand::button(&window, "Set Up a Cache…").is_some());
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
fn a_kernel_that_cannot_run_a_cache_is_told_on_the_first_page() {
    let (window, store) = first_page();
    store.apply_disks(Ok(snapshot(&["sda"])));
    let mut facts = service(vec![]);
    facts.module.state = ModuleState::NotBuilt;
    store.apply_service(facts);
    assert!(hand::words(&window).contains("not built for the running kernel, 6.1"));
    window.destroy();
}

/// The button of the row's menu.
fn menu_button(row: &adw::ActionRow) -> Option<gtk::MenuButton> {
    let widgets = hand::shown(row).into_iter();
    widgets.filter_map(|widget| widget.downcast().ok()).next()
}

/// The label, the action and its target of each entry of the row's menu.
fn menu(row: &adw::ActionRow) -> Vec<[String; 3]> {
    let Some(menu) = menu_button(row).and_then(|button| button.menu_model()) else {
        return Vec::new();
    };
    let text = |at, attribute| {
        let value = menu.item_attribute_value(at, attribute, None);
        value
            .and_then(|v| v.str().map(str::to_owned))
            .unwrap_or_default()
    };
    let item = |at| ["label", "action", "target"].map(|attribute| text(at, attribute));
    (0..menu.n_items()).map(item).collect()
}

fn other_cache() -> OtherCache {
    OtherCache {
        unwritten_bytes: 2_000_000_000,
        ..OtherCache::empty(OtherKind::Bcache, "bcache0")
    }
}

#[gtk::test]
fn a_cache_that_can_be_changed_has_a_menu_and_then_a_button_to_cancel_that() {
    let (window, store) = first_page();
    store.apply_disks(Ok(snapshot(&["sda"])));
    let mut cache = OtherCache {
        kind: OtherKind::LvmCache,
        id: "LVM-1".into(),
        name: "films/movies".into(),
        ..other_cache()
    };
    let tell = |cache: &OtherCache, jobs: Vec<JobFacts>| {
        store.apply_service(ServiceFacts {
            others: vec![cache.clone()],
            jobs,
            ..service(vec![])
        });
        hand::row(&window, "films/movies").unwrap()
    };
    let row = tell(&cache, vec![]);
    let item = |words: &str, action: &str| [words, action, "LVM-1"].map(str::to_owned);
    let remove = |words| item(words, "win.remove-other");
    let write_back = || {
        item(
            "Write Everything to the Hard Disk Now",
            "win.write-back-other",
        )
    };
    assert_eq!(menu(&row), [write_back(), remove("Write Back and Remove…")]);
    let job = JobFacts {
        path: "/jobs/1".into(),
        cache_uuid: "LVM-1".into(),
        kind: JobKind::Remove,
        progress: 0.25,
        cancellable: true,
        ..JobFacts::default()
    };
    let row = tell(&cache, vec![job.clone()]);
    let cancel = hand::button(&row, "Cancel").unwrap();
    assert_eq!(cancel.action_target_value().unwrap().str(), Some("/jobs/1"));
    assert!(row.subtitle().unwrap().contains("25"));
    let later = JobFacts {
        progress: 0.5,
        ..job
    };
    assert_eq!(row, tell(&cache, vec![later]), "the button keeps the focus");
    cache.unwritten_bytes = 0;
    let row = tell(&cache, vec![]);
    assert_eq!(menu(&row), [remove("Remove…")]);
    let button = menu_button(&row).unwrap();
    button.popup();
    let popover = button.popover().unwrap();
    cache.unwritten_bytes = 1;
    assert_eq!(row, tell(&cache, vec![]), "the button stays");
    assert!(popover.is_visible(), "the open menu stays");
    assert_eq!(menu(&row), [write_back(), remove("Write Back and Remove…")]);
    button.popdown();
    for kind in OtherKind::ALL.iter().filter(|kind| kind.can_be_removed()) {
        cache.kind = *kind;
        let row = tell(&cache, vec![]);
        let first = kind.can_write_back().then(write_back);
        let remove = remove("Write Back and Remove…");
        let expected: Vec<_> = first.into_iter().chain([remove]).collect();
        assert_eq!(menu(&row), expected, "{kind:?}");
    }
    window.destroy();
}

#[gtk::test]
fn the_row_of_another_cache_stays_while_its_figures_change() {
    let (window, store) = first_page();
    store.apply_disks(Ok(snapshot(&["sda"])));
    let mut cache = OtherCache {
        kind: OtherKind::DmWriteboost,
        ..other_cache()
    };
    let mut tell = |unwritten: u64, name: &str| {
        cache.unwritten_bytes = unwritten;
        cache.id = name.into();
        cache.name = name.into();
        store.apply_service(ServiceFacts {
            others: vec![cache.clone()],
            ..service(vec![])
        });
        let rows = hand::shown(&window).into_iter();
        let mut rows = rows.filter_map(|widget| widget.downcast::<adw::ActionRow>().ok());
        rows.find(|row| row.title().starts_with("bcache")).unwrap()
    };
    let row = tell(2_000_000_000, "bcache0");
    assert!(row.subtitle().unwrap().contains("not yet on the hard disk"));
    assert!(menu(&row).is_empty());
    let later = tell(0, "bcache0");
    assert_eq!(row, later, "a row that stays keeps the focus");
    assert!(
        row.subtitle()
            .unwrap()
            .ends_with("Everything is on the hard disk.")
    );
    assert_ne!(row, tell(0, "bcache1"));
    // Without the service nobody knows what they hold now.
    store.service_left();
    assert!(store.other_caches().is_empty() && store.misses_others());
    window.destroy();
}
