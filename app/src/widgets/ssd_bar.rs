// SPDX-License-Identifier: GPL-3.0-or-later
//! A bar of the shares of an SSD, with a legend under it.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib;

use crate::a11y;
use crate::display::{SsdShare, SsdUse, bytes, shares_words, summed_shares};

/// Least width of a share, so that the eye finds even a small one; the gap between two shares.
const LEAST: i32 = 4;
const GAP: i32 = 2;
const HEIGHT: i32 = 18;

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct Strip {
        pub parts: RefCell<Vec<(gtk::Box, u64)>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Strip {
        const NAME: &'static str = "TandemSsdStrip";
        type Type = super::Strip;
        type ParentType = gtk::Widget;

        fn class_init(class: &mut Self::Class) {
            class.set_accessible_role(gtk::AccessibleRole::Img);
        }
    }

    impl ObjectImpl for Strip {
        fn dispose(&self) {
            for (part, _) in self.parts.take() {
                part.unparent();
            }
        }
    }

    impl WidgetImpl for Strip {
        fn measure(&self, orientation: gtk::Orientation, _for_size: i32) -> (i32, i32, i32, i32) {
            let count = i32::try_from(self.parts.borrow().len()).unwrap_or(i32::MAX);
            let size = match orientation {
                gtk::Orientation::Horizontal => count.saturating_mul(LEAST + GAP),
                _ => HEIGHT,
            };
            (size, size, -1, -1)
        }

        fn size_allocate(&self, width: i32, height: i32, _baseline: i32) {
            let parts = self.parts.borrow();
            let sizes: Vec<u64> = parts.iter().map(|(_, bytes)| *bytes).collect();
            let mut x = 0;
            let is_mirrored = self.obj().direction() == gtk::TextDirection::Rtl;
            for ((part, _), wide) in parts.iter().zip(widths(&sizes, width)) {
                let left = if is_mirrored { width - x - wide } else { x };
                // GTK allocates only what was measured.
                part.measure(gtk::Orientation::Horizontal, -1);
                part.size_allocate(&gtk::Allocation::new(left, 0, wide, height), -1);
                x += wide + GAP;
            }
        }
    }

    #[derive(Default)]
    pub struct SsdBar {
        pub strip: StripChild,
        pub legend: RefCell<Option<gtk::FlowBox>>,
    }

    /// The strip of a bar.
    pub struct StripChild(pub super::Strip);

    impl Default for StripChild {
        fn default() -> Self {
            Self(glib::Object::new())
        }
    }

    #[glib::object_subclass]
    impl ObjectSubclass for SsdBar {
        const NAME: &'static str = "TandemSsdBar";
        type Type = super::SsdBar;
        type ParentType = adw::Bin;
    }

    impl ObjectImpl for SsdBar {
        fn constructed(&self) {
            self.parent_constructed();
            let legend = gtk::FlowBox::builder()
                .selection_mode(gtk::SelectionMode::None)
                .column_spacing(12)
                .row_spacing(3)
                .max_children_per_line(3)
                .accessible_role(gtk::AccessibleRole::Presentation)
                .build();
            let content = gtk::Box::new(gtk::Orientation::Vertical, 6);
            content.append(&self.strip.0);
            content.append(&legend);
            self.legend.replace(Some(legend));
            self.obj().set_child(Some(&content));
            self.obj().set_visible(false);
        }
    }

    impl WidgetImpl for SsdBar {}
    impl BinImpl for SsdBar {}
}

glib::wrapper! {
    /// Parts side by side, as wide as their sizes say.
    pub struct Strip(ObjectSubclass<imp::Strip>)
        @extends gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

glib::wrapper! {
    /// A widget that shows [`SsdShare`]s; hidden while there are none.
    pub struct SsdBar(ObjectSubclass<imp::SsdBar>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl Default for SsdBar {
    fn default() -> Self {
        glib::Object::new()
    }
}

impl SsdBar {
    /// Shows these shares.
    pub fn show(&self, shares: &[SsdShare]) {
        let imp = self.imp();
        self.set_visible(!shares.is_empty());
        let strip = &imp.strip.0;
        for (part, _) in strip.imp().parts.take() {
            part.unparent();
        }
        let parts = shares.iter().map(|share| {
            let part = gtk::Box::new(gtk::Orientation::Horizontal, 0);
            part.set_css_classes(&["ssd-share", class(&share.used_for)]);
            part.set_parent(strip);
            (part, share.bytes)
        });
        strip.imp().parts.replace(parts.collect());
        a11y::set_label(strip, &shares_words(shares));
        strip.queue_resize();
        let Some(legend) = imp.legend.borrow().clone() else {
            return;
        };
        while let Some(child) = legend.first_child() {
            legend.remove(&child);
        }
        for share in summed_shares(shares) {
            legend.insert(&entry(&share), -1);
            if let Some(child) = legend.last_child() {
                child.set_focusable(false);
            }
        }
    }
}

/// The colour, the name and the size of a share.
fn entry(share: &SsdShare) -> gtk::Box {
    let swatch = gtk::Box::builder()
        .valign(gtk::Align::Center)
        .css_classes(["legend", "ssd-share", class(&share.used_for)])
        .build();
    let name = gtk::Label::builder()
        .label(share.name())
        .xalign(0.0)
        .wrap(true)
        .wrap_mode(gtk::pango::WrapMode::WordChar)
        .build();
    let size = gtk::Label::builder()
        .label(bytes(share.bytes))
        .css_classes(["dim-label", "numeric"])
        .build();
    let row = gtk::Box::new(gtk::Orientation::Horizontal, 6);
    row.append(&swatch);
    row.append(&name);
    row.append(&size);
    row
}

fn class(used_for: &SsdUse) -> &'static str {
    match used_for {
        SsdUse::Other => "other",
        SsdUse::Cache(_) => "cache",
        SsdUse::New | SsdUse::Own(_) => "new",
        SsdUse::Free => "free",
    }
}

/// Widths of parts with these sizes in a strip of this width, with gaps between them.
fn widths(sizes: &[u64], width: i32) -> Vec<i32> {
    let count = i32::try_from(sizes.len()).unwrap_or(i32::MAX);
    let all: u64 = sizes.iter().sum();
    // Each part has its least width; the rest is shared by size.
    let rest = width - count.saturating_mul(LEAST) - (count - 1).saturating_mul(GAP);
    let rest = f64::from(rest.max(0));
    let end = |bytes: u64| (rest * bytes as f64 / all.max(1) as f64).round() as i32;
    let mut before = 0;
    let mut wide = Vec::new();
    for size in sizes {
        let after = before + size;
        wide.push(LEAST + end(after) - end(before));
        before = after;
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fill_the_strip_and_none_is_lost() {
        for sizes in [vec![1, 1], vec![1, 1_000_000, 5], vec![9], vec![0, 0]] {
            let wide = widths(&sizes, 300);
            let gaps = GAP * (sizes.len() as i32 - 1);
            let filled = wide.iter().sum::<i32>() + gaps;
            assert!(filled <= 300, "{sizes:?}: {wide:?}");
            assert!(filled == 300 || sizes.iter().all(|size| *size == 0));
            assert!(wide.iter().all(|wide| *wide >= LEAST));
        }
        assert!(widths(&[1, 3], 302)[1] > 2 * widths(&[1, 3], 302)[0]);
    }
}
