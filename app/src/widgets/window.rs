// SPDX-License-Identifier: GPL-3.0-or-later
//! The main window: overview, cache page and toasts. The window passes the facts from the bus to the store.

mod follow;
mod found;
mod memory;
mod others;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use gtk::{CompositeTemplate, gio};
use tandem_api::{DataState, JobKind, Kind, OtherCache, Target};

use crate::a11y;
use crate::client::{Client, whole_spec};
use crate::display::{job_end_words, origin_choices, plain_name};
use crate::enrollment;
use crate::model::facts::JobFacts;
use crate::model::job_ends::JobEnds;
use crate::model::objects::{CacheObject, DeviceObject};
use crate::model::store::{Store, objects};
use crate::widgets::advice_dialog::AdviceDialog;
use crate::widgets::cache_page::CachePage;
use crate::widgets::found::{DISCARD_FOUND, TAKE_OVER};
use crate::widgets::module_page::ModulePage;
use crate::widgets::overview::Overview;
use crate::widgets::remove_dialog::{show_failure, show_refusal};
use crate::widgets::wizard::Wizard;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "window.ui")]
    pub struct Window {
        #[template_child]
        pub toasts: TemplateChild<adw::ToastOverlay>,
        /// The last toast with a button.
        pub offer: RefCell<Option<adw::Toast>>,
        #[template_child]
        pub leaflet: TemplateChild<adw::Leaflet>,
        #[template_child]
        pub overview: TemplateChild<Overview>,
        /// The page of a cache, from the first time that the window shows one.
        pub cache_page: OnceCell<CachePage>,
        /// The widgets of toasts among others, which come when earlier toasts have gone.
        pub toast_widgets: OnceCell<gio::ListModel>,
        pub store: Store,
        pub client: OnceCell<Client>,
        /// The tasks that connect to the bus and follow the two services.
        pub followers: RefCell<Vec<glib::JoinHandle<()>>>,
        pub job_ends: Rc<JobEnds>,
        /// The caches of other systems that this window was asked to remove, by their ids, each with the block path of the disk
        /// that is left.
        pub removals: RefCell<HashMap<String, (OtherCache, String)>>,
        /// Whether the window has looked for a restart that a person began for the key of the kernel module.
        pub looked_for_answer: Cell<bool>,
        /// Where the window keeps what it remembers, if the program is installed.
        pub settings: OnceCell<gio::Settings>,
        /// The page of the last start, until it is shown again.
        pub page_before: RefCell<Option<String>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Window {
        const NAME: &'static str = "TandemWindow";
        type Type = super::Window;
        type ParentType = adw::ApplicationWindow;

        fn class_init(class: &mut Self::Class) {
            Overview::ensure_type();
            class.bind_template();
            class.install_action("win.set-up", None, |window, _, _| window.set_up(None));
            class.install_action(
                "win.set-up-disk",
                Some(glib::VariantTy::STRING),
                |window, _, target| window.set_up(target.and_then(glib::Variant::str)),
            );
            class.install_action(
                "win.advise",
                Some(glib::VariantTy::STRING),
                |window, _, target| {
                    if let Some(disk) = target.and_then(glib::Variant::str) {
                        window.advise(disk);
                    }
                },
            );
            class.install_action(
                TAKE_OVER,
                Some(glib::VariantTy::STRING),
                |window, _, target| {
                    if let Some(ssd) = target.and_then(glib::Variant::str) {
                        window.take_over(ssd);
                    }
                },
            );
            class.install_action(
                DISCARD_FOUND,
                Some(glib::VariantTy::STRING),
                |window, _, target| {
                    if let Some(ssd) = target.and_then(glib::Variant::str) {
                        window.discard_found(ssd);
                    }
                },
            );
            class.install_action(
                "win.show-cache",
                Some(glib::VariantTy::STRING),
                |window, _, target| {
                    if let Some(uuid) = target.and_then(glib::Variant::str) {
                        window.show_cache(uuid);
                    }
                },
            );
            class.install_action("win.show-overview", None, |window, _, _| {
                window.show_overview()
            });
            others::install(class);
            class.install_action("win.retry", None, |window, _, _| window.start());
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for Window {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().prepare();
        }
    }

    impl WidgetImpl for Window {}
    impl WindowImpl for Window {}
    impl ApplicationWindowImpl for Window {}
    impl AdwApplicationWindowImpl for Window {}
}

glib::wrapper! {
    /// The main window.
    pub struct Window(ObjectSubclass<imp::Window>)
        @extends adw::ApplicationWindow, gtk::ApplicationWindow, gtk::Window, gtk::Widget,
        @implements gio::ActionGroup, gio::ActionMap, gtk::Buildable, gtk::ConstraintTarget,
            gtk::Native, gtk::Root, gtk::ShortcutManager;
}

impl Window {
    /// Makes a window, which connects to the services at once.
    #[must_use]
    pub fn new(application: &adw::Application) -> Self {
        let window: Self = glib::Object::builder()
            .property("application", application)
            .build();
        let help = gio::ActionEntry::builder("show-help-overlay")
            .activate(|window: &Self, _, _| window.show_help_overlay());
        window.add_action_entries([help.build()]);
        window.connect_is_active_notify(Self::look_at_others);
        window.keep_others();
        window.remember();
        window.start();
        window
    }

    /// Shows the shortcuts. The overlay is made the first time, when its own action replaces the one that leads here.
    fn show_help_overlay(&self) {
        let help = gtk::Builder::from_string(include_str!("shortcuts.ui"));
        if let Some(help) = help.object::<gtk::ShortcutsWindow>("help_overlay") {
            a11y::name_by_labels(&help);
            self.set_help_overlay(Some(&help));
            help.present();
        }
    }

    fn prepare(&self) {
        let imp = self.imp();
        imp.overview.connect_to(&imp.store);
        let toasts = imp
            .toast_widgets
            .get_or_init(|| imp.toasts.observe_children());
        toasts.connect_items_changed(|widgets, place, _, come| {
            for widget in (place..place + come).filter_map(|at| widgets.item(at)) {
                widget
                    .downcast_ref::<gtk::Widget>()
                    .iter()
                    .for_each(|toast| a11y::name_by_labels(*toast));
            }
        });
        let enable = clone!(
            #[weak(rename_to = window)]
            self,
            move |store: &Store| for action in ["win.set-up", "win.set-up-disk", "win.advise"] {
                window.action_set_enabled(action, store.is_known());
            }
        );
        enable(&imp.store);
        imp.store.connect_changed(enable);
        imp.store.connect_changed(clone!(
            #[weak(rename_to = window)]
            self,
            move |_| window.ask_for_blank_ssds()
        ));
        imp.store.connect_changed(clone!(
            #[weak(rename_to = window)]
            self,
            move |_| window.go_on_after_restart()
        ));
        imp.store.connect_changed(clone!(
            #[weak(rename_to = window)]
            self,
            move |_| window.show_page_before()
        ));
        imp.store.caches().connect_items_changed(clone!(
            #[weak(rename_to = window)]
            self,
            move |list, place, _, come| window.caches_changed(list, place, come)
        ));
        let told = clone!(
            #[weak(rename_to = window)]
            self,
            move |job: &JobFacts| window.job_ended(job)
        );
        imp.job_ends.follow(&imp.store, told);
        imp.leaflet.connect_visible_child_notify(clone!(
            #[weak(rename_to = window)]
            self,
            move |leaflet| {
                // This also runs after a swipe or a mouse button that goes back.
                if leaflet
                    .visible_child()
                    .and_downcast_ref::<Overview>()
                    .is_some()
                {
                    if let Some(page) = window.imp().cache_page.get() {
                        page.show(None);
                    }
                    window.remember_page("");
                }
            }
        ));
    }

    /// Asks the service which SSDs without a signature are blank. Only a plan answers that: the service refuses a plan
    /// that would erase data.
    fn ask_for_blank_ssds(&self) {
        let store = self.imp().store.clone();
        let (Some(client), true) = (self.imp().client.get().cloned(), store.is_known()) else {
            return;
        };
        let origins = store.origins();
        if origins.is_empty() {
            return;
        }
        for ssd in store.take_unasked_ssds() {
            let (client, store, origins) = (client.clone(), store.clone(), origins.clone());
            glib::spawn_future_local(async move {
                for origin in origins {
                    let Some(spec) = whole_spec(&origin, &ssd) else {
                        continue;
                    };
                    let plan = client.plan(&spec).await;
                    let is_blank = match plan.map_err(|failure| failure.kind) {
                        Ok(_) => true,
                        Err(Kind::SsdHoldsData | Kind::SsdUnknownContent) => false,
                        // The service refused this disk for another reason: try the next disk.
                        Err(_) => continue,
                    };
                    store.apply_blank(&ssd, is_blank);
                    break;
                }
            });
        }
    }

    fn caches_changed(&self, list: &gio::ListStore, place: u32, come: u32) {
        for at in place..place + come {
            if let Some(cache) = list.item(at).and_downcast::<CacheObject>() {
                self.load_history(&cache);
            }
        }

        let gone = |cache: &CacheObject| !objects::<CacheObject>(list).any(|known| known == *cache);
        if self.shown_cache().as_ref().is_some_and(gone) {
            self.show_overview();
        }
    }

    fn load_history(&self, cache: &CacheObject) {
        let Some(client) = self.imp().client.get().cloned() else {
            return;
        };
        glib::spawn_future_local(clone!(
            #[strong]
            cache,
            async move {
                match client.history(&cache.facts().path).await {
                    Ok(history) => cache.set_history(history),
                    // Without the kept samples the chart begins now.
                    Err(failure) => tracing::debug!("no history: {failure}"),
                }
            }
        ));
    }

    /// Shows the end of a removal or a flush, on any page.
    fn job_ended(&self, facts: &JobFacts) {
        let Some(end) = &facts.finished else {
            return;
        };
        match end {
            Ok(()) => match self.next_step(facts) {
                Some((button, action, target)) => self.offer_action(facts, &button, action, target),
                None => self.toast(&job_end_words(facts, false)),
            },
            // The person who cancelled needs no reason; what could not be restored is a failure to show, and so is what
            // LVM goes on with.
            Err(failure)
                if failure.kind == Kind::Cancelled
                    && failure.data != DataState::Incomplete
                    && failure.name.is_empty() =>
            {
                self.toast(&job_end_words(facts, true));
            }
            Err(failure) => {
                let (imp, parent) = (self.imp(), Some(self.upcast_ref()));
                match (imp.client.get(), imp.store.cache(&facts.cache_uuid)) {
                    (Some(client), Some(cache)) if facts.kind != JobKind::Resize => {
                        show_refusal(parent, client, &cache.facts(), failure);
                    }
                    _ => show_failure(parent, failure),
                }
            }
        }
    }

    /// Facts of the service for a report of a fault.
    pub(crate) fn debug_lines(&self) -> Vec<String> {
        let store = &self.imp().store;
        let mut lines = match store.module() {
            Some(module) => vec![
                format!("Kernel: {}", module.kernel),
                format!(
                    "Kernel module: {} ({}), key: {}",
                    module.state, module.problem, module.key
                ),
            ],
            None => vec!["Kernel module: unknown".to_owned()],
        };
        if let Some(failure) = store.service_problem() {
            lines.push(format!("Service: {failure}"));
        }
        for cache in objects::<CacheObject>(&store.caches()) {
            let facts = cache.facts();
            lines.push(format!(
                "Cache {}: {} {} {} {}",
                facts.uuid, facts.target, facts.mode, facts.state, facts.reason
            ));
        }
        lines
    }

    /// Shows a toast.
    pub fn toast(&self, words: &str) {
        let toast = adw::Toast::new(&glib::markup_escape_text(words));
        self.imp().toasts.add_toast(toast);
    }

    /// Shows a toast with a button, in the place of the last such toast. `then`: what the button does.
    pub fn offer(&self, words: &str, button: &str, then: impl Fn() + 'static) -> adw::Toast {
        if let Some(last) = self.imp().offer.take() {
            last.dismiss();
        }
        let toast = adw::Toast::new(&glib::markup_escape_text(words));
        toast.set_button_label(Some(button));
        toast.connect_button_clicked(move |_| then());
        self.imp().toasts.add_toast(toast.clone());
        self.imp().offer.replace(Some(toast.clone()));
        toast
    }

    /// Opens the wizard. With the block path of a disk, the wizard begins at the choice of the SSD.
    pub fn set_up(&self, origin: Option<&str>) {
        let imp = self.imp();
        let (Some(client), true) = (imp.client.get(), imp.store.is_known()) else {
            return;
        };
        if imp.store.module().is_some_and(|module| !module.is_usable()) {
            self.show_module_page(client, origin);
            return;
        }
        self.open_wizard(client, origin, Target::Tandem);
    }

    fn open_wizard(&self, client: &Client, origin: Option<&str>, target: Target) {
        let dialog = Wizard::new(client.clone(), self.imp().store.clone(), origin, target);
        dialog.set_transient_for(Some(self));
        dialog.connect_show_cache(clone!(
            #[weak(rename_to = window)]
            self,
            move |uuid| window.show_cache(&uuid)
        ));
        dialog.present();
    }

    /// Opens the window that says whether an SSD would help a disk. `disk`: its block path, or the id of its watch.
    pub fn advise(&self, disk: &str) {
        let imp = self.imp();
        let devices: Vec<_> = objects::<DeviceObject>(&imp.store.devices())
            .map(|device| device.facts())
            .collect();
        let choice = origin_choices(&devices)
            .into_iter()
            .find(|choice| choice.path == disk);
        // A disk that is not connected, and an SSD, is no choice and can be watched all the same.
        let name = choice
            .map(|choice| choice.title)
            .or_else(|| Some(plain_name(&imp.store.watch(disk)?.disk)));
        if let (Some(client), Some(name)) = (imp.client.get(), name) {
            let parent = Some(self.upcast_ref());
            let dialog = AdviceDialog::open(parent, client, &imp.store, disk, &name);
            dialog.connect_set_up(clone!(
                #[weak(rename_to = window)]
                self,
                move |disk| window.set_up(Some(disk))
            ));
        }
    }

    fn show_module_page(&self, client: &Client, origin: Option<&str>) {
        let page = ModulePage::new(client.clone(), self.imp().store.clone());
        page.set_transient_for(Some(self));
        page.set_default_width(self.width().clamp(1, 640));
        let (client, origin) = (client.clone(), origin.map(str::to_owned));
        page.connect_set_up(clone!(
            #[weak(rename_to = window)]
            self,
            move |target| match target {
                Target::Tandem => window.set_up(origin.as_deref()),
                Target::DmCache => window.open_wizard(&client, origin.as_deref(), target),
            }
        ));
        page.present();
    }

    /// Goes on after the restart that lets the firmware ask about the key of the kernel module.
    fn go_on_after_restart(&self) {
        let imp = self.imp();
        if !imp.store.is_known() || imp.looked_for_answer.replace(true) || !enrollment::is_asked() {
            return;
        }
        if imp.store.module().is_some_and(|module| module.is_usable()) {
            enrollment::forget();
            self.toast(&gettext("The key is enrolled"));
        }
        self.set_up(None);
    }

    /// Shows the page of the cache with this uuid.
    pub fn show_cache(&self, uuid: &str) {
        let imp = self.imp();
        let (Some(client), Some(cache)) = (imp.client.get(), imp.store.cache(uuid)) else {
            return;
        };
        let page = imp.cache_page.get_or_init(|| {
            let page: CachePage = glib::Object::new();
            page.connect_to(client, &imp.store);
            imp.leaflet.append(&page);
            page
        });
        page.show(Some(&cache));
        imp.leaflet.set_visible_child(page);
        self.remember_page(uuid);
    }

    /// The cache whose page is shown.
    #[must_use]
    pub fn shown_cache(&self) -> Option<CacheObject> {
        self.imp().cache_page.get()?.cache()
    }

    /// Goes back to the overview.
    pub fn show_overview(&self) {
        let imp = self.imp();
        imp.leaflet.set_visible_child(&*imp.overview);
    }
}
