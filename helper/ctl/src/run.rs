// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands that ask the service.

use crate::job::follow;
use crate::status::{facts, status, watch};
use crate::{Ending, advice, devices, found, names, say, speed, words};
use std::io::{BufRead, IsTerminal, Write};
use tandem_api::{
    BUS_NAME, CACHE_INTERFACE, CacheProxy, CacheState, DirtyLimit, JobProxy, ManagerProxy, Mode,
    PlanReply, PlanSpec, ROOT_PATH, managed_objects,
};
use tandemctl_arguments::{Choice, Request};
use zbus::Connection;

/// Runs a command.
pub async fn run(request: Request, json: bool) -> Result<(), Ending> {
    let connection = Connection::system().await?;
    match request {
        Request::List => list(&connection, json).await,
        Request::Plan(choice) => {
            let manager = ManagerProxy::new(&connection).await?;
            let plan = manager.plan(&spec(&connection, &choice).await?).await?;
            show_plan(&plan, json);
            Ok(())
        }
        Request::Create { choice, yes } => {
            let manager = ManagerProxy::new(&connection).await?;
            let plan = manager.plan(&spec(&connection, &choice).await?).await?;
            agree(&plan, yes, json)?;
            let job = manager.create(&plan.plan_id, &plan.digest).await?;
            follow(&connection, job, json).await
        }
        Request::Names { disk, yes } => names::change(&connection, &disk, yes, json).await,
        Request::Cancel { cache, yes } => {
            let cache = one(&connection, cache.as_deref()).await?;
            if cache.state().await? != CacheState::Pending {
                let text =
                    "the cache does not wait for a start of the computer; see “tandemctl remove”";
                return Err(Ending::Usage(text.to_owned()));
            }
            let plan = cache.plan_remove().await?;
            agree(&plan, yes, json)?;
            let job = cache.remove(&plan.plan_id, &plan.digest).await?;
            follow(&connection, job, json).await
        }
        Request::Found => found::show(&connection, json).await,
        Request::TakeOver { ssd, yes } => found::take_over(&connection, &ssd, yes, json).await,
        Request::DiscardFound { ssd, yes } => found::discard(&connection, &ssd, yes, json).await,
        Request::ConfirmDisk { disk, cache, yes } => {
            let cache = one(&connection, cache.as_deref()).await?;
            found::confirm(&connection, &cache, &disk, yes, json).await
        }
        Request::Status { cache } => status(&connection, cache.as_deref(), json).await,
        Request::Watch { cache, count } => {
            let cache = one(&connection, cache.as_deref()).await?;
            watch(&cache, count, json).await
        }
        Request::WatchDisk { disk, stop: false } => advice::begin(&connection, &disk, json).await,
        Request::WatchDisk { disk, stop: true } => advice::end(&connection, &disk, json).await,
        Request::Advice { disk } => advice::show(&connection, disk.as_deref(), json).await,
        Request::SpeedTest {
            disk: Some(disk), ..
        } => {
            let disk = devices::find(&connection, &disk).await?;
            let manager = ManagerProxy::new(&connection).await?;
            speed::show(&manager, manager.test_speed(&disk), json).await
        }
        Request::SpeedTest { cache, last, .. } => {
            let cache = one(&connection, cache.as_deref()).await?;
            if last {
                return speed::show_last(&cache.last_speed_test().await?, json);
            }
            let manager = ManagerProxy::new(&connection).await?;
            speed::show(&manager, cache.test_speed(), json).await
        }
        Request::Mode { mode, cache, yes } => {
            let cache = one(&connection, cache.as_deref()).await?;
            set_mode(&cache, mode, yes, json).await
        }
        Request::Flush {
            cache,
            pause,
            resume,
        } => {
            let cache = one(&connection, cache.as_deref()).await?;
            if pause || resume {
                return wait(&connection, &cache, pause).await;
            }
            let job = cache.flush().await?;
            follow(&connection, job, json).await
        }
        Request::BeforeOff { minutes, cache } => {
            let cache = one(&connection, cache.as_deref()).await?;
            cache.set_shutdown_minutes(minutes).await?;
            Ok(())
        }
        Request::Pause { cache } => {
            let cache = one(&connection, cache.as_deref()).await?;
            cache.set_paused(true).await?;
            Ok(())
        }
        Request::Start { cache } => {
            let cache = one(&connection, cache.as_deref()).await?;
            cache.start().await?;
            Ok(())
        }
        Request::Resume { cache } => {
            let cache = one(&connection, cache.as_deref()).await?;
            cache.set_paused(false).await?;
            Ok(())
        }
        Request::DirtyLimit {
            cache,
            seconds,
            size,
            rest,
        } => {
            let cache = one(&connection, cache.as_deref()).await?;
            let bytes = size.unwrap_or_default();
            let limit = DirtyLimit {
                seconds,
                bytes,
                rest,
            };
            cache.set_dirty_limit(limit).await?;
            Ok(())
        }
        Request::Rename { name, cache } => {
            let cache = one(&connection, cache.as_deref()).await?;
            cache.set_name(&name).await?;
            Ok(())
        }
        Request::ResetStatistics { cache, undo } => {
            let cache = one(&connection, cache.as_deref()).await?;
            if undo {
                cache.undo_reset_statistics().await?;
            } else {
                cache.reset_statistics().await?;
            }
            Ok(())
        }
        Request::Resize { cache, size, yes } => {
            let cache = one(&connection, Some(&cache)).await?;
            let plan = cache.plan_resize(size).await?;
            agree(&plan, yes, json)?;
            let job = cache.resize(&plan.plan_id, &plan.digest).await?;
            follow(&connection, job, json).await
        }
        Request::Remove {
            cache,
            discard_unwritten,
            yes,
        } => {
            let cache = one(&connection, cache.as_deref()).await?;
            let plan = if discard_unwritten {
                cache.plan_discard().await?
            } else {
                cache.plan_remove().await?
            };
            agree(&plan, yes, json)?;
            let job = cache.remove(&plan.plan_id, &plan.digest).await?;
            follow(&connection, job, json).await
        }
    }
}

/// Changes the mode. Before a change to write-back, says the risk and asks.
async fn set_mode(cache: &CacheProxy<'_>, mode: Mode, yes: bool, json: bool) -> Result<(), Ending> {
    if mode == Mode::Writeback && !yes {
        let disk = words::device(&cache.origin_text().await?);
        for kind in words::WRITEBACK_WARNINGS {
            say(format_args!("Note: {}", words::risk(kind, &disk)));
        }
        ask(json)?;
    }
    cache.set_mode(mode).await?;
    if json {
        say(serde_json::json!({ "mode": mode }));
    } else {
        say(format_args!("Mode: {mode}"));
    }
    Ok(())
}

/// Pauses the flush that is under way, or resumes it.
async fn wait(connection: &Connection, cache: &CacheProxy<'_>, pause: bool) -> Result<(), Ending> {
    let path = cache.job().await?;
    if path.as_str() == "/" {
        return Err(Ending::Usage("no flush is under way".to_owned()));
    }
    let job = JobProxy::builder(connection).path(path).build().await?;
    if pause {
        job.pause().await?;
    } else {
        job.resume().await?;
    }
    Ok(())
}

async fn spec(connection: &Connection, choice: &Choice) -> Result<PlanSpec, Ending> {
    Ok(PlanSpec {
        origin: devices::find(connection, &choice.disk).await?,
        ssd: devices::find(connection, &choice.ssd).await?,
        mode: choice.mode,
        erase_ssd: choice.erase_ssd,
        at_next_start: choice.at_next_start,
        partition_bytes: choice.partition.unwrap_or(0),
    })
}

fn show_plan(plan: &PlanReply, json: bool) {
    if json {
        say(serde_json::json!({ "plan": plan }));
        return;
    }
    say(format_args!("Disk: {}", words::device(&plan.origin)));
    say(format_args!("SSD:  {}", words::device(&plan.ssd)));
    say("Steps:");
    for (number, step) in plan.steps.iter().enumerate() {
        say(format_args!("  {}. {}", number + 1, words::step(step)));
    }
    for warning in &plan.warnings {
        say(format_args!("Note: {}", words::warning(warning)));
    }
}

/// Shows the plan and asks for agreement, unless `--yes` on the command line agrees already.
fn agree(plan: &PlanReply, yes: bool, json: bool) -> Result<(), Ending> {
    show_plan(plan, json);
    if yes { Ok(()) } else { ask(json) }
}

pub fn ask(json: bool) -> Result<(), Ending> {
    let input = std::io::stdin();
    if json || !input.is_terminal() {
        return Err(Ending::Usage(
            "no terminal to ask at: add --yes to go on".to_owned(),
        ));
    }
    print!("Go on? [y/N] ");
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    let _ = input.lock().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Ending::Usage("not agreed; nothing was changed".to_owned()))
    }
}

pub async fn caches(connection: &Connection) -> Result<Vec<CacheProxy<'static>>, Ending> {
    let objects = managed_objects(connection, BUS_NAME, ROOT_PATH).await?;
    let mut paths: Vec<_> = objects
        .into_iter()
        .filter(|(_, interfaces)| {
            interfaces
                .keys()
                .any(|name| name.as_str() == CACHE_INTERFACE)
        })
        .map(|(path, _)| path)
        .collect();
    paths.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    let mut caches = Vec::new();
    for path in paths {
        caches.push(CacheProxy::builder(connection).path(path).build().await?);
    }
    Ok(caches)
}

/// The cache with this name or UUID, or the only cache if `wanted` is none.
pub async fn one(
    connection: &Connection,
    wanted: Option<&str>,
) -> Result<CacheProxy<'static>, Ending> {
    let mut found = Vec::new();
    for cache in caches(connection).await? {
        let names = [
            cache.uuid().await?,
            cache.name().await?,
            // A service of an older version gives no names.
            cache.chosen_name().await.unwrap_or_default(),
        ];
        if wanted.is_none_or(|wanted| names.iter().any(|name| name.starts_with(wanted))) {
            found.push(cache);
        }
    }
    match (found.pop(), found.is_empty(), wanted) {
        (Some(cache), true, _) => Ok(cache),
        (Some(_), false, _) => Err(Ending::Usage("more than one cache; say which".to_owned())),
        (None, _, None) => Err(Ending::Usage("there is no cache".to_owned())),
        (None, _, Some(wanted)) => Err(Ending::Usage(format!("there is no cache {wanted}"))),
    }
}

async fn list(connection: &Connection, json: bool) -> Result<(), Ending> {
    let devices = devices::list(connection).await?;
    if json {
        let mut all = Vec::new();
        for cache in caches(connection).await? {
            all.push(facts(&cache).await?);
        }
        say(serde_json::json!({ "caches": all, "disks": devices }));
        return Ok(());
    }
    status(connection, None, false).await?;
    say("Disks:");
    for device in devices.iter().filter(|d| !d.hidden) {
        say(format_args!(
            "  {:<12} {:>8}  {}  {} {}",
            device.name,
            words::bytes(device.size),
            if device.model.is_empty() {
                "volume"
            } else {
                &device.model
            },
            device.content,
            device.label
        ));
    }
    Ok(())
}
