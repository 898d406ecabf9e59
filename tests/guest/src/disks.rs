// SPDX-License-Identifier: GPL-3.0-or-later
//! The disks of the scenarios: a slow hard disk that carries files, and an empty SSD.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::vm::Disk;
use tandem_harness::run;

/// File system UUID of the origin's partition.
pub const ORIGIN_FS: &str = "7a0de5a1-0c1d-4e55-9f00-5ec0de0d15c5";
const MIB: u64 = 1 << 20;
/// Size of the SSD; sparse on the host.
const SSD_MIB: u64 = 128;
/// Serial number of the swap disk.
pub const SWAP_SERIAL: &str = "RAFT0001";
/// Size of the swap disk; sparse on the host.
const SWAP_MIB: u64 = 2048;
/// A hard disk and its files.
struct Size {
    product: &'static str,
    /// Size of the disk in MiB; sparse on the host.
    mib: u64,
    /// How many files there are, and how long each is in KiB.
    files: [(u32, u64); 3],
}

const USUAL: Size = Size {
    product: "Barge 256",
    mib: 256,
    files: [(40, 32), (12, 1024), (3, 12 * 1024)],
};
const SMALL: Size = Size {
    product: "Barge 144",
    mib: 144,
    files: [(40, 32), (12, 1024), (1, 8 * 1024)],
};

/// A directory for temporary disks; in memory where there is room.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the directory.
    pub fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!(
            "tandem-disks-{}-{}",
            std::process::id(),
            crate::vm::unique()
        ));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self(dir))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies the content of a disk.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut copy = run::cmd("cp", ["--sparse=always", "--reflink=auto"]);
    run::output(copy.arg(from).arg(to)).map(drop)
}

/// A hard disk with one ext4 partition full of files, and an empty SSD.
pub struct Pair {
    /// The hard disk.
    pub origin: Disk,
    /// The SSD.
    pub ssd: Disk,
}

/// Makes both disks in `scratch`.
pub fn pair(scratch: &Scratch) -> Result<Pair> {
    sized(scratch, &USUAL)
}

/// As [`pair`], with a smaller hard disk, which is soon read as a whole. It is still larger than the SSD: the app offers no
/// cache for another.
pub fn small_pair(scratch: &Scratch) -> Result<Pair> {
    sized(scratch, &SMALL)
}

fn sized(scratch: &Scratch, size: &Size) -> Result<Pair> {
    let origin = Disk {
        file: scratch.path().join("origin.raw"),
        vendor: "Seagull",
        product: size.product,
        serial: "BARGE0001",
        wwn: 0x5000_c500_0000_0001,
        rotation_rate: 7200,
        read_only: false,
    };
    let ssd = Disk {
        file: scratch.path().join("ssd.raw"),
        vendor: "Swift",
        product: "Dart 128",
        serial: "DART0001",
        wwn: 0x5002_5380_0000_0001,
        rotation_rate: 1,
        read_only: false,
    };
    File::create(&ssd.file)?.set_len(SSD_MIB * MIB)?;
    let tree = scratch.path().join("files");
    write_files(&tree, size)?;
    partitioned(&origin.file, &tree, size.mib)?;
    Ok(Pair { origin, ssd })
}

/// An empty disk that has room for the machine's memory.
pub fn swap(scratch: &Path) -> Result<Disk> {
    let disk = Disk {
        file: scratch.join("swap.raw"),
        vendor: "Seagull",
        product: "Raft 2",
        serial: SWAP_SERIAL,
        wwn: 0x5000_c500_0000_0003,
        rotation_rate: 7200,
        read_only: false,
    };
    File::create(&disk.file)?.set_len(SWAP_MIB * MIB)?;
    Ok(disk)
}

/// An empty hard disk or SSD.
pub fn empty(
    scratch: &Path,
    serial: &'static str,
    wwn: u64,
    mib: u64,
    is_ssd: bool,
) -> Result<Disk> {
    let file = scratch.join(serial);
    File::create(&file)?.set_len(mib * MIB)?;
    Ok(Disk {
        file,
        vendor: if is_ssd { "Swift" } else { "Seagull" },
        product: if is_ssd { "Dart 80" } else { "Barge 64" },
        serial,
        wwn,
        rotation_rate: if is_ssd { 1 } else { 7200 },
        read_only: false,
    })
}

/// Serial number of the disk that [`tools`] makes.
pub const TOOLS_SERIAL: &str = "TOOLS001";

/// A disk with a tar file of these files of `dir`.
pub fn tools<'a>(dir: &Path, files: impl IntoIterator<Item = &'a str>) -> Result<Disk> {
    let file = dir.join("tools.tar");
    let mut pack = run::cmd("tar", ["--create", "--file"]);
    pack.arg(&file).arg("--directory").arg(dir);
    run::output(pack.args(files))?;
    Ok(Disk {
        file,
        vendor: "Tandem",
        product: "Tools",
        serial: TOOLS_SERIAL,
        wwn: 0x5000_0000_0000_00ab,
        rotation_rate: 1,
        read_only: true,
    })
}

/// UUID of the partition that [`system`] makes.
pub const SYSTEM_PART: &str = "5ec0de0d-0002-4000-8000-7a0de5a10001";

/// A hard disk with one partition that holds a copy of this root file system, and an empty SSD.
pub fn system(scratch: &Scratch, root: &Path) -> Result<Pair> {
    system_with(scratch, root, &[])
}

/// As [`system`]. Behind the partition of the system, the disk has one for GRUB's own code, as a start by BIOS needs, and
/// one of 256 MiB for /boot, without a file system.
pub fn system_by_bios(scratch: &Scratch, root: &Path) -> Result<Pair> {
    let grub = "type=21686148-6449-6E6F-744E-656564454649, name=\"grub\"";
    let boot = "type=linux, name=\"boot\"";
    system_with(scratch, root, &[(1, grub), (256, boot)])
}

fn system_with(scratch: &Scratch, root: &Path, behind: &[(u64, &str)]) -> Result<Pair> {
    let origin = Disk {
        file: scratch.path().join("system.raw"),
        vendor: "Seagull",
        product: "Frigate 2",
        serial: "FRIGATE01",
        wwn: 0x5000_c500_0000_0002,
        rotation_rate: 7200,
        read_only: false,
    };
    let ssd = Disk {
        file: scratch.path().join("system-ssd.raw"),
        vendor: "Swift",
        product: "Arrow 512",
        serial: "ARROW0001",
        wwn: 0x5002_5380_0000_0002,
        rotation_rate: 1,
        read_only: false,
    };
    File::create(&ssd.file)?.set_len(4 * SSD_MIB * MIB)?;
    let mib = fs::metadata(root)?.len() / MIB;
    let name = format!("name=\"system\", uuid={SYSTEM_PART}");
    with_partitions(&origin.file, mib, &name, behind)?;
    let mut copy = run::cmd(
        "dd",
        ["bs=1M", "seek=1", "conv=notrunc,sparse", "status=none"],
    );
    copy.arg(format!("if={}", root.display()))
        .arg(format!("of={}", origin.file.display()));
    run::output(&mut copy)?;
    Ok(Pair { origin, ssd })
}

/// A file of the file system that a disk of [`system`] holds, as it is on the disk alone.
pub fn file_on_system(disk: &Disk, path: &str, to: &Path) -> Result<()> {
    let dump = format!("dump {path} {}", to.display());
    let image = format!("{}?offset={MIB}", disk.file.display());
    run::output(run::cmd("/sbin/debugfs", ["-R", &dump]).arg(&image))?;
    if !to.is_file() {
        // A boot loader does not see either what only the journal has.
        let told = run::output(run::cmd("/sbin/dumpe2fs", ["-h"]).arg(&image))?;
        let whole = !told.contains("needs_recovery");
        anyhow::bail!("the disk has no {path}; its journal is written out: {whole}");
    }
    Ok(())
}

/// Changes a small file of the file system that a disk of [`system`] holds, as GRUB does: in its first block, on the disk
/// alone. `old` and `new` have one length.
pub fn change_in_block(disk: &Disk, path: &str, old: &str, new: &str) -> Result<()> {
    let image = format!("{}?offset={MIB}", disk.file.display());
    let ask = |program: &str, words: &[&str]| run::output(run::cmd(program, words).arg(&image));
    let told = ask("/sbin/dumpe2fs", &["-h"])?;
    let size = told.lines().find_map(|l| l.strip_prefix("Block size:"));
    let size: u64 = size.context("the file system has blocks")?.trim().parse()?;
    let block = ask("/sbin/debugfs", &["-R", &format!("bmap {path} 0")])?;
    let block: u64 = block.trim().parse().context(block)?;
    let text = ask("/sbin/debugfs", &["-R", &format!("cat {path}")])?;
    let at = text.find(old).context("the file has no such text")?;
    anyhow::ensure!(old.len() == new.len(), "{old} and {new} differ in length");
    let at = MIB + block * size + u64::try_from(at)?;
    let file = File::options().write(true).open(&disk.file)?;
    Ok(file.write_all_at(new.as_bytes(), at)?)
}

/// A GPT with one Linux partition from 1 MiB on, which holds `tree` as ext4.
fn partitioned(file: &Path, tree: &Path, mib: u64) -> Result<()> {
    let name = "name=\"archive\", uuid=5EC0DE0D-0001-4000-8000-7A0DE5A10001";
    with_partitions(file, mib - 2, name, &[])?;
    let size = format!("{}k", (mib - 2) * 1024);
    let mut mke2fs = run::cmd(
        "/sbin/mke2fs",
        ["-q", "-F", "-t", "ext4", "-L", "Archive", "-U", ORIGIN_FS],
    );
    mke2fs.args([
        "-E",
        "offset=1048576,root_owner=1000:1000,lazy_itable_init=0,lazy_journal_init=0",
        "-d",
    ]);
    run::output(mke2fs.arg(tree).arg(file).arg(size)).map(drop)
}

/// A GPT with a Linux partition of `mib` MiB from 1 MiB on, and others `behind` that partition, each with its size in MiB.
/// `name`: name and UUID of the first, as sfdisk reads them.
fn with_partitions(file: &Path, mib: u64, name: &str, behind: &[(u64, &str)]) -> Result<()> {
    let others: u64 = behind.iter().map(|(mib, _)| mib).sum();
    File::create(file)?.set_len((mib + others + 2) * MIB)?;
    let mut sfdisk = run::cmd("/sbin/sfdisk", ["--quiet", "--label", "gpt"])
        .arg(file)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .context("cannot start sfdisk")?;
    let sectors = mib * MIB / 512;
    let mut table = format!("start=2048, size={sectors}, type=linux, {name}\n");
    for (mib, words) in behind {
        table += &format!("size={}, {words}\n", mib * MIB / 512);
    }
    sfdisk
        .stdin
        .take()
        .context("sfdisk has an input")?
        .write_all(table.as_bytes())?;
    anyhow::ensure!(sfdisk.wait()?.success(), "sfdisk failed");
    Ok(())
}

/// Files whose contents no compression or deduplication shortens, the same at every run.
fn write_files(tree: &Path, size: &Size) -> Result<()> {
    let mut state = 0x7a0d_e5a1_u64;
    for (count, kib) in size.files {
        let dir = tree.join(format!("{kib} KiB"));
        fs::create_dir_all(&dir)?;
        for number in 0..count {
            let mut bytes = Vec::with_capacity(usize::try_from(kib * 1024)?);
            while bytes.len() as u64 != kib * 1024 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                bytes.extend((state ^ (state >> 29)).to_le_bytes());
            }
            fs::write(dir.join(format!("{number:03}.bin")), bytes)?;
        }
    }
    Ok(())
}

/// Changes a byte in both superblocks of an SSD.
pub fn damage_superblocks(ssd: &Path) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().read(true).write(true).open(ssd)?;
    for at in [100, (512 << 10) + 100] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 1], at)?;
    }
    Ok(())
}
