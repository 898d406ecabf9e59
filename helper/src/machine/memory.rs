// SPDX-License-Identifier: GPL-3.0-or-later
//! Caches in the computer's memory: a compressed device of the kernel (zram) takes the place of the SSD.
//!
//! The service may not write to sysfs. So `tandem-assemble memory` makes and removes the devices: in a unit of its own when the
//! service asks, and before the caches are assembled at a start. It notes which device belongs to which cache in a file for
//! each cache in [`NOTES`], which is gone after a restart, as the devices are.

use crate::machine::store::Store;
use crate::machine::sysfs::{SYSFS, line};
use crate::model::memory::Room;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The folder of the notes. Each file has the UUID of a cache as its name, and the kernel name and the sequence number
/// (`diskseq`) of its device as its content.
pub const NOTES: &str = "/run/tandem/memory";
/// Exit status of `tandem-assemble memory` if the kernel has no zram.
pub const ABSENT: u8 = 3;
/// The program that loads the kernel's zram.
const MODPROBE: &str = "/sbin/modprobe";
/// udev's programs open each new device for a moment.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// The memory of the computer now; `None` if the kernel does not tell.
pub fn room() -> Option<Room> {
    room_in(&crate::read_lossy("/proc/meminfo").ok()?)
}

fn room_in(text: &str) -> Option<Room> {
    let value = |name: &str| -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    Some(Room {
        total: value("MemTotal:")?,
        available: value("MemAvailable:")?,
    })
}

/// The UUID of the cache whose memory this device is; `None` for any other device. `diskseq`: its sequence number now.
pub fn owner(name: &str, diskseq: u64) -> Option<String> {
    if !name.starts_with("zram") {
        return None;
    }
    let noted = Note {
        name: name.to_owned(),
        diskseq,
    };
    let files = fs::read_dir(NOTES).ok()?.filter_map(Result::ok);
    let mut ours = files.filter(|file| Note::read(&file.path()).is_some_and(|note| note == noted));
    ours.next()?.file_name().into_string().ok()
}

/// The device of a cache.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    name: String,
    diskseq: u64,
}

impl Note {
    fn read(path: &Path) -> Option<Self> {
        let text = line(path)?;
        let (name, diskseq) = text.split_once(' ')?;
        Some(Self {
            name: name.to_owned(),
            diskseq: diskseq.parse().ok()?,
        })
    }
}

/// The devices of the computer, and the notes of them.
pub struct Devices {
    sysfs: PathBuf,
    notes: PathBuf,
}

impl Default for Devices {
    fn default() -> Self {
        Self {
            sysfs: PathBuf::from(SYSFS),
            notes: PathBuf::from(NOTES),
        }
    }
}

impl Devices {
    /// Makes the devices of all caches on record. A cache whose device cannot be made is reported in the log.
    pub fn make_all(&self, store: &Store) {
        for record in store.caches() {
            let ssd = &record.pair.ssd;
            if record.detached_in.is_none()
                && ssd.is_memory()
                && let Err(e) = self.make(&record.pair.uuid, ssd.text.size)
            {
                tracing::error!(uuid = record.pair.uuid, "no memory for the cache: {e}");
            }
        }
    }

    /// Makes the empty device of a cache. A device that the cache has already is replaced. If a mapping uses the device, which
    /// a killed service may have left, the device stays as it is.
    ///
    /// # Errors
    /// `InvalidInput` if this is no UUID, `NotFound` if the kernel has no zram; what the kernel says if it refuses the device.
    pub fn make(&self, uuid: &str, bytes: u64) -> io::Result<()> {
        let path = self.note(uuid)?;
        if let Some(note) = self.noted(&path) {
            match self.remove(&note.name) {
                Err(e) if e.kind() == ErrorKind::ResourceBusy => return Ok(()),
                removed => removed?,
            }
        }
        let control = self.sysfs.join("class/zram-control/hot_add");
        if !control.exists() {
            let status = Command::new(MODPROBE).args(["-q", "zram"]).status()?;
            tracing::debug!("{MODPROBE} zram: {status}");
        }
        // The kernel makes a device for each read.
        let number = line(&control).ok_or(ErrorKind::NotFound)?;
        let name = format!("zram{number}");
        let noted = || -> io::Result<()> {
            let diskseq =
                line(self.folder(&name).join("diskseq")).unwrap_or_else(|| "0".to_owned());
            fs::create_dir_all(&self.notes)?;
            fs::write(&path, format!("{name} {diskseq}\n"))?;
            self.set(&name, "disksize", &bytes.to_string())
        };
        noted().inspect_err(|e| {
            let _ = fs::remove_file(&path);
            // Another program has taken the device in the moment before it had a size.
            if e.kind() != ErrorKind::ResourceBusy {
                let _ = self.remove(&name);
            }
        })
    }

    /// Gives the memory of a cache back. Nothing is done if the cache has none.
    ///
    /// # Errors
    /// `InvalidInput` if this is no UUID; `ResourceBusy` if the device stays in use.
    pub fn give_back(&self, uuid: &str) -> io::Result<()> {
        let path = self.note(uuid)?;
        if let Some(note) = self.noted(&path) {
            self.remove(&note.name)?;
        }
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// The file of a note. A UUID is checked, because the name of the file comes from it.
    fn note(&self, uuid: &str) -> io::Result<PathBuf> {
        let is_uuid = uuid.len() == 32 && uuid.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_uuid {
            true => Ok(self.notes.join(uuid)),
            false => Err(ErrorKind::InvalidInput.into()),
        }
    }

    /// The device of a note, if it is still the device that was noted.
    fn noted(&self, path: &Path) -> Option<Note> {
        let note = Note::read(path)?;
        let now = line(self.folder(&note.name).join("diskseq"));
        let now = now.map_or(0, |text| text.parse().unwrap_or(0));
        (self.folder(&note.name).exists() && now == note.diskseq).then_some(note)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.sysfs.join("block").join(name)
    }

    fn set(&self, name: &str, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder(name).join(file), value)
    }

    /// Removes a device with its content, in one call of the kernel, which refuses that while the device is open.
    fn remove(&self, name: &str) -> io::Result<()> {
        let number = name.trim_start_matches("zram");
        let control = self.sysfs.join("class/zram-control/hot_remove");
        self.again(|| fs::write(&control, number))
    }

    /// Tries again while the device is in use.
    fn again(&self, change: impl Fn() -> io::Result<()>) -> io::Result<()> {
        for _ in 0..TRIES {
            match change() {
                Err(e) if e.kind() == ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
        change()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0123456789abcdef0123456789abcdef";

    /// A kernel that has made `zram3`.
    fn kernel() -> (tempfile::TempDir, Devices) {
        let root = tempfile::tempdir().unwrap();
        let devices = Devices {
            sysfs: root.path().join("sys"),
            notes: root.path().join("run/memory"),
        };
        let control = devices.sysfs.join("class/zram-control");
        fs::create_dir_all(&control).unwrap();
        fs::create_dir_all(devices.folder("zram3")).unwrap();
        fs::write(control.join("hot_add"), "3\n").unwrap();
        fs::write(devices.folder("zram3").join("diskseq"), "17\n").unwrap();
        (root, devices)
    }

    fn written(devices: &Devices, file: &str) -> Option<String> {
        line(devices.sysfs.join(file))
    }

    #[test]
    fn a_device_is_made_replaced_and_removed() {
        let (_root, devices) = kernel();
        devices.make(UUID, 64 << 20).unwrap();
        let path = devices.note(UUID).unwrap();
        assert_eq!(line(&path).as_deref(), Some("zram3 17"));
        assert_eq!(
            written(&devices, "block/zram3/disksize").as_deref(),
            Some("67108864")
        );
        let control = "class/zram-control/hot_remove";
        assert_eq!(written(&devices, control), None);

        devices.make(UUID, 128 << 20).unwrap();
        assert_eq!(written(&devices, control).as_deref(), Some("3"));
        fs::remove_file(devices.sysfs.join(control)).unwrap();
        assert_eq!(
            written(&devices, "block/zram3/disksize").as_deref(),
            Some("134217728")
        );

        devices.give_back(UUID).unwrap();
        assert_eq!(written(&devices, control).as_deref(), Some("3"));
        assert!(!path.exists());
        devices.give_back(UUID).unwrap();
    }

    /// Another program may have removed the device, and the kernel may have given its name to a new one.
    #[test]
    fn a_device_of_somebody_else_is_left_alone() {
        let (_root, devices) = kernel();
        devices.make(UUID, 64 << 20).unwrap();
        fs::write(devices.folder("zram3").join("diskseq"), "18\n").unwrap();
        fs::remove_file(devices.folder("zram3").join("disksize")).unwrap();
        devices.give_back(UUID).unwrap();
        assert_eq!(written(&devices, "class/zram-control/hot_remove"), None);
    }

    #[test]
    fn a_device_that_cannot_get_its_size_does_not_stay() {
        let (_root, devices) = kernel();
        fs::create_dir(devices.folder("zram3").join("disksize")).unwrap();
        devices.make(UUID, 64 << 20).unwrap_err();
        let removed = written(&devices, "class/zram-control/hot_remove");
        assert_eq!(removed.as_deref(), Some("3"));
        assert!(!devices.note(UUID).unwrap().exists());
    }

    #[test]
    fn only_a_uuid_names_a_note() {
        let (_root, devices) = kernel();
        for text in [
            "",
            "../../../../etc/passwd00000000000",
            "0123",
            &UUID.replace('f', "x"),
        ] {
            assert_eq!(
                devices.make(text, 1).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
            assert_eq!(
                devices.give_back(text).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
        }
    }

    #[test]
    fn the_room_is_read_in_bytes() {
        let text = "MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:    512 kB\n";
        let room = Room {
            total: 2 << 20,
            available: 512 << 10,
        };
        assert_eq!(room_in(text), Some(room));
        assert_eq!(room_in("MemTotal: 2048 kB\n"), None);
    }
}
