// SPDX-License-Identifier: GPL-3.0-or-later
//! The names of devices, from their model alone to all facts that a person can check.

use gettextrs::gettext;
use tandem_api::{DeviceText, ModeRefusal, RefusedMode};

use crate::{SEPARATOR, bytes, fill};

/// What keeps the copies of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An SSD.
    Ssd,
    /// A part of the computer's memory.
    Memory,
}

impl Place {
    /// The place that this device is.
    #[must_use]
    pub fn of(device: &DeviceText) -> Self {
        match device.is_memory() {
            true => Self::Memory,
            false => Self::Ssd,
        }
    }

    /// The place of a cache for which these modes are refused.
    #[must_use]
    pub fn that_refuses(modes: &[RefusedMode]) -> Self {
        let in_memory = |refused: &RefusedMode| refused.reason == ModeRefusal::Memory;
        match modes.iter().any(in_memory) {
            true => Self::Memory,
            false => Self::Ssd,
        }
    }
}

/// The name of a device with all facts that a person can check against its label: model, size, serial number.
#[must_use]
pub fn full_name(device: &DeviceText) -> String {
    if device.is_memory() {
        return short_name(device);
    }
    let model = if device.model.is_empty() {
        &device.name
    } else {
        &device.model
    };
    if device.serial.is_empty() {
        fill(
            &gettext("{model}, {size}"),
            &[("model", model), ("size", &bytes(device.size))],
        )
    } else {
        fill(
            &gettext("{model}, {size}, serial number {serial}"),
            &[
                ("model", model),
                ("size", &bytes(device.size)),
                ("serial", &device.serial),
            ],
        )
    }
}

/// The name of a device: its model alone, or its kernel name. Of memory, how much.
#[must_use]
pub fn short_name(device: &DeviceText) -> String {
    if device.is_memory() {
        let size = bytes(device.size);
        return fill(&gettext("{size} of memory"), &[("size", &size)]);
    }
    if device.model.is_empty() {
        device.name.clone()
    } else {
        device.model.clone()
    }
}

/// The name of a device where there is little room: the label of its file system, or its model.
#[must_use]
pub fn plain_name(device: &DeviceText) -> String {
    if device.label.is_empty() {
        short_name(device)
    } else {
        device.label.clone()
    }
}

/// The name of a device: the label of its file system with the model, or the model alone.
#[must_use]
pub fn plan_title(device: &DeviceText) -> String {
    titled(device, &short_name(device))
}

/// The same, with all facts that a person can check against the label of the device.
#[must_use]
pub fn full_title(device: &DeviceText) -> String {
    titled(device, &full_name(device))
}

fn titled(device: &DeviceText, name: &str) -> String {
    if device.label.is_empty() {
        return name.to_owned();
    }
    label_on(&device.label, name)
}

/// A label, and the model of the device that has it.
#[must_use]
pub fn label_on(label: &str, model: &str) -> String {
    fill(
        &gettext("“{label}” on {model}"),
        &[("label", label), ("model", model)],
    )
}

/// The facts to check against the label of a device: size, serial number, kernel name.
#[must_use]
pub fn device_facts(device: &DeviceText) -> String {
    if device.is_memory() {
        return gettext("compressed");
    }
    let mut facts = vec![bytes(device.size)];
    if !device.serial.is_empty() {
        facts.push(fill(
            &gettext("serial number {serial}"),
            &[("serial", &device.serial)],
        ));
    }
    if !device.name.is_empty() {
        facts.push(device.name.clone());
    }
    facts.join(SEPARATOR)
}

/// The name of a device where there is much room, and the facts to check.
#[must_use]
pub fn device_line(device: &DeviceText) -> String {
    [plan_title(device), device_facts(device)].join(SEPARATOR)
}

/// Names in quotation marks, with commas between them.
#[must_use]
pub fn quoted(names: &[String]) -> String {
    let all = names.iter().map(|name| quoted_name(name));
    all.collect::<Vec<_>>().join(", ")
}

pub(crate) fn quoted_name(name: &str) -> String {
    // Translators: a name in quotation marks
    fill(&gettext("“{name}”"), &[("name", name)])
}

/// The name of a partition without a label.
#[must_use]
pub fn partition_words(number: u32) -> String {
    fill(
        &gettext("Partition {number}"),
        &[("number", &number.to_string())],
    )
}
