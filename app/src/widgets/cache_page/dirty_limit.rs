// SPDX-License-Identifier: GPL-3.0-or-later
//! How much data may be on the SSD only, and how long.

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib::{self, clone};
use tandem_api::DirtyLimit;

use super::{CachePage, choices};
use crate::display::{bytes, duration};
use crate::model::facts::CacheFacts;
use crate::widgets::remove_dialog::show_failure;

const MB: u64 = 1_000_000;

/// A limit of time alone, in seconds.
const fn time(seconds: u32) -> DirtyLimit {
    DirtyLimit {
        seconds,
        bytes: 0,
        rest: 0,
    }
}

/// This amount, within the usual time.
const fn amount(bytes: u64) -> DirtyLimit {
    DirtyLimit {
        seconds: DirtyLimit::SECONDS,
        bytes,
        rest: 0,
    }
}

/// The limits that a person can choose.
const LIMITS: [DirtyLimit; 7] = [
    time(5),
    time(30),
    time(120),
    time(DirtyLimit::SECONDS),
    amount(100 * MB),
    amount(500 * MB),
    amount(2000 * MB),
];

/// Minutes for which a person can let the hard disk rest.
const RESTS: [u32; 6] = [0, 30, 60, 3 * 60, 8 * 60, 24 * 60];

impl CachePage {
    pub(super) fn prepare_dirty_limit(&self) {
        let row = &self.imp().dirty_limit;
        row.connect_selected_notify(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.set_dirty_limit()
        ));
        self.imp().rest.connect_selected_notify(clone!(
            #[weak(rename_to = page)]
            self,
            move |_| page.set_dirty_limit()
        ));
    }

    /// Shows the settings of the service.
    pub(super) fn refresh_dirty_limit(&self, facts: &CacheFacts) {
        let imp = self.imp();
        let is_used = facts.can_write_back();
        imp.dirty_limit.set_visible(is_used);
        imp.rest.set_visible(is_used);
        let now = facts.dirty_limit;
        choices::show(
            &imp.dirty_limit,
            &imp.dirty_limits,
            limits(now),
            &now,
            limit_words,
        );
        choices::show(
            &imp.rest,
            &imp.rests,
            choices::minutes(&RESTS, now.rest),
            &now.rest,
            |&rest| choices::minutes_words(rest),
        );
    }

    /// Has the service take over what the person has chosen.
    fn set_dirty_limit(&self) {
        let imp = self.imp();
        let amount = choices::selected(&imp.dirty_limit, &imp.dirty_limits);
        let rest = choices::selected(&imp.rest, &imp.rests);
        let (Some(amount), Some(rest), Some(cache)) = (amount, rest, self.cache()) else {
            return;
        };
        let limit = DirtyLimit { rest, ..amount };
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
    let with_rest = |limit: &DirtyLimit| DirtyLimit {
        rest: now.rest,
        ..*limit
    };
    let mut limits: Vec<_> = LIMITS.iter().map(with_rest).collect();
    if !limits.contains(&now) {
        limits.push(now);
    }
    limits
}

fn limit_words(limit: &DirtyLimit) -> String {
    let time = duration(u64::from(limit.seconds));
    match *limit {
        DirtyLimit { bytes: 0, .. } => time,
        DirtyLimit {
            seconds: DirtyLimit::SECONDS,
            ..
        } => bytes(limit.bytes),
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
            rest: 90,
        };
        assert_eq!(limits(other).last(), Some(&other));
        assert_eq!(limit_words(&other), "7 seconds, 3.0\u{a0}MB");
        assert_eq!(limit_words(&DirtyLimit::default()), "10 minutes");
        let rests = choices::minutes(&RESTS, other.rest);
        assert_eq!((rests.len(), rests[3]), (7, 90));
        assert_eq!(choices::minutes_words(90), "1 h 30 min");
    }

    #[test]
    fn the_service_takes_every_limit_that_is_offered() {
        assert!(LIMITS.iter().all(DirtyLimit::is_valid));
        assert!(RESTS.iter().all(|rest| *rest <= DirtyLimit::MAX_REST));
    }
}
