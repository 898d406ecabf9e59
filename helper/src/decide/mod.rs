// SPDX-License-Identifier: GPL-3.0-or-later
//! Decisions, by pure functions of the [`crate::model`].

pub mod lifecycle;
pub mod plan;
