// SPDX-License-Identifier: GPL-3.0-or-later
//! Follows every job on a cache that exists to its end, however many there are, and tells each end once.

use std::cell::RefCell;
use std::rc::Rc;

use gtk::glib::{self, clone};
use tandem_api::JobKind;

use super::facts::JobFacts;
use super::objects::JobObject;
use super::store::Store;

/// The jobs that are followed: all but those that create a cache. The wizard shows those.
#[derive(Default)]
pub struct JobEnds {
    followed: RefCell<Vec<(JobObject, glib::SignalGroup)>>,
}

impl JobEnds {
    /// Calls `then` with every job of `store` that ends from now on.
    pub fn follow(self: &Rc<Self>, store: &Store, then: impl Fn(&JobFacts) + 'static) {
        let then = Rc::new(then);
        let look = clone!(
            #[weak(rename_to = ends)]
            self,
            move |store: &Store| ends.look(store, &then)
        );
        look(store);
        store.connect_changed(look);
    }

    fn look(self: &Rc<Self>, store: &Store, then: &Rc<impl Fn(&JobFacts) + 'static>) {
        let jobs = store.jobs();
        // A service that was started again has other jobs, even where the paths are the same.
        let mut followed = self.followed.borrow_mut();
        followed.retain(|(job, _)| jobs.contains(job));
        for job in jobs {
            let facts = job.facts();
            let known = followed.iter().any(|(known, _)| *known == job);
            if known || facts.kind == JobKind::Create || facts.finished.is_some() {
                continue;
            }
            let changes = job.follow_changes(clone!(
                #[weak(rename_to = ends)]
                self,
                #[strong]
                then,
                move |job| ends.changed(job, &*then)
            ));
            followed.push((job, changes));
        }
    }

    fn changed(&self, job: &JobObject, then: &dyn Fn(&JobFacts)) {
        let facts = job.facts();
        if facts.finished.is_some() {
            self.followed.borrow_mut().retain(|(known, _)| known != job);
            then(&facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::{ModuleFacts, ServiceFacts};
    use tandem_api::{Failure, Kind, ModuleProblem, ModuleState, SigningKey};

    fn job(path: &str, kind: JobKind) -> JobFacts {
        JobFacts {
            path: path.into(),
            cache_uuid: format!("cache of {path}"),
            kind,
            cancellable: true,
            ..JobFacts::default()
        }
    }

    fn over(mut job: JobFacts) -> JobFacts {
        job.finished = Some(Err(Box::new(Failure::new(Kind::UnwrittenData))));
        job
    }

    fn tell(store: &Store, jobs: &[JobFacts]) {
        store.apply_service(ServiceFacts {
            module: ModuleFacts {
                state: ModuleState::Loaded,
                problem: ModuleProblem::None,
                detail: String::new(),
                key: SigningKey::NotNeeded,
                kernel: String::new(),
                has_dm_cache: false,
            },
            kernels_without_module: vec![],
            minimum_ssd_bytes: 0,
            memory_for_caches: 0,
            caches: vec![],
            jobs: jobs.to_vec(),
            watches: vec![],
            found: vec![],
            others: vec![],
            devices: vec![],
        });
    }

    /// The `JobEnds`, which must be kept alive, and the paths of the jobs whose ends were told.
    fn followed(store: &Store) -> (Rc<JobEnds>, Rc<RefCell<Vec<String>>>) {
        let (ends, told) = (Rc::new(JobEnds::default()), Rc::new(RefCell::default()));
        let keep: Rc<RefCell<Vec<String>>> = Rc::clone(&told);
        ends.follow(store, move |job| keep.borrow_mut().push(job.path.clone()));
        (ends, told)
    }

    #[test]
    fn a_job_that_ends_beside_another_is_told_and_each_once() {
        let store = Store::default();
        let (_ends, told) = followed(&store);
        let (first, second) = (job("/1", JobKind::Remove), job("/2", JobKind::Flush));
        tell(&store, std::slice::from_ref(&first));
        tell(&store, &[first.clone(), second.clone()]);
        tell(&store, &[first.clone(), over(second.clone())]);
        assert_eq!(*told.borrow(), ["/2"]);
        tell(&store, &[over(first.clone()), over(second)]);
        tell(&store, &[over(first)]);
        assert_eq!(*told.borrow(), ["/2", "/1"]);
    }

    #[test]
    fn a_service_that_was_started_again_tells_the_end_of_its_own_jobs() {
        let store = Store::default();
        let (_ends, told) = followed(&store);
        let remove = job("/1", JobKind::Remove);
        tell(&store, std::slice::from_ref(&remove));
        store.service_left();
        // The service goes on with the job that it recorded, and may give the job the same path as before.
        for path in ["/1", "/7"] {
            let again = job(path, JobKind::Remove);
            tell(&store, std::slice::from_ref(&again));
            tell(&store, &[over(again)]);
        }
        assert_eq!(*told.borrow(), ["/1", "/7"]);
    }

    #[test]
    fn what_is_made_or_was_over_before_is_not_told() {
        let store = Store::default();
        let (_ends, told) = followed(&store);
        let create = job("/1", JobKind::Create);
        tell(&store, &[create.clone(), over(job("/2", JobKind::Remove))]);
        tell(&store, &[over(create)]);
        assert!(told.borrow().is_empty());
    }
}
