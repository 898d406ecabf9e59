// SPDX-License-Identifier: GPL-3.0-or-later
//! The service does only what the user confirmed: it refuses devices that changed since the plan was made.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::{Machine, block, spec};
use tandem_api::*;

#[tokio::test]
async fn a_device_that_was_formatted_after_the_plan_is_refused() {
    let machine = Machine::simulated().await;
    let simulation = machine.simulation().await;
    let manager = machine.manager().await;
    let spec = PlanSpec {
        erase_ssd: true,
        at_next_start: false,
        ..spec("sda2", "sdd")
    };
    let new_uuid = "5d8b1a5e-3c1f-4d0e-9a51-7d1c4b8c0f11";
    for changed in ["sda2", "sdd", "sdd1"] {
        let plan = machine.plan(&spec).await.unwrap();
        simulation
            .format(&block(changed), &format!("{new_uuid}-{changed}"))
            .await
            .unwrap();
        let refused = manager.create(&plan.plan_id, &plan.digest).await;
        let refused = Failure::from(refused.unwrap_err());
        assert_eq!(refused.kind, Kind::DeviceChanged, "{changed}");
        assert!(machine.caches().await.is_empty());
    }
    // A plan for the present devices is executed.
    machine.create(&spec).await.unwrap();
}
