// SPDX-License-Identifier: GPL-3.0-or-later
//! The way from the choices to a plan, from the confirmed plan to a job, and to the end of the job.

use std::time::Duration;

use adw::subclass::prelude::*;
use gtk::glib::{self, clone};
use tandem_api::{DataState, Failure, Kind, Mode, PlanSpec};

use super::Wizard;
use crate::client::draft_spec;
use crate::display::{erased_by, erases};
use crate::model::draft::Page;
use crate::model::facts::JobFacts;
use crate::model::objects::JobObject;
use crate::widgets::scrolled::scroll_to_end;

/// The button that begins the job cannot be pressed for this long after it has appeared in the place of "Review". A
/// double click on "Review" therefore begins and erases nothing.
const ERASE_BUTTON_DELAY: Duration = Duration::from_millis(700);

impl Wizard {
    pub(super) fn job_facts(&self) -> Option<JobFacts> {
        self.imp().job.borrow().as_ref().map(|(job, _)| job.facts())
    }

    /// Asks once which modes are offered for this disk and this SSD: each plan of the service names the refused modes,
    /// which are the same for each size of the cache. If the service makes no plan, the next change asks again.
    pub(super) fn ask_modes(&self) {
        let imp = self.imp();
        let spec = draft_spec(&imp.draft.borrow()).map(|spec| PlanSpec {
            mode: Mode::Writethrough,
            ..spec
        });
        let asked = spec.clone().map(|spec| PlanSpec {
            partition_bytes: spec.partition_bytes.min(1),
            memory_bytes: spec.memory_bytes.min(1),
            ..spec
        });
        if *imp.asked.borrow() == asked {
            return;
        }
        imp.asked.replace(asked.clone());
        imp.refused_modes.take();
        let (Some(client), Some(spec)) = (imp.client.get().cloned(), spec) else {
            return;
        };
        glib::spawn_future_local(clone!(
            #[weak(rename_to = wizard)]
            self,
            async move {
                let plan = client.plan(&spec).await;
                let imp = wizard.imp();
                if *imp.asked.borrow() != asked {
                    return;
                }
                // The review says why no plan is possible at all.
                let Ok(plan) = plan else {
                    imp.asked.take();
                    return;
                };
                imp.draft.borrow_mut().offer(&plan.refused_modes);
                imp.refused_modes.replace(plan.refused_modes);
                wizard.show_mode();
            }
        ));
    }

    pub(super) fn make_plan(&self) {
        let imp = self.imp();
        let Some(client) = imp.client.get().cloned() else {
            return;
        };
        // Another device may have the block path of a chosen one by now.
        let devices = self.devices();
        let other = imp.draft.borrow_mut().recognize(&devices);
        if other {
            return self.go(Page::Choices);
        }
        let Some(spec) = draft_spec(&imp.draft.borrow()) else {
            return;
        };
        imp.review.wait();
        // The timer of an earlier plan does not end the delay of this one.
        if let Some(timer) = imp.erase_timer.take() {
            timer.remove();
        }
        imp.erase_delayed.set(false);
        self.set_busy(true);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = wizard)]
            self,
            async move {
                // The page shows what is erased, so that pressing its button is the consent to erase.
                let plan = client.plan(&spec).await;
                let imp = wizard.imp();
                match plan {
                    Ok(plan) => {
                        imp.erase_delayed.set(true);
                        let erased = erased_by(&plan, &wizard.devices());
                        let (is_root, wish) = (wizard.origin_is_root(), imp.draft.borrow().mode);
                        let target = wizard.target();
                        imp.review.show_plan(plan, erased, is_root, wish, target);
                        let timer = glib::timeout_add_local_once(
                            ERASE_BUTTON_DELAY,
                            clone!(
                                #[weak]
                                wizard,
                                move || {
                                    wizard.imp().erase_timer.take();
                                    wizard.imp().erase_delayed.set(false);
                                    wizard.refresh();
                                }
                            ),
                        );
                        imp.erase_timer.replace(Some(timer));
                    }
                    Err(failure) => {
                        imp.review.show_failure(&failure);
                        if matches!(
                            failure.kind,
                            Kind::FstabNamesDevice
                                | Kind::CrypttabNamesDevice
                                | Kind::GrubNamesDevice
                        ) {
                            wizard.offer_name_changes().await;
                        }
                        // "Try Again" makes the usual plan, unless only the next start can be planned.
                        imp.draft.borrow_mut().at_next_start = wizard.origin_is_root();
                    }
                }
                wizard.set_busy(false);
            }
        ));
    }

    pub(super) fn begin(&self) {
        let imp = self.imp();
        let (Some(client), Some(plan)) = (imp.client.get().cloned(), imp.review.plan()) else {
            return;
        };
        imp.ended.set(false);
        imp.begins.set(true);
        self.set_busy(true);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = wizard)]
            self,
            async move {
                let begun = client.create(&plan).await;
                wizard.imp().begins.set(false);
                wizard.set_busy(false);
                match begun {
                    Ok(path) => {
                        wizard.imp().done.show(&plan, wizard.target());
                        wizard.imp().begun.replace(Some(plan));
                        wizard.imp().job_path.replace(Some(path));
                        wizard.look_for_job();
                    }
                    Err(failure) => {
                        wizard.imp().review.show_failure(&failure);
                        wizard.refresh();
                    }
                }
            }
        ));
    }

    /// Shows the job as soon as the service has announced it, and shows a failure if the job vanishes without a cache.
    pub(super) fn look_for_job(&self) {
        let imp = self.imp();
        let (Some(path), Some(store)) = (imp.job_path.borrow().clone(), imp.store.get()) else {
            return;
        };
        if imp.ended.get() {
            return;
        }
        let known = imp.job.borrow().is_some();
        match store.job(&path) {
            Some(job) if !known => {
                let changes = job.follow_changes(clone!(
                    #[weak(rename_to = wizard)]
                    self,
                    move |job| wizard.job_changed(job)
                ));
                imp.progress.show_job(&job);
                imp.job.replace(Some((job.clone(), changes)));
                self.go(Page::Progress);
                self.job_changed(&job);
            }
            // A job that has ended goes after some seconds; a slow app may see its cache, but not its end.
            None if self.has_cache() && !store.has_service_left() => {
                imp.ended.set(true);
                self.go(Page::Done);
            }
            None if known => {
                // The service has ended. When it starts again, it finishes the job, or restores all but the erased data.
                let erases = imp.begun.borrow().as_ref().is_some_and(erases);
                let data = if erases {
                    DataState::Erased
                } else {
                    DataState::Incomplete
                };
                self.job_failed(&Failure::new(Kind::Interrupted).data(data));
            }
            _ => {}
        }
    }

    /// Whether the cache of the job exists; a job that fails leaves none.
    fn has_cache(&self) -> bool {
        let uuid = self.job_facts().map(|job| job.cache_uuid);
        let cache = uuid.and_then(|uuid| self.imp().store.get()?.cache(&uuid));
        cache.is_some()
    }

    fn job_changed(&self, job: &JobObject) {
        if self.imp().ended.get() {
            return;
        }
        match job.facts().finished {
            None => self.refresh(),
            Some(Ok(())) => {
                self.imp().ended.set(true);
                self.go(Page::Done);
            }
            Some(Err(failure)) => self.job_failed(&failure),
        }
    }

    fn job_failed(&self, failure: &Failure) {
        let imp = self.imp();
        imp.ended.set(true);
        imp.job_path.replace(None);
        imp.job.take();
        imp.progress.show_failure(failure);
        self.refresh();
    }

    pub(super) fn cancel(&self) {
        let (Some(client), Some(job)) = (self.imp().client.get().cloned(), self.job_facts()) else {
            return;
        };
        self.imp().progress.show_cancel_failure(None);
        self.set_busy(true);
        glib::spawn_future_local(clone!(
            #[weak(rename_to = wizard)]
            self,
            async move {
                // If the job has ended meanwhile, the page already shows its end.
                if let Err(failure) = client.cancel(&job.path).await
                    && !wizard.imp().ended.get()
                {
                    tracing::warn!("the job is not cancelled: {failure}");
                    wizard.imp().progress.show_cancel_failure(Some(&failure));
                    scroll_to_end(&wizard.imp().scroller);
                }
                wizard.set_busy(false);
            }
        ));
    }
}
