// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl history`: what a cache of Tandem or of another system did in the past. The service keeps the figures.

mod table;

use crate::caches::{caches, one};
use crate::{Ending, emit, others, say};
use gettextrs::gettext;
use table::{Look, Work, lines, table};
use tandem_api::{CacheProxy, LongHistory, ManagerProxy, OtherCache, OtherPeriod, Span};
use tandem_words::{
    date, fill, moment, other_name, other_rate_words, other_speed_words, other_waiting_words,
    other_words, percent,
};
use zbus::Connection;

/// Shows the history of a cache.
pub async fn show(
    connection: &Connection,
    wanted: Option<&str>,
    span: Span,
    json: bool,
) -> Result<(), Ending> {
    match other(connection, wanted).await? {
        Some(cache) => of_other(connection, &cache, span, json).await,
        None => of(&one(connection, wanted).await?, span, json).await,
    }
}

/// The cache of another system that is meant: by its name, or because there is no other cache at all.
async fn other(
    connection: &Connection,
    wanted: Option<&str>,
) -> Result<Option<OtherCache>, Ending> {
    if let Some(name) = wanted {
        return others::named(connection, name).await;
    }
    if !caches(connection).await?.is_empty() {
        return Ok(None);
    }
    let mut all = others::all(connection).await?;
    Ok(all.pop().filter(|_| all.is_empty()))
}

async fn of(cache: &CacheProxy<'_>, span: Span, json: bool) -> Result<(), Ending> {
    let history = cache.long_history(span).await?;
    if json {
        let uuid = cache.uuid().await?;
        emit(serde_json::json!({ "cache": uuid, "span": span, "history": history }));
        return Ok(());
    }
    // A service of an older version gives no names.
    let chosen = cache.chosen_name().await.unwrap_or_default();
    say(match chosen.is_empty() {
        true => cache.name().await?,
        false => chosen,
    });
    told(&history, span).iter().for_each(say);
    Ok(())
}

/// The history of one of Tandem's caches in words.
fn told(history: &LongHistory, span: Span) -> Vec<String> {
    let works = || {
        let periods = history.periods.iter();
        periods.map(|period| (period.start, Work::of(period)))
    };
    if history.periods.is_empty() {
        return vec![format!(
            "  {}",
            gettext("There are no figures of this time.")
        )];
    }
    let lines = lines(works(), span, |start| moment(start, span));
    let mut words = table(&lines, Look::default());
    words.push(String::new());
    words.push(gettext(
        "SSD, hard disk: how fast programs read from each. Waiting: the most that was not yet on the hard disk at one time.",
    ));
    let whole = Work::sum(works().map(|(_, work)| work));
    if let Some(rate) = whole.hit_rate() {
        let words_of_rate = gettext("Hit rate in this time: {share}");
        words.push(fill(&words_of_rate, &[("share", &percent(rate))]));
    }
    if let Some(rate) = Work::of(&history.total).hit_rate() {
        let since = match history.was_reset {
            true => gettext("Hit rate since {date}: {share}"),
            false => gettext("Hit rate since setup: {share}"),
        };
        let values = [
            ("share", percent(rate)),
            ("date", date(history.total.start)),
        ];
        let values = values
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        words.push(fill(&since, &values));
    }
    words
}

async fn of_other(
    connection: &Connection,
    cache: &OtherCache,
    span: Span,
    json: bool,
) -> Result<(), Ending> {
    if span != Span::Hour {
        return Err(Ending::Usage(gettext(
            "Of a cache of another system there is only the last hour.",
        )));
    }
    let manager = ManagerProxy::new(connection).await?;
    let periods = manager.other_history(&cache.id).await?;
    if json {
        let history = serde_json::json!({ "periods": periods });
        emit(serde_json::json!({ "other": cache.id, "span": span, "history": history }));
        return Ok(());
    }
    let [title, _] = other_words(cache);
    say(format_args!("{title}: {}", other_name(cache)));
    told_of_other(cache, &periods).iter().for_each(say);
    Ok(())
}

/// The last hour of a cache of another system in words.
fn told_of_other(cache: &OtherCache, periods: &[OtherPeriod]) -> Vec<String> {
    let Some(last) = periods.last() else {
        let words = gettext(
            "There are no figures yet. The service looks at this cache every 14 seconds, and the first figures need two looks.",
        );
        return vec![format!("  {words}")];
    };
    let whole = !last.ssd_known;
    // While the reads of the SSD are known, the periods in which they were not known are left out.
    let shown = periods.iter().filter(|period| whole || period.ssd_known);
    let works = shown.map(|period| {
        let start = period.start_us / 1_000_000;
        (start, Work::of_other(period, whole))
    });
    let lines = lines(works, Span::Hour, |start| moment(start, Span::Hour));
    let look = Look {
        whole,
        approximate: true,
    };
    let mut words = table(&lines, look);
    words.push(String::new());
    let all = periods.iter().map(|period| Work::of_other(period, whole));
    words.push(other_rate_words(cache.kind, Work::sum(all).hit_rate()).join(". "));
    words.push(other_speed_words(cache.kind, whole));
    let unwritten = last.unwritten_known.then_some(last.unwritten_bytes);
    words.push(other_waiting_words(cache.kind, unwritten));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{OtherKind, Period};

    fn plain(words: Vec<String>) -> String {
        words.join("\n").replace('\u{a0}', " ")
    }

    fn period(start: u64, read_ssd: u64, read_disk: u64) -> Period {
        Period {
            start,
            seconds: 10,
            read_ssd,
            read_disk,
            written: 0,
            dirty: 0,
        }
    }

    #[test]
    fn the_rates_of_the_time_and_of_all_time_follow_the_table() {
        let mut history = LongHistory {
            total: period(1_793_534_400, 9, 1),
            periods: vec![period(600, 30, 70), period(610, 20, 80)],
            ..LongHistory::default()
        };
        let words = plain(told(&history, Span::Hour));
        assert_eq!(words.lines().count(), 6, "{words}");
        assert!(words.contains("in this time: 25%"), "{words}");
        assert!(words.ends_with("since setup: 90%"), "{words}");
        history.was_reset = true;
        let words = plain(told(&history, Span::Hour));
        assert!(words.ends_with("2026: 90%"), "{words}");
        history.periods.clear();
        let words = plain(told(&history, Span::Month));
        assert_eq!(words, "  There are no figures of this time.");
    }

    #[test]
    fn reads_of_the_ssd_are_left_out_where_nobody_knows_them() {
        let cache = OtherCache::empty(OtherKind::Bcache, "bcache0");
        let period = |start: u64, ssd_known| OtherPeriod {
            start_us: start * 1_000_000,
            end_us: (start + 10) * 1_000_000,
            ssd_known,
            hits: 9,
            misses: 1,
            unwritten_bytes: 6_000,
            unwritten_known: true,
            ..OtherPeriod::default()
        };
        let words = |periods: &[OtherPeriod]| plain(told_of_other(&cache, periods));
        assert!(words(&[]).contains("every 14 seconds"));
        // The SSD was exchanged in the first line's time.
        let changed = words(&[period(600, false), period(900, true)]);
        assert_eq!(changed.lines().count(), 6, "{changed}");
        assert!(changed.contains("SSD  Hard disk"), "{changed}");
        let unknown = words(&[period(600, true), period(900, false)]);
        assert_eq!(unknown.lines().count(), 7, "{unknown}");
        assert!(!unknown.contains("Hard disk"), "{unknown}");
        for part in [
            "about 90%",
            "Hit rate, approximate: 90%. In the last hour",
            "6.0 kB now",
        ] {
            assert!(unknown.contains(part), "{part}: {unknown}");
        }
    }
}
