// SPDX-License-Identifier: GPL-3.0-or-later
//! `tandemctl report`: what a developer needs to understand a problem, without what is private.

use crate::caches::caches;
use crate::status::facts;
use crate::{Ending, devices, emit};
use std::process::{Command, Stdio};
use tandem_api::ManagerProxy;
use zbus::Connection;

/// Lines of the journal that a report has at most.
const LINES: &str = "300";
/// Shorter texts are left as they are: they would take words of the report with them.
const LEAST: usize = 3;

/// Names that tell nothing of a person, and occur among the words of a report.
const COMMON: [&str; 6] = ["boot", "root", "home", "swap", "EFI", "data"];

/// Prints the report.
pub async fn report(connection: &Connection) -> Result<(), Ending> {
    let manager = ManagerProxy::new(connection).await?;
    let judged = manager.devices().await?;
    let mut private = Private::default();
    for device in devices::list(connection).await? {
        private.add(&device.label, "label");
    }
    for device in judged.iter().map(|judged| &judged.device) {
        private.add(&device.label, "label");
        private.add(&device.serial, "serial");
    }
    for folder in folders(&std::fs::read_to_string("/etc/fstab").unwrap_or_default()) {
        private.add(&folder, "folder");
    }
    let mut text = vec![
        format!(
            "tandemctl {}, service {}",
            env!("CARGO_PKG_VERSION"),
            manager.version().await?
        ),
        format!("{}, Linux {}", system(), manager.kernel().await?),
        format!(
            "module: {} {:?}, key: {}, kernels without it: {:?}",
            manager.module_state().await?,
            manager.module_problem().await?,
            manager.signing_key().await?,
            manager.kernels_without_module().await?,
        ),
        "\nDevices".to_owned(),
    ];
    for judged in &judged {
        let device = &judged.device;
        text.push(format!(
            "{} {} {} “{}”: disk {:?}, disk later {:?}, SSD {:?}",
            device.name,
            device.size,
            device.model,
            device.content,
            kinds(&judged.against_disk),
            kinds(&judged.against_disk_later),
            kinds(&judged.against_ssd),
        ));
    }
    text.push("\nCaches".to_owned());
    for cache in caches(connection).await? {
        private.add(&cache.chosen_name().await?, "name");
        for device in [cache.origin_text().await?, cache.ssd_text().await?] {
            private.add(&device.label, "label");
            private.add(&device.serial, "serial");
        }
        for point in cache.mount_points().await? {
            private.add(&point, "folder");
        }
        text.push(facts(&cache).await?.to_string());
    }
    for other in manager.other_caches().await? {
        private.add(&other.name, "name");
        for point in &other.mount_points {
            private.add(point, "folder");
        }
        text.push(format!(
            "other cache: {} {} {}",
            other.kind, other.state, other.mode
        ));
    }
    text.push("\nJournal".to_owned());
    text.push(journal());
    emit(private.hidden(&text.join("\n")));
    Ok(())
}

fn kinds(against: &[tandem_api::Objection]) -> Vec<String> {
    // A name of a device in a file may be a label, or the name of a volume.
    let name = |o: &tandem_api::Objection| {
        if o.is_a_name() {
            String::new()
        } else {
            o.name.clone()
        }
    };
    let kind = |o: &tandem_api::Objection| format!("{} {}", o.kind, name(o)).trim().to_owned();
    against.iter().map(kind).collect()
}

/// The mount points of an fstab below which people keep their files.
fn folders(fstab: &str) -> Vec<String> {
    const SYSTEM: [&str; 6] = ["/", "/boot", "/boot/efi", "/usr", "/var", "/home"];
    let lines = fstab
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let targets = lines.filter_map(|line| line.split_whitespace().nth(1));
    let own = targets.filter(|target| target.starts_with('/') && !SYSTEM.contains(target));
    own.map(|target| target.replace("\\040", " ")).collect()
}

/// The name of the distribution.
fn system() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("unknown system")
        .trim_matches('"')
        .to_owned()
}

/// The lines that the service, the programs of the start and the module have logged in this start of the machine. Only some
/// users may read them.
fn journal() -> String {
    let read = |arguments: &[&str]| {
        let mut command = Command::new("journalctl");
        command.args([
            "--boot",
            "--no-pager",
            "--quiet",
            "--output",
            "short-monotonic",
        ]);
        command
            .args(["--no-hostname", "--lines", LINES])
            .args(arguments);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
        output.map_or_else(
            |e| e.to_string(),
            |o| String::from_utf8_lossy(&o.stdout).into_owned(),
        )
    };
    let told = [
        read(&["--unit", "tandem*"]),
        read(&["--dmesg", "--grep", "tandem|device-mapper"]),
    ];
    match told.concat() {
        none if none.trim().is_empty() => {
            "nothing, or you may not read it; try with sudo".to_owned()
        }
        told => told,
    }
}

/// Texts that tell of a person, with a word for each.
#[derive(Default)]
struct Private(Vec<(String, &'static str)>);

impl Private {
    fn add(&mut self, text: &str, word: &'static str) {
        let text = text.trim();
        if text.chars().count() >= LEAST && !COMMON.contains(&text) {
            self.0.push((text.to_owned(), word));
        }
    }

    /// The text without them. Longer ones go first, since one may be a part of another.
    fn hidden(mut self, text: &str) -> String {
        self.0
            .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let mut hidden = text.to_owned();
        for (private, word) in &self.0 {
            // As JSON writes it, too.
            let json = serde_json::Value::from(private.as_str()).to_string();
            for form in [&json[1..json.len() - 1], private] {
                hidden = hidden.replace(form, &format!("[{word}]"));
            }
        }
        // Folders of people that are not mounted now: to the end, for a name may have blanks.
        let cut = |line: &str| {
            let at = ["/home/", "/media/"]
                .iter()
                .filter_map(|place| line.find(place))
                .min();
            at.map_or_else(|| line.to_owned(), |at| format!("{}[folder]", &line[..at]))
        };
        hidden.lines().map(cut).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_fstab_are_found_but_for_those_of_the_system() {
        let fstab =
            "# /secret\nUUID=1 / ext4\nUUID=2 /srv/My\\040Files ext4 rw 0 2\nUUID=3 none swap\n";
        assert_eq!(folders(fstab), ["/srv/My Files"]);
    }

    #[test]
    fn a_report_tells_neither_labels_nor_serial_numbers_nor_folders() {
        let mut private = Private::default();
        for (text, word) in [
            ("Holiday", "label"),
            ("Holiday Photos", "label"),
            ("WD-WCC7K", "serial"),
            ("/srv/Holiday Photos", "folder"),
            ("sd", "label"),
            ("/", "folder"),
        ] {
            private.add(text, word);
        }
        private.add("Anna \"X\"", "label");
        let hidden = private.hidden(
            "sda Holiday Photos WD-WCC7K at /srv/Holiday Photos\n{\"label\":\"Anna \\\"X\\\"\"}\nheld: /home/anna/Secret Plans: x\n/run/media/bob/y",
        );
        assert_eq!(
            hidden,
            "sda [label] [serial] at [folder]\n{\"label\":\"[label]\"}\nheld: [folder]\n/run[folder]"
        );
    }
}
