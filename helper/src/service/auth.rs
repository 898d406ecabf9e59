// SPDX-License-Identifier: GPL-3.0-or-later
//! Asks polkit. Nothing is allowed unless polkit allows it. No other module asks polkit.

use std::collections::HashMap;
use tandem_api::{DeviceText, Failure, Kind, SizeText};
use zbus::message::Header;
use zbus::{Connection, fdo};
use zbus_polkit::policykit1::{AuthorityProxy, CheckAuthorizationFlags, Subject};

/// What polkit can allow: one permission for each class of consequences. The policy file has the same ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Create a cache on an empty SSD.
    Create,
    /// Create a cache and erase the content of the SSD.
    CreateErasing,
    /// Give a cache another share of its SSD.
    Resize,
    /// Remove a cache.
    Remove,
    /// Remove a cache and discard its dirty data.
    Discard,
    /// Turn on write-back.
    WriteBack,
    /// Change the settings of a cache that are no risk for the data.
    Tune,
    /// Have the firmware trust the key that the module is signed with.
    EnrollKey,
    /// Change how the start of the machine finds a disk.
    ChangeNames,
    /// Read from a disk for some seconds to measure its speed.
    TestSpeed,
    /// Observe the requests to a disk, and end that.
    WatchDisk,
    /// Use a cache of which this system has no record.
    TakeOver,
    /// Say which device is the disk of a cache.
    ConfirmDisk,
    /// Change where a partition begins, after bcache is removed from it.
    MovePartition,
}

impl Permission {
    /// All permissions.
    pub const ALL: [Self; 14] = [
        Self::Create,
        Self::CreateErasing,
        Self::Resize,
        Self::Remove,
        Self::Discard,
        Self::WriteBack,
        Self::Tune,
        Self::EnrollKey,
        Self::ChangeNames,
        Self::TestSpeed,
        Self::WatchDisk,
        Self::TakeOver,
        Self::ConfirmDisk,
        Self::MovePartition,
    ];

    /// Id of the polkit action.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Create => "org.tandemcache.Tandem1.create",
            Self::CreateErasing => "org.tandemcache.Tandem1.create-erasing",
            Self::Resize => "org.tandemcache.Tandem1.resize",
            Self::Remove => "org.tandemcache.Tandem1.remove",
            Self::Discard => "org.tandemcache.Tandem1.discard",
            Self::WriteBack => "org.tandemcache.Tandem1.write-back",
            Self::Tune => "org.tandemcache.Tandem1.tune",
            Self::EnrollKey => "org.tandemcache.Tandem1.enroll-key",
            Self::ChangeNames => "org.tandemcache.Tandem1.change-names",
            Self::TestSpeed => "org.tandemcache.Tandem1.test-speed",
            Self::WatchDisk => "org.tandemcache.Tandem1.watch-disk",
            Self::TakeOver => "org.tandemcache.Tandem1.take-over",
            Self::ConfirmDisk => "org.tandemcache.Tandem1.confirm-disk",
            Self::MovePartition => "org.tandemcache.Tandem1.move-partition",
        }
    }

    /// The question of the dialog. polkit translates the question in our gettext domain and fills in the details.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Create => gettext("Authenticate to use $(ssd) as a cache for $(disk)"),
            Self::CreateErasing => {
                gettext("Authenticate to ERASE $(ssd) and use it as a cache for $(disk)")
            }
            Self::Resize => gettext(
                "Authenticate to change the cache of $(disk) to this share of an SSD: $(ssd)",
            ),
            Self::Remove => {
                gettext("Authenticate to remove the cache from $(disk) and release $(ssd)")
            }
            Self::Discard => gettext(
                "Authenticate to DISCARD the data for $(disk) that is stored only on $(ssd), and remove the cache",
            ),
            Self::WriteBack => gettext(
                "Authenticate to turn on fast saving for $(disk). If $(ssd) fails before data is on the hard disk, the file system may be damaged beyond repair",
            ),
            Self::Tune => gettext("Authenticate to change the cache of $(disk) on $(ssd)"),
            Self::EnrollKey => gettext(
                "Authenticate to have this computer trust the key that signs the kernel module of Tandem",
            ),
            Self::ChangeNames => {
                gettext("Authenticate to change how this computer finds $(disk) when it starts")
            }
            Self::TestSpeed => gettext("Authenticate to test the speed of $(disk)"),
            Self::WatchDisk => {
                gettext("Authenticate to choose whether Tandem watches how $(disk) is used")
            }
            Self::TakeOver => gettext("Authenticate to use the cache on $(ssd) for $(disk)"),
            Self::ConfirmDisk => gettext(
                "Authenticate to confirm that $(disk) is the disk of the cache on $(ssd). What is stored only on the SSD will be written to it",
            ),
            Self::MovePartition => gettext(
                "Authenticate to make $(disk) a plain partition, by a change of its partition table",
            ),
        }
    }
}

/// Marks a text for xgettext. polkit translates the text.
const fn gettext(text: &'static str) -> &'static str {
    text
}

/// Asks polkit whether the sender of a call has a permission for a disk and an SSD. If the caller allows it, polkit
/// asks the user to authenticate, so this can take minutes.
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

/// Model and size for a person. polkit fills in a detail for `$(name)`.
pub(crate) fn describe(device: &DeviceText) -> String {
    let model = if device.model.is_empty() {
        &device.name
    } else {
        &device.model
    };
    let clean = model.replace('$', "");
    format!("{clean} ({}, {})", SizeText::new(device.size), device.name)
}

/// User id of the sender of a call.
///
/// # Errors
/// `NotAuthorized` if the bus does not know the sender (any more).
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

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str =
        include_str!("../../../data/polkit-1/actions/org.tandemcache.Tandem1.policy");

    /// The text of an action in the policy file.
    fn action(id: &str) -> &'static str {
        let (_, rest) = POLICY
            .split_once(&format!("<action id=\"{id}\">"))
            .unwrap_or_else(|| panic!("{id} is not in the policy file"));
        rest.split_once("</action>").unwrap().0
    }

    #[test]
    fn the_policy_file_has_each_permission_and_keeps_none_with_a_risk() {
        // Only a test that changes nothing needs no password, and that only for a person at the machine.
        let free = "<allow_active>yes</allow_active>";
        for permission in Permission::ALL {
            let action = action(permission.id());
            let kept = action.contains("auth_admin_keep");
            let harmless = [Permission::Tune, Permission::WatchDisk].contains(&permission);
            assert_eq!(kept, harmless, "{permission:?}");
            assert!(action.contains("<allow_inactive>no</allow_inactive>"));
            let yes = action.matches("yes<").count();
            let expected = usize::from(permission == Permission::TestSpeed);
            assert_eq!(yes, expected, "{permission:?}");
            assert_eq!(action.matches(free).count(), expected, "{permission:?}");
        }
        assert_eq!(POLICY.matches("<action id=").count(), Permission::ALL.len());
    }
}
