// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns the values of the window into words, icons and severity; the words for values of the service are those of
//! `tandem-words`. Pure: no widget, no bus, tested without GTK.

mod cache;
mod chart;
mod choice;
mod device;
mod enrollment;
mod file_name;
mod marks;
mod module;
mod setup;
mod shares;

pub use cache::{cache_name, failure_words, job_end_words, words_of};
pub use chart::{Shown, axis_bytes, axis_rate, axis_time, bar_words, chart_words, range_name};
pub use choice::{
    Choice, SizeOffer, memory_choice, memory_sizes, origin_choices, size_offer, ssd_choices,
};
pub use device::{
    DeviceWords, VolumeWords, content_words, device_words, obstacle_words, ssd_words, volume_names,
    volume_words,
};
pub use enrollment::{blue_screen, enrollment_steps, password_answer};
pub use file_name::file_name;
pub use marks::{SsdMark, ssd_marks};
pub use module::{ModuleAction, ModuleWords, Task, module_words};
pub use setup::{
    BackupSubject, BackupWords, action_words, backup_subject, backup_words, daily_words, erased_by,
    erases, fate_words, time_words,
};
pub use shares::{
    SsdShare, SsdUse, cache_room, resized_shares, shares_words, ssd_shares, summed_shares,
};
pub use tandem_words::*;
