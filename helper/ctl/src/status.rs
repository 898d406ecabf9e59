// SPDX-License-Identifier: GPL-3.0-or-later
//! The facts and the counters of a cache.

use crate::caches::{caches, one};
use crate::words::{self, fact};
use crate::{Ending, emit, found, say};
use futures_util::{FutureExt, StreamExt};
use gettextrs::gettext;
use tandem_api::{CacheProxy, CacheState, SECTOR_BYTES, Sample, SelfReport, Span, Target};
use tandem_words::{
    Place, Reader, SafetyAmounts, SafetyFacts, Share, StateFacts, bytes, candidate_words, duration,
    figures, fill, health_words, percent, read_shares, safety, state_words, target_words,
    unwritten_words, write_shares, written_words,
};
use zbus::Connection;

/// Time limit for a new sample. The service takes a sample each second while a client watches the cache.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// A new sample: without a client that watches, the newest sample of the service may be ten seconds old.
async fn fresh(cache: &CacheProxy<'_>) -> Result<Sample, Ending> {
    let state = cache.state().await?;
    if matches!(state, CacheState::Active | CacheState::Bypass) {
        let mut samples = cache.receive_sampled().await?.fuse();
        cache.watch().await?;
        let late = FutureExt::fuse(async_io::Timer::after(PATIENCE));
        futures_util::pin_mut!(late);
        futures_util::select! {
            _ = samples.next() => {}
            _ = late => {}
        }
        cache.unwatch().await?;
    }
    Ok(cache.latest().await?)
}

/// The target that serves a cache. A service of an older version does not tell its target.
async fn target(cache: &CacheProxy<'_>) -> Target {
    cache.target().await.unwrap_or_default()
}

/// The facts of a cache, as `--json` shows them.
pub async fn facts(cache: &CacheProxy<'_>) -> Result<serde_json::Value, Ending> {
    let latest = fresh(cache).await?;
    Ok(serde_json::json!({
        "uuid": cache.uuid().await?,
        "name": cache.name().await?,
        "chosen_name": cache.chosen_name().await?,
        "ssd_health": cache.ssd_health().await?,
        "ssd_written": cache.long_history(Span::Day).await?.ssd_written,
        "origin": cache.origin_text().await?,
        "ssd": cache.ssd_text().await?,
        "in_memory": cache.ssd_text().await?.is_memory(),
        "target": target(cache).await,
        "mode": cache.mode().await?,
        "state": cache.state().await?,
        "reason": cache.state_reason().await?,
        "mapped": cache.mapped().await?,
        "mount_points": cache.mount_points().await?,
        "candidates": cache.candidates().await?,
        "cache_bytes": cache.cache_bytes().await?,
        "refused_modes": cache.refused_modes().await?,
        "may_be_unwritten": cache.may_be_unwritten().await?,
        "waits_for_kernel": cache.waits_for_kernel().await?,
        "grub_would_fail": cache.grub_would_fail().await?,
        "sharing": cache.sharing().await?,
        "shutdown_minutes": cache.shutdown_minutes().await?,
        "dirty_limit": cache.dirty_limit().await?,
        "paused": cache.paused().await?,
        "dirty_bytes": cache.dirty_bytes().await?,
        "seconds_to_drain": cache.seconds_to_drain().await?,
        "latest": latest,
    }))
}

/// Shows one cache, or all.
pub async fn status(
    connection: &Connection,
    wanted: Option<&str>,
    json: bool,
) -> Result<(), Ending> {
    let caches = match wanted {
        Some(_) => vec![one(connection, wanted).await?],
        None => caches(connection).await?,
    };
    if json {
        let mut all = Vec::new();
        for cache in &caches {
            all.push(facts(cache).await?);
        }
        emit(serde_json::json!({ "caches": all }));
        return Ok(());
    }
    if caches.is_empty() {
        say(gettext("No caches."));
    }
    if wanted.is_none() {
        found::tell(connection).await?;
    }
    for cache in &caches {
        show(cache).await?;
    }
    Ok(())
}

/// The facts of a cache in words, the state and its safety first.
async fn show(cache: &CacheProxy<'_>) -> Result<(), Ending> {
    let (name, chosen) = (cache.name().await?, cache.chosen_name().await?);
    if chosen.is_empty() {
        say(name);
    } else {
        say(format_args!("{chosen} ({name})"));
    }
    let (disk, health) = (cache.origin_text().await?, cache.ssd_health().await?);
    let (state, reason) = (cache.state().await?, cache.state_reason().await?);
    let (mode, unwritten) = (cache.mode().await?, cache.may_be_unwritten().await?);
    let sample = fresh(cache).await?;
    let dirty = sample.dirty_sectors.saturating_mul(SECTOR_BYTES);
    let words = state_words(
        &StateFacts {
            state,
            reason: &reason,
            unwritten: unwritten || dirty > 0,
            paused: cache.paused().await?,
            grub_would_fail: cache.grub_would_fail().await?,
            sharing: cache.sharing().await?,
        },
        Reader::Terminal,
    );
    say(fact(&gettext("Disk:"), words::device(&disk)));
    let ssd = cache.ssd_text().await?;
    say(fact(&words::place(&ssd), words::device(&ssd)));
    say(fact(&gettext("State:"), words.title));
    for more in [words.what, words.data, words.next] {
        if !more.is_empty() {
            say(fact("", more));
        }
    }
    for candidate in cache.candidates().await? {
        let [device, marks] = candidate_words(&candidate);
        say(fact(
            "",
            fill(
                &gettext("Is this the disk? {device}. See “tandemctl confirm-disk”."),
                &[("device", &device)],
            ),
        ));
        for line in marks.lines() {
            say(fact("", line));
        }
    }
    let minutes = u64::from(cache.shutdown_minutes().await?);
    let runs = matches!(state, CacheState::Active | CacheState::Suspended);
    let answers = safety(&SafetyFacts {
        state,
        reason: &reason,
        mode,
        dirty: (sample.time_us > 0).then_some(dirty),
        may_be_unwritten: unwritten,
        ssd_failing: health.report == SelfReport::Failing,
        content: &disk.content,
    })
    .in_memory(ssd.is_memory());
    say(fact(
        &gettext("Safety:"),
        answers.line(&SafetyAmounts {
            size: bytes(dirty),
            age: None,
            time: (sample.drain_seconds > 0).then(|| duration(sample.drain_seconds)),
            shutdown: (runs && minutes > 0).then(|| duration(minutes * 60)),
        }),
    ));
    say(fact(
        &gettext("Mode:"),
        words::mode(mode, cache.waits_for_kernel().await?),
    ));
    let served = target(cache).await;
    let [by, known] = target_words(served);
    say(fact(&gettext("Served by:"), by));
    if !known.is_empty() {
        say(fact("", known));
    }
    let limit = cache.dirty_limit().await?;
    if !limit.is_default() {
        say(fact(&gettext("Limit:"), words::dirty_limit(&limit)));
    }
    say(fact(
        &gettext("Mounted:"),
        cache.mount_points().await?.join(", "),
    ));
    if !ssd.is_memory() {
        let health = health_words(&health);
        say(fact(&gettext("SSD health:"), health.condition));
        say(fact("", health.life));
        let written = cache.long_history(Span::Day).await?.ssd_written;
        let written = written_words(&written, crate::unix_seconds());
        say(fact(&gettext("SSD written:"), written));
    }
    // Of a cache that is not in use, the service has only an old sample.
    if sample.time_us > 0 && (runs || state == CacheState::Bypass) {
        let refused = reason == "disk-error";
        let waits = unwritten_words(dirty, sample.drain_seconds, false, refused, mode);
        let waits = waits.map(|words| words.title);
        say(fact(
            &gettext("Unwritten:"),
            waits.unwrap_or_else(|| gettext("Everything is on the hard disk")),
        ));
        counters(&sample, served, Place::of(&cache.ssd_text().await?))
            .iter()
            .for_each(say);
    }
    Ok(())
}

/// What the cache has done since its assembly.
fn counters(sample: &Sample, target: Target, place: Place) -> Vec<String> {
    let room = |frames: u64| {
        let sectors = frames.saturating_mul(sample.frame_sectors);
        bytes(sectors.saturating_mul(SECTOR_BYTES))
    };
    let mut lines = vec![fact(
        &gettext("Filled:"),
        fill(
            &gettext("{used} of {size} used"),
            &[
                ("used", &room(sample.frames_used)),
                ("size", &room(sample.frames_total)),
            ],
        ),
    )];
    let ways = |ways: Vec<Share>| {
        let used = ways.into_iter().filter(|way| way.bytes > 0);
        let words = used.map(|way| {
            format!(
                "{} {} ({})",
                way.title,
                bytes(way.bytes),
                percent(way.share)
            )
        });
        words.collect::<Vec<_>>().join(", ")
    };
    for (name, ways) in [
        (
            gettext("Reads:"),
            ways(read_shares(&sample.read, target, place)),
        ),
        (
            gettext("Writes:"),
            ways(write_shares(
                &sample.write,
                sample.write_back_sectors,
                place,
            )),
        ),
    ] {
        if !ways.is_empty() {
            lines.push(fact(&name, ways));
        }
    }
    for figure in figures(sample) {
        // A reason has no number.
        let value = match figure.value.is_empty() {
            true => figure.meaning,
            false => figure.value,
        };
        lines.push(format!("  {}: {value}", figure.title));
    }
    lines
}

/// Shows the changes from sample to sample.
pub async fn watch(cache: &CacheProxy<'_>, count: Option<u32>, json: bool) -> Result<(), Ending> {
    let mut samples = cache.receive_sampled().await?.fuse();
    cache.watch().await?;
    let mut before = cache.latest().await?;
    let mut seen = 0;
    while count.is_none_or(|count| seen < count) {
        let Some(signal) = samples.next().await else {
            break;
        };
        let sample = signal.args()?.sample.clone();
        if json {
            emit(serde_json::json!({ "sample": sample }));
        } else {
            say(change(&before, &sample));
        }
        before = sample;
        seen += 1;
    }
    cache.unwatch().await?;
    Ok(())
}

/// What has happened between two samples.
fn change(before: &Sample, sample: &Sample) -> String {
    let delta = |now: u64, then: u64| {
        let size = bytes(now.saturating_sub(then).saturating_mul(SECTOR_BYTES));
        format!("{size:>9}")
    };
    let share = sample.read_hit_rate_since(before).map(percent);
    let (read, past) = (&sample.read, &before.read);
    fill(
        &gettext(
            "read {read}, {share} from the SSD, skipped {skipped}; written {written}; not yet on the hard disk {waits}",
        ),
        &[
            ("read", &delta(read.requested, past.requested)),
            (
                "share",
                &format!("{:>4}", share.unwrap_or_else(|| "–".to_owned())),
            ),
            (
                "skipped",
                &delta(read.bypassed_sectors(), past.bypassed_sectors()),
            ),
            (
                "written",
                &delta(sample.write.requested, before.write.requested),
            ),
            ("waits", &delta(sample.dirty_sectors, 0)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{Counter, Direction};

    #[test]
    fn what_a_cache_has_done_is_told_in_amounts() {
        let event = |name: &str, value| Counter {
            name: name.into(),
            value,
        };
        let sample = Sample {
            frame_sectors: 32,
            frames_used: 100,
            frames_total: 1000,
            read: Direction {
                requested: 40_000,
                hit: 20_000,
                missed: 0,
                bypassed: vec![event("sequential", 20_000)],
            },
            events: vec![event("cold_start", 2), event("fills", 1_000)],
            ..Sample::default()
        };
        let told = counters(&sample, Target::Tandem, Place::Ssd)
            .join("\n")
            .replace('\u{a0}', " ");
        for part in [
            "1.6 MB of 16.4 MB used",
            "From the SSD 10.2 MB (50%), Skipped: Large Transfers 10.2 MB (50%)",
            "Started Empty: Nothing shows",
            "Added: 16.4 MB",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let changed = change(&Sample::default(), &sample).replace('\u{a0}', " ");
        assert!(changed.contains("20.5 MB,  50% from the SSD"), "{changed}");
    }
}
