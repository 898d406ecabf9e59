// SPDX-License-Identifier: GPL-3.0-or-later
//! What all layers of tests have in common: places of files, packages, programs, and the counting of results.

pub mod apt;
pub mod compiler;
pub mod cx;
pub mod deps;
pub mod fetch;
pub mod hash;
pub mod kbuild;
pub mod layer;
pub mod libtest;
pub mod machine;
pub mod pins;
pub mod programs;
pub mod report;
pub mod results;
pub mod run;
pub mod sample;
pub mod seed;
