// SPDX-License-Identifier: GPL-3.0-or-later
//! Why a rescue does not go on, in words: what happened, what is the state of the data, and what to do next.

use gettextrs::gettext;
use tandem_rescue::{Doubt, Duty, Error, Fault, Known, User, Why};
use tandem_words::fill;

use super::sentence;

/// The sentences on an error.
pub fn error_words(error: &Error) -> String {
    let name = error.name.as_str();
    let with = |words: &str, values: &[(&str, &str)]| {
        let values = [values, &[("name", name)]].concat();
        fill(words, &values)
    };
    match &error.why {
        Why::NotOpened(error) => with(
            &gettext("Cannot open {name}: {error}. Nothing was changed."),
            &[("error", &error.to_string())],
        ),
        Why::NoDisk => with(
            &gettext(
                "{name} is neither a disk nor an image file. Nothing was changed. Name the device, such as /dev/sdb1, or a file with its content.",
            ),
            &[],
        ),
        Why::InUse(by) => with(
            &gettext(
                "{name} is in use. {user} Nothing was changed. Unmount it or stop what uses it, then try again.",
            ),
            &[("user", &user_words(by))],
        ),
        Why::Ssd(Fault::NotFlushed(error)) => with(
            &gettext(
                "{name} does not flush its data: {error}. Nothing was changed. Try another cable or port, or copy the SSD to an image file and work on that.",
            ),
            &[("error", &error.to_string())],
        ),
        Why::Ssd(fault) => with(&fault_words(fault), &[]),
        Why::DiskTooSmall(has, wants) => with(
            &gettext(
                "{name} is smaller than the disk that the cache was made for ({has} sectors instead of {wants}). Nothing was changed. Name the disk, or the same partition of it, that had the cache.",
            ),
            &[("has", &has.to_string()), ("wants", &wants.to_string())],
        ),
        Why::MayLack => with(
            &gettext(
                "{name} is an image, and an image does not show what of the SSD could not be read: that would be written to the disk as zeros. Nothing was changed. Name the map that ddrescue made with --ssd-map, or add --ssd-complete if there was no read error.",
            ),
            &[],
        ),
        Why::NoMap => with(
            &gettext(
                "{name} is not the map of an image by ddrescue. Nothing was changed. Name the file that ddrescue was given behind the image.",
            ),
            &[],
        ),
        Why::Newer(doubts) => with(
            &gettext(
                "{name} may have newer data than the SSD. {reasons} Nothing was changed. Compare both first, with tandemctl rescue view and the disk alone. If what is on the disk now is not needed, add --over-newer-data.",
            ),
            &[("reasons", &sentences(doubts))],
        ),
        Why::InDoubt(doubts, known) => with(
            &gettext(
                "Not sure that {name} belongs to this SSD. {reasons} Nothing was changed. {known}",
            ),
            &[
                ("reasons", &sentences(doubts)),
                ("known", &known_words(known, name)),
            ],
        ),
        Why::Failed(duty, error) => with(
            &gettext(
                "{what} Whatever was not recorded as written is still on the SSD, and the disk has nothing older than before. Run the same command again; if that fails too, copy the failing device with ddrescue and go on with the copy; of a copy of the SSD name the map, too, with --ssd-map.",
            ),
            &[("what", &duty_words(*duty, name, error))],
        ),
        Why::SsdGivenUp => gettext(
            "The engine gave the SSD up. What was not recorded as written is still on the SSD. Run the same command again.",
        ),
        Why::NotDurable => gettext(
            "The engine could not make its records durable. What was not recorded as written is still on the SSD. Run the same command again.",
        ),
    }
}

fn sentences(doubts: &[Doubt]) -> String {
    let sentences: Vec<_> = doubts.iter().map(|doubt| sentence(*doubt)).collect();
    sentences.join(" ")
}

/// The user of a device or an image.
fn user_words(user: &User) -> String {
    let (words, value) = match user {
        User::Rescue => (gettext("Another rescue works on it."), ""),
        User::LoopDevice(device) => (gettext("{value} shows it as a disk."), device.as_str()),
        User::Volume(volume) => (gettext("It is a part of {value}."), volume.as_str()),
        User::Mounted(place) => (gettext("It is mounted at {value}."), place.as_str()),
        User::Unknown => (gettext("Another program has claimed it."), ""),
    };
    fill(&words, &[("value", value)])
}

fn fault_words(fault: &Fault) -> String {
    match fault {
        Fault::TooSmall => gettext(
            "{name} is too small to be the SSD of a cache. Nothing was changed. Name the SSD, or the partition on it, that was the cache.",
        ),
        Fault::Unreadable => gettext(
            "{name} cannot be read. Nothing was changed. Try another cable or port; what is only on this SSD cannot be reached otherwise.",
        ),
        Fault::NoCache => gettext(
            "{name} is not the SSD of a cache. Nothing was changed. If the cache was on a partition, name the partition.",
        ),
        Fault::Overwritten => gettext(
            "{name} was partitioned or formatted after it was the SSD of a cache, so what it held for the disk may be gone. Nothing was changed.",
        ),
        Fault::Damaged => gettext(
            "{name} was the SSD of a cache, but the cache information on it is damaged and cannot be trusted. Nothing was changed. If the SSD has read errors, copy it to an image file with ddrescue and try again with the image and --ssd-map, the map that ddrescue makes.",
        ),
        Fault::Newer => gettext(
            "{name} belongs to a cache of a newer version of Tandem. Nothing was changed. Use that version, or a newer one.",
        ),
        Fault::NothingNewer => gettext(
            "{name} was the SSD of a cache that the kernel's own dm-cache served, which writes everything to the disk at once. Nothing was changed. There is nothing to rescue: use the disk alone.",
        ),
        Fault::Shrunk => gettext(
            "{name} is smaller than the SSD that the cache was made on. Nothing was changed. If this is a copy, copy the SSD again as a whole.",
        ),
        Fault::IndexDamaged => gettext(
            "The index on {name} is damaged, so nobody can say which data on it is newer than the disk. Nothing was changed. If the SSD has read errors, copy it to an image file with ddrescue and try again with the image and --ssd-map, the map that ddrescue makes.",
        ),
        Fault::IndexImpossible => gettext(
            "The index on {name} contradicts itself, so it cannot be trusted. Nothing was changed. Keep the SSD as it is; the disk holds everything but the data that was only on the SSD.",
        ),
        // The error of the flush is said by the caller.
        Fault::NotFlushed(_) | Fault::Other => {
            gettext("{name} cannot be used. Nothing was changed.")
        }
    }
}

/// How the user can name a disk that may be the wrong one.
fn known_words(known: &Known, name: &str) -> String {
    let (words, value) = match known {
        Known::NamedAs(serial) => (
            gettext("The serial number of {name} is not {value}."),
            serial.as_str(),
        ),
        Known::Image(file) => (
            gettext("If {name} is the right one, add --disk-serial {value}, the name of the file."),
            file.as_str(),
        ),
        Known::NoSerial => (
            gettext(
                "{name} has no serial number by which it could be named: copy it to an image file and work on that.",
            ),
            "",
        ),
        Known::Serial => (
            gettext(
                "If {name} is the right one, look at its label and add --disk-serial with its serial number.",
            ),
            "",
        ),
    };
    fill(&words, &[("name", name), ("value", value)])
}

/// The sentence on a duty that a device failed in.
fn duty_words(duty: Duty, name: &str, error: &std::io::Error) -> String {
    let words = match duty {
        Duty::TakeData => gettext("{name} does not take data: {error}."),
        Duty::StoreData => gettext("{name} does not store data: {error}."),
        Duty::TakeRecord => gettext("{name} does not take a record: {error}."),
        Duty::TakeNote => gettext("{name} does not take a note of the disk: {error}."),
    };
    fill(&words, &[("name", name), ("error", &error.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    fn broken() -> io::Error {
        io::Error::other("broken")
    }

    /// One error of each kind.
    fn all() -> Vec<Error> {
        let refused = |why| Error::refused("/dev/sdx", why);
        let stopped = |why| Error::stopped("/dev/sdx", why);
        let faults = [
            Fault::TooSmall,
            Fault::Unreadable,
            Fault::NotFlushed(broken()),
            Fault::NoCache,
            Fault::Overwritten,
            Fault::Damaged,
            Fault::Newer,
            Fault::NothingNewer,
            Fault::Shrunk,
            Fault::IndexDamaged,
            Fault::IndexImpossible,
            Fault::Other,
        ];
        let users = [
            User::Rescue,
            User::LoopDevice("loop7".into()),
            User::Volume("dm-3".into()),
            User::Mounted("/srv".into()),
            User::Unknown,
        ];
        let known = [
            Known::NamedAs("S1".into()),
            Known::Image("disk.img".into()),
            Known::NoSerial,
            Known::Serial,
        ];
        let duties = [
            Duty::TakeData,
            Duty::StoreData,
            Duty::TakeRecord,
            Duty::TakeNote,
        ];
        let mut all = vec![
            refused(Why::NotOpened(broken())),
            refused(Why::NoDisk),
            refused(Why::DiskTooSmall(1, 2)),
            refused(Why::MayLack),
            refused(Why::NoMap),
            refused(Why::Newer(vec![Doubt::Changed, Doubt::NoRecord])),
            stopped(Why::SsdGivenUp),
            stopped(Why::NotDurable),
        ];
        all.extend(faults.map(|fault| refused(Why::Ssd(fault))));
        all.extend(users.map(|by| refused(Why::InUse(by))));
        let doubts = || vec![Doubt::Image, Doubt::Outdated];
        all.extend(known.map(|known| refused(Why::InDoubt(doubts(), known))));
        all.extend(duties.map(|duty| stopped(Why::Failed(duty, broken()))));
        all
    }

    #[test]
    fn each_error_says_what_has_become_of_the_data() {
        for error in all() {
            let words = error_words(&error);
            let promise = match error.kind {
                tandem_rescue::Kind::Refused => "Nothing was changed.",
                tandem_rescue::Kind::Stopped => "is still on the SSD",
            };
            assert!(words.contains(promise), "{words}");
            assert!(!words.contains(['{', '}']), "{words}");
            assert!(words.ends_with('.'), "{words}");
        }
    }

    #[test]
    fn a_doubt_says_its_reasons_and_how_to_name_the_disk() {
        let words = error_words(&Error::refused(
            "disk.img",
            Why::InDoubt(
                vec![Doubt::Image, Doubt::Changed],
                Known::Image("disk.img".into()),
            ),
        ));
        for part in [
            "An image has no serial number to compare.",
            "changed while the SSD was away",
            "--disk-serial disk.img",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
