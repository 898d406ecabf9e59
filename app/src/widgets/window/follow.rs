// SPDX-License-Identifier: GPL-3.0-or-later
//! How the window follows the service and UDisks2, and what the window does when the service ends while caches or
//! watches go on without it.

use std::cell::RefCell;
use std::time::Duration;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib::{self, clone};
use tandem_api::{Failure, Kind};

use super::Window;
use crate::client::{Client, ServiceEvent};
use crate::model::objects::CacheObject;
use crate::model::store::objects;

/// The system starts a service that was killed after a second. The window says nothing of a service that is back within
/// this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Seconds between two calls that keep the service, which leaves a minute after the last one.
const KEEP: u32 = 30;

impl Window {
    /// Connects to the bus and follows both services. A further call first ends what the call before has started.
    pub(super) fn start(&self) {
        for follower in self.imp().followers.take() {
            follower.abort();
        }
        if self.imp().client.get().is_some() {
            self.follow();
            return;
        }
        let connect = glib::spawn_future_local(clone!(
            #[weak(rename_to = window)]
            self,
            async move {
                match Client::connect().await {
                    Ok(client) => {
                        let imp = window.imp();
                        // `start` sets the client only once.
                        let _ = imp.client.set(client);
                        window.follow();
                    }
                    Err(failure) => window.imp().store.bus_failed(failure),
                }
            }
        ));
        self.imp().followers.borrow_mut().push(connect);
    }

    /// Keeps the service for as long as a person looks at caches of other systems, whose figures it follows.
    pub(super) fn keep_others(&self) {
        let window = glib::object::ObjectExt::downgrade(self);
        glib::timeout_add_seconds_local(KEEP, move || {
            let Some(window) = window.upgrade() else {
                return glib::ControlFlow::Break;
            };
            let client = window.imp().client.get().cloned();
            let shown = window.is_active() && !window.imp().store.other_caches().is_empty();
            if let Some(client) = client.filter(|_| shown) {
                wake(client);
            }
            glib::ControlFlow::Continue
        });
    }

    /// Has the service come back for the caches of other systems, if a person looks at the window.
    pub(super) fn look_at_others(&self) {
        let client = self.imp().client.get().cloned();
        if let Some(client) =
            client.filter(|_| self.is_active() && self.imp().store.misses_others())
        {
            wake(client);
        }
    }

    fn follow(&self) {
        let Some(client) = self.imp().client.get().cloned() else {
            return;
        };
        let store = self.imp().store.clone();
        let disks = glib::spawn_future_local(clone!(
            #[strong]
            client,
            #[strong]
            store,
            async move {
                let told = |told| {
                    store.apply_disks(told);
                    // The service alone knows what can be done with a disk that has come or changed.
                    if store.has_service_left() {
                        wake(client.clone());
                    }
                };
                client.follow_disks(told).await;
            }
        ));
        let missed = MissedService::new(self);
        let service = glib::spawn_future_local(async move {
            client
                .follow_service(|event| match event {
                    ServiceEvent::Facts(facts) => {
                        let is_back = store.has_service_left();
                        store.apply_service(facts);
                        if is_back {
                            missed.is_back();
                        }
                    }
                    ServiceEvent::Sampled(path, sample) => store.apply_sample(&path, sample),
                    ServiceEvent::Left => {
                        missed.has_left(store.service_left());
                        missed.look_at_others();
                    }
                    ServiceEvent::Failed(failure) => store.service_failed(failure),
                })
                .await;
        });
        self.imp().followers.borrow_mut().extend([disks, service]);
    }
}

/// Has the service tell its facts again. Nothing waits for that: a service that does not come leaves the facts as they were.
fn wake(client: Client) {
    glib::spawn_future_local(async move {
        if let Err(failure) = client.wake().await {
            tracing::warn!("the service does not start: {failure:?}");
        }
    });
}

/// A window that waits for the service to come back.
struct MissedService {
    window: glib::WeakRef<Window>,
    /// The timer of [`PATIENCE`].
    timer: RefCell<Option<glib::JoinHandle<()>>>,
}

impl MissedService {
    fn new(window: &Window) -> Self {
        Self {
            window: glib::object::ObjectExt::downgrade(window),
            timer: RefCell::default(),
        }
    }

    /// The service has left. `missed`: it should not have.
    fn has_left(&self, missed: bool) {
        if !missed {
            return;
        }
        let window = self.window.clone();
        let timer = glib::spawn_future_local(async move {
            glib::timeout_future(PATIENCE).await;
            let Some(window) = window.upgrade() else {
                return;
            };
            let failure = Failure::new(Kind::ServiceUnavailable).name("tandem");
            window.imp().store.service_failed(failure);
            // The first page says that the service does not answer, and has the button to try again.
            window.show_overview();
        });
        if let Some(before) = self.timer.replace(Some(timer)) {
            before.abort();
        }
    }

    /// The service has left, and a person who looks at the window sees caches of other systems in it.
    fn look_at_others(&self) {
        if let Some(window) = self.window.upgrade() {
            window.look_at_others();
        }
    }

    /// The service has told its facts after it had left. The new service does not know which caches the old one was asked
    /// to sample.
    fn is_back(&self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        let Some(window) = self.window.upgrade() else {
            return;
        };
        for cache in objects::<CacheObject>(&window.imp().store.caches()) {
            window.load_history(&cache);
        }
        if let Some(page) = window.imp().cache_page.get() {
            page.follow_new_service();
        }
    }
}

impl Drop for MissedService {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }
}
