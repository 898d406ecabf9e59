// SPDX-License-Identifier: GPL-3.0-or-later
//! The window of a cache of another system: the chart of its last hour, and its hit rate. The service keeps the history, and the
//! window asks for it again from time to time for as long as it is open.

use std::cell::{OnceCell, RefCell};
use std::time::Duration;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone};
use tandem_api::{Failure, Kind, OtherCache, OtherPeriod, Span};

use crate::client::Client;
use crate::display::{
    Shown, bar_words, other_name, other_rate_words, other_speed_words, other_waiting_words,
    other_words,
};
use crate::model::other_bars::{other_bars, other_hit_rate};
use crate::model::range::Range;
use crate::widgets::chart::Chart;
use crate::widgets::choice_window::width_over;
use crate::widgets::error_view::ErrorView;
use crate::widgets::legend_entry::LegendEntry;

/// Time between two questions. The service looks at the caches every 14 s.
const EVERY: Duration = Duration::from_secs(5);

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "other_dialog.ui")]
    pub struct OtherDialog {
        #[template_child]
        pub heading: TemplateChild<adw::WindowTitle>,
        #[template_child]
        pub pages: TemplateChild<gtk::Stack>,
        #[template_child]
        pub ssd_legend: TemplateChild<LegendEntry>,
        #[template_child]
        pub disk_legend: TemplateChild<LegendEntry>,
        #[template_child]
        pub chart: TemplateChild<Chart>,
        #[template_child]
        pub dirty_legend: TemplateChild<LegendEntry>,
        #[template_child]
        pub speeds: TemplateChild<gtk::Label>,
        #[template_child]
        pub source: TemplateChild<gtk::Label>,
        #[template_child]
        pub rate: TemplateChild<adw::ActionRow>,
        #[template_child]
        pub error: TemplateChild<ErrorView>,
        pub cache: OnceCell<OtherCache>,
        /// The values of the newest bar.
        pub latest: RefCell<String>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for OtherDialog {
        const NAME: &'static str = "TandemOtherDialog";
        type Type = super::OtherDialog;
        type ParentType = adw::Window;

        fn class_init(class: &mut Self::Class) {
            Chart::ensure_type();
            ErrorView::ensure_type();
            LegendEntry::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for OtherDialog {
        fn constructed(&self) {
            self.parent_constructed();
            self.chart.connect_selected(clone!(
                #[weak(rename_to = dialog)]
                self.obj(),
                move |_| dialog.show_speeds()
            ));
        }
    }

    impl WidgetImpl for OtherDialog {}
    impl WindowImpl for OtherDialog {}
    impl AdwWindowImpl for OtherDialog {}
}

glib::wrapper! {
    /// Shows what a cache of another system did in the last hour.
    pub struct OtherDialog(ObjectSubclass<imp::OtherDialog>)
        @extends adw::Window, gtk::Window, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget, gtk::Native, gtk::Root, gtk::ShortcutManager;
}

impl OtherDialog {
    /// Opens the window.
    pub fn open(parent: Option<&gtk::Window>, client: &Client, cache: &OtherCache) -> Self {
        let dialog: Self = glib::Object::new();
        let imp = dialog.imp();
        dialog.set_default_width(width_over(parent, 640));
        dialog.set_transient_for(parent);
        let [disk, _] = other_words(cache);
        imp.heading.set_title(&disk);
        imp.heading.set_subtitle(&other_name(cache));
        // The window is new, so it has no cache yet.
        let _ = imp.cache.set(cache.clone());
        dialog.follow(client);
        dialog.present();
        dialog
    }

    fn follow(&self, client: &Client) {
        let (dialog, client) = (self.downgrade(), client.clone());
        let id = self.imp().cache.get().map(|cache| cache.id.clone());
        glib::spawn_future_local(async move {
            loop {
                let told = client.other_history(&id.clone().unwrap_or_default()).await;
                let Some(dialog) = dialog.upgrade() else {
                    return;
                };
                match told {
                    Ok(periods) => dialog.show_history(&periods),
                    // The cache is gone: the row in the window under this one is, too.
                    Err(failure) if failure.kind == Kind::WrongState => return dialog.close(),
                    Err(failure) => dialog.show_failure(&failure),
                }
                drop(dialog);
                glib::timeout_future(EVERY).await;
            }
        });
    }

    fn show_failure(&self, failure: &Failure) {
        let imp = self.imp();
        imp.error.show(failure);
        imp.pages.set_visible_child_name("failed");
    }

    fn show_history(&self, periods: &[OtherPeriod]) {
        let imp = self.imp();
        let Some(cache) = imp.cache.get() else { return };
        let shown = other_bars(periods);
        let (Some(period), Some(bar)) = (periods.last(), shown.bars.last()) else {
            imp.pages.set_visible_child_name("measuring");
            return;
        };
        let (kind, whole) = (cache.kind, shown.whole);
        imp.ssd_legend.set_visible(!whole);
        imp.disk_legend.set_label(match whole {
            // Translators: in the legend of a chart
            true => gettext("Read"),
            false => gettext("Read from hard disk"),
        });
        let unwritten = period.unwritten_known.then_some(period.unwritten_bytes);
        imp.dirty_legend.set_visible(shown.dirty);
        imp.dirty_legend
            .set_label(other_waiting_words(kind, unwritten));
        let [title, meaning] = other_rate_words(kind, other_hit_rate(periods));
        imp.rate.set_title(&title);
        imp.rate.set_subtitle(&meaning);
        imp.source.set_label(&other_speed_words(kind, whole));
        let look = Shown {
            range: Range::Kept(Span::Hour),
            dirty: shown.dirty,
            whole,
        };
        imp.latest.replace(bar_words(bar, look));
        let now = (glib::real_time() as f64 / 1e6).max(bar.end);
        imp.chart.show(shown.bars, look, now);
        self.show_speeds();
        imp.pages.set_visible_child_name("chart");
    }

    /// Shows the values of the selected bar, or else those of the newest.
    fn show_speeds(&self) {
        let imp = self.imp();
        let words = imp.chart.selected_words();
        let words = words.unwrap_or_else(|| imp.latest.borrow().clone());
        imp.speeds.set_label(&words);
    }
}
