// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds out why the running kernel has no module that it accepts, from the logs of DKMS and the keys that the firmware
//! trusts.

use super::{file, is_signed};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tandem_api::distribution::{MODULE_PACKAGE, MODULES, MOKUTIL, SIGNING_KEYS, headers_package};
use tandem_api::{ModuleProblem, ModuleState, SigningKey};

/// Lines of DKMS's log that are shown, from its end, where the error is.
const LOG_LINES: usize = 20;

/// The problem, and a detail for an expert: the end of a log, or the name of a missing file.
pub fn of(root: &Path, release: &str, state: ModuleState) -> (ModuleProblem, String) {
    match state {
        ModuleState::Loaded | ModuleState::Available => (ModuleProblem::None, String::new()),
        ModuleState::NotBuilt => not_built(root, release),
        ModuleState::Refused => {
            // A compressed module counts as signed. Without a key DKMS has signed no module.
            let compressed = |file: &Path| file.extension().is_none_or(|end| end != "ko");
            let signed = file(root, release)
                .is_some_and(|f| is_signed(&f) && (!compressed(&f) || key(root).is_some()));
            let problem = if signed {
                ModuleProblem::KeyNotTrusted
            } else {
                ModuleProblem::NotSigned
            };
            (problem, String::new())
        }
    }
}

fn not_built(root: &Path, release: &str) -> (ModuleProblem, String) {
    let trees = entries(&root.join("usr/src"))
        .into_iter()
        .filter(|tree| name(tree).starts_with("tandem-"));
    if trees.count() == 0 {
        return (ModuleProblem::NotInstalled, MODULE_PACKAGE.into());
    }
    let build = root.join(MODULES).join(release).join("build");
    if !build.exists() {
        return (ModuleProblem::NoHeaders, headers_package(release));
    }
    let config = crate::read_lossy(build.join(".config")).unwrap_or_default();
    let has = |value: &str| {
        config
            .lines()
            .any(|line| line == format!("CONFIG_BLK_DEV_DM={value}"))
    };
    if !config.is_empty() && !has("y") && !has("m") {
        return (ModuleProblem::Excluded, "CONFIG_BLK_DEV_DM".into());
    }
    match log(root, release) {
        Some(log) => (ModuleProblem::BuildFailed, log),
        None => (ModuleProblem::NotInstalled, "dkms autoinstall".into()),
    }
}

/// The end of the log of a failed build. DKMS moves the log away after a successful build.
fn log(root: &Path, release: &str) -> Option<String> {
    let mut logs = entries(&root.join("var/lib/dkms/tandem"))
        .into_iter()
        .filter_map(|version| crate::read_lossy(version.join("build/make.log")).ok());
    let log = logs.rfind(|log| log.contains(release))?;
    let lines: Vec<_> = log.lines().collect();
    Some(lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let list = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = list.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Public key that DKMS signs modules with.
fn key(root: &Path) -> Option<PathBuf> {
    SIGNING_KEYS
        .map(|key| root.join(key))
        .into_iter()
        .find(|key| key.is_file())
}

/// State of the key that DKMS signs modules with. `asked_for`: the machine refuses modules without a trusted signature.
pub fn signing_key(root: &Path, asked_for: bool) -> SigningKey {
    if !asked_for {
        return SigningKey::NotNeeded;
    }
    let Some(key) = key(root) else {
        return SigningKey::Missing;
    };
    let Ok(output) = mokutil(root, &["--test-key"], &key, "") else {
        return SigningKey::Unknown;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    // The exit code has a different meaning in each version of mokutil.
    if said.contains("enrollment request") {
        SigningKey::Pending
    } else if said.contains("not enrolled") {
        SigningKey::NotEnrolled
    } else if said.contains("already") {
        SigningKey::Enrolled
    } else {
        SigningKey::Unknown
    }
}

/// Makes the firmware ask at the next start whether to trust the key. The user types the password again there.
///
/// # Errors
/// The message of mokutil.
pub fn enroll(root: &Path, password: &str) -> Result<(), String> {
    let key = key(root).ok_or("DKMS has made no key")?;
    let typed = format!("{password}\n{password}\n");
    let output = mokutil(root, &["--import"], &key, &typed).map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Runs mokutil with the key as its last argument. A password goes over standard input, never into the list of processes.
fn mokutil(root: &Path, words: &[&str], key: &Path, input: &str) -> std::io::Result<Output> {
    let mut child = Command::new(root.join(MOKUTIL))
        .args(words)
        .arg(key)
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input says why in its output.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program_for_test;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn file(&self, path: &str, text: &str) {
            let file = self.0.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        /// A mokutil that notes its arguments and its input.
        fn mokutil(&self, script: &str) {
            let text = format!("#!/bin/sh\n{script}\n");
            program_for_test::make(&self.0.path().join(MOKUTIL), &text);
        }

        fn not_built(&self) -> (ModuleProblem, String) {
            of(self.0.path(), "6.1", ModuleState::NotBuilt)
        }
    }

    #[test]
    fn why_there_is_no_module_is_read_off_what_dkms_left() {
        let machine = Machine::new();
        assert_eq!(machine.not_built().0, ModuleProblem::NotInstalled);
        machine.file("usr/src/tandem-0.1.0/dkms.conf", "");
        let (problem, name) = machine.not_built();
        assert_eq!(problem, ModuleProblem::NoHeaders);
        assert_eq!(name, "linux-headers-6.1");
        machine.file(
            "lib/modules/6.1/build/.config",
            "# CONFIG_BLK_DEV_DM is not set\n",
        );
        assert_eq!(machine.not_built().0, ModuleProblem::Excluded);
        machine.file("lib/modules/6.1/build/.config", "CONFIG_BLK_DEV_DM=m\n");
        assert_eq!(machine.not_built().0, ModuleProblem::NotInstalled);
        let log =
            "DKMS make.log for tandem-0.1.0 for kernel 6.1 (x86_64)\nmap.c:7: error: unknown\n";
        machine.file("var/lib/dkms/tandem/0.1.0/build/make.log", log);
        let (problem, said) = machine.not_built();
        assert_eq!(problem, ModuleProblem::BuildFailed);
        assert!(said.ends_with("map.c:7: error: unknown"), "{said}");
    }

    #[test]
    fn a_refused_module_is_unsigned_or_its_key_is_not_trusted() {
        let machine = Machine::new();
        let refused = || of(machine.0.path(), "6.1", ModuleState::Refused).0;
        let module = "lib/modules/6.1/updates/dkms/dm-tandem.ko";
        machine.file(module, "code");
        assert_eq!(refused(), ModuleProblem::NotSigned);
        machine.file(module, "code~Module signature appended~\n");
        assert_eq!(refused(), ModuleProblem::KeyNotTrusted);
        fs::remove_file(machine.0.path().join(module)).unwrap();
        machine.file(&format!("{module}.xz"), "packed");
        assert_eq!(refused(), ModuleProblem::NotSigned);
        machine.file("var/lib/dkms/mok.pub", "key");
        assert_eq!(refused(), ModuleProblem::KeyNotTrusted);
    }

    #[test]
    fn the_key_goes_from_unknown_to_the_firmware_to_trusted() {
        let machine = Machine::new();
        let state = || signing_key(machine.0.path(), true);
        assert_eq!(signing_key(machine.0.path(), false), SigningKey::NotNeeded);
        assert_eq!(state(), SigningKey::Missing);
        machine.file("var/lib/dkms/mok.pub", "key");
        assert_eq!(state(), SigningKey::Unknown, "without mokutil");
        for (said, expected) in [
            ("mok.pub is not enrolled", SigningKey::NotEnrolled),
            (
                "mok.pub is already in the enrollment request",
                SigningKey::Pending,
            ),
            ("mok.pub is already enrolled", SigningKey::Enrolled),
            (
                "EFI variables are not supported on this system",
                SigningKey::Unknown,
            ),
        ] {
            machine.mokutil(&format!("echo '{said}'; exit 1"));
            assert_eq!(state(), expected, "{said}");
        }
    }

    #[test]
    fn the_password_is_no_argument() {
        let machine = Machine::new();
        machine.file("var/lib/dkms/mok.pub", "key");
        let told = machine.0.path().join("told");
        machine.mokutil(&format!("echo \"$@\" >{0}; cat >>{0}", told.display()));
        enroll(machine.0.path(), "correct horse").unwrap();
        let told = fs::read_to_string(told).unwrap();
        let (arguments, input) = told.split_once('\n').unwrap();
        assert!(arguments.starts_with("--import "), "{arguments}");
        assert!(!arguments.contains("correct"), "{arguments}");
        assert_eq!(input, "correct horse\ncorrect horse\n");
        machine.mokutil("echo 'no room'; exit 1");
        assert_eq!(enroll(machine.0.path(), "x").unwrap_err(), "no room");
    }
}
