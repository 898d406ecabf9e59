// SPDX-License-Identifier: GPL-3.0-or-later
//! How assembling queries and changes the machine, without the order of the steps.

use crate::machine::blocks::{BlockDevice, Found, Machine, ssd_among};
use crate::machine::dm::control::Control;
use crate::machine::dm::mapping::Mapping;
use crate::machine::dm::table::{Linear, Tandem};
use crate::machine::loaded::LoadedDevices;
use crate::machine::mounts::held;
use crate::machine::mounts::table;
use crate::machine::superblock;
use crate::machine::udev_files;
use crate::machine::wipe;
use crate::model::action::Pair;
use crate::model::facts::Ident;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use tandem_api::Target;

/// Why a disk is not held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum HoldError {
    /// A program uses the disk, or can use and write it.
    #[error("{0}")]
    InUse(String),
    /// No program can write to the disk now: the disk does not answer, or is write-protected.
    #[error("{0}")]
    NotWritable(String),
}

impl HoldError {
    /// A word for the kind of error.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InUse(_) => "in-use",
            Self::NotWritable(_) => "not-writable",
        }
    }
}

/// The machine that starts. A test has its own implementation.
pub(super) trait BootEnvironment {
    /// Whether device-mapper is there; without it no disk can be held and no cache mapped.
    ///
    /// # Errors
    /// Why there is none.
    fn device_mapper(&self) -> Result<(), String>;
    /// Whether udev has block devices to handle, which no search finds before.
    fn udev_is_busy(&self) -> bool;
    /// Whether the start of the machine waits for a device of fstab or crypttab.
    fn awaits_devices(&self) -> bool;
    /// Looks for a recorded disk.
    fn find(&self, record: &Ident) -> Found;
    /// Looks for the SSD of a cache.
    fn find_ssd(&self, pair: &Pair) -> Option<BlockDevice>;
    /// The mapping of this cache as the kernel has it.
    fn mapping(&self, pair: &Pair) -> Mapping;
    /// Whether udev runs this program for the disk, and not for another device.
    fn called_for(&self, disk: &BlockDevice) -> bool;
    /// Keeps these disks from every program, and reads nothing. `needed`: so many disks, counted from the first, have
    /// to be held.
    fn hold(&self, pair: &Pair, disks: &[BlockDevice], needed: usize) -> Result<(), HoldError>;
    /// Waits, so that a program that has a disk open for a moment can close it.
    fn pause(&self);
    /// Begins the start: see [`held::begin_start`].
    fn begin(&self);
    /// Ends the start: see [`held::end_start`].
    fn end(&self, may_be_held: bool) -> io::Result<()>;
    /// Makes the start of the machine leave out the file systems of these disks, as far as links lead to the disks now.
    /// Does nothing for those that are left out already.
    fn leave_out(&self, held: &[(&Pair, &BlockDevice)]) -> io::Result<()>;
    /// Reads the SSD, and puts the cache in force. If that fails, a disk that was held may not be held any more.
    fn map(&self, pair: &Pair, disk: &BlockDevice, ssd: &BlockDevice) -> Result<(), String>;
    /// Starts the service once the machine is up. From then on the service follows the devices that come and go.
    fn start_service(&self) -> io::Result<()>;
}

/// The machine.
pub(super) struct System {
    control: Result<Control, String>,
    machine: Machine,
    /// The root file system is not mounted yet, and the records are copies, which may be old.
    in_initramfs: bool,
}

impl System {
    pub(super) fn new(machine: Machine) -> Self {
        let control = Control::open().map_err(|e| e.to_string());
        if let Err(e) = &control {
            tracing::error!("no cache is assembled: {e}");
        }
        Self {
            control,
            machine,
            in_initramfs: false,
        }
    }

    pub(super) fn in_initramfs() -> Self {
        Self {
            in_initramfs: true,
            ..Self::new(Machine::default())
        }
    }

    fn control(&self) -> Result<&Control, String> {
        self.control.as_ref().map_err(Clone::clone)
    }

    fn block_devices(&self) -> Vec<BlockDevice> {
        self.machine.block_devices().unwrap_or_else(|e| {
            tracing::error!("cannot list the block devices: {e}");
            Vec::new()
        })
    }
}

/// Whether the disk may have been written through the mapping while its SSD did not answer.
///
/// The writes after the loss change none of the places that the module watches if no file system is mounted or unmounted
/// meanwhile, and the SSD still says what it said before. The service records the loss on the root file system, which
/// cannot be read yet. After a stop in order the SSD answered until the end.
fn may_have_lost_its_ssd(ssd: &impl FileExt, pair: &Pair) -> bool {
    !superblock::stopped(ssd, &pair.uuid).unwrap_or(false)
}

impl BootEnvironment for System {
    fn device_mapper(&self) -> Result<(), String> {
        self.control().map(drop)
    }

    fn udev_is_busy(&self) -> bool {
        udev_files::is_busy()
    }

    fn awaits_devices(&self) -> bool {
        table::waits_at_start(udev_files::has_handled).unwrap_or(true)
    }

    fn find(&self, record: &Ident) -> Found {
        Found::among(&self.block_devices(), record)
    }

    fn find_ssd(&self, pair: &Pair) -> Option<BlockDevice> {
        ssd_among(&self.block_devices(), pair)
    }

    fn mapping(&self, pair: &Pair) -> Mapping {
        let asked = self.control().map(|control| control.mapping(pair));
        asked.map_or(Mapping::None, |asked| {
            asked.unwrap_or_else(|e| {
                tracing::error!("{e}");
                Mapping::None
            })
        })
    }

    fn hold(&self, pair: &Pair, disks: &[BlockDevice], needed: usize) -> Result<(), HoldError> {
        let table = |disk: &BlockDevice| Linear {
            device: disk.number.clone(),
            sectors: disk.sectors(),
        };
        let tables: Vec<_> = disks.iter().map(table).collect();
        let control = self.control().map_err(HoldError::InUse)?;
        let held = control.hold(pair, &tables, needed);
        held.map_err(
            |e| match disks.iter().take(needed).any(BlockDevice::writable) {
                true => HoldError::InUse(e.to_string()),
                false => HoldError::NotWritable(e.to_string()),
            },
        )
    }

    fn called_for(&self, disk: &BlockDevice) -> bool {
        self.machine.is_about(disk)
    }

    fn pause(&self) {
        std::thread::sleep(wipe::PAUSE);
    }

    fn begin(&self) {
        // In the initial file system no unit runs `--end-start` after a kill, and later drop-ins would not be read.
        if !self.in_initramfs
            && let Err(e) = held::begin_start()
        {
            tracing::warn!("systemd reads its units for each held disk: {e}");
        }
    }

    fn end(&self, may_be_held: bool) -> io::Result<()> {
        if self.in_initramfs {
            return Ok(());
        }
        held::end_start(may_be_held)
    }

    fn leave_out(&self, held: &[(&Pair, &BlockDevice)]) -> io::Result<()> {
        held::leave_out(held)
    }

    fn map(&self, pair: &Pair, disk: &BlockDevice, ssd: &BlockDevice) -> Result<(), String> {
        let file = File::open(ssd.ident.node()).map_err(|e| e.to_string())?;
        let carried = superblock::read(&file).map_err(|e| e.to_string())?;
        let carried = carried.filter(|carried| carried.uuid == pair.uuid);
        // Memory is empty after a restart.
        let is_new = pair.ssd.is_memory() && carried.is_none();
        let known = match &carried {
            Some(carried) if pair.target == Target::Tandem => carried.origin_sectors,
            None if !is_new => {
                return Err(format!("{} does not hold this cache any more", ssd.name()));
            }
            _ => disk.sectors(),
        };
        let unknown = self.in_initramfs && may_have_lost_its_ssd(&file, pair);
        let table = Tandem {
            origin: disk.number.clone(),
            ssd: ssd.number.clone(),
            mode: pair.mode,
            uuid: pair.uuid.clone(),
            origin_id: pair.origin_id.clone(),
            new: is_new,
            start_cold: !is_new && (pair.starts_cold(&disk.ident) || unknown),
            lost_generation: if is_new { 0 } else { pair.lost_generation },
            dirty_limit: pair.dirty_limit,
        };
        let devices = LoadedDevices::new(&table, &disk.ident, &ssd.ident);
        let check = |ours: &str| devices.check(ours);
        let lengths = [known, disk.sectors()];
        let mapped = self.control()?.map_and_grow(pair, &table, lengths, check);
        mapped.map_err(|e| e.to_string())
    }

    fn start_service(&self) -> io::Result<()> {
        if self.in_initramfs {
            return Ok(());
        }
        // An SSD of a cache or a desktop would start the service, but perhaps neither is there.
        held::systemctl(&["start", "--no-block", "tandem-wake.service"])
    }
}

#[cfg(test)]
pub(super) mod fake {
    use super::*;
    use std::cell::RefCell;

    /// A machine that records each call.
    #[derive(Default)]
    pub struct Fake {
        /// Serial numbers of the devices that are there.
        pub there: Vec<&'static str>,
        /// Serial numbers of disks of which a device is there that does not agree with the whole record.
        pub elsewhere: Vec<&'static str>,
        /// There is no device-mapper.
        pub without_device_mapper: bool,
        /// The errors of the next attempts to hold a disk, the last one first.
        pub hold_errors: RefCell<Vec<HoldError>>,
        /// Serial number of the disk that can never be held.
        pub taken: Option<&'static str>,
        /// Devices that udev handles while the first device is looked for.
        pub unhandled: RefCell<Vec<&'static str>>,
        /// udev runs the program for another device.
        pub other_event: bool,
        /// What happens during a pause.
        pub meanwhile: Option<Box<dyn Fn()>>,
        /// No mapping can be made.
        pub map_fails: bool,
        /// The mapping of every cache.
        pub mapping: RefCell<Option<Mapping>>,
        /// udev has not made the links to the disks yet.
        pub without_links: bool,
        /// Names and numbers of the disks that are left out.
        pub left_out: RefCell<Vec<(String, String)>>,
        /// Number of all devices, instead of 0:0.
        pub renumbered: Option<&'static str>,
        pub done: RefCell<Vec<String>>,
    }

    impl Fake {
        fn note(&self, text: String) {
            self.done.borrow_mut().push(text);
        }

        fn device(&self, serial: &str) -> BlockDevice {
            let mut device = BlockDevice::default();
            device.ident.text.name = format!("disk-{serial}");
            let number = format!("0:{}", serial.len());
            device.number = self.renumbered.map_or(number, str::to_owned);
            device
        }
    }

    impl BootEnvironment for Fake {
        fn device_mapper(&self) -> Result<(), String> {
            match self.without_device_mapper {
                true => Err("open the control device".to_owned()),
                false => Ok(()),
            }
        }

        fn udev_is_busy(&self) -> bool {
            !self.unhandled.borrow().is_empty()
        }

        fn awaits_devices(&self) -> bool {
            !self.unhandled.borrow().is_empty()
        }

        fn find(&self, record: &Ident) -> Found {
            let serial = record.text.serial.as_str();
            let seen = |list: &[&str]| list.contains(&serial).then(|| self.device(serial));
            let missed = self.unhandled.take();
            let recorded = seen(&self.there).filter(|_| !missed.contains(&serial));
            let similar = seen(&self.elsewhere).map(|mut device| {
                device.ident.text.name = format!("copy-{serial}");
                device.number = "9:9".to_owned();
                device
            });
            Found {
                possible: recorded.iter().cloned().chain(similar).collect(),
                recorded,
            }
        }

        fn find_ssd(&self, pair: &Pair) -> Option<BlockDevice> {
            self.find(&pair.ssd).recorded
        }

        fn mapping(&self, _: &Pair) -> Mapping {
            self.mapping.borrow().clone().unwrap_or(Mapping::None)
        }

        fn hold(&self, _: &Pair, disks: &[BlockDevice], needed: usize) -> Result<(), HoldError> {
            let mut needed = disks.iter().take(needed);
            let mut ends = |name: &str| needed.any(|disk| disk.name().ends_with(name));
            let taken = self.taken.is_some_and(&mut ends);
            let taken = taken.then(|| HoldError::InUse("taken".to_owned()));
            match taken.or_else(|| self.hold_errors.borrow_mut().pop()) {
                Some(error) => Err(error),
                None => {
                    let names: Vec<_> = disks.iter().map(BlockDevice::name).collect();
                    self.note(format!("hold {}", names.join(" ")));
                    let numbers = disks.iter().map(|disk| disk.number.clone()).collect();
                    *self.mapping.borrow_mut() = Some(Mapping::Holds(numbers));
                    Ok(())
                }
            }
        }

        fn called_for(&self, _: &BlockDevice) -> bool {
            !self.other_event
        }

        fn pause(&self) {
            // A series of pauses is recorded once.
            if self.done.borrow().last().is_none_or(|last| last != "pause") {
                self.note("pause".to_owned());
            }
            if let Some(happens) = &self.meanwhile {
                happens();
            }
        }

        fn begin(&self) {}

        fn end(&self, may_be_held: bool) -> io::Result<()> {
            if may_be_held {
                self.note("read what is left out".to_owned());
            }
            Ok(())
        }

        fn leave_out(&self, held: &[(&Pair, &BlockDevice)]) -> io::Result<()> {
            for (_, disk) in held.iter().filter(|_| !self.without_links) {
                let disk = (disk.name().to_owned(), disk.number.clone());
                if !self.left_out.borrow().contains(&disk) {
                    self.note(format!("leave out {}", disk.0));
                    self.left_out.borrow_mut().push(disk);
                }
            }
            Ok(())
        }

        fn map(&self, _: &Pair, disk: &BlockDevice, _: &BlockDevice) -> Result<(), String> {
            self.note(format!("map {}", disk.name()));
            match self.map_fails {
                true => Err("no".to_owned()),
                false => Ok(()),
            }
        }

        fn start_service(&self) -> io::Result<()> {
            self.note("start the service".to_owned());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::superblock::tests::sampled;
    use tandem_api::Mode;

    // promise 19: programs/tandem_helper::start::boot::environment::tests::a_crash_of_the_running_system_may_hide_the_loss_of_its_ssd
    #[test]
    fn a_crash_of_the_running_system_may_hide_the_loss_of_its_ssd() {
        let path = std::env::temp_dir().join(format!("tandem-lost-{}", std::process::id()));
        let options = &mut File::options();
        let ssd = options.read(true).write(true).create(true).truncate(true);
        let ssd = ssd.open(&path).unwrap();
        ssd.set_len(superblock::AREA_BYTES).unwrap();
        let pair = Pair {
            uuid: "ab".repeat(16),
            ..Pair::nowhere(Mode::Writethrough)
        };
        // No sound copy, running, stopped.
        for (state, lost) in [(0, true), (1, true), (2, false)] {
            for (copy, offset) in (0..).zip(superblock::OFFSETS) {
                let bytes = match state {
                    0 => [0; superblock::BYTES],
                    _ => sampled(copy, 7, state),
                };
                let offset = offset + superblock::BYTES as u64;
                ssd.write_all_at(&bytes, offset).unwrap();
            }
            assert_eq!(may_have_lost_its_ssd(&ssd, &pair), lost, "{state}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
