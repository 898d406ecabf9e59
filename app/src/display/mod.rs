// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns states into words, icons and severity. Pure: no widget, no bus, tested without GTK.

mod advice;
mod chart;
mod choice;
mod device;
mod enrollment;
mod failure;
mod figures;
mod file_name;
mod fill;
mod found;
mod health;
mod kernels;
mod mode;
mod module;
mod numbers;
mod plan;
mod response;
mod safety;
mod setup;
mod shares;
mod speed;
mod state;
mod time;
mod traffic;

pub use advice::{
    AdviceWords, SsdMark, advice_words, curve_words, point_words, seen_figures, ssd_marks,
    watched_words,
};
pub use chart::{axis_bytes, axis_rate, axis_time, bar_words, chart_words, range_name};
pub use choice::{Choice, SizeOffer, origin_choices, size_offer, ssd_choices};
pub use device::{
    DeviceWords, VolumeWords, content_words, device_words, obstacle_words, ssd_words, volume_names,
    volume_words,
};
pub use enrollment::{blue_screen, enrollment_steps, password_answer};
pub use failure::{FailureWords, SYSTEM_BUS, failure_words};
pub use figures::{Figure, figures};
pub use file_name::file_name;
pub use fill::fill;
pub use found::{
    Consent, candidate_words, confirm_words, discard_found_words, found_words, take_over_words,
};
pub use health::{HealthWords, health_words, written_words};
pub use kernels::kernels_words;
pub use mode::{
    MODES, UnwrittenWords, mode_change, mode_description, mode_name, mode_refusal, mode_warnings,
    mode_words, recommended, refusal, unwritten_short, unwritten_words,
};
pub use module::{ModuleAction, ModuleWords, Task, module_words};
pub use numbers::{binary_size, bytes, percent, rate, short_time};
pub use plan::{
    cache_name, device_facts, full_name, full_title, job_end_words, job_title, plain_name,
    plan_title, removal_time, short_name, step_name, step_words, warning_words,
};
pub use response::{ResponseWords, response_words};
pub use safety::{Safety, SafetyAmounts, SafetyFacts, safety};
pub use setup::{
    BackupSubject, BackupWords, Erased, action_words, backup_subject, backup_words, daily_words,
    erases, fate_words, time_words,
};
pub use shares::{
    SsdShare, SsdUse, cache_room, resized_shares, shares_words, ssd_shares, summed_shares,
};
pub use speed::{SpeedLine, SpeedPart, SpeedWords, date, speed_words};
pub use state::{CacheWords, Severity, cache_words, is_put_away, words_of};
pub use time::duration;
pub use traffic::{Share, read_shares, reason_words, write_shares};

/// Between facts in a line. The no-break space keeps the dot at the end of the fact before it.
pub const SEPARATOR: &str = "\u{a0}· ";

/// A value for words with mnemonics: underscores in the value do not mark a key.
#[must_use]
pub fn keyless(value: &str) -> String {
    value.replace('_', "__")
}

#[cfg(test)]
mod tests {
    use super::{fill, keyless};

    #[test]
    fn underscores_in_names_mark_no_key() {
        assert_eq!(
            fill("_Erase {model}", &[("model", &keyless("SSD_120"))]),
            "_Erase SSD__120"
        );
    }
}
