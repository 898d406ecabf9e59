// SPDX-License-Identifier: GPL-3.0-or-later
//! Why a rescue does not go on, as plain values. tandemctl says it in words: what happened, what is the state of the data, and
//! what to do next.

use serde::Serialize;
use std::io;

/// Whether anything was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing was changed: the request was refused, or a device cannot be read.
    Refused,
    /// Some data may have been written to the disk. All data is still on the SSD, or on the disk.
    Stopped,
}

/// Why a rescue does not go on.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {}", why.word())]
pub struct Error {
    /// Whether anything was changed.
    pub kind: Kind,
    /// The path of the device or the image that is at fault.
    pub name: String,
    /// The cause of the error.
    pub why: Why,
}

/// The cause of the error.
#[derive(Debug)]
pub enum Why {
    /// The path cannot be opened.
    NotOpened(io::Error),
    /// The path is neither a device nor a file.
    NoDisk,
    /// Something else uses the device or the image.
    InUse(User),
    /// The SSD, or what is on it, cannot be used.
    Ssd(Fault),
    /// The disk has fewer sectors (the first number) than the disk of the cache (the second).
    DiskTooSmall(u64, u64),
    /// The SSD is an image, and nothing says that all of the SSD could be read.
    MayLack,
    /// The file is no map of an image.
    NoMap,
    /// The disk may be the wrong one, and the user has not named it.
    InDoubt(Vec<Doubt>, Known),
    /// What is on the disk may be newer, and the user has not agreed to lose that.
    Newer(Vec<Doubt>),
    /// A device failed in the middle of the work.
    Failed(Duty, io::Error),
    /// The engine works without the SSD since an error.
    SsdGivenUp,
    /// The engine could not make its records durable.
    NotDurable,
}

/// The user of a device or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// Another rescue.
    Rescue,
    /// This loop device shows the image as a disk.
    LoopDevice(String),
    /// A volume with this kernel name lies on the device.
    Volume(String),
    /// The device is mounted at this place.
    Mounted(String),
    /// Not known.
    Unknown,
}

/// The fault of an SSD.
#[derive(Debug)]
pub enum Fault {
    /// The device has too few sectors for any cache.
    TooSmall,
    /// Neither copy of the cache information can be read.
    Unreadable,
    /// The device does not flush its data.
    NotFlushed(io::Error),
    /// There is no cache on the device.
    NoCache,
    /// A partition table or a file system was written over the cache information.
    Overwritten,
    /// The cache information is damaged.
    Damaged,
    /// A newer version has made the cache.
    Newer,
    /// The kernel's dm-cache serves the cache, in write-through: the disk has everything.
    NothingNewer,
    /// The device is smaller than the SSD that the cache was made on.
    Shrunk,
    /// The index is damaged.
    IndexDamaged,
    /// The index contradicts itself.
    IndexImpossible,
    /// The engine refuses the SSD for another reason.
    Other,
}

/// A reason not to write to a disk, or not to show it together with the SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// An image has no serial number.
    Image,
    /// The SSD names another disk.
    OtherDisk,
    /// The disk is larger than the one that the cache was made for.
    Larger,
    /// The disk was written without the cache, or it is another one with the same names.
    Changed,
    /// The service recorded that the disk was used without the SSD.
    Outdated,
    /// The service's record of the cache is there and cannot be read: the disk may have been used without the SSD.
    NoRecord,
}

impl Doubt {
    /// Whether the disk may have what is newer than the SSD; else the disk may be another one.
    pub fn is_of_content(self) -> bool {
        matches!(self, Self::Changed | Self::Outdated | Self::NoRecord)
    }
}

/// The facts by which a disk that may be the wrong one can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The user has named the disk by this serial number, which is not that of the disk.
    NamedAs(String),
    /// The disk is an image with this file name.
    Image(String),
    /// The disk has no serial number.
    NoSerial,
    /// The disk has a serial number, and the user has not named it.
    Serial,
}

/// The duty of a device in the work that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// The disk: write data.
    TakeData,
    /// The disk: make data durable.
    StoreData,
    /// The SSD: write a record of the engine.
    TakeRecord,
    /// The SSD: write the samples of the disk.
    TakeNote,
}

impl Why {
    /// The word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotOpened(_) => "not-opened",
            Self::NoDisk => "no-disk",
            Self::InUse(_) => "in-use",
            Self::Ssd(fault) => fault.word(),
            Self::DiskTooSmall(..) => "disk-too-small",
            Self::MayLack => "image-may-lack",
            Self::NoMap => "no-map",
            Self::InDoubt(..) => "disk-in-doubt",
            Self::Newer(..) => "disk-newer",
            Self::Failed(..) => "device-failed",
            Self::SsdGivenUp => "ssd-given-up",
            Self::NotDurable => "not-durable",
        }
    }
}

impl Fault {
    /// The word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::TooSmall => "ssd-too-small",
            Self::Unreadable => "ssd-unreadable",
            Self::NotFlushed(_) => "ssd-not-flushed",
            Self::NoCache => "no-cache",
            Self::Overwritten => "ssd-overwritten",
            Self::Damaged => "cache-information-damaged",
            Self::Newer => "newer-version",
            Self::NothingNewer => "nothing-newer",
            Self::Shrunk => "ssd-shrunk",
            Self::IndexDamaged => "index-damaged",
            Self::IndexImpossible => "index-impossible",
            Self::Other => "ssd-refused",
        }
    }
}

impl Error {
    /// A refusal.
    pub fn refused(name: &str, why: Why) -> Self {
        Self {
            kind: Kind::Refused,
            name: name.to_owned(),
            why,
        }
    }

    /// An SSD that is refused.
    pub fn ssd(name: &str, fault: Fault) -> Self {
        Self::refused(name, Why::Ssd(fault))
    }

    /// An end in the middle of the work.
    pub fn stopped(name: &str, why: Why) -> Self {
        Self {
            kind: Kind::Stopped,
            name: name.to_owned(),
            why,
        }
    }
}
