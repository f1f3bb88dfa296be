//! The ledger: one charge for each object, and for each quota the running sums of what it counts.
//!
//! An event costs the quotas of its namespace times the names it touches, never the namespace's objects. Charges are interned, since
//! replicas are charged alike. [`usage::recount`] is its oracle: [`Ledger::recount`] compares the two.
//!
//! An object that can't be read is kept as an invalid record with the charge it last had, if any. While there is one, what its kind feeds
//! can't be told from the sums alone: [`Ledger::is_clouded`].

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use jiff::Timestamp;
use kubequota_quantity::Quantity;

use crate::evaluator::{Assessment, Charge};
use crate::object::ObjectId;
use crate::quota::QuotaKey;
use crate::registry::{Feed, KindId};
use crate::resource_list::{ResourceList, ResourceName};
use crate::scope::Selector;
use crate::usage;

/// A change of what one quota observes under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The quota.
    pub quota: Arc<str>,
    /// The name.
    pub name: ResourceName,
    /// By how much; never zero.
    pub by: Quantity,
    /// How much of a growth follows from what a client asked for, and so was charged by admission before; zero where usage shrank.
    pub asked: Quantity,
}

/// An object whose charge changed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its kind.
    pub kind: KindId,
    /// The object.
    pub id: ObjectId,
    /// What changed, for each quota and name; empty where no quota counts it.
    pub deltas: Vec<Delta>,
}

/// All charges and sums.
#[derive(Debug, Default)]
pub struct Ledger {
    charges: Charges,
    namespaces: HashMap<Arc<str>, Namespace>,
    deadlines: BTreeMap<(Timestamp, Arc<str>, KindId, ObjectId), ChargeId>,
}

#[derive(Debug, Default)]
struct Namespace {
    objects: HashMap<KindId, HashMap<ObjectId, Entry>>,
    /// How many of them can't be read.
    invalid: HashMap<KindId, u32>,
    quotas: BTreeMap<Arc<str>, Sums>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Charged(ChargeId),
    /// As above, and its charge changes by itself at this moment.
    Expiring(ChargeId, Timestamp),
    /// The object can't be read; what it was last charged.
    Invalid(Option<ChargeId>),
}

impl Entry {
    fn charge(self) -> Option<ChargeId> {
        match self {
            Entry::Charged(charge) | Entry::Expiring(charge, _) => Some(charge),
            Entry::Invalid(charge) => charge,
        }
    }
}

#[derive(Clone, Debug)]
struct Sums {
    feed: Feed,
    selector: Selector,
    used: ResourceList,
}

impl Sums {
    fn counts(&self, kind: KindId, charge: &Charge) -> bool {
        self.feed.kinds().binary_search(&kind).is_ok() && self.selector.matches(&charge.scopes)
    }
}

impl Ledger {
    /// Sets what an object is charged. What changed, for each quota and name.
    pub fn apply(&mut self, namespace: &str, kind: KindId, id: ObjectId, assessment: Assessment) -> Vec<Delta> {
        let Assessment { charge, later } = assessment;
        let new = self.charges.intern(charge);
        let entry = match later {
            None => Entry::Charged(new),
            Some((at, charge)) => {
                let after = self.charges.intern(charge);
                let key = (at, self.namespace_name(namespace), kind, id);
                if let Some(replaced) = self.deadlines.insert(key, after) {
                    self.charges.release(replaced);
                }
                Entry::Expiring(new, at)
            }
        };
        self.set(namespace, kind, id, Some(entry))
    }

    /// Notes that an object is there and can't be read. It keeps the charge it had.
    pub fn invalidate(&mut self, namespace: &str, kind: KindId, id: ObjectId) {
        let last = self.entry(namespace, kind, id).and_then(Entry::charge);
        if let Some(last) = last {
            self.charges.keep(last);
        }
        let deltas = self.set(namespace, kind, id, Some(Entry::Invalid(last)));
        debug_assert!(deltas.is_empty(), "the charge is the same");
    }

    /// Takes an object out. What changed, for each quota and name.
    pub fn remove(&mut self, namespace: &str, kind: KindId, id: ObjectId) -> Vec<Delta> {
        self.set(namespace, kind, id, None)
    }

    /// The one place where an entry changes: sums, interned charges and deadlines follow.
    fn set(&mut self, namespace: &str, kind: KindId, id: ObjectId, new: Option<Entry>) -> Vec<Delta> {
        if new.is_none() && self.entry(namespace, kind, id).is_none() {
            return Vec::new();
        }
        let name = self.namespace_name(namespace);
        let space = self.namespaces.entry(name.clone()).or_default();
        let objects = space.objects.entry(kind).or_default();
        let old = match new {
            Some(new) => objects.insert(id, new),
            None => objects.remove(&id),
        };
        if let Some(Entry::Expiring(_, at)) = old
            && !matches!(new, Some(Entry::Expiring(_, same)) if same == at)
            && let Some(after) = self.deadlines.remove(&(at, name, kind, id))
        {
            self.charges.release(after);
        }
        space.count_invalid(kind, old, new);
        let (old_charge, new_charge) = (old.and_then(Entry::charge), new.and_then(Entry::charge));
        let deltas = if old_charge == new_charge {
            Vec::new()
        } else {
            let charges = &self.charges;
            space.settle(
                kind,
                old_charge.map(|id| charges.get(id)),
                new_charge.map(|id| charges.get(id)),
            )
        };
        if let Some(old) = old_charge {
            self.charges.release(old);
        }
        self.tidy(namespace, kind);
        deltas
    }

    /// Forgets what is empty.
    fn tidy(&mut self, namespace: &str, kind: KindId) {
        let Some(space) = self.namespaces.get_mut(namespace) else {
            return;
        };
        if space.objects.get(&kind).is_some_and(HashMap::is_empty) {
            space.objects.remove(&kind);
        }
        if space.objects.is_empty() && space.quotas.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    fn entry(&self, namespace: &str, kind: KindId, id: ObjectId) -> Option<Entry> {
        self.namespaces.get(namespace)?.objects.get(&kind)?.get(&id).copied()
    }

    fn namespace_name(&self, namespace: &str) -> Arc<str> {
        self.namespaces
            .get_key_value(namespace)
            .map_or_else(|| Arc::from(namespace), |(name, _)| name.clone())
    }

    /// What an object is charged now (for an unreadable one: was last charged).
    #[must_use]
    pub fn charge(&self, namespace: &str, kind: KindId, id: ObjectId) -> Option<&Charge> {
        let charge = self.entry(namespace, kind, id)?.charge()?;
        Some(self.charges.get(charge))
    }

    /// Adds a quota, or sets what it counts. The namespace is summed once.
    pub fn set_quota(&mut self, key: &QuotaKey, feed: Feed, selector: Selector) {
        let name = self.namespace_name(&key.namespace);
        let space = self.namespaces.entry(name).or_default();
        if space
            .quotas
            .get(&key.name)
            .is_some_and(|sums| sums.feed == feed && sums.selector == selector)
        {
            return;
        }
        let used = usage::recount(&feed, &selector, space.charges(&self.charges));
        space.quotas.insert(key.name.clone(), Sums { feed, selector, used });
    }

    /// Takes a quota out.
    pub fn remove_quota(&mut self, key: &QuotaKey) {
        let Some(space) = self.namespaces.get_mut(&key.namespace) else {
            return;
        };
        space.quotas.remove(&key.name);
        if space.quotas.is_empty() && space.objects.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
    }

    /// The running sum of each name that the quota's feed tracks.
    #[must_use]
    pub fn used(&self, key: &QuotaKey) -> Option<&ResourceList> {
        Some(&self.namespaces.get(&key.namespace)?.quotas.get(&key.name)?.used)
    }

    /// Whether some object of `kind` in `namespace` can't be read.
    #[must_use]
    pub fn is_clouded(&self, namespace: &str, kind: KindId) -> bool {
        self.namespaces
            .get(namespace)
            .is_some_and(|space| space.invalid.contains_key(&kind))
    }

    /// How many objects of `kind` can't be read.
    #[must_use]
    pub fn invalid(&self, kind: KindId) -> usize {
        let counts = self.namespaces.values().filter_map(|space| space.invalid.get(&kind));
        counts.map(|count| *count as usize).sum()
    }

    /// The objects of `kind` in `namespace`.
    pub fn ids(&self, namespace: &str, kind: KindId) -> impl Iterator<Item = ObjectId> {
        self.namespaces
            .get(namespace)
            .and_then(|space| space.objects.get(&kind))
            .into_iter()
            .flat_map(|objects| objects.keys().copied())
    }

    /// The namespaces that hold objects of `kind`.
    #[must_use]
    pub fn namespaces_of(&self, kind: KindId) -> Vec<Arc<str>> {
        let holding = self
            .namespaces
            .iter()
            .filter(|(_, space)| space.objects.contains_key(&kind));
        holding.map(|(name, _)| name.clone()).collect()
    }

    /// How many objects of `kind` are kept.
    #[must_use]
    pub fn len(&self, kind: KindId) -> usize {
        self.namespaces
            .values()
            .filter_map(|space| space.objects.get(&kind))
            .map(HashMap::len)
            .sum()
    }

    /// When the next charge changes by itself.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first_key_value().map(|((at, ..), _)| *at)
    }

    /// Lets the charges change whose moment has passed (strictly), and says which did, the earliest first.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Expired> {
        let mut expired = Vec::new();
        while let Some(due) = self.deadlines.first_entry() {
            if due.key().0 >= now {
                break;
            }
            let ((_, namespace, kind, id), after) = due.remove_entry();
            let deltas = self.set(&namespace, kind, id, Some(Entry::Charged(after)));
            expired.push(Expired {
                namespace,
                kind,
                id,
                deltas,
            });
        }
        expired
    }

    /// Sums a quota's namespace anew, and keeps that. Where the running sums were different, what they said: that is a bug.
    pub fn recount(&mut self, key: &QuotaKey) -> Option<Drift> {
        let space = self.namespaces.get_mut(&key.namespace)?;
        let sums = space.quotas.get(&key.name)?;
        let recounted = usage::recount(&sums.feed, &sums.selector, space.charges(&self.charges));
        if recounted == sums.used {
            return None;
        }
        let sums = space.quotas.get_mut(&key.name)?;
        Some(Drift {
            running: std::mem::replace(&mut sums.used, recounted.clone()),
            recounted,
        })
    }
}

/// A difference between running sums and a recount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// What the running sums said.
    pub running: ResourceList,
    /// What all charges come to.
    pub recounted: ResourceList,
}

impl Namespace {
    /// All charges, always in the same order: sums of different formats are printed in the format of what came first.
    fn charges<'a>(&'a self, charges: &'a Charges) -> impl Iterator<Item = (KindId, &'a Charge)> {
        let entries = self
            .objects
            .iter()
            .flat_map(|(kind, objects)| objects.iter().map(|(id, entry)| (*kind, *id, *entry)));
        let mut entries: Vec<(KindId, ObjectId, Entry)> = entries.collect();
        entries.sort_unstable_by_key(|(kind, id, _)| (*kind, *id));
        entries
            .into_iter()
            .filter_map(|(kind, _, entry)| Some((kind, charges.get(entry.charge()?))))
    }

    fn count_invalid(&mut self, kind: KindId, old: Option<Entry>, new: Option<Entry>) {
        let is_invalid = |entry| matches!(entry, Some(Entry::Invalid(_)));
        match (is_invalid(old), is_invalid(new)) {
            (false, true) => *self.invalid.entry(kind).or_default() += 1,
            (true, false) => {
                let left = self.invalid.get(&kind).map_or(0, |count| count - 1);
                if left == 0 {
                    self.invalid.remove(&kind);
                } else {
                    self.invalid.insert(kind, left);
                }
            }
            _ => {}
        }
    }

    /// One object's charge goes from `old` to `new`.
    fn settle(&mut self, kind: KindId, old: Option<&Charge>, new: Option<&Charge>) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for (quota, sums) in &mut self.quotas {
            let old = old.filter(|charge| sums.counts(kind, charge));
            let new = new.filter(|charge| sums.counts(kind, charge));
            let nothing = ResourceList::new();
            let (was, is) = (
                old.map_or(&nothing, |charge| &charge.usage),
                new.map_or(&nothing, |charge| &charge.usage),
            );
            let asked = |name: &str| {
                let of = |charge: Option<&Charge>| {
                    charge
                        .and_then(|charge| charge.spec_usage().get(name))
                        .cloned()
                        .unwrap_or_default()
                };
                of(new) - of(old)
            };
            for (name, by) in is.subtract(was).without_zeros() {
                let Some(sum) = sums.used.get_mut(name.as_str()) else {
                    continue;
                };
                *sum += &by;
                let asked = if by.is_negative() {
                    Quantity::zero()
                } else {
                    asked(name.as_str()).max(Quantity::zero()).min(by.clone())
                };
                deltas.push(Delta {
                    quota: quota.clone(),
                    name,
                    by,
                    asked,
                });
            }
        }
        deltas
    }
}

/// Interned charges.
#[derive(Debug, Default)]
struct Charges {
    slots: Vec<Slot>,
    free: Vec<ChargeId>,
    ids: HashMap<Arc<Charge>, ChargeId>,
}

#[derive(Debug)]
struct Slot {
    charge: Arc<Charge>,
    uses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ChargeId(u32);

impl Charges {
    fn intern(&mut self, charge: Charge) -> ChargeId {
        if let Some(id) = self.ids.get(&charge).copied() {
            self.keep(id);
            return id;
        }
        let slot = Slot {
            charge: Arc::new(charge),
            uses: 1,
        };
        let shared = slot.charge.clone();
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                // Four billion different charges don't fit into memory; the last id would be shared rather than wrap.
                ChargeId(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.ids.insert(shared, id);
        id
    }

    fn keep(&mut self, id: ChargeId) {
        self.slots[id.0 as usize].uses += 1;
    }

    fn release(&mut self, id: ChargeId) {
        let slot = &mut self.slots[id.0 as usize];
        slot.uses -= 1;
        if slot.uses == 0 {
            self.ids.remove(&slot.charge);
            slot.charge = Arc::default();
            self.free.push(id);
        }
    }

    fn get(&self, id: ChargeId) -> &Charge {
        &self.slots[id.0 as usize].charge
    }
}

/// The objects that a list has shown so far, to find those it no longer has.
#[derive(Debug, Default)]
pub struct Seen(HashMap<Arc<str>, HashSet<ObjectId>>);

impl Seen {
    /// Notes one.
    pub fn add(&mut self, namespace: &str, id: ObjectId) {
        match self.0.get_mut(namespace) {
            Some(ids) => ids.insert(id),
            None => self.0.entry(Arc::from(namespace)).or_default().insert(id),
        };
    }

    /// Whether the list had it.
    #[must_use]
    pub fn contains(&self, namespace: &str, id: ObjectId) -> bool {
        self.0.get(namespace).is_some_and(|ids| ids.contains(&id))
    }
}

#[cfg(test)]
impl Ledger {
    /// How many different charges are kept.
    fn interned(&self) -> usize {
        assert_eq!(
            self.charges.ids.len() + self.charges.free.len(),
            self.charges.slots.len()
        );
        self.charges.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::evaluator::{GroupResource, NoLookups};
    use crate::registry::Registry;
    use crate::scope::{PodFacts, Requirement, Scope, ScopeFacts};

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn kind(name: &str) -> KindId {
        Registry::standard().id(&GroupResource::core(name)).unwrap()
    }

    fn object(number: u8) -> ObjectId {
        ObjectId::from_uid(&format!("object {number}"))
    }

    fn feed(names: &[&str]) -> Feed {
        let names: Vec<ResourceName> = names.iter().map(|name| ResourceName::from(*name)).collect();
        Registry::standard().feed(&names, &NoLookups, |_| true)
    }

    /// `pods=1 cpu=2`.
    fn list(text: &str) -> ResourceList {
        let pair = |pair: &str| {
            pair.split_once('=')
                .map(|(name, value)| (name.into(), value.parse().unwrap()))
                .unwrap()
        };
        text.split_whitespace().map(pair).collect()
    }

    fn charge(usage: &str) -> Charge {
        Charge {
            usage: list(usage),
            ..Charge::default()
        }
    }

    fn by_spec(usage: &str, spec: &str) -> Charge {
        Charge {
            spec_usage: Some(list(spec)),
            ..charge(usage)
        }
    }

    fn best_effort(usage: &str, best_effort: bool) -> Charge {
        Charge {
            scopes: ScopeFacts::Pod(PodFacts {
                best_effort,
                ..PodFacts::default()
            }),
            ..charge(usage)
        }
    }

    /// `quota:name+by/asked`, in the order they come.
    fn texts(deltas: &[Delta]) -> String {
        let text = |delta: &Delta| {
            format!(
                "{}:{}{:+}/{}",
                delta.quota,
                delta.name,
                delta.by.units().unwrap(),
                delta.asked
            )
        };
        deltas.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    /// A ledger with a quota `q` over pods and cpu in the namespace `a`.
    fn ledger() -> (Ledger, QuotaKey, KindId) {
        let mut ledger = Ledger::default();
        let key = QuotaKey::new("a", "q");
        ledger.set_quota(&key, feed(&["pods", "cpu"]), Selector::default());
        (ledger, key, kind("pods"))
    }

    #[test]
    fn an_object_comes_changes_and_goes() {
        let (mut ledger, key, pods) = ledger();
        assert_eq!(ledger.used(&key), Some(&list("cpu=0 pods=0")));
        let steps = [
            (
                Some(charge("pods=1 cpu=2 memory=3")),
                "q:cpu+2/2 q:pods+1/1",
                "cpu=2 pods=1",
            ),
            (Some(charge("pods=1 cpu=2 memory=9")), "", "cpu=2 pods=1"),
            (Some(charge("pods=1 cpu=1")), "q:cpu-1/0", "cpu=1 pods=1"),
            (Some(charge("pods=1 cpu=4")), "q:cpu+3/3", "cpu=4 pods=1"),
            (Some(charge("memory=1")), "q:cpu-4/0 q:pods-1/0", "cpu=0 pods=0"),
            (Some(charge("cpu=5")), "q:cpu+5/5", "cpu=5 pods=0"),
            (None, "q:cpu-5/0", "cpu=0 pods=0"),
            (None, "", "cpu=0 pods=0"),
        ];
        for (charge, deltas, used) in steps {
            let made = match charge.clone() {
                Some(charge) => ledger.apply("a", pods, object(1), charge.into()),
                None => ledger.remove("a", pods, object(1)),
            };
            assert_eq!(texts(&made), deltas, "{charge:?}");
            assert_eq!(ledger.used(&key), Some(&list(used)), "{charge:?}");
            assert_eq!(ledger.charge("a", pods, object(1)), charge.as_ref());
        }
        assert_eq!(ledger.interned(), 0);
    }

    /// Growth counts as asked for only as far as the spec's part grew.
    #[test]
    fn asked() {
        let (mut ledger, _, pods) = ledger();
        let steps = [
            // What the status of a new object adds came after its admission.
            (by_spec("cpu=5", "cpu=2"), "q:cpu+5/2"),
            // The spec moved, the usage did not.
            (by_spec("cpu=5", "cpu=4"), ""),
            (by_spec("cpu=7", "cpu=4"), "q:cpu+2/0"),
            (by_spec("cpu=10", "cpu=5"), "q:cpu+3/1"),
            (charge("cpu=11"), "q:cpu+1/1"),
            (by_spec("cpu=12", "cpu=1"), "q:cpu+1/0"),
            (charge("cpu=5"), "q:cpu-7/0"),
        ];
        for (charge, deltas) in steps {
            assert_eq!(
                texts(&ledger.apply("a", pods, object(1), charge.clone().into())),
                deltas,
                "{charge:?}"
            );
        }
    }

    #[test]
    fn scopes_move_an_object_between_quotas() {
        let mut ledger = Ledger::default();
        let pods = kind("pods");
        for (name, scope) in [("b", Scope::BestEffort), ("n", Scope::NotBestEffort)] {
            ledger.set_quota(
                &QuotaKey::new("a", name),
                feed(&["pods"]),
                Selector::new(vec![Requirement::listed(scope)]),
            );
        }
        ledger.set_quota(&QuotaKey::new("other", "b"), feed(&["pods"]), Selector::default());
        assert_eq!(
            texts(&ledger.apply("a", pods, object(1), best_effort("pods=1", true).into())),
            "b:pods+1/1"
        );
        assert_eq!(
            texts(&ledger.apply("a", pods, object(1), best_effort("pods=1", false).into())),
            "b:pods-1/0 n:pods+1/1"
        );
        // Another kind may have the name and no scope; services feed neither quota.
        assert_eq!(
            texts(&ledger.apply("a", kind("services"), object(1), charge("pods=1").into())),
            ""
        );
        assert_eq!(ledger.used(&QuotaKey::new("other", "b")), Some(&list("pods=0")));
    }

    #[test]
    fn a_quota_is_summed_when_it_is_set() {
        let (mut ledger, key, pods) = ledger();
        ledger.apply("a", pods, object(1), best_effort("pods=1 memory=2", true).into());
        ledger.apply("a", pods, object(2), best_effort("pods=1 memory=3", false).into());
        ledger.set_quota(&key, feed(&["memory"]), Selector::default());
        assert_eq!(ledger.used(&key), Some(&list("memory=5")));
        ledger.set_quota(
            &key,
            feed(&["memory"]),
            Selector::new(vec![Requirement::listed(Scope::BestEffort)]),
        );
        assert_eq!(ledger.used(&key), Some(&list("memory=2")));
        ledger.remove_quota(&key);
        assert_eq!(ledger.used(&key), None);
        ledger.remove_quota(&QuotaKey::new("nowhere", "q"));
        assert_eq!(ledger.recount(&key), None);
    }

    #[test]
    fn a_charge_changes_strictly_after_its_moment() {
        let (mut ledger, key, pods) = ledger();
        let leaving = Assessment {
            charge: charge("pods=1 cpu=2"),
            later: Some((second(30), charge("memory=1"))),
        };
        ledger.apply("a", pods, object(1), leaving.clone());
        assert_eq!(ledger.next_deadline(), Some(second(30)));
        for early in [second(29), second(30)] {
            assert_eq!(ledger.expire(early), []);
            assert_eq!(ledger.used(&key), Some(&list("cpu=2 pods=1")));
        }
        let expired = ledger.expire(Timestamp::from_nanosecond(30_000_000_001).unwrap());
        assert_eq!(expired.len(), 1);
        assert_eq!(
            (&*expired[0].namespace, expired[0].kind, expired[0].id),
            ("a", pods, object(1))
        );
        assert_eq!(texts(&expired[0].deltas), "q:cpu-2/0 q:pods-1/0");
        assert_eq!(
            (ledger.used(&key), ledger.next_deadline()),
            (Some(&list("cpu=0 pods=0")), None)
        );
        assert_eq!(ledger.expire(second(99)), []);

        // A later moment takes the place of an earlier one; a removal takes it away.
        ledger.apply("a", pods, object(1), leaving.clone());
        ledger.apply(
            "a",
            pods,
            object(1),
            Assessment {
                later: Some((second(60), charge("memory=1"))),
                ..leaving.clone()
            },
        );
        assert_eq!(
            (ledger.next_deadline(), ledger.expire(second(59))),
            (Some(second(60)), vec![])
        );
        ledger.invalidate("a", pods, object(1));
        assert_eq!(ledger.next_deadline(), None);
        ledger.apply("a", pods, object(1), leaving);
        ledger.remove("a", pods, object(1));
        assert_eq!((ledger.next_deadline(), ledger.interned()), (None, 0));
    }

    /// An expiry that no quota counts is reported too: claims may depend on the object.
    #[test]
    fn an_expiry_without_a_quota() {
        let mut ledger = Ledger::default();
        ledger.apply(
            "a",
            kind("pods"),
            object(1),
            Assessment {
                charge: charge("cpu=2"),
                later: Some((second(1), charge(""))),
            },
        );
        assert_eq!(ledger.expire(second(2)).len(), 1);
    }

    #[test]
    fn an_unreadable_object_keeps_its_charge_and_clouds_its_kind() {
        let (mut ledger, key, pods) = ledger();
        ledger.apply("a", pods, object(1), charge("pods=1").into());
        ledger.invalidate("a", pods, object(1));
        ledger.invalidate("a", pods, object(2));
        ledger.invalidate("a", pods, object(2));
        assert!(
            ledger.is_clouded("a", pods) && !ledger.is_clouded("b", pods) && !ledger.is_clouded("a", kind("services"))
        );
        assert_eq!((ledger.invalid(pods), ledger.invalid(kind("services"))), (2, 0));
        assert_eq!(
            (ledger.recount(&key), ledger.used(&key)),
            (None, Some(&list("cpu=0 pods=1")))
        );
        assert_eq!(
            (ledger.charge("a", pods, object(1)), ledger.charge("a", pods, object(2))),
            (Some(&charge("pods=1")), None)
        );
        // Readable again, as it was: nothing changed. Then as something else.
        assert_eq!(ledger.apply("a", pods, object(1), charge("pods=1").into()), []);
        assert!(ledger.is_clouded("a", pods));
        assert_eq!(
            texts(&ledger.apply("a", pods, object(2), charge("pods=1 cpu=1").into())),
            "q:cpu+1/1 q:pods+1/1"
        );
        assert!(!ledger.is_clouded("a", pods));
        // Its removal lowers what it was charged.
        ledger.invalidate("a", pods, object(2));
        assert_eq!(texts(&ledger.remove("a", pods, object(2))), "q:cpu-1/0 q:pods-1/0");
        assert!(!ledger.is_clouded("a", pods));
    }

    #[test]
    fn what_is_kept() {
        let mut ledger = Ledger::default();
        let (pods, services) = (kind("pods"), kind("services"));
        for (namespace, kind, number) in [("a", pods, 1), ("a", pods, 2), ("b", pods, 1), ("b", services, 1)] {
            ledger.apply(namespace, kind, object(number), charge("x=1").into());
        }
        assert_eq!((ledger.len(pods), ledger.len(services), ledger.interned()), (3, 1, 1));
        let mut namespaces = ledger.namespaces_of(pods);
        namespaces.sort();
        assert_eq!(namespaces, ["a".into(), "b".into()]);
        assert_eq!(ledger.namespaces_of(services), ["b".into()]);
        let mut ids: Vec<ObjectId> = ledger.ids("a", pods).collect();
        ids.sort();
        let mut expected = [object(1), object(2)];
        expected.sort();
        assert_eq!(ids, expected);
        assert_eq!(ledger.ids("a", services).count(), 0);
        assert_eq!(ledger.ids("c", pods).count(), 0);
    }

    #[test]
    fn a_drift_is_told_and_mended() {
        let (mut ledger, key, pods) = ledger();
        ledger.apply("a", pods, object(1), charge("pods=1").into());
        let sums = ledger.namespaces.get_mut("a").unwrap().quotas.get_mut("q").unwrap();
        sums.used = list("pods=5 cpu=0");
        assert_eq!(
            ledger.recount(&key),
            Some(Drift {
                running: list("pods=5 cpu=0"),
                recounted: list("pods=1 cpu=0")
            })
        );
        assert_eq!(
            (ledger.recount(&key), ledger.used(&key)),
            (None, Some(&list("pods=1 cpu=0")))
        );
    }

    #[test]
    fn seen() {
        let mut seen = Seen::default();
        seen.add("a", object(1));
        seen.add("a", object(2));
        assert!(seen.contains("a", object(2)) && !seen.contains("b", object(2)) && !seen.contains("a", object(3)));
    }

    const NAMES: [&str; 6] = [
        "pods",
        "count/pods",
        "cpu",
        "services",
        "secrets",
        "requests.example.com/gpu",
    ];
    const NAMESPACES: [&str; 2] = ["a", "b"];
    const KINDS: [&str; 3] = ["pods", "services", "secrets"];
    const QUOTAS: [&str; 3] = ["p", "q", "r"];

    #[derive(Clone, Debug)]
    enum Step {
        Apply(&'static str, &'static str, u8, Assessment),
        Invalidate(&'static str, &'static str, u8),
        Remove(&'static str, &'static str, u8),
        SetQuota(&'static str, &'static str, Vec<&'static str>, Selector),
        RemoveQuota(&'static str, &'static str),
        Expire(i64),
    }

    fn usages() -> impl Strategy<Value = ResourceList> {
        let pair =
            (select(&NAMES[..]), -1..4_i64).prop_map(|(name, value)| (ResourceName::from(name), Quantity::from(value)));
        vec(pair, 0..4).prop_map(|pairs| pairs.into_iter().collect())
    }

    fn charges() -> impl Strategy<Value = Charge> {
        let scopes = prop_oneof![
            Just(ScopeFacts::None),
            (any::<bool>(), any::<bool>()).prop_map(|(terminating, best_effort)| ScopeFacts::Pod(PodFacts {
                terminating,
                best_effort,
                ..PodFacts::default()
            })),
        ];
        (usages(), proptest::option::weighted(0.2, usages()), scopes).prop_map(|(usage, spec_usage, scopes)| Charge {
            usage,
            spec_usage,
            scopes,
        })
    }

    fn steps() -> impl Strategy<Value = Step> {
        let at = || (select(&NAMESPACES[..]), select(&KINDS[..]), 0..4_u8);
        let later = proptest::option::weighted(0.4, (0..20_i64, charges()));
        let assessments = (charges(), later).prop_map(|(charge, later)| Assessment {
            charge,
            later: later.map(|(at, charge)| (second(at), charge)),
        });
        let scopes = select(vec![
            Scope::Terminating,
            Scope::NotTerminating,
            Scope::BestEffort,
            Scope::Unknown("?".to_owned()),
        ]);
        let selectors = vec(scopes.prop_map(Requirement::listed), 0..2).prop_map(Selector::new);
        prop_oneof![
            8 => (at(), assessments).prop_map(|((namespace, kind, id), assessment)| Step::Apply(namespace, kind, id, assessment)),
            1 => at().prop_map(|(namespace, kind, id)| Step::Invalidate(namespace, kind, id)),
            3 => at().prop_map(|(namespace, kind, id)| Step::Remove(namespace, kind, id)),
            3 => (select(&NAMESPACES[..]), select(&QUOTAS[..]), vec(select(&NAMES[..]), 0..4), selectors)
                .prop_map(|(namespace, quota, names, selector)| Step::SetQuota(namespace, quota, names, selector)),
            1 => (select(&NAMESPACES[..]), select(&QUOTAS[..])).prop_map(|(namespace, quota)| Step::RemoveQuota(namespace, quota)),
            2 => (0..20_i64).prop_map(Step::Expire),
        ]
    }

    #[derive(Clone, Debug)]
    struct Record {
        charge: Option<Charge>,
        later: Option<(Timestamp, Charge)>,
        readable: bool,
    }

    /// The same without running sums.
    #[derive(Debug, Default)]
    struct Model {
        objects: BTreeMap<(&'static str, KindId, u8), Record>,
        quotas: BTreeMap<(&'static str, &'static str), (Feed, Selector)>,
    }

    impl Model {
        fn take(&mut self, step: &Step) {
            match step.clone() {
                Step::Apply(namespace, kind_name, id, Assessment { charge, later }) => {
                    let record = Record {
                        charge: Some(charge),
                        later,
                        readable: true,
                    };
                    self.objects.insert((namespace, kind(kind_name), id), record);
                }
                Step::Invalidate(namespace, kind_name, id) => {
                    let new = Record {
                        charge: None,
                        later: None,
                        readable: false,
                    };
                    let record = self.objects.entry((namespace, kind(kind_name), id)).or_insert(new);
                    (record.later, record.readable) = (None, false);
                }
                Step::Remove(namespace, kind_name, id) => {
                    self.objects.remove(&(namespace, kind(kind_name), id));
                }
                Step::SetQuota(namespace, quota, names, selector) => {
                    self.quotas.insert((namespace, quota), (feed(&names), selector));
                }
                Step::RemoveQuota(namespace, quota) => {
                    self.quotas.remove(&(namespace, quota));
                }
                Step::Expire(now) => {
                    for record in self.objects.values_mut() {
                        if let Some((_, after)) = record.later.take_if(|(at, _)| *at < second(now)) {
                            record.charge = Some(after);
                        }
                    }
                }
            }
        }

        fn used(&self, namespace: &str, feed: &Feed, selector: &Selector) -> ResourceList {
            let counted: Vec<&Charge> = self
                .objects
                .iter()
                .filter(|((space, kind, _), _)| *space == namespace && feed.kinds().contains(kind))
                .filter_map(|(_, record)| record.charge.as_ref())
                .filter(|charge| {
                    selector
                        .requirements()
                        .iter()
                        .all(|requirement| requirement.matches(&charge.scopes))
                })
                .collect();
            let sum = |name: &str| {
                counted
                    .iter()
                    .filter_map(|charge| charge.usage.get(name))
                    .sum::<Quantity>()
            };
            feed.names()
                .iter()
                .map(|(name, _)| (name.clone(), sum(name.as_str())))
                .collect()
        }
    }

    fn take(ledger: &mut Ledger, step: &Step) -> Vec<(Arc<str>, Delta)> {
        let named = |namespace: &str, deltas: Vec<Delta>| -> Vec<_> {
            deltas.into_iter().map(|delta| (Arc::from(namespace), delta)).collect()
        };
        match step.clone() {
            Step::Apply(namespace, kind_name, id, assessment) => named(
                namespace,
                ledger.apply(namespace, kind(kind_name), object(id), assessment),
            ),
            Step::Invalidate(namespace, kind_name, id) => {
                ledger.invalidate(namespace, kind(kind_name), object(id));
                Vec::new()
            }
            Step::Remove(namespace, kind_name, id) => {
                named(namespace, ledger.remove(namespace, kind(kind_name), object(id)))
            }
            Step::SetQuota(namespace, quota, names, selector) => {
                ledger.set_quota(&QuotaKey::new(namespace, quota), feed(&names), selector);
                Vec::new()
            }
            Step::RemoveQuota(namespace, quota) => {
                ledger.remove_quota(&QuotaKey::new(namespace, quota));
                Vec::new()
            }
            Step::Expire(now) => {
                let expired = ledger.expire(second(now));
                expired
                    .into_iter()
                    .flat_map(|Expired { namespace, deltas, .. }| named(&namespace, deltas))
                    .collect()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn running_sums_are_what_a_recount_says(history in vec(steps(), 1..50)) {
            let (mut ledger, mut model) = (Ledger::default(), Model::default());
            for step in &history {
                let changes_quotas = matches!(step, Step::SetQuota(..) | Step::RemoveQuota(..));
                let before: Vec<_> = model.quotas.keys().map(|(namespace, quota)| {
                    (*namespace, *quota, ledger.used(&QuotaKey::new(namespace, quota)).unwrap().clone())
                }).collect();
                let deltas = take(&mut ledger, step);
                model.take(step);

                for ((namespace, quota), (feed, selector)) in &model.quotas {
                    let key = QuotaKey::new(namespace, quota);
                    prop_assert_eq!(ledger.used(&key), Some(&model.used(namespace, feed, selector)), "{} after {:?}", key, step);
                    prop_assert_eq!(ledger.recount(&key), None);
                }
                // The deltas are the changes of the sums.
                if changes_quotas {
                    prop_assert_eq!(&deltas, &vec![]);
                } else {
                    for (namespace, quota, mut used) in before {
                        for (_, delta) in deltas.iter().filter(|(space, delta)| **space == *namespace && *delta.quota == *quota) {
                            *used.get_mut(delta.name.as_str()).unwrap() += &delta.by;
                        }
                        prop_assert_eq!(ledger.used(&QuotaKey::new(namespace, quota)), Some(&used));
                    }
                }
                for (_, delta) in &deltas {
                    prop_assert!(!delta.by.is_zero() && !delta.asked.is_negative(), "{:?}", delta);
                    prop_assert!(delta.asked.is_zero() || delta.asked <= delta.by, "{:?}", delta);
                }
                let deadlines = model.objects.values().filter_map(|record| record.later.as_ref().map(|(at, _)| *at));
                prop_assert_eq!(ledger.next_deadline(), deadlines.min());
                for namespace in NAMESPACES {
                    for kind in KINDS.map(kind) {
                        let clouded = model.objects.iter().any(|((space, of, _), record)| (*space, *of) == (namespace, kind) && !record.readable);
                        prop_assert_eq!(ledger.is_clouded(namespace, kind), clouded);
                        let ids = model.objects.keys().filter(|(space, of, _)| (*space, *of) == (namespace, kind)).count();
                        prop_assert_eq!(ledger.ids(namespace, kind).count(), ids);
                    }
                }
                for ((namespace, kind, id), record) in &model.objects {
                    prop_assert_eq!(ledger.charge(namespace, *kind, object(*id)), record.charge.as_ref());
                }
            }
            // With the last object and quota everything goes.
            for (namespace, kind, id) in model.objects.keys() {
                ledger.remove(namespace, *kind, object(*id));
            }
            for (namespace, quota) in model.quotas.keys() {
                ledger.remove_quota(&QuotaKey::new(namespace, quota));
            }
            prop_assert_eq!((ledger.interned(), ledger.namespaces.len(), ledger.deadlines.len()), (0, 0, 0));
        }
    }
}
