// SPDX-License-Identifier: GPL-3.0-or-later
//! Names of objects on the bus.

#[cfg(feature = "bus")]
pub use zbus::OwnedObjectPath;

#[cfg(not(feature = "bus"))]
pub use alone::OwnedObjectPath;

/// The path that names no device.
pub(crate) fn root() -> OwnedObjectPath {
    #[cfg(feature = "bus")]
    return zbus::ObjectPath::from_static_str_unchecked("/").into();
    #[cfg(not(feature = "bus"))]
    OwnedObjectPath::root()
}

/// The same type for programs without the bus: the same texts are paths, and a record has the same form.
#[cfg(any(test, not(feature = "bus")))]
mod alone {
    use serde::{Deserialize, Serialize};

    /// Path of an object on the bus.
    #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(try_from = "String")]
    pub struct OwnedObjectPath(String);

    /// The text is no path of an object.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("“{0}” is no path of an object")]
    pub struct NoPath(String);

    impl OwnedObjectPath {
        #[cfg(not(feature = "bus"))]
        pub(super) fn root() -> Self {
            Self("/".to_owned())
        }

        /// The path as a text.
        pub fn as_str(&self) -> &str {
            &self.0
        }
    }

    impl TryFrom<String> for OwnedObjectPath {
        type Error = NoPath;

        fn try_from(text: String) -> Result<Self, NoPath> {
            let is_name = |name: &str| {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                !name.is_empty() && name.bytes().all(plain)
            };
            let names = text.strip_prefix('/');
            match names.is_some_and(|names| names.is_empty() || names.split('/').all(is_name)) {
                true => Ok(Self(text)),
                false => Err(NoPath(text)),
            }
        }
    }
}

#[cfg(all(test, feature = "bus"))]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    #[test]
    fn with_and_without_the_bus_the_same_texts_are_paths() {
        for text in [
            "/", "", "a", "/a", "/a/b_1", "//", "/a/", "/a//b", "a/b", "/a-b", "/ä", "/a b",
            "/a\0", "/A9/_",
        ] {
            let json = serde_json::to_string(text).unwrap();
            let with = serde_json::from_str::<super::OwnedObjectPath>(&json);
            let without = serde_json::from_str::<super::alone::OwnedObjectPath>(&json);
            assert_eq!(with.is_ok(), without.is_ok(), "{text}");
            if let (Ok(with), Ok(without)) = (with, without) {
                assert_eq!(with.as_str(), without.as_str());
                assert_eq!(serde_json::to_string(&with).unwrap(), json);
                assert_eq!(serde_json::to_string(&without).unwrap(), json);
            }
        }
    }
}
