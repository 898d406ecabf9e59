// SPDX-License-Identifier: GPL-3.0-or-later
//! What each kind of failure says, before the names and amounts are filled in.

use gettextrs::gettext;
use tandem_api::{DataState, Failure, Kind, StepKind};

use super::{NOT_SAVED, SYSTEM_BUS, failed_step, reasons};
use crate::mode_refusal;

/// Title, what happened, and what to do next.
pub(super) fn sentences(failure: &Failure) -> (String, String, String) {
    match failure.kind {
        Kind::SameDevice => (
            gettext("Same Device Chosen Twice"),
            gettext(
                "The hard disk and the SSD are the same device, or one is a part of the other.",
            ),
            gettext("Choose another SSD."),
        ),
        Kind::SsdMounted => (
            gettext("The SSD Is in Use"),
            gettext("{device} is mounted at {place}."),
            gettext("Unmount it, or choose another SSD."),
        ),
        Kind::SsdInUse => (
            gettext("The SSD Is in Use"),
            gettext("{device} is used by {name}."),
            gettext("Choose another SSD."),
        ),
        Kind::SsdHoldsData => (
            gettext("The SSD Holds Data"),
            gettext("{device} holds data, and you have not agreed to erase it."),
            gettext("Go back and agree to erase it, or choose another SSD."),
        ),
        Kind::SsdHoldsUnwritten => (
            gettext("The SSD Holds Unwritten Data"),
            gettext(
                "{device} holds a cache of another system, and changes that may not be on its hard disk.",
            ),
            gettext("Go back to the list of disks, and use that cache or discard what it holds."),
        ),
        Kind::SsdUnknownContent => (
            gettext("Unrecognized Content on the SSD"),
            gettext("{device} holds unrecognized content, and you have not agreed to erase it."),
            gettext("Go back and agree to erase it, or choose another SSD."),
        ),
        Kind::SsdIsVolume => (
            gettext("Not Available at Startup"),
            gettext(
                "{device} is a volume ({name}) that is not available early enough when the computer starts.",
            ),
            gettext("Choose the SSD itself or one of its partitions."),
        ),
        Kind::SsdOnNetwork => (
            gettext("The SSD Is on the Network"),
            gettext("{device} is on the network, and a cache needs an SSD in this computer."),
            gettext("Choose an SSD in this computer."),
        ),
        Kind::SsdTooSmall => (
            gettext("The SSD Is Too Small"),
            gettext("{device} has {actual}; a cache needs at least {needed}."),
            gettext("Choose another SSD."),
        ),
        Kind::SsdNoFreeSpace => (
            gettext("Not Enough Free Space"),
            gettext("{device} has no free space of {needed}; the largest has {actual}."),
            gettext("Choose a smaller size or another SSD."),
        ),
        Kind::SsdTable => (
            gettext("Cannot Share This SSD"),
            gettext(
                "{device} has an old partition table ({name}), in which Tandem makes no partitions.",
            ),
            gettext("Choose the whole SSD, one of its partitions, or another SSD."),
        ),
        Kind::OriginTooSmall => (
            gettext("The Disk Is Too Small"),
            gettext("{device} has {actual}; a cache makes sense from {needed} on."),
            gettext("Choose another disk."),
        ),
        Kind::ReadOnly => (
            gettext("Read-Only"),
            gettext("{device} is write-protected."),
            gettext("Remove the write protection, or choose another device."),
        ),
        Kind::OriginSwap => (
            gettext("Swap Space Is Never Cached"),
            gettext("{device} is swap space, which a cache would not make faster."),
            gettext("Choose another disk."),
        ),
        Kind::OriginBoot | Kind::OriginEfi => (
            gettext("Needed to Start the Computer"),
            gettext("{device} is read before any cache can exist, so it is never cached."),
            gettext("Choose another disk."),
        ),
        Kind::OriginGrub => (
            gettext("Needed to Start the Computer"),
            gettext(
                "GRUB starts this computer from {device}. With a cache there, the computer would not start after the next update of GRUB.",
            ),
            gettext("Choose another disk, or move /boot to a partition of its own."),
        ),
        Kind::OriginRoot => (
            gettext("Holds the Running System"),
            gettext("{device} holds the running system, which cannot be cached yet."),
            gettext("Choose another disk."),
        ),
        Kind::NotFoundAtStart => reasons::not_found_at_start(&failure.name),
        Kind::OriginPartitioned => (
            gettext("This Disk Has Partitions"),
            gettext("{device} has partitions."),
            gettext("Choose one of them."),
        ),
        Kind::OriginInUse => (
            gettext("The Disk Is in Use"),
            gettext("{device} is used by {name}."),
            gettext("Choose the volume on top of it, or another disk."),
        ),
        Kind::PartOfVolume => (
            gettext("Part of a Larger Volume"),
            gettext("{device} is one of several devices that belong together ({name})."),
            gettext("Choose the volume as a whole, or another device."),
        ),
        Kind::Indistinguishable if !failure.name.is_empty() => (
            gettext("Cannot Be Told Apart"),
            gettext("{device} and {name} have the same ID: one may be a copy of the other."),
            gettext("Disconnect the copy, then try again."),
        ),
        Kind::Indistinguishable => (
            gettext("Cannot Be Identified"),
            gettext(
                "{device} has no serial number or other ID, so Tandem could not find it again.",
            ),
            gettext("Choose another device, or connect it another way."),
        ),
        Kind::ExportUnknown => (
            gettext("Cannot Be Identified"),
            gettext(
                "The connection to {device} does not say which disk of the server it is, so Tandem could not find it again.",
            ),
            gettext(
                "Connect it with an identifier (nbd-client -identifier, from version 3.27), or use a partition on it.",
            ),
        ),
        Kind::ModeRefused => (
            gettext("Mode Not Available"),
            mode_refusal(&failure.name),
            gettext("Choose another mode."),
        ),
        Kind::UnwrittenData if failure.name == "disk-error" && failure.needed > 0 => (
            gettext("Cannot Write to the Hard Disk"),
            gettext(
                "{needed} on {device} is not yet on the hard disk, and the hard disk rejects it.",
            ),
            gettext(
                "You can read all your files: copy them to another disk before you discard this data.",
            ),
        ),
        Kind::UnwrittenData if failure.needed > 0 => (
            gettext("Not Everything Is on the Hard Disk"),
            gettext(
                "{needed} on {device} is not yet on the hard disk and cannot be written back now.",
            ),
            gettext("Reconnect the SSD and the hard disk, or discard this data."),
        ),
        Kind::UnwrittenData => (
            gettext("Not Everything Is on the Hard Disk"),
            gettext(
                "Some of your data on {device} is not yet on the hard disk and cannot be written back now.",
            ),
            gettext("Reconnect the SSD and the hard disk, or discard this data."),
        ),
        Kind::SsdLost => (
            gettext("The SSD Has Failed"),
            gettext("{device} failed while some of your data was not yet on the hard disk."),
            gettext("Turn the computer off, check the cables of the SSD, and start again."),
        ),
        Kind::FstabNamesDevice if failure.name.starts_with("/dev/bcache") => (
            gettext("Mounted by Its Device Name"),
            gettext(
                "The file /etc/fstab mounts {place} as {name}, and the next startup would wait for that device in vain.",
            ),
            gettext("Change that entry to UUID=…, then try again."),
        ),
        Kind::FstabNamesDevice => (
            gettext("Mounted by Its Device Name"),
            gettext(
                "The file /etc/fstab mounts {place} as {name}, and would not find it with a cache.",
            ),
            gettext("Change that entry to UUID=…, then try again."),
        ),
        Kind::CrypttabNamesDevice => (
            gettext("Unlocked by Its Device Name"),
            gettext(
                "The file /etc/crypttab unlocks {place} as {name}, and would not find it with a cache.",
            ),
            gettext("Change that entry to UUID=…, then try again."),
        ),
        Kind::GrubNamesDevice => (
            gettext("Started by Its Device Name"),
            gettext(
                "GRUB starts your system by the name of a device ({place}: {name}), and a new SSD may take that name.",
            ),
            gettext("Change that setting to the UUID, run update-grub, then try again."),
        ),
        Kind::BootNamesDevice => (
            gettext("Not Started by Its UUID"),
            gettext(
                "The boot loader does not say by its UUID where your system is: with a cache, or when a new SSD takes the name of the disk, the next start may not find your system.",
            ),
            gettext(
                "Write {name}, in place of root=/dev/… if that is there, in the settings of your boot loader, restart the computer, then try again.",
            ),
        ),
        Kind::UnitNamesDevice => (
            gettext("Mounted by Its Device Name"),
            gettext("The unit {place} mounts {name}, and would not find it with a cache."),
            gettext(
                "Write a UUID there, or remove the unit and enter the disk in /etc/fstab by its UUID. Then try again.",
            ),
        ),
        Kind::SsdUsedAtStart => (
            gettext("Needed at the Next Start"),
            gettext(
                "The next start of this computer uses {device} for {place}, and would wait for it after it is erased.",
            ),
            gettext(
                "Remove that entry from /etc/fstab or /etc/crypttab first, or choose another SSD.",
            ),
        ),
        Kind::AlreadyCached => (
            gettext("Already Part of a Cache"),
            gettext("{device} is already part of a cache."),
            gettext("Choose another device, or remove that cache first."),
        ),
        Kind::DeviceGone => (
            gettext("A Device Is Gone"),
            gettext("{device} is no longer connected."),
            gettext("Reconnect it and start over."),
        ),
        Kind::DeviceChanged => (
            gettext("A Device Has Changed"),
            gettext("{device} has changed since the steps were shown."),
            gettext("Start over to see what will be done now."),
        ),
        Kind::FilesystemBusy if failure.users.is_empty() => (
            gettext("Files Are Open"),
            gettext("Files on {place} are in use."),
            gettext("Close them and try again."),
        ),
        Kind::FilesystemBusy => (
            gettext("Files Are Open"),
            gettext("Files on {place} are used by: {programs}."),
            gettext("Close these programs and try again."),
        ),
        Kind::PlanUnknown => (
            gettext("Too Much Time Has Passed"),
            gettext("The steps you reviewed are no longer valid."),
            gettext("Begin again to see the steps as they are now."),
        ),
        Kind::NotAuthorized => (
            gettext("Not Allowed"),
            gettext("Authentication failed or was canceled."),
            gettext("Try again with an administrator's password."),
        ),
        Kind::AuthorityUnavailable => (
            gettext("No Answer"),
            gettext(
                "The service that asks for passwords (polkit) did not answer, and nothing is done without it.",
            ),
            gettext("Try again. If that does not help, restart the computer."),
        ),
        Kind::ModuleNotBuilt => (
            gettext("Kernel Module Missing"),
            gettext("Tandem's kernel module is not built for the running kernel, {name}."),
            gettext("Install the kernel's header package and then the package tandem-dkms again."),
        ),
        Kind::ModuleRefused => (
            gettext("Refused by Secure Boot"),
            gettext("Secure Boot is on, and the kernel does not accept Tandem's module yet."),
            gettext("Enroll the key that signs modules on this computer, then restart."),
        ),
        Kind::ModuleFailed => (
            gettext("Kernel Module Not Loaded"),
            gettext("Tandem's kernel module could not be loaded on {name}."),
            gettext("Copy the details and report them."),
        ),
        Kind::OutOfMemory if failure.needed > 0 => (
            gettext("Not Enough Memory"),
            gettext("This cache needs {needed} of memory, which is not free."),
            gettext("Close some programs, or use a smaller SSD."),
        ),
        Kind::OutOfMemory => (
            gettext("Not Enough Memory"),
            gettext("There is not enough memory for this cache."),
            gettext("Close some programs, or use a smaller SSD."),
        ),
        Kind::Busy if failure.name == "speed-test" => (
            gettext("A Speed Test Is Running"),
            gettext("The speed of a disk is being tested right now, perhaps in another window."),
            gettext("Wait half a minute, then try again."),
        ),
        Kind::SpeedTestFailed => {
            let (what, next) = match failure.name.as_str() {
                "slow" => (
                    gettext("{device} did not answer in time, or took too long to wake up."),
                    gettext("Try again now that it is awake."),
                ),
                "changed" => (
                    gettext(
                        "The cache of {device} was changed, or its SSD stopped, before the end of the test.",
                    ),
                    gettext("Try again when the cache works."),
                ),
                _ => (
                    gettext("{device} could not be read."),
                    gettext("Check its cables and its health."),
                ),
            };
            (gettext("The Speed Test Ended Early"), what, next)
        }
        Kind::Busy => (
            gettext("Already Being Changed"),
            gettext("Something else is changing {device} right now."),
            gettext("Wait until it is done, then try again."),
        ),
        Kind::TooMany => (
            gettext("Too Many Changes"),
            gettext("Too many changes are waiting."),
            gettext("Wait a moment, then try again."),
        ),
        Kind::WrongState if failure.name == "paused" => (
            gettext("Cache Paused"),
            gettext("A paused cache stores nothing of what the test reads."),
            gettext("Resume the cache, then test again."),
        ),
        Kind::WrongState => (
            gettext("Not Possible Now"),
            gettext("The cache cannot do this in its current state."),
            gettext("Wait a moment, then try again."),
        ),
        Kind::ModuleTooOld => (
            gettext("Restart Needed"),
            gettext(
                "The kernel module that is loaded is of an older version, which cannot do this.",
            ),
            gettext("Restart the computer: then the new version is loaded."),
        ),
        Kind::MemoryUnable => reasons::memory_unable(&failure.name),
        Kind::TargetUnable => reasons::target_unable(&failure.name),
        Kind::WrongDisk => (
            gettext("SSD of Another Disk"),
            gettext("{device} belongs to the cache of another disk."),
            gettext("Choose another SSD, or connect the disk that it belongs to."),
        ),
        Kind::OtherNotRemovable => reasons::other_not_removable(&failure.name),
        Kind::StaysBcache => reasons::stays_bcache(&failure.name),
        Kind::NotResizable if failure.name == "system" => (
            gettext("Size Cannot Be Changed"),
            gettext("The running system is on the disk of this cache."),
            gettext("Remove the cache, and set it up again with another size."),
        ),
        Kind::NotResizable => (
            gettext("Size Cannot Be Changed"),
            gettext("This cache uses a whole SSD, or a partition that Tandem did not make."),
            gettext(
                "Remove the cache, and set it up again in the free space of the SSD: there it has a size of its own.",
            ),
        ),
        Kind::SsdDamaged => (
            gettext("SSD Damaged"),
            gettext("The cache information on {device} is damaged."),
            gettext("Check the health of the SSD. {remove} restores the plain disk."),
        ),
        Kind::SsdBlocks => (
            gettext("SSD Not Compatible"),
            gettext(
                "{device} now uses larger blocks than the hard disk, and may hold unwritten data.",
            ),
            gettext(
                "Connect the SSD the way it was connected before. If it is a copy, use the original.",
            ),
        ),
        Kind::StepFailed => (
            match failed_step(failure) {
                _ if failure.data == DataState::Removed => gettext("Could Not Change the Size"),
                Some(StepKind::ResizePartition | StepKind::ResizeCache) => {
                    gettext("Could Not Change the Size")
                }
                Some(StepKind::Drain) => gettext("Could Not Write Back"),
                Some(
                    StepKind::Detach
                    | StepKind::FreeSsd
                    | StepKind::DeletePartition
                    | StepKind::Unmap,
                ) => gettext("Could Not Remove the Cache"),
                Some(StepKind::StopOther | StepKind::MovePartition) => {
                    gettext("Could Not Make It a Plain Partition")
                }
                _ => gettext("Could Not Set Up the Cache"),
            },
            if failed_step(failure).is_some() {
                gettext("“{step}” failed on {device}.")
            } else {
                gettext("A step failed on {device}.")
            },
            gettext("Look at the details, then try again."),
        ),
        Kind::Cancelled if failure.name == "cleaner" => (
            gettext("Canceled"),
            gettext(
                "The cache stays. LVM may go on writing what is on the SSD to {device}, and the cache may keep nothing new until then.",
            ),
            String::new(),
        ),
        Kind::Cancelled => (
            gettext("Canceled"),
            gettext("You canceled the change."),
            String::new(),
        ),
        Kind::Interrupted => (
            gettext("Interrupted"),
            gettext("The service was stopped in the middle of its work."),
            gettext(
                "When it has started again, look whether the cache is there. If not, try again.",
            ),
        ),
        Kind::InvalidArgument if failure.name == "name" => (
            gettext("Name Not Possible"),
            gettext("A name has at most {most} characters, all on one line."),
            gettext("Choose another name."),
        ),
        Kind::InvalidArgument => (
            gettext("Versions Do Not Match"),
            gettext("The service did not understand the request."),
            gettext("Make sure that all parts of Tandem have the same version."),
        ),
        Kind::ServiceUnavailable if failure.name == SYSTEM_BUS => (
            gettext("No System Bus"),
            gettext(
                "The system bus (D-Bus) of this computer cannot be reached, so neither disks nor caches can be shown.",
            ),
            gettext("Restart the computer, or start the system bus, and then try again."),
        ),
        Kind::ServiceUnavailable => (
            gettext("No Answer"),
            gettext("The service “{name}” did not answer."),
            gettext("Try again. If that does not help, install Tandem again."),
        ),
        Kind::Internal if failure.name == NOT_SAVED => (
            gettext("Could Not Save the File"),
            gettext("The file could not be written."),
            gettext("Choose another folder, or make room on that disk."),
        ),
        Kind::Internal => (
            gettext("Internal Error"),
            gettext("The service ran into an internal error."),
            gettext("Copy the details and report them."),
        ),
    }
}
