// SPDX-License-Identifier: GPL-3.0-or-later
//! Everything that the window shows, in one place: takes facts in, keeps list models and objects in step.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::OnceLock;

use gtk::glib::subclass::Signal;
use gtk::glib::{self, subclass::prelude::*};
use gtk::{gio, prelude::*};
use tandem_api::{DiskWatch, Failure, FoundCache, JudgedDevice, OtherCache, Sample, WatchState};

use super::arrange::arrange;
use super::facts::{ModuleFacts, ServiceFacts};
use super::inventory::{Block, Content, Snapshot};
use super::objects::{CacheObject, DeviceObject, JobObject, follow};

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct Store {
        pub caches: RefCell<Option<gio::ListStore>>,
        pub devices: RefCell<Option<gio::ListStore>>,
        pub jobs: RefCell<HashMap<String, JobObject>>,
        pub snapshot: RefCell<Snapshot>,
        /// For each SSD without a signature, by block path: the block as it was when the service was asked whether the
        /// SSD is blank, and the answer. `None` until the service has answered.
        pub blank: RefCell<HashMap<String, (Block, Option<bool>)>>,
        pub module: RefCell<Option<ModuleFacts>>,
        pub kernels_without_module: RefCell<Vec<String>>,
        pub watches: RefCell<Vec<DiskWatch>>,
        pub found: RefCell<Vec<FoundCache>>,
        pub others: RefCell<Vec<OtherCache>>,
        pub judged: RefCell<HashMap<String, JudgedDevice>>,
        pub minimum_ssd_bytes: Cell<u64>,
        pub memory_for_caches: Cell<u64>,
        pub service_problem: RefCell<Option<Failure>>,
        pub service_left: Cell<bool>,
        pub disks_problem: RefCell<Option<Failure>>,
        pub disks_known: Cell<bool>,
        pub service_known: Cell<bool>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Store {
        const NAME: &'static str = "TandemStore";
        type Type = super::Store;
    }

    impl ObjectImpl for Store {
        fn constructed(&self) {
            self.parent_constructed();
            self.caches
                .replace(Some(gio::ListStore::new::<CacheObject>()));
            self.devices
                .replace(Some(gio::ListStore::new::<DeviceObject>()));
        }

        fn signals() -> &'static [Signal] {
            static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
            SIGNALS.get_or_init(|| vec![Signal::builder("changed").build()])
        }
    }
}

glib::wrapper! {
    /// What is known of disks, caches, jobs and of the service. `changed` is emitted after every change.
    pub struct Store(ObjectSubclass<imp::Store>);
}

impl Default for Store {
    fn default() -> Self {
        glib::Object::new()
    }
}

impl Store {
    /// The caches, as [`CacheObject`]s.
    #[must_use]
    pub fn caches(&self) -> gio::ListStore {
        #[allow(clippy::unwrap_used, reason = "set when the object is constructed")]
        self.imp().caches.borrow().clone().unwrap()
    }

    /// The disks, as [`DeviceObject`]s.
    #[must_use]
    pub fn devices(&self) -> gio::ListStore {
        #[allow(clippy::unwrap_used, reason = "set when the object is constructed")]
        self.imp().devices.borrow().clone().unwrap()
    }

    /// The cache with this uuid.
    #[must_use]
    pub fn cache(&self, uuid: &str) -> Option<CacheObject> {
        objects::<CacheObject>(&self.caches()).find(|cache| cache.facts().uuid == uuid)
    }

    /// The job at this path, if the service has announced it.
    #[must_use]
    pub fn job(&self, path: &str) -> Option<JobObject> {
        self.imp().jobs.borrow().get(path).cloned()
    }

    /// All jobs, also those that ended a moment ago.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobObject> {
        self.imp().jobs.borrow().values().cloned().collect()
    }

    /// The kernel module; `None` until the service has told of it.
    #[must_use]
    pub fn module(&self) -> Option<ModuleFacts> {
        self.imp().module.borrow().clone()
    }

    /// Releases of the kernels that may start next and have no module.
    #[must_use]
    pub fn kernels_without_module(&self) -> Vec<String> {
        self.imp().kernels_without_module.borrow().clone()
    }

    /// The watch of the disk with this block path, or the watch with this id.
    #[must_use]
    pub fn watch(&self, disk: &str) -> Option<DiskWatch> {
        let watches = self.imp().watches.borrow();
        let mut found = watches.iter().filter(|w| w.is_of(disk) || w.id == disk);
        found.next().cloned()
    }

    /// The caches of which this system has no record.
    #[must_use]
    pub fn found_caches(&self) -> Vec<FoundCache> {
        self.imp().found.borrow().clone()
    }

    /// The caches that other systems have made. None without the service: the caches go on, and old figures would be believed.
    #[must_use]
    pub fn other_caches(&self) -> Vec<OtherCache> {
        match self.has_service_left() {
            true => Vec::new(),
            false => self.imp().others.borrow().clone(),
        }
    }

    /// Whether the service has to come back so that the caches of other systems are shown.
    #[must_use]
    pub fn misses_others(&self) -> bool {
        self.has_service_left() && !self.imp().others.borrow().is_empty()
    }

    /// The watches of disks that are not connected.
    #[must_use]
    pub fn away_watches(&self) -> Vec<DiskWatch> {
        let watches = self.imp().watches.borrow();
        let away = watches.iter().filter(|w| w.state == WatchState::Away);
        away.cloned().collect()
    }

    /// Least bytes that an SSD must have; 0 until the service has named them.
    #[must_use]
    pub fn minimum_ssd_bytes(&self) -> u64 {
        self.imp().minimum_ssd_bytes.get()
    }

    /// Most bytes of memory that caches may take together; 0 where none can.
    #[must_use]
    pub fn memory_for_caches(&self) -> u64 {
        self.imp().memory_for_caches.get()
    }

    /// Why the window cannot show anything: neither service answers.
    #[must_use]
    pub fn problem(&self) -> Option<Failure> {
        self.service_problem().and(self.disks_problem())
    }

    /// Why the disks are not known, or not up to date.
    #[must_use]
    pub fn disks_problem(&self) -> Option<Failure> {
        self.imp().disks_problem.borrow().clone()
    }

    /// Why the caches are not known, or not up to date.
    #[must_use]
    pub fn service_problem(&self) -> Option<Failure> {
        self.imp().service_problem.borrow().clone()
    }

    /// Whether each of the two services has answered or failed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let imp = self.imp();
        (imp.disks_known.get() || imp.disks_problem.borrow().is_some())
            && (imp.service_known.get() || imp.service_problem.borrow().is_some())
    }

    /// Whether both services have sent their facts and still answer.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let imp = self.imp();
        imp.disks_known.get()
            && imp.service_known.get()
            && self.disks_problem().or(self.service_problem()).is_none()
    }

    /// Takes the snapshot of UDisks2, or the reason why there is none.
    pub fn apply_disks(&self, told: Result<Snapshot, Failure>) {
        match told {
            Ok(snapshot) => {
                let same = |path: &String, (asked, _): &mut (Block, Option<bool>)| {
                    snapshot.blocks.get(path) == Some(asked)
                };
                self.imp().blank.borrow_mut().retain(same);
                if self.has_service_left() {
                    // Another disk may have the path of one that the service has judged.
                    let before = self.imp().snapshot.borrow();
                    let known = |path: &String, _: &mut JudgedDevice| {
                        snapshot.blocks.get(path) == before.blocks.get(path)
                    };
                    self.imp().judged.borrow_mut().retain(known);
                }
                self.imp().snapshot.replace(snapshot);
                self.imp().disks_problem.replace(None);
                self.imp().disks_known.set(true);
                self.arrange();
            }
            Err(failure) => {
                self.imp().disks_problem.replace(Some(failure));
            }
        }
        self.emit_by_name::<()>("changed", &[]);
    }

    /// Takes the facts of the service.
    pub fn apply_service(&self, facts: ServiceFacts) {
        let imp = self.imp();
        imp.module.replace(Some(facts.module));
        imp.kernels_without_module
            .replace(facts.kernels_without_module);
        imp.watches.replace(facts.watches);
        imp.found.replace(facts.found);
        imp.others.replace(facts.others);
        let by_path = |judged: JudgedDevice| (judged.device.object.to_string(), judged);
        imp.judged
            .replace(facts.devices.into_iter().map(by_path).collect());
        imp.minimum_ssd_bytes.set(facts.minimum_ssd_bytes);
        imp.memory_for_caches.set(facts.memory_for_caches);
        imp.service_problem.replace(None);
        imp.service_left.set(false);
        imp.service_known.set(true);
        let jobs: HashMap<String, JobObject> = facts
            .jobs
            .into_iter()
            .map(|job| {
                let known = imp.jobs.borrow().get(&job.path).cloned();
                let path = job.path.clone();
                let object = known.unwrap_or_else(|| JobObject::new(job.clone()));
                object.update(job);
                (path, object)
            })
            .collect();
        imp.jobs.replace(jobs);
        synchronise(
            &self.caches(),
            facts.caches,
            |object: &CacheObject, facts| object.facts().path == facts.path,
            CacheObject::new,
            |object, facts| object.update(facts),
        );
        self.arrange();
        self.emit_by_name::<()>("changed", &[]);
    }

    /// The service has left the bus. Returns whether it is missed: without a cache and a watch it leaves by itself,
    /// otherwise it was stopped or killed. Caches and watches go on without it, and stay as they were last known.
    pub fn service_left(&self) -> bool {
        self.imp().service_left.set(true);
        // The next service may give another job the same path.
        self.imp().jobs.borrow_mut().clear();
        self.arrange();
        self.emit_by_name::<()>("changed", &[]);
        self.caches().n_items() > 0 || !self.imp().watches.borrow().is_empty()
    }

    /// Whether the service has left the bus and told nothing since. What is known is of before, and a job that it was at
    /// may be undone yet.
    pub fn has_service_left(&self) -> bool {
        self.imp().service_left.get()
    }

    /// The system bus could not be reached, and so neither could the two services.
    pub fn bus_failed(&self, failure: Failure) {
        self.imp().disks_problem.replace(Some(failure.clone()));
        self.service_failed(failure);
    }

    /// The service could not be reached. The caches stay as they were last known, without current figures.
    pub fn service_failed(&self, failure: Failure) {
        self.imp().service_problem.replace(Some(failure));
        for cache in objects::<CacheObject>(&self.caches()) {
            cache.set_history(vec![]);
        }
        self.emit_by_name::<()>("changed", &[]);
    }

    /// Takes a sample of the cache at this object path.
    pub fn apply_sample(&self, path: &str, sample: Sample) {
        let cache = objects::<CacheObject>(&self.caches()).find(|cache| cache.facts().path == path);
        if let Some(cache) = cache {
            cache.sample(sample);
        }
    }

    /// Calls `then` after every change, as long as the returned group is kept.
    #[must_use]
    pub fn follow_changes(&self, then: impl Fn(&Self) + 'static) -> glib::SignalGroup {
        follow(self, "changed", then)
    }

    /// Calls `then` after every change, as long as the store lives.
    pub fn connect_changed(&self, then: impl Fn(&Self) + 'static) {
        self.connect_closure(
            "changed",
            false,
            glib::closure_local!(move |store: &Self| then(store)),
        );
    }

    /// SSDs without a signature that the service was not asked about yet. Each SSD is returned once, and again only
    /// after it has changed.
    pub fn take_unasked_ssds(&self) -> Vec<String> {
        let imp = self.imp();
        let snapshot = imp.snapshot.borrow();
        let mut blank = imp.blank.borrow_mut();
        let mut unasked = Vec::new();
        for device in objects::<DeviceObject>(&self.devices()) {
            for volume in device.facts().volumes {
                let open = volume.as_ssd.is_ok() && volume.content == Content::Unknown;
                if let (true, Some(block)) = (open, snapshot.blocks.get(&volume.path))
                    && !blank.contains_key(&volume.path)
                {
                    blank.insert(volume.path.clone(), (block.clone(), None));
                    unasked.push(volume.path);
                }
            }
        }
        unasked
    }

    /// Block paths of the volumes that can be cached.
    #[must_use]
    pub fn origins(&self) -> Vec<String> {
        objects::<DeviceObject>(&self.devices())
            .flat_map(|device| device.facts().volumes)
            .filter(|volume| volume.as_origin.is_ok())
            .map(|volume| volume.path)
            .collect()
    }

    /// Takes the answer of the service to the question whether an SSD is blank.
    pub fn apply_blank(&self, path: &str, is_blank: bool) {
        if let Some((_, answer)) = self.imp().blank.borrow_mut().get_mut(path) {
            *answer = Some(is_blank);
        }
        self.arrange();
        self.emit_by_name::<()>("changed", &[]);
    }

    fn arrange(&self) {
        let parts: Vec<_> = objects::<CacheObject>(&self.caches())
            .map(|cache| cache.facts().parts)
            .collect();
        let judged = self.imp().judged.borrow();
        let mut devices = arrange(&self.imp().snapshot.borrow(), &parts, &judged);
        drop(judged);
        let blank = self.imp().blank.borrow();
        for volume in devices.iter_mut().flat_map(|device| &mut device.volumes) {
            let known = blank.get(&volume.path).and_then(|(_, answer)| *answer);
            if volume.content == Content::Unknown && known == Some(true) {
                volume.content = Content::Empty;
            }
            volume.watched = self.watch(&volume.path).map(|watch| watch.verdict);
        }
        drop(blank);
        synchronise(
            &self.devices(),
            devices,
            |object: &DeviceObject, device| object.facts().path == device.path,
            DeviceObject::new,
            |object, device| object.update(device),
        );
    }
}

/// The objects of a list.
pub fn objects<T: IsA<glib::Object>>(list: &gio::ListStore) -> impl Iterator<Item = T> {
    (0..list.n_items()).filter_map(|place| list.item(place).and_downcast::<T>())
}

/// Makes `list` show `facts` in their order. Objects of facts that stay are kept and updated, so that the widgets which
/// show them keep their place and their focus.
fn synchronise<T: IsA<glib::Object>, F: Clone>(
    list: &gio::ListStore,
    facts: Vec<F>,
    same: impl Fn(&T, &F) -> bool,
    new: impl Fn(F) -> T,
    update: impl Fn(&T, F),
) {
    let known: Vec<T> = objects(list).collect();
    let wanted: Vec<T> = facts
        .iter()
        .map(|fact| {
            known
                .iter()
                .find(|object| same(object, fact))
                .cloned()
                .unwrap_or_else(|| new(fact.clone()))
        })
        .collect();
    for place in (0..list.n_items()).rev() {
        let stays = list
            .item(place)
            .and_downcast::<T>()
            .is_some_and(|object| wanted.contains(&object));
        if !stays {
            list.remove(place);
        }
    }
    for (place, object) in (0..).zip(&wanted) {
        if list.item(place).and_downcast_ref::<T>() != Some(object) {
            if let Some(old) = list.find(object) {
                list.remove(old);
            }
            list.insert(place, object);
        }
    }
    for (object, fact) in wanted.iter().zip(facts) {
        update(object, fact);
    }
}
