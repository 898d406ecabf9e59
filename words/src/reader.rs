// SPDX-License-Identifier: GPL-3.0-or-later
//! The places in which a person reads the words.

use gettextrs::gettext;

use crate::names::quoted_name;

/// Where a person reads the words. That decides how sentences name commands and devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// In the window, which has buttons.
    Window,
    /// In a terminal, beside `tandemctl`.
    Terminal,
}

impl Reader {
    /// The commands that sentences name.
    pub(crate) fn commands(self) -> [(&'static str, String); 4] {
        match self {
            Self::Window => [
                ("remove", gettext("“Remove Cache”")),
                ("discard", gettext("“Remove Cache”")),
                ("cancel", gettext("“Cancel Setup”")),
                ("resume", gettext("“Resume”")),
            ],
            Self::Terminal => [
                ("remove", quoted_name("tandemctl remove")),
                (
                    "discard",
                    quoted_name("tandemctl remove --discard-unwritten"),
                ),
                ("cancel", quoted_name("tandemctl cancel")),
                ("resume", quoted_name("tandemctl start")),
            ],
        }
    }
}
