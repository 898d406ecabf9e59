// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows exactly what the plan will do, or why there is no plan.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib;
use tandem_api::{Failure, Mode, NameChange, PlanReply, Target};

use crate::display::{
    BackupSubject, Erased, SsdShare, backup_subject, backup_words, bytes, device_facts, fate_words,
    fill, mode_name, plan_title, target_words, time_words, warning_words,
};
use crate::widgets::error_view::ErrorView;
use crate::widgets::spinner::spin_while_mapped;
use crate::widgets::ssd_bar::SsdBar;
use crate::widgets::step_list::StepList;
use crate::widgets::warning_list::show_warnings;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "review_page.ui")]
    pub struct ReviewPage {
        #[template_child]
        pub stack: TemplateChild<gtk::Stack>,
        #[template_child]
        pub spinner: TemplateChild<gtk::Spinner>,
        #[template_child]
        pub error: TemplateChild<ErrorView>,
        #[template_child]
        pub origin: TemplateChild<gtk::Label>,
        #[template_child]
        pub origin_facts: TemplateChild<gtk::Label>,
        #[template_child]
        pub ssd: TemplateChild<gtk::Label>,
        #[template_child]
        pub ssd_facts: TemplateChild<gtk::Label>,
        #[template_child]
        pub bar: TemplateChild<SsdBar>,
        #[template_child]
        pub fate: TemplateChild<gtk::Label>,
        #[template_child]
        pub served: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub mode: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub next_start_list: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub next_start_row: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub next_start: TemplateChild<gtk::Switch>,
        #[template_child]
        pub warnings: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub steps: TemplateChild<StepList>,
        #[template_child]
        pub size: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub time: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub memory: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub backup: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub backup_check: TemplateChild<gtk::CheckButton>,
        #[template_child]
        pub backup_icon: TemplateChild<gtk::Image>,
        #[template_child]
        pub names: TemplateChild<adw::PreferencesGroup>,
        pub name_rows: RefCell<Vec<adw::ActionRow>>,
        pub name_changes: RefCell<Vec<NameChange>>,
        pub plan: RefCell<Option<PlanReply>>,
        /// The data that `plan` erases.
        pub erased: RefCell<Option<Erased>>,
        /// The subject of the promise of a backup.
        pub promise_of: RefCell<Option<BackupSubject>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ReviewPage {
        const NAME: &'static str = "TandemReviewPage";
        type Type = super::ReviewPage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            ErrorView::ensure_type();
            SsdBar::ensure_type();
            StepList::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ReviewPage {
        fn constructed(&self) {
            self.parent_constructed();
            spin_while_mapped(&self.spinner);
        }
    }
    impl WidgetImpl for ReviewPage {}
    impl BinImpl for ReviewPage {}
}

glib::wrapper! {
    /// The plan, which the person confirms.
    pub struct ReviewPage(ObjectSubclass<imp::ReviewPage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

/// What setting up at the next start means. `wish`: the mode that the person wishes.
fn next_start_words(is_root: bool, wish: Mode) -> String {
    let words = if is_root {
        gettext(
            "The running system is on this disk. The cache starts when you restart the computer.",
        )
    } else {
        gettext(
            "For a disk that is always in use, such as the one with your home folder. It stays in use until you restart the computer.",
        )
    };
    if wish != Mode::Writeback {
        return words;
    }
    let waits = gettext("Fast Saving waits: you can turn it on after the restart.");
    format!("{words} {waits}")
}

impl ReviewPage {
    /// Shows that the plan is being made.
    pub fn wait(&self) {
        self.imp().plan.replace(None);
        self.imp().stack.set_visible_child_name("waiting");
    }

    /// Shows why there is no plan.
    pub fn show_failure(&self, failure: &Failure) {
        self.imp().plan.replace(None);
        self.imp().error.show(failure);
        self.offer_name_changes(&[]);
        self.imp().stack.set_visible_child_name("failed");
    }

    /// Shows below the failure which names of the disk the service can change.
    pub fn offer_name_changes(&self, changes: &[NameChange]) {
        let imp = self.imp();
        let rows = changes.iter().map(|change| {
            let words = gettext("{after} instead of {before}");
            let fields = [
                ("after", change.after.as_str()),
                ("before", change.before.as_str()),
            ];
            adw::ActionRow::builder()
                .title(glib::markup_escape_text(&change.entry))
                .subtitle(glib::markup_escape_text(&fill(&words, &fields)))
                .build()
        });
        let rows: Vec<_> = rows.collect();
        for row in imp.name_rows.replace(rows.clone()) {
            imp.names.remove(&row);
        }
        for row in &rows {
            imp.names.add(row);
        }
        imp.names.set_visible(!changes.is_empty());
        imp.name_changes.replace(changes.to_vec());
    }

    /// The changes that are offered.
    #[must_use]
    pub fn name_changes(&self) -> Vec<NameChange> {
        self.imp().name_changes.borrow().clone()
    }

    /// Shows how the SSD is shared.
    pub fn show_shares(&self, shares: &[SsdShare]) {
        self.imp().bar.show(shares);
    }

    /// The plan that is shown.
    #[must_use]
    pub fn plan(&self) -> Option<PlanReply> {
        self.imp().plan.borrow().clone()
    }

    /// Calls `then` when the person chooses whether the cache is set up at the next start.
    pub fn connect_next_start(&self, then: impl Fn(bool) + 'static) {
        let page = self.downgrade();
        self.imp().next_start.connect_active_notify(move |switch| {
            // Showing a plan sets the switch, too.
            let shown = page.upgrade().and_then(|page| page.plan());
            if shown.is_some_and(|plan| plan.at_next_start != switch.is_active()) {
                then(switch.is_active());
            }
        });
    }

    /// What the plan that is shown erases.
    #[must_use]
    pub fn erased(&self) -> Option<Erased> {
        self.imp().erased.borrow().clone()
    }

    /// Shows this plan. `erased`: what the plan erases; `is_root`: the running system is on the disk; `wish`:
    /// the mode that the person wishes; `target`: what serves the cache.
    pub fn show_plan(
        &self,
        plan: PlanReply,
        erased: Option<Erased>,
        is_root: bool,
        wish: Mode,
        target: Target,
    ) {
        let imp = self.imp();
        let can_wait = !plan.mount_points.is_empty() && !plan.ssd.is_memory();
        imp.next_start_list
            .set_visible(can_wait || plan.at_next_start);
        imp.served.set_subtitle(&target_words(target).join("\n"));
        imp.served.set_visible(target == Target::DmCache);
        imp.next_start_row
            .set_subtitle(&next_start_words(is_root, wish));
        imp.next_start.set_sensitive(!is_root);
        imp.plan.replace(None);
        imp.next_start.set_active(plan.at_next_start);
        imp.origin.set_label(&plan_title(&plan.origin));
        imp.origin_facts.set_label(&device_facts(&plan.origin));
        // Of an SSD that is erased, the person knows what is on it now and not the partition that is made there.
        let ssd = erased.as_ref().map_or(&plan.ssd, |erased| &erased.device);
        imp.ssd.set_label(&plan_title(ssd));
        imp.ssd_facts.set_label(&device_facts(ssd));
        let class = if erased.is_some() { "erased" } else { "kept" };
        imp.fate.set_label(&fate_words(&plan));
        imp.fate.set_css_classes(&["pill-label", class]);
        imp.mode.set_subtitle(&mode_name(plan.mode));
        let words = |warning| warning_words(warning, erased.as_ref());
        let warnings: Vec<_> = plan.warnings.iter().map(words).collect();
        show_warnings(&imp.warnings, &warnings);
        imp.warnings.set_visible(!warnings.is_empty());
        imp.steps.show(&plan.steps);
        imp.size.set_subtitle(&bytes(plan.cache_bytes));
        imp.time.set_subtitle(&time_words(&plan));
        // The size says it for a cache in memory.
        imp.memory.set_visible(!plan.ssd.is_memory());
        imp.memory.set_subtitle(&fill(
            &gettext("{memory} while the cache runs"),
            &[("memory", &bytes(plan.memory_bytes))],
        ));
        self.ask_for_backup(&plan, erased.as_ref());
        imp.erased.replace(erased);
        imp.plan.replace(Some(plan));
        imp.stack.set_visible_child_name("plan");
    }

    /// Asks for the promise of a backup where the plan needs it. A promise holds for one disk, one SSD and one risk.
    fn ask_for_backup(&self, plan: &PlanReply, erased: Option<&Erased>) {
        let imp = self.imp();
        let words = backup_words(plan, erased);
        let subject = backup_subject(plan, erased);
        if imp.promise_of.replace(Some(subject.clone())) != Some(subject) {
            imp.backup_check.set_active(false);
        }
        imp.backup.set_title(&words.title);
        imp.backup.set_subtitle(&words.subtitle);
        imp.backup_check.set_visible(words.needed);
        imp.backup_icon.set_visible(!words.needed);
        let check = words.needed.then_some(&*imp.backup_check);
        imp.backup.set_activatable_widget(check);
        imp.backup.set_activatable(words.needed);
    }

    /// Whether the plan has the promise of a backup, or needs none.
    #[must_use]
    pub fn is_promised(&self) -> bool {
        let erased = self.erased();
        let needed = |plan: PlanReply| backup_words(&plan, erased.as_ref()).needed;
        let needed = self.plan().is_some_and(needed);
        !needed || self.imp().backup_check.is_active()
    }

    /// Calls `then` when the promise of a backup is given or taken back.
    pub fn connect_promised(&self, then: impl Fn() + 'static) {
        self.imp().backup_check.connect_toggled(move |_| then());
    }
}
