// SPDX-License-Identifier: GPL-3.0-or-later
//! The real indicator on a simulated machine; these tests play the panel and the desktop's notifications.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it cannot go on"
)]

use std::collections::HashMap;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tandem_api::{
    CacheProxy, CacheState, ManagerProxy, Mode, PlanSpec, SelfReport, SimulationProxy, SsdHealth,
};
use tandem_stage::bus::{self, Running};
use tandem_stage::machine::Machine;
use tandem_stage::panel;
use zbus::{Connection, OwnedObjectPath, Proxy, interface};

/// The desktop's notifications: their titles as they come, and the numbers of those that are closed.
struct Desktop {
    told: Sender<String>,
    count: u32,
}

#[interface(name = "org.freedesktop.Notifications")]
impl Desktop {
    #[allow(
        clippy::too_many_arguments,
        reason = "the specification of the desktops"
    )]
    fn notify(
        &mut self,
        _app_name: &str,
        _replaces_id: u32,
        _app_icon: &str,
        summary: &str,
        body: &str,
        _actions: Vec<String>,
        _hints: HashMap<String, zbus::OwnedVariant>,
        _expire_timeout: i32,
    ) -> u32 {
        self.count += 1;
        self.told.send(format!("{summary}: {body}")).unwrap();
        self.count
    }

    fn close_notification(&self, id: u32) {
        self.told.send(format!("closed {id}")).unwrap();
    }
}

async fn desktop(address: &str) -> (Connection, Receiver<String>) {
    let (told, hears) = channel();
    let connection = zbus::connection::Builder::address(address)
        .name("org.freedesktop.Notifications")
        .serve_at("/org/freedesktop/Notifications", Desktop { told, count: 0 })
        .build()
        .await
        .unwrap();
    (connection, hears)
}

fn tray(machine: &Machine, session: &str) -> Running {
    let tray = Command::new(env!("CARGO_BIN_EXE_tandem-tray"))
        .env("DBUS_SESSION_BUS_ADDRESS", session)
        .env("DBUS_SYSTEM_BUS_ADDRESS", &machine.address)
        .env("LC_ALL", "C.UTF-8")
        .env("LANGUAGE", "C")
        .spawn();
    Running(tray.unwrap())
}

/// The next notification. Awaits answers of the bus meanwhile: the connection needs this thread.
async fn next(desktop: &Connection, hears: &Receiver<String>) -> String {
    let start = Instant::now();
    loop {
        if let Ok(told) = hears.try_recv() {
            return told;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "no notification comes"
        );
        let bus = zbus::fdo::DBusProxy::new(desktop).await.unwrap();
        bus.get_id().await.unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Clicks the entry of the indicator's menu with this label.
async fn click(item: &Proxy<'_>, label: &str) {
    type Entry = (
        i32,
        HashMap<String, zbus::OwnedVariant>,
        Vec<zbus::OwnedVariant>,
    );
    let menu: Proxy<'_> = zbus::proxy::Builder::new(item.connection())
        .destination(item.destination().to_owned())
        .path("/MenuBar")
        .interface("com.canonical.dbusmenu")
        .build()
        .await
        .unwrap();
    let whole = (0_i32, -1_i32, Vec::<&str>::new());
    let start = Instant::now();
    loop {
        let (_, (_, _, entries)): (u32, Entry) = menu.call("GetLayout", &whole).await.unwrap();
        let wanted = entries
            .into_iter()
            .map(|entry| Entry::try_from(entry).unwrap())
            .find(|(_, values, _)| format!("{values:?}").contains(label));
        let (id, ..) = wanted.unwrap_or_else(|| panic!("no {label}"));
        let event = (id, "clicked", zbus::Variant::new(0_i32), 0_u32);
        // Each sample gives the entries new numbers.
        let Err(error) = menu.call::<_, _, ()>("Event", &event).await else {
            return;
        };
        assert!(start.elapsed() < Duration::from_secs(20), "{error}");
    }
}

#[test]
fn a_desktop_without_a_panel_gets_the_notifications() {
    let machine = Machine::start();
    zbus::block_on(async {
        let (_session, address) = bus::start();
        let (desktop, hears) = desktop(&address).await;
        let _tray = tray(&machine, &address);
        let system = zbus::connection::Builder::address(machine.address.as_str())
            .build()
            .await
            .unwrap();
        let levers = SimulationProxy::new(&system).await.unwrap();
        let manager = ManagerProxy::new(&system).await.unwrap();
        for round in 1..=2 {
            levers.set_kernels_without_module(&["6.99"]).await.unwrap();
            manager.check_kernels().await.unwrap();
            let told = next(&desktop, &hears).await;
            assert!(told.contains("Kernel 6.99 has no Tandem module."), "{told}");
            // The same once more is no news; the end closes the notification.
            manager.check_kernels().await.unwrap();
            levers.set_kernels_without_module(&[]).await.unwrap();
            manager.check_kernels().await.unwrap();
            assert_eq!(next(&desktop, &hears).await, format!("closed {round}"));
        }
    });
}

/// Reads a property of the item until it is as wanted.
async fn until(item: &Proxy<'_>, property: &str, wanted: impl Fn(&str) -> bool) {
    let start = Instant::now();
    loop {
        let value = item
            .get_property::<zbus::OwnedVariant>(property)
            .await
            .unwrap();
        let words = format!("{value:?}");
        if wanted(&words) {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{property} stays {words}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_indicator_shows_what_the_service_tells() {
    // `Machine::start` blocks by itself, so that it must not run inside `block_on`.
    let machine = Machine::start();
    zbus::block_on(async {
        let (_session, address) = bus::start();
        let (panel, hears) = panel::show(&address).await.unwrap();
        let (desktop, notices) = desktop(&address).await;
        let _tray = tray(&machine, &address);
        let service = panel::wait(&panel, &hears).await.unwrap();
        // Indicators announce changes by signals of their own, so that the cache of properties would stay old.
        let item: Proxy<'_> = zbus::proxy::Builder::new(&panel)
            .destination(service)
            .path("/StatusNotifierItem")
            .interface("org.kde.StatusNotifierItem")
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await
            .unwrap();
        until(&item, "Status", |words| words.contains("Passive")).await;

        let system = zbus::connection::Builder::address(machine.address.as_str())
            .build()
            .await
            .unwrap();
        let levers = SimulationProxy::new(&system).await.unwrap();
        levers.set_step_time(1).await.unwrap();
        let block = |name: &str| {
            OwnedObjectPath::try_from(format!("/org/freedesktop/UDisks2/block_devices/{name}"))
                .unwrap()
        };
        let spec = PlanSpec {
            origin: block("sda1"),
            ssd: block("sdc"),
            mode: Mode::Writethrough,
            erase_ssd: false,
            at_next_start: false,
            partition_bytes: 0,
            target: tandem_api::Target::Tandem,
            memory_bytes: 0,
        };
        let manager = ManagerProxy::new(&system).await.unwrap();
        let plan = manager.plan(&spec).await.unwrap();
        manager.create(&plan.plan_id, &plan.digest).await.unwrap();
        until(&item, "Status", |words| words.contains("Active")).await;
        until(&item, "IconName", |words| {
            words.contains("tandem-active-symbolic")
        })
        .await;
        until(&item, "ToolTip", |words| words.contains("Archive: working")).await;

        let objects = zbus::fdo::ObjectManagerProxy::builder(&system)
            .destination(tandem_api::BUS_NAME)
            .path(tandem_api::ROOT_PATH)
            .build()
            .await
            .unwrap();
        let all = objects.get_managed_objects().await.unwrap();
        let cache = all
            .keys()
            .find(|path| path.as_str().contains("/caches/"))
            .unwrap();
        let proxy = CacheProxy::builder(&system)
            .path(cache.clone())
            .build()
            .await
            .unwrap();
        proxy.set_name("Photos").await.unwrap();
        until(&item, "ToolTip", |words| words.contains("Photos: working")).await;
        let health = proxy.ssd_health().await.unwrap();
        let failing = SsdHealth {
            report: SelfReport::Failing,
            ..health
        };
        levers.set_health(&spec.ssd, &failing).await.unwrap();
        until(&item, "Status", |words| words.contains("NeedsAttention")).await;
        until(&item, "ToolTip", |words| {
            words.contains("The SSD reports that it is failing.")
        })
        .await;
        let told = next(&desktop, &notices).await;
        let expected = "Photos: the SSD reports that it is failing: The SSD reports";
        assert!(told.starts_with(expected), "{told}");
        levers.set_health(&spec.ssd, &health).await.unwrap();
        until(&item, "Status", |words| words.contains("Active")).await;
        assert_eq!(next(&desktop, &notices).await, "closed 1");
        click(&item, "Pause the Cache").await;
        until(&item, "ToolTip", |words| words.contains("Photos: paused")).await;
        until(&item, "IconName", |words| {
            words.contains("tandem-paused-symbolic")
        })
        .await;
        click(&item, "Resume the Cache").await;
        until(&item, "ToolTip", |words| words.contains("Photos: working")).await;
        // The indicator shows the dirty data from the samples; the service sends one each second while a client
        // watches.
        proxy.watch().await.unwrap();
        proxy.set_mode(Mode::Writeback).await.unwrap();
        levers.advance(60).await.unwrap();
        until(&item, "ToolTip", |words| {
            words.contains("MB waiting to be written")
                && words.contains("read from SSD")
                && words.contains("If the SSD dies now, you lose ")
        })
        .await;
        click(&item, "Write Everything to the Hard Disk Now").await;
        let told = next(&desktop, &notices).await;
        assert_eq!(told, "Photos: everything is on the hard disk: ");
        levers.set_kernels_without_module(&["6.99"]).await.unwrap();
        manager.check_kernels().await.unwrap();
        until(&item, "ToolTip", |words| {
            words.contains("Kernel 6.99 has no Tandem module.")
        })
        .await;
        levers.set_kernels_without_module(&[]).await.unwrap();
        manager.check_kernels().await.unwrap();
        until(&item, "ToolTip", |words| !words.contains("6.99")).await;
        let uuid = cache.as_str().rsplit('/').next().unwrap();
        levers
            .set_state(uuid, CacheState::Bypass, "ssd-error")
            .await
            .unwrap();
        until(&item, "Status", |words| words.contains("NeedsAttention")).await;
        until(&item, "IconName", |words| {
            words.contains("tandem-bypass-symbolic")
        })
        .await;
        until(&item, "ToolTip", |words| {
            words.contains("your data is safe")
        })
        .await;
    });
}
