// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line beside a service that says only what the test has it say, and then dies.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tandem_api::{BUS_NAME, DeviceText, Failure, JobKind, ROOT_PATH, Step, StepKind};
use zbus::{Connection, OwnedObjectPath, interface};

const JOB: &str = "/org/tandemcache/Tandem1/jobs/1";

struct Cache;

#[interface(name = "org.tandemcache.Tandem1.Cache")]
impl Cache {
    fn flush(&self) -> OwnedObjectPath {
        OwnedObjectPath::try_from(JOB).unwrap()
    }

    #[zbus(property)]
    fn uuid(&self) -> String {
        "ab".repeat(16)
    }

    #[zbus(property)]
    fn name(&self) -> String {
        "tandem-abababab".to_owned()
    }
}

struct Job {
    finished: bool,
}

#[interface(name = "org.tandemcache.Tandem1.Job")]
impl Job {
    #[zbus(property)]
    fn kind(&self) -> JobKind {
        JobKind::Flush
    }

    #[zbus(property)]
    fn steps(&self) -> Vec<Step> {
        vec![Step {
            kind: StepKind::Drain,
            device: DeviceText::none(),
            target: String::new(),
            bytes: 5_000_000,
        }]
    }

    #[zbus(property)]
    fn step_index(&self) -> u32 {
        0
    }

    #[zbus(property)]
    fn undoing(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn pausable(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn paused(&self) -> bool {
        false
    }

    #[zbus(property)]
    fn progress(&self) -> f64 {
        0.25
    }

    #[zbus(property)]
    fn rate_bytes(&self) -> u64 {
        1_000_000
    }

    #[zbus(property)]
    fn estimated_seconds(&self) -> u64 {
        90
    }

    #[zbus(property)]
    fn finished(&self) -> (bool, bool, Failure) {
        (self.finished, true, Failure::none())
    }
}

/// A bus of its own.
struct Bus(Child, String);

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bus {
    fn new() -> Self {
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/private-bus.conf");
        let mut daemon = Command::new("dbus-daemon")
            .args(["--nofork", "--print-address", "--config-file", config])
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon");
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        Self(daemon, address.trim().to_owned())
    }

    async fn service(&self, finished: bool) -> Connection {
        zbus::connection::Builder::address(self.1.as_str())
            .serve_at(ROOT_PATH, zbus::fdo::ObjectManager)
            .serve_at(format!("{ROOT_PATH}/caches/1"), Cache)
            .serve_at(JOB, Job { finished })
            .name(BUS_NAME)
            .build()
            .await
            .unwrap()
    }

    fn tandemctl(&self, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tandemctl"))
            .args(arguments)
            .env("DBUS_SYSTEM_BUS_ADDRESS", &self.1)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    }
}

/// Exit code and what stands on the error output.
fn end(mut child: Child) -> (Option<i32>, String) {
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("it waits for ever");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    (status.code(), text)
}

#[test]
fn a_service_that_dies_in_a_job_is_told_and_has_a_code_of_its_own() {
    let bus = Bus::new();
    let service = zbus::block_on(bus.service(false));
    let (child, mut out) = bus.tandemctl(&["flush"]);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("[step 1/1] Write 5.0 MB"), "{line}");
    line.clear();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "25 %, 1.0 MB/s, 2 min left\n");
    zbus::block_on(service.close()).unwrap();
    let (code, text) = end(child);
    assert_eq!(code, Some(6), "{text}");
    assert!(text.contains("ended in the middle of the job"), "{text}");
}

#[test]
fn a_job_that_is_over_ends_well() {
    let bus = Bus::new();
    let _service = zbus::block_on(bus.service(true));
    let (child, mut out) = bus.tandemctl(&["flush"]);
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert_eq!(text, "Done.\n");
    assert_eq!(end(child).0, Some(0));
}
