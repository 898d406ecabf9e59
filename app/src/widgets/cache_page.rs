// SPDX-License-Identifier: GPL-3.0-or-later
//! One cache: its chart, its figures, the ways that requests took, and the button that removes it.

mod before_off;
mod candidates;
mod choices;
mod commands;
mod dirty_limit;
mod history;
mod menu;
mod numbers;
mod pause;
mod removal;
mod speed;
mod state;
mod statistics;

use std::cell::{Cell, OnceCell, RefCell};
use std::time::Duration;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use gtk::{CompositeTemplate, gio};
use tandem_api::{DirtyLimit, DiskCandidate, LongHistory, Span, Target};

use crate::a11y;
use crate::client::Client;
use crate::display::{Place, cache_name, full_name, health_words, mode_words, target_words};
use crate::model::objects::CacheObject;
use crate::model::range::Range;
use crate::model::store::Store;
use crate::widgets::chart::Chart;
use crate::widgets::figure_list::FigureRow;
use crate::widgets::found::CONFIRM_DISK;
use crate::widgets::health_group::HealthGroup;
use crate::widgets::job_card::JobCard;
use crate::widgets::legend_entry::LegendEntry;
use crate::widgets::share_row::ShareRow;
use crate::widgets::state_banner::StateBanner;
use crate::widgets::unwritten_card::UnwrittenCard;
use commands::CHANGE_MODE;
pub(super) use numbers::{hit_caption, hit_rate_words};
use pause::PAUSE;
use removal::REMOVE;

/// Time between two requests for the long histories.
const HISTORY_EVERY: Duration = Duration::from_secs(30);

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "cache_page.ui")]
    pub struct CachePage {
        #[template_child]
        pub menu: TemplateChild<gtk::MenuButton>,
        /// The section of the menu that has the actions of the cache.
        #[template_child]
        pub cache_section: TemplateChild<gio::Menu>,
        #[template_child]
        pub heading: TemplateChild<adw::WindowTitle>,
        #[template_child]
        pub scroller: TemplateChild<gtk::ScrolledWindow>,
        #[template_child]
        pub safety: TemplateChild<gtk::Label>,
        #[template_child]
        pub safety_icon: TemplateChild<gtk::Image>,
        #[template_child]
        pub banner: TemplateChild<StateBanner>,
        #[template_child]
        pub candidates: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub candidate_list: TemplateChild<gtk::ListBox>,
        /// The disks in `candidate_list`.
        pub shown_candidates: RefCell<Vec<DiskCandidate>>,
        #[template_child]
        pub job_card: TemplateChild<JobCard>,
        #[template_child]
        pub unwritten: TemplateChild<UnwrittenCard>,
        #[template_child]
        pub numbers: TemplateChild<gtk::Box>,
        #[template_child]
        pub hit_rate: TemplateChild<gtk::Label>,
        #[template_child]
        pub hit_caption: TemplateChild<gtk::Label>,
        #[template_child]
        pub hit_today: TemplateChild<gtk::Label>,
        #[template_child]
        pub hit_today_caption: TemplateChild<gtk::Label>,
        #[template_child]
        pub hit_legend: TemplateChild<LegendEntry>,
        #[template_child]
        pub hit_total: TemplateChild<gtk::Label>,
        #[template_child]
        pub hit_total_caption: TemplateChild<gtk::Label>,
        #[template_child]
        pub times_tile: TemplateChild<gtk::Box>,
        #[template_child]
        pub times: TemplateChild<gtk::Label>,
        #[template_child]
        pub times_caption: TemplateChild<gtk::Label>,
        #[template_child]
        pub filled: TemplateChild<gtk::Label>,
        #[template_child]
        pub filled_of: TemplateChild<gtk::Label>,
        #[template_child]
        pub chart_card: TemplateChild<gtk::Box>,
        #[template_child]
        pub dirty_legend: TemplateChild<LegendEntry>,
        #[template_child]
        pub range: TemplateChild<gtk::DropDown>,
        #[template_child]
        pub export: TemplateChild<gtk::Button>,
        #[template_child]
        pub chart: TemplateChild<Chart>,
        #[template_child]
        pub speeds: TemplateChild<gtk::Label>,
        #[template_child]
        pub speed_group: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub speed: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub counters: TemplateChild<gtk::Box>,
        #[template_child]
        pub reads: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub writes: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub figures: TemplateChild<gtk::ListBox>,
        pub figure_rows: RefCell<Vec<FigureRow>>,
        #[template_child]
        pub health: TemplateChild<HealthGroup>,
        #[template_child]
        pub origin: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub ssd: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub mounted: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub served: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub mode: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub mode_arrow: TemplateChild<gtk::Image>,
        #[template_child]
        pub before_off: TemplateChild<adw::ComboRow>,
        /// The limits of `before_off`, in minutes.
        pub limits: RefCell<Vec<u32>>,
        #[template_child]
        pub dirty_limit: TemplateChild<adw::ComboRow>,
        /// The choices of `dirty_limit`.
        pub dirty_limits: RefCell<Vec<DirtyLimit>>,
        #[template_child]
        pub rest: TemplateChild<adw::ComboRow>,
        /// The choices of `rest`, in minutes.
        pub rests: RefCell<Vec<u32>>,
        /// The toast that offers to take the pause back.
        pub pause_offer: RefCell<Option<adw::Toast>>,
        #[template_child]
        pub remove_group: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub remove: TemplateChild<gtk::Button>,
        #[template_child]
        pub remove_what: TemplateChild<gtk::Label>,
        pub client: OnceCell<Client>,
        pub store: OnceCell<Store>,
        pub cache: RefCell<Option<CacheObject>>,
        /// The last day of the cache, as the service last told it.
        pub day: RefCell<LongHistory>,
        /// The span that the chart shows, unless it shows the samples.
        pub kept: RefCell<Option<(Span, LongHistory)>>,
        /// The timer that asks for the histories again from time to time while a cache is shown.
        pub timer: RefCell<Option<glib::SourceId>>,
        pub followed: RefCell<Option<[glib::SignalGroup; 2]>>,
        /// A job changes the cache now.
        pub changing: Cell<bool>,
        pub busy: Cell<bool>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for CachePage {
        const NAME: &'static str = "TandemCachePage";
        type Type = super::CachePage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            Chart::ensure_type();
            HealthGroup::ensure_type();
            JobCard::ensure_type();
            LegendEntry::ensure_type();
            ShareRow::ensure_type();
            StateBanner::ensure_type();
            UnwrittenCard::ensure_type();
            class.bind_template();
            class.install_action("cache.rename", None, |page, _, _| page.rename());
            class.install_action(CHANGE_MODE, None, |page, _, _| page.change_mode());
            class.install_action("cache.test-speed", None, |page, _, _| page.test_speed());
            class.install_action("cache.change-size", None, |page, _, _| page.change_size());
            class.install_action("cache.reset-statistics", None, |page, _, _| {
                page.reset_statistics();
            });
            class.install_action(
                CONFIRM_DISK,
                Some(glib::VariantTy::STRING),
                |page, _, target| {
                    if let Some(disk) = target.and_then(glib::Variant::str) {
                        page.confirm_disk(disk);
                    }
                },
            );
            class.install_action(PAUSE, None, |page, _, _| page.pause());
            class.install_action(REMOVE, None, |page, _, _| page.remove());
            class.install_action("cache.export", None, |page, _, _| page.export());
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for CachePage {
        fn constructed(&self) {
            self.parent_constructed();
            self.unwritten.connect_flush(clone!(
                #[weak(rename_to = page)]
                self.obj(),
                move || page.flush()
            ));
            self.obj().prepare_chart();
            self.obj().prepare_before_off();
            self.obj().prepare_dirty_limit();
            a11y::name_by_labels(&*self.remove);
            a11y::name_entries(&self.menu);
            self.speed.connect_activated(clone!(
                #[weak(rename_to = page)]
                self.obj(),
                move |_| page.test_speed()
            ));
            self.mode.connect_activated(clone!(
                #[weak(rename_to = page)]
                self.obj(),
                move |_| page.change_mode()
            ));
        }

        fn dispose(&self) {
            self.obj().show(None);
        }
    }

    impl WidgetImpl for CachePage {}
    impl BinImpl for CachePage {}
}

glib::wrapper! {
    /// A widget that shows a [`CacheObject`].
    pub struct CachePage(ObjectSubclass<imp::CachePage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl CachePage {
    /// Sets the client for calls and the store of facts.
    pub fn connect_to(&self, client: &Client, store: &Store) {
        // The window calls this once.
        let _ = self.imp().client.set(client.clone());
        let _ = self.imp().store.set(store.clone());
        self.imp().job_card.connect_to(client);
        store.connect_changed(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.refresh_job()
        ));
    }

    /// The cache that is shown.
    #[must_use]
    pub fn cache(&self) -> Option<CacheObject> {
        self.imp().cache.borrow().clone()
    }

    /// Shows this cache from now on, or none. While it shows a cache, it has the service take a sample each second.
    pub fn show(&self, cache: Option<&CacheObject>) {
        let imp = self.imp();
        if let Some(old) = imp.cache.take() {
            self.watch(&old, false);
        }
        if let Some(timer) = imp.timer.take() {
            timer.remove();
        }
        imp.followed.take();
        imp.day.take();
        imp.kept.take();
        let Some(cache) = cache else { return };
        imp.followed.replace(Some([
            cache.follow_changes(clone!(
                #[weak(rename_to = page)]
                self,
                move |_| {
                    page.refresh();
                    page.refresh_numbers();
                }
            )),
            cache.follow_samples(clone!(
                #[weak(rename_to = page)]
                self,
                move |_| page.refresh_numbers()
            )),
        ]));
        imp.cache.replace(Some(cache.clone()));
        imp.scroller.vadjustment().set_value(0.0);
        self.watch(cache, true);
        self.load_histories();
        let timer = glib::timeout_add_local(
            HISTORY_EVERY,
            clone!(
                #[weak(rename_to = page)]
                self,
                #[upgrade_or]
                glib::ControlFlow::Break,
                move || {
                    page.load_histories();
                    glib::ControlFlow::Continue
                }
            ),
        );
        imp.timer.replace(Some(timer));
        self.refresh();
        self.refresh_numbers();
        self.refresh_rates();
        // The numbers come with the live chart.
        if self.range() != Range::Live {
            self.refresh_chart();
        }
    }

    /// The service was started again: has it take a sample each second while the page shows a cache.
    pub fn follow_new_service(&self) {
        if let Some(cache) = self.cache() {
            self.watch(&cache, true);
            self.load_histories();
        }
    }

    fn watch(&self, cache: &CacheObject, watch: bool) {
        let imp = self.imp();
        // A call would start a service that was stopped on purpose.
        let left = imp.store.get().is_some_and(Store::has_service_left);
        let Some(client) = imp.client.get().filter(|_| !left).cloned() else {
            return;
        };
        let path = cache.facts().path;
        glib::spawn_future_local(async move {
            // A cache that is gone needs no watching.
            if let Err(failure) = client.watch(&path, watch).await {
                tracing::debug!("{path} could not be watched: {failure}");
            }
        });
    }

    fn refresh(&self) {
        let imp = self.imp();
        let Some(facts) = self.cache().map(|cache| cache.facts()) else {
            return;
        };
        imp.heading.set_title(&cache_name(&facts));
        self.refresh_state();
        let set =
            |row: &adw::ActionRow, text: &str| row.set_subtitle(&glib::markup_escape_text(text));
        set(&imp.origin, &full_name(&facts.origin));
        set(&imp.ssd, &full_name(&facts.ssd));
        if facts.ssd.is_memory() {
            imp.ssd.set_title(&gettext("Memory"));
        } else {
            imp.ssd.set_title(&gettext("SSD"));
        }
        imp.health.set_visible(!facts.ssd.is_memory());
        set(&imp.mounted, &facts.mount_points.join(", "));
        imp.mounted.set_visible(!facts.mount_points.is_empty());
        set(
            &imp.mode,
            &mode_words(facts.mode, facts.waits_for_kernel, Place::of(&facts.ssd)),
        );
        set(&imp.served, &target_words(facts.target).join("\n"));
        imp.served.set_visible(facts.target == Target::DmCache);
        imp.health.show_health(&health_words(&facts.health));
        self.refresh_before_off(&facts);
        self.refresh_dirty_limit(&facts);
        self.refresh_speed_test(facts.speed.as_ref());
        self.refresh_job();
    }
}
