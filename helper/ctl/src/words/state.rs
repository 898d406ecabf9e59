// SPDX-License-Identifier: GPL-3.0-or-later
//! What a cache is doing.

use tandem_api::{CacheState, Sharing};

/// Advice about a cache over the disk from which GRUB starts the computer.
pub const GRUB_WOULD_FAIL: &str = "GRUB starts this computer from this disk, and would not start it any more after its next update. Remove the \
     cache (“tandemctl remove”) and restart before GRUB is updated";

/// The cause that changes the disk beside a cache; nothing if there is none.
pub fn sharing(sharing: Sharing) -> Option<&'static str> {
    match sharing {
        Sharing::Alone => None,
        Sharing::Filesystem => Some(
            "The file system has further devices, so the cache starts empty each time, and write-back is off. Remove the cache, or take the other \
             devices from the file system (“btrfs device remove”)",
        ),
        Sharing::Snapshots => Some(
            "The volume has snapshots, which lack what is not yet on the hard disk, so the cache starts empty each time, and \
             write-back is off. Remove the cache before you merge a snapshot",
        ),
    }
}

/// What a cache is doing. `unwritten` says that data may be on the SSD only.
pub fn state(state: CacheState, reason: &str, unwritten: bool) -> String {
    let text = match (state, reason) {
        (CacheState::Active, "disk-error") => "active, but the disk reported an error",
        (CacheState::Active, _) => "active",
        (CacheState::Bypass, "ssd-gone-dirty") => {
            "the SSD failed or was unplugged with data that is not yet on the hard disk; the rest can be read, \
             nothing can be saved. Nothing is lost if the SSD comes back as it was"
        }
        (CacheState::Bypass | CacheState::Stopped, "disk-missing") if unwritten => {
            "the disk is missing, and data may be not yet on the hard disk. Keep both, and connect the disk to no \
             other computer"
        }
        (CacheState::Bypass | CacheState::Stopped, "disk-missing") => "the disk is missing",
        (CacheState::Bypass, _) => "bypassed: everything goes to the disk",
        (CacheState::Suspended, _) => "suspended for a moment",
        (CacheState::Stopped, "ssd-gone-dirty") => {
            "not assembled: the SSD is missing, with data that is not yet on the hard disk. Do not use the disk without \
             it; nothing is lost if the SSD comes back as it was"
        }
        (CacheState::Stopped, "disk-elsewhere") => {
            "held: the disk is connected in another way than before, or this is a copy of it, and data may be not \
             yet on the hard disk. Connect it as it was"
        }
        (CacheState::Stopped, "disk-in-doubt") => {
            "not assembled: a device that may be the disk was used without it. If that was a copy, connect both at \
             the same time; otherwise the data on the SSD does not fit the disk any more"
        }
        (CacheState::Stopped, "disk-changed") => {
            "not assembled: the disk was changed without it. Neither the disk nor the SSD is touched"
        }
        (CacheState::Stopped, "ssd-damaged") => {
            "not assembled: the cache information on the SSD is damaged. Neither the disk nor the SSD is touched"
        }
        (CacheState::Stopped, "ssd-blocks") => {
            "not assembled: the SSD uses larger blocks than the disk. Neither the disk nor the SSD is \
             touched; connect the SSD as it was"
        }
        (CacheState::Stopped, "put-away") => {
            "stopped, because the disk was unmounted: it can be unplugged. The cache starts again when the disk is plugged \
             in again, or with “tandemctl start”"
        }
        (CacheState::Stopped, _) if unwritten => {
            "not assembled, and data may be not yet on the hard disk. Do not use the disk without it; nothing of it is \
             lost"
        }
        (CacheState::Stopped, _) => "not assembled: the disk works without it",
        (CacheState::Pending, _) => {
            "waiting for the next start of the computer; the disk works without it until then"
        }
        (CacheState::Detached, _) => {
            "removed; a plain mapping stays until the disk is unmounted or you next start the computer"
        }
    };
    if reason.is_empty() {
        text.to_owned()
    } else {
        format!("{text} ({reason})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_called_safe_that_is_only_on_the_ssd() {
        for stopped in [CacheState::Bypass, CacheState::Stopped] {
            let text = state(stopped, "ssd-gone-dirty", true);
            assert!(
                text.contains("not yet on the hard disk") && text.contains("comes back"),
                "{text}"
            );
            assert!(!text.contains("works without"), "{text}");
        }
        for reason in ["module-refused", "disk-missing"] {
            let text = state(CacheState::Stopped, reason, true);
            assert!(text.contains("not yet on the hard disk"), "{text}");
            let text = state(CacheState::Stopped, reason, false);
            assert!(!text.contains("not yet on the hard disk"), "{text}");
        }
        let changed = state(CacheState::Stopped, "disk-changed", true);
        assert!(changed.contains("Neither"), "{changed}");
    }
}
