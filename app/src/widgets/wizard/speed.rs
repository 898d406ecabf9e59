// SPDX-License-Identifier: GPL-3.0-or-later
//! The speed test and the advisor in the wizard: of the chosen disk before it has a cache, and the test of the new cache.

use adw::prelude::*;
use adw::subclass::prelude::*;
use tandem_api::CacheState;

use super::Wizard;
use crate::client::SpeedTarget;
use crate::display::{origin_choices, plain_name};
use crate::model::draft::Page;
use crate::widgets::advice_dialog::AdviceDialog;
use crate::widgets::speed_dialog::SpeedDialog;

impl Wizard {
    /// What can be tested on this page, and the name of the disk.
    fn speed_target(&self) -> Option<(SpeedTarget, String)> {
        let imp = self.imp();
        match self.page() {
            Page::Choices => {
                let origin = imp.draft.borrow().origin.clone()?;
                let choices = origin_choices(&self.devices());
                let disk = choices.into_iter().find(|choice| choice.path == origin)?;
                Some((SpeedTarget::Disk(origin), disk.title))
            }
            Page::Done => {
                let cache = imp.store.get()?.cache(&self.job_facts()?.cache_uuid)?;
                let facts = cache.facts();
                let works = facts.state == CacheState::Active;
                works.then(|| (SpeedTarget::Cache(facts.path), plain_name(&facts.origin)))
            }
            _ => None,
        }
    }

    /// Offers the test on the last page, if the cache works.
    pub(super) fn offer_speed_test(&self) {
        let offered = self.page() == Page::Done && self.speed_target().is_some();
        self.imp().done.offer_speed_test(offered);
    }

    /// Opens the window that says whether an SSD would help the chosen disk.
    pub(super) fn advise(&self) {
        let imp = self.imp();
        let target = self.speed_target();
        if let (Some(client), Some(store), Some((SpeedTarget::Disk(disk), name))) =
            (imp.client.get(), imp.store.get(), target)
        {
            AdviceDialog::open(Some(self.upcast_ref()), client, store, &disk, &name);
        }
    }

    /// Opens the window of the test.
    pub(super) fn test_speed(&self) {
        if let (Some(client), Some((target, disk))) = (self.imp().client.get(), self.speed_target())
        {
            SpeedDialog::open(Some(self.upcast_ref()), client, target, &disk, None);
        }
    }
}
