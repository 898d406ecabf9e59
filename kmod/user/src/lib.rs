// SPDX-License-Identifier: GPL-3.0-or-later
//! Core, the engine of the kernel module, in user space and behind safe calls.
//!
//! Core decides what is read and written and in which order; the caller carries it out. The simulator runs core on simulated
//! disks, the rescue program on real ones without the module. No other crate calls core, so `unsafe` ends here.

mod edge;
mod engine;
mod ffi;
mod ledger;
mod library;
mod load;
mod reading;
pub mod start;
mod types;
mod watching;

pub use crate::engine::{Engine, NewRequest, RETIRED_LIFE, Request};
pub use crate::ffi::{
    Extent, Facts, Geometry, Layout, Look, ORIGIN_ID_ROOM, RETIRED_ROOM, Region, Span,
};
#[cfg(feature = "load")]
pub use crate::library::LoadError;
pub use crate::library::{Core, text};
pub use crate::load::Load;
pub use crate::types::{
    Actions, Joined, Loaded, Mode, ReqKind, Seek, State, Verdict, WORK_KINDS, Waking, Word, Work,
    WorkKind,
};
