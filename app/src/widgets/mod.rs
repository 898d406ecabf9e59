// SPDX-License-Identifier: GPL-3.0-or-later
//! What is on the screen. A widget changes when a model object says so, never because it made a call.

pub mod chart;
pub mod choice_list;
pub mod error_view;
pub mod job_view;
pub mod setup;
pub mod setup_dialog;
pub mod step_list;
