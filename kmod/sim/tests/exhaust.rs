// SPDX-License-Identifier: GPL-3.0-or-later
//! Small cases whole (promises 1-4, 6-9, 11, 12, 16): all of two requests, some of three. All of three are the command
//! `exhaust`.

use tandem_sim::engine::Core;
use tandem_sim::exhaust;
use tandem_sim::flaw::Flaw;

fn states(requests: u32, every: u64, flaw: Option<Flaw>) -> Result<u64, exhaust::Error> {
    let extent = exhaust::explore_all(&|| Ok(Core::linked()), requests, every, 2, flaw)?;
    println!("{requests} requests: {extent:?}");
    Ok(extent.states)
}

// promise 7, 8, 9, 11, 12: engine/exhaust::every_order_of_two_requests_holds_with_a_cut_in_every_state
#[test]
fn every_order_of_two_requests_holds_with_a_cut_in_every_state() {
    assert!(states(2, 1, None).unwrap() > 5000);
}

#[test]
fn some_of_three_requests_hold() {
    assert!(states(3, 101, None).unwrap() > 1000);
}

#[test]
fn what_is_wrong_with_one_action_is_found() {
    for name in [
        "group-nofua",
        "flushdisk-early",
        "clean-early",
        "marks-left",
    ] {
        let flaw = Flaw::named(name).unwrap();
        assert!(states(2, 1, Some(flaw)).is_err(), "{name} is not found");
    }
}
