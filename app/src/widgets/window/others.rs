// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands for caches of other systems.

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib;
use gtk::prelude::*;
use tandem_api::{JobKind, OtherKind};

use super::{Window, imp};
use crate::display::{job_end_words, origin_choices, remove_other_words};
use crate::model::facts::JobFacts;
use crate::model::objects::DeviceObject;
use crate::model::store::objects;
use crate::widgets::found::ask;
use crate::widgets::other::{CANCEL_OTHER, REMOVE_OTHER, SHOW_OTHER, WRITE_BACK_OTHER};
use crate::widgets::other_dialog::OtherDialog;
use crate::widgets::remove_dialog::show_failure;

/// Adds the commands to the window.
pub(super) fn install(class: &mut <imp::Window as ObjectSubclass>::Class) {
    let text = Some(glib::VariantTy::STRING);
    class.install_action(REMOVE_OTHER, text, |window, _, target| {
        if let Some(id) = target.and_then(glib::Variant::str) {
            window.remove_other(id);
        }
    });
    class.install_action(SHOW_OTHER, text, |window, _, target| {
        if let Some(id) = target.and_then(glib::Variant::str) {
            window.show_other(id);
        }
    });
    class.install_action(WRITE_BACK_OTHER, text, |window, _, target| {
        if let Some(id) = target.and_then(glib::Variant::str) {
            window.write_back_other(id);
        }
    });
    class.install_action(CANCEL_OTHER, text, |window, _, target| {
        if let Some(job) = target.and_then(glib::Variant::str) {
            window.cancel_other(job);
        }
    });
}

impl Window {
    /// Shows the last hour of this cache.
    fn show_other(&self, id: &str) {
        let imp = self.imp();
        let cache = imp.store.other_caches().into_iter().find(|c| c.id == id);
        if let (Some(client), Some(cache)) = (imp.client.get(), cache) {
            OtherDialog::open(Some(self.upcast_ref()), client, &cache);
        }
    }

    /// Asks whether this cache is to be written back and removed, and has it done.
    fn remove_other(&self, id: &str) {
        let imp = self.imp();
        let cache = imp.store.other_caches().into_iter().find(|c| c.id == id);
        let (Some(client), Some(cache)) = (imp.client.get().cloned(), cache) else {
            return;
        };
        let window = glib::object::ObjectExt::downgrade(self);
        glib::spawn_future_local(async move {
            let planned = client.plan_remove_other(&cache.id).await;
            let Some(window) = window.upgrade() else {
                return;
            };
            let parent = Some(window.upcast_ref());
            let plan = match planned {
                Ok(plan) => plan,
                Err(failure) => return show_failure(parent, &failure),
            };
            let removed = (cache.clone(), plan.origin.object.to_string());
            let mut removals = window.imp().removals.borrow_mut();
            removals.insert(cache.id.clone(), removed);
            drop(removals);
            let agreed = move || {
                let (client, plan) = (client.clone(), plan.clone());
                async move { client.remove_other(&plan).await }
            };
            ask(parent, &remove_other_words(&cache), false, agreed);
        });
    }

    /// The way on to Tandem after another system's cache was removed: the words of a button, its action and the target of
    /// that. Nothing if the disk cannot have a cache yet.
    pub(super) fn next_step(&self, job: &JobFacts) -> Option<(String, &'static str, String)> {
        let imp = self.imp();
        let (cache, partition) = imp.removals.borrow_mut().remove(&job.cache_uuid)?;
        let set_up = |disk: String| {
            let devices: Vec<_> = objects::<DeviceObject>(&imp.store.devices())
                .map(|device| device.facts())
                .collect();
            let choices = origin_choices(&devices);
            let is_open = choices.iter().any(|c| c.path == disk && c.is_open());
            is_open.then(|| (gettext("Set Up a Cache"), "win.set-up-disk", disk))
        };
        match (job.kind, cache.kind) {
            (JobKind::MakePlain, _) => set_up(partition),
            (JobKind::Remove, OtherKind::Bcache) => {
                Some((gettext("Make Plain…"), REMOVE_OTHER, cache.id))
            }
            (JobKind::Remove, _) => set_up(cache.mapped.to_string()),
            _ => None,
        }
    }

    /// Shows the end of a job, with a button for what can be done next.
    pub(super) fn offer_action(
        &self,
        job: &JobFacts,
        button: &str,
        action: &'static str,
        target: String,
    ) {
        let window = glib::object::ObjectExt::downgrade(self);
        self.offer(&job_end_words(job, false), button, move || {
            if let Some(window) = window.upgrade() {
                // The window has installed the action.
                let _ = WidgetExt::activate_action(&window, action, Some(&target.to_variant()));
            }
        });
    }

    /// Has this cache write everything back.
    fn write_back_other(&self, id: &str) {
        let Some(client) = self.imp().client.get().cloned() else {
            return;
        };
        let (window, id) = (glib::object::ObjectExt::downgrade(self), id.to_owned());
        glib::spawn_future_local(async move {
            if let Err(failure) = client.write_back_other(&id).await
                && let Some(window) = window.upgrade()
            {
                show_failure(Some(window.upcast_ref()), &failure);
            }
        });
    }

    /// Cancels the work of this job.
    fn cancel_other(&self, job: &str) {
        let Some(client) = self.imp().client.get().cloned() else {
            return;
        };
        let (window, job) = (glib::object::ObjectExt::downgrade(self), job.to_owned());
        glib::spawn_future_local(async move {
            let Err(failure) = client.cancel(&job).await else {
                return;
            };
            // The end of a job is shown already.
            let runs = |window: &Self| {
                let job = window.imp().store.job(&job);
                job.is_some_and(|job| job.facts().finished.is_none())
            };
            if let Some(window) = window.upgrade().filter(runs) {
                show_failure(Some(window.upcast_ref()), &failure);
            }
        });
    }
}
