// SPDX-License-Identifier: GPL-3.0-or-later
//! A list of devices from which the person chooses one. Devices that cannot be chosen are shown with the reason.

use std::cell::RefCell;
use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};

use crate::display::Choice;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "choice_list.ui")]
    pub struct ChoiceList {
        #[template_child]
        pub rows: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub empty: TemplateChild<gtk::Label>,
        pub choices: RefCell<Vec<Choice>>,
        pub chosen: RefCell<Option<String>>,
        /// A button that is never shown. With it in their group the buttons of the rows look and act as radio buttons,
        /// even where there is only one row.
        pub group: gtk::CheckButton,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ChoiceList {
        const NAME: &'static str = "TandemChoiceList";
        type Type = super::ChoiceList;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ChoiceList {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| {
                vec![
                    Signal::builder("chosen")
                        .param_types([String::static_type()])
                        .build(),
                    Signal::builder("picked").build(),
                ]
            })
        }
    }

    impl WidgetImpl for ChoiceList {}
    impl BinImpl for ChoiceList {}
}

glib::wrapper! {
    /// A list of [`Choice`]s. Emits `chosen` with the block path when another one is chosen. Emits `picked` after a press
    /// on a row, also on the chosen one, and not when the arrow keys go from one button to the next.
    pub struct ChoiceList(ObjectSubclass<imp::ChoiceList>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl ChoiceList {
    /// Sets the words that are shown while the list is empty.
    pub fn set_empty_words(&self, words: &str) {
        self.imp().empty.set_label(words);
    }

    /// Shows these choices and marks `chosen`; emits nothing.
    pub fn show(&self, choices: Vec<Choice>, chosen: Option<&str>) {
        let imp = self.imp();
        let chosen = chosen.map(str::to_owned);
        let same = *imp.choices.borrow() == choices && *imp.chosen.borrow() == chosen;
        if !same || choices.is_empty() {
            imp.chosen.replace(chosen);
            imp.choices.replace(choices);
            self.build();
        }
    }

    /// Whether something is chosen.
    #[must_use]
    pub fn has_choice(&self) -> bool {
        self.imp().chosen.borrow().is_some()
    }

    /// Calls `then` with the block path of the chosen device.
    pub fn connect_chosen(&self, then: impl Fn(String) + 'static) {
        self.connect_closure(
            "chosen",
            false,
            glib::closure_local!(move |_: &Self, path: String| then(path)),
        );
    }

    /// Calls `then` after a press on a row that can be chosen.
    pub fn connect_picked(&self, then: impl Fn() + 'static) {
        self.connect_closure(
            "picked",
            false,
            glib::closure_local!(move |_: &Self| then()),
        );
    }

    fn build(&self) {
        let imp = self.imp();
        let focused = self.focused_path();
        while let Some(row) = imp.rows.first_child() {
            imp.rows.remove(&row);
        }
        let choices = imp.choices.borrow();
        imp.rows.set_visible(!choices.is_empty());
        imp.empty.set_visible(choices.is_empty());
        let chosen = imp.chosen.borrow();
        imp.group.set_active(true);
        for choice in choices.iter() {
            let button = gtk::CheckButton::builder()
                .valign(gtk::Align::Center)
                // A press on the button is one on the row.
                .can_target(false)
                .group(&imp.group)
                .sensitive(choice.is_open())
                .build();
            button.set_active(chosen.as_deref() == Some(&choice.path));
            button.connect_toggled(clone!(
                #[weak(rename_to = list)]
                self,
                #[strong(rename_to = path)]
                choice.path,
                move |button| if button.is_active() {
                    list.imp().chosen.replace(Some(path.clone()));
                    list.emit_by_name::<()>("chosen", &[&path]);
                }
            ));
            let row = row(choice, &button);
            row.connect_activated(clone!(
                #[weak(rename_to = list)]
                self,
                move |_| list.emit_by_name::<()>("picked", &[])
            ));
            row.set_widget_name(&choice.path);
            imp.rows.append(&row);
            if focused.as_deref() == Some(&choice.path) {
                row.grab_focus();
            }
        }
    }

    /// Block path of the row with the focus. That row keeps the focus when the list changes.
    fn focused_path(&self) -> Option<String> {
        let row = self.imp().rows.focus_child()?;
        let focus = self.root()?.focus()?;
        (focus == row || focus.is_ancestor(&row)).then(|| row.widget_name().to_string())
    }
}

fn row(choice: &Choice, button: &gtk::CheckButton) -> adw::ActionRow {
    let why = if choice.is_open() {
        &choice.reason
    } else {
        &choice.obstacle
    };
    let lines = [&choice.subtitle, why].into_iter();
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).cloned().collect();
    let row = adw::ActionRow::builder()
        .use_markup(false)
        .title(&choice.title)
        .subtitle(lines.join("\n"))
        .subtitle_lines(0)
        .title_lines(0)
        .build();
    row.add_prefix(
        &gtk::Image::builder()
            .icon_name(choice.icon)
            .margin_start(6)
            .margin_end(6)
            .build(),
    );
    row.add_prefix(button);
    // This also gives the button the name of the row.
    row.set_activatable_widget(Some(button));
    if !choice.is_open() {
        // The row stays sensitive: the keyboard reaches it, so that its reason can be read.
        row.set_activatable(false);
        row.add_css_class("unavailable");
    }
    row
}
