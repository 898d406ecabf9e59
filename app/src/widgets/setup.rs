// SPDX-License-Identifier: GPL-3.0-or-later
//! The pages of the wizard. A page shows what it is given and emits what was chosen. No page knows another; only
//! [`super::wizard`] knows their order.

pub mod choices_page;
pub mod done_page;
pub mod progress_page;
pub mod review_page;
