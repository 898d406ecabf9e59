// SPDX-License-Identifier: GPL-3.0-or-later
//! The wizard: owns the order of the pages and the one [`Draft`].
//!
//! The first page shows a choice for the usual case, see [`crate::model::offer`], and emits what the person chooses
//! instead. The wizard writes each choice to the draft, and the draft decides whether the button can be pressed. While a call is under way the wizard is busy and ignores further clicks. The progress of the job is
//! shown as the service reports it.

mod choices;
mod names;
mod run;
mod sizes;
mod speed;

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::OnceLock;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone, subclass::Signal};
use tandem_api::{PlanReply, PlanSpec, RefusedMode, Target};

use crate::a11y;
use crate::client::Client;
use crate::display::{SizeOffer, action_words, erases, fill};
use crate::model::draft::{Draft, Page};
use crate::model::layouts::Layouts;
use crate::model::objects::JobObject;
use crate::model::offer::suggested_origin;
use crate::model::store::Store;
use crate::widgets::setup::choices_page::ChoicesPage;
use crate::widgets::setup::done_page::DonePage;
use crate::widgets::setup::progress_page::ProgressPage;
use crate::widgets::setup::review_page::ReviewPage;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "wizard.ui")]
    pub struct Wizard {
        #[template_child]
        pub back: TemplateChild<gtk::Button>,
        #[template_child]
        pub scroller: TemplateChild<gtk::ScrolledWindow>,
        #[template_child]
        pub pages: TemplateChild<gtk::Stack>,
        #[template_child]
        pub choices: TemplateChild<ChoicesPage>,
        #[template_child]
        pub review: TemplateChild<ReviewPage>,
        #[template_child]
        pub progress: TemplateChild<ProgressPage>,
        #[template_child]
        pub done: TemplateChild<DonePage>,
        #[template_child]
        pub primary: TemplateChild<gtk::Button>,
        pub draft: RefCell<Draft>,
        pub page: Cell<Option<Page>>,
        pub busy: Cell<bool>,
        pub erase_delayed: Cell<bool>,
        /// The timer that ends `erase_delayed`.
        pub erase_timer: RefCell<Option<glib::SourceId>>,
        /// The service was asked to begin the job, and has not answered.
        pub begins: Cell<bool>,
        /// The plan of the job.
        pub begun: RefCell<Option<PlanReply>>,
        pub client: OnceCell<Client>,
        pub store: OnceCell<Store>,
        /// The sizes that are offered for the chosen SSD.
        pub sizes: RefCell<Option<(String, SizeOffer)>>,
        /// How each SSD is divided.
        pub layouts: RefCell<Layouts>,
        /// The service is being asked for `layouts`.
        pub loads_layouts: Cell<bool>,
        /// All of `layouts` were asked for.
        pub layouts_known: Cell<bool>,
        /// The plan whose refused modes were asked for; its size is 1 byte for any part of an SSD.
        pub asked: RefCell<Option<PlanSpec>>,
        /// The modes that are refused for `asked`.
        pub refused_modes: RefCell<Vec<RefusedMode>>,
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
            ChoicesPage::ensure_type();
            ReviewPage::ensure_type();
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
            // The wizard stays open while its job begins and runs; the job can be cancelled.
            let runs = self.page.get() == Some(Page::Progress) && !self.ended.get();
            if runs || self.begins.get() {
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
    /// A widget that shows the choices, the plan made of them, and the job. Emits `show-cache` with a uuid.
    pub struct Wizard(ObjectSubclass<imp::Wizard>)
        @extends adw::Window, gtk::Window, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget, gtk::Native, gtk::Root, gtk::ShortcutManager;
}

impl Wizard {
    /// Makes a wizard. `origin`: the block path of the disk to speed up, if that is known; `target`: what serves the cache.
    #[must_use]
    pub fn new(client: Client, store: Store, origin: Option<&str>, target: Target) -> Self {
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
        imp.draft.borrow_mut().target = target;
        let origin = origin.map(str::to_owned);
        wizard.choose_origin(origin.or_else(|| suggested_origin(&wizard.devices())));
        wizard.go(Page::Choices);
        // A list that has just been opened takes the focus only on the screen.
        wizard.connect_map(Self::focus_page);
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
        self.connect_choices();
        imp.review.connect_promised(clone!(
            #[weak(rename_to = wizard)]
            self,
            move || wizard.refresh()
        ));
        imp.review.connect_next_start(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |later| {
                wizard.imp().draft.borrow_mut().at_next_start = later;
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

    fn page(&self) -> Page {
        self.imp().page.get().unwrap_or(Page::Choices)
    }

    fn facts_changed(&self) {
        // A choice is taken back only while the person can choose again; on later pages the plan and the job tell of a
        // missing device.
        if self.page() == Page::Choices {
            self.show_choices();
        }
        self.look_for_job();
        self.offer_speed_test();
    }

    fn go(&self, page: Page) {
        let imp = self.imp();
        imp.pages.set_transition_type(if page == Page::Choices {
            gtk::StackTransitionType::SlideRight
        } else {
            gtk::StackTransitionType::SlideLeft
        });
        imp.page.set(Some(page));
        imp.pages.set_visible_child_name(page.name());
        imp.scroller.vadjustment().set_value(0.0);
        self.refresh();
        match page {
            Page::Choices => self.show_choices(),
            Page::Review => self.make_plan(),
            Page::Progress | Page::Done => {}
        }
        self.focus_page();
    }

    /// Puts the focus where the keyboard goes on: at the question, or at the button if all is chosen. Where pressing the
    /// button has consequences, the focus is on the text, so that the keyboard can scroll it.
    fn focus_page(&self) {
        let imp = self.imp();
        match self.page() {
            Page::Review | Page::Progress => imp.scroller.grab_focus(),
            Page::Choices if imp.choices.focus_question() => true,
            Page::Choices | Page::Done => imp.primary.grab_focus(),
        };
    }

    fn go_back(&self) {
        if !self.imp().busy.get() {
            self.go(Page::Choices);
        }
    }

    /// Goes on: the button was pressed.
    fn advance(&self) {
        if self.imp().busy.get() || self.imp().erase_delayed.get() {
            return;
        }
        match self.page() {
            Page::Review if !self.imp().review.is_promised() => {}
            Page::Review if self.imp().review.plan().is_some() => self.begin(),
            Page::Review if self.imp().review.name_changes().is_empty() => self.make_plan(),
            Page::Review => self.change_names(),
            Page::Progress if self.imp().ended.get() => self.go(Page::Review),
            Page::Progress => self.cancel(),
            Page::Done => {
                if let Some(uuid) = self.job_facts().map(|job| job.cache_uuid) {
                    self.emit_by_name::<()>("show-cache", &[&uuid]);
                }
                self.close();
            }
            Page::Choices => {
                let complete = self.imp().draft.borrow().is_complete();
                if complete {
                    self.go(Page::Review);
                }
            }
        }
    }

    /// Sets buttons and title by page and draft.
    fn refresh(&self) {
        let imp = self.imp();
        let page = self.page();
        let job = self.job_facts();
        let plan = imp.review.plan();
        let (words, class) = match (page, &plan) {
            (Page::Review, Some(plan)) => (
                action_words(plan, imp.review.erased().as_ref()),
                if erases(plan) {
                    "destructive-action"
                } else {
                    "suggested-action"
                },
            ),
            (Page::Review, None) if imp.busy.get() => (gettext("_Review"), "suggested-action"),
            (Page::Review, None) => match imp.review.name_changes().first() {
                Some(change) => (
                    fill(&gettext("_Change {file}"), &[("file", &change.file)]),
                    "suggested-action",
                ),
                None => (gettext("_Try Again"), "suggested-action"),
            },
            (Page::Progress, _) if imp.ended.get() => (gettext("_Try Again"), "suggested-action"),
            (Page::Progress, _) => (gettext("_Cancel"), "regular"),
            (Page::Done, _) => (gettext("_Show Cache"), "suggested-action"),
            (Page::Choices, _) => (gettext("_Review"), "suggested-action"),
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
            Page::Choices => imp.draft.borrow().is_complete(),
            Page::Review => imp.review.is_promised(),
            Page::Progress | Page::Done => true,
        };
        imp.primary
            .set_sensitive(can && !imp.busy.get() && !imp.erase_delayed.get());
        let failed = page == Page::Progress && imp.ended.get();
        imp.back.set_visible(page == Page::Review || failed);
        imp.back.set_sensitive(!imp.busy.get());
        self.offer_speed_test();
        // A plan that is being confirmed or carried out does not change any more.
        imp.review.set_sensitive(!imp.busy.get());
        self.set_deletable((page != Page::Progress || failed) && !imp.begins.get());
    }

    fn set_busy(&self, busy: bool) {
        self.imp().busy.set(busy);
        self.refresh();
        // The focus was on what could not be used while the wizard was busy.
        if !busy && self.page() == Page::Review && RootExt::focus(self).is_none() {
            self.focus_page();
        }
    }
}
