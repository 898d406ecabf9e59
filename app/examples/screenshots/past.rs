// SPDX-License-Identifier: GPL-3.0-or-later
//! A past for a cache that was set up a moment ago, so that its chart has a shape.

use tandem_app::model::objects::CacheObject;

/// Gives a cache a past as if it had been watched for five minutes: its counters grow to where they are now.
pub fn remember(cache: &CacheObject, dirty: bool) {
    let Some(now) = cache.with_series(|series| series.latest().cloned()) else {
        return;
    };
    let mut past = Vec::new();
    let (mut reads, mut hits) = (0.0, 0.0);
    for second in 0..300_u32 {
        let t = f64::from(second);
        let idle = (150..172).contains(&second);
        let asked = if idle {
            0.0
        } else {
            1.0 + 0.6 * (t / 17.0).sin()
        };
        let copying = (215..235).contains(&second);
        let warmth = 0.96 * (1.0 - (-t / 45.0).exp()) + 0.03 * (t / 3.1).sin();
        reads += asked;
        hits += asked * if copying { 0.2 } else { warmth.clamp(0.0, 1.0) };
        past.push((second, reads, hits));
    }
    // The counters grow by 30 MB for each unit of `asked`, and end at what they are now.
    let since_then = |all: f64, then: f64| ((all - then) * 60_000.0) as u64;
    let history = past.iter().map(|(second, asked, hit)| {
        let mut sample = now.clone();
        sample.time_us = now.time_us - u64::from(300 - second) * 1_000_000;
        let (to_ask, to_hit) = (since_then(reads, *asked), since_then(hits, *hit));
        sample.read.requested = now.read.requested.saturating_sub(to_ask);
        sample.read.hit = now.read.hit.saturating_sub(to_hit);
        sample.read.missed = now
            .read
            .missed
            .saturating_sub(to_ask.saturating_sub(to_hit));
        sample.write.hit = now.write.hit.saturating_sub(to_ask / 9);
        sample.write.requested = now.write.requested.saturating_sub(to_ask / 9);
        if dirty {
            let share = (0.003 * (f64::from(*second) / 60.0).sin()).max(0.0);
            let room = (now.frames_total * now.frame_sectors) as f64;
            sample.dirty_sectors = (room * share) as u64;
        }
        sample
    });
    let mut history: Vec<_> = history.collect();
    if !dirty {
        history.push(now.clone());
    }
    cache.set_history(history);
}
