// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands of the page, and the card of the job that changes the cache.

use adw::subclass::prelude::*;
use gettextrs::gettext;
use gtk::glib::{self, clone};
use gtk::prelude::*;

use super::CachePage;
use super::menu::offer;
use super::pause::PAUSE;
use crate::client::Client;
use crate::model::facts::CacheFacts;
use crate::model::objects::JobObject;
use crate::model::series::Series;
use crate::widgets::mode_dialog::ask_for_mode;
use crate::widgets::remove_dialog::{ask_to_remove, show_failure};
use crate::widgets::rename_dialog::ask_for_name;
use crate::widgets::resize_dialog::ask_for_size;

/// The action of the entry of the menu.
pub(super) const CHANGE_MODE: &str = "cache.change-mode";
const CHANGE_SIZE: &str = "cache.change-size";

impl CachePage {
    /// The job that changes this cache now.
    pub(super) fn job(&self) -> Option<JobObject> {
        let path = self.cache()?.facts().job?;
        let job = self.imp().store.get()?.job(&path)?;
        job.facts().finished.is_none().then_some(job)
    }

    /// Shows the job that changes this cache, if there is one, or how that job ended.
    pub(super) fn refresh_job(&self) {
        let imp = self.imp();
        let job = self.job();
        imp.changing.set(job.is_some());
        imp.remove_group.set_visible(job.is_none());
        imp.job_card.show(job.as_ref());
        self.refresh_state();
    }

    /// Runs one command. Until that command has ended, the page takes no other.
    pub(super) fn run_command<F: Future<Output = ()>>(
        &self,
        command: impl FnOnce(Option<gtk::Window>, Client, CacheFacts) -> F + 'static,
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
                command(parent, client, cache.facts()).await;
                page.imp().busy.set(false);
                page.refresh_state();
            }
        ));
    }

    pub(super) fn remove(&self) {
        let Some((_, drain_seconds)) = self
            .cache()
            .map(|cache| cache.with_series(Series::unwritten))
        else {
            return;
        };
        self.run_command(move |parent, client, cache| async move {
            ask_to_remove(parent.as_ref(), &client, &cache, drain_seconds).await;
        });
    }

    pub(super) fn flush(&self) {
        self.run_command(|parent, client, cache| async move {
            if let Err(failure) = client.flush(&cache.path).await {
                show_failure(parent.as_ref(), &failure);
            }
        });
    }

    pub(super) fn change_size(&self) {
        let (Some(store), Some(cache)) = (self.imp().store.get().cloned(), self.cache()) else {
            return;
        };
        let (_, drain_seconds) = cache.with_series(Series::unwritten);
        self.run_command(move |parent, client, cache| async move {
            ask_for_size(parent.as_ref(), &client, &store, &cache, drain_seconds).await;
        });
    }

    pub(super) fn rename(&self) {
        self.run_command(|parent, client, cache| async move {
            ask_for_name(parent.as_ref(), &client, &cache);
        });
    }

    /// Enables the ways to change the mode. `has_modes`: the target of the cache has more than one.
    pub(super) fn enable_modes(&self, enabled: bool, has_modes: bool) {
        let imp = self.imp();
        imp.mode.set_activatable(enabled);
        imp.mode_arrow.set_visible(enabled);
        self.action_set_enabled(CHANGE_MODE, enabled);
        let (before, words) = ("cache.test-speed", gettext("Change _Mode…"));
        offer(&imp.cache_section, CHANGE_MODE, before, &words, has_modes);
    }

    /// Enables the entry that changes the size. `has_sizes`: the size of the cache can be changed at all.
    pub(super) fn offer_size(&self, enabled: bool, has_sizes: bool) {
        self.action_set_enabled(CHANGE_SIZE, enabled && has_sizes);
        let section = &self.imp().cache_section;
        offer(
            section,
            CHANGE_SIZE,
            PAUSE,
            &gettext("Change Si_ze…"),
            has_sizes,
        );
    }

    pub(super) fn change_mode(&self) {
        self.run_command(|parent, client, cache| async move {
            ask_for_mode(parent.as_ref(), &client, &cache);
        });
    }
}
