// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for a kernel that may start next and has no module.

use gettextrs::{gettext, ngettext};
use tandem_api::distribution::headers_package;

use crate::fill;

/// Title, what happens, and what to do; `None` if every kernel has the module.
#[must_use]
pub fn kernels_words(releases: &[String]) -> Option<[String; 3]> {
    let newest = releases.last()?;
    let count = u32::try_from(releases.len()).unwrap_or(u32::MAX);
    let title = ngettext(
        "Kernel {kernels} Has No Tandem Module",
        "Kernels {kernels} Have No Tandem Module",
        count,
    );
    let next = gettext(
        "Install the package {package}; the module is then built. Or choose the kernel that runs now when you start the computer.",
    );
    Some([
        fill(&title, &[("kernels", &releases.join(", "))]),
        gettext(
            "Without it, your disks work, but without their caches. No data will be missing: what is only on an SSD is written to the hard disk now, before you restart, and what you save goes there right away. Fast saving starts again automatically when the module is there.",
        ),
        fill(&next, &[("package", &headers_package(newest))]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_named_with_the_package_that_helps() {
        assert_eq!(kernels_words(&[]), None);
        let words = |releases: &[&str]| {
            let releases: Vec<_> = releases.iter().map(|&name| name.to_owned()).collect();
            kernels_words(&releases).unwrap()
        };
        let [title, _, next] = words(&["6.12.1"]);
        assert_eq!(title, "Kernel 6.12.1 Has No Tandem Module");
        assert!(next.contains("linux-headers-6.12.1;"), "{next}");
        let [title, ..] = words(&["6.12.1", "6.13"]);
        assert_eq!(title, "Kernels 6.12.1, 6.13 Have No Tandem Module");
    }
}
