// SPDX-License-Identifier: GPL-3.0-or-later
//! Steps and warnings of a plan.

use super::{bytes, content, device, users};
use tandem_api::{Step, StepKind, Warning, WarningKind};

/// A step of a plan.
pub fn step(step: &Step) -> String {
    let device = device(&step.device);
    let target = &step.target;
    match step.kind {
        StepKind::LoadModule => "Load the kernel module".to_owned(),
        StepKind::Unmount => format!("Unmount {target}"),
        StepKind::EraseSsd => format!("ERASE {device}, which holds {}", content(&step.device)),
        StepKind::CreatePartition => {
            format!("Make a partition of {} on {device}", bytes(step.bytes))
        }
        StepKind::DeletePartition => format!("Delete the partition {device}"),
        StepKind::Map => format!("Set up a cache of {} for {device}", bytes(step.bytes)),
        StepKind::Prepare => format!(
            "Prepare a cache of {} for {device}, which uses it from the next start on",
            bytes(step.bytes)
        ),
        StepKind::UpdateInitramfs => {
            "Make the initial file systems (initramfs) of all kernels anew".to_owned()
        }
        StepKind::Mount => format!("Mount {device} at {target} again"),
        StepKind::EnableWriteback => format!("Turn on write-back for {device}"),
        StepKind::Drain => format!("Write {} back to {device}", bytes(step.bytes)),
        StepKind::Detach => format!("Stop using the SSD for {device}{}", lost(step.bytes)),
        StepKind::FreeSsd => format!("Release {device}{}", lost(step.bytes)),
        StepKind::Unmap => {
            let lost = lost(step.bytes);
            format!("Restore the plain disk {device}{lost}")
        }
    }
}

/// What goes with the SSD.
fn lost(lost: u64) -> String {
    match lost {
        0 => String::new(),
        lost => format!(", LOSING {} not yet on the hard disk", bytes(lost)),
    }
}

/// A warning of a plan.
pub fn warning(warning: &Warning) -> String {
    let device = device(&warning.device);
    let users = users(&warning.users);
    match warning.kind {
        WarningKind::ErasesSsd => {
            format!(
                "Everything on {device} will be erased: {}.",
                content(&warning.device)
            )
        }
        WarningKind::ErasesUnknown => {
            format!("{device} has unrecognized or encrypted content, which will be erased.")
        }
        WarningKind::Unavailable => format!("{device} will be unavailable for a few seconds."),
        WarningKind::InUse => format!("{device} is in use; close these first: {users}."),
        WarningKind::Removable => {
            format!("{device} is removable; do not unplug it while the cache is in use.")
        }
        WarningKind::SsdRotates => {
            format!("{device} is a hard disk. Using it as a cache makes nothing faster.")
        }
        WarningKind::OriginIsSsd => {
            format!("{device} is an SSD itself; a cache will not help much.")
        }
        WarningKind::SameDrive => {
            format!("{device} is on the same drive as the disk; a cache will not help much.")
        }
        WarningKind::OriginUnknown => {
            format!(
                "{device} has unrecognized or encrypted content, which does not change. If the disk is empty, create a file system on it after the cache; an LVM volume group cannot be created on a disk with a cache."
            )
        }
        WarningKind::NoHibernation => format!(
            "The computer cannot hibernate while the system on {device} has a cache; it can still suspend."
        ),
        WarningKind::OtherSystems => {
            format!(
                "Other systems on this computer must not write to {device} while the cache exists."
            )
        }
        kind @ (WarningKind::WritebackRisk | WarningKind::WritebackElsewhere) => {
            risk(kind, &device)
        }
        WarningKind::ClearText => format!(
            "The disk is encrypted and unlocked. Copies of its data will be stored unencrypted on {device}."
        ),
        WarningKind::LosesUnwritten => format!(
            "Data not yet on the hard disk will be lost; the file system on {device} may be damaged beyond repair."
        ),
        WarningKind::LosesInUse if users.is_empty() => format!(
            "{device} is mounted, in use and cannot be unmounted, and the loss may damage its file system further. Unmount it first if you can. If you go on, restart the computer right after, and check it."
        ),
        WarningKind::LosesInUse => format!(
            "{device} is mounted and in use, and the loss may damage its file system further. Close these first if you can: {users}. If you go on, restart the computer right after, and check it."
        ),
        WarningKind::StartsEmpty => format!(
            "The cache starts empty again, with {}. Nothing on the hard disk changes, and it stays in use.",
            bytes(warning.device.size)
        ),
        WarningKind::StaysUnmounted => {
            format!("{device} is unmounted first and not mounted again: check its file system.")
        }
        WarningKind::StaysMapped if users.is_empty() => {
            format!(
                "{device} is in use and stays on a plain mapping until you next start the computer."
            )
        }
        WarningKind::StaysMapped => {
            format!(
                "{device} is in use and stays on a plain mapping until you next start the computer: {users}."
            )
        }
    }
}

/// What is to be known of write-back.
pub const WRITEBACK_WARNINGS: [WarningKind; 2] =
    [WarningKind::WritebackRisk, WarningKind::WritebackElsewhere];

/// One of these, for a disk.
pub fn risk(kind: WarningKind, disk: &str) -> String {
    if kind == WarningKind::WritebackElsewhere {
        format!(
            "Do not open {disk} in Windows, a live system or another computer while data is not yet on the hard disk."
        )
    } else {
        format!(
            "If the SSD fails before data is on the hard disk, the file system on {disk} may be damaged beyond repair."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_data_is_named_in_the_step_that_loses_it() {
        for kind in [StepKind::Detach, StepKind::Unmap, StepKind::FreeSsd] {
            let words = |bytes| {
                step(&Step {
                    kind,
                    device: tandem_api::DeviceText::none(),
                    target: String::new(),
                    bytes,
                })
            };
            let losing = ", LOSING 4.1 kB not yet on the hard disk";
            assert_eq!(words(4096), words(0) + losing);
        }
    }
}
