// SPDX-License-Identifier: GPL-3.0-or-later
//! What went wrong.

use super::{bytes, content, device, plan, users};
use tandem_api::{DataState, Failure, Kind, ModeRefusal, Step, StepKind};

/// What went wrong, and what became of the data.
pub fn failure(failure: &Failure) -> String {
    let what = what(failure);
    let data = match failure.data {
        DataState::Unchanged => "Nothing was changed.",
        DataState::Restored => "Everything is as it was before.",
        DataState::Erased => "The hard disk is as it was before, but the SSD is already erased.",
        DataState::Incomplete if !failure.not_restored.is_empty() => {
            let left = failure.not_restored.iter().map(not_restored);
            let left = left.collect::<Vec<_>>().join("; ");
            let again = "The service tries to restore it when it starts next.";
            return format!(
                "{what} Your files are on the hard disk. Not restored: {left}. {again}"
            );
        }
        DataState::Incomplete => {
            // True also where something was given up.
            "No data is left on the SSD only, but not everything is as it was before; \
             the service tries again when it starts next."
        }
        DataState::Removed => {
            "Nothing is lost: the cache is removed, and the hard disk is used without it. \
             If it stays on a plain mapping, that ends when you next start the computer."
        }
        DataState::Unwritten => {
            "Some of your data is not yet on the hard disk; nothing is lost as long as the SSD works or comes back."
        }
    };
    format!("{what} {data}")
}

/// What a step has left behind that could not be undone.
fn not_restored(step: &Step) -> String {
    let device = device(&step.device);
    match step.kind {
        StepKind::Unmount => format!("{device} is not mounted at {}", step.target),
        StepKind::Mount => format!(
            "{device} is still mounted at {} through the cache",
            step.target
        ),
        StepKind::EraseSsd => format!("the old content of {device} is erased"),
        StepKind::CreatePartition => format!("the new partition is still on {device}"),
        StepKind::Map => format!("{device} is still under the cache's mapping"),
        _ => plan::step(step),
    }
}

fn what(failure: &Failure) -> String {
    let device = device(&failure.device);
    let points = failure.mount_points.join(", ");
    let name = &failure.name;
    let sizes = || {
        format!(
            "{} needed, it has {}",
            bytes(failure.needed),
            bytes(failure.actual)
        )
    };
    match failure.kind {
        Kind::SameDevice => format!("Disk and SSD are the same device: {device}."),
        Kind::SsdMounted => format!("{device} is mounted at {points}; unmount it first."),
        Kind::SsdInUse => format!("{device} is in use ({name})."),
        Kind::SsdHoldsData => format!(
            "{device} holds data ({}). To erase it, add --erase-ssd.",
            content(&failure.device)
        ),
        Kind::SsdHoldsUnwritten => format!(
            "{device} holds a cache of another system, and changes that may not be on its hard disk. See “tandemctl found”."
        ),
        Kind::SsdUnknownContent => {
            format!("{device} has unrecognized or encrypted content. To erase it, add --erase-ssd.")
        }
        Kind::SsdIsVolume => format!(
            "{device} is a volume ({name}) that is not there early enough at the start of the computer, or cannot \
             have partitions; use the SSD itself or a partition of it."
        ),
        Kind::SsdNoFreeSpace => format!(
            "{device} has no free space of {}; the largest is {}.",
            bytes(failure.needed),
            bytes(failure.actual)
        ),
        Kind::SsdTable => format!(
            "{device} has a partition table of type {name}; Tandem makes partitions only in a GPT. \
             Use a partition that is there, or the whole SSD."
        ),
        Kind::PartOfVolume => format!(
            "{device} is one of several devices that belong together ({name}); use the volume as a whole."
        ),
        Kind::Indistinguishable if name.is_empty() => {
            format!("{device} has no serial number or other ID, so Tandem could not find it again.")
        }
        Kind::Indistinguishable => {
            format!("{device} cannot be told from {name}: both have the same ID.")
        }
        Kind::ModeRefused => format!("This mode is not available: {}", mode_refusal(name)),
        Kind::UnwrittenData => format!(
            "Data on {device} is not yet on the hard disk and cannot be written back now ({name}). \
             To discard it, use --discard-unwritten."
        ),
        Kind::SsdLost => {
            format!("{device} failed or was unplugged with data that is not yet on the hard disk.")
        }
        Kind::SsdTooSmall => format!("{device} is too small: {}.", sizes()),
        Kind::OriginTooSmall => format!("{device} is too small to be worth a cache: {}.", sizes()),
        Kind::ReadOnly => format!("{device} is read-only."),
        Kind::OriginSwap => format!("{device} is swap space, which is never cached."),
        Kind::OriginBoot => format!("{device} holds /boot, which is never cached."),
        Kind::OriginGrub => format!(
            "GRUB starts this computer from {device}, and could not start it after its next update if {device} had a \
             cache. With /boot on a partition of its own, or by EFI with Debian's signed GRUB (the package \
             grub-efi-amd64-signed), {device} can have one."
        ),
        Kind::OriginEfi => format!("{device} is the EFI system partition, which is never cached."),
        Kind::OriginRoot => {
            format!(
                "{device} holds the running system ({points}). A root file system (/) can be cached from the next \
                 start on: use --at-next-start."
            )
        }
        Kind::NotFoundAtStart if name == "initramfs" => format!(
            "{device} holds the running system, and neither initramfs-tools nor dracut is there with \
             Tandem's files to start it through a cache."
        ),
        Kind::NotFoundAtStart if name == "volume" => format!(
            "the running system can be cached on a drive or a partition only, by an SSD that is one; {device} is a \
             volume (encryption, LVM or RAID)."
        ),
        Kind::NotFoundAtStart if name == "early" => format!(
            "the initial file system mounts or unlocks {device} ({points}) before a cache can be there. Remove \
             x-initrd.mount, x-initrd.attach or initramfs from the entry in /etc/fstab or /etc/crypttab, and make the \
             initial file systems anew."
        ),
        Kind::NotFoundAtStart => {
            format!("the start of this computer would not find {device} in time ({name}).")
        }
        Kind::OriginPartitioned => format!("{device} has partitions; choose one of them."),
        Kind::OriginInUse => format!("{device} is in use ({name})."),
        Kind::FstabNamesDevice => format!(
            "/etc/fstab names the disk of {points} as {name}, which would not find the cache; “tandemctl \
             names {}” changes it to UUID=.",
            failure.device.name
        ),
        Kind::CrypttabNamesDevice => format!(
            "/etc/crypttab names the device of {points} as {name}, which would not find the cache; “tandemctl \
             names {}” changes it to UUID=.",
            failure.device.name
        ),
        Kind::GrubNamesDevice => format!(
            "/etc/default/grub has the computer start from the name of a device ({points}: {name}), and a new SSD may \
             take that name; “tandemctl names {}” changes it.",
            failure.device.name
        ),
        Kind::BootNamesDevice if points.is_empty() => format!(
            "the computer was started from the name of a device, and a new SSD may take that name. Write {name} instead \
             of root=/dev/… in the configuration of your boot loader, and restart."
        ),
        Kind::BootNamesDevice => format!(
            "the computer was started from the name of a device, and a new SSD may take that name. Write {name} instead \
             of root=/dev/… in the configuration from which {points} is made, make it anew, and restart."
        ),
        Kind::UnitNamesDevice => format!(
            "the unit {points} mounts {name}, which would not find the cache. Write a UUID= there, or remove the unit \
             and enter the disk in /etc/fstab by its UUID=."
        ),
        Kind::SsdUsedAtStart => format!(
            "the next start of this computer uses {device} for {points} and would wait for it in vain; remove the \
             entry from /etc/fstab or /etc/crypttab first."
        ),
        Kind::AlreadyCached => format!("{device} is already part of a cache."),
        Kind::DeviceGone => format!("{device} is no longer connected."),
        Kind::DeviceChanged => format!("{device} has changed since the plan was made; plan again."),
        Kind::FilesystemBusy if failure.users.is_empty() => {
            format!("{device} is in use at {points}.")
        }
        Kind::FilesystemBusy => {
            format!(
                "{device} is in use; close these first: {}.",
                users(&failure.users)
            )
        }
        Kind::PlanUnknown => "This plan is not known or too old; plan again.".to_owned(),
        Kind::NotAuthorized => "Authentication failed or was canceled.".to_owned(),
        Kind::AuthorityUnavailable => {
            "The authorization service (polkit) does not answer.".to_owned()
        }
        Kind::ModuleNotBuilt => {
            format!("The kernel module is not built for the running kernel {name}.")
        }
        Kind::ModuleRefused => {
            format!(
                "The kernel {name} refused the module because of Secure Boot: it is not signed with a trusted key."
            )
        }
        Kind::ModuleFailed => format!("The kernel module could not be loaded into kernel {name}."),
        Kind::ModuleTooOld => {
            "The kernel module that is loaded is of an older version, which cannot do this. Start the computer again."
                .to_owned()
        }
        Kind::OutOfMemory => "There is not enough memory for the cache.".to_owned(),
        Kind::Busy if name == "speed-test" => format!("The speed of {device} is being tested."),
        Kind::SpeedTestFailed => format!("The speed test of {device} ended: {}", speed_test(name)),
        Kind::Busy => format!("Another change of {device} is under way."),
        Kind::TooMany => "Too many changes at once; try again later.".to_owned(),
        Kind::WrongState if name == "paused" => {
            "The cache is paused; see “tandemctl resume”.".to_owned()
        }
        Kind::WrongState => format!("The cache is not in a state for this ({name})."),
        Kind::SsdDamaged => format!("The cache information on {device} is damaged."),
        Kind::SsdBlocks => {
            format!(
                "{device} uses larger blocks than the disk, and may hold data that is not yet on the hard disk."
            )
        }
        Kind::NotResizable if name == "system" => {
            "The running system is on this disk, so the size of its cache cannot be changed; remove the cache and set it up again.".to_owned()
        }
        Kind::NotResizable => format!(
            "Tandem did not make the partition of this cache on {device}, so its size cannot be changed; remove the cache and set it up again."
        ),
        Kind::WrongDisk => format!("{device} belongs to a cache of another disk."),
        Kind::StepFailed => format!("A step failed ({name}): {}.", failure.detail),
        Kind::Cancelled => "You canceled the change.".to_owned(),
        Kind::Interrupted => "The service was stopped in the middle of its work.".to_owned(),
        Kind::InvalidArgument if failure.name == "name" => format!(
            "A name has at most {} characters, all on one line.",
            tandem_api::MAX_NAME_CHARS
        ),
        Kind::InvalidArgument => format!("The argument “{name}” makes no sense."),
        Kind::ServiceUnavailable => {
            format!("The service {name} does not answer: {}.", failure.detail)
        }
        Kind::Internal => format!("Internal error: {}.", failure.detail),
    }
}

/// Why a speed test has no result.
fn speed_test(reason: &str) -> &'static str {
    match reason {
        "slow" => "the device does not answer in time, or wakes up too late.",
        "changed" => "the cache was changed meanwhile, or its SSD is gone.",
        _ => "the device cannot be read.",
    }
}

/// Why a mode is not offered.
fn mode_refusal(reason: &str) -> &'static str {
    match reason.parse() {
        Ok(ModeRefusal::Removable) => "not for removable drives: unplugging one could lose data.",
        Ok(ModeRefusal::OtherSystems) => "other systems write to this file system as well.",
        Ok(ModeRefusal::MountedAtStart) => {
            "/etc/fstab mounts the disk at the start, before the cache is there."
        }
        Ok(ModeRefusal::UnlockedAtStart) => {
            "/etc/crypttab unlocks the disk at the start, which would wait in vain while the SSD is missing."
        }
        Ok(ModeRefusal::System) => {
            "the running system is on the disk, and could not start without the SSD."
        }
        Ok(ModeRefusal::NextStart) => "the mode can be changed after the next start.",
        Ok(ModeRefusal::Shared) => "something else changes the disk: see “tandemctl status”.",
        Ok(ModeRefusal::BlockSize) => "the SSD takes larger blocks than the disk.",
        Err(_) => "not for this disk and this SSD.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_given_up_is_not_called_safe() {
        let text = failure(&Failure::new(Kind::Internal).data(DataState::Incomplete));
        assert!(!text.contains("safe"), "{text}");
    }

    #[test]
    fn every_failure_is_a_sentence_that_says_what_became_of_the_data() {
        for kind in Kind::ALL {
            let text = failure(&Failure::new(*kind));
            assert!(
                text.ends_with("Nothing was changed.") && text.len() > 30,
                "{kind}: {text}"
            );
        }
    }
}
