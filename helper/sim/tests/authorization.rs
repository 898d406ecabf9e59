// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls every method and every setter that introspection shows, while the authority denies everything. The arguments
//! would have an effect if the call were allowed. No call changes anything.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::introspect::introspect;
use common::{Machine, spec};
use std::collections::BTreeMap;
use tandem_api::*;
use zbus::fdo::ObjectManagerProxy;
use zbus::{OwnedVariant, Variant};

/// All objects of the service and of the simulated UDisks2, without the properties that change with the time.
async fn everything(machine: &Machine) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, path) in [
        (BUS_NAME, ROOT_PATH),
        ("org.freedesktop.UDisks2", "/org/freedesktop/UDisks2"),
    ] {
        let manager = ObjectManagerProxy::builder(&machine.connection)
            .destination(name)
            .path(path)
            .build()
            .await
            .unwrap();
        for (path, interfaces) in manager.get_managed_objects().await.unwrap() {
            for (interface, properties) in interfaces {
                for (property, value) in properties {
                    if !matches!(
                        property.as_str(),
                        "Latest" | "DirtyBytes" | "SecondsToDrain"
                    ) {
                        all.insert(
                            format!("{path} {interface} {property}"),
                            format!("{value:?}"),
                        );
                    }
                }
            }
        }
    }
    all
}

#[tokio::test]
async fn a_denied_user_changes_nothing_by_any_method_or_setter() {
    let machine = Machine::simulated().await;
    // There is a cache that could be lost, and a plan for another cache that could be executed.
    let share = PlanSpec {
        partition_bytes: 1 << 30,
        ..spec("sda1", "sdc")
    };
    machine.create(&share).await.unwrap();
    let cache = machine.caches().await.remove(0);
    let path = cache.inner().path().to_string();
    let manager = machine.manager().await;
    let creation = manager
        .plan(&PlanSpec {
            erase_ssd: true,
            at_next_start: false,
            ..spec("sda2", "sde")
        })
        .await
        .unwrap();
    let removal = cache.plan_remove().await.unwrap();
    let resizing = cache.plan_resize(2 << 30).await.unwrap();
    // The object of the finished creation disappears by itself meanwhile.
    common::until("the job's object to go", async || {
        !everything(&machine)
            .await
            .keys()
            .any(|k| k.contains("/jobs/"))
    })
    .await;
    machine
        .simulation()
        .await
        .set_authorized(false)
        .await
        .unwrap();
    let before = everything(&machine).await;

    let mut called = Vec::new();
    for path in [ROOT_PATH, path.as_str()] {
        let found = introspect(&machine, path).await;
        for (interface, name, signature) in found.methods {
            // The interface of the simulation belongs to the test. The other calls use the interfaces of the bus.
            if interface.ends_with(".Simulation") || interface.starts_with("org.freedesktop.DBus") {
                continue;
            }
            let call = async |body: &(dyn erased::Body + Sync)| {
                body.call(&machine, path, &interface, &name).await
            };
            let plan = match name.as_str() {
                "Create" => &creation,
                "Resize" => &resizing,
                _ => &removal,
            };
            let result = match signature.as_str() {
                "" => call(&()).await,
                "ss" => call(&(plan.plan_id.as_str(), plan.digest.as_str())).await,
                "s" if name == "EnrollKey" => call(&("long enough",)).await,
                "s" => call(&("writeback",)).await,
                "u" => call(&(5u32,)).await,
                "b" => call(&(true,)).await,
                "(utu)" => {
                    let limit = DirtyLimit {
                        seconds: 5,
                        bytes: 0,
                        rest: 0,
                    };
                    call(&(limit,)).await
                }
                "(oosbbtst)" => call(&(spec("sda2", "sde"),)).await,
                "oa(ssss)" => {
                    let change = NameChange {
                        file: "/etc/fstab".to_owned(),
                        entry: "/".to_owned(),
                        before: "/dev/sda2".to_owned(),
                        after: "UUID=ab".to_owned(),
                    };
                    call(&(spec("sda2", "sde").ssd, vec![change])).await
                }
                "t" => call(&(2_u64 << 30,)).await,
                "o" => call(&(spec("sda2", "sde").ssd,)).await,
                "os" => call(&(spec("sda2", "sde").ssd, "ab".repeat(16).as_str())).await,
                other => panic!("{name} takes {other}: teach this test to call it"),
            };
            called.push((name, result));
        }
        for (interface, name, signature) in found.writable {
            let value = match signature.as_str() {
                "s" => Variant::new("writearound"),
                "b" => Variant::new(true),
                "u" => Variant::new(7u32),
                "t" => Variant::new(7u64),
                other => panic!("{name} is of type {other}: teach this test to set it"),
            };
            let value = OwnedVariant::try_from(value).unwrap();
            let body = (interface.as_str(), name.as_str(), value);
            let set = machine
                .connection
                .call_method(
                    Some(BUS_NAME),
                    path,
                    Some("org.freedesktop.DBus.Properties"),
                    "Set",
                    &body,
                )
                .await;
            assert!(set.is_err(), "{interface}.{name} could be set");
        }
    }
    // There are no setters beside those that introspection shows.
    for (interface, path) in [
        (MANAGER_INTERFACE, ROOT_PATH),
        (CACHE_INTERFACE, path.as_str()),
    ] {
        for name in ["Mode", "State", "Version", "ModuleState", "MountPoints"] {
            let value = OwnedVariant::try_from(Variant::new("bypass")).unwrap();
            let body = (interface, name, value);
            let set = machine
                .connection
                .call_method(
                    Some(BUS_NAME),
                    path,
                    Some("org.freedesktop.DBus.Properties"),
                    "Set",
                    &body,
                )
                .await;
            assert!(set.is_err(), "{interface}.{name} could be set");
        }
    }

    let names: Vec<_> = called.iter().map(|(name, _)| name.as_str()).collect();
    for needed in [
        "Plan",
        "Create",
        "Remove",
        "PlanRemove",
        "SsdLayout",
        "Watch",
        "Unwatch",
        "History",
        "LongHistory",
        "PlanDiscard",
        "PlanResize",
        "Resize",
        "SetMode",
        "SetShutdownMinutes",
        "SetName",
        "SetDirtyLimit",
        "SetPaused",
        "Start",
        "ResetStatistics",
        "UndoResetStatistics",
        "Flush",
        "EnrollKey",
        "NameChanges",
        "ChangeNames",
        "TestSpeed",
        "CancelSpeedTest",
    ] {
        assert!(
            names.contains(&needed),
            "{needed} was not called: {names:?}"
        );
    }
    for (name, result) in &called {
        if matches!(
            name.as_str(),
            "Create"
                | "Remove"
                | "Resize"
                | "SetMode"
                | "SetShutdownMinutes"
                | "SetName"
                | "SetDirtyLimit"
                | "SetPaused"
                | "Start"
                | "ResetStatistics"
                | "UndoResetStatistics"
                | "Flush"
                | "EnrollKey"
                | "ChangeNames"
                | "TestSpeed"
        ) {
            assert_eq!(*result, Err(Some(Kind::NotAuthorized)), "{name}");
        }
        assert!(
            name != "PlanDiscard" || *result == Err(Some(Kind::WrongState)),
            "nothing is to be given up"
        );
    }
    assert_eq!(everything(&machine).await, before);
}

#[tokio::test]
async fn a_plan_survives_a_refused_authentication() {
    let machine = Machine::simulated().await;
    let plan = machine.plan(&spec("sda1", "sdc")).await.unwrap();
    let before = everything(&machine).await;
    machine
        .simulation()
        .await
        .set_authorized(false)
        .await
        .unwrap();
    let refused = Failure::from(
        machine
            .manager()
            .await
            .create(&plan.plan_id, &plan.digest)
            .await
            .unwrap_err(),
    );
    assert_eq!(refused.kind, Kind::NotAuthorized);
    assert_eq!(everything(&machine).await, before);
    // A caller that is allowed can still execute the same plan.
    machine
        .simulation()
        .await
        .set_authorized(true)
        .await
        .unwrap();
    let job = machine
        .manager()
        .await
        .create(&plan.plan_id, &plan.digest)
        .await
        .unwrap();
    machine.end(job).await.unwrap();
}

/// Calls with bodies of different types through one function.
mod erased {
    use super::*;

    #[async_trait::async_trait]
    pub trait Body {
        async fn call(
            &self,
            machine: &Machine,
            path: &str,
            interface: &str,
            name: &str,
        ) -> Result<(), Option<Kind>>;
    }

    #[async_trait::async_trait]
    impl<T: serde::Serialize + zbus::wire::DynamicType + Sync> Body for T {
        async fn call(
            &self,
            machine: &Machine,
            path: &str,
            interface: &str,
            name: &str,
        ) -> Result<(), Option<Kind>> {
            let reply = machine
                .connection
                .call_method(Some(BUS_NAME), path, Some(interface), name, self)
                .await;
            reply
                .map(drop)
                .map_err(|e| Failure::from_zbus(&e).map(|f| f.kind))
        }
    }
}
