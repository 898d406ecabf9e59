// SPDX-License-Identifier: GPL-3.0-or-later
//! The page of one cache.

use adw::prelude::*;
use gtk::glib;
use tandem_api::{Bucket, CacheState, Direction, Latency, Mode, Sample, Sharing, Target};
use tandem_app::model::facts::CacheFacts;
use tandem_app::model::objects::CacheObject;
use tandem_app::widgets::cache_page::CachePage;

use crate::stage::hand;
use crate::{cache_facts, shown_in_window};

/// The page of a cache in a window of its own.
fn shown(facts: CacheFacts) -> (CachePage, gtk::Window, CacheObject) {
    adw::init().unwrap();
    let page: CachePage = glib::Object::new();
    let window = shown_in_window(&page);
    let cache = CacheObject::new(facts);
    page.show(Some(&cache));
    (page, window, cache)
}

fn close(page: &CachePage, window: &gtk::Window) {
    page.show(None);
    window.destroy();
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
fn the_menu_of_a_cache_has_its_actions() {
    let (page, window, _cache) = shown(cache_facts("a"));
    let menu = menu_of_cache(&window);
    let actions: Vec<&str> = menu.iter().map(|(_, action)| action.as_str()).collect();
    let expected = [
        "cache.rename",
        "cache.change-mode",
        "cache.test-speed",
        "cache.change-size",
        "cache.pause",
        "cache.reset-statistics",
        "cache.remove",
    ];
    assert_eq!(actions, expected);
    close(&page, &window);
}

#[gtk::test]
fn a_page_without_a_job_shows_no_job_and_no_banner() {
    let (page, window, _cache) = shown(cache_facts("a"));
    let shown = hand::shown(&window);
    assert!(hand::button(&window, "Cancel").is_none());
    assert!(!shown.iter().any(|widget| widget.has_css_class("banner")));
    close(&page, &window);
}

#[gtk::test]
fn the_menu_and_the_button_say_the_same_of_the_removal() {
    let (page, window, cache) = shown(cache_facts("a"));
    let says = |words: &str| {
        let menu = menu_of_cache(&window);
        assert_eq!(menu.len(), 7, "{menu:?}");
        assert_eq!(menu[6], (words.to_owned(), "cache.remove".to_owned()));
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
    close(&page, &window);
}

#[gtk::test]
fn a_cache_of_dm_cache_has_no_entry_for_what_dm_cache_cannot_do() {
    let (page, window, cache) = shown(CacheFacts {
        target: Target::DmCache,
        // The fields of an old record do not bring the row.
        shutdown_minutes: 5,
        ..cache_facts("a")
    });
    let has = |action: &str| menu_of_cache(&window).iter().any(|(_, of)| of == action);
    let lacks = ["cache.pause", "cache.change-mode"];
    assert!(!lacks.into_iter().any(has) && has("cache.remove"));
    assert!(hand::row(&window, "Write Everything Before Shutting Down").is_none());
    assert!(hand::row(&window, "Served by").is_some());
    assert!(!hand::words(&window).contains("requests measured"));
    // The next cache that the page shows has all of it.
    cache.update(cache_facts("a"));
    assert!(lacks.into_iter().all(has), "{:?}", menu_of_cache(&window));
    assert!(hand::row(&window, "Served by").is_none());
    assert!(hand::words(&window).contains("requests measured"));
    // A cache that was put away can be started again.
    cache.update(CacheFacts {
        target: Target::DmCache,
        state: CacheState::Stopped,
        reason: "put-away".into(),
        ..cache_facts("a")
    });
    assert!(has("cache.pause") && !has("cache.change-mode"));
    assert!(hand::button(&window, "Resume").unwrap().is_sensitive());
    close(&page, &window);
}

#[gtk::test]
fn every_state_and_mode_has_its_safety_line_at_the_top() {
    let (page, window, cache) = shown(cache_facts("a"));
    let content = hand::shown(&window)
        .into_iter()
        .find(|widget| widget.is::<gtk::ScrolledWindow>())
        .unwrap();
    for state in CacheState::ALL.iter().copied() {
        for mode in Mode::ALL.iter().copied() {
            for (reason, may_be_unwritten) in [("", false), ("ssd-gone-dirty", true)] {
                let mut facts = cache_facts("a");
                (facts.state, facts.mode) = (state, mode);
                (facts.reason, facts.may_be_unwritten) = (reason.into(), may_be_unwritten);
                cache.update(facts);
                let words = hand::words(&content);
                let first = words.lines().next().unwrap();
                assert!(
                    first.contains("SSD") && first.contains("Safe to move the disk: "),
                    "{state} {mode} {reason}: {words}"
                );
            }
        }
    }
    close(&page, &window);
}

#[gtk::test]
fn a_page_says_that_the_chosen_mode_waits_for_a_kernel() {
    let (page, window, cache) = shown(cache_facts("a"));
    let mode = || hand::row(&window, "Mode").unwrap().subtitle().unwrap();
    assert!(mode().starts_with("Standard\n"), "{}", mode());
    cache.update(CacheFacts {
        waits_for_kernel: true,
        ..cache_facts("a")
    });
    assert!(
        mode().starts_with("Standard for now. Fast Saving starts again when"),
        "{}",
        mode()
    );
    close(&page, &window);
}

#[gtk::test]
fn a_page_says_that_grub_could_not_start_the_computer() {
    let (page, window, cache) = shown(cache_facts("a"));
    let words = || hand::words(&window);
    assert!(!words().contains("GRUB"), "{}", words());
    for (state, paused, next) in [
        (
            CacheState::Active,
            false,
            "Choose “Remove Cache” and restart",
        ),
        (
            CacheState::Active,
            true,
            "Choose “Remove Cache” and restart",
        ),
        (CacheState::Pending, false, "Choose “Cancel Setup” before"),
        (CacheState::Detached, false, "Restart the computer before"),
    ] {
        cache.update(CacheFacts {
            grub_would_fail: true,
            state,
            paused,
            ..cache_facts("a")
        });
        for part in [
            "Computer May Not Start",
            "GRUB starts this computer from this disk",
            next,
        ] {
            assert!(words().contains(part), "no {part} in:\n{}", words());
        }
    }
    // A lock of the disk is more urgent.
    cache.update(CacheFacts {
        grub_would_fail: true,
        state: CacheState::Stopped,
        reason: "disk-changed".into(),
        ..cache_facts("a")
    });
    assert!(!words().contains("GRUB"), "{}", words());
    close(&page, &window);
}

#[gtk::test]
fn a_page_says_that_something_else_changes_the_disk() {
    let (page, window, cache) = shown(cache_facts("a"));
    let words = || hand::words(&window);
    for (sharing, part) in [
        (Sharing::Filesystem, "btrfs device remove"),
        (Sharing::Snapshots, "before you merge a snapshot"),
    ] {
        for paused in [false, true] {
            cache.update(CacheFacts {
                sharing,
                paused,
                ..cache_facts("a")
            });
            let words = words();
            assert!(
                words.contains("Changed by Something Else") && words.contains(part),
                "{words}"
            );
            assert_eq!(hand::button(&window, "Resume").is_some(), paused);
        }
    }
    // An error of the disk is more urgent.
    cache.update(CacheFacts {
        sharing: Sharing::Snapshots,
        reason: "disk-error".into(),
        ..cache_facts("a")
    });
    assert!(!words().contains("Something Else"), "{}", words());
    close(&page, &window);
}

#[gtk::test]
fn a_disk_that_can_be_unplugged_is_told_and_can_be_started_again() {
    let (page, window, cache) = shown(CacheFacts {
        state: CacheState::Stopped,
        reason: "put-away".into(),
        ..cache_facts("a")
    });
    let words = hand::words(&window);
    assert!(words.contains("Ready to Unplug") && words.contains("choose “Resume” first"));
    assert!(hand::button(&window, "Resume").unwrap().is_sensitive());
    cache.update(cache_facts("a"));
    assert!(hand::button(&window, "Resume").is_none());
    close(&page, &window);
}

#[gtk::test]
fn a_page_has_live_figures_only_while_its_devices_work() {
    let (page, window, cache) = shown(cache_facts("a"));
    let latency = |below_us, requests| Latency {
        buckets: vec![Bucket { below_us, requests }],
    };
    let sample = |time_us, requested, hit, dirty_sectors| Sample {
        time_us,
        ssd_latency: latency(128, requested / 1_000),
        disk_latency: latency(16_384, requested / 1_000),
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
    let words = || hand::words(&window);
    let live = [
        "94%",
        "Read from SSD now (10 s)",
        "0.09\u{a0}ms instead of 12\u{a0}ms",
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
    close(&page, &window);
}
