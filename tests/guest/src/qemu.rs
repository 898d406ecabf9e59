// SPDX-License-Identifier: GPL-3.0-or-later
//! QEMU 10, unpacked in the cache: Debian 12's own 7.2 corrupts guests under TCG.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use tandem_harness::apt::Apt;
use tandem_harness::cx::{Cx, say};
use tandem_harness::machine::Family;
use tandem_harness::pins::Pin;
use tandem_harness::{fetch, hash, pins, run};

/// Longest time in which a kernel must fail to find its root file system and restart, for KVM to count as working. TCG
/// needs as long.
const KVM_LIMIT: Duration = Duration::from_secs(8);

/// QEMU and what it needs, without anything installed on the machine.
pub struct Qemu {
    root: PathBuf,
    /// Names the QEMU that a saved machine state belongs to.
    pub key: String,
}

impl Qemu {
    /// Fetches QEMU unless the cache has one that starts.
    pub fn get(cx: &Cx) -> Result<Self> {
        let pins = pins::group("qemu")?;
        let key = hash::key(pins.iter().map(|pin| &pin.sha256));
        let root = cx.cached("qemu", &key, |dir| unpack(cx, &pins, dir))?;
        let qemu = Self { root, key };
        if qemu.starts().is_err() {
            // A library that the machine had when QEMU was unpacked is gone: resolve again.
            fs::remove_dir_all(&qemu.root)?;
            cx.cached("qemu", &qemu.key, |dir| unpack(cx, &pins, dir))?;
            qemu.starts()?;
        }
        Ok(qemu)
    }

    /// `qemu-system-x86_64` with its own libraries, modules and firmware; the caller adds the machine's arguments.
    /// The kernel kills this QEMU when the thread that starts it ends for any reason.
    pub fn command(&self) -> Command {
        let mut command = run::ending_with_us(&self.root.join("usr/bin/qemu-system-x86_64"));
        let lib = self.root.join("usr/lib/x86_64-linux-gnu");
        let path = format!(
            "{0}:{1}:{0}/pulseaudio",
            lib.display(),
            self.root.join("lib/x86_64-linux-gnu").display()
        );
        command
            .env("LD_LIBRARY_PATH", path)
            .env("QEMU_MODULE_DIR", lib.join("qemu"));
        for firmware in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
            command.arg("-L").arg(self.root.join(firmware));
        }
        command
    }

    /// Whether KVM runs this kernel at a useful speed. That /dev/kvm can be opened does not prove that, nor does a
    /// guest of a few instructions: a nested KVM may run those and never finish booting a kernel. A trial takes up to
    /// [`KVM_LIMIT`], so that its result is kept until this computer is restarted.
    pub fn kvm_works(&self, cx: &Cx, kernel: &Path) -> Result<bool> {
        let opens = fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_ok();
        if !opens {
            return Ok(false);
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let key = hash::key([boot, self.key.clone(), hash::file(kernel)?]);
        let kept = cx.cached("kvm", &key, |dir| {
            let works = self.try_kvm(kernel).unwrap_or(false);
            Ok(fs::write(dir.join("works"), works.to_string())?)
        })?;
        Ok(fs::read_to_string(kept.join("works"))? == "true")
    }

    fn try_kvm(&self, kernel: &Path) -> Result<bool> {
        let mut command = self.command();
        command.args(["-accel", "kvm", "-cpu", "host", "-machine", "q35"]);
        command.args(["-m", "512", "-smp", "2", "-nodefaults", "-no-user-config"]);
        command.args(["-display", "none", "-no-reboot", "-append", "panic=-1"]);
        let code = wait(
            command
                .arg("-kernel")
                .arg(kernel)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
            KVM_LIMIT,
        )?;
        Ok(code == Some(0))
    }

    fn starts(&self) -> Result<()> {
        run::output(self.command().arg("--version"))
            .map(drop)
            .context("the unpacked QEMU does not start")
    }
}

/// Runs a command for at most `limit` and returns its exit code, or nothing when it was stopped.
pub fn wait(command: &mut Command, limit: Duration) -> Result<Option<i32>> {
    let mut child = command.spawn().context("cannot start QEMU")?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Unpacks the pinned packages and those libraries of Debian 12 that they need and the machine lacks.
fn unpack(cx: &Cx, pins: &[Pin], dir: &Path) -> Result<()> {
    say("fetching QEMU 10 with its libraries (about 32 MB)");
    let mut files = pins
        .iter()
        .map(|pin| fetch::pinned(cx, pin))
        .collect::<Result<Vec<_>>>()?;
    let apt = Apt::open(cx, Family::Bookworm)?;
    let mut specs = Vec::new();
    for file in &files {
        let fields = run::output(
            run::cmd(
                "dpkg-deb",
                ["--show", "--showformat", "${Package}=${Version}"],
            )
            .arg(file),
        )?;
        specs.push(fields);
    }
    let mut args = vec![
        "install",
        "-y",
        "--download-only",
        "--no-install-recommends",
        "-t",
        "bookworm-backports",
    ];
    args.extend(specs.iter().map(String::as_str));
    run::output(&mut apt.command("apt-get", args)).context("cannot fetch the libraries of QEMU")?;
    for entry in fs::read_dir(&apt.archives)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let ours = pins
            .iter()
            .any(|pin| name.starts_with(&format!("{}_", pin.name)));
        if name.ends_with(".deb") && !ours {
            files.push(path);
        }
    }
    ensure!(
        files.len() >= pins.len(),
        "some of QEMU's packages are missing"
    );
    files.iter().try_for_each(|file| fetch::unpack(file, dir))?;
    run::output(&mut apt.command("apt-get", ["clean"])).map(drop)
}
