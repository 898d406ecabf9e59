// SPDX-License-Identifier: GPL-3.0-or-later
//! Plain English for everything that the service says. Every kind has its sentence: the compiler
//! asks for it when the contract grows.

use tandem_api::{
    CacheState, DataState, DeviceText, Failure, FileUser, Kind, ModeRefusal, SECTOR_BYTES, Sample,
    SizeText, Step, StepKind, Warning, WarningKind,
};

/// Bytes as people say them.
pub fn bytes(bytes: u64) -> String {
    SizeText::new(bytes).to_string()
}

/// A device: model, size and kernel name.
pub fn device(device: &DeviceText) -> String {
    let model = if device.model.is_empty() {
        "device"
    } else {
        &device.model
    };
    match device.name.as_str() {
        "" if device.model.is_empty() => device.object.to_string(),
        name => format!("{model} ({}, {name})", bytes(device.size)),
    }
}

/// What is on a device.
pub fn content(device: &DeviceText) -> String {
    match (device.content.as_str(), device.label.as_str()) {
        ("", _) => "unknown or encrypted content, or none".to_owned(),
        ("partition-table", _) => "partitions".to_owned(),
        (content, "") => content.to_owned(),
        (content, label) => format!("{content} “{label}”"),
    }
}

fn users(users: &[FileUser]) -> String {
    let one = |u: &FileUser| match u.pid {
        0 if u.command.is_empty() => "a program of another user".to_owned(),
        0 => format!("{} ({})", u.command, u.user),
        pid => format!("{} (process {pid}, {})", u.command, u.user),
    };
    users.iter().map(one).collect::<Vec<_>>().join(", ")
}

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
        StepKind::Map => format!("Put a cache of {} over {device}", bytes(step.bytes)),
        StepKind::Prepare => format!(
            "Prepare a cache of {} for {device}, which uses it from the next start on",
            bytes(step.bytes)
        ),
        StepKind::UpdateInitramfs => {
            "Make the initial file systems (initramfs) of all kernels anew".to_owned()
        }
        StepKind::Mount => format!("Mount {device} at {target} again"),
        StepKind::EnableWriteback => format!("Let writes to {device} wait on the SSD"),
        StepKind::Drain => format!(
            "Write {} that are only on the SSD to {device}",
            bytes(step.bytes)
        ),
        StepKind::Detach => format!("Stop using the SSD for {device}{}", lost(step.bytes)),
        StepKind::FreeSsd => format!("Free {device}{}", lost(step.bytes)),
        StepKind::Unmap => {
            let lost = lost(step.bytes);
            format!("Remove the cache's device from over {device}{lost}")
        }
    }
}

/// What goes with the SSD.
fn lost(lost: u64) -> String {
    match lost {
        0 => String::new(),
        lost => format!(", LOSING {} that are only on the SSD", bytes(lost)),
    }
}

/// A warning of a plan.
pub fn warning(warning: &Warning) -> String {
    let device = device(&warning.device);
    let users = users(&warning.users);
    match warning.kind {
        WarningKind::ErasesSsd => {
            format!(
                "Everything on {device} will be lost: {}.",
                content(&warning.device)
            )
        }
        WarningKind::ErasesUnknown => {
            format!("{device} holds unknown or encrypted content, which will be lost.")
        }
        WarningKind::Unavailable => format!("{device} is not available for some moments."),
        WarningKind::InUse => format!("{device} is in use; close these first: {users}."),
        WarningKind::Removable => {
            format!("{device} can be unplugged; do not do that while it works.")
        }
        WarningKind::SsdRotates => format!("{device} says that it is a hard disk, not an SSD."),
        WarningKind::OriginIsSsd => format!("{device} is an SSD itself; a cache gains little."),
        WarningKind::SameDrive => {
            format!("{device} is on the same drive as the disk; a cache gains little.")
        }
        WarningKind::OriginUnknown => {
            format!("{device} has unknown or encrypted content; it is kept as it is.")
        }
        WarningKind::OtherSystems => {
            format!(
                "Other systems on this computer must not write to {device} while the cache exists."
            )
        }
        kind @ (WarningKind::WritebackRisk | WarningKind::WritebackElsewhere) => {
            risk(kind, &device)
        }
        WarningKind::ClearText => format!(
            "The disk is encrypted and unlocked; copies of its clear text will lie on {device} unencrypted."
        ),
        WarningKind::LosesUnwritten => format!(
            "What is only on the SSD will be lost; the file system on {device} may be damaged beyond repair."
        ),
        WarningKind::LosesInUse if users.is_empty() => format!(
            "{device} is mounted, in use and cannot be unmounted, and the loss may damage its file system further. Better unmount it first. If you go on, restart the computer right after, and check it."
        ),
        WarningKind::LosesInUse => format!(
            "{device} is mounted and in use, and the loss may damage its file system further. Better close these first: {users}. If you go on, restart the computer right after, and check it."
        ),
        WarningKind::StaysUnmounted => {
            format!("{device} is unmounted first and not mounted again: check its file system.")
        }
        WarningKind::StaysMapped if users.is_empty() => {
            format!("{device} is in use and stays on a plain mapping until the next start.")
        }
        WarningKind::StaysMapped => {
            format!(
                "{device} is in use and stays on a plain mapping until the next start: {users}."
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
            "Do not open {disk} in Windows, a live system or another computer while anything is only on the SSD."
        )
    } else {
        format!(
            "If the SSD dies while data is only there, the file system on {disk} may be damaged beyond repair."
        )
    }
}

/// What is only on the SSD, and how long it would take to write it if that is known.
pub fn dirty(sample: &Sample) -> String {
    let size = bytes(sample.dirty_sectors.saturating_mul(SECTOR_BYTES));
    match (sample.dirty_sectors, sample.drain_seconds) {
        (0, _) => "nothing".to_owned(),
        (_, 0) => size,
        (_, seconds) => format!("{size}, about {} to write", duration(seconds)),
    }
}

/// What the cache has done since it was assembled, a line each; what has not happened is left out.
pub fn counters(sample: &Sample) -> Vec<String> {
    let size = |sectors: u64| bytes(sectors.saturating_mul(SECTOR_BYTES));
    let frames = |event| size(sample.event(event).saturating_mul(sample.frame_sectors));
    let mut lines = Vec::new();
    for (what, direction) in [("Read", &sample.read), ("Written", &sample.write)] {
        let past: Vec<String> = direction
            .bypassed
            .iter()
            .filter(|reason| reason.value > 0)
            .map(|reason| format!("{} {}", size(reason.value), reason.name))
            .collect();
        if !past.is_empty() {
            lines.push(format!("{what} past the cache: {}", past.join(", ")));
        }
    }
    if sample.write_back_sectors > 0 {
        lines.push(format!(
            "Written to the SSD first: {}, {} of it on the disk since",
            size(sample.write_back_sectors),
            size(sample.drained_sectors)
        ));
    }
    lines.push(format!(
        "Stored: {} read, {} given up for something better",
        frames("fills"),
        frames("evictions")
    ));
    lines.push(format!(
        "Flushed: the disk {} times, the SSD {} times",
        sample.event("flushes_disk"),
        sample.event("flushes_ssd")
    ));
    if sample.journal_total > 0 {
        lines.push(format!(
            "Journal: {} of {} blocks",
            sample.journal_used, sample.journal_total
        ));
    }
    for (what, latency) in [
        ("the SSD", &sample.ssd_latency),
        ("the disk", &sample.disk_latency),
    ] {
        if let (Some(half), Some(most)) = (latency.below_us(0.5), latency.below_us(0.99)) {
            lines.push(format!(
                "Answered by {what}: half {}, 99 of 100 {} ({} measured)",
                within(half),
                within(most),
                latency.requests()
            ));
        }
    }
    let errors = [sample.event("disk_errors"), sample.event("ssd_errors")];
    if errors != [0, 0] {
        lines.push(format!(
            "Errors: the disk {}, the SSD {}",
            errors[0], errors[1]
        ));
    }
    if sample.event("retired") > 0 {
        lines.push(format!(
            "Unreadable: {} blocks of 16 KiB of the SSD, no longer used",
            sample.event("retired")
        ));
    }
    lines
}

/// A bound of a histogram of microseconds.
fn within(below_us: u64) -> String {
    match below_us {
        u64::MAX => "in a second or more".to_owned(),
        us @ ..1_000 => format!("within {us} us"),
        us => format!("within {:.1} ms", us as f64 / 1_000.0),
    }
}

/// Seconds as people say them.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// What a cache is doing. `unwritten` says that data may be on the SSD only.
pub fn state(state: CacheState, reason: &str, unwritten: bool) -> String {
    let text = match (state, reason) {
        (CacheState::Active, "disk-error") => "active, but the disk reported an error",
        (CacheState::Active, _) => "active",
        (CacheState::Bypass, "ssd-gone-dirty") => {
            "the SSD failed or was unplugged while data was only on the SSD; the rest can be read, nothing \
             can be saved. Nothing is lost if the SSD comes back as it was"
        }
        (CacheState::Bypass | CacheState::Stopped, "disk-missing") if unwritten => {
            "the disk is not there, and data may be only on the SSD. Keep both, and connect the disk to no \
             other computer"
        }
        (CacheState::Bypass | CacheState::Stopped, "disk-missing") => "the disk is not there",
        (CacheState::Bypass, _) => "bypassed: everything goes to the disk",
        (CacheState::Suspended, _) => "suspended for a moment",
        (CacheState::Stopped, "ssd-gone-dirty") => {
            "not assembled: the SSD is missing, and data is only on the SSD. Do not use the disk without \
             it; nothing is lost if the SSD comes back as it was"
        }
        (CacheState::Stopped, "disk-elsewhere") => {
            "held: the disk is connected in another way than before, or this is a copy of it, and data may be only \
             on the SSD. Connect it as it was"
        }
        (CacheState::Stopped, "disk-in-doubt") => {
            "not assembled: a device that may be the disk was used without it. If that was a copy, connect both at \
             the same time; otherwise the data on the SSD does not fit the disk any more"
        }
        (CacheState::Stopped, "disk-changed") => {
            "not assembled: the disk was changed without it. Neither the disk nor the SSD is touched"
        }
        (CacheState::Stopped, "ssd-damaged") => {
            "not assembled: what the SSD says of it is damaged. Neither the disk nor the SSD is touched"
        }
        (CacheState::Stopped, "ssd-blocks") => {
            "not assembled: the SSD shows larger blocks than the disk. Neither the disk nor the SSD is \
             touched; connect the SSD as it was"
        }
        (CacheState::Stopped, _) if unwritten => {
            "not assembled, and data may be only on the SSD. Do not use the disk without it; nothing of it is \
             lost"
        }
        (CacheState::Stopped, _) => "not assembled: the disk works without it",
        (CacheState::Pending, _) => {
            "waiting for the next start of the computer; the disk works without it until then"
        }
        (CacheState::Detached, _) => {
            "removed; a plain mapping stays until the disk is unmounted or the next start"
        }
    };
    if reason.is_empty() {
        text.to_owned()
    } else {
        format!("{text} ({reason})")
    }
}

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
            "Nothing is on the SSD only, but not everything is as it was before; \
             the service tries again when it starts next."
        }
        DataState::Unwritten => {
            "Some of your data is only on the SSD; nothing is lost as long as the SSD works or comes back."
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
        _ => self::step(step),
    }
}

fn what(failure: &Failure) -> String {
    let device = device(&failure.device);
    let points = failure.mount_points.join(", ");
    let name = &failure.name;
    let sizes = || {
        format!(
            "needed are {}, it has {}",
            bytes(failure.needed),
            bytes(failure.actual)
        )
    };
    match failure.kind {
        Kind::SameDevice => format!("Disk and SSD are the same device: {device}."),
        Kind::SsdMounted => format!("{device} is mounted at {points}; unmount it first."),
        Kind::SsdInUse => format!("{device} is in use ({name})."),
        Kind::SsdHoldsData => format!(
            "{device} holds data ({}). To use it, agree to lose them with --erase-ssd.",
            content(&failure.device)
        ),
        Kind::SsdUnknownContent => format!(
            "{device} holds unknown or encrypted content. To use it, agree to lose it with --erase-ssd."
        ),
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
            format!("{device} says nothing of itself by which it could be found again.")
        }
        Kind::Indistinguishable => {
            format!("{device} cannot be told from {name}: both say the same of themselves.")
        }
        Kind::ModeRefused => format!("This mode is not offered: {}", mode_refusal(name)),
        Kind::UnwrittenData => format!(
            "Data is only on {device} and cannot be written to the disk now ({name}). \
             To give it up, use --discard-unwritten."
        ),
        Kind::SsdLost => format!("{device} failed or went away while data was only there."),
        Kind::SsdTooSmall => format!("{device} is too small: {}.", sizes()),
        Kind::OriginTooSmall => format!("{device} is too small to be worth a cache: {}.", sizes()),
        Kind::ReadOnly => format!("{device} cannot be written to."),
        Kind::OriginSwap => format!("{device} is swap space, which is never cached."),
        Kind::OriginBoot => format!("{device} holds /boot, which is never cached."),
        Kind::OriginEfi => format!("{device} is the EFI system partition, which is never cached."),
        Kind::OriginRoot => {
            format!(
                "{device} holds the running system ({points}). A root file system (/) can be cached from the next \
                 start on: use --at-next-start."
            )
        }
        Kind::NotFoundAtStart if name == "initramfs" => format!(
            "{device} holds the running system, and there is no initramfs-tools with Tandem's files to start it \
             through a cache."
        ),
        Kind::NotFoundAtStart => {
            format!("the start of this computer would not find {device} in time ({name}).")
        }
        Kind::OriginPartitioned => format!("{device} has partitions; choose one of them."),
        Kind::OriginInUse => format!("{device} is in use ({name})."),
        Kind::FstabNamesDevice => format!(
            "/etc/fstab names the disk of {points} as {name}, which would not find the cache; use UUID= there."
        ),
        Kind::AlreadyCached => format!("{device} is already part of a cache."),
        Kind::DeviceGone => format!("{device} is not there any more."),
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
        Kind::NotAuthorized => {
            "You are not allowed to do this, or did not authenticate.".to_owned()
        }
        Kind::AuthorityUnavailable => {
            "The authorisation service (polkit) does not answer.".to_owned()
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
        Kind::OutOfMemory => "There is not enough memory for the cache.".to_owned(),
        Kind::Busy => format!("Another change of {device} is under way."),
        Kind::TooMany => "Too many changes at once; try again later.".to_owned(),
        Kind::WrongState => format!("The cache is not in a state for this ({name})."),
        Kind::SsdDamaged => format!("What {device} says of the cache on it is damaged."),
        Kind::SsdBlocks => {
            format!("{device} shows larger blocks than the disk, and data may be only on it.")
        }
        Kind::WrongDisk => format!("{device} belongs to a cache of another disk."),
        Kind::StepFailed => format!("A step failed ({name}): {}.", failure.detail),
        Kind::Cancelled => "Cancelled.".to_owned(),
        Kind::Interrupted => "The service was interrupted.".to_owned(),
        Kind::InvalidArgument => format!("The argument “{name}” makes no sense."),
        Kind::ServiceUnavailable => {
            format!("The service {name} does not answer: {}.", failure.detail)
        }
        Kind::Internal => format!("A fault in the service: {}.", failure.detail),
    }
}

/// Why a mode is not offered.
pub fn mode_refusal(reason: &str) -> &'static str {
    match reason.parse() {
        Ok(ModeRefusal::Removable) => "a device that can be unplugged must not hold data alone.",
        Ok(ModeRefusal::OtherSystems) => "other systems write to this file system as well.",
        Ok(ModeRefusal::MountedAtStart) => {
            "/etc/fstab mounts the disk at the start, before the cache is there."
        }
        Ok(ModeRefusal::System) => {
            "the running system is on the disk, and could not start without the SSD."
        }
        Ok(ModeRefusal::NextStart) => "the mode can be changed after the next start.",
        Ok(ModeRefusal::BlockSize) => "the SSD takes larger blocks than the disk.",
        Err(_) => "not for this disk and this SSD.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_when_it_is_known() {
        let mut sample = Sample::default();
        assert_eq!(dirty(&sample), "nothing");
        sample.dirty_sectors = 4_000;
        assert_eq!(dirty(&sample), "2.0 MB");
        sample.drain_seconds = 9;
        assert_eq!(dirty(&sample), "2.0 MB, about 9 s to write");
    }

    #[test]
    fn what_is_given_up_is_told_with_the_step_that_loses_it() {
        for kind in [StepKind::Detach, StepKind::Unmap, StepKind::FreeSsd] {
            let words = |bytes| {
                step(&Step {
                    kind,
                    device: tandem_api::DeviceText::none(),
                    target: String::new(),
                    bytes,
                })
            };
            let losing = ", LOSING 4.1 kB that are only on the SSD";
            assert_eq!(words(4096), words(0) + losing);
        }
    }

    #[test]
    fn counters_are_told_in_units_and_only_if_something_was_counted() {
        let event = |name: &str, value| tandem_api::Counter {
            name: name.into(),
            value,
        };
        let mut sample = Sample {
            frame_sectors: 32,
            journal_used: 3,
            journal_total: 64,
            events: vec![event("fills", 1_000), event("flushes_disk", 7)],
            ..Sample::default()
        };
        let quiet = counters(&sample);
        assert_eq!(
            quiet,
            [
                "Stored: 16.4 MB read, 0 B given up for something better",
                "Flushed: the disk 7 times, the SSD 0 times",
                "Journal: 3 of 64 blocks"
            ]
        );
        sample.read.bypassed = vec![event("busy", 0), event("sequential", 20_000)];
        (sample.write_back_sectors, sample.drained_sectors) = (4_000, 2_000);
        sample.events.push(event("ssd_errors", 1));
        sample.events.push(event("retired", 2));
        let bucket = |below_us, requests| tandem_api::Bucket { below_us, requests };
        sample.ssd_latency.buckets = vec![bucket(64, 9), bucket(128, 1), bucket(2048, 0)];
        sample.disk_latency.buckets = vec![bucket(16_384, 3), bucket(u64::MAX, 1)];
        let busy = counters(&sample);
        assert_eq!(busy[0], "Read past the cache: 10.2 MB sequential");
        assert_eq!(
            busy[1],
            "Written to the SSD first: 2.0 MB, 1.0 MB of it on the disk since"
        );
        assert_eq!(
            busy[5],
            "Answered by the SSD: half within 64 us, 99 of 100 within 128 us (10 measured)"
        );
        assert_eq!(
            busy[6],
            "Answered by the disk: half within 16.4 ms, 99 of 100 in a second or more (4 measured)"
        );
        assert_eq!(busy[7], "Errors: the disk 0, the SSD 1");
        assert_eq!(
            busy[8],
            "Unreadable: 2 blocks of 16 KiB of the SSD, no longer used"
        );
    }

    #[test]
    fn nothing_is_called_safe_that_is_only_on_the_ssd() {
        for stopped in [CacheState::Bypass, CacheState::Stopped] {
            let text = state(stopped, "ssd-gone-dirty", true);
            assert!(
                text.contains("only on the SSD") && text.contains("comes back"),
                "{text}"
            );
            assert!(!text.contains("works without"), "{text}");
        }
        for reason in ["module-refused", "disk-missing"] {
            let text = state(CacheState::Stopped, reason, true);
            assert!(text.contains("only on the SSD"), "{text}");
            let text = state(CacheState::Stopped, reason, false);
            assert!(!text.contains("only on the SSD"), "{text}");
        }
        let changed = state(CacheState::Stopped, "disk-changed", true);
        assert!(changed.contains("Neither"), "{changed}");
    }

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
