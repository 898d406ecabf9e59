// SPDX-License-Identifier: GPL-3.0-or-later
//! The list of disks and SSDs to choose from.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use adw::prelude::*;
use gtk::glib;
use tandem_app::display::Choice;
use tandem_app::widgets::choice_list::ChoiceList;

use crate::shown_in_window;
use crate::stage::hand;

fn choice(path: &str, obstacle: &str) -> Choice {
    Choice {
        path: path.into(),
        title: format!("Title of {path}"),
        subtitle: "2.0 TB".into(),
        reason: String::new(),
        icon: "drive-harddisk-symbolic",
        obstacle: obstacle.into(),
    }
}

#[gtk::test]
fn what_is_chosen_is_told_once_and_each_press_is_told() {
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
    assert_eq!(*told.borrow(), ["/b"]);
    list.show(vec![choice("/a", "")], None);
    assert_eq!(*told.borrow(), ["/b"], "the program chooses in silence");
    told.borrow_mut().clear();
    let pressed = Rc::new(Cell::new(0));
    let counted = pressed.clone();
    list.connect_picked(move || counted.set(counted.get() + 1));
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
    assert_eq!(*told.borrow(), ["/a"]);
    assert_eq!(pressed.get(), 2);
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
