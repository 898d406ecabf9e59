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
                        .param_types([Option::<String>::static_type()])
                        .build(),
                ]
            })
        }
    }

    impl WidgetImpl for ChoiceList {}
    impl BinImpl for ChoiceList {}
}

glib::wrapper! {
    /// A list of [`Choice`]s; emits `chosen` with the block path, or with none if the chosen device is gone.
    pub struct ChoiceList(ObjectSubclass<imp::ChoiceList>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl ChoiceList {
    /// Sets the words that are shown while the list is empty.
    pub fn set_empty_words(&self, words: &str) {
        self.imp().empty.set_label(words);
    }

    /// Shows these choices and marks `chosen` if it can be chosen; if not, emits that nothing is chosen.
    pub fn show(&self, choices: Vec<Choice>, chosen: Option<&str>) {
        let open = |path: &str| {
            choices
                .iter()
                .any(|choice| choice.path == path && choice.is_open())
        };
        let kept = chosen.filter(|path| open(path)).map(str::to_owned);
        let lost = chosen.is_some() && kept.is_none();
        let imp = self.imp();
        let same = *imp.choices.borrow() == choices && *imp.chosen.borrow() == kept;
        if !same || choices.is_empty() {
            imp.chosen.replace(kept);
            imp.choices.replace(choices);
            self.build();
        }
        if lost {
            self.emit_by_name::<()>("chosen", &[&Option::<String>::None]);
        }
    }

    /// Calls `then` with the block path of the chosen device, or with none.
    pub fn connect_chosen(&self, then: impl Fn(Option<String>) + 'static) {
        self.connect_closure(
            "chosen",
            false,
            glib::closure_local!(move |_: &Self, path: Option<String>| then(path)),
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
                    list.emit_by_name::<()>("chosen", &[&Some(path.clone())]);
                }
            ));
            let row = row(choice, &button);
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
    let subtitle = if choice.is_open() {
        choice.subtitle.clone()
    } else {
        format!("{}\n{}", choice.subtitle, choice.obstacle)
    };
    let row = adw::ActionRow::builder()
        .use_markup(false)
        .title(&choice.title)
        .subtitle(&subtitle)
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
