// SPDX-License-Identifier: GPL-3.0-or-later
//! Measures the engine in user space: the hit rates of its policy, how fast it loads an index, what a large cache costs.

pub mod hitrate;
pub mod load;
pub mod scale;
mod synced;
pub mod writes;
