// SPDX-License-Identifier: GPL-3.0-or-later
//! Enums that travel as words: one list gives the wire form, `Display`, `FromStr` and `ALL`.

/// A word that the enum does not know, from a newer peer or a typing error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown word “{0}”")]
pub struct UnknownWord(pub String);

/// Defines an enum of units that is sent as a string.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        #[cfg_attr(feature = "bus", derive(zbus::Type), zbus(signature = "s"))]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every value, in the order of definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it travels on the bus.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    other => Err($crate::UnknownWord(other.to_owned())),
                }
            }
        }
    };
}
pub(crate) use words;
