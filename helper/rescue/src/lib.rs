// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads and empties the SSD of a cache without the kernel module, the service, D-Bus or UDisks2: on a live system, or on
//! images of the two disks.
//!
//! The engine of the kernel module itself ([`tandem_core`]) reads the SSD and writes to it. This crate decides whether that is
//! allowed, and carries the engine's reads and writes out.

mod cache;
mod error;
mod evidence;
#[cfg(feature = "machine")]
mod machine;
mod map;
mod medium;
pub mod nbd;
mod open;
mod order;
mod owner;
mod verify;
mod view;
mod writeback;

pub use cache::{Cache, Index, Summary};
pub use error::{Doubt, Duty, Error, Fault, Kind, Known, User, Why};
pub use evidence::{Consent, Content, judge};
#[cfg(feature = "machine")]
pub use machine::{owners, record};
pub use map::Map;
pub use medium::{BLOCK_BYTES, Medium, SECTOR_BYTES};
pub use open::{Disk, Source, open};
pub use order::Range;
pub use owner::{Owner, Record};
pub use verify::{Check, Report, verify};
pub use view::View;
pub use writeback::{Outcome, Step, write_back};
