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
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tandem_api::{BUS_NAME, DeviceText, Failure, JobKind, ROOT_PATH, Step, StepKind};
use tandem_stage::bus::{self, Running};
use zbus::{OwnedObjectPath, interface};

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
struct Bus {
    address: String,
    _daemon: Running,
}

impl Bus {
    fn new() -> Self {
        let (_daemon, address) = bus::start();
        Self { address, _daemon }
    }

    fn service(&self, finished: bool) -> Service {
        let address = self.address.clone();
        let (ready, begun) = mpsc::channel();
        let over = Arc::new(Mutex::new((false, None::<Waker>)));
        let told = Arc::clone(&over);
        // In a thread that does nothing else: with some features of zbus nobody else answers.
        let thread = std::thread::spawn(move || {
            zbus::block_on(async {
                let connection = zbus::connection::Builder::address(address.as_str())
                    .serve_at(ROOT_PATH, zbus::fdo::ObjectManager)
                    .serve_at(format!("{ROOT_PATH}/caches/1"), Cache)
                    .serve_at(JOB, Job { finished })
                    .name(BUS_NAME)
                    .build()
                    .await
                    .unwrap();
                ready.send(()).unwrap();
                std::future::poll_fn(|context| {
                    let mut over = told.lock().unwrap();
                    over.1 = Some(context.waker().clone());
                    if over.0 {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
                connection.close().await.unwrap();
            });
        });
        begun.recv().unwrap();
        Service { over, thread }
    }

    fn tandemctl(&self, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tandemctl"))
            .args(arguments)
            .env("DBUS_SYSTEM_BUS_ADDRESS", &self.address)
            .env("LC_ALL", "C")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    }
}

/// A service that runs until it is told to die.
struct Service {
    over: Arc<Mutex<(bool, Option<Waker>)>>,
    thread: JoinHandle<()>,
}

impl Service {
    fn die(self) {
        let waker = {
            let mut over = self.over.lock().unwrap();
            over.0 = true;
            over.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        self.thread.join().unwrap();
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
    let service = bus.service(false);
    let (child, mut out) = bus.tandemctl(&["flush"]);
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("[step 1/1] Write 5.0 MB"), "{line}");
    line.clear();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "25% · 1.0 MB/s · about 2 minutes left\n");
    service.die();
    let (code, text) = end(child);
    assert_eq!(code, Some(6), "{text}");
    assert!(text.contains("ended in the middle of the job"), "{text}");
}

#[test]
fn a_job_that_is_over_ends_well() {
    let bus = Bus::new();
    let service = bus.service(true);
    let (child, mut out) = bus.tandemctl(&["flush"]);
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert_eq!(text, "Done.\n");
    assert_eq!(end(child).0, Some(0));
    service.die();
}
