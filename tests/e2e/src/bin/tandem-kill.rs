// SPDX-License-Identifier: GPL-3.0-or-later
//! Begins a job as root and stops the service in the middle of it, when a step begins or after a time: with SIGKILL, or
//! with SIGSTOP, after which the job stays where it is.
//!
//! The service does not take part in this: the program sees the moment on the bus, as any client does.

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
    /// Stop the service with SIGSTOP, not with SIGKILL.
    #[arg(long)]
    freeze: bool,
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
    let at = match (args.step, args.after) {
        (Some(step), _) => until_step(&job, step).await?,
        (None, after) => {
            let left = Duration::from_millis(after.unwrap_or(0)).saturating_sub(start.elapsed());
            std::thread::sleep(left);
            "a moment".to_owned()
        }
    };
    let (signal, done) = match args.freeze {
        true => (Signal::STOP, "frozen"),
        false => (Signal::KILL, "killed"),
    };
    kill_process(pid, signal).context("cannot stop the service")?;
    Ok(format!(
        "{done} at {at} of {} steps, {} ms after the job began",
        plan.steps.len(),
        start.elapsed().as_millis()
    ))
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

/// Waits until the job is at a step or past it, and returns which. The service's signals keep both properties of the
/// proxy up to date, so that reading them again costs no call.
async fn until_step(job: &JobProxy<'_>, step: u32) -> Result<String> {
    let end = Instant::now() + LIMIT;
    loop {
        let at = job.step_index().await?;
        if at >= step {
            return Ok(format!("step {at}"));
        }
        let (over, ..) = job.finished().await?;
        if over || Instant::now() > end {
            return Ok(format!("its end, step {at}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
