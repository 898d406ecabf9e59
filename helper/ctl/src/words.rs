// SPDX-License-Identifier: GPL-3.0-or-later
//! The words that only a terminal needs, and the lines that it gets.

use gettextrs::{gettext, ngettext};
use tandem_api::{DeviceText, DirtyLimit, JudgedDevice, Mode, Step, StepKind, Warning};
use tandem_words::{
    Erased, Place, bytes, device_line, duration, fill, mode_words, step_words, warning_words,
};

/// A fact with its name: "Disk: WD Blue".
pub fn fact(name: &str, value: impl std::fmt::Display) -> String {
    const WIDTH: usize = 14;
    format!("  {name:<WIDTH$} {value}")
}

/// A device: label, model, size, serial number and kernel name.
pub fn device(device: &DeviceText) -> String {
    if device.model.is_empty() && device.name.is_empty() {
        device.object.to_string()
    } else {
        device_line(device)
    }
}

/// The name of the fact that is an SSD, or memory in its place.
pub fn place(ssd: &DeviceText) -> String {
    match ssd.is_memory() {
        true => gettext("Memory:"),
        false => gettext("SSD:"),
    }
}

/// The limit for the data that may be on the SSD only.
pub fn dirty_limit(limit: &DirtyLimit) -> String {
    let time = duration(limit.seconds.into());
    let words = match limit.bytes {
        0 => gettext("Only what the disk can write in {time} may be on the SSD only"),
        _ => gettext(
            "Only what the disk can write in {time}, and {size} at most, may be on the SSD only",
        ),
    };
    let amount = fill(&words, &[("time", &time), ("size", &bytes(limit.bytes))]);
    let rest = match limit.rest {
        0 => return amount,
        minutes => duration(u64::from(minutes) * 60),
    };
    let words = gettext("{limit}; for {time} at most while the disk rests");
    fill(&words, &[("limit", &amount), ("time", &rest)])
}

/// A mode as people and as this program name it. `waits_for_kernel`: write-back waits until each kernel has the module.
pub fn mode(mode: Mode, waits_for_kernel: bool) -> String {
    let words = mode_words(mode, waits_for_kernel, Place::Ssd);
    let name = words.lines().next().unwrap_or_default();
    format!("{name} ({mode})")
}

/// The uses of a device, behind its name in a list. A plan tells why a use is refused.
pub fn uses(judged: &JudgedDevice) -> String {
    match (
        judged.disk_obstacle().is_none(),
        judged.against_ssd.is_empty(),
    ) {
        (true, true) => gettext(" (can be a disk or an SSD of a cache)"),
        (true, false) => gettext(" (can be the disk of a cache)"),
        (false, true) => gettext(" (can be the SSD of a cache)"),
        (false, false) => String::new(),
    }
}

/// A step of a plan, with the device that it changes and the data that is lost with it.
pub fn step(step: &Step) -> String {
    let (title, mut more) = step_words(step);
    match step.kind {
        StepKind::EraseSsd => {
            more = device(&step.device);
            if !step.device.content.is_empty() {
                more = format!("{more}, {}", step.device.content);
            }
        }
        StepKind::Detach | StepKind::FreeSsd | StepKind::Unmap if step.bytes > 0 => {
            let lost = gettext("LOSES {size} that is not yet on the hard disk");
            more = fill(&lost, &[("size", &bytes(step.bytes))]);
        }
        _ => {}
    }
    match more.is_empty() {
        true => title,
        false => format!("{title} – {more}"),
    }
}

/// A warning of a plan.
pub fn warning(warning: &Warning) -> String {
    let erased = Erased {
        device: warning.device.clone(),
        name: device(&warning.device),
        names: vec![],
    };
    note(&warning_words(warning, Some(&erased)))
}

/// A sentence to be read before one agrees.
pub fn note(words: &str) -> String {
    fill(&gettext("Note: {words}"), &[("words", words)])
}

/// Places on a disk.
pub fn places(count: u64) -> String {
    let number = u32::try_from(count).unwrap_or(u32::MAX);
    let words = ngettext("{count} place", "{count} places", number);
    fill(&words, &[("count", &count.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::WarningKind;

    fn ssd() -> DeviceText {
        DeviceText {
            model: "Flash".into(),
            name: "sdb2".into(),
            content: "ext4".into(),
            ..DeviceText::none()
        }
    }

    #[test]
    fn discarded_data_is_named_in_the_step_that_loses_it() {
        for kind in [StepKind::Detach, StepKind::Unmap, StepKind::FreeSsd] {
            let words = |bytes| {
                step(&Step {
                    kind,
                    device: ssd(),
                    target: String::new(),
                    bytes,
                })
            };
            assert!(words(4096).contains("LOSES 4.1"), "{}", words(4096));
            assert!(!words(0).contains("LOSES"));
        }
    }

    #[test]
    fn what_is_erased_is_named_as_it_is_typed_and_with_what_it_holds() {
        let erase = step(&Step {
            kind: StepKind::EraseSsd,
            device: ssd(),
            target: String::new(),
            bytes: 0,
        });
        assert!(erase.ends_with("sdb2, ext4"), "{erase}");
        let told = warning(&Warning {
            kind: WarningKind::ErasesSsd,
            device: ssd(),
            users: vec![],
        });
        assert!(told.ends_with("sdb2 will be erased."), "{told}");
    }

    #[test]
    fn a_limit_says_what_is_not_as_it_is_for_a_new_cache() {
        let limit = |bytes, rest| {
            dirty_limit(&DirtyLimit {
                seconds: 1,
                bytes,
                rest,
            })
        };
        assert!(limit(0, 0).starts_with("Only what the disk can write in 1 second may"));
        let whole = limit(500_000_000, 10);
        assert!(
            whole.contains("500.0")
                && whole.ends_with("for 10 minutes at most while the disk rests")
        );
    }
}
