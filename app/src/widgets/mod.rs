// SPDX-License-Identifier: GPL-3.0-or-later
//! The widgets. A widget changes when a model object says so, never because it made a call.

pub mod cache_page;
pub mod cache_row;
pub mod chart;
pub mod choice_list;
pub mod device_group;
pub mod enroll_form;
pub mod error_view;
pub mod figure_list;
pub mod job_card;
pub mod job_view;
pub mod mode_dialog;
pub mod mode_list;
pub mod module_page;
pub mod overview;
pub mod remove_dialog;
pub mod scrolled;
pub mod setup;
pub mod share_row;
pub mod spinner;
pub mod step_list;
pub mod task_list;
pub mod unwritten_card;
pub mod warning_list;
pub mod window;
pub mod wizard;
