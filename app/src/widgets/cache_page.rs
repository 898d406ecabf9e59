// SPDX-License-Identifier: GPL-3.0-or-later
//! One cache: its chart, its figures, the ways that requests took, and the button that removes it.

mod history;
mod removal;

use std::cell::{Cell, OnceCell, RefCell};
use std::time::Duration;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use gtk::{CompositeTemplate, gio};
use tandem_api::{CacheState, LongHistory, SECTOR_BYTES, Sample, Span};

use crate::a11y;
use crate::client::Client;
use crate::display::{
    Safety, SafetyAmounts, SafetyFacts, Severity, bytes, cache_words, duration, figures, fill,
    full_name, mode_description, mode_name, percent, plain_name, rate, read_shares, safety,
    unwritten_words, write_shares,
};
use crate::model::facts::CacheFacts;
use crate::model::objects::{CacheObject, JobObject};
use crate::model::range::Range;
use crate::model::series::Series;
use crate::model::store::Store;
use crate::widgets::chart::Chart;
use crate::widgets::figure_list::{FigureRow, show_figures};
use crate::widgets::job_card::JobCard;
use crate::widgets::mode_dialog::ask_for_mode;
use crate::widgets::remove_dialog::{ask_to_remove, show_failure};
use crate::widgets::share_row::{ShareRow, show_shares};
use crate::widgets::unwritten_card::UnwrittenCard;
use history::{response_times, share_words};
use removal::REMOVE;

/// Time between two requests for the long histories.
const HISTORY_EVERY: Duration = Duration::from_secs(30);

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "cache_page.ui")]
    pub struct CachePage {
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
        pub banner: TemplateChild<gtk::Box>,
        #[template_child]
        pub banner_icon: TemplateChild<gtk::Image>,
        #[template_child]
        pub banner_title: TemplateChild<gtk::Label>,
        #[template_child]
        pub banner_what: TemplateChild<gtk::Label>,
        #[template_child]
        pub banner_data: TemplateChild<gtk::Label>,
        #[template_child]
        pub banner_next: TemplateChild<gtk::Label>,
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
        pub hit_total: TemplateChild<gtk::Label>,
        #[template_child]
        pub ssd_time: TemplateChild<gtk::Label>,
        #[template_child]
        pub ssd_time_caption: TemplateChild<gtk::Label>,
        #[template_child]
        pub disk_time: TemplateChild<gtk::Label>,
        #[template_child]
        pub disk_time_caption: TemplateChild<gtk::Label>,
        #[template_child]
        pub filled: TemplateChild<gtk::Label>,
        #[template_child]
        pub filled_of: TemplateChild<gtk::Label>,
        #[template_child]
        pub chart_card: TemplateChild<gtk::Box>,
        #[template_child]
        pub dirty_legend: TemplateChild<gtk::Box>,
        #[template_child]
        pub range: TemplateChild<gtk::DropDown>,
        #[template_child]
        pub export: TemplateChild<gtk::Button>,
        #[template_child]
        pub chart: TemplateChild<Chart>,
        #[template_child]
        pub dirty_words: TemplateChild<gtk::Label>,
        #[template_child]
        pub speeds: TemplateChild<gtk::Label>,
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
        pub origin: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub ssd: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub mounted: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub mode: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub mode_arrow: TemplateChild<gtk::Image>,
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
        /// Asks for the histories again from time to time while a cache is shown.
        pub timer: RefCell<Option<glib::SourceId>>,
        pub handlers: RefCell<Vec<glib::SignalHandlerId>>,
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
            JobCard::ensure_type();
            ShareRow::ensure_type();
            UnwrittenCard::ensure_type();
            class.bind_template();
            class.install_action("cache.change-mode", None, |page, _, _| page.change_mode());
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
            a11y::name_by_labels(&*self.remove);
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
    /// Shows a [`CacheObject`].
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
            for handler in imp.handlers.take() {
                old.disconnect(handler);
            }
            self.watch(&old, false);
        }
        if let Some(timer) = imp.timer.take() {
            timer.remove();
        }
        imp.day.take();
        imp.kept.take();
        let Some(cache) = cache else { return };
        imp.handlers.replace(vec![
            cache.connect_changed(clone!(
                #[weak(rename_to = page)]
                self,
                move |_| {
                    page.refresh();
                    page.refresh_numbers();
                }
            )),
            cache.connect_sampled(clone!(
                #[weak(rename_to = page)]
                self,
                move |_| page.refresh_numbers()
            )),
        ]);
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
    }

    fn watch(&self, cache: &CacheObject, watch: bool) {
        let Some(client) = self.imp().client.get().cloned() else {
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
        imp.heading.set_title(&plain_name(&facts.origin));
        self.refresh_state();
        let set =
            |row: &adw::ActionRow, text: &str| row.set_subtitle(&glib::markup_escape_text(text));
        set(&imp.origin, &full_name(&facts.origin));
        set(&imp.ssd, &full_name(&facts.ssd));
        set(&imp.mounted, &facts.mount_points.join(", "));
        imp.mounted.set_visible(!facts.mount_points.is_empty());
        set(
            &imp.mode,
            &format!(
                "{}\n{}",
                mode_name(facts.mode),
                mode_description(facts.mode)
            ),
        );
        self.refresh_job();
    }

    /// Shows the state of the cache and the data that is not yet on the disk.
    fn refresh_state(&self) {
        let imp = self.imp();
        let Some(cache) = self.cache() else { return };
        let facts = cache.facts();
        let (dirty, seconds) = cache.with_series(Series::unwritten);
        let words = cache_words(facts.state, &facts.reason, facts.may_be_unwritten(dirty));
        imp.heading.set_subtitle(&words.title);
        imp.banner.set_visible(!words.what.is_empty());
        imp.banner_icon.set_icon_name(Some(words.icon));
        for severity in Severity::ALL {
            imp.banner_icon.remove_css_class(severity.css_class());
        }
        imp.banner_icon.add_css_class(words.severity.css_class());
        imp.banner_title.set_label(&words.title);
        imp.banner_what.set_label(&words.what);
        imp.banner_data.set_label(&words.data);
        imp.banner_next.set_label(&words.next);
        let running = facts.state == CacheState::Active;
        let here = running || facts.state == CacheState::Suspended;
        let paused = self.job().is_some_and(|job| job.facts().paused);
        let refused = facts.reason == "disk-error";
        // While a job runs, its card and the safety line tell the amount.
        let unwritten = unwritten_words(dirty, seconds, paused, refused, facts.mode)
            .filter(|_| here && !imp.changing.get());
        let (safety, line) = cache.with_series(|series| safety_line(&facts, series));
        imp.safety.set_label(&line);
        let (icon, class) = if safety.risks_data() {
            ("tandem-bypass-symbolic", "warning")
        } else {
            ("tandem-active-symbolic", "success")
        };
        imp.safety_icon.set_icon_name(Some(icon));
        imp.safety_icon.set_css_classes(&[class]);
        let can_flush = running && !imp.changing.get();
        imp.unwritten
            .show(unwritten.as_ref(), can_flush, imp.busy.get());
        let can_change = can_flush && !imp.busy.get();
        imp.mode.set_activatable(can_change);
        imp.mode_arrow.set_visible(can_change);
        let can_remove = !imp.changing.get() && !imp.busy.get();
        self.action_set_enabled("cache.change-mode", can_change);
        self.action_set_enabled(REMOVE, can_remove);
        self.show_removal(facts.state, dirty);
    }

    fn refresh_numbers(&self) {
        let imp = self.imp();
        let Some(cache) = self.cache() else { return };
        let facts = cache.facts();
        imp.numbers.set_visible(facts.is_live());
        imp.chart_card.set_visible(facts.is_live());
        // A cache that does not run has no counters of its own; the last sample may be of another start.
        imp.counters.set_visible(!matches!(
            facts.state,
            CacheState::Stopped | CacheState::Pending
        ));
        cache.with_series(|series| {
            imp.hit_rate.set_label(&hit_rate_words(series));
            imp.hit_caption.set_label(&hit_caption(series));
            let (ssd, disk) = response_times(series);
            imp.ssd_time.set_label(&ssd.0);
            imp.ssd_time_caption.set_label(&ssd.1);
            imp.disk_time.set_label(&disk.0);
            imp.disk_time_caption.set_label(&disk.1);
            let none = Sample::default();
            let sample = series.latest().unwrap_or(&none);
            let filled = sample.frames_used as f64 / sample.frames_total.max(1) as f64;
            imp.filled.set_label(&percent(filled));
            let used = sample
                .frames_used
                .saturating_mul(sample.frame_sectors)
                .saturating_mul(SECTOR_BYTES);
            imp.filled_of.set_label(&fill(
                &gettext("{used} of {size} used"),
                &[
                    ("used", &bytes(used.min(facts.cache_bytes))),
                    ("size", &bytes(facts.cache_bytes)),
                ],
            ));
            show_shares(&imp.reads, &read_shares(&sample.read));
            show_shares(
                &imp.writes,
                &write_shares(&sample.write, sample.write_back_sectors),
            );
            let mut rows = imp.figure_rows.borrow_mut();
            show_figures(&imp.figures, &mut rows, &figures(sample));
        });
        if self.range() == Range::Live {
            self.refresh_chart();
        }
        self.refresh_state();
    }

    /// The job that changes this cache now.
    fn job(&self) -> Option<JobObject> {
        let path = self.cache()?.facts().job?;
        let job = self.imp().store.get()?.job(&path)?;
        job.facts().finished.is_none().then_some(job)
    }

    /// Shows the job that changes this cache, if there is one, or how that job ended.
    fn refresh_job(&self) {
        let imp = self.imp();
        let job = self.job();
        imp.changing.set(job.is_some());
        imp.remove_group.set_visible(job.is_none());
        imp.job_card.show(job.as_ref());
        self.refresh_state();
    }

    /// Calls the service, and disables further commands until the service has answered.
    fn ask<F: Future<Output = ()>>(
        &self,
        ask: impl FnOnce(Option<gtk::Window>, Client, CacheFacts) -> F + 'static,
    ) {
        let (Some(client), Some(cache)) = (self.imp().client.get().cloned(), self.cache()) else {
            return;
        };
        if self.imp().busy.replace(true) {
            return;
        }
        self.refresh_state();
        glib::spawn_future_local(clone!(
            #[weak(rename_to = page)]
            self,
            async move {
                let parent = page.root().and_downcast::<gtk::Window>();
                ask(parent, client, cache.facts()).await;
                page.imp().busy.set(false);
                page.refresh_state();
            }
        ));
    }

    fn remove(&self) {
        let Some((_, seconds)) = self
            .cache()
            .map(|cache| cache.with_series(Series::unwritten))
        else {
            return;
        };
        self.ask(move |parent, client, cache| async move {
            ask_to_remove(parent.as_ref(), &client, &cache, seconds).await;
        });
    }

    fn flush(&self) {
        self.ask(|parent, client, cache| async move {
            if let Err(failure) = client.flush(&cache.path).await {
                show_failure(parent.as_ref(), &failure);
            }
        });
    }

    fn change_mode(&self) {
        self.ask(|parent, client, cache| async move {
            ask_for_mode(parent.as_ref(), &client, &cache);
        });
    }
}

/// The answers of the safety line, and the line.
fn safety_line(facts: &CacheFacts, series: &Series) -> (Safety, String) {
    let (dirty, seconds) = series.unwritten();
    let safety = safety(&SafetyFacts {
        state: facts.state,
        reason: &facts.reason,
        mode: facts.mode,
        dirty: series.latest().map(|_| dirty),
        may_be_unwritten: facts.may_be_unwritten,
    });
    let line = safety.line(&SafetyAmounts {
        size: bytes(dirty),
        age: series
            .oldest_dirty_us()
            .map(|age| duration(age.div_ceil(1_000_000))),
        time: (seconds > 0).then(|| duration(seconds)),
    });
    (safety, line)
}

/// Share of reads that the SSD served in the newest window.
pub(super) fn hit_rate_words(series: &Series) -> String {
    share_words(series.hit_rate())
}

/// The caption of that share: its meaning, and the time over which it is taken.
pub(super) fn hit_caption(series: &Series) -> String {
    fill(
        // Translators: beside a share of the last {seconds} seconds
        &gettext("Read from SSD now ({seconds} s)"),
        &[("seconds", &series.window_seconds().to_string())],
    )
}

/// The speeds of reads from the SSD and from the disk in the newest window.
fn speeds(series: &Series) -> String {
    let (Some(now), Some(earlier)) = (series.latest(), series.earlier()) else {
        return gettext("Waiting for the first numbers…");
    };
    let time = (now.time_us - earlier.time_us).max(1);
    let per_second = |now: u64, earlier: u64| {
        let moved = u128::from(now.saturating_sub(earlier)) * u128::from(SECTOR_BYTES);
        u64::try_from(moved * 1_000_000 / u128::from(time)).unwrap_or(u64::MAX)
    };
    let past = |sample: &Sample| sample.read.bypassed_sectors();
    let ssd = per_second(now.read.hit, earlier.read.hit);
    let disk = per_second(
        now.read.missed + past(now),
        earlier.read.missed + past(earlier),
    );
    if ssd == 0 && disk == 0 {
        return gettext("Idle");
    }
    fill(
        // Translators: {seconds} is the time over which the two speeds were taken
        &gettext("Reading {ssd} from the SSD, {disk} from the hard disk (last {seconds} s)"),
        &[
            ("ssd", &rate(ssd)),
            ("disk", &rate(disk)),
            ("seconds", &series.window_seconds().to_string()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::Direction;

    #[test]
    fn speeds_are_those_of_the_last_seconds_and_what_went_past_came_from_the_disk() {
        let sample = |seconds: u64, hit, missed| Sample {
            time_us: seconds * 1_000_000,
            read: Direction {
                requested: hit + missed,
                hit,
                missed,
                bypassed: vec![],
            },
            ..Sample::default()
        };
        assert!(speeds(&Series::default()).starts_with("Waiting"));
        let idle = Series::from_history(vec![sample(1, 5, 5), sample(2, 5, 5)]);
        assert_eq!(speeds(&idle), "Idle");
        let busy = Series::from_history(vec![sample(0, 0, 0), sample(10, 200_000, 20_000)]);
        assert_eq!(
            speeds(&busy).replace('\u{a0}', " "),
            "Reading 10.2 MB/s from the SSD, 1.0 MB/s from the hard disk (last 10 s)"
        );
    }
}
