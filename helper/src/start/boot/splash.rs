// SPDX-License-Identifier: GPL-3.0-or-later
//! Tells the person in front of the machine why its start takes longer, where plymouth shows a picture of the start.
//! Where plymouth is not there or does not run, the log and the console say the same.

use super::cache::Cache;
use crate::decide::lifecycle::WAIT_FOR_UDEV;
use crate::model::record::Setup;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program that gives plymouth messages, here and in initial file systems.
const PROGRAMS: [&str; 2] = ["/usr/bin/plymouth", "/bin/plymouth"];
/// Longest time until plymouth answers. The start goes on without the message then.
const LONGEST: Duration = Duration::from_secs(2);
/// Time between two looks whether the program has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// The message that plymouth shows for us.
pub(super) struct Splash {
    program: Option<&'static str>,
    shown: Option<String>,
}

impl Splash {
    pub(super) fn new() -> Self {
        let there = |program: &&str| Path::new(program).exists();
        Self {
            program: PROGRAMS.into_iter().find(there),
            shown: None,
        }
    }

    /// Shows this message, and no other message of ours.
    pub(super) fn show(&mut self, message: Option<String>) {
        if message == self.shown {
            return;
        }
        if let Some(shown) = self.shown.take() {
            self.run("hide-message", &shown);
        }
        if let Some(message) = &message {
            self.run("display-message", message);
        }
        self.shown = message;
    }

    /// Whether plymouth runs does not matter: its program ends with an error at once if not.
    /// A plymouth that does not answer gets no further message, so it costs the start [`LONGEST`] once.
    fn run(&mut self, command: &str, text: &str) {
        let Some(program) = self.program else {
            return;
        };
        let child = Command::new(program)
            .args([command, &format!("--text={text}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child.map_err(|e| tracing::info!("{program}: {e}")) else {
            return;
        };
        let begun = Instant::now();
        while begun.elapsed() < LONGEST {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(PAUSE),
                _ => return,
            }
        }
        tracing::warn!("plymouth does not answer");
        self.program = None;
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The message when the start begins to assemble these caches: those that it sets up for the first time.
pub(super) fn setting_up(caches: &[Cache]) -> Option<String> {
    let is_new = |cache: &&Cache| matches!(cache.record.setup, Setup::Pending { .. });
    let cache = caches.iter().find(is_new)?;
    Some(format!("Setting up the SSD cache of {}", cache.disk_name()))
}

/// The message while the start waits for devices of these caches, for `limit` altogether.
pub(super) fn waiting(caches: &[Cache], limit: Duration) -> Option<String> {
    // A wait for udev alone is part of each start.
    if limit <= WAIT_FOR_UDEV {
        return None;
    }
    let missing = |cache: &Cache| match (&cache.disk.recorded, &cache.ssd) {
        (None, _) => Some(format!("the hard disk {}", cache.disk_name())),
        (Some(_), None) => Some(format!("the SSD {}", cache.ssd_name())),
        (Some(_), Some(_)) => None,
    };
    let missing: Vec<_> = caches.iter().filter_map(missing).collect();
    if missing.is_empty() {
        return None;
    }
    Some(format!(
        "Waiting for {}, {} seconds at most",
        missing.join(" and "),
        limit.as_secs()
    ))
}

/// The message when the start goes on without these caches. Disks that are not there are not mentioned.
pub(super) fn without(caches: &[Cache]) -> Option<String> {
    let said = |cache: &Cache| match (cache.disk.recorded.is_some(), cache.held.is_empty()) {
        (_, false) => Some(format!(
            "{} stays closed: its newest data is on the SSD {}",
            cache.disk_name(),
            cache.ssd_name()
        )),
        (true, true) => Some(format!(
            "{} is used without its SSD cache",
            cache.disk_name()
        )),
        (false, true) => None,
    };
    let said: Vec<_> = caches.iter().filter_map(said).collect();
    (!said.is_empty()).then(|| said.join(". "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::blocks::{BlockDevice, Found};
    use crate::model::action::Pair;
    use crate::model::record::CacheRecord;
    use tandem_api::Mode;

    fn cache() -> Cache {
        let mut pair = Pair::nowhere(Mode::Writethrough);
        pair.origin.text.model = "Barge 64".into();
        pair.ssd.text.model = "Dart 80".into();
        pair.ssd.text.serial = "D1".into();
        Cache::new(CacheRecord::new(pair))
    }

    fn with_disk() -> Cache {
        Cache {
            disk: Found {
                recorded: Some(BlockDevice::default()),
                possible: vec![BlockDevice::default()],
            },
            ..cache()
        }
    }

    #[test]
    fn the_start_says_what_it_waits_for_and_goes_on_without() {
        let limit = Duration::from_secs(30);
        let wait = |cache: Cache| waiting(&[cache], limit);
        let said = Some("Waiting for the hard disk Barge 64, 30 seconds at most".to_owned());
        assert_eq!(wait(cache()), said);
        let said = Some("Waiting for the SSD Dart 80 D1, 30 seconds at most".to_owned());
        assert_eq!(wait(with_disk()), said);
        assert_eq!(waiting(&[with_disk()], WAIT_FOR_UDEV), None);
        assert_eq!(waiting(&[], limit), None);

        assert_eq!(without(&[cache()]), None);
        let said = "Barge 64 is used without its SSD cache".to_owned();
        assert_eq!(without(&[with_disk()]), Some(said));
        let mut held = with_disk();
        held.held = held.disk.possible.clone();
        let said = "Barge 64 stays closed: its newest data is on the SSD Dart 80 D1".to_owned();
        assert_eq!(without(&[held]), Some(said));

        assert_eq!(setting_up(&[with_disk()]), None);
        let mut new = with_disk();
        new.record = CacheRecord::prepared(new.record.pair, "boot".into(), true);
        let said = "Setting up the SSD cache of Barge 64".to_owned();
        assert_eq!(setting_up(&[new]), Some(said));
    }

    #[test]
    fn each_message_is_shown_once_and_hidden_and_a_program_that_hangs_is_left() {
        let folder = std::env::temp_dir().join(format!("tandem-splash-{}", std::process::id()));
        let (program, told) = (folder.join("plymouth"), folder.join("told"));
        let script = format!(
            "#!/bin/sh\necho \"$@\" >>{}\n[ \"$2\" != --text=slow ] || exec sleep 1000\n",
            told.display()
        );
        crate::program_for_test::make(&program, &script);
        let name = program.into_os_string().into_string().unwrap();
        let mut splash = Splash {
            program: Some(name.leak()),
            shown: None,
        };
        let two = Some("two");
        for message in [None, Some("one"), Some("one"), None, two, Some("slow"), two] {
            splash.show(message.map(str::to_owned));
        }
        let told = std::fs::read_to_string(told).unwrap();
        let expected = [
            "display-message --text=one",
            "hide-message --text=one",
            "display-message --text=two",
            "hide-message --text=two",
            "display-message --text=slow",
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), expected);
        std::fs::remove_dir_all(folder).unwrap();
        // A machine without plymouth.
        splash.program = None;
        splash.show(Some("two".to_owned()));
    }
}
