// SPDX-License-Identifier: GPL-3.0-or-later
//! Table lines, as kmod/TARGET.rst describes them: printing and parsing are inverse.

use std::fmt;
use std::str::FromStr;
use tandem_api::{DirtyLimit, Mode, SECTOR_BYTES};

/// Name of our target.
pub const TARGET: &str = "tandem";
/// Name of the kernel's own target for caches.
pub const DM_CACHE: &str = "cache";
/// Name of the target that only passes through.
pub const LINEAR: &str = "linear";

/// A line that is not of the documented form; says which part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// Parameters of the `tandem` target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tandem {
    /// The disk, `major:minor`.
    pub origin: String,
    /// The SSD, `major:minor`.
    pub ssd: String,
    /// How writes are treated.
    pub mode: Mode,
    /// 32 hex digits.
    pub uuid: String,
    /// 2 to 128 hex digits, an even number.
    pub origin_id: String,
    /// Write superblocks onto an SSD that holds none.
    pub new: bool,
    /// Forget the clean copies before anything is served.
    pub start_cold: bool,
    /// Nothing on the SSD counts, if this is its generation; 0: none.
    pub lost_generation: u64,
    /// How much data may be on the SSD only.
    pub dirty_limit: DirtyLimit,
}

impl Tandem {
    /// The line that also gives the cache, which is in use, so many sectors of its SSD.
    pub fn with_ssd_sectors(&self, sectors: u64) -> String {
        self.line(&format!("{} ssd_sectors {sectors}", self.arguments()))
    }

    fn line(&self, arguments: &str) -> String {
        let Self {
            origin, ssd, mode, ..
        } = self;
        let words = arguments.split(' ').count();
        format!("{origin} {ssd} {mode} {words} {arguments}")
    }

    /// The words behind their number.
    fn arguments(&self) -> String {
        let Self {
            uuid,
            origin_id,
            new,
            start_cold,
            lost_generation,
            dirty_limit:
                DirtyLimit {
                    seconds,
                    bytes,
                    rest: minutes,
                },
            ..
        } = self;
        let mut rest = format!("uuid {uuid} origin_id {origin_id}");
        if *new {
            rest += " format new";
        }
        if *start_cold {
            rest += " start cold";
        }
        if *lost_generation > 0 {
            rest += &format!(" lost {lost_generation}");
        }
        if *seconds != DirtyLimit::default().seconds {
            rest += &format!(" dirty_seconds {seconds}");
        }
        if *bytes > 0 {
            rest += &format!(" dirty_sectors {}", bytes / SECTOR_BYTES);
        }
        if *minutes > 0 {
            rest += &format!(" rest_seconds {}", u64::from(*minutes) * 60);
        }
        rest
    }
}

impl fmt::Display for Tandem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(&self.arguments()))
    }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

impl FromStr for Tandem {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        let mut words = line.split_ascii_whitespace();
        let mut next = |what| words.next().ok_or(Malformed(what));
        let (origin, ssd) = (next("disk")?.to_owned(), next("SSD")?.to_owned());
        let mode = next("mode")?.parse().map_err(|_| Malformed("mode"))?;
        let count: usize = next("number of arguments")?
            .parse()
            .map_err(|_| Malformed("number of arguments"))?;
        let rest: Vec<&str> = words.collect();
        if rest.len() != count || !count.is_multiple_of(2) {
            return Err(Malformed("number of arguments"));
        }
        let (mut uuid, mut origin_id, mut new, mut start_cold) = (None, None, false, false);
        let mut lost_generation = 0;
        let mut dirty_limit = DirtyLimit::default();
        for pair in rest.chunks_exact(2) {
            match *pair {
                ["uuid", value] if uuid.is_none() && value.len() == 32 && is_hex(value) => {
                    uuid = Some(value.to_owned());
                }
                ["origin_id", value]
                    if origin_id.is_none()
                        && value.len() <= 128
                        && value.len().is_multiple_of(2)
                        && is_hex(value) =>
                {
                    origin_id = Some(value.to_owned());
                }
                ["format", "new"] if !new => new = true,
                ["start", "cold"] if !start_cold => start_cold = true,
                ["lost", number] if lost_generation == 0 => {
                    lost_generation = number.parse().map_err(|_| Malformed("argument"))?;
                }
                ["dirty_seconds", number] => {
                    dirty_limit.seconds = number.parse().map_err(|_| Malformed("argument"))?;
                }
                ["dirty_sectors", number] => {
                    let sectors: u64 = number.parse().map_err(|_| Malformed("argument"))?;
                    dirty_limit.bytes = sectors.saturating_mul(SECTOR_BYTES);
                }
                ["rest_seconds", number] => {
                    let seconds: u32 = number.parse().map_err(|_| Malformed("argument"))?;
                    dirty_limit.rest = seconds / 60;
                }
                _ => return Err(Malformed("argument")),
            }
        }
        let uuid = uuid.ok_or(Malformed("uuid"))?;
        let origin_id = origin_id.ok_or(Malformed("origin_id"))?;
        Ok(Self {
            origin,
            ssd,
            mode,
            uuid,
            origin_id,
            new,
            start_cold,
            lost_generation,
            dirty_limit,
        })
    }
}

/// Parameters of the `linear` target over a whole device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linear {
    /// `major:minor`.
    pub device: String,
    /// Length of the device.
    pub sectors: u64,
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} 0", self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(new: bool, mode: Mode) -> Tandem {
        Tandem {
            origin: "8:1".into(),
            ssd: "8:32".into(),
            mode,
            uuid: "0123456789abcdef0123456789abcdef".into(),
            origin_id: "00ff".into(),
            new,
            start_cold: false,
            lost_generation: 0,
            dirty_limit: DirtyLimit::default(),
        }
    }

    #[test]
    fn the_line_is_the_documented_one() {
        assert_eq!(
            table(true, Mode::Writethrough).to_string(),
            "8:1 8:32 writethrough 6 uuid 0123456789abcdef0123456789abcdef origin_id 00ff format new"
        );
    }

    #[test]
    fn printing_and_parsing_are_inverse() {
        for new in [false, true] {
            for mode in Mode::ALL {
                let mut table = table(new, *mode);
                assert_eq!(table.to_string().parse(), Ok(table.clone()));
                table.start_cold = true;
                assert!(table.to_string().ends_with(" start cold"));
                assert_eq!(table.to_string().parse(), Ok(table.clone()));
                table.lost_generation = 7;
                assert!(table.to_string().ends_with(" start cold lost 7"));
                assert_eq!(table.to_string().parse(), Ok(table.clone()));
                table.dirty_limit.seconds = 5;
                assert!(table.to_string().ends_with(" lost 7 dirty_seconds 5"));
                table.dirty_limit.bytes = 2 << 20;
                assert!(table.to_string().ends_with(" dirty_sectors 4096"));
                table.dirty_limit.rest = 60;
                assert!(table.to_string().ends_with(" 4096 rest_seconds 3600"));
                assert_eq!(table.to_string().parse(), Ok(table));
            }
        }
    }

    #[test]
    fn what_is_not_of_the_form_is_refused() {
        let good = table(false, Mode::Writearound).to_string();
        for end in 0..good.len() - 1 {
            // A hex argument may be shortened to another valid one only at its even lengths.
            if let Ok(short) = good[..end].parse::<Tandem>() {
                assert_ne!(short, table(false, Mode::Writearound), "{}", &good[..end]);
            }
        }
        for bad in [
            good.replace("writearound", "write-around"),
            good.replace(" 4 ", " 5 "),
            good.replace("uuid", "name"),
            good.replace("0123", "x123"),
            format!("{good} extra"),
            good.replace(" 4 ", " 6 ") + " uuid 0123456789abcdef0123456789abcdef",
        ] {
            assert!(bad.parse::<Tandem>().is_err(), "{bad}");
        }
    }
}
