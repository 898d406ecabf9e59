// SPDX-License-Identifier: GPL-3.0-or-later
//! Measures the engine in user space: the hit rates of its policy, and how fast it loads an index.

pub mod hitrate;
pub mod load;
mod synced;
pub mod writes;
