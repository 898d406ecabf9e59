// SPDX-License-Identifier: GPL-3.0-or-later
//! A start in which the SSDs of two caches in write-back come late. The logical volume that is the SSD of the array
//! comes after the start has given it up and before fstab mounts the array. The SSD of the encrypted disk, which a
//! person unlocks by hand, comes when the start is over. Each disk is held until its SSD is there.

use anyhow::{Result, ensure};

use super::{DISKS, NAMES, SAVE, SSDS, Stack};
use tandem_guest::guest::{LONG, SHORT};
use tandem_harness::hash;
use tandem_harness::layer::Run;

/// A script: a person, and not the start, unlocks the encrypted disk.
const BY_HAND: &str = "sed -i '/^safe /s/luks/luks,noauto/' /etc/crypttab && sed -i '/srv.safe/s/defaults/noauto/' /etc/fstab && systemctl daemon-reload";
/// Has this unit activate the logical volume, and not lvm2: after the start has given it up, and before any entry of
/// fstab is mounted.
///
/// udev makes the links to the array after the start has held it. Otherwise chance decides. The start finds the array
/// without its links because udev has a record of it: the second leg waits for the record of the array with one leg.
const LATE: &str = r#"set -e
lvchange -q --setautoactivation n fast/front
cat >/etc/systemd/system/late-volume.service <<END
[Unit]
DefaultDependencies=no
After=tandem-assemble.service
Before=local-fs-pre.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/lvchange -ay fast/front
[Install]
WantedBy=sysinit.target
END
systemctl -q enable late-volume.service
cat >/usr/local/sbin/until-there <<'END'
#!/bin/sh
# udev ends a program after three minutes.
for try in $(seq 600); do
	for file in $1; do [ -e "$file" ] && exit 0; done
	sleep 0.1
done
exit 1
END
chmod 755 /usr/local/sbin/until-there
cat >/etc/udev/rules.d/62-late.rules <<'END'
ACTION!="remove", KERNEL=="sd*", ENV{ID_SCSI_SERIAL}=="LEG0002", PROGRAM="/usr/local/sbin/until-there /run/udev/data/b9:*"
ACTION!="remove", KERNEL=="md*", ATTR{md/array_state}!="clear|inactive", PROGRAM="/usr/local/sbin/until-there /sys/class/block/%k/holders/*"
END"#;
/// Script that ends when the array and the volume are mounted through their caches; the service does that when their SSDs
/// are there, if the start has left them out.
pub(crate) const MOUNTED: &str = r#"
for try in $(seq 1000); do
	below=$(findmnt --noheadings --output SOURCE /srv/photos; findmnt --noheadings --output SOURCE /srv/songs)
	[ "$(echo "$below" | grep -c ^/dev/mapper/tandem-)" = 2 ] && exit 0
	sleep 0.2
done
echo "not both are mounted"; lsblk; journalctl -b --no-pager -o short-monotonic | tail -60
exit 1"#;
/// Script that ends when the mapping has its table.
const ASSEMBLED: &str = r#"
for try in $(seq 1000); do
	dmsetup table NAME | grep -q tandem && exit 0
	sleep 0.2
done
echo "it is not assembled"; lsblk; journalctl -b --no-pager -o short-monotonic | tail -60
exit 1"#;
/// Script that unlocks the encrypted disk as a person does, and mounts what is in it.
const UNLOCK: &str =
    "udevadm settle; systemctl start systemd-cryptsetup@safe.service && mount /srv/safe";

/// A script: a start that ends in emergency mode says on the console why.
pub(crate) const TELL: &str = r#"cat >/etc/systemd/system/tell.service <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
StandardOutput=file:/dev/ttyS0
ExecStart=/bin/sh -c 'journalctl -b --no-pager -o short-monotonic | tail -120; ls -l /dev/disk/by-uuid; dmsetup table --inactive; tail /run/systemd/system/*.d/*'
[Install]
WantedBy=emergency.target
END
systemctl -q enable tell.service"#;

impl Stack {
    pub(crate) fn late(&mut self, run: &Run) -> Result<()> {
        let mapping = self.below("safe")?;
        let mapping = mapping.trim_start_matches("/dev/mapper/").to_owned();
        self.sh(BY_HAND)?;
        self.sh(LATE)?;
        self.sh(&format!("tandemctl mode --yes writeback {mapping}"))?;
        self.written.clear();
        for name in NAMES {
            let sum = self.sh(&SAVE.replace("NAME", name).replace("FILE", "new"))?;
            self.written.push((name, sum));
        }
        self.start_again(run, Some(SSDS[2]))?;
        self.sh(MOUNTED)?;
        let told = self.sh("rm /etc/udev/rules.d/62-late.rules; journalctl -b --no-pager -o short-monotonic | grep -E 'tandem|late-volume|lvm|srv-'; systemctl --failed --no-legend --plain")?;
        run.note(&told);
        let raw =
            self.sh("journalctl -b --no-pager -o cat -k | grep -E 'EXT4-fs \\(md' || true")?;
        ensure!(
            raw.is_empty(),
            "the array was mounted without its cache: {raw}"
        );
        self.locked_without_ssd(run)?;
        let ssd = self.disks.iter().find(|disk| disk.serial == SSDS[2]);
        if let Some(ssd) = ssd.cloned() {
            self.vm()?.plug(&ssd)?;
        }
        self.sh(&ASSEMBLED.replace("NAME", &mapping))?;
        self.sh(UNLOCK)?;
        self.all_on_mappings()?;
        self.all_there()
    }

    /// No program can unlock the encrypted disk or write to it.
    fn locked_without_ssd(&mut self, run: &Run) -> Result<()> {
        let file = self.disks[3].file.clone();
        let before = hash::file(&file)?;
        let disk = self.vm()?.device(DISKS[3])?;
        for line in [
            "systemctl start systemd-cryptsetup@safe.service",
            &format!("cryptsetup open --key-file /etc/safe.key /dev/{disk} safe"),
            &format!("wipefs --all /dev/{disk}"),
        ] {
            let ended = self.vm()?.agent.run(line, LONG, |_| ())?;
            run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
            ensure!(ended.code != 0, "{line} went well");
        }
        let listed = self.vm()?.agent.sh("tandemctl --json list", SHORT)?;
        ensure!(
            listed.contains("ssd-gone-dirty"),
            "the list does not tell: {listed}"
        );
        ensure!(
            hash::file(&file)? == before,
            "the disk was written without its SSD"
        );
        Ok(())
    }
}
