// SPDX-License-Identifier: GPL-3.0-or-later
//! The first page: disk, SSD, mode and size for the usual case, and what the person chooses instead.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib::{self, clone};
use tandem_api::{SsdPart, Target};

use super::Wizard;
use crate::display::{
    Choice, SsdShare, memory_choice, mode_warnings, origin_choices, ssd_choices, ssd_shares,
};
use crate::model::inventory::{Device, Volume};
use crate::model::objects::DeviceObject;
use crate::model::offer::{SsdOffer, ssd_offers, suggested_ssd};
use crate::model::store::{Store, objects};
use crate::widgets::resize_dialog::disk_names;
use crate::widgets::scrolled::scroll_to_end;

impl Wizard {
    pub(super) fn connect_choices(&self) {
        let page = &self.imp().choices;
        page.disk().connect_chosen(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |path| {
                wizard.choose_origin(Some(path));
                wizard.show_choices();
            }
        ));
        page.ssd().connect_chosen(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |path| {
                wizard.imp().draft.borrow_mut().choose_ssd(Some(path));
                wizard.show_choices();
            }
        ));
        page.mode().connect_chosen(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |mode| {
                wizard.imp().draft.borrow_mut().mode = mode;
                wizard.show_mode();
                if !mode_warnings(mode).is_empty() {
                    scroll_to_end(&wizard.imp().scroller);
                }
            }
        ));
        page.connect_kernel_cache(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |target| {
                if wizard.target() != target {
                    wizard.imp().draft.borrow_mut().target = target;
                    wizard.show_choices();
                }
            }
        ));
        page.size().connect_changed(clone!(
            #[weak(rename_to = wizard)]
            self,
            move |bytes| wizard.choose_size(bytes)
        ));
    }

    pub(super) fn choose_origin(&self, path: Option<String>) {
        let same = self.imp().draft.borrow().origin == path;
        self.imp().draft.borrow_mut().choose_origin(path);
        if !same && self.origin_is_root() {
            self.imp().draft.borrow_mut().at_next_start = true;
        }
    }

    /// The target that is to serve the cache.
    pub(super) fn target(&self) -> Target {
        self.imp().draft.borrow().target
    }

    /// The devices that are there.
    pub(super) fn devices(&self) -> Vec<Device> {
        let list = self.imp().store.get().map(Store::devices);
        list.map_or_else(Vec::new, |list| {
            objects::<DeviceObject>(&list)
                .map(|device| device.facts())
                .collect()
        })
    }

    /// Chooses an SSD for the usual case, unless the person has chosen one. A chosen device that is gone is no longer
    /// chosen, and another disk is not chosen in its place.
    fn suggest(&self, devices: &[Device], origins: &[Choice], least: u64) {
        let imp = self.imp();
        imp.draft.borrow_mut().recognize(devices);
        let chosen = imp.draft.borrow().origin.clone();
        let is_chosen = |row: &Choice| chosen.as_ref() == Some(&row.path) && row.is_open();
        if chosen.is_some() && !origins.iter().any(is_chosen) {
            self.choose_origin(None);
        }
        imp.layouts.borrow_mut().drop_old(devices);
        let memory = self.memory();
        let layouts = imp.layouts.borrow();
        let layouts = layouts.parts();
        let mut draft = imp.draft.borrow_mut();
        let origin = draft.origin.clone().unwrap_or_default();
        let offers = ssd_offers(devices, layouts, &origin, least);
        let is_chosen = |offer: &SsdOffer<'_>| Some(offer.key()) == draft.ssd && offer.is_open();
        let in_memory = memory > 0 && draft.memory_bytes().is_some();
        if draft.ssd.is_some() && !in_memory && !offers.iter().any(is_chosen) {
            draft.choose_ssd(None);
        }
        let mut volumes = devices.iter().flat_map(|device| &device.volumes);
        let disk = volumes.find(|volume| volume.path == origin);
        let disk_bytes = disk.map_or(0, |disk| disk.size);
        draft.suggest_ssd(suggested_ssd(&offers, disk_bytes));
        let chosen = offers.iter().find(|offer| Some(offer.key()) == draft.ssd);
        draft.erases = chosen.is_some_and(|offer| !offer.loss.is_none());
        draft.recognize(devices);
    }

    /// Shows what is chosen and what can be chosen now.
    pub(super) fn show_choices(&self) {
        let imp = self.imp();
        let Some(store) = imp.store.get() else {
            return;
        };
        let (devices, least) = (self.devices(), store.minimum_ssd_bytes());
        let origins = origin_choices(&devices);
        self.suggest(&devices, &origins, least);
        let draft = imp.draft.borrow().clone();
        let origin = draft.origin.as_deref();
        let mut ssds = ssd_choices(
            &devices,
            imp.layouts.borrow().parts(),
            origin.unwrap_or_default(),
            least,
        );
        ssds.extend(memory_choice(self.memory()));
        imp.choices.show_disks(origins, origin);
        let known = imp.layouts_known.get();
        imp.choices.show_ssds(ssds, draft.ssd.as_deref(), known);
        self.ask_modes();
        self.show_mode();
        self.offer_sizes();
        self.show_shares();
        self.refresh();
        self.load_layouts();
    }

    pub(super) fn show_mode(&self) {
        let imp = self.imp();
        let (mode, target) = (imp.draft.borrow().mode, self.target());
        let refused = imp.refused_modes.borrow();
        imp.choices.show_mode(mode, target, &refused);
        // Where the module cannot be loaded, there is no choice.
        let module = imp.store.get().and_then(Store::module);
        let is_choice = module.is_some_and(|module| module.has_dm_cache && module.is_usable());
        imp.choices.show_kernel_cache(is_choice, target);
    }

    /// Shows how the chosen SSD is shared, where it is.
    pub(super) fn show_shares(&self) {
        let imp = self.imp();
        let shares = self.shares();
        imp.choices.bar().show(&shares);
        imp.review.show_shares(&shares);
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
        let layouts = layouts.parts();
        let has =
            |layout: &&Vec<SsdPart>| layout.iter().any(|part| part.device.object.as_str() == ssd);
        let layout = layouts.get(&ssd).or_else(|| layouts.values().find(has));
        layout.map_or_else(Vec::new, |layout| ssd_shares(layout, &ssd, bytes, &disks))
    }

    /// Asks how each SSD is divided, so that its free space can be offered. An SSD is asked about again when another
    /// one has its block path, or when it is divided in another way.
    fn load_layouts(&self) {
        let imp = self.imp();
        let Some(client) = imp.client.get().cloned() else {
            return;
        };
        let is_missing = imp.layouts.borrow().missing(&self.devices()).is_some();
        if imp.loads_layouts.get() || (imp.layouts_known.get() && !is_missing) {
            return;
        }
        imp.loads_layouts.set(true);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = wizard)]
            self,
            async move {
                let imp = wizard.imp();
                let missing = || imp.layouts.borrow().missing(&wizard.devices());
                while let Some(ssd) = missing() {
                    let parts = client.ssd_layout(&ssd.path).await;
                    // Without it only the SSD as a whole and its partitions are offered.
                    if let Err(failure) = &parts {
                        tracing::debug!("{} has no layout: {failure}", ssd.path);
                    }
                    // The facts are those from before the question: if they changed meanwhile, the layout is old.
                    imp.layouts.borrow_mut().insert(&ssd, parts.ok());
                    // The wizard was closed meanwhile.
                    if imp.store_changes.borrow().is_none() {
                        return;
                    }
                }
                imp.loads_layouts.set(false);
                imp.layouts_known.set(true);
                wizard.facts_changed();
                if RootExt::focus(&wizard).is_none() {
                    wizard.focus_page();
                }
            }
        ));
    }

    /// Most bytes of memory that may be chosen in the place of an SSD; 0 where the cache needs an SSD.
    fn memory(&self) -> u64 {
        if self.target() == Target::DmCache || self.origin_is_root() {
            return 0;
        }
        self.imp().store.get().map_or(0, Store::memory_for_caches)
    }

    /// Whether the chosen disk holds the running system.
    pub(super) fn origin_is_root(&self) -> bool {
        let Some(origin) = self.imp().draft.borrow().origin.clone() else {
            return false;
        };
        let is_root = |volume: &Volume| {
            volume.path == origin && volume.mount_points.iter().any(|mount| mount == "/")
        };
        let devices = self.devices();
        devices
            .iter()
            .any(|device| device.volumes.iter().any(is_root))
    }
}
