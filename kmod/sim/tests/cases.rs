// SPDX-License-Identifier: GPL-3.0-or-later
//! Single cases (promise 33).

use tandem_sim::cases;
use tandem_sim::engine::Core;

// promise 13, 14, 17, 18, 21, 33: engine/cases::every_single_case_holds
#[test]
fn every_single_case_holds() {
    cases::play_all(&Core::linked()).unwrap();
}
