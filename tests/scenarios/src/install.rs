// SPDX-License-Identifier: GPL-3.0-or-later
//! The Debian packages on fresh machines: installed by apt without a network, with the module built by DKMS for the
//! machine's own kernel; a cache set up, restarted and upgraded; and the packages removed.

mod kernel_cache;
mod packages;
mod soft_reboot;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use self::packages::Medium;
use super::kept::{BOOT, STARTED};
use tandem_guest::disks::{self, Pair, Scratch};
use tandem_guest::guest::{LONG, MOUNT_POINT, SHORT};
use tandem_guest::install_image;
use tandem_guest::vm::{Parts, Vm};
use tandem_harness::layer::Run;
use tandem_harness::machine::Family;

/// Longest installation: DKMS builds the module, under emulation on a busy machine.
const INSTALL: Duration = Duration::from_secs(1500);
/// Bytes a second that the hard disk accepts while data shall stay on the SSD only.
const SLOW: u64 = 64 << 10;

/// Size of a picture of the guest's screen that shows nothing but the background, in bytes, at most.
const EMPTY_SCREEN: u64 = 15_000;

type Test = fn(&mut Desk, &Run) -> Result<()>;

/// On the kernel's command line: no module without a trusted signature.
const ENFORCE: &str = "module.sig_enforce=1";

/// Debian 12's systemd knows no soft-reboot.
const SOFT_REBOOT: &str = "a soft-reboot keeps what is on the SSD only";

/// The tests. Each starts from the machine as the test before it has left it.
const CASES: [(&str, Test); 12] = [
    ("apt installs it and DKMS builds the module", Desk::install),
    ("the app is in the menu and starts", Desk::app),
    ("a cache is set up", Desk::create),
    ("an upgrade keeps the cache running", Desk::upgrade),
    ("a restart brings the cache back", Desk::restart),
    (SOFT_REBOOT, soft_reboot::keeps_the_cache),
    (
        "a removal is refused while data is on the SSD only",
        Desk::refused,
    ),
    (
        "a kernel without the module stops write-back until it has the module",
        Desk::kernel,
    ),
    (
        "a kernel that asks for signatures refuses the module with the reason",
        Desk::enforced,
    ),
    (
        "there the kernel's own cache takes its place, and is warm after a restart",
        kernel_cache::serves,
    ),
    ("flawed packages are found", Desk::flawed),
    ("a purge leaves plain disks", Desk::purge),
];

/// Runs the layer on Debian 12.
pub fn bookworm(run: &mut Run) -> Result<()> {
    on_release(run, Family::Bookworm)
}

/// Runs the layer on Debian 13.
pub fn trixie(run: &mut Run) -> Result<()> {
    on_release(run, Family::Trixie)
}

/// Runs the tests with `--all` only: building the packages, and the module under emulation, takes long. For one case
/// this also runs the tests before that case.
fn on_release(run: &mut Run, release: Family) -> Result<()> {
    if !run.is_whole() {
        run.skip("the packages on a fresh machine", "only --all runs this");
        return Ok(());
    }
    let mut desk = Desk::new(run, release)?;
    let known = |(name, _): &(&str, Test)| *name != SOFT_REBOOT || release != Family::Bookworm;
    for (name, test) in CASES.into_iter().filter(known) {
        let begun = Instant::now();
        let result = test(&mut desk, run);
        run.note(&format!("{name}: {} s", begun.elapsed().as_secs()));
        let failed = result.is_err();
        if failed {
            let told = desk.sh("journalctl -b --no-pager -o short-monotonic | tail -60");
            run.note(&told.unwrap_or_default());
        }
        run.check(name, result);
        if failed || run.is_done() {
            break;
        }
    }
    Ok(())
}

/// A machine whose disks survive when it is switched off.
struct Desk {
    vm: Option<Vm>,
    parts: Parts,
    pair: Pair,
    dir: PathBuf,
    medium: Medium,
    /// Checksums of the files that are on the hard disk.
    files: String,
    _scratch: Scratch,
}

impl Desk {
    fn new(run: &Run, release: Family) -> Result<Self> {
        let medium = Medium::get(run.cx)?;
        let parts = install_image::get(run.cx, release)?;
        let scratch = Scratch::new()?;
        let pair = disks::pair(&scratch)?;
        let dir = scratch.path().join("machine");
        fs::create_dir(&dir)?;
        parts.copy_root(&dir)?;
        let mut vm = Vm::power_on(run.cx, &parts, &dir)?;
        vm.up(BOOT)?;
        Ok(Self {
            vm: Some(vm),
            parts,
            pair,
            dir,
            medium,
            files: String::new(),
            _scratch: scratch,
        })
    }

    fn vm(&mut self) -> Result<&mut Vm> {
        self.vm.as_mut().context("the machine is off")
    }

    fn sh(&mut self, script: &str) -> Result<String> {
        Ok(self.vm()?.agent.sh(script, LONG)?.trim().to_owned())
    }

    fn apt(&mut self, words: &str) -> Result<String> {
        let line = format!(
            "cd /root/packages && DEBIAN_FRONTEND=noninteractive apt-get --yes {words} 2>&1"
        );
        self.vm()?.agent.sh(&line, INSTALL)
    }

    fn install(&mut self, run: &Run) -> Result<()> {
        // A server without anything to serve, perhaps.
        let failed = "systemctl --failed --no-legend --plain";
        let before = self.sh(failed)?;
        let medium = self.medium.disk();
        self.vm()?.plug(&medium)?;
        self.sh(packages::UNPACK)?;
        let begun = Instant::now();
        let said = self.apt("install ./tandem_*.deb ./tandem-dkms_*.deb")?;
        run.note(&said);
        run.note(&format!("apt took {} s", begun.elapsed().as_secs()));
        let kernel = self.parts.kernel.release.clone();
        let status = self.sh("dkms status")?;
        let wanted = format!(
            "tandem/{}, {kernel}, x86_64: installed",
            env!("CARGO_PKG_VERSION")
        );
        ensure!(status.contains(&wanted), "dkms says {status}");
        let file = self.sh("modinfo --field filename dm-tandem")?;
        ensure!(
            file.contains(&format!("/{kernel}/updates/dkms/dm-tandem.ko")),
            "the module is {file}"
        );
        self.service_answers()?;
        let loose = self.sh(&format!("dpkg --audit; {failed}"))?;
        ensure!(loose == before, "not in order: {loose}");
        Ok(())
    }

    fn service_answers(&mut self) -> Result<()> {
        let listed = self.sh("tandemctl --json list")?;
        ensure!(
            listed.starts_with('{') || listed.starts_with('['),
            "tandemctl says {listed}"
        );
        Ok(())
    }

    fn app(&mut self, run: &Run) -> Result<()> {
        self.sh(
            "grep -q '^Exec=/usr/bin/tandem$' /usr/share/applications/org.tandemcache.Tandem.desktop && \
             grep -q org.tandemcache.Tandem /usr/share/icons/hicolor/icon-theme.cache && \
             man -w tandemctl >/dev/null 2>&1 || [ -e /usr/share/bash-completion/completions/tandemctl ]",
        )?;
        let start = "systemd-run --user --quiet --collect --unit=tandem-app /usr/bin/tandem";
        self.vm()?.as_user(start, SHORT)?;
        let shown = "for _ in $(seq 300); do busctl --user status org.tandemcache.Tandem >/dev/null 2>&1 && \
                     busctl --user tree org.tandemcache.Tandem 2>/dev/null | grep -q /window/1 && exit 0; sleep 0.2; done; \
                     journalctl -b --no-pager | tail -20; exit 1";
        self.vm()?.as_user(shown, LONG)?;
        let name = format!("{}-app.png", self.parts.kernel.release);
        let picture = run.cx.target.join("test").join(name);
        let mut patience = self.vm()?.agent.patience(SHORT);
        loop {
            self.vm()?.screenshot(&picture)?;
            if fs::metadata(&picture)?.len() > EMPTY_SCREEN {
                break;
            }
            let over = patience.is_over();
            ensure!(!over, "the window is not drawn: {}", picture.display());
            std::thread::sleep(Duration::from_millis(500));
        }
        self.vm()?
            .as_user("systemctl --user stop tandem-app", SHORT)
            .map(drop)
    }

    fn create(&mut self, _: &Run) -> Result<()> {
        let (origin, ssd) = (self.pair.origin.clone(), self.pair.ssd.clone());
        self.vm()?.plug(&origin)?;
        self.vm()?.plug(&ssd)?;
        self.sh("sed -i 's/noauto,nofail,//' /etc/fstab; systemctl daemon-reload")?;
        self.vm()?.mount()?;
        self.files = self.vm()?.checksums()?;
        self.set_up("")?;
        self.same_files()?;
        self.cached()
    }

    /// Makes a cache, with these further words on the command line.
    fn set_up(&mut self, further: &str) -> Result<()> {
        let (disk, ssd) = (self.pair.origin.serial, self.pair.ssd.serial);
        let (disk, ssd) = (self.vm()?.device(disk)?, self.vm()?.device(ssd)?);
        let line = format!("tandemctl create --yes --erase-ssd {further} {disk}1 {ssd}");
        self.sh(&line).map(drop)
    }

    fn source(&mut self) -> Result<String> {
        self.sh(&format!(
            "findmnt --noheadings --output SOURCE {MOUNT_POINT} || true"
        ))
    }

    fn cached(&mut self) -> Result<()> {
        let source = self.source()?;
        ensure!(
            source.starts_with("/dev/mapper/tandem-"),
            "mounted from '{source}'"
        );
        self.sh("dmsetup table --target tandem | grep -q .")
            .map(drop)
    }

    fn same_files(&mut self) -> Result<()> {
        self.vm()?.drop_page_cache()?;
        ensure!(self.vm()?.checksums()? == self.files, "the files differ");
        Ok(())
    }

    /// A program reads and writes through the cache all the time, and no call of it fails.
    fn upgrade(&mut self, run: &Run) -> Result<()> {
        let state = "dmsetup table --target tandem; dmsetup info -c --noheadings -o name,open,suspended,events";
        let before = self.sh(state)?;
        let pid = "systemctl show --property=MainPID --value tandem";
        let service = self.sh(&format!("tandemctl list >/dev/null; {pid}"))?;
        self.sh(&format!(
            "systemd-run --quiet --unit=busy sh -ec 'while :; do date >>{MOUNT_POINT}/busy; sync -d {MOUNT_POINT}/busy; sleep 0.2; done'"
        ))?;
        run.note(&self.apt("install ./newer/tandem_*.deb")?);
        self.sh("systemctl is-active busy && systemctl stop busy")?;
        self.service_answers()?;
        let now = self.sh(pid)?;
        ensure!(
            now != service && now != "0",
            "the service was {service} and is {now}"
        );
        let after = self.sh(state)?;
        ensure!(
            after == before,
            "the mapping was\n{before}\nand is\n{after}"
        );
        let version = self.sh("dpkg-query --show --showformat '${Version}' tandem")?;
        ensure!(
            version.ends_with(packages::NEWER),
            "the version is {version}"
        );
        self.same_files()
    }

    fn restart(&mut self, run: &Run) -> Result<()> {
        self.off_and_on(run)?;
        self.cached()?;
        self.same_files()
    }

    fn off_and_on(&mut self, run: &Run) -> Result<()> {
        std::mem::take(&mut self.vm).map_or(Ok(()), Vm::power_off)?;
        let mut vm = Vm::power_on(run.cx, &self.parts, &self.dir)?;
        vm.plug(&self.pair.origin)?;
        vm.plug(&self.pair.ssd)?;
        vm.up(BOOT)?;
        run.note(&vm.agent.sh(STARTED, BOOT)?);
        self.vm = Some(vm);
        Ok(())
    }

    /// Saves a file that stays on the SSD only for minutes.
    fn leave_unwritten(&mut self) -> Result<()> {
        self.sh("tandemctl mode --yes writeback")?;
        let disk = self.pair.origin.serial;
        self.throttle(disk, SLOW)?;
        self.sh(&format!(
            "dd if=/dev/urandom of={MOUNT_POINT}/new bs=64k count=384 conv=fsync status=none"
        ))
        .map(drop)
    }

    /// Leaves write-back, and waits until it is on record that the disk has everything.
    fn write_back(&mut self) -> Result<()> {
        self.sh("tandemctl mode --yes writethrough; tandemctl flush")?;
        self.sh(
            "for _ in $(seq 300); do grep -q 'may_be_dirty\": true' /var/lib/tandem/caches/* || exit 0; sleep 0.2; done; exit 1",
        )
        .map(drop)
    }

    fn throttle(&mut self, serial: &str, bytes: u64) -> Result<()> {
        let words = json!({ "id": serial, "bps": 0, "bps_rd": 0, "bps_wr": bytes, "iops": 0, "iops_rd": 0, "iops_wr": 0 });
        self.vm()?.qmp.run("block_set_io_throttle", words).map(drop)
    }

    fn refused(&mut self, run: &Run) -> Result<()> {
        self.leave_unwritten()?;
        // Where apt stops, dpkg goes on with the second package when it has refused the first one.
        let result = self.removal_is_refused(run, "dpkg --purge tandem tandem-dkms");
        self.throttle(self.pair.origin.serial, 0)?;
        result?;
        self.service_answers()?;
        self.cached()
    }

    fn removal_is_refused(&mut self, run: &Run, words: &str) -> Result<()> {
        let line = format!("DEBIAN_FRONTEND=noninteractive {words} 2>&1");
        let ended = self.vm()?.agent.run(&line, INSTALL, |_| ())?;
        run.note(&ended.text);
        ensure!(ended.code != 0, "apt removed the package: {}", ended.text);
        for said in [
            "Tandem cannot be removed now",
            "Barge",
            "DART0001",
            "tandemctl remove",
        ] {
            ensure!(
                ended.text.contains(said),
                "apt does not say {said}: {}",
                ended.text
            );
        }
        let status = self.sh(
            "dpkg-query --show --showformat '${db:Status-Status} ' tandem tandem-dkms; modinfo --field name dm-tandem",
        )?;
        ensure!(
            status == "installed installed dm_tandem",
            "the packages are {status}"
        );
        Ok(())
    }

    /// The checks must fail for a package whose prerm does not ask, and whose unit names a program that is not there.
    fn flawed(&mut self, run: &Run) -> Result<()> {
        self.apt("install --allow-downgrades ./flawed/tandem_*.deb")?;
        ensure!(
            self.service_answers().is_err(),
            "the wrong path was not found"
        );
        let refused = self.removal_is_refused(run, "apt-get --yes remove tandem");
        ensure!(refused.is_err(), "a prerm that does not ask was not found");
        self.apt("install ./tandem_*.deb")?;
        self.service_answers()?;
        self.cached()
    }

    /// A kernel is installed as a package's script does it, without headers: DKMS cannot build the module for it.
    fn kernel(&mut self, run: &Run) -> Result<()> {
        let as_user = "busctl --system call org.tandemcache.Tandem1 /org/tandemcache/Tandem1 org.tandemcache.Tandem1.Manager CheckKernels";
        let refused = self.vm()?.as_user(as_user, SHORT);
        ensure!(refused.is_err(), "everybody may have the kernels checked");
        self.sh("tandemctl mode --yes writeback")?;
        let mode = |wanted: &str| {
            format!(
                "for _ in $(seq 100); do tandemctl --json list | grep -q {wanted} && exit 0; sleep 0.2; done; tandemctl --json list; exit 1"
            )
        };
        self.sh(&mode("writeback"))?;
        let said = self.sh(
            "mkdir -p /lib/modules/6.99-test/kernel; cp /boot/vmlinuz-$(uname -r) /boot/vmlinuz-6.99-test; touch /boot/vmlinuz-6.99-test; \
             run-parts --verbose --exit-on-error --arg=6.99-test --arg=/boot/vmlinuz-6.99-test --regex='^(dkms|zz-tandem)$' /etc/kernel/postinst.d 2>&1 || true",
        )?;
        run.note(&said);
        ensure!(
            said.contains("Linux 6.99-test has no module"),
            "the hook says {said}"
        );
        self.sh(&mode("writethrough"))?;
        let property = "busctl --system get-property org.tandemcache.Tandem1 /org/tandemcache/Tandem1 org.tandemcache.Tandem1.Manager";
        let lacking = self.sh(&format!("{property} KernelsWithoutModule"))?;
        ensure!(lacking.contains("\"6.99-test\""), "lacking: {lacking}");
        self.sh("rm -r /boot/vmlinuz-6.99-test /lib/modules/6.99-test; run-parts --arg=6.99-test /etc/kernel/postrm.d >/dev/null 2>&1; true")?;
        self.sh(&mode("writeback"))?;
        // The package of the module alone is removed: no kernel has the module then.
        self.write_back()?;
        run.note(&self.apt("remove tandem-dkms")?);
        let lacking = self.sh(&format!("{property} KernelsWithoutModule"))?;
        ensure!(
            lacking.contains(&self.sh("uname -r")?),
            "without the package of the module {lacking} lack it"
        );
        run.note(&self.apt("install ./tandem-dkms_*.deb")?);
        let lacking = self.sh(&format!("{property} KernelsWithoutModule"))?;
        ensure!(lacking.ends_with(" 0"), "lacking: {lacking}");
        Ok(())
    }

    /// DKMS signs the module with a key of its own, which no kernel trusts.
    fn enforced(&mut self, run: &Run) -> Result<()> {
        self.write_back()?;
        self.parts.append = ENFORCE;
        let result = self.off_and_on(run).and_then(|()| self.is_refused());
        self.parts.append = "";
        result?;
        self.off_and_on(run)?;
        self.cached()
    }

    fn is_refused(&mut self) -> Result<()> {
        self.same_files()?;
        let source = self.source()?;
        ensure!(source.starts_with("/dev/sd"), "mounted from '{source}'");
        let property = "busctl --system get-property org.tandemcache.Tandem1 /org/tandemcache/Tandem1 org.tandemcache.Tandem1.Manager";
        let told = self.sh(&format!(
            "for _ in $(seq 100); do {property} ModuleState | grep -q refused && break; sleep 0.2; done; {property} ModuleState; {property} ModuleProblem; {property} SigningKey"
        ))?;
        // The firmware of this machine has no list of keys, so that nobody can say whether the key is in it.
        let expected = [["not-signed", "missing"], ["key-not-trusted", "unknown"]];
        let is_told = |word: &&str| told.contains(&format!("\"{word}\""));
        ensure!(
            is_told(&"refused") && expected.iter().any(|words| words.iter().all(is_told)),
            "the service says {told}"
        );
        Ok(())
    }

    fn purge(&mut self, run: &Run) -> Result<()> {
        self.write_back()?;
        run.note(&self.apt("purge tandem tandem-dkms")?);
        // The cache goes on until the machine is switched off.
        self.cached()?;
        self.same_files()?;
        let left = self.sh(
            "ls -d /var/lib/tandem /usr/src/tandem-* /usr/libexec/tandem-* /etc/kernel/postinst.d/*tandem* 2>/dev/null; \
             modinfo --field filename dm-tandem 2>/dev/null; dpkg --audit; true",
        )?;
        ensure!(left.is_empty(), "left behind: {left}");
        self.off_and_on(run)?;
        let source = self.source()?;
        ensure!(source.starts_with("/dev/sd"), "mounted from '{source}'");
        self.same_files()?;
        self.sh(&format!("[ ! -e {MOUNT_POINT}/new ] || cksum {MOUNT_POINT}/new; systemctl is-active multi-user.target"))
            .map(drop)
    }
}
