// SPDX-License-Identifier: GPL-3.0-or-later
//! How far back the chart goes.

use tandem_api::Span;

/// The ranges of the chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// Five minutes, from the samples that the window has.
    #[default]
    Live,
    /// A longer time, from the history that the service keeps.
    Kept(Span),
}

impl Range {
    /// All ranges, the shortest first.
    pub const ALL: [Self; 4] = [
        Self::Live,
        Self::Kept(Span::Hour),
        Self::Kept(Span::Day),
        Self::Kept(Span::Month),
    ];

    /// How far back it goes, in seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Live => super::series::SPAN_US / 1_000_000,
            Self::Kept(span) => span.seconds(),
        }
    }

    /// The number of marks of the time axis, and the units of time between two of them: minutes, hours or days.
    #[must_use]
    pub const fn marks(self) -> (u64, u64) {
        match self {
            Self::Live => (5, 1),
            Self::Kept(Span::Hour) => (6, 10),
            Self::Kept(Span::Day) => (6, 4),
            Self::Kept(Span::Month) => (6, 5),
        }
    }
}
