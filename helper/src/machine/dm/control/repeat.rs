// SPDX-License-Identifier: GPL-3.0-or-later
//! Doing something for each mapping, or a second time.

use super::DmResult;

/// Calls `f` for all items, also after it failed for one.
///
/// # Errors
/// Returns the first failure. `tell` is called with each failure.
pub(super) fn each<T>(
    items: impl IntoIterator<Item = T>,
    mut f: impl FnMut(&T) -> DmResult<()>,
    tell: impl Fn(&T, &super::DmFailure),
) -> DmResult<()> {
    let mut all = Ok(());
    for item in items {
        let one = f(&item);
        if let Err(e) = &one {
            tell(&item, e);
        }
        all = all.and(one);
    }
    all
}

/// Calls `f` once more if it fails.
///
/// # Errors
/// That of the second time.
pub(super) fn twice(what: &str, mut f: impl FnMut() -> DmResult<()>) -> DmResult<()> {
    f().or_else(|e| {
        tracing::warn!("{what}: {e}; once more");
        f()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::dm::control::other;
    use std::cell::RefCell;

    #[test]
    fn a_mapping_that_fails_keeps_no_other_from_being_tried() {
        let (done, told) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let result = each(
            [1, 2, 3],
            |number| {
                done.borrow_mut().push(*number);
                match number {
                    3 => Ok(()),
                    number => Err(other("resume", number)),
                }
            },
            |number, _| told.borrow_mut().push(*number),
        );
        assert_eq!(result.unwrap_err().to_string(), "resume: 1");
        assert_eq!(*done.borrow(), [1, 2, 3]);
        assert_eq!(*told.borrow(), [1, 2]);
    }

    #[test]
    fn what_fails_once_is_done_again_and_only_once() {
        for (failures, succeeds, made) in [(0, true, 1), (1, true, 2), (2, false, 2)] {
            let mut calls = 0;
            let result = twice("test", || {
                calls += 1;
                match calls > failures {
                    true => Ok(()),
                    false => Err(other("load", calls)),
                }
            });
            assert_eq!((result.is_ok(), calls), (succeeds, made));
        }
    }
}
