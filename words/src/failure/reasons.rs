// SPDX-License-Identifier: GPL-3.0-or-later
//! What the kinds of failure that come with a reason say, before the names and amounts are filled in. Each function takes
//! the reason, which is the name in the failure, and returns title, what happened, and what to do next.

use gettextrs::gettext;

/// A device that is not there in time when the computer starts.
pub(super) fn not_found_at_start(why: &str) -> (String, String, String) {
    match why {
        "volume" => (
            gettext("Not Available at Startup"),
            gettext(
                "{device} is a volume (encryption, LVM or RAID). The running system can be cached on a drive or a partition only.",
            ),
            gettext("Choose another device."),
        ),
        "initramfs" => (
            gettext("Not Available at Startup"),
            gettext(
                "{device} holds the running system, and neither initramfs-tools nor dracut is there with Tandem's files to start it through a cache.",
            ),
            gettext("Install one of the two, and then Tandem again."),
        ),
        "early" => (
            gettext("Used Too Early at Startup"),
            gettext(
                "The initial file system mounts or unlocks {device} ({place}) before a cache can be there.",
            ),
            gettext(
                "Remove x-initrd.mount, x-initrd.attach or initramfs from its entry in /etc/fstab or /etc/crypttab, make the initial file systems anew, then try again.",
            ),
        ),
        _ => (
            gettext("Not Available at Startup"),
            gettext("{device} would not be found in time when this computer starts."),
            gettext("Choose another device."),
        ),
    }
}

/// Why there can be no cache in memory.
pub(super) fn memory_unable(why: &str) -> (String, String, String) {
    match why {
        "absent" => (
            gettext("No Compressed Memory"),
            gettext("The running kernel comes without compressed memory (zram)."),
            gettext("Use an SSD for the cache."),
        ),
        "too-large" | "too-small" => (
            gettext("Other Amount of Memory Needed"),
            gettext(
                "A cache in memory takes at least 64 MiB, and all of them together half of the computer's memory at most.",
            ),
            gettext("Choose another amount."),
        ),
        "target" => (
            gettext("Not With the Kernel's Own Cache"),
            gettext("A cache in memory needs Tandem's kernel module."),
            gettext("Use an SSD for the cache."),
        ),
        _ => (
            gettext("Not in Memory"),
            gettext(
                "A cache in memory cannot be put over the disk of the running system, or over a disk that stays in use until the next start.",
            ),
            gettext("Use an SSD for the cache, or choose another disk."),
        ),
    }
}

/// Why the kernel's own cache cannot do this.
pub(super) fn target_unable(why: &str) -> (String, String, String) {
    match why {
        "absent" => (
            gettext("Not Part of This Kernel"),
            gettext("The running kernel comes without a cache of its own (dm-cache)."),
            gettext("Set the cache up with Tandem's kernel module."),
        ),
        "block-size" => (
            gettext("SSD Not Compatible"),
            gettext(
                "{device} writes larger blocks than the hard disk, which the kernel's own cache does not adjust.",
            ),
            gettext("Choose another SSD, or set the cache up with Tandem's kernel module."),
        ),
        _ => (
            gettext("Not With the Kernel's Own Cache"),
            gettext("The kernel's own cache has no such setting."),
            gettext("It works as it is: all data is always on the hard disk."),
        ),
    }
}

/// A cache of another system that Tandem does not remove.
pub(super) fn other_not_removable(why: &str) -> (String, String, String) {
    (
        gettext("Cannot Be Removed Here"),
        match why {
            "ssd-missing" => gettext(
                "The SSD of the cache is missing, and data for {device} may be stored only on it.",
            ),
            "failed" => gettext("The cache of {device} has failed."),
            "volume" => gettext(
                "The cache of {device} is part of a larger LVM volume, such as a thin pool or a volume with snapshots.",
            ),
            "drives" => gettext("The cache of {device} uses more than one drive or SSD."),
            "running-system" => gettext("The running system may use the cache of {device}."),
            _ => gettext("Tandem does not know how to remove a cache of this kind from {device}."),
        },
        match why {
            "ssd-missing" => gettext("Connect the SSD, then try again."),
            _ => gettext("Remove it with the program that set it up."),
        },
    )
}

/// A partition of bcache that cannot become a plain one.
pub(super) fn stays_bcache(why: &str) -> (String, String, String) {
    (
        gettext("Stays a bcache Device"),
        why_bcache(why),
        match why {
            "mounted" => gettext("Unmount it, then try again."),
            "in-use" => gettext("Close what uses it, then try again."),
            "tool" => gettext("Install sfdisk (the package fdisk or util-linux), then try again."),
            "another-move" => {
                gettext("Plug in the other disk, wait until its change has ended, then try again.")
            }
            "table-damaged" => gettext(
                "Look at the details. Repair the partition table, for example with fdisk, then try again.",
            ),
            _ => gettext(
                "It keeps working without a cache. To use it with Tandem, copy its files to a disk without bcache.",
            ),
        },
    )
}

/// Why a partition of bcache cannot become a plain one.
fn why_bcache(why: &str) -> String {
    match why {
        "whole-disk" => gettext(
            "bcache uses all of {device} without a partition table. Its file system begins a little behind the start of the disk, and the start of a disk cannot be moved.",
        ),
        "table" => gettext(
            "The partition table of {device} is neither GPT nor MBR, and Tandem changes no other.",
        ),
        "table-damaged" => gettext("The partition table with {device} is damaged or in doubt."),
        "another-move" => gettext(
            "The same change of another disk has not ended, and the kernel has given the name of its bcache device to {device}.",
        ),
        "logical" => gettext(
            "{device} is a logical partition of an MBR, whose start is told by a chain of other places on the disk. Tandem does not change that chain.",
        ),
        "volume" => gettext(
            "{device} is a part of a volume of LVM, RAID, or encryption. That program says where it begins.",
        ),
        "mounted" => gettext("The file system on {device} is mounted at {place}."),
        "in-use" => gettext("A program or a volume uses the bcache device on {device}."),
        "running-system" => {
            gettext("The running system is on {device}, and its bcache device cannot be stopped.")
        }
        "offset" => gettext(
            "The file system on {device} does not begin at a sector of the disk, so no partition can begin there.",
        ),
        "content" => gettext("No known file system was found where {device} would begin."),
        "tool" => gettext("The program that changes partition tables is missing or failed."),
        _ => gettext("Tandem cannot see on which partition the bcache device of {device} lies."),
    }
}
