// SPDX-License-Identifier: GPL-3.0-or-later
//! Values of UDisks2's objects, for the service and for `tandemctl`.

use crate::plain;
use std::collections::HashMap;
use zbus::fdo::ManagedObjects;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Variant};

/// Well-known name of UDisks2.
pub const UDISKS: &str = "org.freedesktop.UDisks2";
const ROOT: &str = "/org/freedesktop/UDisks2";

/// All objects of UDisks2 with their properties.
///
/// # Errors
/// If UDisks2 does not answer.
pub async fn objects(connection: &Connection) -> zbus::Result<ManagedObjects> {
    crate::managed_objects(connection, UDISKS, ROOT).await
}

/// One object with its interfaces.
pub struct Object<'a>(pub &'a ManagedObjects, pub &'a OwnedObjectPath);

impl<'a> Object<'a> {
    /// The properties of an interface, such as `Block`; `None` if the object does not have the interface.
    pub fn get(&self, interface: &str) -> Option<Properties<'a>> {
        let name = format!("{UDISKS}.{interface}");
        let interfaces = self.0.get(self.1)?;
        let (_, properties) = interfaces.iter().find(|(n, _)| n.as_str() == name)?;
        Some(Properties(properties))
    }
}

/// Properties of one interface of one object. Each method returns a value that says nothing if the property is missing
/// or has another type.
pub struct Properties<'a>(&'a HashMap<String, OwnedVariant>);

impl Properties<'_> {
    fn value(&self, name: &str) -> Option<&Variant<'_>> {
        self.0.get(name).map(|value| &**value)
    }

    /// A text, which may be of a drive or of a file system, or an object path; else an empty text.
    pub fn text(&self, name: &str) -> String {
        match self.value(name) {
            Some(Variant::Str(text)) => plain(text.as_str()),
            Some(Variant::ObjectPath(path)) => path.as_str().to_owned(),
            _ => String::new(),
        }
    }

    /// A number with a sign; else -1.
    pub fn signed(&self, name: &str) -> i32 {
        match self.value(name) {
            Some(Variant::I32(number)) => *number,
            _ => -1,
        }
    }

    /// A number of bytes, hours or seconds; else 0.
    pub fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Variant::U64(number)) => *number,
            _ => 0,
        }
    }

    /// A list of texts or of object paths; else none.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let Some(Variant::Array(texts)) = self.value(name) else {
            return Vec::new();
        };
        let text = |value: &Variant<'_>| match value {
            Variant::Str(text) => Some(text.as_str().to_owned()),
            Variant::ObjectPath(path) => Some(path.as_str().to_owned()),
            _ => None,
        };
        texts.iter().filter_map(text).collect()
    }

    /// A truth value; else false.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Variant::Bool(true)))
    }

    /// A path of a file; else an empty text.
    pub fn path(&self, name: &str) -> String {
        self.value(name).map_or_else(String::new, path)
    }

    /// Paths of files; else none.
    pub fn paths(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Variant::Array(paths)) => paths.iter().map(path).collect(),
            _ => Vec::new(),
        }
    }
}

/// UDisks2 sends a path of a file as bytes with a zero at the end.
fn path(value: &Variant<'_>) -> String {
    let Variant::Array(array) = value else {
        return String::new();
    };
    let bytes: Vec<u8> = array
        .iter()
        .map_while(|value| match value {
            Variant::U8(byte) if *byte != 0 => Some(*byte),
            _ => None,
        })
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
