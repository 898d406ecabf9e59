// SPDX-License-Identifier: GPL-3.0-or-later
//! Offers to change how the start of the computer finds the disk, where it would not find the disk with a cache.

use adw::subclass::prelude::*;
use gtk::glib::{self, clone};

use super::Wizard;

impl Wizard {
    /// Shows the changes that let the start find the chosen disk with a cache.
    pub(super) async fn offer_name_changes(&self) {
        let imp = self.imp();
        let (Some(client), Some(disk)) = (imp.client.get(), imp.draft.borrow().origin.clone())
        else {
            return;
        };
        match client.name_changes(&disk).await {
            Ok(changes) => imp.review.offer_name_changes(&changes),
            // The person must not do by hand what the service refuses.
            Err(failure) => imp.review.show_failure(&failure),
        }
    }

    /// Has the changes made that are shown, and makes the plan again.
    pub(super) fn change_names(&self) {
        let imp = self.imp();
        let (Some(client), Some(disk)) =
            (imp.client.get().cloned(), imp.draft.borrow().origin.clone())
        else {
            return;
        };
        let changes = imp.review.name_changes();
        self.set_busy(true);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = wizard)]
            self,
            async move {
                let changed = client.change_names(&disk, &changes).await;
                wizard.set_busy(false);
                match changed {
                    Ok(()) => wizard.make_plan(),
                    Err(failure) => {
                        wizard.imp().review.show_failure(&failure);
                        wizard.refresh();
                    }
                }
            }
        ));
    }
}
