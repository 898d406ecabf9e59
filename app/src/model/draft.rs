// SPDX-License-Identifier: GPL-3.0-or-later
//! The choices so far in the wizard, and its pages. Pure.

use tandem_api::{Mode, RefusedMode, Target};

use super::inventory::Device;

/// The pages of the wizard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The person chooses the disk, the SSD, the mode and the size.
    Choices,
    /// Exactly what will be done.
    Review,
    /// The job is under way.
    Progress,
    /// The job is done.
    Done,
}

impl Page {
    /// Name in the stack of pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Choices => "choices",
            Self::Review => "review",
            Self::Progress => "progress",
            Self::Done => "done",
        }
    }
}

/// The facts that tell a chosen device from another device that has come to have the same block path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    model: String,
    serial: String,
    device_bytes: u64,
    /// Bytes of the partition, or of the device as a whole.
    bytes: u64,
}

impl Mark {
    fn of(devices: &[Device], path: &str) -> Option<Self> {
        devices.iter().find_map(|device| {
            let volume = device.volumes.iter().find(|volume| volume.path == path);
            let whole = (device.path == path).then_some(device.size);
            Some(Self {
                model: device.model.clone(),
                serial: device.serial.clone(),
                device_bytes: device.size,
                bytes: whole.or(volume.map(|volume| volume.size))?,
            })
        })
    }
}

/// The user's choices so far. The wizard owns the only draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Block path of the disk.
    pub origin: Option<String>,
    origin_mark: Option<Mark>,
    /// The choice of the SSD, see [`ssd_key`].
    pub ssd: Option<String>,
    /// The person chose the SSD, and the wizard suggests no other.
    ssd_is_own: bool,
    ssd_mark: Option<Mark>,
    /// The first page said that the choice of the SSD erases what is on it.
    pub erases: bool,
    /// Bytes of the cache, if the person chose less than all of [`Self::ssd`].
    pub size: Option<u64>,
    /// How writes are treated, as the person wishes; see [`Self::planned_mode`].
    pub mode: Mode,
    /// The cache is put over the disk when the computer starts next.
    pub at_next_start: bool,
    /// The target that serves the cache.
    pub target: Target,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            origin: None,
            origin_mark: None,
            ssd: None,
            ssd_is_own: false,
            ssd_mark: None,
            erases: false,
            size: None,
            mode: Mode::Writethrough,
            at_next_start: false,
            target: Target::default(),
        }
    }
}

/// The path in the key of a choice of memory in the place of an SSD. No block has it.
pub const MEMORY: &str = "memory";

/// The key of a choice of an SSD: its block path and, for a new partition in its free space, the bytes of the partition.
/// No block path has the sign between them.
#[must_use]
pub fn ssd_key(path: &str, partition_bytes: u64) -> String {
    match partition_bytes {
        0 => path.to_owned(),
        bytes => format!("{path}#{bytes}"),
    }
}

/// Block path of the SSD, and bytes of the new partition, in a key from [`ssd_key`]; 0: no new partition.
#[must_use]
pub fn parts_of_key(key: &str) -> (&str, u64) {
    let (path, bytes) = key.split_once('#').unwrap_or((key, "0"));
    (path, bytes.parse().unwrap_or(0))
}

impl Draft {
    /// Block path of the chosen SSD, and the bytes of the partition to make on it; 0: the cache takes all of it.
    #[must_use]
    pub fn ssd_part(&self) -> Option<(String, u64)> {
        let key = self.ssd.as_deref()?;
        let (path, all) = parts_of_key(key);
        Some((path.to_owned(), self.size.unwrap_or(all)))
    }

    /// Bytes of the computer's memory that are chosen in the place of an SSD.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        let (path, bytes) = self.ssd_part()?;
        (path == MEMORY).then_some(bytes)
    }

    /// Takes the person's choice of an SSD, with all that is offered there. None: the chosen SSD is gone.
    pub fn choose_ssd(&mut self, key: Option<String>) {
        self.ssd_is_own = key.is_some();
        self.take_ssd(key);
    }

    /// Takes the SSD for the usual case, unless the person has chosen one.
    pub fn suggest_ssd(&mut self, key: Option<String>) {
        if !self.ssd_is_own {
            self.take_ssd(key);
        }
    }

    fn take_ssd(&mut self, key: Option<String>) {
        if self.ssd != key {
            self.size = None;
            self.ssd = key;
            self.ssd_mark = None;
            self.erases = false;
        }
    }

    /// Whether disk and SSD are chosen, so that a plan can be made.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.origin.is_some() && self.ssd.is_some()
    }

    /// The mode in which the cache begins. At the next start it begins in a mode that risks nothing; the mode can be
    /// changed after that.
    #[must_use]
    pub fn planned_mode(&self) -> Mode {
        match self.mode {
            Mode::Writeback if self.at_next_start => Mode::Writethrough,
            mode => mode,
        }
    }

    /// Takes the modes that are refused for this disk and this SSD: a refused mode is no longer chosen.
    pub fn offer(&mut self, refused: &[RefusedMode]) {
        if refused.iter().any(|refused| refused.mode == self.mode) {
            self.mode = Mode::Writethrough;
        }
    }

    /// Chooses a disk.
    pub fn choose_origin(&mut self, path: Option<String>) {
        if self.origin != path {
            self.at_next_start = false;
            self.origin = path;
            self.origin_mark = None;
        }
    }

    /// Takes back a choice whose block path belongs to another device now. A device that is gone stays chosen: the
    /// same device may come back. Returns whether a choice was taken back.
    pub fn recognize(&mut self, devices: &[Device]) -> bool {
        let origin = self.origin.as_deref();
        let origin = origin.and_then(|path| Mark::of(devices, path));
        let ssd = self.ssd_part();
        let ssd = ssd.and_then(|(path, _)| Mark::of(devices, &path));
        let is_other = |known: &Option<Mark>, now: &Option<Mark>| {
            known.is_some() && now.is_some() && known != now
        };
        let other_origin = is_other(&self.origin_mark, &origin);
        let other_ssd = is_other(&self.ssd_mark, &ssd);
        self.origin_mark = origin.or(self.origin_mark.take());
        self.ssd_mark = ssd.or(self.ssd_mark.take());
        if other_origin {
            self.choose_origin(None);
        }
        if other_ssd {
            self.choose_ssd(None);
        }
        other_origin || other_ssd
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::inventory::Medium;
    use tandem_api::ModeRefusal;

    #[test]
    fn a_plan_needs_disk_and_ssd() {
        let mut draft = Draft::default();
        assert!(!draft.is_complete());
        draft.choose_origin(Some("/b/sda1".into()));
        assert!(!draft.is_complete());
        draft.suggest_ssd(Some("/b/sdc".into()));
        assert!(draft.is_complete());
    }

    #[test]
    fn what_the_person_chose_is_not_replaced_by_a_suggestion() {
        let mut draft = Draft::default();
        let key = |name: &str| Some(format!("/b/{name}"));
        draft.suggest_ssd(key("sdc"));
        draft.suggest_ssd(key("sdd"));
        assert_eq!(draft.ssd, key("sdd"));
        draft.choose_ssd(key("sdc"));
        draft.suggest_ssd(key("sdd"));
        assert_eq!(draft.ssd, key("sdc"));
        // The chosen SSD is gone.
        draft.choose_ssd(None);
        draft.suggest_ssd(key("sdd"));
        assert_eq!(draft.ssd, key("sdd"));
    }

    #[test]
    fn a_mode_that_is_refused_is_no_longer_chosen() {
        let refused = [RefusedMode {
            mode: Mode::Writeback,
            reason: ModeRefusal::Removable,
        }];
        for (before, after) in [
            (Mode::Writeback, Mode::Writethrough),
            (Mode::Writearound, Mode::Writearound),
        ] {
            let mut draft = Draft {
                mode: before,
                ..Draft::default()
            };
            draft.offer(&refused);
            assert_eq!(draft.mode, after);
        }
    }

    #[test]
    fn at_the_next_start_a_cache_begins_in_a_mode_that_risks_nothing() {
        for (before, after) in [
            (Mode::Writeback, Mode::Writethrough),
            (Mode::Writearound, Mode::Writearound),
        ] {
            let mut draft = Draft {
                mode: before,
                ..Draft::default()
            };
            draft.at_next_start = true;
            assert_eq!((draft.planned_mode(), draft.at_next_start), (after, true));
            draft.at_next_start = false;
            assert_eq!(draft.planned_mode(), before, "the wish is kept");
            draft.at_next_start = true;
            draft.choose_origin(Some("/b/sdb1".into()));
            assert!(!draft.at_next_start, "another disk may be free");
        }
    }

    #[test]
    fn a_choice_of_free_space_names_the_ssd_and_the_size() {
        for bytes in [0, 64 << 30] {
            let draft = Draft {
                ssd: Some(ssd_key("/b/sdc", bytes)),
                ..Draft::default()
            };
            assert_eq!(draft.ssd_part(), Some(("/b/sdc".to_owned(), bytes)));
        }
        assert_eq!(Draft::default().ssd_part(), None);
    }

    fn drive(serial: &str, size: u64) -> Device {
        Device {
            path: "/b/sdc".into(),
            device: "/dev/sdc".into(),
            model: "Flash".into(),
            serial: serial.into(),
            size,
            medium: Medium::Ssd,
            outside: false,
            volumes: vec![],
            whole_as_ssd: Ok(()),
        }
    }

    #[test]
    fn a_choice_is_of_one_device_and_not_of_a_block_path() {
        for (other, taken_back) in [
            (drive("A", 9), false),
            (drive("B", 9), true),
            (drive("A", 8), true),
        ] {
            let mut draft = Draft::default();
            draft.choose_origin(Some("/b/sdc".into()));
            draft.choose_ssd(Some(ssd_key("/b/sdc", 5)));
            assert!(!draft.recognize(&[drive("A", 9)]));
            assert!(!draft.recognize(&[]), "the device may come back");
            assert_eq!(draft.recognize(std::slice::from_ref(&other)), taken_back);
            assert_eq!(draft.is_complete(), !taken_back);
            // What the person chooses then is known by what it is now.
            draft.choose_ssd(Some("/b/sdc".into()));
            assert!(!draft.recognize(std::slice::from_ref(&other)));
            assert!(draft.recognize(&[drive("C", 9)]));
        }
    }

    #[test]
    fn memory_is_chosen_with_its_size_and_stays_while_devices_change() {
        let mut draft = Draft::default();
        draft.choose_ssd(Some(ssd_key(MEMORY, 4 << 30)));
        assert_eq!(draft.memory_bytes(), Some(4 << 30));
        draft.size = Some(1 << 30);
        assert!(!draft.recognize(&[drive("A", 9)]) && !draft.recognize(&[]));
        assert_eq!(draft.memory_bytes(), Some(1 << 30));
        draft.choose_ssd(Some(ssd_key("/b/sdc", 4 << 30)));
        assert_eq!(draft.memory_bytes(), None);
    }

    #[test]
    fn a_size_is_of_one_ssd() {
        let mut draft = Draft::default();
        draft.choose_ssd(Some(ssd_key("/b/sdc", 64)));
        draft.size = Some(5);
        draft.choose_ssd(Some(ssd_key("/b/sdc", 64)));
        assert_eq!(draft.ssd_part(), Some(("/b/sdc".to_owned(), 5)));
        draft.choose_ssd(Some("/b/sdd".to_owned()));
        assert_eq!(draft.ssd_part(), Some(("/b/sdd".to_owned(), 0)));
    }
}
