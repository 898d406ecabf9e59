// SPDX-License-Identifier: GPL-3.0-or-later
//! A row that asks for a size between two limits: a number to type and a slider.

use std::cell::{Cell, OnceCell};
use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone, subclass::Signal};

use crate::a11y;
use crate::display::{bytes, fill};

/// From this size on, the number counts GB, and below it MB.
const GIGABYTES_FROM: u64 = 2_000_000_000;

/// What can be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeRange {
    /// Least bytes.
    pub least: u64,
    /// Most bytes.
    pub most: u64,
}

impl SizeRange {
    /// Bytes of the unit of the number.
    fn unit(self) -> u64 {
        match self.most < GIGABYTES_FROM {
            true => 1_000_000,
            false => 1_000_000_000,
        }
    }

    /// The number with so many digits after the point, and the step of the keys.
    fn digits(self) -> (u32, f64) {
        let units = self.most / self.unit();
        match (self.unit(), units) {
            (1_000_000, _) => (0, 1.0),
            (_, ..50) => (1, 0.1),
            _ => (1, 1.0),
        }
    }

    /// The bytes of a number. The ends mean the limits, and the number of `known` means just those bytes.
    fn bytes(self, number: f64, known: u64) -> u64 {
        if number == self.number(known) {
            known
        } else if number >= self.number(self.most) {
            self.most
        } else if number <= self.number(self.least) {
            self.least
        } else {
            let bytes = (number * self.unit() as f64).round() as u64;
            bytes.clamp(self.least, self.most.max(self.least))
        }
    }

    /// The number that is shown for so many bytes, rounded to its digits.
    fn number(self, bytes: u64) -> f64 {
        let scale = 10_f64.powi(i32::try_from(self.digits().0).unwrap_or(0));
        (bytes as f64 / self.unit() as f64 * scale).round() / scale
    }
}

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct SizeRow {
        pub range: Cell<SizeRange>,
        /// The bytes that were set last, whose number may be rounded.
        pub known: Cell<u64>,
        pub parts: OnceCell<super::Parts>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for SizeRow {
        const NAME: &'static str = "TandemSizeRow";
        type Type = super::SizeRow;
        type ParentType = adw::Bin;
    }

    impl ObjectImpl for SizeRow {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| vec![Signal::builder("changed").build()])
        }

        fn constructed(&self) {
            self.parent_constructed();
            let parts = self.parts.get_or_init(|| super::parts(&self.obj()));
            parts.adjustment.connect_value_changed(clone!(
                #[weak(rename_to = row)]
                self.obj(),
                move |_| row.emit_by_name::<()>("changed", &[])
            ));
        }
    }

    impl WidgetImpl for SizeRow {}
    impl BinImpl for SizeRow {}
}

glib::wrapper! {
    /// A widget that asks for a size. Emits `changed` when the person, or the program, chooses another one.
    pub struct SizeRow(ObjectSubclass<imp::SizeRow>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl Default for SizeRow {
    fn default() -> Self {
        glib::Object::new()
    }
}

/// The widgets of a row.
#[derive(Debug)]
pub struct Parts {
    adjustment: gtk::Adjustment,
    number: gtk::SpinButton,
    unit: gtk::Label,
    note: gtk::Label,
}

fn parts(row: &SizeRow) -> Parts {
    let adjustment = gtk::Adjustment::new(0.0, 0.0, 0.0, 1.0, 10.0, 0.0);
    let title = gtk::Label::builder()
        .label(gettext("Size"))
        .xalign(0.0)
        .hexpand(true)
        .build();
    let number = gtk::SpinButton::builder()
        .adjustment(&adjustment)
        .numeric(true)
        .width_chars(7)
        .xalign(1.0)
        .valign(gtk::Align::Center)
        .build();
    a11y::set_label(&number, &gettext("Size"));
    let unit = gtk::Label::new(None);
    let line = gtk::Box::new(gtk::Orientation::Horizontal, 6);
    line.append(&title);
    line.append(&number);
    line.append(&unit);
    let slider = gtk::Scale::new(gtk::Orientation::Horizontal, Some(&adjustment));
    slider.set_draw_value(false);
    a11y::set_label(&slider, &gettext("Size"));
    let note = gtk::Label::builder()
        .xalign(0.0)
        .wrap(true)
        .css_classes(["dim-label", "caption"])
        .build();
    let all = gtk::Box::builder()
        .orientation(gtk::Orientation::Vertical)
        .spacing(6)
        .css_classes(["card", "size-row"])
        .build();
    all.append(&line);
    all.append(&slider);
    all.append(&note);
    row.set_child(Some(&all));
    Parts {
        adjustment,
        number,
        unit,
        note,
    }
}

impl SizeRow {
    /// Offers the sizes of `range`, with `bytes` chosen. `reason` says why just these bytes, and may be empty.
    pub fn offer(&self, range: SizeRange, bytes: u64, reason: &str) {
        let imp = self.imp();
        let Some(parts) = imp.parts.get() else { return };
        imp.range.set(range);
        imp.known.set(bytes);
        let (digits, step) = range.digits();
        let (least, most) = (range.number(range.least), range.number(range.most));
        parts.number.set_digits(digits);
        parts
            .adjustment
            .configure(range.number(bytes), least, most, step, 10.0 * step, 0.0);
        parts.unit.set_label(match range.unit() {
            1_000_000 => "MB",
            _ => "GB",
        });
        self.explain(reason);
    }

    /// Says why a size may be right, before the limits. `reason` may be empty.
    pub fn explain(&self, reason: &str) {
        let imp = self.imp();
        let Some(parts) = imp.parts.get() else { return };
        parts.note.set_label(&note(imp.range.get(), reason));
        a11y::set_description(&parts.number, &parts.note.label());
    }

    /// The chosen bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let imp = self.imp();
        let number = imp
            .parts
            .get()
            .map_or(0.0, |parts| parts.adjustment.value());
        imp.range.get().bytes(number, imp.known.get())
    }

    /// Calls `then` with the chosen bytes at each change.
    pub fn connect_changed(&self, then: impl Fn(u64) + 'static) {
        self.connect_closure(
            "changed",
            false,
            glib::closure_local!(move |row: &Self| then(row.bytes())),
        );
    }

    /// Chooses a size as the person does.
    pub fn choose(&self, bytes: u64) {
        let imp = self.imp();
        if let Some(parts) = imp.parts.get() {
            parts.adjustment.set_value(imp.range.get().number(bytes));
        }
    }
}

/// The limits, and the reason for the size that is offered first.
fn note(range: SizeRange, reason: &str) -> String {
    let limits = fill(
        &gettext("From {least} to {most}."),
        &[("least", &bytes(range.least)), ("most", &bytes(range.most))],
    );
    match reason {
        "" => limits,
        reason => format!("{reason} {limits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn the_ends_and_the_present_size_are_exact_and_all_others_are_within_the_limits() {
        for (least, most, known) in [
            (67_108_864, 250_059_350_016, 31_457_280_000),
            (67_108_864, 1_234_567_890, 500_000_001),
            (67_108_864, 2 * GB, 67_108_864),
            (67_108_864, 67_108_865, 67_108_865),
            (67_108_864, 12_345_678_901, 12_345_678_901),
        ] {
            let range = SizeRange { least, most };
            let (first, last) = (range.number(least), range.number(most));
            assert!(first <= last, "{range:?}");
            assert_eq!(range.bytes(range.number(known), known), known);
            for known in [known, 0] {
                for part in 0..=20 {
                    let number = first + (last - first) * f64::from(part) / 20.0;
                    let bytes = range.bytes(number, known);
                    let inside = (least..=most).contains(&bytes) || bytes == known;
                    assert!(inside, "{range:?}: {number} is {bytes}");
                }
                assert!([most, known].contains(&range.bytes(last, known)));
            }
        }
    }
}
