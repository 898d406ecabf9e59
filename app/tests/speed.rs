// SPDX-License-Identifier: GPL-3.0-or-later
//! The speed test in the window, on a simulated machine.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

mod stage;

use adw::prelude::*;
use gtk::glib;
use stage::opened::Opened;
use stage::{hand, opened, wizard};
use tandem_api::{SpeedTest, Trust};
use tandem_app::display::speed_words;
use tandem_app::widgets::speed_dialog::SpeedDialog;
use tandem_app::widgets::speed_picture::SpeedPicture;
use tandem_app::widgets::wizard::Wizard;
use zbus::OwnedObjectPath;

#[gtk::test]
async fn a_person_tests_the_speed_and_shares_the_result() {
    let opened = opened::open(50).await;
    let (disk, ssd) = set_up(&opened).await;
    let (window, levers) = (&opened.window, &opened.levers);
    let row = || hand::row(window, "Speed test").unwrap();
    assert!(row().subtitle().unwrap().starts_with("Measure how much"));

    // The progress says what is read.
    levers.set_step_time(700).await.unwrap();
    ActionRowExt::activate(&row());
    let dialog: SpeedDialog = hand::window(&opened.application).await;
    hand::press(&dialog, "Start Test").await;
    for phase in ["Reading from the hard disk…", "Reading with the SSD…"] {
        says(&dialog, phase).await;
        assert!(dialog.width() <= 560, "{} pixels wide", dialog.width());
    }
    says_result(&opened, &dialog, Trust::Reliable).await;
    let words = row().subtitle().unwrap().to_string();
    assert!(words.contains("Opening many small files: 1"), "{words}");
    picture_is_shared(&dialog).await;

    // A test that is cancelled leaves the last result.
    levers.set_step_time(60_000).await.unwrap();
    hand::press(&dialog, "Test Again").await;
    says(&dialog, "Reading from the hard disk…").await;
    hand::press(&dialog, "Cancel").await;
    let again = hand::wait(&dialog, "last result", || {
        hand::button(&dialog, "Test Again")
    })
    .await;
    assert_eq!(RootExt::focus(&dialog), Some(again.upcast()));
    assert_eq!(row().subtitle().unwrap(), words);

    // The SSD goes in the middle.
    hand::press(&dialog, "Test Again").await;
    says(&dialog, "Reading from the hard disk…").await;
    levers.unplug(&ssd).await.unwrap();
    says(&dialog, "The Speed Test Ended Early").await;
    says(&dialog, "Nothing was changed.").await;
    levers.set_step_time(20).await.unwrap();
    levers.replug(&ssd).await.unwrap();
    hand::wait(window, "cache", || {
        let facts = window.shown_cache()?.facts();
        facts.is_live().then_some(())
    })
    .await;

    // Other programs use the disk.
    levers.set_other_load(30).await.unwrap();
    hand::press(&dialog, "Try Again").await;
    let told = says_result(&opened, &dialog, Trust::Disturbed).await;
    assert!(speed_words(&told).warning.starts_with("Not reliable: "));
    let words = row().subtitle().unwrap().to_string();
    assert!(words.ends_with(", not reliable"), "{words}");
    // The last result is there again in a new window.
    dialog.close();
    ActionRowExt::activate(&row());
    let dialog: SpeedDialog = hand::window(&opened.application).await;
    says_result(&opened, &dialog, Trust::Disturbed).await;

    // Closing the window ends the test, so that the next can begin.
    levers.set_step_time(60_000).await.unwrap();
    hand::press(&dialog, "Test Again").await;
    says(&dialog, "Reading from the hard disk…").await;
    dialog.close();
    levers.set_step_time(20).await.unwrap();
    levers.set_other_load(0).await.unwrap();
    let manager = tandem_api::ManagerProxy::new(&opened.bus).await.unwrap();
    while manager.test_speed(&disk).await.is_err() {
        glib::timeout_future(std::time::Duration::from_millis(50)).await;
    }
}

/// Tests a disk in the wizard, sets up its cache, goes to the page of the cache, and returns the disk and the SSD.
async fn set_up(opened: &Opened) -> (OwnedObjectPath, OwnedObjectPath) {
    opened.window.set_up(None);
    let dialog: Wizard = hand::window(&opened.application).await;
    hand::wait(&dialog, "disk", || hand::row(&dialog, "Archive")).await;
    assert!(hand::button(&dialog, "Speed Test…").is_none());
    wizard::choose(&dialog, "Hard Disk", "Archive").await;
    hand::press(&dialog, "Speed Test…").await;
    disk_alone_is_tested(opened).await;
    wizard::answer(&dialog, "Archive").await;
    hand::wait(&dialog, "review without a test", || {
        hand::button(&dialog, "Speed Test…").is_none().then_some(())
    })
    .await;
    hand::press(&dialog, "Set Up the Cache").await;
    hand::press(&dialog, "Speed Test…").await;
    let test: SpeedDialog = hand::window(&opened.application).await;
    says(&test, "How Much Faster Is It?").await;
    test.close();
    hand::press(&dialog, "Show Cache").await;
    let cache = hand::wait(&opened.window, "cache", || opened.window.shown_cache()).await;
    let parts = cache.facts().parts;
    let path = |path: String| OwnedObjectPath::try_from(path).unwrap();
    (path(parts.origin), path(parts.ssd))
}

/// A disk without a cache has a speed, and nothing to compare it with.
async fn disk_alone_is_tested(opened: &Opened) {
    let test: SpeedDialog = hand::window(&opened.application).await;
    says(&test, "How Fast Is This Disk?").await;
    hand::press(&test, "Start Test").await;
    let picture = hand::wait(&test, "result", || picture(&test)).await;
    let words = picture.words().unwrap();
    assert!(words.parts[0].result.contains("reads/s"), "{words:?}");
    assert!(words.parts.iter().all(|part| part.lines.is_empty()));
    test.close();
    hand::wait(&opened.window, "end of the window", || {
        (!test.is_mapped()).then_some(())
    })
    .await;
}

async fn says(dialog: &SpeedDialog, words: &str) {
    hand::wait(dialog, words, || {
        hand::words(dialog).contains(words).then_some(())
    })
    .await;
}

/// Waits until the picture of a result with this trust is shown, which a screen reader can read.
async fn says_result(opened: &Opened, dialog: &SpeedDialog, trust: Trust) -> SpeedTest {
    hand::wait(dialog, "result", || {
        let test = opened.window.shown_cache()?.facts().speed?;
        let spoken = hand::is_spoken(&picture(dialog)?, &speed_words(&test).spoken());
        (spoken && test.trust == trust).then_some(test)
    })
    .await
}

fn picture(dialog: &SpeedDialog) -> Option<SpeedPicture> {
    let all = hand::shown(dialog).into_iter();
    all.filter_map(|widget| widget.downcast().ok()).next()
}

async fn picture_is_shared(dialog: &SpeedDialog) {
    let shown = picture(dialog).unwrap();
    let (least, ..) = shown.measure(gtk::Orientation::Horizontal, -1);
    assert!(least <= 320, "{least}");
    let (narrow, ..) = shown.measure(gtk::Orientation::Vertical, 240);
    let (wide, ..) = shown.measure(gtk::Orientation::Vertical, 600);
    assert!(0 < wide && wide < narrow, "lines wrap: {wide} {narrow}");
    let texture = shown.texture().unwrap();
    let bytes = texture.save_to_png_bytes();
    assert!(bytes.starts_with(b"\x89PNG"));
    assert_eq!(texture.width(), 1200);
    // The ground is white, and there are words and bars of both colours on it.
    let mut pixels = vec![0; (texture.width() * texture.height() * 4) as usize];
    texture.download(&mut pixels, (texture.width() * 4) as usize);
    let has = |wanted: &dyn Fn(&[u8]) -> bool| pixels.chunks_exact(4).filter(|p| wanted(p)).count();
    assert!(pixels.starts_with(&[255; 4]));
    assert!(
        has(&|p| p[0] > 200 && p[2] < 60) > 1000,
        "the bar of the SSD"
    );
    assert!(has(&|p| p[..3].iter().all(|c| *c < 80)) > 1000, "words");
    hand::press(dialog, "Copy Picture").await;
    says(dialog, "Picture copied").await;
    let formats = WidgetExt::clipboard(dialog).formats();
    assert!(formats.contains_type(gtk::gdk::Texture::static_type()));
}
