// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl history` beside a service that knows one cache, of another system.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::process::Command;
use std::sync::mpsc;
use tandem_api::{
    BUS_NAME, Failure, Kind, OtherCache, OtherKind, OtherMode, OtherPeriod, ROOT_PATH,
};
use tandem_stage::bus;
use zbus::interface;

struct Manager;

#[interface(name = "org.tandemcache.Tandem1.Manager")]
impl Manager {
    #[zbus(property)]
    fn other_caches(&self) -> Vec<OtherCache> {
        vec![OtherCache {
            id: "LVM-1".into(),
            mode: OtherMode::Writethrough,
            ..OtherCache::empty(OtherKind::LvmCache, "films/movies")
        }]
    }

    fn other_history(&self, id: &str) -> zbus::fdo::Result<Vec<OtherPeriod>> {
        if id != "LVM-1" {
            let failure = Failure::new(Kind::WrongState);
            return Err(zbus::fdo::Error::Failed(failure.to_string()));
        }
        Ok(vec![OtherPeriod {
            start_us: 1_793_534_400_000_000,
            end_us: 1_793_534_410_000_000,
            read: 100_000_000,
            written: 0,
            read_disk: 20_000_000,
            read_ssd: 80_000_000,
            ssd_known: true,
            hits: 3,
            misses: 1,
            unwritten_bytes: 0,
            unwritten_known: true,
        }])
    }
}

/// Exit code, standard output and error output.
fn tandemctl(address: &str, arguments: &[&str]) -> (Option<i32>, [String; 2]) {
    let output = Command::new(env!("CARGO_BIN_EXE_tandemctl"))
        .args(arguments)
        .env("DBUS_SYSTEM_BUS_ADDRESS", address)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), texts)
}

#[test]
fn the_last_hour_of_a_cache_of_another_system_is_a_table() {
    let (_daemon, address) = bus::start();
    let (ready, begun) = mpsc::channel();
    let place = address.clone();
    // The thread ends with this program.
    std::thread::spawn(move || {
        zbus::block_on(async {
            let _connection = zbus::connection::Builder::address(place.as_str())
                .serve_at(ROOT_PATH, zbus::fdo::ObjectManager)
                .serve_at(ROOT_PATH, Manager)
                .name(BUS_NAME)
                .build()
                .await
                .unwrap();
            ready.send(()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    begun.recv().unwrap();
    let tandemctl = |arguments: &[&str]| tandemctl(&address, arguments);
    let (code, [named, wrong]) = tandemctl(&["history", "films/movies"]);
    assert_eq!(code, Some(0), "{wrong}");
    let lines: Vec<_> = named.lines().collect();
    assert!(lines[0].ends_with("LVM cache “films/movies”"), "{named}");
    assert!(
        lines[2].contains("about 75%  8.0 MB/s   2.0 MB/s"),
        "{named}"
    );
    // No cache has to be named if there is no other.
    let (_, [alone, _]) = tandemctl(&["history"]);
    assert_eq!(alone, named);
    let (_, [json, _]) = tandemctl(&["--json", "history"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["other"], "LVM-1");
    assert_eq!(json["history"]["periods"][0]["read_ssd"], 80_000_000);
    for refused in [&["history", "films"][..], &["history", "--span", "month"]] {
        let (code, [_, wrong]) = tandemctl(refused);
        assert_eq!(code, Some(2), "{refused:?}: {wrong}");
    }
}
