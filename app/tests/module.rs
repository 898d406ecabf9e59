// SPDX-License-Identifier: GPL-3.0-or-later
//! A simulated machine whose kernel does not take the module: the page says why and what to do, the key is enrolled,
//! and the app goes on after the restart. The first page names the kernels that have no module.
//!
//! One test, because a process has one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use stage::{hand, opened};
use tandem_api::{ManagerProxy, ModuleState, SigningKey, SimulationProxy};
use tandem_app::enrollment;
use tandem_app::widgets::module_page::ModulePage;
use tandem_app::widgets::window::Window;
use tandem_app::widgets::wizard::Wizard;

#[gtk::test]
async fn a_key_is_enrolled_and_the_app_goes_on_after_the_restart() {
    let opened = opened::open(20).await;
    let (application, levers) = (&opened.application, &opened.levers);
    let manager = ManagerProxy::new(&opened.bus).await.unwrap();
    enrollment::forget();

    the_first_page_names_a_kernel_without_the_module(&opened.window, levers, &manager).await;

    // The page follows the service.
    levers.set_module(ModuleState::NotBuilt).await.unwrap();
    hand::press(&opened.window, "Show What to Do…").await;
    let page: ModulePage = hand::window(application).await;
    says(&page, "Kernel Module Could Not Be Built").await;
    says(&page, "linux/map.c:7:1: error: unknown type name").await;
    says(&page, "No data is touched").await;
    assert!(!hand::words(&page).contains("sudo"), "commands come last");
    assert!(hand::button(&page, "Enroll Key…").is_none());
    levers.set_module(ModuleState::Refused).await.unwrap();
    says(&page, "Enroll the Key of This Computer").await;
    page.close();

    // A restart without an answer on the blue screen.
    enrollment::remember();
    let window = reopened(application, &opened.window).await;
    let page: ModulePage = hand::window(application).await;
    says(&page, "The Key Was Not Enrolled").await;
    the_password_is_checked(&page).await;
    levers.set_authorized(false).await.unwrap();
    hand::press(&page, "Enroll Key").await;
    says(&page, "Authentication failed or was canceled.").await;
    assert_eq!(
        manager.signing_key().await.unwrap(),
        SigningKey::NotEnrolled
    );
    levers.set_authorized(true).await.unwrap();
    enrollment::forget();
    hand::press(&page, "Enroll Key").await;
    says(&page, "Restart to Finish").await;
    hand::wait(&page, "a note for the time after the restart", || {
        enrollment::is_asked().then_some(())
    })
    .await;
    assert_eq!(manager.signing_key().await.unwrap(), SigningKey::Pending);
    let words = hand::shown(&page);
    for step in [
        "Press any key",
        "Choose “Enroll MOK”, then “Continue”",
        "Choose “Yes”",
        "Type the password and press Enter",
        "Choose “Reboot”",
    ] {
        let row = |widget: &gtk::Widget| {
            let row = widget.downcast_ref::<adw::ActionRow>();
            row.is_some_and(|row| row.title() == step)
        };
        assert!(words.iter().any(row), "{step}");
    }
    // This bus has no logind, so the app cannot restart the computer.
    hand::press(&page, "Restart…").await;
    let question: adw::MessageDialog = hand::window(application).await;
    hand::press(&question, "Restart").await;
    says(&page, "Restart it as you usually do.").await;
    page.close();

    // The user opens the app again without a restart. The computer restarts while the page is open.
    let window = reopened(application, &window).await;
    let page: ModulePage = hand::window(application).await;
    says(&page, "has not been restarted yet").await;
    levers.restart().await.unwrap();
    says(&page, "Ready").await;
    assert!(!enrollment::is_asked());
    hand::press(&page, "Set Up a Cache").await;
    let wizard: Wizard = hand::window(application).await;
    wizard.close();

    // The app is closed during the restart. The new window opens the wizard at once.
    enrollment::remember();
    let window = reopened(application, &window).await;
    hand::window::<Wizard>(application).await;
    says(&window, "The key is enrolled").await;
    assert!(!enrollment::is_asked());
}

async fn the_first_page_names_a_kernel_without_the_module(
    window: &Window,
    levers: &SimulationProxy<'_>,
    manager: &ManagerProxy<'_>,
) {
    let title = "Kernel 6.99.1 Has No Tandem Module";
    assert!(!hand::words(window).contains("Has No Tandem Module"));
    let lacking = ["6.99.1"];
    levers.set_kernels_without_module(&lacking).await.unwrap();
    manager.check_kernels().await.unwrap();
    says(window, title).await;
    says(window, "linux-headers-6.99.1").await;
    levers.set_kernels_without_module(&[]).await.unwrap();
    manager.check_kernels().await.unwrap();
    hand::wait(window, "end of the notice", || {
        (!hand::words(window).contains(title)).then_some(())
    })
    .await;
}

async fn the_password_is_checked(page: &ModulePage) {
    hand::press(page, "Enroll Key…").await;
    let entries = hand::wait(page, "entries", || {
        let all = hand::shown(page).into_iter();
        let entries: Vec<_> = all
            .filter_map(|widget| widget.downcast::<adw::PasswordEntryRow>().ok())
            .collect();
        <[_; 2]>::try_from(entries).ok()
    })
    .await;
    let enroll = || hand::button(page, "Enroll Key").unwrap();
    assert!(!enroll().is_sensitive(), "there is no password yet");
    for (first, second, words) in [
        ("short", "short", "Use at least 8 characters."),
        ("schlüssel", "schlüssel", "signs of a US keyboard."),
        ("long enough", "long eno", ""),
        ("long enough", "long enuf", "The two passwords differ."),
    ] {
        entries[0].set_text(first);
        entries[1].set_text(second);
        let shown = hand::words(page);
        assert!(shown.contains(words), "no {words} among:\n{shown}");
        assert!(!enroll().is_sensitive(), "{first}, {second}");
    }
    entries[1].set_text("long enough");
    assert!(enroll().is_sensitive());
    assert!(!hand::words(page).contains("differ"));
}

/// Waits until these words are on the screen.
async fn says(root: &impl IsA<gtk::Widget>, words: &str) {
    hand::wait(root, words, || {
        hand::words(root).contains(words).then_some(())
    })
    .await;
}

/// Replaces the window by a new one, as if the user closed the app and opened the app again.
async fn reopened(application: &adw::Application, old: &Window) -> Window {
    let window = Window::new(application);
    old.close();
    window.present();
    window
}
