// SPDX-License-Identifier: GPL-3.0-or-later
//! A job: its name, its progress, its end.

use gettextrs::gettext;
use tandem_api::{DeviceText, JobKind};

use crate::{SEPARATOR, duration, fill, percent, plain_name, rate};

/// The name of what a job does.
#[must_use]
pub fn job_title(kind: JobKind, undoing: bool) -> String {
    match kind {
        _ if undoing => gettext("Restoring Everything"),
        JobKind::Create => gettext("Setting Up the Cache"),
        JobKind::Remove => gettext("Removing the Cache"),
        JobKind::Flush => gettext("Writing Everything to the Hard Disk"),
        JobKind::Resize => gettext("Changing the Size of the Cache"),
        JobKind::MakePlain => gettext("Making It a Plain Partition"),
    }
}

/// How a job on the cache of `disk` ended, in a line.
#[must_use]
pub fn job_end_words(kind: JobKind, disk: Option<&DeviceText>, canceled: bool) -> String {
    let words = match (kind, canceled) {
        (JobKind::Flush, false) => gettext("{disk}: everything is on the hard disk"),
        (JobKind::Flush, true) => gettext("{disk}: writing stopped"),
        (JobKind::Resize, false) => gettext("{disk}: the cache has its new size"),
        (JobKind::Resize, true) => gettext("{disk}: the cache keeps its size"),
        (JobKind::MakePlain, false) => gettext("{disk}: a plain partition without bcache"),
        (JobKind::MakePlain, true) => gettext("{disk}: nothing was changed"),
        (_, false) => gettext("{disk}: the cache is removed"),
        (_, true) => gettext("{disk}: writing stopped, the cache stays"),
    };
    let disk = disk.map(plain_name);
    let disk = disk.unwrap_or_else(|| gettext("Hard disk"));
    fill(&words, &[("disk", &disk)])
}

/// How long a removal takes. `writes`: dirty data is written to the disk first, which takes `seconds`, 0 if that time is
/// not known.
#[must_use]
pub fn removal_time(writes: bool, seconds: u64) -> String {
    match (writes, seconds) {
        (false, _) => gettext("This takes a few seconds."),
        (true, 0) => gettext(
            "How long writing everything to the hard disk takes is not known yet. You can pause it, and it goes on after a restart.",
        ),
        (true, seconds) => fill(
            &gettext(
                "Writing everything to the hard disk takes about {time}. You can pause it, and it goes on after a restart.",
            ),
            &[("time", &duration(seconds))],
        ),
    }
}

/// Progress, 0 to 1, with bytes a second and seconds to the end, both 0 if they are not known.
#[must_use]
pub fn progress_words(progress: f64, bytes_per_second: u64, seconds: u64) -> String {
    let mut words = vec![percent(progress)];
    if bytes_per_second > 0 {
        words.push(rate(bytes_per_second));
    }
    if seconds > 0 {
        words.push(fill(
            &gettext("about {time} left"),
            &[("time", &duration(seconds))],
        ));
    }
    words.join(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_job_names_the_disk() {
        let disk = DeviceText {
            name: "sda1".into(),
            label: "Archive".into(),
            ..DeviceText::none()
        };
        let words = |kind, canceled| job_end_words(kind, Some(&disk), canceled);
        assert_eq!(
            words(JobKind::Remove, false),
            "Archive: the cache is removed"
        );
        assert_eq!(words(JobKind::Flush, true), "Archive: writing stopped");
        assert!(job_end_words(JobKind::Flush, None, false).starts_with("Hard disk: "));
    }

    #[test]
    fn a_removal_names_its_time() {
        assert_eq!(removal_time(false, 90), "This takes a few seconds.");
        assert!(removal_time(true, 90).contains("takes about 2 minutes."));
        assert!(removal_time(true, 0).contains("not known yet"));
    }

    #[test]
    fn the_progress_says_only_what_is_known() {
        assert_eq!(progress_words(0.5, 0, 0), "50%");
        assert_eq!(
            progress_words(0.5, 120_000_000, 90).replace('\u{a0}', " "),
            "50% · 120.0 MB/s · about 2 minutes left"
        );
    }
}
