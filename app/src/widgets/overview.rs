// SPDX-License-Identifier: GPL-3.0-or-later
//! The first page: the caches and the disks of this machine, kept up to date.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib::{self, clone};
use gtk::{CompositeTemplate, gio};
use tandem_api::{Failure, FoundCache, OtherCache, Target};

use crate::a11y;
use crate::display::{failure_words, kernels_words, module_words, plain_name, watched_words};
use crate::enrollment;
use crate::model::facts::JobFacts;
use crate::model::objects::{CacheObject, DeviceObject, JobObject};
use crate::model::store::{Store, objects};
use crate::widgets::cache_row::CacheRow;
use crate::widgets::device_group::{DeviceGroup, advise_button};
use crate::widgets::error_view::ErrorView;
use crate::widgets::found::found_row;
use crate::widgets::other::{OtherRow, OtherShown};
use crate::widgets::spinner::spin_while_mapped;

mod imp {
    use super::*;

    #[derive(Default, CompositeTemplate)]
    #[template(file = "overview.ui")]
    pub struct Overview {
        #[template_child]
        pub add: TemplateChild<gtk::Button>,
        #[template_child]
        pub menu: TemplateChild<gtk::MenuButton>,
        #[template_child]
        pub stack: TemplateChild<gtk::Stack>,
        #[template_child]
        pub spinner: TemplateChild<gtk::Spinner>,
        #[template_child]
        pub error: TemplateChild<ErrorView>,
        #[template_child]
        pub hero: TemplateChild<gtk::Box>,
        #[template_child]
        pub notice: TemplateChild<gtk::Box>,
        #[template_child]
        pub notice_text: TemplateChild<gtk::Label>,
        #[template_child]
        pub notice_retry: TemplateChild<gtk::Button>,
        #[template_child]
        pub notice_module: TemplateChild<gtk::Button>,
        #[template_child]
        pub kernels: TemplateChild<gtk::Box>,
        #[template_child]
        pub kernels_title: TemplateChild<gtk::Label>,
        #[template_child]
        pub kernels_text: TemplateChild<gtk::Label>,
        #[template_child]
        pub caches: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub cache_list: TemplateChild<gtk::ListBox>,
        #[template_child]
        pub devices: TemplateChild<gtk::Box>,
        #[template_child]
        pub found: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub found_list: TemplateChild<gtk::ListBox>,
        /// The caches in `found_list`.
        pub shown_found: RefCell<Vec<FoundCache>>,
        #[template_child]
        pub others: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub other_list: TemplateChild<gtk::ListBox>,
        /// The caches in `other_list`.
        pub shown_others: RefCell<Vec<OtherShown>>,
        #[template_child]
        pub away: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub away_list: TemplateChild<gtk::ListBox>,
        /// The watches in `away_list`: id, name and words.
        pub away_rows: RefCell<Vec<[String; 3]>>,
        #[template_child]
        pub no_devices: TemplateChild<gtk::Label>,
        pub groups: RefCell<Vec<DeviceGroup>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Overview {
        const NAME: &'static str = "TandemOverview";
        type Type = super::Overview;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            ErrorView::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for Overview {
        fn constructed(&self) {
            self.parent_constructed();
            spin_while_mapped(&self.spinner);
            a11y::name_entries(&self.menu);
        }
    }
    impl WidgetImpl for Overview {}
    impl BinImpl for Overview {}
}

glib::wrapper! {
    /// A widget that shows a [`Store`].
    pub struct Overview(ObjectSubclass<imp::Overview>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Buildable, gtk::ConstraintTarget;
}

impl Overview {
    /// Shows this store from now on.
    pub fn connect_to(&self, store: &Store) {
        let imp = self.imp();
        imp.cache_list.bind_model(Some(&store.caches()), |object| {
            match object.downcast_ref::<CacheObject>() {
                Some(cache) => CacheRow::new(cache).upcast(),
                None => gtk::ListBoxRow::new().upcast(),
            }
        });
        store.devices().connect_items_changed(clone!(
            #[weak(rename_to = overview)]
            self,
            move |list, place, gone, come| overview.splice(list, place, gone, come)
        ));
        let devices = store.devices();
        self.splice(&devices, 0, 0, devices.n_items());
        store.connect_changed(clone!(
            #[weak(rename_to = overview)]
            self,
            move |store| overview.refresh(store)
        ));
        self.refresh(store);
    }

    /// Removes `gone` widgets and adds `come` new ones at `place`. Other disks keep their widgets, and so the focus.
    fn splice(&self, list: &gio::ListStore, place: u32, gone: u32, come: u32) {
        let imp = self.imp();
        let (place, gone) = (place as usize, gone as usize);
        let mut groups = imp.groups.borrow_mut();
        for group in groups.drain(place..place + gone) {
            imp.devices.remove(&group);
        }
        for offset in 0..come as usize {
            let at = place + offset;
            let item = u32::try_from(at).ok().and_then(|at| list.item(at));
            let Some(device) = item.and_downcast::<DeviceObject>() else {
                continue;
            };
            let group = DeviceGroup::new(&device);
            let before = at.checked_sub(1).and_then(|before| groups.get(before));
            imp.devices.insert_child_after(&group, before);
            groups.insert(at, group);
        }
    }

    fn refresh(&self, store: &Store) {
        let imp = self.imp();
        let caches = store.caches().n_items() > 0;
        let failed = store.disks_problem().or(store.service_problem());
        imp.hero.set_visible(!caches && failed.is_none());
        imp.add.set_visible(caches && failed.is_none());
        imp.caches.set_visible(caches);
        imp.no_devices
            .set_visible(store.devices().n_items() == 0 && store.disks_problem().is_none());
        self.show_found(store);
        self.show_others(store);
        self.show_away(store);
        let notice = failed
            .as_ref()
            .map(notice_words)
            .or_else(|| no_cache(store));
        imp.notice.set_visible(notice.is_some());
        imp.notice_retry.set_visible(failed.is_some());
        imp.notice_module
            .set_visible(failed.is_none() && notice.is_some());
        imp.notice_text.set_label(&notice.unwrap_or_default());
        let kernels = kernels_words(&store.kernels_without_module());
        let kernels = kernels.filter(|_| failed.is_none());
        imp.kernels.set_visible(kernels.is_some());
        if let Some([title, what, next]) = kernels {
            imp.kernels_title.set_label(&title);
            imp.kernels_text.set_label(&format!("{what}\n\n{next}"));
        }
        let page = match store.problem() {
            Some(failure) => {
                imp.error.show(&failure);
                "problem"
            }
            None if store.is_settled() => "content",
            None => "loading",
        };
        imp.stack.set_visible_child_name(page);
    }
}

impl Overview {
    /// Shows the caches without a record.
    fn show_found(&self, store: &Store) {
        let imp = self.imp();
        let caches = store.found_caches();
        imp.found.set_visible(!caches.is_empty());
        show_rows(&imp.found_list, &imp.shown_found, caches, found_row);
    }

    /// Shows the caches of other systems.
    fn show_others(&self, store: &Store) {
        let imp = self.imp();
        let jobs: Vec<_> = store.jobs().iter().map(JobObject::facts).collect();
        let with_job = |cache: OtherCache| {
            let is_its = |job: &&JobFacts| job.cache_uuid == cache.id && job.finished.is_none();
            let job = jobs.iter().find(is_its).cloned();
            OtherShown { cache, job }
        };
        let caches: Vec<_> = store.other_caches().into_iter().map(with_job).collect();
        imp.others.set_visible(!caches.is_empty());
        let mut shown = imp.shown_others.borrow_mut();
        let same = |(a, b): (&OtherShown, &OtherShown)| a.keeps_row(b);
        if shown.len() == caches.len() && shown.iter().zip(&caches).all(same) {
            // The same caches have new figures: the rows stay, and with them the focus.
            for (at, cache) in (0..).zip(&caches) {
                let row = imp.other_list.row_at_index(at);
                if let Some(row) = row.and_downcast::<OtherRow>() {
                    row.refresh(cache);
                }
            }
            *shown = caches;
            return;
        }
        drop(shown);
        show_rows(&imp.other_list, &imp.shown_others, caches, |cache| {
            OtherRow::new(cache).upcast()
        });
    }

    /// Shows the watched disks that are not connected.
    fn show_away(&self, store: &Store) {
        let imp = self.imp();
        let rows: Vec<_> = store
            .away_watches()
            .into_iter()
            .map(|watch| {
                let words = watched_words(watch.verdict);
                [watch.id, plain_name(&watch.disk), words]
            })
            .collect();
        imp.away.set_visible(!rows.is_empty());
        show_rows(&imp.away_list, &imp.away_rows, rows, away_row);
    }
}

/// A watched disk that is not connected: id of its watch, name and words.
fn away_row([id, name, words]: &[String; 3]) -> adw::ActionRow {
    let row = adw::ActionRow::builder()
        .use_markup(false)
        .title(name)
        .subtitle(words)
        .title_lines(0)
        .subtitle_lines(0)
        .build();
    row.add_suffix(&advise_button(id, name));
    row
}

/// Shows `now` in a list instead of `shown`. The rows are made anew only if they change, so that the focus stays.
fn show_rows<T: PartialEq>(
    list: &gtk::ListBox,
    shown: &RefCell<Vec<T>>,
    now: Vec<T>,
    row: fn(&T) -> adw::ActionRow,
) {
    if *shown.borrow() == now {
        return;
    }
    while let Some(row) = list.first_child() {
        list.remove(&row);
    }
    for item in &now {
        list.append(&row(item));
    }
    shown.replace(now);
}

/// Why no cache can be created on this machine now. None where all caches are the kernel's own, which need no module.
fn no_cache(store: &Store) -> Option<String> {
    let caches = store.caches();
    let mut targets = objects::<CacheObject>(&caches)
        .map(|cache| cache.facts().target)
        .peekable();
    if targets.peek().is_some() && targets.all(|target| target == Target::DmCache) {
        return None;
    }
    let words = module_words(&store.module()?, enrollment::is_asked())?;
    Some(format!("{} {}", words.what, words.next))
}

/// The failure and the user's next step, in words.
fn notice_words(failure: &Failure) -> String {
    let words = failure_words(failure);
    format!("{} {}", words.what, words.next)
}
