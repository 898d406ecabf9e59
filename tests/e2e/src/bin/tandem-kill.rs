// SPDX-License-Identifier: GPL-3.0-or-later
//! Begins a job as root and stops the service in the middle of it, when a step begins or after a time: with SIGKILL, or
//! with SIGSTOP, after which the job stays where it is. It can also stop the service at every step, one after another.
//!
//! The service does not take part in this: the program sees the moment on the bus, as any client does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use rustix::process::{Pid, Signal, kill_process};
use tandem_api::{BUS_NAME, CacheProxy, JobProxy, ManagerProxy, Mode, PlanReply, PlanSpec};
use zbus::fdo::{DBusProxy, ObjectManagerProxy};
use zbus::{Connection, OwnedObjectPath};

/// Longest run of a job, under emulation on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Parser)]
struct Args {
    /// Kill when this step begins, counted from 0; the number of steps means when all are done.
    #[arg(long, conflicts_with = "after")]
    step: Option<u32>,
    /// Kill so many milliseconds after the job began.
    #[arg(long)]
    after: Option<u64>,
    /// Stop the service with SIGSTOP when each step begins, and when all are done. This file tells the step, and the
    /// service goes on when the file is removed.
    #[arg(long, conflicts_with_all = ["step", "after"])]
    each: Option<PathBuf>,
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Create a cache.
    Create {
        /// Device name of the partition with the data, such as `sda1`.
        disk: String,
        /// Device name of the SSD.
        ssd: String,
        /// Bytes of the partition that is made for the cache; 0: the whole SSD.
        #[arg(long, default_value_t = 0)]
        partition: u64,
    },
    /// Remove the only cache.
    Remove,
    /// Give the only cache another share of its SSD.
    Resize {
        /// Bytes of the new share.
        bytes: u64,
    },
}

fn main() -> ExitCode {
    match pollster::block_on(run(&Args::parse())) {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("cannot kill: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<String> {
    let bus = Connection::system().await?;
    let manager = ManagerProxy::new(&bus).await?;
    // The first call starts the service.
    manager.version().await?;
    let name = BUS_NAME.try_into()?;
    let pid = DBusProxy::new(&bus)
        .await?
        .get_connection_unix_process_id(name)
        .await?;
    let pid = Pid::from_raw(pid.cast_signed()).context("the service has no process id")?;
    let (plan, job) = begin(&bus, &manager, &args.job).await?;
    let start = Instant::now();
    let job = JobProxy::builder(&bus).path(job).build().await?;
    let steps = plan.steps.len();
    if let Some(file) = &args.each {
        let mut next = 0;
        while next as usize <= steps {
            let (at, over) = until_step(&job, next).await?;
            let at = if over { steps as u32 } else { at };
            kill_process(pid, Signal::STOP).context("cannot stop the service")?;
            told_and_removed(file, &format!("step {at} of {steps} steps\n"))?;
            kill_process(pid, Signal::CONT).context("the service does not go on")?;
            next = at + 1;
        }
        return Ok(format!("stopped at all of {steps} steps"));
    }
    let at = match (args.step, args.after) {
        (Some(step), _) => match until_step(&job, step).await? {
            (at, false) => format!("step {at}"),
            (at, true) => format!("its end, step {at}"),
        },
        (None, after) => {
            let left = Duration::from_millis(after.unwrap_or(0)).saturating_sub(start.elapsed());
            std::thread::sleep(left);
            "a moment".to_owned()
        }
    };
    kill_process(pid, Signal::KILL).context("cannot kill the service")?;
    Ok(format!(
        "killed at {at} of {steps} steps, {} ms after the job began",
        start.elapsed().as_millis()
    ))
}

/// Writes a file and waits until it is removed.
fn told_and_removed(file: &Path, text: &str) -> Result<()> {
    // The file has its name only when it is whole.
    let whole = file.with_extension("new");
    fs::write(&whole, text)?;
    fs::rename(&whole, file)?;
    while file.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

async fn begin(
    bus: &Connection,
    manager: &ManagerProxy<'_>,
    job: &Job,
) -> Result<(PlanReply, OwnedObjectPath)> {
    match job {
        Job::Create {
            disk,
            ssd,
            partition,
        } => {
            let block = |name: &str| {
                OwnedObjectPath::try_from(format!("/org/freedesktop/UDisks2/block_devices/{name}"))
            };
            let spec = PlanSpec {
                origin: block(disk)?,
                ssd: block(ssd)?,
                mode: Mode::Writethrough,
                erase_ssd: true,
                at_next_start: false,
                partition_bytes: *partition,
                target: tandem_api::Target::Tandem,
                memory_bytes: 0,
            };
            let plan = manager.plan(&spec).await?;
            let job = manager.create(&plan.plan_id, &plan.digest).await?;
            Ok((plan, job))
        }
        Job::Remove => {
            let cache = the_cache(bus).await?;
            let plan = cache.plan_remove().await?;
            let job = cache.remove(&plan.plan_id, &plan.digest).await?;
            Ok((plan, job))
        }
        Job::Resize { bytes } => {
            let cache = the_cache(bus).await?;
            let plan = cache.plan_resize(*bytes).await?;
            let job = cache.resize(&plan.plan_id, &plan.digest).await?;
            Ok((plan, job))
        }
    }
}

async fn the_cache(bus: &Connection) -> Result<CacheProxy<'static>> {
    let objects = ObjectManagerProxy::builder(bus)
        .destination(BUS_NAME)
        .path(tandem_api::ROOT_PATH)
        .build()
        .await?;
    let all = objects.get_managed_objects().await?;
    let path = all
        .into_keys()
        .find(|path| path.as_str().contains("/caches/"))
        .context("there is no cache")?;
    Ok(CacheProxy::builder(bus).path(path).build().await?)
}

/// Waits until the job is at a step or past it, or over. Returns the step, and whether the job is over. The service's
/// signals keep both properties of the proxy up to date, so that reading them again costs no call.
async fn until_step(job: &JobProxy<'_>, step: u32) -> Result<(u32, bool)> {
    let end = Instant::now() + LIMIT;
    loop {
        let at = job.step_index().await?;
        if at >= step {
            return Ok((at, false));
        }
        let (over, ..) = job.finished().await?;
        if over || Instant::now() > end {
            return Ok((at, true));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
