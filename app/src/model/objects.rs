// SPDX-License-Identifier: GPL-3.0-or-later
//! GObjects around facts: a widget holds one and listens to its `changed` signal.
//!
//! Facts are replaced as a whole, and `changed` is emitted only if the facts differ. A widget may therefore show all
//! facts again at each signal.

use std::cell::RefCell;
use std::sync::OnceLock;

use gtk::glib::subclass::Signal;
use gtk::glib::value::FromValue;
use gtk::glib::{self, subclass::prelude::*};
use gtk::prelude::*;
use tandem_api::Sample;

use super::facts::{CacheFacts, JobFacts};
use super::inventory::Device;
use super::series::Series;

/// Calls `then` after every `signal` of `object`, as long as the returned group is kept.
/// The group does not keep `object` alive.
pub(super) fn follow<T>(object: &T, signal: &str, then: impl Fn(&T) + 'static) -> glib::SignalGroup
where
    T: IsA<glib::Object> + for<'v> FromValue<'v>,
{
    let group = glib::SignalGroup::new::<T>();
    group.connect_local(signal, false, move |values| {
        then(&values[0].get().ok()?);
        None
    });
    group.set_target(Some(object));
    group
}

/// Defines a GObject around `Option<$facts>` with a `changed` signal.
macro_rules! fact_object {
    ($(#[$meta:meta])* $name:ident, $imp:ident, $gtype:literal, $facts:ty) => {
        mod $imp {
            use super::*;

            #[derive(Default)]
            pub struct $name {
                pub facts: RefCell<Option<$facts>>,
                pub series: RefCell<Series>,
            }

            #[glib::object_subclass]
            impl ObjectSubclass for $name {
                const NAME: &'static str = $gtype;
                type Type = super::$name;
            }

            impl ObjectImpl for $name {
                fn signals() -> &'static [Signal] {
                    static SIGNALS: OnceLock<Vec<Signal>> = OnceLock::new();
                    SIGNALS.get_or_init(|| {
                        vec![Signal::builder("changed").build(), Signal::builder("sampled").build()]
                    })
                }
            }
        }

        glib::wrapper! {
            $(#[$meta])*
            pub struct $name(ObjectSubclass<$imp::$name>);
        }

        impl $name {
            /// Makes an object with these facts.
            #[must_use]
            pub fn new(facts: $facts) -> Self {
                let object: Self = glib::Object::new();
                object.imp().facts.replace(Some(facts));
                object
            }

            /// Replaces the facts; emits `changed` only if they differ.
            pub fn update(&self, facts: $facts) {
                let same = self.imp().facts.borrow().as_ref() == Some(&facts);
                if !same {
                    self.imp().facts.replace(Some(facts));
                    self.emit_by_name::<()>("changed", &[]);
                }
            }

            /// The facts.
            #[must_use]
            pub fn facts(&self) -> $facts {
                #[allow(clippy::unwrap_used, reason = "`new` is the only way to make one and sets them")]
                self.imp().facts.borrow().clone().unwrap()
            }

            /// Calls `then` after every change, as long as the returned group is kept.
            #[must_use]
            pub fn follow_changes(&self, then: impl Fn(&Self) + 'static) -> glib::SignalGroup {
                follow(self, "changed", then)
            }
        }
    };
}

fact_object!(
    /// A disk with its volumes.
    DeviceObject, device_imp, "TandemDevice", Device
);
fact_object!(
    /// A cache, with the samples of its recent past.
    CacheObject, cache_imp, "TandemCache", CacheFacts
);
fact_object!(
    /// A job.
    JobObject, job_imp, "TandemJob", JobFacts
);

impl CacheObject {
    /// Adds a sample.
    pub fn sample(&self, sample: Sample) {
        self.imp().series.borrow_mut().push(sample);
        self.emit_by_name::<()>("sampled", &[]);
    }

    /// Replaces all samples by those that the service kept.
    pub fn set_history(&self, history: Vec<Sample>) {
        self.imp().series.replace(Series::from_history(history));
        self.emit_by_name::<()>("sampled", &[]);
    }

    /// Calls `look` with the series.
    pub fn with_series<T>(&self, look: impl FnOnce(&Series) -> T) -> T {
        look(&self.imp().series.borrow())
    }

    /// Calls `then` after every sample, as long as the returned group is kept.
    #[must_use]
    pub fn follow_samples(&self, then: impl Fn(&Self) + 'static) -> glib::SignalGroup {
        follow(self, "sampled", then)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::model::store::Store;

    #[test]
    fn a_group_hears_of_one_object_until_another_group_takes_its_place() {
        let heard = Rc::new(Cell::new(0));
        let follow = |store: &Store| {
            let heard = heard.clone();
            Some(store.follow_changes(move |_| heard.set(heard.get() + 1)))
        };
        let change = |store: &Store| store.emit_by_name::<()>("changed", &[]);
        let (first, second) = (Store::default(), Store::default());
        let followed = RefCell::new(follow(&first));
        change(&first);
        assert_eq!(heard.get(), 1);
        followed.replace(follow(&second));
        change(&first);
        assert_eq!(heard.get(), 1, "the first store is no longer followed");
        change(&second);
        assert_eq!(heard.get(), 2);
        followed.take();
        change(&second);
        assert_eq!(heard.get(), 2, "without a group nothing is heard");
    }
}
