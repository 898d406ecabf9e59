// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of states that only the simulated machine can be brought into.

mod away;
mod found;
mod giving_up;
mod growth;
mod grub;
mod health;
mod kept;
mod kernels;
mod naming;
mod renamed;
mod returning;
mod settings;
mod shared;
mod sharing;
mod speed;
mod start_names;
mod statistics;
mod watch;
mod writeback;
