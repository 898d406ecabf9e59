// SPDX-License-Identifier: GPL-3.0-or-later
//! The members of the service's objects, as introspection shows them: a new method or property is found by itself.

use super::Machine;
use tandem_api::BUS_NAME;

/// Value of an attribute in a line of introspection.
fn attribute(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

/// Interface, member and signature: of the arguments of a method, of the value of a property.
pub struct Found {
    pub methods: Vec<(String, String, String)>,
    pub properties: Vec<(String, String, String)>,
    /// The properties that can be set.
    pub writable: Vec<(String, String, String)>,
}

/// The members of an object.
pub async fn introspect(machine: &Machine, path: &str) -> Found {
    let proxy = zbus::fdo::IntrospectableProxy::builder(&machine.connection)
        .destination(BUS_NAME)
        .path(path)
        .build();
    let xml = proxy.await.unwrap().introspect().await.unwrap();
    let mut found = Found {
        methods: Vec::new(),
        properties: Vec::new(),
        writable: Vec::new(),
    };
    let mut interface = String::new();
    for line in xml.lines().map(str::trim) {
        if line.starts_with("<node ") && line.contains(" name=") {
            // The test introspects each object below by itself.
            break;
        }
        if line.starts_with("<interface ") {
            interface = attribute(line, "name").unwrap();
        } else if line.starts_with("<method ") {
            found.methods.push((
                interface.clone(),
                attribute(line, "name").unwrap(),
                String::new(),
            ));
        } else if line.starts_with("<arg ") && attribute(line, "direction").as_deref() == Some("in")
        {
            if let Some((.., signature)) = found.methods.last_mut() {
                signature.push_str(&attribute(line, "type").unwrap());
            }
        } else if line.starts_with("<property ") {
            let name = attribute(line, "name").unwrap();
            let property = (interface.clone(), name, attribute(line, "type").unwrap());
            if attribute(line, "access").is_some_and(|a| a != "read") {
                found.writable.push(property.clone());
            }
            found.properties.push(property);
        }
    }
    found
}
