// SPDX-License-Identifier: GPL-3.0-or-later
//! The state of a cache's mapping in the kernel. [`super::control`] queries the kernel; the functions here are pure.

use super::status::StatusLine;
use super::table::{DM_CACHE, TARGET};

/// The mapping of a cache as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapping {
    /// No mapping, or a mapping without a table.
    None,
    /// Its table is never put in force: it keeps the devices with these numbers from every program.
    Holds(Vec<String>),
    /// Its table uses the disk with this number and waits to be put in force. Another process is about to do that, or
    /// has died before. No table may be loaded beside that process.
    Starting(String),
    /// The mapping uses its SSD and serves requests.
    Works {
        /// Number of the disk.
        origin: String,
        /// Number of the SSD.
        ssd: String,
    },
    /// Its table uses the SSD and does not run: the table came into force and could not start, or a program suspended
    /// the mapping.
    Halted {
        /// Number of the disk.
        origin: String,
        /// Number of the SSD.
        ssd: String,
    },
    /// The disk of its table in force is gone. A second table, which waits, keeps the devices with these numbers from
    /// every program.
    LeadsNowhere(Vec<String>),
    /// The mapping passes everything to the disk with this number.
    PassesThrough(String),
}

/// A table of a mapping as the kernel prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Its target is a cache; otherwise it passes everything through.
    pub cached: bool,
    /// Name of the last line's target.
    pub target: String,
    /// Numbers of its devices: disk and SSD, or the disks. Of dm-cache the second number is that of the copies' part of the SSD.
    pub devices: Vec<String>,
}

impl Table {
    /// From target and parameters of each line.
    pub fn of<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut table = Self::default();
        for (target, parameters) in lines {
            table.cached |= [TARGET, DM_CACHE].contains(&target);
            target.clone_into(&mut table.target);
            let words: Vec<_> = parameters.split_ascii_whitespace().take(3).collect();
            // Where the disk and the SSD are among the words.
            let places: &[usize] = match target {
                TARGET => &[0, 1],
                DM_CACHE => &[2, 1],
                _ => &[0],
            };
            let devices = places.iter().filter_map(|at| words.get(*at));
            table.devices.extend(devices.map(|&word| word.to_owned()));
        }
        table
    }

    fn device(&self, at: usize) -> String {
        self.devices.get(at).cloned().unwrap_or_default()
    }
}

impl Mapping {
    /// A mapping with this table in force.
    pub fn in_force(table: &Table, suspended: bool) -> Self {
        let (origin, ssd) = (table.device(0), table.device(1));
        match (table.cached, suspended) {
            (false, _) => Self::PassesThrough(origin),
            (true, false) => Self::Works { origin, ssd },
            (true, true) => Self::Halted { origin, ssd },
        }
    }

    /// A mapping with this table loaded and no table in force. `there`: its disk is there. A table whose disk is gone
    /// cannot come into force.
    pub fn waiting(table: Table, there: bool) -> Self {
        match table.cached {
            _ if table.devices.is_empty() => Self::None,
            true if there => Self::Starting(table.device(0)),
            true => Self::Holds(vec![table.device(0)]),
            false => Self::Holds(table.devices),
        }
    }

    /// Whether the mapping uses the SSD, or is meant to.
    pub fn is_attached(&self) -> bool {
        matches!(
            self,
            Self::Works { .. } | Self::Halted { .. } | Self::LeadsNowhere(_)
        )
    }

    /// Whether the disk may lack data if the mapping is removed. `status`: its status line, if it can be read.
    pub fn lacks(&self, status: Option<&StatusLine>) -> bool {
        match status.filter(|status| status.counters_valid()) {
            Some(status) => status.dirty > 0,
            None => self.is_attached(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::dm::table::LINEAR;

    fn table(cached: bool, devices: &[&str]) -> Table {
        let devices = devices.iter().map(|&d| d.to_owned()).collect();
        let target = if cached { TARGET } else { LINEAR }.to_owned();
        Table {
            cached,
            target,
            devices,
        }
    }

    #[test]
    fn a_mapping_is_what_its_tables_make_of_it() {
        let (disk, ssd) = (|| "8:1".to_owned(), || "8:16".to_owned());
        let cached = table(true, &["8:1", "8:16"]);
        let works = Mapping::Works {
            origin: disk(),
            ssd: ssd(),
        };
        let halted = Mapping::Halted {
            origin: disk(),
            ssd: ssd(),
        };
        assert_eq!(Mapping::in_force(&cached, false), works);
        assert_eq!(Mapping::in_force(&cached, true), halted);
        let plain = table(false, &["8:1"]);
        for suspended in [false, true] {
            assert_eq!(
                Mapping::in_force(&plain, suspended),
                Mapping::PassesThrough(disk())
            );
        }
        // Another process may replace only a table that is there to hold the disk.
        let holds = |all: &[&str]| Mapping::Holds(table(false, all).devices);
        assert_eq!(Mapping::waiting(plain.clone(), true), holds(&["8:1"]));
        assert_eq!(Mapping::waiting(plain, false), holds(&["8:1"]));
        assert_eq!(
            Mapping::waiting(table(false, &["8:1", "8:33"]), true),
            holds(&["8:1", "8:33"])
        );
        assert_eq!(
            Mapping::waiting(cached.clone(), true),
            Mapping::Starting(disk())
        );
        assert_eq!(Mapping::waiting(cached, false), holds(&["8:1"]));
        assert_eq!(Mapping::waiting(Table::default(), true), Mapping::None);
    }

    #[test]
    fn tables_are_read_as_the_kernel_prints_them() {
        let of = |lines: &[(&str, &str)]| Table::of(lines.iter().copied());
        assert_eq!(
            of(&[("tandem", "8:1 8:16 writeback 4 uuid ab")]),
            table(true, &["8:1", "8:16"])
        );
        assert_eq!(
            of(&[("cache", "253:1 253:2 8:1 128 1 writethrough smq 0")]),
            Table {
                target: DM_CACHE.into(),
                ..table(true, &["8:1", "253:2"])
            }
        );
        assert_eq!(
            of(&[("linear", "8:1 0"), ("linear", "8:33 0")]),
            table(false, &["8:1", "8:33"])
        );
        assert_eq!(of(&[]), Table::default());
    }

    #[test]
    fn a_disk_is_held_unless_the_module_knows_that_it_lacks_nothing() {
        let cached = table(true, &["8:1", "8:16"]);
        let works = Mapping::in_force(&cached, false);
        let halted = Mapping::in_force(&cached, true);
        for (mapping, line, held) in [
            (&works, "active - writeback 32 7/4096 0 0", false),
            (&works, "active - writeback 32 7/4096 64 0", true),
            (
                &works,
                "stranded ssd-error-dirty writeback 32 7/4096 64 0",
                true,
            ),
            (&works, "bypass ssd-error writeback 32 0/4096 0 0", false),
            // The mapping has not read the SSD.
            (&halted, "suspended - writeback 32 0/4096 0 0", true),
            (&works, "suspended - writeback 32 0/0 0 0", true),
            (&works, "not to be understood", true),
            (&halted, "", true),
            // There is no mapping that could be asked.
            (&Mapping::None, "", false),
        ] {
            let status: Option<StatusLine> = line.parse().ok();
            assert_eq!(mapping.lacks(status.as_ref()), held, "{mapping:?} {line}");
        }
    }
}
