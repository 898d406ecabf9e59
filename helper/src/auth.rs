// SPDX-License-Identifier: GPL-3.0-or-later
//! The only question to polkit. Nothing is allowed unless it says so.

use std::collections::HashMap;
use tandem_api::{DeviceText, Failure, Kind};
use zbus::message::Header;
use zbus::{Connection, fdo};
use zbus_polkit::policykit1::{AuthorityProxy, CheckAuthorizationFlags, Subject};

/// What a person may be allowed to do, one for each class of consequence; the ids are those of the
/// policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Put a cache over a disk, on an SSD with nothing on it.
    Create,
    /// The same, erasing what is on the SSD.
    CreateErasing,
    /// Give the plain disk back.
    Remove,
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Create, Self::CreateErasing, Self::Remove];

    /// Id of the polkit action.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Create => "org.tandemcache.Tandem1.create",
            Self::CreateErasing => "org.tandemcache.Tandem1.create-erasing",
            Self::Remove => "org.tandemcache.Tandem1.remove",
        }
    }

    /// What the dialog asks; translated by polkit in our gettext domain, and it fills in the details.
    /// Each stands in `helper/src/auth.rs` only, for xgettext to find behind the word `message`.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Create => "Authenticate to use $(ssd) as a cache for $(disk)",
            Self::CreateErasing => "Authenticate to ERASE $(ssd) and use it as a cache for $(disk)",
            Self::Remove => "Authenticate to remove the cache from $(disk) and free $(ssd)",
        }
    }
}

/// Asks whether the sender of a call may do something with a disk and an SSD. The person may be
/// asked to authenticate, if the caller allows that, so this can take minutes.
///
/// # Errors
/// `NotAuthorized`, or `AuthorityUnavailable` if polkit gave no answer.
pub async fn check(
    connection: &Connection,
    header: &Header<'_>,
    permission: Permission,
    disk: &DeviceText,
    ssd: &DeviceText,
) -> Result<(), Failure> {
    let unavailable = |e: String| Failure::new(Kind::AuthorityUnavailable).detail(e);
    let subject =
        Subject::new_for_message_header(header).map_err(|e| unavailable(e.to_string()))?;
    let authority = AuthorityProxy::new(connection)
        .await
        .map_err(|e| unavailable(e.to_string()))?;
    let (disk, ssd) = (describe(disk), describe(ssd));
    let details = HashMap::from([
        ("disk", disk.as_str()),
        ("ssd", ssd.as_str()),
        ("polkit.message", permission.message()),
        ("polkit.gettext_domain", "tandem"),
    ]);
    let interactive = header
        .primary()
        .flags()
        .contains(zbus::message::Flags::ALLOW_INTERACTIVE_AUTH);
    let flags = if interactive {
        CheckAuthorizationFlags::ALLOW_USER_INTERACTION
    } else {
        CheckAuthorizationFlags::empty()
    };
    let answer = authority
        .check_authorization(&subject, permission.id(), &details, flags, "")
        .await
        .map_err(|e| unavailable(e.to_string()))?;
    if answer.is_authorized {
        return Ok(());
    }
    let detail = if answer.details.contains_key("polkit.dismissed") {
        "dismissed"
    } else {
        "denied"
    };
    Err(Failure::new(Kind::NotAuthorized).detail(detail))
}

/// Model and size, as the dialog shows them; control characters of a hostile drive are left out.
fn describe(device: &DeviceText) -> String {
    let model = if device.model.is_empty() {
        &device.name
    } else {
        &device.model
    };
    let clean: String = model
        .chars()
        .filter(|c| !c.is_control() && *c != '$')
        .collect();
    let gigabytes = device.size as f64 / 1e9;
    format!("{clean} ({gigabytes:.1} GB, {})", device.name)
}

/// User id of the sender of a call.
///
/// # Errors
/// `NotAuthorized` if the bus does not know it (any more).
pub async fn sender_uid(connection: &Connection, header: &Header<'_>) -> Result<u32, Failure> {
    let denied = |e: String| Failure::new(Kind::NotAuthorized).detail(e);
    let sender = header
        .sender()
        .ok_or_else(|| denied("no sender".into()))?
        .to_owned();
    let bus = fdo::DBusProxy::new(connection)
        .await
        .map_err(|e| denied(e.to_string()))?;
    bus.get_connection_unix_user(sender.into())
        .await
        .map_err(|e| denied(e.to_string()))
}
