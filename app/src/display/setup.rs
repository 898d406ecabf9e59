// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for a plan that sets up a cache: its button, its time, the backup that it needs, and what it changes in
//! daily life.

use gettextrs::gettext;
use tandem_api::{DeviceText, Mode, PlanReply, StepKind, Target};

use super::{Erased, fill, keyless, plain_name, volume_names};
use crate::model::inventory::Device;

/// Whether a plan erases data that may be of value.
#[must_use]
pub fn erases(plan: &PlanReply) -> bool {
    has(plan, StepKind::EraseSsd)
}

fn has(plan: &PlanReply, kind: StepKind) -> bool {
    plan.steps.iter().any(|step| step.kind == kind)
}

/// The device that a plan erases. Where a partition for the cache is made on it, this is not the SSD of the plan.
#[must_use]
pub fn erased_device(plan: &PlanReply) -> Option<&DeviceText> {
    let step = plan
        .steps
        .iter()
        .find(|step| step.kind == StepKind::EraseSsd);
    step.map(|step| &step.device)
}

/// The data that this plan erases, in words; `devices` are all that are known.
#[must_use]
pub fn erased_by(plan: &PlanReply, devices: &[Device]) -> Option<Erased> {
    let device = erased_device(plan)?;
    let path = device.object.as_str();
    let mut volumes = devices.iter().flat_map(|device| &device.volumes);
    let partition = volumes
        .find(|volume| volume.path == path)
        .and_then(|volume| volume.partition);
    let whole = devices.iter().find(|device| device.path == path);
    let names = whole.map(volume_names).unwrap_or_default();
    Some(Erased::of(device, partition, names))
}

/// The label of the button that begins the job: a verb with its object, and a mnemonic.
#[must_use]
pub fn action_words(plan: &PlanReply, erased: Option<&Erased>) -> String {
    if let Some(erased) = erased {
        fill(
            &gettext("_Erase {model} and Set Up"),
            &[("model", &keyless(&erased.name))],
        )
    } else if plan.at_next_start {
        gettext("_Set Up at the Next Start")
    } else {
        gettext("_Set Up the Cache")
    }
}

/// The few words that say how the plan uses the SSD.
#[must_use]
pub fn fate_words(plan: &PlanReply) -> String {
    if plan.ssd.is_memory() {
        gettext("Empty at each start")
    } else if erases(plan) {
        gettext("Will be erased")
    } else if has(plan, StepKind::CreatePartition) {
        gettext("A new partition in free space")
    } else {
        gettext("Empty, will be used")
    }
}

/// How long the job takes.
#[must_use]
pub fn time_words(plan: &PlanReply) -> String {
    if has(plan, StepKind::UpdateInitramfs) {
        gettext("A few minutes now. The cache starts when you restart the computer.")
    } else if plan.at_next_start {
        gettext("Less than a minute now. The cache starts when you restart the computer.")
    } else {
        gettext("Usually less than a minute")
    }
}

/// The row about the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupWords {
    /// The promise or the advice.
    pub title: String,
    /// Of what, and why.
    pub subtitle: String,
    /// Whether the plan may only begin with the promise.
    pub needed: bool,
}

/// The devices, the mode and the data for which the person promises a backup. The promise does not hold for a plan with another subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSubject {
    origin: DeviceText,
    ssd: DeviceText,
    mode: Mode,
    erased: Option<Erased>,
}

/// The subject of the promise for this plan.
#[must_use]
pub fn backup_subject(plan: &PlanReply, erased: Option<&Erased>) -> BackupSubject {
    BackupSubject {
        origin: plan.origin.clone(),
        ssd: plan.ssd.clone(),
        mode: plan.mode,
        erased: erased.cloned(),
    }
}

/// The backup that a plan needs: of the disk if data may come to be on the SSD only, and of the SSD if it is erased.
#[must_use]
pub fn backup_words(plan: &PlanReply, erased: Option<&Erased>) -> BackupWords {
    let (risks, erases) = (plan.mode == Mode::Writeback, erased.is_some());
    let subtitle = match (risks, erases) {
        (true, true) => gettext(
            "Needed to go on: everything on {ssd} is erased, and if it fails later, files on {disk} can be lost. What I need of both is backed up elsewhere.",
        ),
        (true, false) => gettext(
            "Needed to go on: if the SSD fails, files on {disk} can be lost. They are backed up elsewhere.",
        ),
        (false, true) => gettext(
            "Needed to go on: everything on {ssd} is erased. What I need of it is backed up elsewhere.",
        ),
        (false, false) => gettext(
            "Not needed here: none of your files is changed or erased. But hard disks fail, so keep a second copy of what is on {disk}.",
        ),
    };
    let needed = risks || erases;
    BackupWords {
        title: if needed {
            gettext("I have a backup")
        } else {
            gettext("A backup is always good")
        },
        subtitle: fill(
            &subtitle,
            &[
                ("disk", &plain_name(&plan.origin)),
                ("ssd", erased.map_or("", |erased| &erased.name)),
            ],
        ),
        needed,
    }
}

/// The change in daily life once the plan is carried out: a title and an explanation, which may be empty. `target`: what
/// serves the cache.
#[must_use]
pub fn daily_words(plan: &PlanReply, target: Target) -> Vec<[String; 2]> {
    let of_kernel = target == Target::DmCache;
    let in_memory = plan.ssd.is_memory();
    let begin = if plan.at_next_start {
        [
            gettext("Restart the computer when it suits you"),
            gettext(
                "Until then the disk works as before, and you can cancel on the page of the cache.",
            ),
        ]
    } else if in_memory {
        [
            gettext("Use your files as always"),
            gettext("The cache fills as you go with what you use often, and that gets fast."),
        ]
    } else if of_kernel {
        [
            gettext("Use your files as always"),
            gettext("The SSD fills as you go with what you use often, and that gets fast."),
        ]
    } else {
        [
            gettext("Use your files as always"),
            gettext(
                "The SSD fills as you go: the first time is as slow as before, the second is fast.",
            ),
        ]
    };
    let start = [
        gettext("The cache starts automatically with your computer"),
        if in_memory {
            gettext("It begins empty then, and fills again with what you use often.")
        } else if of_kernel {
            gettext(
                "After a crash, or without ext4 or Btrfs on the disk, it begins empty then, and fills again with what you use often.",
            )
        } else {
            gettext("There is nothing to start or to look after.")
        },
    ];
    let safety = if plan.mode == Mode::Writeback {
        [
            [
                gettext("Keep your backup up to date"),
                gettext(
                    "If the SSD fails, you lose what you saved last, and the file system may be damaged.",
                ),
            ],
            [
                gettext("Before you move the disk, turn off Fast Saving"),
                gettext("Another computer would not see what is not yet on the hard disk."),
            ],
        ]
    } else {
        [
            [
                if in_memory {
                    gettext("If the power goes out, the cache loses nothing of yours")
                } else {
                    gettext("If the SSD fails, you lose nothing")
                },
                gettext("Everything that you save is on the hard disk right away."),
            ],
            [
                gettext("You can stop at any time"),
                gettext("Remove the cache, and the hard disk keeps working on its own."),
            ],
        ]
    };
    [begin, start].into_iter().chain(safety).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::Step;

    fn plan(mode: Mode, kinds: &[StepKind]) -> PlanReply {
        let device = |model: &str, label: &str| DeviceText {
            model: model.into(),
            label: label.into(),
            ..DeviceText::none()
        };
        let step = |kind: &StepKind| Step {
            kind: *kind,
            device: device("Flash", ""),
            target: String::new(),
            bytes: 0,
        };
        PlanReply {
            plan_id: String::new(),
            digest: String::new(),
            steps: kinds.iter().map(step).collect(),
            warnings: vec![],
            origin: device("Disk", "Archive"),
            ssd: device("Flash", ""),
            mode,
            refused_modes: vec![],
            at_next_start: kinds.contains(&StepKind::Prepare),
            mount_points: vec![],
            cache_bytes: 0,
            memory_bytes: 0,
            valid_seconds: 60,
        }
    }

    #[test]
    fn a_backup_is_needed_of_all_that_can_be_lost_and_of_nothing_else() {
        use Mode::{Writearound, Writeback, Writethrough};
        for (mode, steps, disk, ssd) in [
            (Writethrough, &[StepKind::Map][..], false, false),
            (Writearound, &[StepKind::CreatePartition], false, false),
            (Writethrough, &[StepKind::EraseSsd], false, true),
            (Writeback, &[StepKind::Map], true, false),
            (Writeback, &[StepKind::EraseSsd], true, true),
        ] {
            let plan = plan(mode, steps);
            let words = backup_words(&plan, erased_by(&plan, &[]).as_ref());
            assert_eq!(words.needed, disk || ssd, "{mode} {steps:?}");
            if words.needed {
                assert_eq!(words.subtitle.contains("Archive"), disk);
                assert_eq!(words.subtitle.contains("Flash"), ssd);
            }
        }
    }

    #[test]
    fn what_is_erased_is_named_as_what_it_is() {
        let mut plan = plan(Mode::Writethrough, &[StepKind::EraseSsd]);
        // The plan makes a smaller partition for the cache on an SSD with the file system Photos.
        plan.steps[0].device.label = "Photos".into();
        plan.steps[0].device.size = 500;
        plan.ssd.size = 100;
        let erased = erased_by(&plan, &[]).unwrap();
        assert_eq!((erased.device.size, &*erased.name), (500, "Flash"));
        let device = &plan.steps[0].device;
        let part = Erased::of(device, Some(2), vec![]);
        assert_eq!(part.name, "“Photos” on Flash");
        let without_label = DeviceText {
            label: String::new(),
            ..device.clone()
        };
        let part = Erased::of(&without_label, Some(2), vec![]);
        let button = action_words(&plan, Some(&part));
        assert_eq!(button, "_Erase “Partition 2” on Flash and Set Up");
        let backup = backup_words(&plan, Some(&part)).subtitle;
        assert!(backup.contains("“Partition 2” on Flash"));
    }

    #[test]
    fn the_promise_of_a_backup_falls_with_anything_that_it_is_about() {
        let first = plan(Mode::Writethrough, &[StepKind::EraseSsd]);
        let subject = |plan: &PlanReply| {
            let names = vec!["Games".to_owned()];
            let erased = erased_device(plan).map(|device| Erased::of(device, None, names));
            backup_subject(plan, erased.as_ref())
        };
        assert_eq!(subject(&first), subject(&first.clone()));
        let without_names = erased_by(&first, &[]);
        assert_ne!(
            subject(&first),
            backup_subject(&first, without_names.as_ref())
        );
        let change: [fn(&mut PlanReply); 5] = [
            |plan| plan.ssd.serial = "B".into(),
            |plan| plan.origin.serial = "B".into(),
            |plan| plan.ssd.size = 1,
            |plan| plan.mode = Mode::Writeback,
            |plan| plan.steps[0].device.label = "Photos".into(),
        ];
        for change in change {
            let mut other = first.clone();
            change(&mut other);
            assert_ne!(subject(&first), subject(&other));
        }
    }

    #[test]
    fn daily_life_names_the_risk_of_the_mode_that_has_one() {
        let words = |mode, steps: &[StepKind]| -> Vec<String> {
            let all = daily_words(&plan(mode, steps), Target::Tandem).into_iter();
            all.map(|[title, _]| title).collect()
        };
        let safe = words(Mode::Writethrough, &[StepKind::Map]);
        assert!(safe.contains(&"If the SSD fails, you lose nothing".to_owned()));
        let fast = words(Mode::Writeback, &[StepKind::Map]);
        assert!(fast.iter().any(|title| title.contains("backup")));
        assert!(!fast.iter().any(|title| title.contains("lose nothing")));
        let later = words(Mode::Writethrough, &[StepKind::Prepare]);
        assert!(later[0].starts_with("Restart"));
    }

    #[test]
    fn daily_life_with_the_kernels_own_cache_may_begin_empty() {
        let plan = plan(Mode::Writethrough, &[StepKind::Map]);
        for target in Target::ALL.iter().copied() {
            let words = daily_words(&plan, target).concat().join("\n");
            let of_kernel = target == Target::DmCache;
            assert_eq!(words.contains("begins empty"), of_kernel, "{words}");
            assert_eq!(words.contains("the second is fast"), !of_kernel, "{words}");
        }
    }

    #[test]
    fn daily_life_with_memory_names_no_ssd() {
        let mut plan = plan(Mode::Writethrough, &[StepKind::Map]);
        plan.ssd = DeviceText::memory(4 << 30);
        let words = daily_words(&plan, Target::Tandem).concat().join("\n");
        assert!(
            words.contains("begins empty") && !words.contains("SSD"),
            "{words}"
        );
        assert_eq!(fate_words(&plan), "Empty at each start");
    }

    #[test]
    fn the_time_tells_of_minutes_where_startup_files_are_made() {
        let time = |steps: &[StepKind]| time_words(&plan(Mode::Writethrough, steps));
        assert!(time(&[StepKind::Map]).contains("less than a minute"));
        assert!(time(&[StepKind::Prepare]).contains("restart"));
        let root = [StepKind::Prepare, StepKind::UpdateInitramfs];
        assert!(time(&root).starts_with("A few minutes"));
    }
}
