// SPDX-License-Identifier: GPL-3.0-or-later
//! The list of modes, one of which is chosen. Refused modes say why; the risky mode warns.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};
use tandem_api::{Mode, ModeRefusal, RefusedMode};

use crate::display::{
    MODES, Place, fill, mode_description, mode_name, mode_warnings, recommended, refusal,
};
use crate::widgets::warning_list::show_warnings;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "mode_list.ui")]
    pub struct ModeList {
        #[template_child]
        pub rows: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub warnings: TemplateChild<gtk::ListBox>,
        pub modes: RefCell<Vec<(Mode, adw::ActionRow, gtk::CheckButton)>>,
        pub chosen: Cell<Option<Mode>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ModeList {
        const NAME: &'static str = "TandemModeList";
        type Type = super::ModeList;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ModeList {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| vec![Signal::builder("chosen").build()])
        }

        fn constructed(&self) {
            self.parent_constructed();
            self.obj().build();
        }
    }

    impl WidgetImpl for ModeList {}
    impl BinImpl for ModeList {}
}

glib::wrapper! {
    /// All modes; emits `chosen` when a person chooses another.
    pub struct ModeList(ObjectSubclass<imp::ModeList>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl ModeList {
    fn build(&self) {
        let imp = self.imp();
        let mut modes = Vec::new();
        let mut group: Option<gtk::CheckButton> = None;
        for mode in MODES {
            let button = gtk::CheckButton::builder()
                .valign(gtk::Align::Center)
                .build();
            button.set_group(group.as_ref());
            group.get_or_insert_with(|| button.clone());
            button.connect_toggled(clone!(
                #[weak(rename_to = list)]
                self,
                move |button| if button.is_active() {
                    list.choose(mode);
                }
            ));
            let name = mode_name(mode);
            let title = if mode == recommended() {
                fill(&gettext("{mode} (recommended)"), &[("mode", &name)])
            } else {
                name
            };
            let row = adw::ActionRow::builder()
                .use_markup(false)
                .title(title)
                .subtitle(mode_description(mode, Place::Ssd))
                .title_lines(0)
                .subtitle_lines(0)
                .build();
            row.add_prefix(&button);
            row.set_activatable_widget(Some(&button));
            imp.rows.append(&row);
            modes.push((mode, row, button));
        }
        imp.modes.replace(modes);
    }

    /// The mode that is marked.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.imp().chosen.get().unwrap_or(recommended())
    }

    /// Marks this mode and enables those that are not refused; does not emit `chosen`.
    pub fn show(&self, mode: Mode, refused: &[RefusedMode]) {
        let imp = self.imp();
        imp.chosen.set(Some(mode));
        let place = Place::that_refuses(refused);
        for (of, row, button) in imp.modes.borrow().iter() {
            let why = refusal(*of, refused);
            let description = mode_description(*of, place);
            let offered = why.is_empty();
            // The row itself stays sensitive, so that the reason can be read.
            button.set_sensitive(offered);
            row.set_activatable(offered);
            if offered {
                row.remove_css_class("unavailable");
            } else {
                row.add_css_class("unavailable");
            }
            // Nothing that a person does makes such a mode possible in memory.
            let never = |r: &RefusedMode| r.mode == *of && r.reason == ModeRefusal::Memory;
            row.set_visible(!refused.iter().any(never));
            row.set_subtitle(if offered { &description } else { &why });
            if *of == mode {
                button.set_active(true);
            }
        }
        self.warn();
    }

    /// Calls `then` with the chosen mode.
    pub fn connect_chosen(&self, then: impl Fn(Mode) + 'static) {
        self.connect_closure(
            "chosen",
            false,
            glib::closure_local!(move |list: &Self| then(list.mode())),
        );
    }

    fn choose(&self, mode: Mode) {
        if self.imp().chosen.replace(Some(mode)) != Some(mode) {
            self.warn();
            self.emit_by_name::<()>("chosen", &[]);
        }
    }

    fn warn(&self) {
        let warnings = mode_warnings(self.mode());
        show_warnings(&self.imp().warnings, &warnings);
        self.imp().warnings.set_visible(!warnings.is_empty());
    }
}
