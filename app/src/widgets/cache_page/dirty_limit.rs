// SPDX-License-Identifier: GPL-3.0-or-later
//! How much data may be on the SSD only.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib::{self, clone};
use tandem_api::{DirtyLimit, Mode};

use super::CachePage;
use crate::display::{bytes, duration};
use crate::model::facts::CacheFacts;
use crate::widgets::remove_dialog::show_failure;

const MB: u64 = 1_000_000;

/// Only this time, in seconds.
const fn time(seconds: u32) -> DirtyLimit {
    DirtyLimit { seconds, bytes: 0 }
}

/// This amount, within the usual time.
const fn amount(bytes: u64) -> DirtyLimit {
    DirtyLimit { seconds: 30, bytes }
}

/// The limits that a person can choose.
const LIMITS: [DirtyLimit; 6] = [
    time(5),
    time(30),
    time(120),
    amount(100 * MB),
    amount(500 * MB),
    amount(2000 * MB),
];

impl CachePage {
    pub(super) fn prepare_dirty_limit(&self) {
        let row = &self.imp().dirty_limit;
        row.connect_selected_notify(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.set_dirty_limit()
        ));
    }

    /// Shows the setting of the service.
    pub(super) fn refresh_dirty_limit(&self, facts: &CacheFacts) {
        let imp = self.imp();
        let row = &imp.dirty_limit;
        row.set_visible(facts.mode == Mode::Writeback || facts.waits_for_kernel);
        let limits = limits(facts.dirty_limit);
        let place = limits.iter().position(|at| *at == facts.dirty_limit);
        let place = place.and_then(|place| u32::try_from(place).ok());
        if *imp.dirty_limits.borrow() != limits {
            let words: Vec<String> = limits.iter().map(limit_words).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            // A new model selects its first entry, which must not count as a choice.
            imp.dirty_limits.take();
            row.set_model(Some(&gtk::StringList::new(&words)));
        }
        imp.dirty_limits.take();
        row.set_selected(place.unwrap_or_default());
        imp.dirty_limits.replace(limits);
    }

    /// Has the service take over what the person has chosen.
    fn set_dirty_limit(&self) {
        let imp = self.imp();
        let place = usize::try_from(imp.dirty_limit.selected()).unwrap_or_default();
        let chosen = imp.dirty_limits.borrow().get(place).copied();
        let (Some(limit), Some(cache)) = (chosen, self.cache()) else {
            return;
        };
        if limit == cache.facts().dirty_limit {
            return;
        }
        let page = self.clone();
        self.run_command(move |parent, client, facts| async move {
            if let Err(failure) = client.set_dirty_limit(&facts.path, limit).await {
                show_failure(parent.as_ref(), &failure);
            }
            if let Some(cache) = page.cache() {
                page.refresh_dirty_limit(&cache.facts());
            }
        });
    }
}

/// The limits to choose from, with the present one.
fn limits(now: DirtyLimit) -> Vec<DirtyLimit> {
    let mut limits = LIMITS.to_vec();
    if !limits.contains(&now) {
        limits.push(now);
    }
    limits
}

fn limit_words(limit: &DirtyLimit) -> String {
    let time = duration(u64::from(limit.seconds));
    match *limit {
        DirtyLimit { bytes: 0, .. } => time,
        limit if limit == amount(limit.bytes) => bytes(limit.bytes),
        _ => format!("{time}, {}", bytes(limit.bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_another_program_has_set_can_be_kept() {
        assert_eq!(limits(DirtyLimit::default()), LIMITS);
        let other = DirtyLimit {
            seconds: 7,
            bytes: 3 * MB,
        };
        assert_eq!(limits(other).last(), Some(&other));
        assert_eq!(limit_words(&other), "7 seconds, 3.0\u{a0}MB");
        assert_eq!(limit_words(&DirtyLimit::default()), "30 seconds");
    }

    #[test]
    fn the_service_takes_every_limit_that_is_offered() {
        assert!(LIMITS.iter().all(DirtyLimit::is_valid));
    }
}
