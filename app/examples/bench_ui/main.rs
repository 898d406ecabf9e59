// SPDX-License-Identifier: GPL-3.0-or-later
//! What `cargo xtask bench ui` measures, on a screen and a machine that exist only for this: the time to the first frame,
//! the processor time of an idle window with the live chart, and memory. Prints a figure a line: `bench: NAME NUMBER`.
//!
//! `tandem-simulated` and `tandem-tray` have to be built in the same profile. `bench_ui KIND` is one of the programs that
//! are measured.

mod process;
mod shown;
#[path = "../../tests/stage/mod.rs"]
mod stage;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use process::{memory_kib, processor_time};
use tandem_api::{ManagerProxy, Mode, PlanSpec, SimulationProxy};
use tandem_stage::bus::{self, Running};
use tandem_stage::machine::{Machine, built};
use tandem_stage::panel;
use zbus::{Connection, OwnedObjectPath};

/// An error is printed and ends the program.
type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Each figure is the median of so many.
const TIMES: usize = 10;
/// The window and the chart have come to rest after this time.
const REST: Duration = Duration::from_secs(10);
/// The processor time is that of so long.
const IDLE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        None => measure().map(|()| ExitCode::SUCCESS),
        Some(kind) => shown::show(kind),
    };
    done.unwrap_or_else(|error| {
        eprintln!("bench_ui: {error}");
        ExitCode::FAILURE
    })
}

/// The machine, the bus and the screen that the measured programs share.
struct Bench {
    machine: Machine,
    /// Address of the bus of the session.
    session: String,
    display: Option<String>,
}

fn measure() -> Result {
    let screen = stage::screen();
    let machine = Machine::start();
    let (_bus, session) = bus::start();
    let bench = Bench {
        machine,
        session,
        display: screen.as_ref().map(|(_, _, display)| display.clone()),
    };
    bench.first_frames()?;
    zbus::block_on(bench.living())
}

impl Bench {
    /// One of the programs, where all that it looks for is of this bench.
    fn program(&self, command: &mut Command) -> Result<Running> {
        command
            .env("DBUS_SYSTEM_BUS_ADDRESS", &self.machine.address)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.session)
            .env("GSETTINGS_BACKEND", "memory")
            // The same drawing on each machine, with or without a graphics card.
            .env("GSK_RENDERER", "cairo")
            .env("LC_ALL", "C.UTF-8")
            .stdout(Stdio::piped());
        if let Some(display) = &self.display {
            command.env("DISPLAY", display).env("GDK_BACKEND", "x11");
        }
        Ok(Running(command.spawn()?))
    }

    /// A program of this example, and the time until it says that it is shown.
    fn shown(&self, kind: &str) -> Result<(Running, Duration)> {
        let begin = Instant::now();
        let mut program = self.program(Command::new(std::env::current_exe()?).arg(kind))?;
        let output = program.0.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let time = begin.elapsed();
        if line.trim() == shown::SHOWN {
            Ok((program, time))
        } else {
            Err(format!("{kind} was not shown: {line:?}").into())
        }
    }

    /// Time to the first frame of the app and of an empty window, by turns, so that both have the same neighbours.
    fn first_frames(&self) -> Result {
        let mut times = [Vec::new(), Vec::new()];
        // The first start reads the libraries from the disk.
        for count in 0..=TIMES {
            for (kind, times) in [shown::EMPTY, shown::APP].iter().zip(&mut times) {
                let (_program, time) = self.shown(kind)?;
                if count > 0 {
                    times.push(u64::try_from(time.as_micros())?);
                }
            }
        }
        let [empty, app] = times.map(median);
        print("first-frame-empty-us", empty);
        print("first-frame-app-us", app);
        Ok(())
    }

    /// Processor time and memory while a cache works and the window shows it.
    async fn living(&self) -> Result {
        let (panel, hears) = panel::show(&self.session).await?;
        let tray = self.program(&mut Command::new(built("tandem-tray")))?;
        panel::wait(&panel, &hears).await?;
        self.set_up().await?;
        let (app, _) = self.shown(shown::LIVE)?;
        sleep(REST);
        let mut idle = Vec::new();
        for _ in 0..TIMES {
            let (begin, before) = (Instant::now(), processor_time(app.0.id())?);
            sleep(IDLE);
            let spent = processor_time(app.0.id())? - before;
            // Thousandths of a percent of one core.
            idle.push(u64::try_from(
                spent.as_micros() * 100_000 / begin.elapsed().as_micros(),
            )?);
        }
        print("idle-thousandths", median(idle));
        for (name, process) in [
            ("app", app.0.id()),
            ("tray", tray.0.id()),
            ("service", self.machine.service_process()),
        ] {
            print(&format!("{name}-kib"), memory_kib(process)?);
        }
        Ok(())
    }

    /// Sets up a cache, without the window.
    async fn set_up(&self) -> Result {
        let bus: Connection = zbus::connection::Builder::address(self.machine.address.as_str())
            .build()
            .await?;
        SimulationProxy::new(&bus).await?.set_step_time(1).await?;
        let manager = ManagerProxy::new(&bus).await?;
        let block = |name: &str| {
            OwnedObjectPath::try_from(format!("/org/freedesktop/UDisks2/block_devices/{name}"))
        };
        let spec = PlanSpec {
            origin: block("sda1")?,
            ssd: block("sdc")?,
            mode: Mode::Writethrough,
            erase_ssd: false,
            at_next_start: false,
            partition_bytes: 0,
            target: tandem_api::Target::Tandem,
            memory_bytes: 0,
        };
        let plan = manager.plan(&spec).await?;
        manager.create(&plan.plan_id, &plan.digest).await?;
        Ok(())
    }
}

/// The middle one; of two in the middle, the larger.
fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn print(name: &str, figure: u64) {
    println!("bench: {name} {figure}");
}
