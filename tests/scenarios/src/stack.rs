// SPDX-License-Identifier: GPL-3.0-or-later
//! What may lie below and above a cache: a mirrored array and a logical volume below, an encrypted volume above, and a
//! logical volume as the SSD of the array. All caches come back when the machine is switched off and on.

mod grow;
mod late;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::kept::STARTED;
use tandem_guest::disks::{self, Scratch};
use tandem_guest::guest::{LONG, SHORT};
use tandem_guest::stage;
use tandem_guest::vm::{Disk, Parts, Vm};
use tandem_harness::layer::Run;

/// Longest time from power on until the desktop's targets are reached, on a busy machine without KVM.
const BOOT: Duration = Duration::from_secs(600);
/// Size of each hard disk in MiB.
const DISK_MIB: u64 = 64;
/// Size of each SSD in MiB.
const SSD_MIB: u64 = 120;
/// The hard disks: two legs of an array, a volume group, an encrypted disk.
const DISKS: [&str; 4] = ["LEG0001", "LEG0002", "GROUP001", "SAFE0001"];
/// The SSDs for the array, the volume and the encrypted disk.
const SSDS: [&str; 3] = ["DART0001", "DART0002", "DART0003"];

/// Script that makes the array, the volume and the encrypted disk. `LEG1` and so on are the names of the disks.
/// On a busy machine without KVM udev needs longer for all disks than the 90 s that systemd waits for a disk.
const MAKE: &str = r#"set -e
mdadm --quiet --create /dev/md/photos --run --level=1 --raid-devices=2 --metadata=1.2 /dev/LEG1 /dev/LEG2
# udev makes the link in its own time.
udevadm settle
mdadm --quiet --wait /dev/md/photos || true
mdadm --detail --scan >>/etc/mdadm/mdadm.conf
mke2fs -q -t ext4 -L photos -U 11111111-0000-4000-8000-000000000001 /dev/md/photos
vgcreate -q music /dev/GROUP && lvcreate -q -y --extents 50%FREE --name songs music
mke2fs -q -t ext4 -L songs -U 11111111-0000-4000-8000-000000000002 /dev/music/songs
head -c 64 /dev/urandom >/etc/safe.key && chmod 400 /etc/safe.key
cryptsetup luksFormat --batch-mode --uuid 11111111-0000-4000-8000-000000000003 \
	--pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /etc/safe.key /dev/SAFE
cryptsetup open --key-file /etc/safe.key /dev/SAFE safe
mke2fs -q -t ext4 -L safe -U 11111111-0000-4000-8000-000000000004 /dev/mapper/safe
cryptsetup close safe
echo 'safe UUID=11111111-0000-4000-8000-000000000003 /etc/safe.key luks' >>/etc/crypttab
for name in photos songs safe; do mkdir -p /srv/$name; done
cat >>/etc/fstab <<END
UUID=11111111-0000-4000-8000-000000000001 /srv/photos ext4 defaults,x-systemd.device-timeout=300 0 2
UUID=11111111-0000-4000-8000-000000000002 /srv/songs ext4 defaults,x-systemd.device-timeout=300 0 2
UUID=11111111-0000-4000-8000-000000000004 /srv/safe ext4 defaults,x-systemd.device-timeout=300 0 2
END
# udev may look at a device while mke2fs writes, and the link of the new UUID is then missing.
udevadm trigger --action=change --subsystem-match=block --settle; systemctl daemon-reload
systemctl start srv-photos.mount srv-songs.mount
readlink -f /dev/md/photos /dev/music/songs"#;
/// Script that makes most of the SSD a logical volume, and prints the volume's device.
const FRONT: &str = "(vgcreate -q fast /dev/SSD && lvcreate -q -y --extents 75%FREE --name front fast) >/dev/null 2>&1 && \
    udevadm settle && readlink -f /dev/fast/front";
/// Script that prints how many sectors the array's cache has read from its SSD.
const HITS: &str = r#"dmsetup status MAPPING | awk '{ for (i = 1; i < NF; i++) if ($i == "read_hit") print $(i + 1) }'"#;
/// Least number of sectors that the SSD has of the file that [`SAVE`] writes: nearly all 12288.
const SAVED: u64 = 10_000;
/// Script that prints the mapping that a file system lies on, through an encrypted volume if there is one.
const BELOW: &str = r#"device=$(findmnt --noheadings --output SOURCE /srv/NAME) || exit 1
case $device in /dev/mapper/safe) device=/dev/mapper/$(dmsetup deps -o devname safe | sed 's/.*(\(.*\))/\1/');; esac
echo "$device""#;
/// Writes a file and prints its checksum.
const SAVE: &str = "cd /srv/NAME && dd if=/dev/urandom of=FILE bs=64k count=96 conv=fsync status=none && cksum FILE";

/// Script that unlocks the encrypted disk through its cache, by the link that crypttab names, and mounts what is in it.
const UNLOCK: &str = "udevadm settle; cryptsetup open --key-file /etc/safe.key \
    /dev/disk/by-uuid/11111111-0000-4000-8000-000000000003 safe && udevadm settle && mount /dev/mapper/safe /srv/safe";

/// Script that makes a swap file on the array's cache and uses it.
const SWAP: &str = "cd /srv/photos && dd if=/dev/zero of=swap bs=1M count=16 conv=fsync status=none && chmod 600 swap \
    && mkswap -q swap && swapon --priority 5 /srv/photos/swap";

/// Script that lets the user anna mount the array through UDisks, as a person at the machine may after a password, and
/// mounts it so.
const MOUNT_AS_USER: &str = r#"umount /srv/photos && sed -i /photos/d /etc/fstab && systemctl daemon-reload
cat >/etc/polkit-1/rules.d/10-mount.rules <<END
polkit.addRule(function(action, subject) {
    if (action.id.indexOf("org.freedesktop.udisks2.filesystem-mount") == 0 && subject.user == "anna")
        return polkit.Result.YES;
});
END
runuser -u anna -- udisksctl mount --no-user-interaction --block-device /dev/ORIGIN"#;

/// The user anna leaves the machine, and comes back to it.
const AWAY: &str = "systemctl stop desktop";
const BACK: &str = r#"systemctl start desktop
until [ "$(loginctl show-user anna --property State --value)" = active ]; do sleep 0.1; done"#;

/// Script that makes a script part of that person's session at the machine, as a program of the desktop is.
const AT_DESKTOP: &str = "session=$(loginctl show-user anna --property Display --value) && \
    echo $$ >/sys/fs/cgroup/user.slice/user-$(id -u anna).slice/session-$session.scope/cgroup.procs && ";

/// The file systems, in the order of [`SSDS`].
const NAMES: [&str; 3] = ["photos", "songs", "safe"];

type Test = fn(&mut Stack, &Run) -> Result<()>;

/// The layer's tests. Each test starts from the machine in the state that the test before it has left.
const CASES: [(&str, Test); 13] = [
    (
        "a part of an array or of a volume group is refused by that name",
        Stack::parts_are_refused,
    ),
    (
        "an array, a volume and an encrypted disk get a cache",
        Stack::create,
    ),
    (
        "the SSD of the array's cache is a logical volume",
        Stack::on_volume,
    ),
    (
        "a volume with unsaved data on its SSD grows, and its file system with it",
        Stack::grow,
    ),
    (
        "all three come back after a restart, the array without a resync",
        Stack::restart,
    ),
    (
        "the cache on a logical volume is warm after the restart",
        Stack::on_volume,
    ),
    (
        "the logical volume grows, and its cache with it",
        Stack::ssd_grows,
    ),
    (
        "write-back is refused below a volume that the start unlocks",
        Stack::no_write_back_below_crypttab,
    ),
    (
        "disks wait for SSDs that come late, and the start for none of them",
        Stack::late,
    ),
    (
        "the machine does not hibernate to a swap file on a cache",
        Stack::no_hibernation,
    ),
    (
        "the plain devices have every file when the caches are removed",
        Stack::remove,
    ),
    (
        "the logical volume is free when its cache is removed",
        Stack::volume_is_free,
    ),
    (
        "a disk that a person mounted through UDisks stays that person's to unmount",
        Stack::unmounted_by_its_user,
    ),
];

/// Runs the layer. For one case it also runs the tests before that case.
pub fn run(run: &mut Run) -> Result<()> {
    let mut stack = Stack::new(run)?;
    for (name, test) in CASES {
        let result = test(&mut stack, run);
        run.check(name, result);
        if run.is_done() {
            break;
        }
    }
    Ok(())
}

/// A machine with the array, the volume and the encrypted disk.
struct Stack {
    vm: Option<Vm>,
    parts: Parts,
    /// The directory that holds the root disk.
    dir: PathBuf,
    disks: Vec<Disk>,
    /// Device names of the array and of the volume, and of the encrypted disk.
    origins: [String; 3],
    /// Lines of cksum, for each of [`NAMES`].
    written: Vec<(&'static str, String)>,
    /// The line of cksum of the file that needs the grown volume.
    large: String,
    _scratch: Scratch,
}

impl Stack {
    fn new(run: &Run) -> Result<Self> {
        let parts = Parts::get(run.cx)?;
        let stage = stage::build(run.cx, &parts)?;
        let scratch = Scratch::new()?;
        let mut disks = Vec::new();
        for (number, serial) in (0..).zip(DISKS.into_iter().chain(SSDS)) {
            let is_ssd = SSDS.contains(&serial);
            let mib = if is_ssd { SSD_MIB } else { DISK_MIB };
            let wwn = 0x5000_c500_0000_0100 + number;
            disks.push(disks::empty(scratch.path(), serial, wwn, mib, is_ssd)?);
        }
        let dir = scratch.path().join("machine");
        fs::create_dir(&dir)?;
        parts.copy_root(&dir)?;
        let mut vm = Vm::power_on(run.cx, &parts, &dir)?;
        vm.up(BOOT)?;
        stage::install(&mut vm, &stage)?;
        vm.agent.sh(late::TELL, SHORT)?;
        for disk in &disks {
            vm.plug(disk)?;
        }
        let mut script = MAKE.to_owned();
        let mut safe = String::new();
        for (word, serial) in ["LEG1", "LEG2", "GROUP", "SAFE"].into_iter().zip(DISKS) {
            safe = vm.device(serial)?;
            script = script.replace(&format!("/dev/{word}"), &format!("/dev/{safe}"));
        }
        let made = vm.agent.sh(&script, LONG)?;
        let mut names = made.lines().filter_map(|line| line.strip_prefix("/dev/"));
        let mut next = || names.next().unwrap_or_default().to_owned();
        let origins = [next(), next(), safe];
        Ok(Self {
            vm: Some(vm),
            parts,
            dir,
            disks,
            origins,
            written: Vec::new(),
            large: String::new(),
            _scratch: scratch,
        })
    }

    fn vm(&mut self) -> Result<&mut Vm> {
        self.vm.as_mut().context("the machine is off")
    }

    fn sh(&mut self, script: &str) -> Result<String> {
        Ok(self.vm()?.agent.sh(script, LONG)?.trim().to_owned())
    }

    fn parts_are_refused(&mut self, run: &Run) -> Result<()> {
        let ssd = self.vm()?.device(SSDS[1])?;
        for (serial, volume) in [(DISKS[0], "array"), (DISKS[2], "volume group")] {
            let part = self.vm()?.device(serial)?;
            let line = format!("tandemctl plan {part} {ssd}");
            let ended = self.vm()?.agent.run(&line, SHORT, |_| ())?;
            run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
            ensure!(
                ended.code == 3,
                "a part of an {volume} was not refused: {}",
                ended.text
            );
        }
        Ok(())
    }

    /// The mapping below the file system `name`.
    fn below(&mut self, name: &str) -> Result<String> {
        self.sh(&BELOW.replace("NAME", name))
    }

    fn all_on_mappings(&mut self) -> Result<()> {
        for name in NAMES {
            let below = self.below(name)?;
            ensure!(
                below.starts_with("/dev/mapper/tandem-"),
                "/srv/{name} lies on '{below}'"
            );
        }
        Ok(())
    }

    fn create(&mut self, run: &Run) -> Result<()> {
        for (origin, serial) in self.origins.clone().into_iter().zip(SSDS) {
            let mut ssd = self.vm()?.device(serial)?;
            if serial == SSDS[0] {
                let volume = self.sh(&FRONT.replace("SSD", &ssd))?;
                ssd = volume.trim_start_matches("/dev/").to_owned();
            }
            let told = self.sh(&format!(
                "tandemctl create --yes --erase-ssd {origin} {ssd}"
            ))?;
            run.note(&told);
        }
        self.sh(UNLOCK)?;
        let table = self.sh("lsblk; dmsetup table; cat /proc/mdstat")?;
        run.note(&table);
        self.all_on_mappings()?;
        // New data of the array and of the volume is on their SSDs only when the machine goes off.
        for name in &NAMES[..2] {
            let mapping = self.below(name)?;
            let mapping = mapping.trim_start_matches("/dev/mapper/");
            self.sh(&format!("tandemctl mode --yes writeback {mapping}"))?;
        }
        for name in NAMES {
            let sum = self.sh(&SAVE.replace("NAME", name).replace("FILE", "new"))?;
            self.written.push((name, sum));
        }
        Ok(())
    }

    /// The volume has the file that was written through it.
    fn on_volume(&mut self, run: &Run) -> Result<()> {
        let mapping = self.below("photos")?;
        let devices = self.sh(&format!("dmsetup deps -o devname {mapping}"))?;
        ensure!(
            devices.contains("(fast-front)"),
            "the devices of the cache are {devices}"
        );
        let counter = HITS.replace("MAPPING", &mapping);
        let before = self.sh(&counter)?.parse::<u64>()?;
        self.vm()?.drop_page_cache()?;
        self.sh("cksum /srv/photos/new")?;
        let hits = self.sh(&counter)?.parse::<u64>()? - before;
        run.note(&format!("{devices}; {hits} sectors came from the volume"));
        ensure!(hits >= SAVED, "only {hits} sectors came from the volume");
        Ok(())
    }

    /// Nothing of the cache is left on the volume, and nothing uses it.
    fn volume_is_free(&mut self, _: &Run) -> Result<()> {
        let left = self.sh("blkid --probe /dev/fast/front || true")?;
        ensure!(left.is_empty(), "left on the volume: {left}");
        let ssd = self.vm()?.device(SSDS[0])?;
        self.sh(&format!(
            "lvremove -q -y fast/front && vgremove -q fast && pvremove -q /dev/{ssd}"
        ))
        .map(drop)
    }

    fn all_there(&mut self) -> Result<()> {
        self.vm()?.drop_page_cache()?;
        for (name, sum) in self.written.clone() {
            let now = self.sh(&format!("cd /srv/{name} && cksum new"))?;
            ensure!(now == sum, "/srv/{name}/new was {sum} and is {now}");
        }
        let now = self.sh("cd /srv/songs && cksum large")?;
        ensure!(
            now == self.large,
            "/srv/songs/large was {} and is {now}",
            self.large
        );
        Ok(())
    }

    /// Switches the machine off and on, with all disks but perhaps one.
    fn start_again(&mut self, run: &Run, without: Option<&str>) -> Result<()> {
        self.vm.take().map_or(Ok(()), Vm::power_off)?;
        let mut vm = Vm::power_on(run.cx, &self.parts, &self.dir)?;
        for disk in &self.disks {
            if without != Some(disk.serial) {
                vm.plug(disk)?;
            }
        }
        vm.up(BOOT)?;
        vm.agent.sh(STARTED, BOOT)?;
        self.vm = Some(vm);
        Ok(())
    }

    fn restart(&mut self, run: &Run) -> Result<()> {
        self.start_again(run, None)?;
        // On a busy machine lvm2 may activate a volume later than the start waits for it.
        self.sh(late::MOUNTED)?;
        let state = self.sh("lsblk; cat /proc/mdstat; systemctl --failed --no-legend --plain; journalctl -b --no-pager -o cat -u tandem-assemble -u tandem")?;
        run.note(&state);
        self.all_on_mappings()?;
        let failed = self.sh("systemctl --failed --no-legend --plain")?;
        ensure!(failed.is_empty(), "units failed: {failed}");
        let resync = self.sh(
            "journalctl -b --no-pager -o cat -k | grep -iE 'resync|recovery of RAID' || true",
        )?;
        ensure!(resync.is_empty(), "the array was not clean: {resync}");
        self.all_there()
    }

    /// While the SSD is missing, the disk would be held and the start would wait for the volume.
    fn no_write_back_below_crypttab(&mut self, run: &Run) -> Result<()> {
        let mapping = self.below("safe")?;
        let name = mapping.trim_start_matches("/dev/mapper/");
        let write_back = format!("tandemctl mode --yes writeback {name}");
        let refused = self.vm()?.agent.run(&write_back, SHORT, |_| ())?;
        run.note(&refused.text);
        ensure!(
            refused.code != 0 && refused.text.contains("the computer unlocks it"),
            "write-back was not refused: {}",
            refused.text
        );
        Ok(())
    }

    /// The swap file works, and the unit that would write the memory to it fails before it writes anything.
    fn no_hibernation(&mut self, run: &Run) -> Result<()> {
        self.sh(SWAP)?;
        let line = "systemctl start systemd-hibernate.service";
        let ended = self.vm()?.agent.run(line, SHORT, |_| ())?;
        let said = self.sh("journalctl -b --no-pager -o cat -u systemd-hibernate")?;
        run.note(&format!("{}\n{said}", ended.text));
        ensure!(
            ended.code != 0 && said.contains("cannot hibernate: /srv/photos/swap"),
            "hibernation was not refused: {said}"
        );
        self.sh("swapoff /srv/photos/swap && rm /srv/photos/swap")
            .map(drop)
    }

    fn remove(&mut self, run: &Run) -> Result<()> {
        for name in NAMES {
            let mapping = self.below(name)?;
            let mapping = mapping.trim_start_matches("/dev/mapper/");
            let told = self.sh(&format!("tandemctl remove --yes {mapping}"))?;
            run.note(&told);
        }
        self.all_there()?;
        let tandem = self.sh("dmsetup table --target tandem")?;
        ensure!(!tandem.contains("tandem-"), "still mapped: {tandem}");
        Ok(())
    }

    /// The mount moves to the cache and back. Another user may unmount the disk at neither place.
    fn unmounted_by_its_user(&mut self, run: &Run) -> Result<()> {
        let origin = self.origins[0].clone();
        let ssd = self.vm()?.device(SSDS[0])?;
        self.sh(&MOUNT_AS_USER.replace("ORIGIN", &origin))?;
        self.sh(&format!(
            "tandemctl create --yes --erase-ssd {origin} {ssd}"
        ))?;
        let mapping = self.unmount_as_user(run, "/dev/mapper/tandem-")?;
        // UDisks removes only folders that it has made itself, and this one was made for the moved mount.
        self.sh(&format!(
            "rmdir /media/anna/photos; runuser -u anna -- udisksctl mount --no-user-interaction --block-device {mapping}"
        ))?;
        let name = mapping.trim_start_matches("/dev/mapper/");
        self.sh(&format!("tandemctl remove --yes {name}"))?;
        self.unmount_as_user(run, "/dev/md").map(drop)
    }

    /// Unmounts the array's file system as the user anna, and returns the device that it was mounted from.
    fn unmount_as_user(&mut self, run: &Run, prefix: &str) -> Result<String> {
        let source = self.sh("findmnt --noheadings --output SOURCE /media/anna/photos")?;
        ensure!(source.starts_with(prefix), "mounted from {source}");
        for (before, place, user, may) in [
            ("true", "", "nobody", false),
            ("true", "", "anna", false),
            (AWAY, "", "anna", false),
            (BACK, AT_DESKTOP, "anna", true),
        ] {
            self.sh(before)?;
            let line = format!(
                "{place}runuser -u {user} -- udisksctl unmount --no-user-interaction --block-device {source}"
            );
            let ended = self.vm()?.agent.run(&line, SHORT, |_| ())?;
            run.note(&format!("{line}: {}\n{}", ended.code, ended.text));
            ensure!(
                (ended.code == 0) == may,
                "{user} unmounts {source}: {}",
                ended.text
            );
        }
        Ok(source)
    }
}
