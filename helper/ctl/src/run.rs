// SPDX-License-Identifier: GPL-3.0-or-later
//! The commands that ask the service.

use crate::agree::{agree, ask, show_plan};
use crate::caches::{caches, one};
use crate::job::follow;
use crate::status::{facts, status, watch};
use crate::{
    Ending, advice, devices, emit, found, history, names, others, report, say, speed, words,
};
use gettextrs::gettext;
use tandem_api::{
    CacheProxy, CacheState, DirtyLimit, JobProxy, ManagerProxy, Mode, PlanSpec, Target,
};
use tandem_words::{bytes, fill, mode_warnings, target_words};
use tandemctl_arguments::{Choice, Request};
use zbus::{Connection, OwnedObjectPath};

/// Runs a command.
pub async fn run(request: Request, json: bool) -> Result<(), Ending> {
    let connection = Connection::system().await?;
    match request {
        Request::List => list(&connection, json).await,
        Request::Plan(choice) => {
            let manager = ManagerProxy::new(&connection).await?;
            let plan = manager.plan(&spec(&connection, &choice).await?).await?;
            tell_target(&choice, json);
            show_plan(&plan, json);
            Ok(())
        }
        Request::Create { choice, yes } => {
            let manager = ManagerProxy::new(&connection).await?;
            let plan = manager.plan(&spec(&connection, &choice).await?).await?;
            tell_target(&choice, json);
            agree(&plan, yes, json)?;
            let job = manager.create(&plan.plan_id, &plan.digest).await?;
            follow(&connection, job, json).await
        }
        Request::Names { disk, yes } => names::change(&connection, &disk, yes, json).await,
        Request::Cancel { cache, yes } => {
            let cache = one(&connection, cache.as_deref()).await?;
            if cache.state().await? != CacheState::Pending {
                return Err(Ending::Usage(gettext(
                    "The cache does not wait for a start of the computer. See “tandemctl remove”.",
                )));
            }
            let plan = cache.plan_remove().await?;
            agree(&plan, yes, json)?;
            let job = cache.remove(&plan.plan_id, &plan.digest).await?;
            follow(&connection, job, json).await
        }
        Request::Report => report::report(&connection).await,
        Request::Found => found::show(&connection, json).await,
        Request::TakeOver { ssd, yes } => found::take_over(&connection, &ssd, yes, json).await,
        Request::DiscardFound { ssd, yes } => found::discard(&connection, &ssd, yes, json).await,
        Request::ConfirmDisk { disk, cache, yes } => {
            let cache = one(&connection, cache.as_deref()).await?;
            found::confirm(&connection, &cache, &disk, yes, json).await
        }
        Request::Status { cache } => status(&connection, cache.as_deref(), json).await,
        Request::History { cache, span } => {
            history::show(&connection, cache.as_deref(), span, json).await
        }
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
            if let Some(name) = cache.as_deref().filter(|_| !pause && !resume)
                && let Some(other) = others::named(&connection, name).await?
            {
                return others::write_back(&connection, &other, json).await;
            }
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
            if let Some(name) = cache.as_deref().filter(|_| !discard_unwritten)
                && let Some(other) = others::named(&connection, name).await?
            {
                return others::remove(&connection, &other, yes, json).await;
            }
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
        if !json {
            say(words::device(&cache.origin_text().await?));
            for warning in mode_warnings(mode) {
                say(words::note(&warning));
            }
        }
        ask(json)?;
    }
    cache.set_mode(mode).await?;
    if json {
        emit(serde_json::json!({ "mode": mode }));
    } else {
        say(fill(
            &gettext("Mode: {mode}"),
            &[("mode", &words::mode(mode, false))],
        ));
    }
    Ok(())
}

/// Pauses the flush that is under way, or resumes it.
async fn wait(connection: &Connection, cache: &CacheProxy<'_>, pause: bool) -> Result<(), Ending> {
    let path = cache.job().await?;
    if path.as_str() == "/" {
        return Err(Ending::Usage(gettext("No flush is under way.")));
    }
    let job = JobProxy::builder(connection).path(path).build().await?;
    if pause {
        job.pause().await?;
    } else {
        job.resume().await?;
    }
    Ok(())
}

/// Says what is to serve the cache, unless that is what serves every cache.
fn tell_target(choice: &Choice, json: bool) {
    if json || choice.target() == Target::Tandem {
        return;
    }
    let [by, known] = target_words(choice.target());
    say(words::fact(&gettext("Served by:"), by));
    say(words::fact("", known));
}

async fn spec(connection: &Connection, choice: &Choice) -> Result<PlanSpec, Ending> {
    Ok(PlanSpec {
        origin: devices::find(connection, &choice.disk).await?,
        ssd: match &choice.ssd {
            Some(ssd) => devices::find(connection, ssd).await?,
            None => OwnedObjectPath::try_from("/")?,
        },
        mode: choice.mode,
        erase_ssd: choice.erase_ssd,
        at_next_start: choice.at_next_start,
        partition_bytes: choice.partition.unwrap_or(0),
        target: choice.target(),
        memory_bytes: choice.memory.unwrap_or(0),
    })
}

async fn list(connection: &Connection, json: bool) -> Result<(), Ending> {
    let devices = devices::list(connection).await?;
    let judged = ManagerProxy::new(connection).await?.devices().await?;
    if json {
        let mut all = Vec::new();
        for cache in caches(connection).await? {
            all.push(facts(&cache).await?);
        }
        let others = others::all(connection).await?;
        emit(
            serde_json::json!({ "caches": all, "others": others, "disks": devices, "uses": judged }),
        );
        return Ok(());
    }
    status(connection, None, false).await?;
    others::show(connection).await?;
    say(gettext("Disks:"));
    for device in devices.iter().filter(|d| !d.hidden) {
        let uses = judged.iter().find(|j| j.device.object == device.object);
        say(format_args!(
            "  {:<12} {:>8}  {}  {} {}{}",
            device.name,
            bytes(device.size),
            if device.model.is_empty() {
                gettext("volume")
            } else {
                device.model.clone()
            },
            device.content,
            device.label,
            uses.map(words::uses).unwrap_or_default()
        ));
    }
    Ok(())
}
