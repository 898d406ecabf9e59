// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk in the overview, with a row for each of its volumes.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};

use crate::a11y;
use crate::display::{device_words, fill, volume_words, watched_words};
use crate::model::inventory::{Device, Volume};
use crate::model::objects::DeviceObject;

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct DeviceGroup {
        pub changes: RefCell<Option<glib::SignalGroup>>,
        pub rows: RefCell<Vec<ShownRow>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for DeviceGroup {
        const NAME: &'static str = "TandemDeviceGroup";
        type Type = super::DeviceGroup;
        type ParentType = adw::PreferencesGroup;
    }

    impl ObjectImpl for DeviceGroup {}
    impl WidgetImpl for DeviceGroup {}
    impl PreferencesGroupImpl for DeviceGroup {}
}

glib::wrapper! {
    /// A widget that shows a [`DeviceObject`]; hidden if all of it is in caches, which have rows of their own.
    pub struct DeviceGroup(ObjectSubclass<imp::DeviceGroup>)
        @extends adw::PreferencesGroup, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl DeviceGroup {
    /// A group that shows this device.
    #[must_use]
    pub fn new(device: &DeviceObject) -> Self {
        let group: Self = glib::Object::new();
        let changes = device.follow_changes(clone!(
            #[weak]
            group,
            move |device| group.refresh(&device.facts())
        ));
        group.imp().changes.replace(Some(changes));
        group.refresh(&device.facts());
        group
    }

    fn refresh(&self, device: &Device) {
        let words = device_words(device);
        self.set_title(&glib::markup_escape_text(&words.title));
        self.set_description(Some(&glib::markup_escape_text(&words.subtitle)));
        let volumes = device.volumes.iter().filter(|volume| volume.is_listed());
        let wanted: Vec<_> = volumes.map(VolumeRow::of).collect();
        self.set_visible(!wanted.is_empty() || device.volumes.is_empty());
        let old = self.imp().rows.take();
        if old.iter().map(|shown| &shown.volume).eq(&wanted) {
            self.imp().rows.replace(old);
            return;
        }
        let focus = old.iter().find_map(ShownRow::focus);
        for shown in &old {
            self.remove(&shown.row);
        }
        let rows: Vec<_> = wanted.into_iter().map(ShownRow::new).collect();
        for shown in &rows {
            self.add(&shown.row);
        }
        if let Some((path, action)) = focus
            && let Some(shown) = rows.iter().find(|shown| shown.volume.path == path)
        {
            shown.take_focus(action.as_deref());
        }
        self.imp().rows.replace(rows);
    }
}

/// The row of a volume as it is on the screen.
pub struct ShownRow {
    volume: VolumeRow,
    row: adw::ActionRow,
    buttons: Vec<gtk::Button>,
}

impl ShownRow {
    fn new(volume: VolumeRow) -> Self {
        let (row, buttons) = volume.widgets();
        Self {
            volume,
            row,
            buttons,
        }
    }

    /// The path of the volume, and the action of the button with the focus, or none if the row itself has the focus.
    fn focus(&self) -> Option<(String, Option<glib::GString>)> {
        let focused = self.buttons.iter().find(|button| button.has_focus());
        let action = focused.and_then(|button| button.action_name());
        (action.is_some() || self.row.has_focus()).then(|| (self.volume.path.clone(), action))
    }

    fn take_focus(&self, action: Option<&str>) {
        let mut buttons = self.buttons.iter();
        match buttons.find(|button| button.action_name().as_deref() == action) {
            Some(button) => button.grab_focus(),
            None => self.row.grab_focus(),
        };
    }
}

/// All that the row of a volume shows.
#[derive(PartialEq)]
pub struct VolumeRow {
    /// The block path of the volume.
    path: String,
    title: String,
    subtitle: String,
    /// The window of the advisor can tell of this volume.
    advises: bool,
    /// The volume can be sped up.
    speeds_up: bool,
}

impl VolumeRow {
    fn of(volume: &Volume) -> Self {
        let words = volume_words(volume);
        let mut lines = vec![words.subtitle];
        if !words.obstacle.is_empty() {
            lines.push(words.obstacle);
        }
        lines.extend(volume.watched.map(watched_words));
        let speeds_up = volume.as_origin.is_ok();
        Self {
            path: volume.path.clone(),
            title: words.title,
            subtitle: lines.join("\n"),
            advises: speeds_up || volume.watched.is_some(),
            speeds_up,
        }
    }

    fn widgets(&self) -> (adw::ActionRow, Vec<gtk::Button>) {
        let row = adw::ActionRow::builder()
            .use_markup(false)
            .title(&self.title)
            .subtitle(&self.subtitle)
            .title_lines(0)
            .subtitle_lines(0)
            .build();
        // In a narrow window with large text the name of the volume needs the room between two suffixes of a row.
        let side = gtk::Box::builder().build();
        let mut buttons = Vec::new();
        if self.advises {
            buttons.push(advise_button(&self.path, &self.title));
        }
        if self.speeds_up {
            let button = gtk::Button::builder()
                .label(gettext("Speed Up…"))
                .valign(gtk::Align::Center)
                .action_name("win.set-up-disk")
                .action_target(&self.path.to_variant())
                .build();
            a11y::set_description(
                &button,
                &fill(&gettext("Speed up {name}"), &[("name", &self.title)]),
            );
            buttons.push(button);
        }
        for button in &buttons {
            side.append(button);
        }
        row.add_suffix(&side);
        (row, buttons)
    }
}

/// A button that opens the window of the advisor. `disk`: the block path of the disk, or the id of its watch.
pub(super) fn advise_button(disk: &str, name: &str) -> gtk::Button {
    let button = gtk::Button::builder()
        .icon_name("view-reveal-symbolic")
        .tooltip_text(gettext("Would an SSD Help?"))
        .valign(gtk::Align::Center)
        .css_classes(["flat", "slim"])
        .action_name("win.advise")
        .action_target(&disk.to_variant())
        .build();
    let spoken = gettext("Would an SSD help {name}?");
    a11y::set_label(&button, &fill(&spoken, &[("name", name)]));
    button
}
