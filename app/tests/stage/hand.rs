// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds widgets by the words on them, as a person does, and presses them.

use std::ffi::c_char;
use std::time::{Duration, Instant};

use adw::prelude::*;
use gtk::glib;
use gtk::glib::translate::{ToGlibPtr, from_glib, from_glib_full};

unsafe extern "C" {
    /// Returns nothing if the property has the value, a C string, that follows.
    fn gtk_test_accessible_check_property(
        accessible: *mut gtk::ffi::GtkAccessible,
        property: gtk::ffi::GtkAccessibleProperty,
        ...
    ) -> *mut c_char;
    fn gtk_test_accessible_has_property(
        accessible: *mut gtk::ffi::GtkAccessible,
        property: gtk::ffi::GtkAccessibleProperty,
    ) -> glib::ffi::gboolean;
    fn gtk_test_accessible_has_relation(
        accessible: *mut gtk::ffi::GtkAccessible,
        relation: gtk::ffi::GtkAccessibleRelation,
    ) -> glib::ffi::gboolean;
}

/// Longest wait for a widget to appear. A machine that runs virtual machines beside the test can stand still for
/// longer than half a minute, when it writes their disks.
const PATIENCE: Duration = Duration::from_secs(120);

/// Every widget below `root` that is on the screen, parents first.
pub fn shown(root: &impl IsA<gtk::Widget>) -> Vec<gtk::Widget> {
    let root = root.upcast_ref::<gtk::Widget>();
    if !root.is_mapped() {
        return Vec::new();
    }
    let mut all = vec![root.clone()];
    let mut child = root.first_child();
    while let Some(widget) = child {
        all.extend(shown(&widget));
        child = widget.next_sibling();
    }
    all
}

/// All words on the screen below `root`, a line each.
pub fn words(root: &impl IsA<gtk::Widget>) -> String {
    let labels = shown(root)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Label>().ok());
    labels
        .map(|label| label.label().to_string() + "\n")
        .collect()
}

/// The button with these words, with or without the mark of its key, if it is on the screen.
pub fn button(root: &impl IsA<gtk::Widget>, words: &str) -> Option<gtk::Button> {
    let words = words.replace('_', "");
    shown(root)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Button>().ok())
        .find(|button| {
            button
                .label()
                .is_some_and(|label| label.replace('_', "") == words)
        })
}

/// The row with this title, if it is on the screen.
pub fn row(root: &impl IsA<gtk::Widget>, title: &str) -> Option<adw::ActionRow> {
    shown(root)
        .into_iter()
        .filter_map(|widget| widget.downcast::<adw::ActionRow>().ok())
        .find(|row| row.title() == title)
}

/// Lets the main loop run until `look` finds something.
///
/// # Panics
/// `look` finds nothing in time; the message has the words on the screen.
pub async fn wait<T>(root: &impl IsA<gtk::Widget>, what: &str, look: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "no {what} among:\n{}",
            words(root)
        );
        glib::timeout_future(Duration::from_millis(20)).await;
    }
}

/// How often a screen reader says the name of a button: its own words and those of its label come one after the other.
pub fn names(button: &gtk::Button) -> usize {
    let widget: *mut gtk::ffi::GtkWidget = button.upcast_ref::<gtk::Widget>().to_glib_none().0;
    // SAFETY: every GtkWidget is a GtkAccessible and is alive for the calls.
    let named: [bool; 2] = unsafe {
        [
            from_glib(gtk_test_accessible_has_property(
                widget.cast(),
                gtk::ffi::GTK_ACCESSIBLE_PROPERTY_LABEL,
            )),
            from_glib(gtk_test_accessible_has_relation(
                widget.cast(),
                gtk::ffi::GTK_ACCESSIBLE_RELATION_LABELLED_BY,
            )),
        ]
    };
    named.into_iter().filter(|named| *named).count()
}

/// Whether a screen reader says these words for a widget in place of the words on it.
pub fn is_spoken(widget: &impl IsA<gtk::Widget>, words: &str) -> bool {
    let widget: *mut gtk::ffi::GtkWidget = widget.upcast_ref::<gtk::Widget>().to_glib_none().0;
    let wanted = glib::GString::from(words);
    // SAFETY: every GtkWidget is a GtkAccessible and is alive for the call, the value of this property is a C string,
    // and the answer is the caller's to free.
    let other: Option<glib::GString> = unsafe {
        from_glib_full(gtk_test_accessible_check_property(
            widget.cast(),
            gtk::ffi::GTK_ACCESSIBLE_PROPERTY_LABEL,
            wanted.as_ptr(),
        ))
    };
    other.is_none()
}

/// Presses the button with these words as soon as it can be pressed.
///
/// # Panics
/// The button does not appear, or a screen reader does not say its name exactly once.
pub async fn press(root: &impl IsA<gtk::Widget>, words: &str) {
    let found = wait(root, words, || {
        button(root, words).filter(WidgetExt::is_sensitive)
    })
    .await;
    assert_eq!(names(&found), 1, "names of the button {words}");
    found.emit_clicked();
}

/// The button that removes the cache, whatever its label is.
pub fn removal(root: &impl IsA<gtk::Widget>) -> Option<gtk::Button> {
    shown(root)
        .into_iter()
        .filter_map(|widget| widget.downcast::<gtk::Button>().ok())
        .find(|button| button.action_name().as_deref() == Some("cache.remove"))
}

/// Presses the button that removes the cache as soon as it can be pressed.
pub async fn press_removal(root: &impl IsA<gtk::Widget>) {
    let found = wait(root, "removal", || {
        removal(root).filter(WidgetExt::is_sensitive)
    })
    .await;
    found.emit_clicked();
}

/// Presses the answer of a question that removes something.
pub async fn agree(dialog: &adw::MessageDialog) {
    let found = wait(dialog, "agreement", || {
        shown(dialog)
            .into_iter()
            .filter_map(|widget| widget.downcast::<gtk::Button>().ok())
            .find(|button| button.has_css_class("destructive") || button.has_css_class("suggested"))
    })
    .await;
    assert_eq!(names(&found), 1, "names of the agreement");
    found.emit_clicked();
}

/// Chooses the row with this title as soon as it can be chosen.
pub async fn choose(root: &impl IsA<gtk::Widget>, title: &str) {
    let found = wait(root, title, || {
        row(root, title).filter(|row| row.is_sensitive() && row.is_activatable())
    })
    .await;
    ActionRowExt::activate(&found);
}

/// The newest window of this type.
pub async fn window<T: IsA<gtk::Window> + IsA<gtk::Widget>>(application: &adw::Application) -> T {
    let start = Instant::now();
    loop {
        let all = gtk::Window::list_toplevels();
        let found = all
            .into_iter()
            .filter(|window| window.is_mapped())
            .find_map(|window| window.downcast::<T>().ok());
        if let Some(found) = found {
            return found;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "no {} among {} windows",
            T::static_type(),
            application.windows().len()
        );
        glib::timeout_future(Duration::from_millis(20)).await;
    }
}
