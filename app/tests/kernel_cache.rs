// SPDX-License-Identifier: GPL-3.0-or-later
//! A simulated machine whose kernel does not take the module: the page of the module leads to the kernel's own cache, and
//! the page of that cache has nothing that dm-cache cannot do. Where the module works, a row of the wizard leads there.
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
use tandem_api::{ModuleState, Target};
use tandem_app::widgets::cache_page::CachePage;
use tandem_app::widgets::cache_row::CacheRow;
use tandem_app::widgets::module_page::ModulePage;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

const OWN: &str = "The kernel's own cache (dm-cache)";
const MAY_BE_EMPTY: &str = "begins empty";

#[gtk::test]
async fn where_the_module_is_refused_the_kernels_own_cache_serves() {
    let opened = opened::open(20).await;
    let (application, window, levers) = (&opened.application, &opened.window, &opened.levers);
    // A disk with the running system, over which the next start puts the cache.
    let system = levers.plug("disk", "System", "SYS", 1 << 40).await.unwrap();
    levers.mount(&system[1], "/").await.unwrap();

    levers.set_module(ModuleState::Refused).await.unwrap();
    hand::press(window, "Show What to Do…").await;
    let page: ModulePage = hand::window(application).await;
    says(&page, "All your data is always on the hard disk.").await;
    says(
        &page,
        "a system that runs from the disk may have to be restarted",
    )
    .await;
    assert!(hand::button(&page, "Enroll Key…").is_some(), "both ways");
    hand::press(&page, "Use the Kernel's Own Cache…").await;

    let dialog: Wizard = hand::window(application).await;
    wizard::open(&dialog, "Hard Disk").await;
    hand::choose(&dialog, "Data").await;
    wizard::is_chosen(&dialog, "SSD", wizard::EMPTY).await;
    hand::press(&dialog, "Review").await;
    says(&dialog, "The cache starts when you restart the computer.").await;
    says(&dialog, OWN).await;
    wizard::back(&dialog);
    wizard::choose(&dialog, "Hard Disk", "Archive").await;
    wizard::is_chosen(&dialog, "SSD", wizard::EMPTY).await;
    says(&dialog, MAY_BE_EMPTY).await;
    wizard::open(&dialog, "Mode").await;
    for refused in ["which has no such mode", "changed without it"] {
        says(&dialog, refused).await;
    }
    assert!(
        hand::row(&dialog, "Use the kernel's own cache (dm-cache)").is_none(),
        "without the module there is no choice"
    );
    hand::press(&dialog, "Review").await;
    let begin = hand::wait(&dialog, "plan", || {
        hand::button(&dialog, "Set Up the Cache")
    })
    .await;
    let words = hand::words(&dialog);
    assert!(
        words.contains(OWN) && words.contains(MAY_BE_EMPTY),
        "{words}"
    );
    assert!(words.contains("Set up at the next start"), "{words}");
    drop(begin);
    hand::press(&dialog, "Set Up the Cache").await;
    let show = hand::wait(&dialog, "end", || hand::button(&dialog, "Show Cache")).await;
    says(&dialog, "it begins empty then").await;
    show.emit_clicked();

    let uuid = the_page_has_only_what_dm_cache_can_do(window).await;

    // The first page does not ask for the module any more.
    window.show_overview();
    hand::wait(window, "row of the cache", || {
        hand::shown(window)
            .into_iter()
            .find(|widget| widget.is::<CacheRow>())
    })
    .await;
    assert!(hand::button(window, "Show What to Do…").is_none());
    window.show_cache(&uuid);

    // Whoever prefers it chooses it in the wizard, and can go back.
    hand::press_removal(window).await;
    let question: adw::MessageDialog = hand::window(application).await;
    hand::agree(&question).await;
    hand::wait(window, "disks", || hand::button(window, "Set Up a Cache…")).await;
    levers.set_module(ModuleState::Available).await.unwrap();
    hand::wait(window, "end of the notice", || {
        hand::button(window, "Show What to Do…")
            .is_none()
            .then_some(())
    })
    .await;
    whoever_prefers_it_can_choose_it(application, window).await;
}

/// Returns the uuid of the cache.
async fn the_page_has_only_what_dm_cache_can_do(window: &Window) -> String {
    hand::wait(window, "cache", || hand::removal(window)).await;
    let page = hand::shown(window)
        .into_iter()
        .find_map(|widget| widget.downcast::<CachePage>().ok())
        .unwrap();
    let facts = page.cache().unwrap().facts();
    assert_eq!(facts.target, Target::DmCache);
    let served = hand::row(&page, "Served by").unwrap();
    let words = served.subtitle().unwrap();
    assert!(words.contains(OWN) && words.contains(MAY_BE_EMPTY));
    let mode = hand::row(&page, "Mode").unwrap();
    assert!(!mode.is_activatable());
    for absent in [
        "Limit for Unwritten Data",
        "Let the Hard Disk Rest",
        "Write Everything Before Shutting Down",
    ] {
        assert!(hand::row(&page, absent).is_none(), "{absent}");
    }
    let words = hand::words(&page);
    for absent in ["response time", "requests measured", "it is now"] {
        assert!(!words.contains(absent), "{absent}: {words}");
    }
    let menu = hand::shown(&page)
        .into_iter()
        .find_map(|widget| widget.downcast::<gtk::MenuButton>().ok())
        .and_then(|button| button.menu_model())
        .unwrap();
    let section = menu.item_link(0, "section").unwrap();
    let action = |item| {
        let value = section.item_attribute_value(item, "action", None).unwrap();
        value.get::<String>().unwrap()
    };
    let actions: Vec<String> = (0..section.n_items()).map(action).collect();
    assert_eq!(
        actions,
        [
            "cache.rename",
            "cache.test-speed",
            "cache.change-size",
            "cache.reset-statistics",
            "cache.remove",
        ]
    );
    facts.uuid
}

async fn whoever_prefers_it_can_choose_it(application: &adw::Application, window: &Window) {
    hand::press(window, "Set Up a Cache…").await;
    let dialog: Wizard = hand::window(application).await;
    wizard::choose(&dialog, "Hard Disk", "Archive").await;
    wizard::is_chosen(&dialog, "SSD", wizard::EMPTY).await;
    assert!(!hand::words(&dialog).contains("dm-cache"), "not at once");
    wizard::open(&dialog, "Mode").await;
    let name = "Use the kernel's own cache (dm-cache)";
    let row = hand::wait(&dialog, name, || hand::row(&dialog, name)).await;
    let switch = row.activatable_widget().and_downcast::<gtk::Switch>();
    let switch = switch.unwrap();
    assert!(!switch.is_active());
    switch.set_active(true);
    says(&dialog, "which has no such mode").await;
    says(&dialog, OWN).await;
    switch.set_active(false);
    hand::wait(&dialog, "all modes", || {
        (!hand::words(&dialog).contains("no such mode")).then_some(())
    })
    .await;
    dialog.close();
}

async fn says(root: &impl IsA<gtk::Widget>, words: &str) {
    hand::wait(root, words, || {
        hand::words(root).contains(words).then_some(())
    })
    .await;
}
