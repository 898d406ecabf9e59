// SPDX-License-Identifier: GPL-3.0-or-later
//! A cache in the overview: its state, and the share of reads that its SSD serves.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::CompositeTemplate;
use gtk::glib::{self, clone};
use tandem_api::{CacheState, SelfReport};

use crate::display::{
    Place, Severity, cache_name, fill, health_words, short_name, unwritten_short, words_of,
};
use crate::model::facts::CacheFacts;
use crate::model::objects::CacheObject;
use crate::model::series::Series;
use crate::widgets::cache_page::{hit_caption, hit_rate_words};

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "cache_row.ui")]
    pub struct CacheRow {
        #[template_child]
        pub icon: TemplateChild<gtk::Image>,
        #[template_child]
        pub figures: TemplateChild<gtk::Box>,
        #[template_child]
        pub rate: TemplateChild<gtk::Label>,
        #[template_child]
        pub caption: TemplateChild<gtk::Label>,
        pub cache: RefCell<Option<(CacheObject, [glib::SignalGroup; 2])>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for CacheRow {
        const NAME: &'static str = "TandemCacheRow";
        type Type = super::CacheRow;
        type ParentType = adw::ActionRow;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for CacheRow {}
    impl WidgetImpl for CacheRow {}
    impl ListBoxRowImpl for CacheRow {}
    impl PreferencesRowImpl for CacheRow {}
    impl ActionRowImpl for CacheRow {}
}

glib::wrapper! {
    /// A widget that shows a [`CacheObject`] in one line; a click asks the window for its page.
    pub struct CacheRow(ObjectSubclass<imp::CacheRow>)
        @extends adw::ActionRow, adw::PreferencesRow, gtk::ListBoxRow, gtk::Widget,
        @implements gtk::Actionable, gtk::Buildable, gtk::ConstraintTarget;
}

impl CacheRow {
    /// A row that shows this cache.
    #[must_use]
    pub fn new(cache: &CacheObject) -> Self {
        let row: Self = glib::Object::new();
        row.set_action_target_value(Some(&cache.facts().uuid.to_variant()));
        let refresh = clone!(
            #[weak]
            row,
            move |cache: &CacheObject| row.refresh(cache)
        );
        let followed = [
            cache.follow_changes(refresh.clone()),
            cache.follow_samples(refresh),
        ];
        row.imp().cache.replace(Some((cache.clone(), followed)));
        row.refresh(cache);
        row
    }

    /// The cache that is shown.
    #[must_use]
    pub fn cache(&self) -> Option<CacheObject> {
        self.imp()
            .cache
            .borrow()
            .as_ref()
            .map(|(cache, _)| cache.clone())
    }

    fn refresh(&self, cache: &CacheObject) {
        let imp = self.imp();
        let facts = cache.facts();
        let (dirty, _) = cache.with_series(Series::unwritten);
        let words = words_of(&facts, dirty);
        self.set_title(&cache_name(&facts));
        let mut subtitle = parts_line(&words.title, &facts);
        let mapped = !matches!(facts.state, CacheState::Stopped | CacheState::Detached);
        let waiting = unwritten_short(if mapped { dirty } else { 0 });
        if !waiting.is_empty() {
            subtitle = format!("{subtitle}\n{waiting}");
        }
        let fails = mapped && facts.health.report == SelfReport::Failing;
        if fails {
            let condition = health_words(&facts.health).condition;
            subtitle = format!("{subtitle}\n{condition}");
        }
        self.set_subtitle(&subtitle);
        let (icon, severity) = if fails && words.severity < Severity::Warning {
            ("tandem-bypass-symbolic", Severity::Warning)
        } else {
            (words.icon, words.severity)
        };
        imp.icon.set_icon_name(Some(icon));
        for severity in Severity::ALL {
            imp.icon.remove_css_class(severity.css_class());
        }
        imp.icon.add_css_class(severity.css_class());
        imp.figures.set_visible(facts.is_live());
        cache.with_series(|series| {
            imp.rate.set_label(&hit_rate_words(series));
            imp.caption
                .set_label(&hit_caption(series, Place::of(&facts.ssd)));
        });
    }
}

/// State and devices in one line. The disk is not named where the title is its model.
fn parts_line(state: &str, facts: &CacheFacts) -> String {
    let ssd = short_name(&facts.ssd);
    if facts.chosen_name.is_empty() && facts.origin.label.is_empty() {
        // Translators: a cache in one line, for example "Working · with Samsung 870"
        let words = gettext("{state} · with {ssd}");
        return fill(&words, &[("state", state), ("ssd", &ssd)]);
    }
    let disk = short_name(&facts.origin);
    fill(
        // Translators: a cache in one line, for example "Working · WD Blue with Samsung 870"
        &gettext("{state} · {disk} with {ssd}"),
        &[("state", state), ("disk", &disk), ("ssd", &ssd)],
    )
}
