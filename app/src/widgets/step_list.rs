// SPDX-License-Identifier: GPL-3.0-or-later
//! The steps of a plan, numbered. While a job runs, the list marks the steps that are done and the step under way.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use tandem_api::Step;

use crate::a11y;
use crate::display::step_words;
use crate::widgets::spinner::spin_while_mapped;

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct StepList {
        pub list: gtk::ListBox,
        pub marks: RefCell<Vec<gtk::Stack>>,
        pub steps: RefCell<Vec<Step>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for StepList {
        const NAME: &'static str = "TandemStepList";
        type Type = super::StepList;
        type ParentType = adw::Bin;
    }

    impl ObjectImpl for StepList {
        fn constructed(&self) {
            self.parent_constructed();
            self.list.set_selection_mode(gtk::SelectionMode::None);
            self.list.add_css_class("boxed-list");
            self.obj().set_child(Some(&self.list));
        }
    }

    impl WidgetImpl for StepList {}
    impl BinImpl for StepList {}
}

glib::wrapper! {
    /// A list of steps.
    pub struct StepList(ObjectSubclass<imp::StepList>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl StepList {
    /// Shows these steps, with no step begun.
    pub fn show(&self, steps: &[Step]) {
        let imp = self.imp();
        if *imp.steps.borrow() == steps && !imp.marks.borrow().is_empty() {
            return;
        }
        while let Some(row) = imp.list.first_child() {
            imp.list.remove(&row);
        }
        let mut marks = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let (title, subtitle) = step_words(step);
            let row = adw::ActionRow::builder()
                .use_markup(false)
                .title(&title)
                .subtitle(&subtitle)
                .title_lines(0)
                .subtitle_lines(0)
                .build();
            let mark = mark(place + 1);
            row.add_prefix(&mark);
            imp.list.append(&row);
            marks.push(mark);
        }
        imp.marks.replace(marks);
        imp.steps.replace(steps.to_vec());
    }

    /// Marks the steps before `index` as done and the step at `index` as under way.
    pub fn set_index(&self, index: usize) {
        for (place, mark) in self.imp().marks.borrow().iter().enumerate() {
            let (name, words) = match place.cmp(&index) {
                std::cmp::Ordering::Less => ("done", gettext("Done")),
                std::cmp::Ordering::Equal => ("busy", gettext("In progress")),
                std::cmp::Ordering::Greater => ("number", String::new()),
            };
            mark.set_visible_child_name(name);
            a11y::set_label(mark, &words);
        }
    }
}

fn mark(number: usize) -> gtk::Stack {
    let stack = gtk::Stack::builder()
        .valign(gtk::Align::Center)
        .width_request(24)
        .build();
    let label = gtk::Label::builder().label(number.to_string()).build();
    label.add_css_class("step-number");
    label.set_halign(gtk::Align::Center);
    let spinner = gtk::Spinner::new();
    spin_while_mapped(&spinner);
    let done = gtk::Image::builder()
        .icon_name("object-select-symbolic")
        .build();
    done.add_css_class("success");
    stack.add_named(&label, Some("number"));
    stack.add_named(&spinner, Some("busy"));
    stack.add_named(&done, Some("done"));
    stack
}
