// SPDX-License-Identifier: GPL-3.0-or-later
//! What each state says, before the commands are filled in.

use gettextrs::gettext;
use tandem_api::CacheState;

/// Where the data is while the cache is missing.
fn data(unwritten: bool) -> String {
    if unwritten {
        gettext(
            "Some of your data may not yet be on the hard disk. None of it is lost, but do not use the hard disk without the SSD.",
        )
    } else {
        String::new()
    }
}

fn data_of_missing_disk(unwritten: bool) -> String {
    if unwritten {
        gettext(
            "Some of your data may not yet be on the hard disk. Keep both, and do not connect the disk to another computer.",
        )
    } else {
        gettext("Your data is on that disk.")
    }
}

/// What happened, where the data is, what to do next.
pub(super) fn sentences(state: CacheState, reason: &str, unwritten: bool) -> [String; 3] {
    let broken_ssd = || {
        gettext(
            "Turn the computer off, check the cables of the SSD, and start again. If the SSD is broken for good, {discard} lets you discard this data.",
        )
    };
    match (state, reason) {
        (CacheState::Active | CacheState::Bypass, "disk-error") => [
            gettext("The hard disk reported an error."),
            if unwritten {
                gettext(
                    "Data it rejected stays on the SSD, and Tandem keeps trying. Nothing is lost as long as the SSD works.",
                )
            } else {
                gettext("Nothing is waiting to be written.")
            },
            gettext(
                "Check the health of the hard disk, and make sure that your backup is up to date.",
            ),
        ],
        (CacheState::Active | CacheState::Suspended, _) => Default::default(),
        (CacheState::Pending, _) => [
            gettext(
                "The SSD is ready. The cache starts working the next time you start the computer.",
            ),
            gettext("Nothing on the hard disk has changed."),
            gettext("Restart the computer, or choose {cancel}."),
        ],
        (CacheState::Detached, _) => [
            gettext("The cache is removed, and you can use the SSD for something else."),
            // The sentence is also true where data was given up.
            gettext("Nothing is waiting to be written."),
            gettext("Cleanup finishes the next time you start the computer."),
        ],
        (CacheState::Bypass, "ssd-gone-dirty") => [
            gettext(
                "The SSD failed or was unplugged while some of your data was not yet on the hard disk. You can read the rest, but save nothing on this disk for now.",
            ),
            gettext("Nothing is lost if you reconnect the SSD unchanged."),
            broken_ssd(),
        ],
        (CacheState::Bypass, "ssd-error") => [
            gettext("The SSD failed. The hard disk keeps working at its own speed."),
            data(false),
            gettext("Choose {remove} to stop using the SSD."),
        ],
        // A disk that is back also has this state, as long as a program or mount still holds on to the old mapped
        // device.
        (CacheState::Bypass, "disk-missing") => [
            gettext("The hard disk was unplugged while the cache was in use."),
            data_of_missing_disk(unwritten),
            gettext(
                "Reconnect it. If the cache does not start again automatically, close what uses the disk, or restart the computer.",
            ),
        ],
        (CacheState::Bypass, "memory-needed") if !unwritten => [
            gettext(
                "Programs need the memory, so the cache gave it back. The hard disk works at its own speed.",
            ),
            data(false),
            gettext("The cache starts again, empty, when enough memory has been free for a while."),
        ],
        (CacheState::Bypass, _) => [
            gettext("The hard disk works at its own speed, without the SSD."),
            if unwritten {
                gettext("Some of your data may not yet be on the hard disk. None of it is lost.")
            } else {
                data(false)
            },
            gettext(
                "If this does not change the next time you start the computer, choose {remove}.",
            ),
        ],
        (CacheState::Stopped, "ssd-missing") if !unwritten => [
            gettext("The SSD of this cache is not connected."),
            data(false),
            gettext("Reconnect it, and the cache starts again automatically."),
        ],
        (CacheState::Stopped, "ssd-missing" | "ssd-gone-dirty") => [
            gettext(
                "The SSD of this cache is not connected, and some of your data is not yet on the hard disk. The disk stays locked until the SSD is back, so that both still match.",
            ),
            gettext("Nothing is lost if you reconnect the SSD unchanged."),
            broken_ssd(),
        ],
        (CacheState::Stopped, "disk-missing") => [
            gettext("The hard disk of this cache is not connected."),
            data_of_missing_disk(unwritten),
            gettext("Reconnect it, and the cache starts again automatically."),
        ],
        (CacheState::Stopped, "disk-elsewhere") => [
            gettext(
                "The hard disk is connected in another way than before, for example in a USB enclosure, or this is a copy of it. It stays locked, because some of your data is only on the SSD.",
            ),
            gettext("Nothing is lost."),
            gettext(
                "Connect it the way it was connected before, and the cache starts again automatically.",
            ),
        ],
        (CacheState::Stopped, "disk-in-doubt") => [
            gettext(
                "A disk with the same contents was used without the SSD. If it was this hard disk, the unwritten data on the SSD no longer matches it. Neither is touched.",
            ),
            gettext("Some of your data is not yet on the hard disk."),
            gettext(
                "If it was a copy, connect both disks at the same time, and the cache starts again. Otherwise {discard} lets you discard the unwritten data.",
            ),
        ],
        (CacheState::Stopped, "disk-changed") if unwritten => [
            gettext(
                "The hard disk was changed without its cache, and the unwritten data on the SSD no longer matches it. Neither is touched.",
            ),
            gettext("Some of your data is not yet on the hard disk."),
            gettext(
                "If you restored the disk from a copy, bring it back as it was. Otherwise {discard} lets you discard the unwritten data.",
            ),
        ],
        (CacheState::Stopped, "disk-changed") => [
            gettext("The hard disk was changed without its cache."),
            data(false),
            gettext("Choose {remove}, and then set up a new one."),
        ],
        (CacheState::Stopped, "ssd-damaged") => [
            gettext(
                "The cache information on the SSD is damaged and cannot be trusted. Neither the SSD nor the hard disk is touched.",
            ),
            if unwritten {
                gettext("Some of your data is not yet on the hard disk.")
            } else {
                data(false)
            },
            if unwritten {
                gettext(
                    "Check the health of the SSD. {discard} lets you discard the unwritten data; then restore it from your backup.",
                )
            } else {
                gettext("Choose {remove}, and then set up a new one.")
            },
        ],
        (CacheState::Stopped, "ssd-blocks") => [
            gettext(
                "The SSD now uses larger blocks than the hard disk, so it cannot hold everything you save. Neither the SSD nor the hard disk is touched.",
            ),
            data(unwritten),
            gettext(
                "Connect the SSD the way it was connected before. If it is a copy, use the original.",
            ),
        ],
        (CacheState::Stopped, "module-not-built") => [
            gettext("Tandem's kernel module is not built for the running kernel."),
            data(unwritten),
            gettext("Install the kernel's header package and then the package tandem-dkms again."),
        ],
        (CacheState::Stopped, "module-refused") => [
            gettext("Secure Boot is on, and the kernel does not accept Tandem's module yet."),
            data(unwritten),
            gettext("Enroll the key that signs modules on this computer, then restart."),
        ],
        (CacheState::Stopped, "disk-in-use") => [
            gettext("Something else was using the hard disk when the cache was about to start."),
            data(unwritten),
            gettext("Unmount the hard disk or restart the computer, and the cache starts again."),
        ],
        (CacheState::Stopped, "put-away") => [
            gettext(
                "The hard disk was unmounted, so the cache stopped. You can unplug the disk now.",
            ),
            data(unwritten),
            gettext(
                "The cache starts again when you plug the disk in again. To mount it now, choose {resume} first, or the SSD has to fill up again.",
            ),
        ],
        (CacheState::Stopped, _) => [
            gettext("This cache is not running."),
            data(unwritten),
            gettext("Restart the computer, and the cache starts again automatically."),
        ],
    }
}
