// SPDX-License-Identifier: GPL-3.0-or-later
//! The words for what serves a cache.

use gettextrs::gettext;
use tandem_api::Target;

/// The words for the target that serves a cache: its name, and what a person has to know of it; that may be empty.
#[must_use]
pub fn target_words(target: Target) -> [String; 2] {
    match target {
        Target::Tandem => [gettext("Tandem's kernel module (dm-tandem)"), String::new()],
        Target::DmCache => [
            gettext("The kernel's own cache (dm-cache)"),
            gettext(
                "It keeps what it holds when the computer is switched off in order, if the disk has ext4 or Btrfs. Otherwise, and after a crash, it begins empty. If the SSD fails, programs may get errors until the SSD or the cache is removed; a system that runs from the disk may have to be restarted.",
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_learns_which_cache_may_begin_empty() {
        for target in Target::ALL.iter().copied() {
            let [name, known] = target_words(target);
            assert!(name.contains("(dm-"), "{name}");
            assert_eq!(known.contains("empty"), target == Target::DmCache);
        }
    }
}
