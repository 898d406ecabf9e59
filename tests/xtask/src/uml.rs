// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that run the module in User-mode Linux.

use crate::layer::Layer;

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    Vec::new()
}
