// SPDX-License-Identifier: GPL-3.0-or-later
//! The service changes the names by which the start of the machine finds a disk.

use anyhow::{Result, bail, ensure};

use super::Desk;
use tandem_guest::guest::MOUNT_POINT;
use tandem_harness::layer::Run;

/// GRUB's environment block, which GRUB changes on the disk alone.
pub(super) const GRUB_BLOCK: &str = "/boot/grub/grubenv";

impl Desk {
    /// Makes GRUB's environment block, so that the SSD has it.
    pub(crate) fn has_grub_block(&mut self) -> Result<()> {
        self.sh(&format!(
            "grub-editenv {GRUB_BLOCK} create && grub-editenv {GRUB_BLOCK} set told=before && sync"
        ))?;
        // The programs that read the counter lie on the same disk.
        for _ in 0..10 {
            self.vm()?.drop_page_cache()?;
            let missed = self.counter("read_missed")?;
            self.sh(&format!("cat {GRUB_BLOCK}"))?;
            if self.counter("read_missed")? == missed {
                return Ok(());
            }
        }
        bail!("reads of {GRUB_BLOCK} never came from the SSD alone")
    }

    /// The block must be as it was changed on the disk, and the SSD had it as it was before.
    pub(crate) fn shows_grub_block(&mut self) -> Result<()> {
        for _ in 0..2 {
            let told = self.sh(&format!("grub-editenv {GRUB_BLOCK} list"))?;
            ensure!(told == "told=behind", "GRUB's block is {told}");
            self.vm()?.drop_page_cache()?;
        }
        let logged = self.sh("journalctl -b --no-pager -o cat -u tandem-assemble")?;
        let restored = logged.contains("is as GRUB has left it on the disk");
        ensure!(restored, "the SSD did not have the block: {logged}");
        Ok(())
    }

    /// No cache can be asked for while fstab names the folder's disk by its device file. The service changes that.
    pub(crate) fn renamed_in_fstab(&mut self) -> Result<()> {
        let (disk, ssd) = (self.folder.origin.serial, self.folder.ssd.serial);
        let (disk, ssd) = (self.device(disk)?, self.device(ssd)?);
        self.sh(&format!(
            "cp /etc/fstab /run/fstab && sed -i 's|^[^#]\\S* {MOUNT_POINT} |/dev/{disk}1 {MOUNT_POINT} |' /etc/fstab && \
             cp /etc/fstab /run/by-device && systemctl daemon-reload && ! cmp -s /run/fstab /etc/fstab"
        ))?;
        let plan = format!("tandemctl plan --at-next-start {disk}1 {ssd} 2>&1; test $? -eq 3");
        let refused = self.sh(&plan)?;
        let tells = refused.contains("tandemctl names");
        ensure!(tells, "the refusal does not say what helps: {refused}");
        self.sh(&format!("tandemctl names --yes {disk}1"))?;
        self.sh(&format!(
            "cmp /run/fstab /etc/fstab && cmp /run/by-device /etc/fstab.before-tandem && \
             ls /etc/fstab* && grep '^What=/dev/disk/by-uuid/' /run/systemd/generator/$(systemd-escape --path --suffix=mount {MOUNT_POINT})"
        ))
        .map(drop)
    }

    /// The words of GRUB's menu that name the file system of the running system, each once.
    pub(crate) fn roots_in_menu(&mut self) -> Result<String> {
        self.sh("grep -o 'root=[^ ]*' /boot/grub/grub.cfg | grep -v hd | sort -u")
    }

    /// No cache can be asked for while GRUB's menu is made with a name of a device. The service changes the settings and
    /// has the menu made; if that fails, the settings are as before.
    pub(crate) fn renamed_for_grub(&mut self, run: &Run) -> Result<()> {
        let (disk, ssd) = (self.system.origin.serial, self.system.ssd.serial);
        let (disk, ssd) = (self.device(disk)?, self.device(ssd)?);
        self.sh(&format!(
            "mkdir -p /boot/grub /etc/default && cat >/etc/default/grub <<'END' && cp /etc/default/grub /run/grub && update-grub\n\
             GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n\
             GRUB_CMDLINE_LINUX=\"root=/dev/{disk}1 quiet\"\n\
             GRUB_DISABLE_LINUX_UUID=true\n\
             END"
        ))?;
        let before = self.roots_in_menu()?;
        ensure!(
            before == format!("root=/dev/{disk}1"),
            "GRUB's menu: {before}"
        );
        let plan = format!("tandemctl plan --at-next-start {disk}1 {ssd} 2>&1; test $? -eq 3");
        let refused = self.sh(&plan)?;
        let tells = refused.contains("tandemctl names") && refused.contains("/etc/default/grub");
        ensure!(tells, "the refusal does not say what helps: {refused}");

        let names = format!("tandemctl names --yes {disk}1");
        let failed = self.sh(&format!(
            "mv /boot/grub /boot/away && : >/boot/grub && {names} 2>&1; test $? -ne 0 && \
             rm /boot/grub && mv /boot/away /boot/grub"
        ))?;
        ensure!(
            failed.contains("is as before"),
            "the failure says: {failed}"
        );
        self.sh(
            "cmp /run/grub /etc/default/grub && test -z \"$(find /etc/default -name '*tandem*')\"",
        )?;
        ensure!(self.roots_in_menu()? == before, "GRUB's menu was changed");

        run.note(&self.sh(&names)?);
        let wanted = format!("root=UUID={}", self.uuid()?);
        self.sh(&format!(
            "cmp /run/grub /etc/default/grub.before-tandem && \
             sed 's|root=/dev/{disk}1|{wanted}|; s/=true/=false/' /run/grub | cmp - /etc/default/grub"
        ))?;
        let after = self.roots_in_menu()?;
        ensure!(after == wanted, "GRUB's menu: {after}");
        let accepted = format!("tandemctl plan --at-next-start --erase-ssd {disk}1 {ssd}");
        self.sh(&accepted)?;
        // This machine has started by BIOS. Where grub-install has made an image for that, the next update of GRUB would make
        // one that does not start.
        let refused = self.sh(&format!(
            "mkdir /boot/grub/i386-pc && {{ {accepted} 2>&1; test $? -eq 3; }} && rmdir /boot/grub/i386-pc"
        ))?;
        ensure!(refused.contains("GRUB"), "the refusal says: {refused}");
        Ok(())
    }
}
