// SPDX-License-Identifier: GPL-3.0-or-later
//! Layers of tests that run the module in the kernels of Debian's releases.

use crate::layer::Layer;

/// The layers, in the order in which they run.
pub fn layers() -> Vec<Layer> {
    Vec::new()
}
