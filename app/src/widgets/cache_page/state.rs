// SPDX-License-Identifier: GPL-3.0-or-later
//! The top of the page: the safety line, the state of the cache, and the data that is not yet on the disk.

use adw::subclass::prelude::*;
use gtk::prelude::*;
use tandem_api::{CacheState, SelfReport, Target};

use super::CachePage;
use super::pause::PAUSE;
use super::removal::REMOVE;
use crate::display::{
    Safety, SafetyAmounts, SafetyFacts, bytes, duration, is_put_away, safety, unwritten_words,
    words_of,
};
use crate::model::facts::CacheFacts;
use crate::model::series::Series;

impl CachePage {
    /// Shows the state of the cache and the data that is not yet on the disk.
    pub(super) fn refresh_state(&self) {
        let imp = self.imp();
        let Some(cache) = self.cache() else { return };
        let facts = cache.facts();
        let (dirty, seconds) = cache.with_series(Series::unwritten);
        let words = words_of(&facts, dirty);
        imp.heading.set_subtitle(&words.title);
        imp.banner.show(&words);
        self.show_candidates(&facts);
        let running = facts.state == CacheState::Active;
        let here = facts.is_live();
        let paused = self.job().is_some_and(|job| job.facts().paused);
        let refused = facts.reason == "disk-error";
        let known = cache.with_series(|series| series.latest().is_some());
        // While a job runs, its card and the safety line tell the amount.
        let unwritten = unwritten_words(dirty, seconds, paused, refused, facts.mode)
            .filter(|_| known && here && !imp.changing.get());
        let (safety, line) = cache.with_series(|series| safety_line(&facts, series));
        imp.safety.set_label(&line);
        let (icon, class) = if safety.risks_data() || safety.ssd_fails() {
            ("tandem-bypass-symbolic", "warning")
        } else {
            ("tandem-active-symbolic", "success")
        };
        imp.safety_icon.set_icon_name(Some(icon));
        imp.safety_icon.set_css_classes(&[class]);
        let can_flush = running && !imp.changing.get();
        imp.unwritten
            .show(unwritten.as_ref(), can_flush, imp.busy.get());
        let can_change = can_flush && !imp.busy.get();
        // dm-cache has one mode, and knows no pause.
        let has_modes = facts.target == Target::Tandem;
        imp.dirty_limit.set_sensitive(can_change);
        imp.rest.set_sensitive(can_change);
        let can_remove = !imp.changing.get() && !imp.busy.get();
        self.enable_modes(can_change && has_modes, has_modes);
        self.enable_speed_test(can_flush && !facts.paused, facts.speed.is_some());
        self.offer_size(can_change, !facts.ssd.is_memory());
        let put_away = is_put_away(facts.state, &facts.reason);
        let can_pause = can_change && has_modes;
        self.action_set_enabled(PAUSE, can_pause || (put_away && can_remove));
        self.show_pause(facts.paused || put_away, has_modes || put_away);
        self.action_set_enabled(REMOVE, can_remove);
        self.show_removal(&facts, dirty);
    }
}

/// The answers of the safety line, and the line.
fn safety_line(facts: &CacheFacts, series: &Series) -> (Safety, String) {
    let (dirty, seconds) = series.unwritten();
    let safety = safety(&SafetyFacts {
        state: facts.state,
        reason: &facts.reason,
        mode: facts.mode,
        dirty: series.latest().map(|_| dirty),
        may_be_unwritten: facts.may_be_unwritten,
        ssd_failing: facts.health.report == SelfReport::Failing,
        content: &facts.origin.content,
    })
    .in_memory(facts.ssd.is_memory());
    let line = safety.line(&SafetyAmounts {
        size: bytes(dirty),
        age: series
            .oldest_dirty_us()
            .map(|age| duration(age.div_ceil(1_000_000))),
        time: (seconds > 0).then(|| duration(seconds)),
        shutdown: facts.shutdown_limit().map(duration),
    });
    (safety, line)
}
