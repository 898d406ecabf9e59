// SPDX-License-Identifier: GPL-3.0-or-later
//! The size of the new cache, where the chosen SSD leaves a choice.

use adw::subclass::prelude::*;
use gtk::prelude::*;

use super::Wizard;
use crate::display::{SizeOffer, memory_sizes, size_advice, size_offer};
use crate::model::draft::{MEMORY, parts_of_key};
use crate::model::objects::DeviceObject;
use crate::model::store::objects;
use crate::widgets::size_row::SizeRange;

/// What a partition table takes at both ends of an SSD.
const TABLE_BYTES: u64 = 2 << 20;

impl Wizard {
    /// Offers the sizes that the chosen SSD leaves to choose. A size that was chosen stays as long as the offer does.
    pub(super) fn offer_sizes(&self) {
        let imp = self.imp();
        let offer = self.sizes();
        let row = imp.choices.size();
        row.set_visible(offer.is_some());
        if *imp.sizes.borrow() == offer {
            return;
        }
        imp.sizes.replace(offer.clone());
        let (Some((_, offer)), Some(store)) = (offer, imp.store.get()) else {
            return;
        };
        let range = SizeRange {
            least: store.minimum_ssd_bytes(),
            most: offer.most,
        };
        row.offer(range, offer.first, &offer.reason);
        self.choose_size(offer.first);
    }

    /// The key of the chosen SSD, and the sizes there.
    fn sizes(&self) -> Option<(String, SizeOffer)> {
        let imp = self.imp();
        let draft = imp.draft.borrow().clone();
        let (key, origin) = (draft.ssd?, draft.origin?);
        let (path, _) = parts_of_key(&key);
        if path == MEMORY {
            let offer = memory_sizes(imp.store.get()?.memory_for_caches());
            return Some((key, offer));
        }
        let layouts = imp.layouts.borrow();
        let list = imp.store.get()?.devices();
        let disk_bytes = objects::<DeviceObject>(&list)
            .flat_map(|device| device.facts().volumes)
            .find(|volume| volume.path == origin)
            .map_or(0, |volume| volume.size);
        let offer = size_offer(layouts.parts().get(path)?, &key, disk_bytes)?;
        Some((key, offer))
    }

    /// Takes the size of the row. An SSD that is taken as a whole gets no partition.
    pub(super) fn choose_size(&self, bytes: u64) {
        let imp = self.imp();
        let sizes = imp.sizes.borrow().clone();
        let Some((key, offer)) = sizes else { return };
        let is_whole = parts_of_key(&key).1 == 0 && bytes.saturating_add(TABLE_BYTES) >= offer.most;
        imp.draft.borrow_mut().size = (!is_whole).then_some(bytes);
        if parts_of_key(&key).0 == MEMORY {
            let origin = imp.draft.borrow().origin.clone();
            let watch = origin.and_then(|disk| imp.store.get()?.watch(&disk));
            imp.choices
                .size()
                .explain(&size_advice(watch.as_ref(), bytes));
        }
        self.show_shares();
    }
}
