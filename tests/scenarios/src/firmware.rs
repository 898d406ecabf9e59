// SPDX-License-Identifier: GPL-3.0-or-later
//! A machine that starts by EFI and whose kernel takes signed modules only: the service, from within its sandbox, has
//! the firmware ask for the key at the next start.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::kept::{BOOT, STARTED};
use tandem_guest::disks::Scratch;
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::stage;
use tandem_guest::vm::{Disk, Efi, Parts, Vm};
use tandem_harness::cx::Cx;
use tandem_harness::layer::Bench;
use tandem_harness::{fetch, run};

/// The layer's test.
pub const CASE: &str = "the key of the module is handed to the firmware";
/// Debian's tool for the list of keys, with the library that the guest lacks.
const PACKAGES: [&str; 2] = ["libefivar1", "mokutil"];
/// Installs the tool, and puts the key where DKMS makes it. `DISK`: the disk with both.
const INSTALL: &str = "mkdir /run/debs && tar --extract --file /dev/DISK --directory /run/debs && \
    dpkg --install /run/debs/*.deb 2>&1 && mkdir -p /var/lib/dkms && cp /run/debs/mok.pub /var/lib/dkms/";
/// Longest time of two calls of the service.
const CALLS: Duration = Duration::from_secs(420);
/// Prints the state of the module and that of the key. The first call starts the service, which a machine that is still
/// starting does slowly.
const STATE: &str = "for property in ModuleState SigningKey; do busctl --system --timeout=200 get-property org.tandemcache.Tandem1 \
    /org/tandemcache/Tandem1 org.tandemcache.Tandem1.Manager $property; done";
const ENROLL: &str = "busctl --system --timeout=200 call org.tandemcache.Tandem1 /org/tandemcache/Tandem1 \
    org.tandemcache.Tandem1.Manager EnrollKey s 'correct horse'";
/// Checks that the request to the firmware, which has a head of 48 bytes, ends with the key, and that a password is asked
/// for.
const ASKED: &str = "cd /sys/firmware/efi/efivars && ls -l Mok* && test -s MokAuth-605dab50-e046-4300-abb6-3dd810dd8b23 && \
    cat MokNew-605dab50-e046-4300-abb6-3dd810dd8b23 | tail --bytes=+49 | cmp - /var/lib/dkms/mok.pub";

/// Runs the layer.
pub fn run(bench: &mut Bench) -> Result<()> {
    let result = handed_over(bench);
    bench.check(CASE, result);
    Ok(())
}

fn handed_over(bench: &Bench) -> Result<()> {
    let cx = bench.cx;
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
    let disk = vm.device(SERIAL)?;
    bench.note(&vm.agent.sh(&INSTALL.replace("DISK", &disk), SHORT)?);
    expect(bench, &mut vm, "not-enrolled")?;
    bench.note(&vm.agent.sh(ENROLL, LONG)?);
    expect(bench, &mut vm, "pending")?;
    bench.note(&vm.agent.sh(ASKED, SHORT)?);
    // No program of this machine's firmware answers the request.
    vm.restart("systemctl --no-block reboot", BOOT)?;
    vm.agent.sh(STARTED, BOOT)?;
    expect(bench, &mut vm, "pending")?;
    vm.agent.sh(ASKED, SHORT).map(drop)
}

/// The kernel refuses the module, and the state of the key is this.
fn expect(bench: &Bench, vm: &mut Vm, key: &str) -> Result<()> {
    let told = vm.agent.sh(STATE, CALLS)?;
    bench.note(&told);
    ensure!(
        told.trim() == format!("s \"refused\"\ns \"{key}\""),
        "the service says {told}"
    );
    Ok(())
}

const SERIAL: &str = "TOOLS001";

/// A disk with the packages and a new key in a tar file.
fn tool(cx: &Cx, dir: &Path) -> Result<Disk> {
    let key = dir.join("mok.pub");
    let words = "req -new -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=tandem-test -outform DER";
    let mut openssl = run::cmd("openssl", words.split(' '));
    openssl.arg("-keyout").arg(dir.join("mok.key"));
    run::output(openssl.arg("-out").arg(&key))?;
    let files = PACKAGES.map(|name| -> Result<PathBuf> {
        let file = dir.join(format!("{name}.deb"));
        fs::copy(fetch::own(cx, name)?, &file)?;
        Ok(file)
    });
    let tar = dir.join("tools.tar");
    let mut pack = run::cmd("tar", ["--create", "--file"]);
    pack.arg(&tar).arg("--directory").arg(dir).arg("mok.pub");
    for file in files {
        pack.args(file?.file_name());
    }
    run::output(&mut pack)?;
    Ok(Disk {
        file: tar,
        vendor: "Tandem",
        product: "Tools",
        serial: SERIAL,
        wwn: 0x5000_0000_0000_00ab,
        rotation_rate: 1,
        read_only: true,
    })
}
