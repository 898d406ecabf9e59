// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns values of the service into words, icons and severity, for the window, the tray indicator and `tandemctl`. Pure: no
//! widget, no bus.

mod advice;
mod failure;
mod figures;
mod fill;
mod found;
mod health;
mod job;
mod kernels;
pub mod language;
mod mode;
mod names;
mod numbers;
mod other;
mod other_rate;
mod plan;
mod reader;
mod response;
mod safety;
mod speed;
mod state;
mod target;
mod time;
mod traffic;

pub use advice::{
    AdviceWords, advice_words, curve_words, point_words, seen_figures, size_advice, watched_words,
};
pub use failure::{FailureWords, NOT_SAVED, SYSTEM_BUS, failure_words};
pub use figures::{Figure, figures};
pub use fill::{fill, keyless};
pub use found::{
    Consent, candidate_words, confirm_words, discard_found_words, found_words, take_over_words,
};
pub use health::{HealthWords, health_words, written_words};
pub use job::{job_end_words, job_title, progress_words, removal_time};
pub use kernels::kernels_words;
pub use mode::{
    MODES, UnwrittenWords, mode_change, mode_description, mode_name, mode_refusal, mode_warnings,
    mode_words, recommended, refusal, unwritten_short, unwritten_words,
};
pub use names::{
    Place, device_facts, device_line, full_name, full_title, label_on, partition_words, plain_name,
    plan_title, quoted, short_name,
};
pub use numbers::{binary_size, bytes, percent, rate, short_time};
pub use other::{other_name, other_words, remove_other_words};
pub use other_rate::{other_rate_words, other_speed_words, other_waiting_words};
pub use plan::{Erased, step_name, step_words, warning_words};
pub use reader::Reader;
pub use response::{ResponseWords, response_words};
pub use safety::{Safety, SafetyAmounts, SafetyFacts, safety};
pub use speed::{SpeedLine, SpeedPart, SpeedWords, speed_words};
pub use state::{CacheWords, Severity, StateFacts, is_put_away, state_words};
pub use target::target_words;
pub use time::{date, duration, moment};
pub use traffic::{Share, read_shares, reason_words, write_shares};

/// Between facts in a line. The no-break space keeps the dot at the end of the fact before it.
pub const SEPARATOR: &str = "\u{a0}· ";

#[cfg(test)]
mod tests {
    use tandem_api::DeviceText;

    /// A drive of this model.
    pub fn device(model: &str) -> DeviceText {
        DeviceText {
            name: "sdx".into(),
            model: model.into(),
            serial: "S1".into(),
            size: 4_000_000_000,
            ..DeviceText::none()
        }
    }
}
