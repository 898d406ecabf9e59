// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl watch-disk` and `tandemctl advice`: has the service watch a disk, and says whether a cache would help it.

use crate::{Ending, devices, emit, say, words};
use gettextrs::gettext;
use tandem_api::{DiskWatch, ManagerProxy, WatchState};
use tandem_words::{advice_words, curve_words, fill, seen_figures};
use zbus::Connection;

/// Begins to watch a disk.
pub async fn begin(connection: &Connection, disk: &str, json: bool) -> Result<(), Ending> {
    let disk = devices::find(connection, disk).await?;
    let id = ManagerProxy::new(connection)
        .await?
        .watch_disk(&disk)
        .await?;
    if json {
        emit(serde_json::json!({ "watch": id }));
    } else {
        say(gettext(
            "The disk is watched from now on, also after a restart of the computer. “tandemctl advice” is useful after a day.",
        ));
    }
    Ok(())
}

/// Ends the watch of a disk.
pub async fn end(connection: &Connection, disk: &str, json: bool) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let watch = one(connection, manager.watches().await?, disk).await?;
    manager.stop_watching(&watch.id).await?;
    if json {
        emit(serde_json::json!({ "stopped": watch.id }));
    } else {
        say(gettext(
            "The disk is not watched any more, and what was seen is forgotten.",
        ));
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
        emit(serde_json::json!({ "advice": watches }));
        return Ok(());
    }
    if watches.is_empty() {
        say(gettext(
            "No disk is watched. Begin with “tandemctl watch-disk”.",
        ));
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
        (Some(_), Some(_)) => Err(usage(
            &gettext("Two watched disks that are away are called {disk}."),
            disk,
        )),
        (None, _) => Err(usage(
            &gettext("{disk} is not watched. “tandemctl advice” shows which disks are."),
            disk,
        )),
    }
}

fn usage(words: &str, disk: &str) -> Ending {
    Ending::Usage(fill(words, &[("disk", disk)]))
}

/// A watch in words, the answer first.
fn lines(watch: &DiskWatch) -> Vec<String> {
    let words = advice_words(watch);
    let mut lines = vec![words::device(&watch.disk), words.title, words.text];
    lines.push(words.notice);
    lines.retain(|line| !line.is_empty());
    for figure in seen_figures(watch) {
        lines.push(words::fact(&figure.title, figure.value));
    }
    if watch.reads > 0 {
        lines.push(curve_words(watch));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_api::{AdvicePoint, DeviceText, Verdict};

    #[test]
    fn the_answer_comes_first_and_what_was_seen_follows() {
        let watch = DiskWatch {
            id: "0".repeat(32),
            disk: DeviceText {
                model: "WD Blue".to_owned(),
                name: "sda1".to_owned(),
                size: 3_000_000_000_000,
                ..DeviceText::none()
            },
            state: WatchState::Away,
            since: 1,
            watched_seconds: 2 * 86_400,
            reads: 70_000,
            read_bytes: 7_000_000_000,
            sequential_bytes: 0,
            writes: 30_000,
            written_bytes: 3_000_000_000,
            lost: 7,
            verdict: Verdict::Helps,
            wait_seconds: 0,
            enough_bytes: 32_000_000_000,
            points: vec![AdvicePoint {
                bytes: 32_000_000_000,
                reads_permille: 414,
                reads_error: 21,
                bytes_permille: 377,
                bytes_error: 18,
            }],
        };
        let lines = lines(&watch);
        assert!(lines[0].starts_with("WD Blue") && lines[0].ends_with("sda1"));
        assert_eq!(lines[1], "An SSD Would Help");
        assert!(lines[2].contains("41% of the reads"), "{}", lines[2]);
        assert!(lines[3].starts_with("Nothing is counted until"));
        let last = lines.last().unwrap();
        assert!(last.ends_with("41% of the reads, give or take 3"), "{last}");
    }
}
