// SPDX-License-Identifier: GPL-3.0-or-later
//! The caches that other systems have made on this machine.

use super::counters::{self, in_memory};
use super::system::{Find, Found, SetUp, Told};
use super::{SYSTEMS, targets};
use crate::machine::dm::control::{Control, Foreign};
use crate::machine::volumes::drives_below;
use crate::model::action::DM_UUID_PREFIX;
use crate::model::facts::{Device, Facts};
use crate::model::other_reading::OtherSeen;
use std::collections::BTreeSet;
use std::path::Path;
use tandem_api::{DeviceText, OtherCache, OtherKind, plain};

/// All of them, by kind and name. This blocks: see [`super::may_hang`].
pub(super) fn list(facts: &Facts) -> Vec<OtherSeen> {
    let names: Vec<_> = targets().map(|target| target.name).collect();
    let mappings = Control::open().map_or_else(|_| Vec::new(), |dm| dm.foreign(&names));
    // The mappings of our own caches that dm-cache serves.
    let foreign = |mapping: &&Foreign| !mapping.uuid.starts_with(DM_UUID_PREFIX);
    let found = SYSTEMS.iter().filter_map(|system| match system.find {
        Find::Files(list) => Some(list(Path::new("/sys"))),
        Find::Mappings(_) => None,
    });
    let names = Names(facts);
    let mapped = mappings.iter().filter(foreign);
    let mapped = mapped.filter_map(|mapping| names.mapping(mapping));
    let mut all: Vec<_> = mapped
        .chain(found.flatten().map(|found| names.found(found)))
        .collect();
    all.sort_by(|a, b| (a.cache.kind, &a.cache.name).cmp(&(b.cache.kind, &b.cache.name)));
    all
}

/// The devices, to name them.
struct Names<'a>(&'a Facts);

impl Names<'_> {
    fn by_number(&self, number: &str) -> Option<&Device> {
        self.0.devices.iter().find(|d| d.number == number)
    }

    fn by_name(&self, name: &str) -> Option<&Device> {
        self.0.devices.iter().find(|d| d.ident.text.name == name)
    }

    /// The drives below devices with these kernel names, each once.
    fn drives(&self, names: &[String]) -> Vec<DeviceText> {
        let drives: BTreeSet<_> = names.iter().flat_map(|name| drives_below(name)).collect();
        let text = |name: &String| self.by_name(name).map(|d| d.ident.text.clone());
        drives.iter().filter_map(text).collect()
    }

    fn mapping(&self, mapping: &Foreign) -> Option<OtherSeen> {
        let target = targets().find(|target| target.name == mapping.target)?;
        let told = (target.told)(&mapping.table, &mapping.status)?;
        let words: Vec<_> = mapping.table.split_ascii_whitespace().collect();
        let devices = (target.devices)(&words);
        let is_prose = devices.is_none();
        let (disk, ssds) = match devices {
            Some((disk, ssds)) => (named(&disk), ssds.iter().filter_map(|n| named(n)).collect()),
            // The rest of its table is prose. What is below it is the disk, and a device in memory, which is no drive.
            None => (named(&mapping.number), Vec::new()),
        };
        let disk: Vec<_> = disk.into_iter().collect();
        let lvm = mapping.uuid.starts_with("LVM-");
        let ssds: Vec<String> = ssds;
        let set_up = match lvm {
            true => SetUp::Lvm,
            false if ssds.iter().any(|name| in_memory(name)) => SetUp::InMemory,
            false => SetUp::Other,
        };
        let name = match lvm {
            true => volume(&mapping.name),
            false => mapping.name.clone(),
        };
        let kind = (target.kind)(set_up);
        let counts = counters::counts(kind, &told);
        let below = match is_prose {
            true => counters::below(&disk),
            false => (disk.clone(), Some(ssds.clone())),
        };
        let reading = counters::read(named(&mapping.number), below, counts);
        let ssds: Vec<_> = ssds.into_iter().filter(|name| !in_memory(name)).collect();
        let device = self.by_number(&mapping.number);
        let shown = self.shown(kind, &name, device, (&disk, &ssds), told);
        let id = match mapping.uuid.is_empty() {
            true => shown.id.clone(),
            false => plain(&mapping.uuid),
        };
        let cache = OtherCache { id, ..shown };
        Some(OtherSeen { cache, reading })
    }

    fn found(&self, of: Found) -> OtherSeen {
        let device = self.by_name(&of.name);
        let below = (
            vec![of.disk.clone()],
            of.ssds_alone.then(|| of.ssds.clone()),
        );
        let counts = counters::counts(of.kind, &of.told);
        let reading = counters::read(Some(of.name.clone()), below, counts);
        let cache = self.shown(of.kind, &of.name, device, (&[of.disk], &of.ssds), of.told);
        OtherSeen { cache, reading }
    }

    /// A cache over a disk and on SSDs with these kernel names. `device`: the device that programs use.
    fn shown(
        &self,
        kind: OtherKind,
        name: &str,
        device: Option<&Device>,
        (disk, ssds): (&[String], &[String]),
        told: Told,
    ) -> OtherCache {
        OtherCache {
            kind,
            id: plain(name),
            name: plain(name),
            mapped: device
                .map_or(DeviceText::none(), |d| d.ident.text.clone())
                .object,
            mount_points: device.map(Device::mount_points).unwrap_or_default(),
            disks: self.drives(disk),
            ssds: self.drives(ssds),
            state: told.state,
            mode: told.mode,
            cache_bytes: told.cache_bytes,
            used_bytes: told.used_bytes,
            unwritten_bytes: told.unwritten_bytes.unwrap_or(0),
            unwritten_known: told.unwritten_bytes.is_some(),
            read_hits: told.reads.0,
            read_misses: told.reads.1,
        }
    }
}

/// The kernel name of a device with this number.
pub(super) fn named(number: &str) -> Option<String> {
    let link = std::fs::read_link(Path::new("/sys/dev/block").join(number)).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

/// `group/volume` of the name that LVM gives a mapping: a hyphen within a name is doubled.
fn volume(mapping: &str) -> String {
    let bytes = mapping.as_bytes();
    let single = |at: &usize| {
        let at = *at;
        let hyphen = |at: usize| bytes.get(at) == Some(&b'-');
        hyphen(at) && !hyphen(at + 1) && (at == 0 || !hyphen(at - 1))
    };
    let Some(at) = (0..bytes.len()).find(single) else {
        return mapping.to_owned();
    };
    let (group, volume) = (&mapping[..at], &mapping[at + 1..]);
    format!("{}/{}", group.replace("--", "-"), volume.replace("--", "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lvm_names_are_as_its_tools_say_them() {
        assert_eq!(volume("vg1-films"), "vg1/films");
        assert_eq!(volume("my--group-my--films"), "my-group/my-films");
        assert_eq!(volume("plain"), "plain");
    }

    #[test]
    fn a_cache_of_lvm_is_told_with_what_its_lines_say() {
        let facts = Facts::default();
        let mapping = Foreign {
            name: "vg-films".into(),
            uuid: "LVM-abc".into(),
            number: "253:9".into(),
            target: "cache".into(),
            table: "253:1 253:0 253:2 128 1 writeback smq 0".into(),
            status: "8 58/8192 128 265/16384 8943 316 8192 0 0 0 5 1 writeback 2 migration_threshold 2048 smq 0 rw -".into(),
            ..Foreign::default()
        };
        let told = Names(&facts).mapping(&mapping).unwrap().cache;
        assert_eq!(
            (told.kind, told.name.as_str()),
            (OtherKind::LvmCache, "vg/films")
        );
        assert!(told.may_be_unwritten());
        assert_eq!(told.id, "LVM-abc");
        let plain = Foreign {
            uuid: String::new(),
            ..mapping
        };
        assert_eq!(
            Names(&facts).mapping(&plain).unwrap().cache.kind,
            OtherKind::DmCache
        );
    }

    #[test]
    fn devices_are_where_each_target_names_them() {
        let of = |name: &str, line: &str| {
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            let target = targets().find(|target| target.name == name).unwrap();
            (target.devices)(&words)
        };
        let two = |disk: &str, ssds: &[&str]| {
            let ssds: Vec<_> = ssds.iter().map(|&ssd| ssd.to_owned()).collect();
            Some((disk.to_owned(), ssds))
        };
        let line = "253:2 253:1 8:16 128 2 metadata2 writeback smq 0";
        assert_eq!(of("cache", line), two("8:16", &["253:1", "253:2"]));
        assert_eq!(of("writecache", "s 8:16 8:1 4096 0"), two("8:16", &["8:1"]));
        assert_eq!(of("writeboost", "8:16 8:1"), two("8:16", &["8:1"]));
        for name in ["cache", "writecache", "writeboost", "rapiddisk-cache"] {
            assert_eq!(of(name, "8:16"), None, "{name}");
        }
    }

    #[test]
    fn what_made_a_mapping_says_its_kind() {
        use SetUp::{InMemory, Lvm, Other};
        let of = |name: &str, set_up| {
            let target = targets().find(|target| target.name == name).unwrap();
            (target.kind)(set_up)
        };
        for (name, set_up, kind) in [
            ("cache", Lvm, OtherKind::LvmCache),
            ("cache", Other, OtherKind::DmCache),
            ("writecache", Lvm, OtherKind::LvmWritecache),
            ("writecache", Other, OtherKind::DmWritecache),
            ("writecache", InMemory, OtherKind::RapidDisk),
            ("writeboost", Other, OtherKind::DmWriteboost),
            ("rapiddisk-cache", Other, OtherKind::RapidDisk),
        ] {
            assert_eq!(of(name, set_up), kind, "{name} {set_up:?}");
        }
    }
}
