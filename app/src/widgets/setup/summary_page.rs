// SPDX-License-Identifier: GPL-3.0-or-later
//! Shows exactly what the plan will do, or why there is no plan.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib;
use tandem_api::{Failure, FstabChange, PlanReply, Step, StepKind};

use crate::display::{
    SsdShare, bytes, device_facts, fill, keyless, mode_name, plan_title, short_name, warning_words,
};
use crate::widgets::error_view::ErrorView;
use crate::widgets::spinner::spin_while_mapped;
use crate::widgets::ssd_bar::SsdBar;
use crate::widgets::step_list::StepList;
use crate::widgets::warning_list::show_warnings;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "summary_page.ui")]
    pub struct SummaryPage {
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
        pub memory: TemplateChild<gtk::Label>,
        #[template_child]
        pub fstab: TemplateChild<adw::PreferencesGroup>,
        pub fstab_rows: RefCell<Vec<adw::ActionRow>>,
        pub fstab_changes: RefCell<Vec<FstabChange>>,
        pub plan: RefCell<Option<PlanReply>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for SummaryPage {
        const NAME: &'static str = "TandemSummaryPage";
        type Type = super::SummaryPage;
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

    impl ObjectImpl for SummaryPage {
        fn constructed(&self) {
            self.parent_constructed();
            spin_while_mapped(&self.spinner);
        }
    }
    impl WidgetImpl for SummaryPage {}
    impl BinImpl for SummaryPage {}
}

glib::wrapper! {
    /// The plan, which the person confirms.
    pub struct SummaryPage(ObjectSubclass<imp::SummaryPage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

/// Whether a plan erases data that may be of value.
#[must_use]
pub fn erases(plan: &PlanReply) -> bool {
    plan.steps
        .iter()
        .any(|step| step.kind == StepKind::EraseSsd)
}

/// The label of the button that begins the job: a verb with its object, and a mnemonic.
#[must_use]
pub fn action_words(plan: &PlanReply) -> String {
    if erases(plan) {
        fill(
            &gettext("_Erase {model} and Set Up"),
            &[("model", &keyless(&short_name(&plan.ssd)))],
        )
    } else if plan.at_next_start {
        gettext("_Set Up at the Next Start")
    } else {
        gettext("_Set Up the Cache")
    }
}

/// What setting up at the next start means.
fn next_start_words(is_root: bool) -> String {
    if is_root {
        gettext(
            "The running system is on this disk. The cache starts when you restart the computer.",
        )
    } else {
        gettext(
            "For a disk that is always in use, such as the one with your home folder. It stays in use until you restart the computer.",
        )
    }
}

impl SummaryPage {
    /// Shows that the plan is being made.
    pub fn wait(&self) {
        self.imp().plan.replace(None);
        self.imp().stack.set_visible_child_name("waiting");
    }

    /// Shows why there is no plan.
    pub fn show_failure(&self, failure: &Failure) {
        self.imp().plan.replace(None);
        self.imp().error.show(failure);
        self.offer_fstab_changes(&[]);
        self.imp().stack.set_visible_child_name("failed");
    }

    /// Shows below the failure which entries of fstab the service can change.
    pub fn offer_fstab_changes(&self, changes: &[FstabChange]) {
        let imp = self.imp();
        let rows = changes.iter().map(|change| {
            let words = gettext("{after} instead of {before}");
            let fields = [
                ("after", change.after.as_str()),
                ("before", change.before.as_str()),
            ];
            adw::ActionRow::builder()
                .title(glib::markup_escape_text(&change.point))
                .subtitle(glib::markup_escape_text(&fill(&words, &fields)))
                .build()
        });
        let rows: Vec<_> = rows.collect();
        for row in imp.fstab_rows.replace(rows.clone()) {
            imp.fstab.remove(&row);
        }
        for row in &rows {
            imp.fstab.add(row);
        }
        imp.fstab.set_visible(!changes.is_empty());
        imp.fstab_changes.replace(changes.to_vec());
    }

    /// The changes that are offered.
    #[must_use]
    pub fn fstab_changes(&self) -> Vec<FstabChange> {
        self.imp().fstab_changes.borrow().clone()
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

    /// Shows this plan. `names` are the names of the volumes on the SSD; `is_root`: the running system is on the disk.
    pub fn show_plan(&self, plan: PlanReply, names: &[String], is_root: bool) {
        let imp = self.imp();
        let mounted = !plan.mount_points.is_empty();
        imp.next_start_list
            .set_visible(mounted || plan.at_next_start);
        imp.next_start_row.set_subtitle(&next_start_words(is_root));
        imp.next_start.set_sensitive(!is_root);
        imp.plan.replace(None);
        imp.next_start.set_active(plan.at_next_start);
        imp.origin.set_label(&plan_title(&plan.origin));
        imp.origin_facts.set_label(&device_facts(&plan.origin));
        imp.ssd.set_label(&plan_title(&plan.ssd));
        imp.ssd_facts.set_label(&device_facts(&plan.ssd));
        let (fate, class) = if erases(&plan) {
            (gettext("Will be erased"), "erased")
        } else {
            let made = |step: &Step| step.kind == StepKind::CreatePartition;
            let words = if plan.steps.iter().any(made) {
                gettext("A new partition in free space")
            } else {
                gettext("Empty, will be used")
            };
            (words, "kept")
        };
        imp.fate.set_label(&fate);
        imp.fate.set_css_classes(&["pill-label", class]);
        imp.mode.set_subtitle(&mode_name(plan.mode));
        let words = |warning| warning_words(warning, names);
        let warnings: Vec<_> = plan.warnings.iter().map(words).collect();
        show_warnings(&imp.warnings, &warnings);
        imp.warnings.set_visible(!warnings.is_empty());
        imp.steps.show(&plan.steps);
        imp.memory.set_label(&fill(
            &gettext("The cache holds {cache} and needs {memory} of memory while it runs."),
            &[
                ("cache", &bytes(plan.cache_bytes)),
                ("memory", &bytes(plan.memory_bytes)),
            ],
        ));
        imp.plan.replace(Some(plan));
        imp.stack.set_visible_child_name("plan");
    }
}
