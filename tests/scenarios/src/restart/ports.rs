// SPDX-License-Identifier: GPL-3.0-or-later
//! Disks on the ports that computers have: a hard disk on SATA and an SSD on NVMe. Then the hard disk moves into a USB
//! box while its newest data is on the SSD only: the box shows another serial number and WWN, and the disk must not be
//! used without that data.

use anyhow::{Result, ensure};

use crate::kept::{KeptMachine, Wiring};
use tandem_guest::guest::{MOUNT_POINT, SHORT};
use tandem_guest::vm::BOX_SERIAL;
use tandem_harness::hash;
use tandem_harness::layer::Run;

type Test = fn(&mut KeptMachine, &Run) -> Result<()>;

/// The layer's tests. Each test starts from the disks in the state that the test before it has left.
const CASES: [(&str, Test); 3] = [
    (
        "a cache of a SATA disk on an NVMe drive keeps what is on the drive only",
        KeptMachine::dirty_inside,
    ),
    (
        "a dirty disk that moves into a USB box is held",
        KeptMachine::moved_into_box,
    ),
    (
        "a disk that moves back from its box has its newest data",
        KeptMachine::moved_back,
    ),
];

/// Runs the layer. For one case it also runs the tests before that case.
pub fn run(run: &mut Run) -> Result<()> {
    let mut machine = KeptMachine::new(run, Wiring::Inside)?;
    for (name, test) in CASES {
        let result = test(&mut machine, run);
        run.check(name, result);
        if run.is_done() {
            break;
        }
    }
    Ok(())
}

impl KeptMachine {
    fn dirty_inside(&mut self, run: &Run) -> Result<()> {
        let ports = self.sh("lsblk --nodeps --noheadings --output NAME,TRAN,SERIAL,ROTA")?;
        run.note(&ports);
        ensure!(
            ports.contains("sata") && ports.contains("nvme"),
            "the ports are\n{ports}"
        );
        self.dirty(run)?;
        let left = self.leave_dirty("before-the-box")?;
        run.note(&format!("{left} sectors are on the SSD only"));
        Ok(())
    }

    fn moved_into_box(&mut self, run: &Run) -> Result<()> {
        self.power_off(run)?;
        let before = hash::file(&self.pair.origin.file)?;
        self.wiring = Wiring::Box;
        self.power_on(run, true)?;
        let disk = self.vm()?.device(BOX_SERIAL)?;
        let source = self.source()?;
        ensure!(source.is_empty(), "mounted from {source}");
        for tried in [
            format!("mount /dev/{disk}1 /mnt"),
            format!("mount {MOUNT_POINT} && findmnt {MOUNT_POINT}"),
            format!("udisksctl mount --no-user-interaction -b /dev/{disk}1"),
            format!("e2fsck -p /dev/{disk}1"),
        ] {
            let ended = self.vm()?.agent.run(&tried, SHORT, |_| ())?;
            run.note(&format!("{tried}: {}\n{}", ended.code, ended.text));
            ensure!(ended.code != 0, "{tried} went well");
        }
        let listed = self.sh("tandemctl list; tandemctl --json list")?;
        run.note(&listed);
        ensure!(
            listed.contains("tandem-"),
            "the list does not tell: {listed}"
        );
        self.power_off(run)?;
        ensure!(
            hash::file(&self.pair.origin.file)? == before,
            "the disk was written in its box"
        );
        Ok(())
    }

    fn moved_back(&mut self, run: &Run) -> Result<()> {
        self.wiring = Wiring::Inside;
        self.power_on(run, true)?;
        self.assembled()?;
        self.all_there()
    }
}
