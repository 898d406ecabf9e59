// SPDX-License-Identifier: GPL-3.0-or-later
//! The wizard: owns the order of the pages and the one [`Draft`].
//!
//! The pages emit what was chosen. The wizard writes the choice to the draft, and the draft decides whether the button
//! can be pressed. While a call is under way the wizard is busy and ignores further clicks. The progress of the job is
//! shown as the service reports it.

mod fstab;
mod run;
mod sizes;
mod speed;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};
use tandem_api::SsdPart;

use crate::a11y;
use crate::client::Client;
use crate::display::{
    Choice, SizeOffer, SsdShare, fill, mode_warnings, origin_choices, ssd_choices, ssd_shares,
};
use crate::model::draft::{Draft, Page};
use crate::model::objects::{DeviceObject, JobObject};
use crate::model::store::{Store, objects};
use crate::widgets::resize_dialog::disk_names;
use crate::widgets::scrolled::scroll_to_end;
use crate::widgets::setup::backup_page::BackupPage;
use crate::widgets::setup::device_page::DevicePage;
use crate::widgets::setup::done_page::DonePage;
use crate::widgets::setup::mode_page::ModePage;
use crate::widgets::setup::progress_page::ProgressPage;
use crate::widgets::setup::summary_page::{SummaryPage, action_words, erases};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "wizard.ui")]
    pub struct Wizard {
        #[template_child]
        pub header: TemplateChild<adw::HeaderBar>,
        #[template_child]
        pub heading: TemplateChild<adw::WindowTitle>,
        #[template_child]
        pub back: TemplateChild<gtk::Button>,
        #[template_child]
        pub scroller: TemplateChild<gtk::ScrolledWindow>,
        #[template_child]
        pub pages: TemplateChild<gtk::Stack>,
        #[template_child]
        pub disk: TemplateChild<DevicePage>,
        #[template_child]
        pub ssd: TemplateChild<DevicePage>,
        #[template_child]
        pub mode: TemplateChild<ModePage>,
        #[template_child]
        pub backup: TemplateChild<BackupPage>,
        #[template_child]
        pub summary: TemplateChild<SummaryPage>,
        #[template_child]
        pub progress: TemplateChild<ProgressPage>,
        #[template_child]
        pub done: TemplateChild<DonePage>,
        #[template_child]
        pub primary: TemplateChild<gtk::Button>,
        #[template_child]
        pub test: TemplateChild<gtk::Button>,
        #[template_child]
        pub advise: TemplateChild<gtk::Button>,
        pub draft: RefCell<Draft>,
        pub page: Cell<Option<Page>>,
        pub busy: Cell<bool>,
        pub erase_delayed: Cell<bool>,
        pub client: OnceCell<Client>,
        pub store: OnceCell<Store>,
        /// The sizes that are offered for the chosen SSD.
        pub sizes: RefCell<Option<(String, SizeOffer)>>,
        /// How each SSD is divided, by block path.
        pub layouts: RefCell<HashMap<String, Vec<SsdPart>>>,
        pub store_changes: RefCell<Option<glib::SignalGroup>>,
        pub job_path: RefCell<Option<String>>,
        pub job: RefCell<Option<(JobObject, glib::SignalGroup)>>,
        pub ended: Cell<bool>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Wizard {
        const NAME: &'static str = "TandemWizard";
        type Type = super::Wizard;
        type ParentType = adw::Window;

        fn class_init(class: &mut Self::Class) {
            DevicePage::ensure_type();
            ModePage::ensure_type();
            BackupPage::ensure_type();
            SummaryPage::ensure_type();
            ProgressPage::ensure_type();
            DonePage::ensure_type();
            class.bind_template();
            class.install_action("wizard.test-speed", None, |wizard, _, _| {
                wizard.test_speed()
            });
            class.install_action("wizard.advise", None, |wizard, _, _| wizard.advise());
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for Wizard {
        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| {
                vec![
                    Signal::builder("show-cache")
                        .param_types([String::static_type()])
                        .build(),
                ]
            })
        }

        fn constructed(&self) {
            self.parent_constructed();
            self.obj().connect_pages();
            a11y::name_by_labels(&*self.obj());
        }
    }

    impl WidgetImpl for Wizard {}

    impl WindowImpl for Wizard {
        fn close_request(&self) -> glib::Propagation {
            // The wizard stays open while its job runs; the job can be cancelled.
            if self.page.get() == Some(Page::Progress) && !self.ended.get() {
                return glib::Propagation::Stop;
            }
            // The closed window may stay alive for a while.
            self.store_changes.take();
            self.parent_close_request()
        }
    }

    impl AdwWindowImpl for Wizard {}
}

glib::wrapper! {
    /// Asks for disk, SSD and mode, shows the plan, and shows the job. Emits `show-cache` with a uuid.
    pub struct Wizard(ObjectSubclass<imp::Wizard>)
        @extends adw::Window, gtk::Window, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget, gtk::Native, gtk::Root, gtk::ShortcutManager;
}

impl Wizard {
    /// Makes a wizard. With `origin`, the block path of a disk, the wizard begins at the choice of the SSD.
    #[must_use]
    pub fn new(client: Client, store: Store, origin: Option<&str>) -> Self {
        let wizard: Self = glib::Object::new();
        let imp = wizard.imp();
        let changed = clone!(
            #[weak]
            wizard,
            move |_: &Store| wizard.facts_changed()
        );
        imp.store_changes
            .replace(Some(store.follow_changes(changed)));
        // The client and the store are set only here.
        let _ = imp.client.set(client);
        let _ = imp.store.set(store);
        wizard.choose_origin(origin.map(str::to_owned));
        wizard.show_choices();
        let known = imp.draft.borrow().origin.is_some();
        wizard.go(if known { Page::Ssd } else { Page::Disk });
        wizard
    }

    /// Calls `then` with the uuid of the new cache when the person asks to see the cache.
    pub fn connect_show_cache(&self, then: impl Fn(String) + 'static) {
        self.connect_closure(
            "show-cache",
            false,
            glib::closure_local!(move |_: &Self, uuid: String| then(uuid)),
        );
    }

    fn connect_pages(&self) {
        let imp = self.imp();
        imp.disk.list().set_empty_words(&gettext(
            "No hard disk was found. Connect one, and it appears here.",
        ));
        imp.ssd.list().set_empty_words(&gettext(
            "No SSD was found. Connect one, and it appears here.",
        ));
        imp.disk.list().connect_chosen(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |path| {
                wizard.choose_origin(path);
                wizard.refresh();
            }
        ));
        imp.ssd.list().connect_chosen(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |path| {
                wizard.imp().draft.borrow_mut().choose_ssd(path);
                wizard.offer_sizes();
                wizard.show_shares();
                wizard.refresh();
                let page = &wizard.imp().ssd;
                if page.bar().is_visible() || page.size().is_visible() {
                    scroll_to_end(&wizard.imp().scroller);
                }
            }
        ));
        imp.ssd.size().connect_changed(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |bytes| wizard.choose_size(bytes)
        ));
        imp.mode.list().connect_chosen(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |mode| {
                wizard.imp().draft.borrow_mut().mode = mode;
                wizard.refresh();
                if !mode_warnings(mode).is_empty() {
                    scroll_to_end(&wizard.imp().scroller);
                }
            }
        ));
        imp.backup.connect_promised(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |promised| {
                wizard.imp().draft.borrow_mut().backup = promised;
                wizard.refresh();
            }
        ));
        imp.summary.connect_next_start(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |later| {
                wizard.imp().draft.borrow_mut().choose_next_start(later);
                wizard.make_plan();
            }
        ));
        imp.back.connect_clicked(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |_| wizard.go_back()
        ));
        imp.primary.connect_clicked(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |_| wizard.advance()
        ));
    }

    fn choose_origin(&self, path: Option<String>) {
        let same = self.imp().draft.borrow().origin == path;
        self.imp().draft.borrow_mut().choose_origin(path);
        if !same && self.origin_is_root() {
            self.imp().draft.borrow_mut().choose_next_start(true);
        }
    }

    fn page(&self) -> Page {
        self.imp().page.get().unwrap_or(Page::Disk)
    }

    fn choices(&self) -> (Vec<Choice>, Vec<Choice>) {
        let Some(store) = self.imp().store.get() else {
            return (vec![], vec![]);
        };
        let devices: Vec<_> = objects::<DeviceObject>(&store.devices())
            .map(|device| device.facts())
            .collect();
        let origin = self.imp().draft.borrow().origin.clone().unwrap_or_default();
        (
            origin_choices(&devices),
            ssd_choices(
                &devices,
                &self.imp().layouts.borrow(),
                &origin,
                store.minimum_ssd_bytes(),
            ),
        )
    }

    /// Shows the devices that can be chosen now. A chosen device that is gone is no longer chosen.
    fn show_choices(&self) {
        let imp = self.imp();
        let (origins, _) = self.choices();
        let draft = imp.draft.borrow().clone();
        imp.disk.list().show(origins, draft.origin.as_deref());
        let (_, ssds) = self.choices();
        imp.ssd.list().show(ssds, draft.ssd.as_deref());
        self.offer_sizes();
        self.show_shares();
    }

    /// Shows how the chosen SSD is shared, where it is.
    fn show_shares(&self) {
        let imp = self.imp();
        let shares = self.shares();
        imp.ssd.bar().show(&shares);
        imp.summary.show_shares(&shares);
    }

    fn shares(&self) -> Vec<SsdShare> {
        let imp = self.imp();
        let (Some(store), Some((ssd, bytes))) = (imp.store.get(), imp.draft.borrow().ssd_part())
        else {
            return vec![];
        };
        let disks = disk_names(store);
        // The chosen device may be a partition of the SSD.
        let layouts = imp.layouts.borrow();
        let has =
            |layout: &&Vec<SsdPart>| layout.iter().any(|part| part.device.object.as_str() == ssd);
        let layout = layouts.get(&ssd).or_else(|| layouts.values().find(has));
        layout.map_or_else(Vec::new, |layout| ssd_shares(layout, &ssd, bytes, &disks))
    }

    fn facts_changed(&self) {
        // A choice is taken back only while the person can choose again; on later pages the plan and the job tell of a
        // missing device.
        if matches!(
            self.page(),
            Page::Disk | Page::Ssd | Page::Mode | Page::Backup
        ) {
            self.show_choices();
        }
        self.look_for_job();
        self.offer_speed_test();
    }

    fn go(&self, page: Page) {
        let imp = self.imp();
        let forward = imp.page.get().is_none_or(|old| old.next() == Some(page));
        imp.pages.set_transition_type(if forward {
            gtk::StackTransitionType::SlideLeft
        } else {
            gtk::StackTransitionType::SlideRight
        });
        imp.page.set(Some(page));
        if page == Page::Ssd {
            self.show_choices();
            self.load_layouts();
        }
        if page == Page::Backup {
            let (origins, _) = self.choices();
            let draft = imp.draft.borrow().clone();
            let disk = origins
                .into_iter()
                .find(|choice| Some(&choice.path) == draft.origin.as_ref());
            imp.backup.ask(
                &disk.map(|choice| choice.title).unwrap_or_default(),
                draft.backup,
            );
        }
        imp.pages.set_visible_child_name(page.name());
        imp.scroller.vadjustment().set_value(0.0);
        let subtitle = page.step().map_or_else(String::new, |(step, steps)| {
            fill(
                &gettext("Step {step} of {steps}"),
                &[("step", &step.to_string()), ("steps", &steps.to_string())],
            )
        });
        imp.heading.set_subtitle(&subtitle);
        self.refresh();
        match page {
            Page::Mode => self.ask_modes(),
            Page::Summary => self.make_plan(),
            _ => {}
        }
        self.focus_page();
    }

    /// Puts the focus where the keyboard goes on: at the question, or at the button if the page has its answer. Where
    /// pressing the button has consequences, the focus is on the text, so that the keyboard can scroll it.
    fn focus_page(&self) {
        let imp = self.imp();
        let page = self.page();
        match page {
            Page::Summary | Page::Progress => imp.scroller.grab_focus(),
            page if imp.draft.borrow().is_answered(page) => imp.primary.grab_focus(),
            _ => imp.pages.child_focus(gtk::DirectionType::TabForward),
        };
    }

    fn go_back(&self) {
        if self.imp().busy.get() {
            return;
        }
        let previous = match self.page() {
            // The job has failed.
            Page::Progress if self.imp().ended.get() => Some(Page::Backup),
            page => page.previous(),
        };
        if let Some(page) = previous {
            self.go(page);
        }
    }

    /// Goes on: the button was pressed.
    fn advance(&self) {
        if self.imp().busy.get() || self.imp().erase_delayed.get() {
            return;
        }
        match self.page() {
            Page::Summary if self.imp().summary.plan().is_some() => self.begin(),
            Page::Summary if self.imp().summary.fstab_changes().is_empty() => self.make_plan(),
            Page::Summary => self.change_fstab(),
            Page::Progress if self.imp().ended.get() => self.go(Page::Summary),
            Page::Progress => self.cancel(),
            Page::Done => {
                if let Some(uuid) = self.job_facts().map(|job| job.cache_uuid) {
                    self.emit_by_name::<()>("show-cache", &[&uuid]);
                }
                self.close();
            }
            page => {
                if let (true, Some(next)) =
                    (self.imp().draft.borrow().is_answered(page), page.next())
                {
                    self.go(next);
                }
            }
        }
    }

    /// Sets buttons and title by page and draft.
    fn refresh(&self) {
        let imp = self.imp();
        let page = self.page();
        let job = self.job_facts();
        let plan = imp.summary.plan();
        let (words, class) = match (page, &plan) {
            (Page::Summary, Some(plan)) => (
                action_words(plan),
                if erases(plan) {
                    "destructive-action"
                } else {
                    "suggested-action"
                },
            ),
            (Page::Summary, None) if imp.busy.get() => (gettext("_Next"), "suggested-action"),
            (Page::Summary, None) if !imp.summary.fstab_changes().is_empty() => {
                (gettext("_Change /etc/fstab"), "suggested-action")
            }
            (Page::Summary, None) => (gettext("_Try Again"), "suggested-action"),
            (Page::Progress, _) if imp.ended.get() => (gettext("_Try Again"), "suggested-action"),
            (Page::Progress, _) => (gettext("_Cancel"), "regular"),
            (Page::Done, _) => (gettext("_Show Cache"), "suggested-action"),
            _ => (gettext("_Next"), "suggested-action"),
        };
        imp.primary.set_label(&words);
        // Enter presses the button from anywhere, unless the button ends or erases something.
        let harmless = class == "suggested-action";
        self.set_default_widget(harmless.then_some(&*imp.primary));
        // The label "Erase" with a long model has more than one line in a narrow window.
        if let Some(label) = imp.primary.child().and_downcast::<gtk::Label>() {
            label.set_wrap(true);
            label.set_justify(gtk::Justification::Center);
        }
        imp.primary.set_css_classes(&["pill", class]);
        let can = match page {
            Page::Progress if !imp.ended.get() => {
                job.is_some_and(|job| job.cancellable && !job.undoing)
            }
            page => imp.draft.borrow().is_answered(page),
        };
        imp.primary
            .set_sensitive(can && !imp.busy.get() && !imp.erase_delayed.get());
        let failed = page == Page::Progress && imp.ended.get();
        imp.back.set_visible(page.previous().is_some() || failed);
        imp.back.set_sensitive(!imp.busy.get());
        self.offer_speed_test();
        self.set_deletable(page != Page::Progress || failed);
    }

    fn set_busy(&self, busy: bool) {
        self.imp().busy.set(busy);
        self.refresh();
    }
}
