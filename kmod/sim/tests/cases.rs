// SPDX-License-Identifier: GPL-3.0-or-later
//! Single cases (promise 33).

use tandem_sim::cases;
use tandem_sim::engine::Core;

#[test]
fn every_single_case_holds() {
    cases::play_all(&Core::linked()).unwrap();
}
