// SPDX-License-Identifier: GPL-3.0-or-later
//! The facts and the counters of a cache.

use crate::run::{caches, one};
use crate::{Ending, found, say, words};
use futures_util::{FutureExt, StreamExt};
use tandem_api::{CacheProxy, CacheState, Sample, Span};
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
        say(serde_json::json!({ "caches": all }));
        return Ok(());
    }
    if caches.is_empty() {
        say("No caches.");
    }
    if wanted.is_none() {
        found::tell(connection).await?;
    }
    for cache in &caches {
        let (name, chosen) = (cache.name().await?, cache.chosen_name().await?);
        if chosen.is_empty() {
            say(name);
        } else {
            say(format_args!("{chosen} ({name})"));
        }
        say(format_args!(
            "  Disk:    {}",
            words::device(&cache.origin_text().await?)
        ));
        say(format_args!(
            "  SSD:     {}",
            words::device(&cache.ssd_text().await?)
        ));
        say(format_args!(
            "  Health:  {}",
            words::health(&cache.ssd_health().await?)
        ));
        let written = cache.long_history(Span::Day).await?.ssd_written;
        say(format_args!(
            "  Written: {}, to the SSD by this cache",
            words::written(&written, crate::unix_seconds())
        ));
        say(format_args!(
            "  State:   {}",
            words::state(
                cache.state().await?,
                &cache.state_reason().await?,
                cache.may_be_unwritten().await?
            )
        ));
        for candidate in cache.candidates().await? {
            let words = found::candidate(&candidate);
            say(format_args!(
                "           Is this the disk? {words} See “tandemctl confirm-disk”."
            ));
        }
        say(format_args!("  Mode:    {}", cache.mode().await?));
        if cache.waits_for_kernel().await? {
            say(
                "           Write-back waits until the module is there for the kernel of the next start",
            );
        }
        if cache.grub_would_fail().await? {
            say(format_args!("  GRUB:    {}", words::GRUB_WOULD_FAIL));
        }
        if let Some(words) = words::sharing(cache.sharing().await?) {
            say(format_args!("  Shared:  {words}"));
        }
        if cache.paused().await? {
            say("  Paused:  Nothing new is stored; see “tandemctl resume”");
        }
        let limit = cache.dirty_limit().await?;
        if !limit.is_default() {
            say(format_args!("  Limit:   {}", words::dirty_limit(&limit)));
        }
        let minutes = cache.shutdown_minutes().await?;
        if minutes > 0 {
            say(format_args!(
                "  Off:     Everything is written to the disk before the computer is off, for {minutes} minutes at most"
            ));
        }
        say(format_args!(
            "  Mounted: {}",
            cache.mount_points().await?.join(", ")
        ));
        let sample = fresh(cache).await?;
        if sample.time_us > 0 {
            say(format_args!(
                "  Reads:   {}",
                share(&sample, &Sample::default())
            ));
            say(format_args!(
                "  Filled:  {} of {} frames",
                sample.frames_used, sample.frames_total
            ));
            say(format_args!(
                "  Not yet on the hard disk: {}",
                words::dirty(&sample)
            ));
            for line in words::counters(&sample) {
                say(format_args!("  {line}"));
            }
        }
    }
    Ok(())
}

fn share(now: &Sample, before: &Sample) -> String {
    match now.read_hit_rate_since(before) {
        Some(rate) => format!("{:.0} % from the SSD", rate * 100.0),
        None => "none".to_owned(),
    }
}

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
            say(serde_json::json!({ "sample": sample }));
        } else {
            let delta =
                |now: u64, then: u64| words::bytes(now.saturating_sub(then).saturating_mul(512));
            say(format_args!(
                "read {:>9}  {:<16}  skipped {:>9}  written {:>9}  filled {}/{}  not yet on the hard disk {}",
                delta(sample.read.requested, before.read.requested),
                share(&sample, &before),
                delta(
                    sample.read.bypassed_sectors(),
                    before.read.bypassed_sectors()
                ),
                delta(sample.write.requested, before.write.requested),
                sample.frames_used,
                sample.frames_total,
                words::dirty(&sample),
            ));
        }
        before = sample;
        seen += 1;
    }
    cache.unwatch().await?;
    Ok(())
}
