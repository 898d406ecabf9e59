// SPDX-License-Identifier: GPL-3.0-or-later
//! Sizes as a person reads them: the same number and unit in the app, in tandemctl and in the questions of polkit.

/// A size in powers of ten, as it is printed on drives, with one digit after the point: `250.1 GB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeText {
    /// The number with a point, such as `250.1`. A program in another language puts the sign of that language there.
    pub number: String,
    /// `B`, `kB`, `MB`, ...
    pub unit: &'static str,
}

const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

impl SizeText {
    /// The text for so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        if bytes < 1000 {
            return Self {
                number: bytes.to_string(),
                unit: UNITS[0],
            };
        }
        let mut value = bytes as f64;
        let mut unit = 0;
        // 999.95 of a unit would be shown as 1000.0.
        while value >= 999.95 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        Self {
            number: format!("{value:.1}"),
            unit: UNITS[unit],
        }
    }
}

impl std::fmt::Display for SizeText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{} {}", self.number, self.unit))
    }
}

/// The bytes of a size that a person wrote: a number, with a point or without, and a unit. The unit is a power of ten
/// (`kB`, `MB`, `GB`, `TB`) or of two (`KiB`, `MiB`, `GiB`, `TiB`); without a unit the number counts bytes. Upper and
/// lower case mean the same.
///
/// # Errors
/// A sentence that names the mistake.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("“{text}” is no size; write it as 100GB or 64GiB");
    let text = text.trim();
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || part.len() > 6 || part.contains('.') {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let millionths: u64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
    let bytes = u128::from(whole) * u128::from(factor)
        + u128::from(millionths) * u128::from(factor) / 1_000_000;
    u64::try_from(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_like_those_on_a_drive() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_951, "1.0 MB"),
            (67_108_864, "67.1 MB"),
            (250_059_350_016, "250.1 GB"),
            (4_000_787_030_016, "4.0 TB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(SizeText::new(bytes).to_string(), text);
        }
    }

    #[test]
    fn written_sizes_are_read_or_refused() {
        for (text, bytes) in [
            ("100GB", 100_000_000_000),
            ("64 GiB", 64 << 30),
            ("1.5tb", 1_500_000_000_000),
            ("0.25MiB", 262_144),
            ("4096", 4096),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "GB",
            ".5GB",
            "1.2.3GB",
            "-1GB",
            "1,5GB",
            "5 bananas",
            "99999999999TB",
            "1e9",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
