//! What a batch of requests comes to, given quotas: whom to let through, and what to write first.
//!
//! Nothing here does I/O. A batch is planned again with newer quotas for as long as writes meet conflicts; what it has already written is
//! taken off them first, so that each plan says what all of it should come to.

use std::collections::BTreeMap;

use kubequota_core::decision::{Raise, Refusal};
use kubequota_core::{Quota, ResourceList};

/// Which request of a batch.
pub(crate) type CaseId = usize;

/// What a batch has written: by uid of the quota and by request, what was added to `used`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Booked(BTreeMap<String, BTreeMap<CaseId, ResourceList>>);

impl Booked {
    /// What this request is charged, by the uid of the quota.
    #[cfg(test)]
    fn of(&self, case: CaseId) -> BTreeMap<&str, &ResourceList> {
        let charges = self.0.iter();
        charges
            .filter_map(|(quota, charges)| Some((quota.as_str(), charges.get(&case)?)))
            .collect()
    }

    /// Whether this request is charged just so much by the quota of this uid.
    pub(crate) fn holds(&self, quota: &str, case: CaseId, charge: &ResourceList) -> bool {
        self.0.get(quota).and_then(|charges| charges.get(&case)) == Some(charge)
    }

    fn total(&self, quota: &Quota) -> ResourceList {
        let charges = self.0.get(&quota.uid).into_iter().flat_map(BTreeMap::values);
        charges.fold(ResourceList::new(), |sum, charge| sum.add(charge))
    }

    /// A write has landed: this is what the batch now holds of that quota. Tells how many requests it gave something back.
    pub(crate) fn landed(&mut self, write: &Write) -> u64 {
        let before = self.0.insert(write.uid.clone(), write.charges.clone());
        let gone = before
            .into_iter()
            .flatten()
            .filter(|(case, _)| !write.charges.contains_key(case));
        gone.count().try_into().unwrap_or(u64::MAX)
    }

    /// Whether what is booked for these requests, and for no others, is all there is.
    pub(crate) fn is_only_for(&self, mut kept: impl FnMut(CaseId) -> bool) -> bool {
        self.0.values().flat_map(BTreeMap::keys).all(|case| kept(*case))
    }

    /// Forgets a quota that is gone, with all that was charged to it.
    pub(crate) fn retain_quotas(&mut self, quotas: &[Quota]) {
        self.0.retain(|uid, _| quotas.iter().any(|quota| quota.uid == *uid));
    }
}

/// `status.used` of a quota, to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    /// Which of the quotas that were given.
    pub(crate) quota: usize,
    /// The values that change.
    pub(crate) used: ResourceList,
    /// The quota's uid.
    pub(crate) uid: String,
    /// What of it is whose.
    charges: BTreeMap<CaseId, ResourceList>,
}

/// What to do.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// To be written, before anyone that is charged by it is let through.
    pub(crate) writes: Vec<Write>,
    /// The requests that fit, with the quotas that they are charged to and how much.
    pub(crate) allowed: Vec<(CaseId, Vec<Raise>)>,
    /// The requests that do not.
    pub(crate) refused: Vec<(CaseId, Refusal)>,
}

/// Plans for the requests that are still open. Whoever else of the batch was charged gives it back, unless `keeps` says that it was let
/// through. A quota that is `in_doubt`, since a write of it was not answered, is written in any case: at one revision one write lands, so
/// that settles it.
pub(crate) fn plan(
    quotas: &[Quota],
    booked: &Booked,
    keeps: impl Fn(CaseId) -> bool,
    in_doubt: impl Fn(&Quota) -> bool,
    open: impl IntoIterator<Item = CaseId>,
    mut judge: impl FnMut(CaseId, &[&Quota]) -> Result<Vec<Raise>, Refusal>,
) -> Plan {
    // What each quota would be without the charges that are open to change.
    let mut charges: Vec<BTreeMap<CaseId, ResourceList>> = Vec::with_capacity(quotas.len());
    let mut working: Vec<Quota> = Vec::with_capacity(quotas.len());
    for quota in quotas {
        let kept: BTreeMap<CaseId, ResourceList> = booked.0.get(&quota.uid).map_or_else(BTreeMap::new, |charges| {
            let kept = charges.iter().filter(|(case, _)| keeps(**case));
            kept.map(|(case, charge)| (*case, charge.clone())).collect()
        });
        let mut bare = quota.clone();
        if let Some(used) = &mut bare.status.used {
            let open = kept
                .values()
                .fold(booked.total(quota), |open, kept| open.subtract(kept));
            let lower = used.mask(|name| open.contains(name.as_str())).subtract(&open);
            for (name, value) in &lower {
                if let Some(used) = used.get_mut(name.as_str()) {
                    used.clone_from(value);
                }
            }
        }
        working.push(bare);
        charges.push(kept);
    }
    let mut plan = Plan::default();
    for case in open {
        match judge(case, &working.iter().collect::<Vec<_>>()) {
            Ok(raises) => {
                for Raise { quota, by } in &raises {
                    working[*quota].raise(by);
                    charges[*quota].insert(case, by.clone());
                }
                plan.allowed.push((case, raises));
            }
            Err(refusal) => plan.refused.push((case, refusal)),
        }
    }
    for (index, ((before, after), charges)) in quotas.iter().zip(&working).zip(charges).enumerate() {
        let (Some(before), Some(after)) = (&before.status.used, &after.status.used) else {
            continue;
        };
        let changed = after.mask(|name| before.get(name.as_str()) != after.get(name.as_str()));
        // Where one goes and another of the same size comes nothing changes, but whose it is.
        let same = booked.0.get(&quotas[index].uid).unwrap_or(&BTreeMap::new()) == &charges;
        if !changed.is_empty() || !same || in_doubt(&quotas[index]) {
            plan.writes.push(Write {
                quota: index,
                used: changed,
                uid: quotas[index].uid.clone(),
                charges,
            });
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use kubequota_core::quota::{QuotaSpec, QuotaStatus};
    use kubequota_core::{Quantity, QuotaKey, ResourceName};

    use super::*;

    fn list(pods: i64) -> ResourceList {
        [(ResourceName::from_static("pods"), Quantity::from(pods))]
            .into_iter()
            .collect()
    }

    /// A quota of 10 pods.
    fn quota(name: &str, used: i64) -> Quota {
        Quota {
            key: QuotaKey::new("a", name),
            uid: format!("uid-{name}"),
            resource_version: "1".to_owned(),
            spec: QuotaSpec::default(),
            status: QuotaStatus {
                hard: Some(list(10)),
                used: Some(list(used)),
            },
            last_charges: None,
            enforced: None,
            problems: Vec::new(),
        }
    }

    /// A request for so many pods of every quota, as far as these have room.
    fn wants(pods: i64) -> impl Fn(&[&Quota]) -> Result<Vec<Raise>, Refusal> {
        move |quotas| {
            let full = quotas.iter().find(|quota| {
                let used = quota.status.used("pods").unwrap().units().unwrap();
                used + pods > 10
            });
            match full {
                Some(full) => Err(Refusal::StatusUnknown {
                    quota: full.key.name.to_string(),
                    names: Vec::new(),
                }),
                None => Ok((0..quotas.len()).map(|quota| Raise { quota, by: list(pods) }).collect()),
            }
        }
    }

    fn planned(quotas: &[Quota], booked: &Booked, kept: &[CaseId], open: &[(CaseId, i64)]) -> Plan {
        let judge = |case, quotas: &[&Quota]| {
            let (_, pods) = open.iter().find(|(open, _)| *open == case).unwrap();
            wants(*pods)(quotas)
        };
        plan(
            quotas,
            booked,
            |case| kept.contains(&case),
            |_| false,
            open.iter().map(|(case, _)| *case),
            judge,
        )
    }

    /// The new `used` of each quota that is written.
    fn writes(plan: &Plan) -> Vec<(usize, Option<i64>)> {
        let used = |write: &Write| write.used.get("pods").map(|pods| pods.units().unwrap());
        plan.writes.iter().map(|write| (write.quota, used(write))).collect()
    }

    fn ids<T>(list: &[(CaseId, T)]) -> Vec<CaseId> {
        list.iter().map(|(case, _)| *case).collect()
    }

    #[test]
    fn one_write_charges_many_in_their_order() {
        let plan = planned(
            &[quota("q", 4)],
            &Booked::default(),
            &[],
            &[(0, 2), (1, 5), (2, 3), (3, 1), (4, 1)],
        );
        assert_eq!((ids(&plan.allowed), ids(&plan.refused)), (vec![0, 2, 3], vec![1, 4]));
        assert_eq!(writes(&plan), [(0, Some(10))]);
    }

    #[test]
    fn who_is_charged_nothing_writes_nothing() {
        let plan = planned(&[quota("q", 10)], &Booked::default(), &[], &[(0, 0), (1, 1)]);
        assert_eq!((ids(&plan.allowed), ids(&plan.refused)), (vec![0], vec![1]));
        let plan = planned(&[], &Booked::default(), &[], &[(0, 1)]);
        assert_eq!((ids(&plan.allowed), plan.writes), (vec![0], vec![]));
    }

    /// Two quotas; the write of the second meets a conflict, and what is found then decides.
    #[test]
    fn a_conflict_is_planned_again_without_what_is_written_already() {
        let open = [(0, 2), (1, 3)];
        let first = planned(&[quota("q", 4), quota("r", 4)], &Booked::default(), &[], &open);
        assert_eq!(writes(&first), [(0, Some(9)), (1, Some(9))]);
        let mut booked = Booked::default();
        assert_eq!(booked.landed(&first.writes[0]), 0);
        assert_eq!(booked.of(1), BTreeMap::from([("uid-q", &list(3))]));
        // Someone else took one of r, and one pod of q has gone meanwhile.
        let (q, r) = (quota("q", 8), quota("r", 5));
        let second = planned(&[q.clone(), r.clone()], &booked, &[], &open);
        assert_eq!(
            (ids(&second.allowed), writes(&second)),
            (vec![0, 1], vec![(1, Some(10))])
        );
        // Or two of r: then the second request is refused, and its share of q given back.
        let second = planned(&[q.clone(), quota("r", 6)], &booked, &[], &open);
        assert_eq!((ids(&second.allowed), ids(&second.refused)), (vec![0], vec![1]));
        assert_eq!(writes(&second), [(0, Some(5)), (1, Some(8))]);
        // Or nobody waits any more: all is given back.
        let second = planned(&[q.clone(), r.clone()], &booked, &[], &[]);
        assert_eq!(writes(&second), [(0, Some(3))]);
        // But not of who was let through.
        let second = planned(&[q, r], &booked, &[0], &[]);
        assert_eq!(writes(&second), [(0, Some(5))]);
        assert_eq!(
            booked.landed(&second.writes[0]),
            1,
            "what the second request was charged"
        );
        assert!(booked.is_only_for(|case| case == 0));
    }

    /// One has given up, another of the same size takes its place: that has to be noted, or it would be given back later.
    #[test]
    fn a_charge_that_changes_hands_is_noted() {
        let mut booked = Booked::default();
        booked.landed(&planned(&[quota("q", 4)], &booked, &[], &[(0, 6)]).writes[0]);
        let plan = planned(&[quota("q", 10)], &booked, &[], &[(1, 6)]);
        assert_eq!((ids(&plan.allowed), writes(&plan)), (vec![1], vec![(0, None)]));
        booked.landed(&plan.writes[0]);
        assert!(booked.is_only_for(|case| case == 1));
        booked.retain_quotas(&[quota("r", 0)]);
        assert_eq!(booked, Booked::default());
    }
}
