// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows what is chosen for the cache, each choice with its reason, and lets the person change it.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone};
use tandem_api::{Mode, RefusedMode, Target};

use crate::display::{Choice, Place, fill, mode_description, mode_name, target_words};
use crate::widgets::choice_list::ChoiceList;
use crate::widgets::mode_list::ModeList;
use crate::widgets::size_row::SizeRow;
use crate::widgets::ssd_bar::SsdBar;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "choices_page.ui")]
    pub struct ChoicesPage {
        #[template_child]
        pub title: TemplateChild<gtk::Label>,
        #[template_child]
        pub disk_row: TemplateChild<adw::ExpanderRow>,
        #[template_child]
        pub disk: TemplateChild<ChoiceList>,
        #[template_child]
        pub ssd_row: TemplateChild<adw::ExpanderRow>,
        #[template_child]
        pub ssd: TemplateChild<ChoiceList>,
        #[template_child]
        pub mode_row: TemplateChild<adw::ExpanderRow>,
        #[template_child]
        pub mode: TemplateChild<ModeList>,
        #[template_child]
        pub kernel_cache_row: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub kernel_cache: TemplateChild<gtk::Switch>,
        #[template_child]
        pub size: TemplateChild<SizeRow>,
        #[template_child]
        pub bar: TemplateChild<SsdBar>,
        #[template_child]
        pub more: TemplateChild<gtk::Box>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ChoicesPage {
        const NAME: &'static str = "TandemChoicesPage";
        type Type = super::ChoicesPage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            ChoiceList::ensure_type();
            ModeList::ensure_type();
            SizeRow::ensure_type();
            SsdBar::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ChoicesPage {
        fn constructed(&self) {
            self.parent_constructed();
            self.disk.set_empty_words(&gettext(
                "No hard disk was found. Connect one, and it appears here.",
            ));
            self.ssd.set_empty_words(&gettext(
                "No SSD was found. Connect one, and it appears here.",
            ));
            super::close_when_picked(&self.disk, &self.disk_row);
            super::close_when_picked(&self.ssd, &self.ssd_row);
        }
    }

    impl WidgetImpl for ChoicesPage {}
    impl BinImpl for ChoicesPage {}
}

glib::wrapper! {
    /// A row for each choice, which opens to change the choice.
    pub struct ChoicesPage(ObjectSubclass<imp::ChoicesPage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

/// Closes the row when the person has picked one of its list. The focus goes to the row, which says what is chosen now.
fn close_when_picked(list: &ChoiceList, row: &adw::ExpanderRow) {
    list.connect_picked(clone!(
        #[weak]
        row,
        move || {
            if let Some(head) = head(row.upcast_ref()) {
                head.grab_focus();
            }
            row.set_expanded(false);
        }
    ));
}

/// The part of an expander row that has the focus when its list is closed: the first row in it.
fn head(widget: &gtk::Widget) -> Option<adw::ActionRow> {
    let child = widget.first_child()?;
    child.clone().downcast().ok().or_else(|| head(&child))
}

/// Says in `row` what is chosen and what that means, or what to do. `kind`: what the row is for.
fn show_choice(
    row: &adw::ExpanderRow,
    kind: &str,
    choice: Option<(&Choice, &str)>,
    question: &str,
) {
    match choice {
        Some((choice, reason)) => {
            row.set_title(&named(kind, &choice.title));
            row.set_subtitle(&format!("{}\n{reason}", choice.subtitle));
        }
        None => {
            row.set_title(kind);
            row.set_subtitle(question);
        }
    }
}

fn named(kind: &str, name: &str) -> String {
    // Translators: a choice of the wizard, for example "Hard Disk: Archive"
    let words = gettext("{kind}: {name}");
    fill(&words, &[("kind", kind), ("name", name)])
}

impl ChoicesPage {
    /// The list of disks, which emits the chosen one.
    #[must_use]
    pub fn disk(&self) -> ChoiceList {
        self.imp().disk.get()
    }

    /// The list of SSDs, which emits the chosen one.
    #[must_use]
    pub fn ssd(&self) -> ChoiceList {
        self.imp().ssd.get()
    }

    /// The list of modes, which emits the chosen one.
    #[must_use]
    pub fn mode(&self) -> ModeList {
        self.imp().mode.get()
    }

    /// The size of the cache; hidden where there is no choice.
    #[must_use]
    pub fn size(&self) -> SizeRow {
        self.imp().size.get()
    }

    /// The shares of the chosen SSD.
    #[must_use]
    pub fn bar(&self) -> SsdBar {
        self.imp().bar.get()
    }

    /// Puts the focus on the list of the first open question; false if there is none.
    pub fn focus_question(&self) -> bool {
        let imp = self.imp();
        let mut lists = [&imp.disk, &imp.ssd].into_iter();
        let open = lists.find(|list| list.is_mapped() && !list.has_choice());
        open.is_some_and(|list| list.child_focus(gtk::DirectionType::TabForward))
    }

    /// Shows these disks. While none is chosen, their list is open.
    pub fn show_disks(&self, choices: Vec<Choice>, chosen: Option<&str>) {
        let imp = self.imp();
        let choice = choices.iter().find(|choice| Some(&*choice.path) == chosen);
        let title = match choice {
            Some(choice) => fill(&gettext("Speed Up {disk}"), &[("disk", &choice.title)]),
            None => gettext("Speed Up a Hard Disk"),
        };
        imp.title.set_label(&title);
        let question = gettext("Choose the disk that is too slow.");
        let reason = gettext("Your files stay on it.");
        let said = choice.map(|choice| (choice, &*reason));
        show_choice(&imp.disk_row, &gettext("Hard Disk"), said, &question);
        if choice.is_none() {
            imp.disk_row.set_expanded(true);
        }
        imp.more.set_visible(choice.is_some());
        imp.disk.show(choices, chosen);
    }

    /// Shows these SSDs. While none is chosen, their list is open as soon as all of them are `known`.
    pub fn show_ssds(&self, choices: Vec<Choice>, chosen: Option<&str>, known: bool) {
        let imp = self.imp();
        let choice = choices.iter().find(|choice| Some(&*choice.path) == chosen);
        let is_usable = |choice: &Choice| choice.is_open() && !choice.is_memory();
        let question = if choices.iter().any(is_usable) {
            gettext("Choose an SSD. Each of them says what would be erased.")
        } else {
            gettext("No SSD can be used now.")
        };
        let question = if known {
            question
        } else {
            gettext("Looking at the SSDs…")
        };
        let said = choice.map(|choice| (choice, &*choice.reason));
        show_choice(&imp.ssd_row, &gettext("SSD"), said, &question);
        if let Some(choice) = choice.filter(|choice| choice.is_memory()) {
            imp.ssd_row.set_title(&choice.title);
        }
        if choice.is_none() && known {
            imp.ssd_row.set_expanded(true);
        }
        imp.ssd.show(choices, chosen);
    }

    /// Shows this mode as the chosen one, and the modes that are refused. `target`: what serves the cache.
    pub fn show_mode(&self, mode: Mode, target: Target, refused: &[RefusedMode]) {
        let imp = self.imp();
        let title = named(&gettext("Mode"), &mode_name(mode));
        imp.mode_row.set_title(&title);
        let place = Place::that_refuses(refused);
        let mut lines = vec![mode_description(mode, place)];
        if target == Target::DmCache {
            let [by, known] = target_words(target);
            lines.push(format!("{}. {known}", named(&gettext("Served by"), &by)));
        }
        imp.mode_row.set_subtitle(&lines.join("\n"));
        imp.mode.show(mode, refused);
    }

    /// Shows or hides the choice of what serves the cache, and shows `target` as chosen.
    pub fn show_kernel_cache(&self, is_choice: bool, target: Target) {
        let imp = self.imp();
        imp.kernel_cache_row.set_visible(is_choice);
        imp.kernel_cache.set_active(target == Target::DmCache);
    }

    /// Calls `then` with what is to serve the cache whenever the switch changes, also when the program sets it.
    pub fn connect_kernel_cache(&self, then: impl Fn(Target) + 'static) {
        let switch = &self.imp().kernel_cache;
        switch.connect_active_notify(move |switch| {
            then(match switch.is_active() {
                true => Target::DmCache,
                false => Target::Tandem,
            });
        });
    }
}
