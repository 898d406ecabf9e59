// SPDX-License-Identifier: GPL-3.0-or-later
//! What to do next after a failure of `tandemctl`, where that is not what it is in the window.

use gettextrs::gettext;
use tandem_api::distribution::GRUB_SETTINGS;
use tandem_api::{Failure, Kind};

use crate::fill;

/// What to do next, before the names are filled in; `None`: the same as in the window, which is `next`.
pub(super) fn next(failure: &Failure, next: &str) -> Option<String> {
    let of_file = |file| {
        let words = gettext("“tandemctl names {node}” changes that entry of {file}.");
        fill(&words, &[("node", &failure.device.name), ("file", file)])
    };
    Some(match failure.kind {
        Kind::SsdHoldsData => gettext("It holds: {content}. To erase it, add --erase-ssd."),
        Kind::SsdUnknownContent => gettext("To erase it, add --erase-ssd."),
        Kind::SsdHoldsUnwritten => gettext("See “tandemctl found”."),
        Kind::UnwrittenData => {
            let discard = gettext("To discard it, add --discard-unwritten.");
            format!("{next} {discard}")
        }
        Kind::OriginRoot => {
            gettext("It can be cached from the next start on: add --at-next-start.")
        }
        Kind::FstabNamesDevice => of_file("/etc/fstab"),
        Kind::CrypttabNamesDevice => of_file("/etc/crypttab"),
        Kind::GrubNamesDevice => of_file(GRUB_SETTINGS),
        Kind::DeviceChanged | Kind::PlanUnknown => gettext("Plan again."),
        Kind::WrongState if failure.name == "paused" => gettext("See “tandemctl resume”."),
        Kind::InvalidArgument if failure.name != "name" => {
            gettext("The argument “{name}” makes no sense.")
        }
        _ => return None,
    })
}
