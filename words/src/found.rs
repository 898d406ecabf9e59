// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches of which this system has no record, and disks that may belong to a cache, in words.

use gettextrs::gettext;
use tandem_api::{DiskCandidate, DiskMark, FoundCache};

use crate::{device_facts, device_line, fill, plain_name};

/// The question before a command, and the answer that has the command done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// The question.
    pub heading: String,
    /// The consequences of the command.
    pub body: String,
    /// The answer.
    pub agree: String,
}

fn disk_of(found: &FoundCache) -> String {
    if found.disk.is_none() {
        gettext("a hard disk that is not connected")
    } else {
        plain_name(&found.disk)
    }
}

/// The SSD of a found cache, and what it holds.
#[must_use]
pub fn found_words(found: &FoundCache) -> [String; 2] {
    let sentence = match (found.may_be_unwritten, found.disk.is_none()) {
        (true, true) => gettext(
            "May hold changes for {disk}. Connect that disk, and you can use the cache again.",
        ),
        (true, false) => gettext("May hold changes for {disk} that are not on it."),
        (false, _) => gettext("The cache of {disk}. Everything is on that disk."),
    };
    let mut words = fill(&sentence, &[("disk", &disk_of(found))]);
    if found.may_be_unwritten {
        let how = fill(
            // Translators: the words behind the colon are typed in a terminal
            &gettext(
                "To see how much, without changing anything: sudo tandemctl rescue show /dev/{name}",
            ),
            &[("name", &found.ssd.name)],
        );
        words = format!("{words}\n{how}");
    }
    [device_line(&found.ssd), words]
}

/// The question before a found cache is used.
#[must_use]
pub fn take_over_words(found: &FoundCache) -> Consent {
    let body = if found.may_be_unwritten {
        gettext(
            "{disk} will use the cache on {ssd} again, and what is stored only on the SSD will be written to it. Do this only if the disk was not used without this SSD since.",
        )
    } else {
        gettext("{disk} will use the cache on {ssd} again.")
    };
    Consent {
        heading: gettext("Use This Cache?"),
        body: about(&body, found),
        agree: gettext("_Use This Cache"),
    }
}

/// The question before a found cache is given up.
#[must_use]
pub fn discard_found_words(found: &FoundCache) -> Consent {
    let body = if found.may_be_unwritten {
        gettext("Changes for {disk} that are stored only on {ssd} will be lost.")
    } else {
        gettext("{ssd} will be empty. Nothing changes on {disk}.")
    };
    Consent {
        heading: gettext("Discard This Cache?"),
        body: about(&body, found),
        agree: gettext("_Discard"),
    }
}

fn about(sentence: &str, found: &FoundCache) -> String {
    let ssd = format!("{} ({})", plain_name(&found.ssd), device_facts(&found.ssd));
    fill(sentence, &[("disk", &disk_of(found)), ("ssd", &ssd)])
}

/// A disk that may belong to a cache, and what speaks for it and against it.
#[must_use]
pub fn candidate_words(candidate: &DiskCandidate) -> [String; 2] {
    let mut lines = Vec::new();
    for (sentence, marks) in [
        (gettext("The same: {marks}"), &candidate.agreeing),
        (gettext("Different: {marks}"), &candidate.differing),
    ] {
        if !marks.is_empty() {
            let words: Vec<_> = marks.iter().map(|mark| mark_words(*mark)).collect();
            lines.push(fill(&sentence, &[("marks", &words.join(", "))]));
        }
    }
    [device_line(&candidate.device), lines.join("\n")]
}

fn mark_words(mark: DiskMark) -> String {
    match mark {
        DiskMark::Wwn => gettext("WWN"),
        DiskMark::Serial => gettext("serial number"),
        DiskMark::Place => gettext("size and position"),
        DiskMark::Partition => gettext("UUID of the partition"),
        DiskMark::Content => gettext("UUID of the file system"),
        DiskMark::Used => gettext("used without the SSD since"),
    }
}

/// The question before a disk is confirmed.
#[must_use]
pub fn confirm_words(candidate: &DiskCandidate) -> Consent {
    let [title, marks] = candidate_words(candidate);
    let warning = gettext(
        "What is stored only on the SSD can be written to this disk then. If it is another disk, its files will be destroyed.",
    );
    Consent {
        heading: gettext("Is This Your Disk?"),
        body: format!("{title}\n{marks}\n\n{warning}"),
        agree: gettext("_This Is My Disk"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::device;
    use tandem_api::DeviceText;

    #[test]
    fn a_found_cache_says_whether_its_disk_lacks_anything() {
        let mut found = FoundCache {
            uuid: "ab".into(),
            ssd: device("Flash"),
            disk: device("WDC"),
            may_be_unwritten: true,
        };
        let words = |found: &FoundCache| found_words(found)[1].clone();
        assert_eq!(
            words(&found),
            "May hold changes for WDC that are not on it.\n\
             To see how much, without changing anything: sudo tandemctl rescue show /dev/sdx"
        );
        assert!(take_over_words(&found).body.contains("only if the disk"));
        let discard = discard_found_words(&found).body;
        // The device is named by all that tells it from another one.
        assert!(
            discard.contains("will be lost") && discard.contains("S1"),
            "{discard}"
        );
        found.disk = DeviceText::none();
        assert!(words(&found).contains("Connect that disk"));
        found.may_be_unwritten = false;
        assert!(words(&found).ends_with("Everything is on that disk."));
    }

    #[test]
    fn a_candidate_is_shown_with_what_speaks_for_it_and_against_it() {
        let candidate = DiskCandidate {
            device: device("WDC"),
            agreeing: vec![DiskMark::Place, DiskMark::Content],
            differing: vec![DiskMark::Serial],
        };
        let [title, marks] = candidate_words(&candidate);
        assert!(title.contains("WDC") && title.contains("S1"), "{title}");
        assert_eq!(
            marks,
            "The same: size and position, UUID of the file system\nDifferent: serial number"
        );
        let asked = confirm_words(&candidate);
        assert!(asked.body.contains("will be destroyed"));
    }
}
