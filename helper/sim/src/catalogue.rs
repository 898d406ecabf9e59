// SPDX-License-Identifier: GPL-3.0-or-later
//! The drives of the simulated machine at its first start: one of each sort that a person may own.

use super::world::{Block, Drive, Scene};
use std::collections::BTreeMap;
use std::time::Duration;
use tandem_api::{FileUser, ModuleState, SelfReport, SigningKey, SsdHealth};
use tandem_helper::model::facts::{Mount, Mounter};

const GB: u64 = 1_000_000_000;
const MB: u64 = 1_000_000;
const EFI: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";
const SWAP: &str = "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f";
const LINUX: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";
const BASIC: &str = "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7";

impl Scene {
    /// Plugs in a drive and returns its kernel name.
    pub fn plug(&mut self, drive: Drive) -> String {
        let usb = drive.bus == "usb";
        let free = if drive.bus == "nvme" {
            (0..)
                .map(|n| format!("nvme{n}n1"))
                .find(|n| !self.blocks.contains_key(n))
        } else {
            ('a'..='z')
                .map(|c| format!("sd{c}"))
                .find(|n| !self.blocks.contains_key(n))
        };
        let name = free.unwrap_or_else(|| "sdz".to_owned());
        self.next_diskseq += 1;
        let block = Block {
            drive: drive.serial.clone(),
            size: drive.size,
            blank: true,
            diskseq: self.next_diskseq,
            ..Block::default()
        };
        self.blocks.insert(name.clone(), block);
        self.drives.insert(
            drive.serial.clone(),
            Drive {
                removable: usb || drive.removable,
                ..drive
            },
        );
        name
    }

    /// Adds a partition behind the last partition of a drive, and returns its kernel name.
    pub fn part(
        &mut self,
        whole: &str,
        size: u64,
        part_type: &str,
        kind: &str,
        label: &str,
    ) -> String {
        let on_it = |b: &&Block| b.whole.as_deref() == Some(whole);
        let number = self.blocks.values().filter(on_it).count() as u32 + 1;
        let start = self
            .blocks
            .values()
            .filter(on_it)
            .map(|b| b.start + b.size)
            .max()
            .unwrap_or(1 << 20);
        let (drive, diskseq) = match self.blocks.get_mut(whole) {
            Some(disk) => {
                disk.table = true;
                disk.blank = false;
                (disk.drive.clone(), disk.diskseq)
            }
            None => (String::new(), 0),
        };
        let name = if whole.ends_with(|c: char| c.is_ascii_digit()) {
            format!("{whole}p{number}")
        } else {
            format!("{whole}{number}")
        };
        let usage = match kind {
            "" => "",
            "swap" => "other",
            "crypto_LUKS" => "crypto",
            _ => "filesystem",
        };
        let block = Block {
            drive,
            whole: Some(whole.to_owned()),
            number,
            start,
            size,
            part_type: part_type.to_owned(),
            usage: usage.to_owned(),
            kind: kind.to_owned(),
            label: label.to_owned(),
            uuid: format!("5eed{number:04}-0000-4000-8000-{diskseq:012}"),
            blank: kind.is_empty(),
            diskseq,
            ..Block::default()
        };
        self.blocks.insert(name.clone(), block);
        name
    }

    /// Mounts a device at this mount point.
    pub fn mount(&mut self, name: &str, point: &str, mounter: Mounter) {
        if let Some(block) = self.blocks.get_mut(name) {
            block.mounts.push(Mount {
                point: point.to_owned(),
                root: "/".to_owned(),
                fstype: block.kind.clone(),
                options: "rw,relatime".to_owned(),
                mounter,
            });
        }
    }

    fn fstab(&mut self, name: &str, point: &str) {
        let uuid = self
            .blocks
            .get(name)
            .map(|b| b.uuid.clone())
            .unwrap_or_default();
        self.mount(name, point, Mounter::Fstab(format!("UUID={uuid}")));
    }
}

/// Describes a drive.
pub fn drive(
    vendor: &str,
    model: &str,
    serial: &str,
    size: u64,
    rotation: i32,
    bus: &str,
) -> Drive {
    Drive {
        vendor: vendor.to_owned(),
        model: model.to_owned(),
        serial: serial.to_owned(),
        size,
        rotation,
        bus: bus.to_owned(),
        removable: false,
        health: SsdHealth::unknown(),
    }
}

/// The health of an SSD in good condition.
fn good(used_percent: i32, hours_on: u64) -> SsdHealth {
    SsdHealth {
        report: SelfReport::Good,
        used_percent,
        hours_on,
        // The first of November 2026.
        read_at: 1_793_491_200,
    }
}

/// The machine at its first start.
pub fn scene() -> Scene {
    let mut s = Scene {
        boot: "simulated-boot-1".to_owned(),
        module: ModuleState::Available,
        problem: None,
        key: SigningKey::NotNeeded,
        kernels: Vec::new(),
        stall_limit: Duration::from_secs(120),
        sample_period: Duration::from_secs(1),
        memory_available: 8 << 30,
        fail_next: None,
        authorized: true,
        drives: BTreeMap::new(),
        blocks: BTreeMap::new(),
        maps: BTreeMap::new(),
        next_diskseq: 0,
        drain_rate: super::dirt::RATE,
        lost: 0,
        held: BTreeMap::new(),
        work: BTreeMap::new(),
        other_load: 0,
        others: Vec::new(),
        removals: BTreeMap::new(),
        grub_disk: None,
        away: Vec::new(),
    };

    let system = s.plug(drive(
        "",
        "Samsung SSD 970 EVO 500GB",
        "S5H7NS0N123456",
        500 * GB,
        0,
        "nvme",
    ));
    let efi = s.part(&system, 536 * MB, EFI, "vfat", "EFI");
    s.fstab(&efi, "/boot/efi");
    let boot = s.part(&system, GB, LINUX, "ext4", "boot");
    s.fstab(&boot, "/boot");
    let root = s.part(&system, 200 * GB, LINUX, "ext4", "root");
    s.fstab(&root, "/");
    let swap = s.part(&system, 16 * GB, SWAP, "swap", "");
    if let Some(block) = s.blocks.get_mut(&swap) {
        block.swap = true;
    }
    let luks = s.part(&system, 100 * GB, LINUX, "crypto_LUKS", "");
    let private = Block {
        size: 100 * GB - (16 << 20),
        usage: "filesystem".into(),
        kind: "ext4".into(),
        label: "Private".into(),
        uuid: "5eed9000-0000-4000-8000-000000000001".into(),
        diskseq: 900,
        backing: Some((luks, "luks".into())),
        ..Block::default()
    };
    s.blocks.insert("dm-0".into(), private);
    s.mount("dm-0", "/media/anna/Private", Mounter::Udisks(1000));

    let disk = s.plug(drive(
        "WDC",
        "WD40EZRZ-00GXCB0",
        "WD-WCC7K4ABCDEF",
        4000 * GB,
        5400,
        "ata",
    ));
    let archive = s.part(&disk, 3000 * GB, LINUX, "ext4", "Archive");
    s.mount(&archive, "/media/anna/Archive", Mounter::Udisks(1000));
    s.part(&disk, 999 * GB, BASIC, "ntfs", "Windows");

    let data = s.plug(drive(
        "",
        "TOSHIBA DT01ACA200",
        "Y5NH1A2GS",
        2000 * GB,
        7200,
        "ata",
    ));
    let srv = s.part(&data, 1999 * GB, LINUX, "ext4", "Projects");
    s.fstab(&srv, "/srv/projects");
    if let Some(block) = s.blocks.get_mut(&srv) {
        let user = |pid, command: &str| FileUser {
            pid,
            command: command.into(),
            uid: 1000,
            user: "anna".into(),
        };
        block.users = vec![user(4711, "bash"), user(4720, "gimp")];
    }

    let mut empty = drive(
        "",
        "Samsung SSD 870 EVO 250GB",
        "S6PENX0R654321",
        250 * GB,
        0,
        "ata",
    );
    empty.health = good(6, 9_300);
    s.plug(empty);

    let mut used = drive("", "CT500MX500SSD1", "2148E5A1B2C3", 500 * GB, 0, "ata");
    used.health = good(11, 14_200);
    let used = s.plug(used);
    s.part(&used, 499 * GB, LINUX, "ext4", "Games");

    let unknown = s.plug(drive(
        "KINGSTON",
        "SA400S37120G",
        "50026B7782ABCDEF",
        120 * GB,
        0,
        "ata",
    ));
    if let Some(block) = s.blocks.get_mut(&unknown) {
        block.blank = false;
    }

    s.plug(drive(
        "",
        "Transcend TS32MSSD",
        "TS32M0001",
        32 << 20,
        0,
        "ata",
    ));

    let stick = s.plug(drive(
        "SanDisk",
        "Ultra",
        "4C530001230515",
        32 * GB,
        -1,
        "usb",
    ));
    s.part(&stick, 31 * GB, "0xc", "vfat", "STICK");
    s
}
