// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl watch-disk` and `tandemctl advice`: has the service watch a disk, and says whether a cache would help it.

use crate::{Ending, devices, say, words};
use tandem_api::{DiskWatch, ManagerProxy, Verdict, WatchState};
use zbus::Connection;

/// Begins to watch a disk.
pub async fn begin(connection: &Connection, disk: &str, json: bool) -> Result<(), Ending> {
    let disk = devices::find(connection, disk).await?;
    let id = ManagerProxy::new(connection)
        .await?
        .watch_disk(&disk)
        .await?;
    if json {
        say(serde_json::json!({ "watch": id }));
    } else {
        say(
            "The disk is watched from now on, also after a restart of the computer. “tandemctl advice” is useful after a \
             day.",
        );
    }
    Ok(())
}

/// Ends the watch of a disk.
pub async fn end(connection: &Connection, disk: &str, json: bool) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let watch = one(connection, manager.watches().await?, disk).await?;
    manager.stop_watching(&watch.id).await?;
    if json {
        say(serde_json::json!({ "stopped": watch.id }));
    } else {
        say("The disk is not watched any more, and what was seen is forgotten.");
    }
    Ok(())
}

/// Prints what is predicted for a disk, or for all that are watched.
pub async fn show(connection: &Connection, disk: Option<&str>, json: bool) -> Result<(), Ending> {
    let mut watches = ManagerProxy::new(connection).await?.watches().await?;
    if let Some(disk) = disk {
        watches = vec![one(connection, watches, disk).await?];
    }
    if json {
        say(serde_json::json!({ "advice": watches }));
        return Ok(());
    }
    if watches.is_empty() {
        say("No disk is watched. Begin with “tandemctl watch-disk”.");
    }
    for (number, watch) in watches.iter().enumerate() {
        if number > 0 {
            say("");
        }
        lines(watch).iter().for_each(say);
    }
    Ok(())
}

/// The watch of a disk that the person names: as any other disk, or, while it is not plugged in, by its serial number or the
/// name that it had.
async fn one(
    connection: &Connection,
    watches: Vec<DiskWatch>,
    disk: &str,
) -> Result<DiskWatch, Ending> {
    let object = devices::find(connection, disk).await.ok();
    let is_named = |watch: &DiskWatch| match watch.state {
        WatchState::Away => watch.disk.name == disk || watch.disk.serial == disk,
        WatchState::Watching | WatchState::Blind => object
            .as_ref()
            .is_some_and(|object| watch.is_of(object.as_str())),
    };
    let mut named = watches.into_iter().filter(is_named);
    match (named.next(), named.next()) {
        (Some(watch), None) => Ok(watch),
        (Some(_), Some(_)) => Err(Ending::Usage(format!(
            "two watched disks that are away are called {disk}"
        ))),
        (None, _) => Err(Ending::Usage(format!(
            "{disk} is not watched; “tandemctl advice” shows which disks are"
        ))),
    }
}

fn percent(permille: u32) -> u32 {
    permille.saturating_add(5) / 10
}

/// The answer, in one sentence.
fn verdict(watch: &DiskWatch) -> String {
    match watch.verdict {
        Verdict::TooEarly => format!(
            "It is too early to say whether a cache helps: that takes {} more.",
            words::duration(watch.wait_seconds)
        ),
        Verdict::Helps => {
            let point = watch.at(watch.enough_bytes).unwrap_or_default();
            format!(
                "A cache helps: with {} on an SSD, about {} % of the reads come from the SSD. More room gains little.",
                words::bytes(watch.enough_bytes),
                percent(point.reads_permille)
            )
        }
        Verdict::FewReads => "A cache will not help you: the disk is hardly read.".to_owned(),
        Verdict::MostlyWrites => {
            "A cache will not help you: nearly all requests are writes.".to_owned()
        }
        Verdict::MostlySequential => {
            "A cache will not help you: most data is read in long runs, which the disk does \
                                      well by itself, and not read again."
                .to_owned()
        }
        Verdict::NothingReadAgain => {
            "A cache will not help you: what is read is not read again.".to_owned()
        }
        Verdict::Incomplete => {
            "It is not clear whether a cache helps: the disk was so busy that many requests were not counted.".to_owned()
        }
    }
}

/// A watch in words.
fn lines(watch: &DiskWatch) -> Vec<String> {
    let mut lines = vec![
        format!("Disk: {}", words::device(&watch.disk)),
        verdict(watch),
    ];
    match watch.state {
        WatchState::Watching => {}
        WatchState::Away => lines.push(
            "The watch pauses: the disk is not plugged in, or another disk looks the same.".to_owned(),
        ),
        WatchState::Blind => lines.push(
            "The watch pauses: the kernel does not tell the service what the disk does. The service tries again."
                .to_owned(),
        ),
    }
    lines.push(format!(
        "Watched for {}: {} reads ({}), {} writes ({}).",
        words::duration(watch.watched_seconds),
        watch.reads,
        words::bytes(watch.read_bytes),
        watch.writes,
        words::bytes(watch.written_bytes)
    ));
    if watch.lost > 0 {
        lines.push(format!(
            "Besides that, {} requests came too fast to be counted.",
            watch.lost
        ));
    }
    if watch.reads > 0 {
        let title = match watch.verdict {
            Verdict::TooEarly => "So far, a cache of this size would have served:",
            _ => "A cache of this size would have served:",
        };
        lines.push(title.to_owned());
        lines.extend(watch.points.iter().map(|point| {
            format!(
                "  {:>8}  {:>3} % (± {}) of the reads, {:>3} % (± {}) of the bytes",
                words::bytes(point.bytes),
                percent(point.reads_permille),
                point.reads_error.div_ceil(10),
                percent(point.bytes_permille),
                point.bytes_error.div_ceil(10)
            )
        }));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{AdvicePoint, DeviceText};

    fn watch(verdict: Verdict) -> DiskWatch {
        DiskWatch {
            id: "0".repeat(32),
            disk: DeviceText {
                model: "WD Blue".to_owned(),
                name: "sda1".to_owned(),
                size: 3_000_000_000_000,
                ..DeviceText::none()
            },
            state: WatchState::Watching,
            since: 1,
            watched_seconds: 2 * 86_400,
            reads: 70_000,
            read_bytes: 7_000_000_000,
            sequential_bytes: 0,
            writes: 30_000,
            written_bytes: 3_000_000_000,
            lost: 0,
            verdict,
            wait_seconds: 0,
            enough_bytes: 32_000_000_000,
            points: vec![AdvicePoint {
                bytes: 32_000_000_000,
                reads_permille: 414,
                reads_error: 21,
                bytes_permille: 377,
                bytes_error: 18,
            }],
        }
    }

    #[test]
    fn the_answer_comes_first_and_is_no_promise() {
        let lines = lines(&watch(Verdict::Helps));
        assert_eq!(lines[0], "Disk: WD Blue (3.0 TB, sda1)");
        assert_eq!(
            lines[1],
            "A cache helps: with 32.0 GB on an SSD, about 41 % of the reads come from the SSD. More room gains little."
        );
        let last = lines.last().unwrap();
        assert!(last.contains("41 % (± 3) of the reads"), "{last}");
    }

    #[test]
    fn only_an_answer_against_a_cache_says_that_it_will_not_help() {
        for verdict in Verdict::ALL {
            let lines = lines(&watch(*verdict));
            let open = [Verdict::TooEarly, Verdict::Helps, Verdict::Incomplete];
            let against = !open.contains(verdict);
            assert_eq!(lines[1].contains("will not help you"), against, "{verdict}");
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let mut watch = watch(Verdict::Helps);
        let told = |watch: &DiskWatch| lines(watch).join("\n");
        assert!(!told(&watch).contains("pauses") && !told(&watch).contains("too fast"));
        watch.lost = 7;
        watch.state = WatchState::Away;
        assert!(told(&watch).contains("7 requests came too fast"));
        assert!(told(&watch).contains("not plugged in"));
    }
}
