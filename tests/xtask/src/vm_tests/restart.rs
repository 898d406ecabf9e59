// SPDX-License-Identifier: GPL-3.0-or-later
//! The machine is switched off and on again: the cache comes back by itself, below the same files.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::disks::{self, Scratch};
use crate::guest::LONG;
use crate::layer::Bench;
use crate::stage;
use crate::vm::{Parts, Vm};

/// From power on until the cache is assembled, on a busy machine without KVM.
const BOOT: Duration = Duration::from_secs(600);
/// Ends when the file system is mounted through an active cache; the disk may have been mounted without it first.
const BACK: &str = r#"
end=$(($(date +%s) + 500))
until findmnt --noheadings --output SOURCE /home/anna/Archive | grep -q ^/dev/mapper/tandem- &&
	dmsetup status --target tandem | grep -q ' tandem active '; do
	if [ "$(date +%s)" -gt $end ]; then
		echo "the cache has not come back"; tandemctl list; lsblk; dmsetup table
		journalctl -b -u tandem -u home-anna-Archive.mount --no-pager -o short-monotonic
		exit 1
	fi
	sleep 0.5
done"#;

/// Creates a cache, restarts, and removes it.
pub fn run(bench: &Bench) -> Result<()> {
    let parts = Parts::get(bench.cx)?;
    let stage = stage::build(bench.cx, &parts)?;
    let scratch = Scratch::new()?;
    let pair = disks::pair(&scratch)?;
    let dir = scratch.path().join("machine");
    fs::create_dir(&dir)?;
    parts.copy_root(&dir)?;

    let mut vm = Vm::power_on(bench.cx, &parts, &dir)?;
    vm.agent.sh("true", BOOT)?;
    stage::install(&mut vm, &stage)?;
    vm.plug(&pair.origin)?;
    vm.plug(&pair.ssd)?;
    let (disk, ssd) = (vm.device(pair.origin.serial)?, vm.device(pair.ssd.serial)?);
    // As the owner of a desktop has it: mounted at every start.
    vm.agent.sh(
        "sed -i 's/noauto,//' /etc/fstab; systemctl daemon-reload",
        LONG,
    )?;
    vm.mount()?;
    let files = vm.checksums()?;
    vm.agent.sh(
        &format!("tandemctl create --yes --erase-ssd {disk}1 {ssd}"),
        LONG,
    )?;
    vm.power_off()?;

    let mut vm = Vm::power_on(bench.cx, &parts, &dir)?;
    vm.plug(&pair.origin)?;
    vm.plug(&pair.ssd)?;
    vm.agent.sh(BACK, BOOT)?;
    ensure!(
        vm.checksums()? == files,
        "the files differ after the restart"
    );
    vm.agent.sh("tandemctl remove --yes", LONG)?;
    vm.drop_page_cache()?;
    ensure!(
        vm.checksums()? == files,
        "the files differ on the plain disk"
    );
    Ok(())
}
