// SPDX-License-Identifier: GPL-3.0-or-later
//! The speed test and the advisor in the wizard: of the chosen disk before it has a cache, and the test of the new cache.

use adw::prelude::*;
use adw::subclass::prelude::*;
use tandem_api::CacheState;

use super::Wizard;
use crate::client::SpeedTarget;
use crate::display::plain_name;
use crate::model::draft::Page;
use crate::widgets::advice_dialog::AdviceDialog;
use crate::widgets::speed_dialog::SpeedDialog;

impl Wizard {
    /// What can be tested on this page, and the name of the disk.
    fn speed_target(&self) -> Option<(SpeedTarget, String)> {
        let imp = self.imp();
        match self.page() {
            Page::Disk => {
                let origin = imp.draft.borrow().origin.clone()?;
                let (choices, _) = self.choices();
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

    /// Shows the button where there is something to test.
    pub(super) fn offer_speed_test(&self) {
        let something = self.speed_target().is_some();
        self.imp().test.set_visible(something);
        self.imp()
            .advise
            .set_visible(something && self.page() == Page::Disk);
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
