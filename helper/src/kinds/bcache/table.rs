// SPDX-License-Identifier: GPL-3.0-or-later
//! A partition table as `sfdisk --json` tells it, compared word for word: after a move nothing but the two places of one
//! partition may differ.

use crate::model::shift::Shift;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A partition table, without the names of the kernel, which may be others after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Table(Value);

/// How a partition table compares with the table before the move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// As before.
    Old,
    /// As before, and the partition is moved.
    Moved,
    /// A copy of one of both; the other copy on the disk is damaged, as by a program that was cut short.
    Torn,
    /// Neither: another program has changed the table, or there is none any more. The partition has this place in it.
    Foreign(Place),
}

/// Where the partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Old,
    Moved,
    Other,
}

impl Which {
    /// Where the partition is in this table.
    pub(super) fn entry(self) -> Place {
        match self {
            Self::Old => Place::Old,
            Self::Moved => Place::Moved,
            Self::Torn => Place::Other,
            Self::Foreign(place) => place,
        }
    }
}

/// The answer of `sfdisk --json` for a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    /// The table, if there is one.
    pub table: Option<Table>,
    /// All that sfdisk has printed, if that is more than a table: sfdisk has something to say of a table that is damaged
    /// or torn, and such a table is not to be changed.
    pub complaint: Option<String>,
}

impl Read {
    pub(super) fn of(printed: &str) -> Self {
        if let Some(table) = Table::parse(printed) {
            return Self {
                table: Some(table),
                complaint: None,
            };
        }
        let json = printed.find('{').zip(printed.rfind('}'));
        Self {
            table: json.and_then(|(from, to)| Table::parse(printed.get(from..=to)?)),
            complaint: Some(printed.to_owned()),
        }
    }
}

impl Table {
    /// The table in what `sfdisk --json` has printed; none if anything else is printed too.
    fn parse(printed: &str) -> Option<Self> {
        let mut all: Value = serde_json::from_str(printed).ok()?;
        let table = all.get_mut("partitiontable")?;
        let device = table.as_object_mut()?.remove("device")?;
        let device = device.as_str()?.to_owned();
        for partition in table.get_mut("partitions")?.as_array_mut()? {
            let node = partition.get("node")?.as_str()?;
            let number = node.strip_prefix(&device)?.trim_start_matches('p');
            let number: u32 = number.parse().ok()?;
            *partition.get_mut("node")? = number.into();
        }
        Some(Self(table.take()))
    }

    /// The place of a partition: first sector and sectors.
    fn place(&self, number: u32) -> Option<(u64, u64)> {
        let partitions = self.0.get("partitions")?.as_array()?;
        let mut with = partitions.iter().filter(|p| p["node"] == number);
        let (partition, None) = (with.next()?, with.next()) else {
            return None;
        };
        Some((partition["start"].as_u64()?, partition["size"].as_u64()?))
    }

    /// Whether the partition lies in this table where the move begins.
    pub(super) fn has(&self, shift: &Shift) -> bool {
        self.place(shift.number) == Some((shift.start, shift.size))
    }

    /// The table with the partition moved.
    fn moved(&self, shift: &Shift) -> Self {
        let mut moved = self.clone();
        let partitions = moved.0.get_mut("partitions").and_then(Value::as_array_mut);
        for partition in partitions.into_iter().flatten() {
            if partition["node"] == shift.number {
                let (start, size) = shift.moved();
                partition["start"] = start.into();
                partition["size"] = size.into();
            }
        }
        moved
    }

    /// Compares the present table with `self`, the table before the move.
    pub(super) fn compare(&self, now: &Read, shift: &Shift) -> Which {
        let Some(table) = &now.table else {
            return Which::Foreign(Place::Other);
        };
        let (is_old, is_moved) = (table == self, *table == self.moved(shift));
        if now.complaint.is_some() && (is_old || is_moved) {
            return Which::Torn;
        }
        match table.place(shift.number) {
            _ if is_old => Which::Old,
            _ if is_moved => Which::Moved,
            // A table with another identity has nothing of ours.
            _ if table.0["id"] != self.0["id"] || now.complaint.is_some() => {
                Which::Foreign(Place::Other)
            }
            Some(place) if place == (shift.start, shift.size) => Which::Foreign(Place::Old),
            Some(place) if place == shift.moved() => Which::Foreign(Place::Moved),
            _ => Which::Foreign(Place::Other),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::shift::Content;

    /// As sfdisk 2.38 prints it.
    pub(in crate::kinds::bcache) const GPT: &str = r#"{
   "partitiontable": {
      "label": "gpt", "id": "2C0F4F7C-0C1F-4B7A-8D2C-4E8E1C1F6B11", "device": "/dev/vdc", "unit": "sectors",
      "firstlba": 2048, "lastlba": 524254, "sectorsize": 512,
      "partitions": [
         { "node": "/dev/vdc1", "start": 2048, "size": 409600, "type": "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
           "uuid": "6D1E0C4B-1C0A-4C2B-9E53-0E8E2B7E7B01", "name": "films", "attrs": "GUID:63" },
         { "node": "/dev/vdc2", "start": 411648, "size": 112607, "type": "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
           "uuid": "6D1E0C4B-1C0A-4C2B-9E53-0E8E2B7E7B02" }
      ]
   }
}"#;

    pub(in crate::kinds::bcache) fn shift() -> Shift {
        Shift {
            number: 1,
            sector_bytes: 512,
            start: 2048,
            size: 409_600,
            by: 16,
            content: Content {
                format: "ext4".into(),
                uuid: "0a1b".into(),
            },
        }
    }

    pub(in crate::kinds::bcache) fn table() -> Table {
        Table::parse(GPT).unwrap()
    }

    const OLD: &str = r#""start": 2048, "size": 409600"#;
    const MOVED: &str = r#""start": 2064, "size": 409584"#;

    fn compared(printed: &str) -> Which {
        table().compare(&Read::of(printed), &shift())
    }

    #[test]
    fn a_move_changes_both_places_of_one_partition_and_keeps_its_end() {
        assert!(GPT.contains(OLD) && table().has(&shift()));
        assert_eq!(compared(GPT), Which::Old);
        assert_eq!(compared(&GPT.replace(OLD, MOVED)), Which::Moved);
        for other in [
            // The end is another one.
            r#""start": 2064, "size": 409600"#,
            r#""start": 2048, "size": 409584"#,
            r#""start": 2072, "size": 409576"#,
        ] {
            let now = GPT.replace(OLD, other);
            assert_eq!(compared(&now), Which::Foreign(Place::Other), "{other}");
        }
        let other = Shift {
            start: 2056,
            ..shift()
        };
        assert!(!table().has(&other));
    }

    #[test]
    fn all_other_words_of_the_table_have_to_stay() {
        for (place, now) in [
            (Place::Old, GPT.to_owned()),
            (Place::Moved, GPT.replace(OLD, MOVED)),
        ] {
            for (from, to) in [
                (r#""name": "films""#, r#""name": """#),
                (r#", "attrs": "GUID:63""#, ""),
                ("7B01", "7B09"),
                (r#""start": 411648"#, r#""start": 411656"#),
                (r#""lastlba": 524254"#, r#""lastlba": 524222"#),
                ("gpt", "dos"),
            ] {
                assert!(now.contains(from), "{from}");
                assert_eq!(
                    compared(&now.replace(from, to)),
                    Which::Foreign(place),
                    "{to}"
                );
            }
            // The disk has another table.
            let anew = now.replace("1F6B11", "1F6B12");
            assert_eq!(compared(&anew), Which::Foreign(Place::Other));
            let taken = now.replace(r#""node": "/dev/vdc1""#, r#""node": "/dev/vdc3""#);
            assert_eq!(compared(&taken), Which::Foreign(Place::Other));
        }
        // After a restart the disk may have another name.
        let moved = GPT.replace(OLD, MOVED);
        let renamed = Table::parse(&moved.replace("vdc", "nvme0n1").replace("n1\",", "n1p1\","));
        assert!(renamed.is_none(), "the names of all nodes agree");
        assert_eq!(
            compared(&moved.replace("/dev/vdc", "/dev/sdb")),
            Which::Moved
        );
    }

    #[test]
    fn a_table_with_a_complaint_is_torn_if_it_was_ours_and_else_foreign() {
        let torn =
            "The primary GPT table is corrupt, but the backup appears OK, so that will be used.\n";
        for now in [GPT.to_owned(), GPT.replace(OLD, MOVED)] {
            for printed in [format!("{torn}{now}"), format!("{now}\n{torn}")] {
                assert_eq!(Table::parse(&printed), None);
                assert_eq!(compared(&printed), Which::Torn);
                let other = printed.replace("411648", "411656");
                assert_eq!(compared(&other), Which::Foreign(Place::Other));
            }
        }
        for printed in [
            "",
            "sfdisk: /dev/vdc: does not contain a recognized partition table\n",
        ] {
            assert_eq!(compared(printed), Which::Foreign(Place::Other));
        }
    }
}
