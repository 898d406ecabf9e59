// SPDX-License-Identifier: GPL-3.0-or-later
//! A window's connection to the store, which ends before the window does.

use std::cell::RefCell;

use gtk::glib::{SignalHandlerId, prelude::*};

use crate::model::store::Store;

/// Tells a window of the changes of one [`Store`].
#[derive(Debug, Default)]
pub struct Follower(RefCell<Option<(Store, SignalHandlerId)>>);

impl Follower {
    /// Calls `then` after every change of `store`, and no longer after those of an earlier store.
    pub fn follow(&self, store: &Store, then: impl Fn() + 'static) {
        self.stop();
        let handler = store.connect_changed(move |_| then());
        self.0.replace(Some((store.clone(), handler)));
    }

    /// Ends the connection. A closed window stops its follower, since the window may stay alive for a while.
    pub fn stop(&self) {
        if let Some((store, handler)) = self.0.take() {
            store.disconnect(handler);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_follower_hears_of_one_store_until_the_window_is_closed_or_gone() {
        let heard = Rc::new(Cell::new(0));
        let count = || {
            let heard = heard.clone();
            move || heard.set(heard.get() + 1)
        };
        let change = |store: &Store| store.emit_by_name::<()>("changed", &[]);
        let (first, second) = (Store::default(), Store::default());
        let follower = Follower::default();
        follower.follow(&first, count());
        change(&first);
        assert_eq!(heard.get(), 1);
        follower.follow(&second, count());
        change(&first);
        assert_eq!(heard.get(), 1, "the first store is no longer followed");
        change(&second);
        assert_eq!(heard.get(), 2);
        follower.stop();
        change(&second);
        assert_eq!(heard.get(), 2, "a stopped follower hears nothing");
        follower.follow(&second, count());
        drop(follower);
        change(&second);
        assert_eq!(heard.get(), 2, "a dropped follower hears nothing");
    }
}
