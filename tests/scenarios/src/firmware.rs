// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine that starts by EFI and whose kernel takes signed modules only: the service, from within its sandbox, has
//! the firmware ask for the key at the next start.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::kept::{BOOT, STARTED};
use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::stage;
use tandem_guest::vm::{Disk, Efi, Parts, Vm};
use tandem_harness::cx::Cx;
use tandem_harness::layer::Run;
use tandem_harness::{fetch, run};

/// The layer's test.
pub const CASE: &str = "the key of the module is handed to the firmware";
/// Debian's tool for the list of keys, with the library that the guest lacks.
const PACKAGES: [&str; 2] = ["libefivar1", "mokutil"];
/// Script that installs the tool, and puts the key where DKMS makes it. `DISK`: the disk with both.
const INSTALL: &str = "mkdir /run/debs && tar --extract --file /dev/DISK --directory /run/debs && \
    dpkg --install /run/debs/*.deb 2>&1 && mkdir -p /var/lib/dkms && cp /run/debs/mok.pub /var/lib/dkms/";
/// Longest time of two calls of the service.
const CALLS: Duration = Duration::from_secs(420);
/// Script that prints the state of the module and that of the key. The first call starts the service, which a machine
/// that is still starting does slowly.
const STATE: &str = "for property in ModuleState SigningKey; do busctl --system --timeout=200 get-property org.tandemcache.Tandem1 \
    /org/tandemcache/Tandem1 org.tandemcache.Tandem1.Manager $property; done";
const ENROLL: &str = "busctl --system --timeout=200 call org.tandemcache.Tandem1 /org/tandemcache/Tandem1 \
    org.tandemcache.Tandem1.Manager EnrollKey s 'correct horse'";
/// Script that checks that the request to the firmware, which has a head of 48 bytes, ends with the key, and that a
/// password is asked for.
const ASKED: &str = "cd /sys/firmware/efi/efivars && ls -l Mok* && test -s MokAuth-605dab50-e046-4300-abb6-3dd810dd8b23 && \
    cat MokNew-605dab50-e046-4300-abb6-3dd810dd8b23 | tail --bytes=+49 | cmp - /var/lib/dkms/mok.pub";

/// Runs the layer.
pub fn run(run: &mut Run) -> Result<()> {
    let result = handed_over(run);
    run.check(CASE, result);
    Ok(())
}

fn handed_over(run: &Run) -> Result<()> {
    let cx = run.cx;
    let mut parts = Parts::get(cx)?;
    let stage = stage::build(cx, &parts)?;
    let scratch = Scratch::new()?;
    parts.copy_root(scratch.path())?;
    parts.efi = Some(Efi::new(cx, &parts.kernel, scratch.path())?);
    parts.append = "module.sig_enforce=1";
    let mut vm = Vm::power_on(cx, &parts, scratch.path())?;
    vm.up(BOOT)?;
    stage::install(&mut vm, &stage)?;
    vm.plug(&tool(cx, scratch.path())?)?;
    let disk = vm.device(disks::TOOLS_SERIAL)?;
    run.note(&vm.agent.sh(&INSTALL.replace("DISK", &disk), SHORT)?);
    expect(run, &mut vm, "not-enrolled")?;
    run.note(&vm.agent.sh(ENROLL, LONG)?);
    expect(run, &mut vm, "pending")?;
    run.note(&vm.agent.sh(ASKED, SHORT)?);
    // No program of this machine's firmware answers the request.
    vm.restart("systemctl --no-block reboot", BOOT)?;
    vm.agent.sh(STARTED, BOOT)?;
    expect(run, &mut vm, "pending")?;
    vm.agent.sh(ASKED, SHORT).map(drop)
}

/// The kernel refuses the module, and the state of the key is this.
fn expect(run: &Run, vm: &mut Vm, key: &str) -> Result<()> {
    let told = vm.agent.sh(STATE, CALLS)?;
    run.note(&told);
    ensure!(
        told.trim() == format!("s \"refused\"\ns \"{key}\""),
        "the service says {told}"
    );
    Ok(())
}

/// A disk with the packages and a new key in a tar file.
fn tool(cx: &Cx, dir: &Path) -> Result<Disk> {
    let key = dir.join("mok.pub");
    let words = "req -new -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=tandem-test -outform DER";
    let mut openssl = run::cmd("openssl", words.split(' '));
    openssl.arg("-keyout").arg(dir.join("mok.key"));
    run::output(openssl.arg("-out").arg(&key))?;
    let packages = PACKAGES.map(|name| format!("{name}.deb"));
    for (name, file) in PACKAGES.iter().zip(&packages) {
        fs::copy(fetch::own(cx, name)?, dir.join(file))?;
    }
    disks::tools(dir, packages.iter().map(String::as_str).chain(["mok.pub"]))
}
