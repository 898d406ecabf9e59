// SPDX-License-Identifier: GPL-3.0-or-later
//! The plans that were given out, until they are executed or too old.

use crate::decide::plan::{Plan, VALID_SECONDS};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tandem_api::{JobKind, PlanReply, PlanSpec};

/// Plans that one user may have open; a further plan replaces the oldest.
const MAX_PLANS: usize = 16;
/// Plans that all users together may have open.
const MAX_PLANS_OF_ALL: usize = 128;

/// A plan that was given out.
struct Offer {
    plan: Plan,
    /// The request; `None` for a change of a cache that exists.
    spec: Option<PlanSpec>,
    uid: u32,
    at: Instant,
}

impl Offer {
    fn is_valid(&self) -> bool {
        self.at.elapsed() < Duration::from_secs(VALID_SECONDS.into())
    }
}

/// A plan as the call that executes it names it.
pub(super) struct Named<'a> {
    pub id: &'a str,
    pub digest: &'a str,
    pub kind: JobKind,
    /// The cache whose object was called.
    pub cache: Option<&'a str>,
    /// The caller.
    pub uid: u32,
}

/// The plans, by their ids.
#[derive(Default)]
pub(super) struct Offers(BTreeMap<String, Offer>);

impl Offers {
    /// Keeps a plan for its user, and fills in its id.
    pub fn keep(&mut self, mut plan: Plan, spec: Option<PlanSpec>, uid: u32) -> PlanReply {
        self.0.retain(|_, offer| offer.is_valid());
        self.make_room(uid);
        let id = uuid::Uuid::new_v4().simple().to_string();
        plan.reply.plan_id.clone_from(&id);
        let reply = plan.reply.clone();
        let at = Instant::now();
        let offer = Offer {
            plan,
            spec,
            uid,
            at,
        };
        self.0.insert(id, offer);
        reply
    }

    /// A valid plan with its request, if the caller got it and names all of it.
    pub fn find(&self, named: &Named<'_>) -> Option<(Plan, Option<PlanSpec>)> {
        let offer = self.0.get(named.id).filter(|offer| {
            offer.uid == named.uid
                && offer.is_valid()
                && offer.plan.kind == named.kind
                && offer.plan.reply.digest == named.digest
                && named.cache.is_none_or(|uuid| offer.plan.uuid == uuid)
        });
        offer.map(|offer| (offer.plan.clone(), offer.spec.clone()))
    }

    /// Removes a plan. Returns whether it was there.
    pub fn take(&mut self, id: &str) -> bool {
        self.0.remove(id).is_some()
    }

    /// Whether a plan may still be executed.
    pub fn any_is_valid(&self) -> bool {
        self.0.values().any(Offer::is_valid)
    }

    fn count(&self, uid: u32) -> usize {
        self.0.values().filter(|offer| offer.uid == uid).count()
    }

    /// Makes room for a plan of this user. A user with too many plans loses the oldest plan. If all users together have
    /// too many plans, the user with the most plans loses the oldest: many accounts cannot keep another user from
    /// planning.
    fn make_room(&mut self, uid: u32) {
        while self.count(uid) >= MAX_PLANS {
            self.drop_oldest(uid);
        }
        while self.0.len() >= MAX_PLANS_OF_ALL {
            let uids = self.0.values().map(|offer| offer.uid);
            let most = uids.max_by_key(|uid| self.count(*uid));
            self.drop_oldest(most.unwrap_or(uid));
        }
    }

    fn drop_oldest(&mut self, uid: u32) {
        let of_user = self.0.iter().filter(|(_, offer)| offer.uid == uid);
        let oldest = of_user.min_by_key(|(_, offer)| offer.at);
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            self.0.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::action::Pair;
    use tandem_api::Mode;

    fn plan() -> Plan {
        crate::decide::plan::flush(&Pair::nowhere(Mode::Writethrough), 0, Vec::new())
    }

    #[test]
    fn many_users_with_many_plans_keep_no_other_user_from_planning() {
        let mut offers = Offers::default();
        let mut offer = |uid: u32| {
            offers.keep(plan(), None, uid);
            (offers.count(uid), offers.count(1000), offers.0.len())
        };
        for uid in 1000..1008 {
            for _ in 0..MAX_PLANS {
                offer(uid);
            }
        }
        let (own, ..) = offer(1000);
        assert_eq!(own, MAX_PLANS);
        // Root, and a user with few plans, are never refused and lose no plan.
        for number in 0..3 {
            let (own, _, all) = offer(0);
            assert_eq!((own, all), (number + 1, MAX_PLANS_OF_ALL));
        }
        let (own, ..) = offer(2000);
        assert_eq!(own, 1);
        let (own, ..) = offer(0);
        assert_eq!(own, 4);
    }

    #[test]
    fn a_plan_is_found_by_all_that_names_it_and_taken_once() {
        let mut offers = Offers::default();
        let reply = offers.keep(plan(), None, 1000);
        let named = || Named {
            id: &reply.plan_id,
            digest: &reply.digest,
            kind: plan().kind,
            cache: None,
            uid: 1000,
        };
        assert!(offers.find(&named()).is_some());
        let others = [
            Named { id: "x", ..named() },
            Named {
                digest: "x",
                ..named()
            },
            Named {
                kind: JobKind::Create,
                ..named()
            },
            Named {
                cache: Some("x"),
                ..named()
            },
            Named {
                uid: 1001,
                ..named()
            },
        ];
        for other in others {
            assert!(offers.find(&other).is_none());
        }
        assert!(offers.any_is_valid());
        assert!(offers.take(&reply.plan_id) && !offers.take(&reply.plan_id));
        assert!(!offers.any_is_valid() && offers.find(&named()).is_none());
    }
}
