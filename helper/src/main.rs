// SPDX-License-Identifier: GPL-3.0-or-later
//! The privileged D-Bus service that builds, watches and removes caches.

fn main() {}
