// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages to the `tandem` target, as kmod/TARGET.rst describes them. Each says what shall be, so that
//! it can be sent again.

use std::fmt;
use tandem_api::{DirtyLimit, Mode, SECTOR_BYTES};

/// A message to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Treat writes so from now on.
    Mode(Mode),
    /// Write to the disk what is only on the SSD.
    Flush(Flush),
    /// The most data that may be on the SSD only.
    DirtyLimit(DirtyLimit),
    /// Whether data that the cache does not hold may get a place in it.
    Promotion(bool),
    /// The record says that the next start must be cold: writes past the lost SSD need not wait for that.
    LossRecorded,
}

/// How far a flush shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Begun: nothing new stays on the SSD only, and what does is written to the disk.
    Start,
    /// Waiting: as begun, but nothing is written.
    Pause,
    /// No longer waiting.
    Resume,
    /// Over: the mode holds again.
    Stop,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(mode) => write!(f, "mode {mode}"),
            Self::Flush(flush) => f.write_str(match flush {
                Flush::Start => "flush start",
                Flush::Pause => "flush pause",
                Flush::Resume => "flush resume",
                Flush::Stop => "flush stop",
            }),
            Self::DirtyLimit(limit) => {
                let sectors = limit.bytes / SECTOR_BYTES;
                write!(f, "dirty_limit {} {sectors}", limit.seconds)?;
                match limit.rest {
                    // An older module takes two words only.
                    0 => Ok(()),
                    minutes => write!(f, " {}", u64::from(minutes) * 60),
                }
            }
            Self::Promotion(true) => f.write_str("promotion on"),
            Self::Promotion(false) => f.write_str("promotion off"),
            Self::LossRecorded => f.write_str("loss recorded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_documented_ones() {
        assert_eq!(Message::Mode(Mode::Writeback).to_string(), "mode writeback");
        for (flush, word) in [
            (Flush::Start, "start"),
            (Flush::Pause, "pause"),
            (Flush::Resume, "resume"),
            (Flush::Stop, "stop"),
        ] {
            assert_eq!(Message::Flush(flush).to_string(), format!("flush {word}"));
        }
        let limit = DirtyLimit {
            seconds: 5,
            bytes: 2 << 20,
            rest: 0,
        };
        assert_eq!(Message::DirtyLimit(limit).to_string(), "dirty_limit 5 4096");
        let rests = DirtyLimit { rest: 60, ..limit };
        assert_eq!(
            Message::DirtyLimit(rests).to_string(),
            "dirty_limit 5 4096 3600"
        );
        assert_eq!(Message::Promotion(true).to_string(), "promotion on");
        assert_eq!(Message::Promotion(false).to_string(), "promotion off");
        assert_eq!(Message::LossRecorded.to_string(), "loss recorded");
    }
}
