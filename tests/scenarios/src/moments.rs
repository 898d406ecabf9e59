// SPDX-License-Identifier: GPL-3.0-or-later
//! The moments of a job at which its service is stopped, as the guest's program `tandem-kill` takes them: when a step
//! begins, or some time after the beginning of the job.

/// About the time that a job takes under emulation, in milliseconds; the instants are spread over it.
const SPREAD: u64 = 4000;
/// Bytes of a cache's share of its SSD, and the share that a job gives the cache instead.
pub(crate) const SHARES: [u64; 2] = [64 << 20, 96 << 20];

/// Each step of a job; the number of steps means when all are done.
pub(crate) fn steps(number: u64) -> impl Iterator<Item = String> {
    (0..=number).map(|n| format!("--step {n}"))
}

/// Instants spread over a job.
pub(crate) fn instants(number: u64) -> impl Iterator<Item = String> {
    (0..number).map(move |n| format!("--after {}", n * SPREAD / number))
}
