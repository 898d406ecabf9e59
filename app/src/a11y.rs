// SPDX-License-Identifier: GPL-3.0-or-later
//! Accessible names that change at run time. This is the only unsafe code of the window: the C functions have been in
//! GTK since 4.0, but their Rust bindings ask for GTK 4.10.

use std::ffi::c_int;

use gettextrs::gettext;
use gtk::ffi::{self, GtkAccessible, GtkAccessibleProperty, GtkAccessibleRelation};
use gtk::glib::translate::{ToGlibPtr, ToGlibPtrMut};
use gtk::glib::{self, gobject_ffi::GValue};
use gtk::prelude::*;

unsafe extern "C" {
    fn gtk_accessible_update_property_value(
        accessible: *mut GtkAccessible,
        count: c_int,
        properties: *mut GtkAccessibleProperty,
        values: *const GValue,
    );
    fn gtk_accessible_reset_property(
        accessible: *mut GtkAccessible,
        property: GtkAccessibleProperty,
    );
    fn gtk_accessible_reset_relation(
        accessible: *mut GtkAccessible,
        relation: GtkAccessibleRelation,
    );
}

/// Sets the name that a screen reader says for a widget.
pub fn set_label(widget: &impl IsA<gtk::Widget>, label: &str) {
    set(widget, ffi::GTK_ACCESSIBLE_PROPERTY_LABEL, label);
}

/// Sets the description that a screen reader says after the name of a widget.
pub fn set_description(widget: &impl IsA<gtk::Widget>, description: &str) {
    set(
        widget,
        ffi::GTK_ACCESSIBLE_PROPERTY_DESCRIPTION,
        description,
    );
}

/// Names the buttons with marked letters and the expanders in `root` by their labels alone. Before 4.10 GTK names such a
/// button twice, as "_Review Review": by its label property and by its label widget. GTK sets the first of the two names
/// whenever the label property changes. Expanders, and some buttons in the windows of GTK and libadwaita, have no name.
pub fn name_by_labels(root: &impl IsA<gtk::Widget>) {
    let root = root.upcast_ref::<gtk::Widget>();
    if let Some(button) = root.downcast_ref::<gtk::Button>() {
        if button.uses_underline() {
            forget_label(button);
            button.connect_label_notify(forget_label);
        } else if let Some(name) = missing_name(button) {
            set_label(button, &name);
        }
    }
    if let Some(expander) = root.downcast_ref::<gtk::Expander>() {
        let label = expander.label().unwrap_or_default();
        set_label(expander, &label.replace('_', ""));
        // GTK takes the child of a closed expander out of the tree of widgets.
        if let Some(closed) = expander.child().filter(|child| child.parent().is_none()) {
            name_by_labels(&closed);
        }
    }
    let mut child = root.first_child();
    while let Some(widget) = child {
        name_by_labels(&widget);
        child = widget.next_sibling();
    }
}

/// Names the entries of a button's menu by their texts whenever the menu is shown. GTK 4.18 names an entry by the label
/// inside, and that label has no name itself.
pub fn name_entries(button: &gtk::MenuButton) {
    if let Some(menu) = button.popover() {
        menu.connect_show(|menu| name_entries_in(menu.upcast_ref()));
    }
}

/// Names the entries of menus in this widget.
pub fn name_entries_in(widget: &gtk::Widget) {
    if widget.css_name() == "modelbutton" {
        set_label(widget, &widget.property::<String>("text"));
        // SAFETY: every GtkWidget is a GtkAccessible and is alive for the call.
        unsafe {
            gtk_accessible_reset_relation(
                widget.as_ptr().cast(),
                ffi::GTK_ACCESSIBLE_RELATION_LABELLED_BY,
            );
        }
    }
    let mut child = widget.first_child();
    while let Some(inner) = child {
        name_entries_in(&inner);
        child = inner.next_sibling();
    }
}

/// The name of a button that GTK or libadwaita has made without a name.
fn missing_name(button: &gtk::Button) -> Option<String> {
    if let (None, Some(label)) = (button.label(), button.child().and_downcast::<gtk::Label>()) {
        return Some(label.text().into());
    }
    match button.icon_name()?.as_str() {
        "window-close-symbolic" => Some(gettext("Close")),
        "edit-find-symbolic" => Some(gettext("Search")),
        _ => None,
    }
}

fn forget_label(button: &gtk::Button) {
    let widget: *mut ffi::GtkWidget = button.upcast_ref::<gtk::Widget>().to_glib_none().0;
    // SAFETY: every GtkWidget is a GtkAccessible and is alive for the call.
    unsafe {
        gtk_accessible_reset_property(widget.cast(), ffi::GTK_ACCESSIBLE_PROPERTY_LABEL);
    }
}

fn set(widget: &impl IsA<gtk::Widget>, property: GtkAccessibleProperty, text: &str) {
    let widget: *mut ffi::GtkWidget = widget.upcast_ref::<gtk::Widget>().to_glib_none().0;
    let mut properties = [property];
    let mut value = glib::Value::from(text);
    // SAFETY: every GtkWidget is a GtkAccessible and is alive for the call; both arrays have the one element that is
    // announced, its value is a string as both properties want, and GTK copies it.
    unsafe {
        gtk_accessible_update_property_value(
            widget.cast(),
            1,
            properties.as_mut_ptr(),
            value.to_glib_none_mut().0,
        );
    }
}
