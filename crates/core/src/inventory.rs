//! The inventory: objects in, changes of what quotas observe out.
//!
//! It joins the registry's evaluators to the ledger, and keeps what the charge of a resource claim depends on beside the claim itself:
//! device classes, and the pods that own claims. Claims are charged again when those change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use jiff::Timestamp;
use serde::Deserialize;

use crate::evaluator::{Assessment, Context, GroupResource, Lookups};
use crate::evaluators::View;
use crate::ledger::{Delta, Expired, Ledger};
use crate::object::{FieldError, Metadata, Object, ObjectId, or_default};
use crate::registry::{Feed, KindId, Registry};
use crate::resource_list::{ResourceList, ResourceName};

/// What an event did.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    /// Changes of sums, with their namespace.
    pub deltas: Vec<(Arc<str>, Delta)>,
    /// Why the object can't be charged, where it can't.
    pub unreadable: Option<FieldError>,
}

/// What quota sees of a device class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceClassView {
    #[serde(deserialize_with = "or_default")]
    spec: DeviceClassSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceClassSpec {
    #[serde(deserialize_with = "or_default")]
    extended_resource_name: String,
}

impl DeviceClassView {
    /// `spec.extendedResourceName`, if it is set.
    #[must_use]
    pub fn extended_resource(&self) -> Option<&str> {
        Some(self.spec.extended_resource_name.as_str()).filter(|name| !name.is_empty())
    }
}

/// Evaluators, charges and sums, and what claims depend on.
#[derive(Debug)]
pub struct Inventory {
    registry: Registry,
    ledger: Ledger,
    claims: Claims,
    pod: KindId,
    claim: KindId,
}

#[derive(Debug, Default)]
struct Claims {
    /// The device classes, with the extended resource of those that have one.
    classes: HashMap<String, Option<String>>,
    by_namespace: HashMap<Arc<str>, NamespaceClaims>,
    /// The claim that a pod's status names for its extended resources.
    named_by_pods: HashMap<Arc<str>, HashMap<ObjectId, String>>,
}

#[derive(Debug, Default)]
struct NamespaceClaims {
    claims: BTreeMap<ObjectId, Claim>,
    /// The extended-resource claims of each pod, the first one first.
    by_pod: HashMap<ObjectId, BTreeSet<(Age, ObjectId)>>,
}

/// When an object was created, and its name: the order of the claims that one pod owns.
type Age = (Option<Timestamp>, String);

fn age(metadata: &Metadata) -> Age {
    (metadata.creation_timestamp.parse().ok(), metadata.name.clone())
}

#[derive(Debug)]
struct Claim {
    metadata: Metadata,
    /// `None` while it can't be read: then it keeps the charge it had.
    view: Option<View>,
}

/// Marks a claim that the scheduler made for a pod's extended resources, by the pod that controls it.
fn owning_pod(claim: &Metadata) -> Option<ObjectId> {
    if claim.annotations.extended_resource_claim.as_deref() != Some("true") {
        return None;
    }
    let owner = claim.controller()?;
    (owner.kind == "Pod" && owner.api_version == "v1").then(|| ObjectId::from_uid(&owner.uid))
}

/// What evaluators may look up, as it stands now.
struct Surroundings<'a> {
    claims: &'a Claims,
    ledger: &'a Ledger,
    pod: KindId,
}

impl Lookups for Surroundings<'_> {
    fn has_device_class(&self, name: &str) -> bool {
        self.claims.classes.contains_key(name)
    }

    fn extended_resource(&self, device_class: &str) -> Option<&str> {
        self.claims.classes.get(device_class)?.as_deref()
    }

    fn is_extended_resource(&self, name: &str) -> bool {
        self.claims
            .classes
            .values()
            .any(|extended| extended.as_deref() == Some(name))
    }

    fn owner_usage(&self, claim: &Metadata) -> Option<&ResourceList> {
        let pod = owning_pod(claim)?;
        let charge = self.ledger.charge(&claim.namespace, self.pod, pod)?;
        let named = self
            .claims
            .named_by_pods
            .get(claim.namespace.as_str())
            .and_then(|pods| pods.get(&pod));
        let is_the_pods = match named {
            Some(name) => *name == claim.name,
            // A pod has one such claim: where its status does not say which, the first counts.
            None => {
                let claims = self.claims.by_namespace.get(claim.namespace.as_str());
                let first = claims.and_then(|claims| claims.by_pod.get(&pod)?.first());
                first.is_none_or(|(first, _)| *first >= age(claim))
            }
        };
        is_the_pods.then_some(&charge.usage)
    }
}

impl NamespaceClaims {
    /// Puts a claim in, or takes it out. The pod that owned it before.
    fn set(&mut self, id: ObjectId, claim: Option<Claim>) -> Option<ObjectId> {
        let old = self
            .claims
            .remove(&id)
            .and_then(|old| Some((owning_pod(&old.metadata)?, age(&old.metadata))));
        let pod = old.map(|(pod, age)| {
            if let Some(claims) = self.by_pod.get_mut(&pod) {
                claims.remove(&(age, id));
                if claims.is_empty() {
                    self.by_pod.remove(&pod);
                }
            }
            pod
        });
        if let Some(claim) = claim {
            if let Some(pod) = owning_pod(&claim.metadata) {
                self.by_pod.entry(pod).or_default().insert((age(&claim.metadata), id));
            }
            self.claims.insert(id, claim);
        }
        pod
    }
}

impl Default for Inventory {
    fn default() -> Self {
        Inventory::new()
    }
}

impl Inventory {
    /// An empty one, with the standard evaluators.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::standard();
        let mut id = |kind| {
            registry
                .ensure(&kind)
                .unwrap_or_else(|| unreachable!("the standard kinds are few and counted"))
        };
        let (pod, claim) = (
            id(GroupResource::core("pods")),
            id(GroupResource::new("resource.k8s.io", "resourceclaims")),
        );
        Inventory {
            registry,
            ledger: Ledger::default(),
            claims: Claims::default(),
            pod,
            claim,
        }
    }

    /// An inventory with these device classes and no objects.
    #[must_use]
    pub fn without_objects(&self) -> Self {
        let mut bare = Inventory::new();
        bare.claims.classes.clone_from(&self.claims.classes);
        bare
    }

    /// The evaluators.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The evaluators, to add to.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Charges and sums.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Charges and sums, for quotas to be set and recounted.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// What a quota over `names` has to do with each kind of those that `served` says yes to.
    #[must_use]
    pub fn feed<'a>(&self, names: impl IntoIterator<Item = &'a ResourceName>, served: impl Fn(KindId) -> bool) -> Feed {
        self.registry.feed(names, &self.surroundings(), served)
    }

    /// What evaluators may look up beside an object, as it stands now.
    #[must_use]
    pub fn lookups(&self) -> impl Lookups + '_ {
        self.surroundings()
    }

    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            claims: &self.claims,
            ledger: &self.ledger,
            pod: self.pod,
        }
    }

    fn assess(&self, kind: KindId, metadata: &Metadata, view: &View, now: Timestamp) -> Result<Assessment, FieldError> {
        let surroundings = self.surroundings();
        let context = Context {
            now,
            lookups: &surroundings,
        };
        let mut assessment = self.registry.evaluator(kind).assess(metadata, view, &context)?;
        if kind == self.claim && owning_pod(metadata).is_some() {
            // What is left of a claim under the names of pods depends on whether its pod has been seen yet, is still there, and counts.
            // Admission may have charged the pod instead, so this growth must not use up a pending charge.
            let pod = self.registry.evaluator(self.pod);
            let charge = &mut assessment.charge;
            charge.spec_usage = Some(charge.usage.mask(|name| !pod.tracks(name.as_str(), &surroundings)));
        }
        Ok(assessment)
    }

    /// An object is there, as this says.
    pub fn observe(&mut self, kind: KindId, object: &Object, now: Timestamp) -> Outcome {
        let metadata = &object.metadata;
        let (namespace, id) = (metadata.namespace.as_str(), ObjectId::of(metadata));
        let mut owners = [None; 2];
        if kind == self.pod {
            owners = [Some(id), None];
            if let Ok(View::Pod(pod)) = &object.view {
                self.note_pod(namespace, id, pod.extended_resource_claim());
            }
        } else if kind == self.claim {
            let claim = Claim {
                metadata: metadata.clone(),
                view: object.view.clone().ok(),
            };
            owners = [self.note_claim(namespace, id, Some(claim)), owning_pod(metadata)];
        }
        let assessed = match &object.view {
            Ok(view) => self.assess(kind, metadata, view, now),
            Err(error) => Err(error.clone()),
        };
        let mut outcome = Outcome::default();
        match assessed {
            Ok(assessment) => {
                let deltas = self.ledger.apply(namespace, kind, id, assessment);
                outcome.add(namespace, deltas);
            }
            Err(error) => {
                self.ledger.invalidate(namespace, kind, id);
                outcome.unreadable = Some(error);
            }
        }
        for pod in owners.into_iter().flatten() {
            self.charge_claims_of(namespace, pod, now, &mut outcome);
        }
        outcome
    }

    /// An object is gone.
    pub fn remove(&mut self, kind: KindId, namespace: &str, id: ObjectId, now: Timestamp) -> Outcome {
        let mut outcome = Outcome::default();
        let deltas = self.ledger.remove(namespace, kind, id);
        outcome.add(namespace, deltas);
        let mut owner = None;
        if kind == self.pod {
            self.note_pod(namespace, id, None);
            owner = Some(id);
        } else if kind == self.claim {
            owner = self.note_claim(namespace, id, None);
        }
        if let Some(pod) = owner {
            self.charge_claims_of(namespace, pod, now, &mut outcome);
        }
        outcome
    }

    /// Sets a device class, with its extended resource if it has one. Quotas' feeds may be others after this.
    pub fn set_device_class(&mut self, name: &str, extended_resource: Option<&str>, now: Timestamp) -> Outcome {
        let before = self
            .claims
            .classes
            .insert(name.to_owned(), extended_resource.map(str::to_owned));
        let changed = before.flatten().as_deref() != extended_resource;
        if changed {
            self.charge_all_claims(now)
        } else {
            Outcome::default()
        }
    }

    /// Takes a device class away. Quotas' feeds may be others after this.
    pub fn remove_device_class(&mut self, name: &str, now: Timestamp) -> Outcome {
        let before = self.claims.classes.remove(name);
        if before.flatten().is_some() {
            self.charge_all_claims(now)
        } else {
            Outcome::default()
        }
    }

    fn device_classes(&self) -> impl Iterator<Item = &str> {
        self.claims.classes.keys().map(String::as_str)
    }

    /// Takes a list of all device classes, each with its extended resource if it has one: others are gone. Quotas' feeds may be others
    /// after this.
    pub fn list_device_classes(&mut self, listed: &BTreeMap<String, Option<String>>, now: Timestamp) -> Outcome {
        let known = self.device_classes();
        let gone: Vec<String> = known
            .filter(|class| !listed.contains_key(*class))
            .map(str::to_owned)
            .collect();
        let mut outcome = Outcome::default();
        for class in gone {
            outcome.merge(self.remove_device_class(&class, now));
        }
        for (class, extended) in listed {
            outcome.merge(self.set_device_class(class, extended.as_deref(), now));
        }
        outcome
    }

    /// Lets the charges change whose moment has passed.
    pub fn expire(&mut self, now: Timestamp) -> Outcome {
        let mut outcome = Outcome::default();
        for Expired {
            namespace,
            kind,
            id,
            deltas,
        } in self.ledger.expire(now)
        {
            outcome.add(&namespace, deltas);
            if kind == self.pod {
                self.charge_claims_of(&namespace, id, now, &mut outcome);
            }
        }
        outcome
    }

    /// Notes what a claim is now, or that it is gone. The pod that owned it before.
    fn note_claim(&mut self, namespace: &str, id: ObjectId, claim: Option<Claim>) -> Option<ObjectId> {
        let claims = match self.claims.by_namespace.get_mut(namespace) {
            Some(claims) => claims,
            None => self.claims.by_namespace.entry(Arc::from(namespace)).or_default(),
        };
        let owner = claims.set(id, claim);
        if claims.claims.is_empty() {
            self.claims.by_namespace.remove(namespace);
        }
        owner
    }

    fn note_pod(&mut self, namespace: &str, id: ObjectId, claim: Option<&str>) {
        let names = &mut self.claims.named_by_pods;
        match claim {
            Some(claim) => {
                names
                    .entry(Arc::from(namespace))
                    .or_default()
                    .insert(id, claim.to_owned());
            }
            None => {
                if let Some(pods) = names.get_mut(namespace) {
                    pods.remove(&id);
                    if pods.is_empty() {
                        names.remove(namespace);
                    }
                }
            }
        }
    }

    /// Charges the claims anew that `pod` owns.
    fn charge_claims_of(&mut self, namespace: &str, pod: ObjectId, now: Timestamp, outcome: &mut Outcome) {
        let claims = self
            .claims
            .by_namespace
            .get(namespace)
            .and_then(|claims| claims.by_pod.get(&pod));
        let ids: Vec<ObjectId> = claims.into_iter().flatten().map(|(_, id)| *id).collect();
        for id in ids {
            self.charge_claim(namespace, id, now, outcome);
        }
    }

    fn charge_all_claims(&mut self, now: Timestamp) -> Outcome {
        let mut outcome = Outcome::default();
        let namespaces = self.claims.by_namespace.iter();
        let all: Vec<(Arc<str>, Vec<ObjectId>)> = namespaces
            .map(|(namespace, claims)| (namespace.clone(), claims.claims.keys().copied().collect()))
            .collect();
        for (namespace, ids) in all {
            for id in ids {
                self.charge_claim(&namespace, id, now, &mut outcome);
            }
        }
        outcome
    }

    /// Charges a claim anew because of something beside it. Admission never sees this growth.
    fn charge_claim(&mut self, namespace: &str, id: ObjectId, now: Timestamp, outcome: &mut Outcome) {
        let claim = self
            .claims
            .by_namespace
            .get(namespace)
            .and_then(|claims| claims.claims.get(&id));
        let Some(Claim {
            metadata,
            view: Some(view),
        }) = claim
        else {
            return;
        };
        let Ok(assessment) = self.assess(self.claim, metadata, view, now) else {
            return;
        };
        let mut deltas = self.ledger.apply(namespace, self.claim, id, assessment);
        for delta in &mut deltas {
            delta.asked = crate::Quantity::zero();
        }
        outcome.add(namespace, deltas);
    }
}

impl Outcome {
    fn add(&mut self, namespace: &str, deltas: Vec<Delta>) {
        if !deltas.is_empty() {
            let namespace: Arc<str> = Arc::from(namespace);
            self.deltas
                .extend(deltas.into_iter().map(|delta| (namespace.clone(), delta)));
        }
    }

    /// Adds what another event did.
    pub fn merge(&mut self, other: Outcome) {
        self.deltas.extend(other.deltas);
        self.unreadable = self.unreadable.take().or(other.unreadable);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::evaluators::testing;
    use crate::quota::QuotaKey;
    use crate::scope::Selector;

    const POD: fn() -> GroupResource = || GroupResource::core("pods");
    const CLAIM: fn() -> GroupResource = || GroupResource::new("resource.k8s.io", "resourceclaims");
    const NAMES: [&str; 6] = [
        "pods",
        "cpu",
        "count/resourceclaims.resource.k8s.io",
        "gpu.deviceclass.resource.k8s.io/devices",
        "requests.deviceclass.resource.kubernetes.io/gpu",
        "requests.example.com/gpu",
    ];

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A pod that asks for so many of example.com/gpu, and one cpu.
    fn pod(name: &str, gpus: u32) -> Value {
        json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {"containers": [{"resources": {"requests": {"example.com/gpu": gpus, "cpu": 1}}}]},
            "status": {},
        })
    }

    /// A claim of so many devices of the class gpu.
    fn claim(name: &str, devices: u32) -> Value {
        let request = json!({"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices}});
        json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": {"devices": {"requests": [request]}}})
    }

    fn owned(mut claim: Value, pod: &str, created: &str) -> Value {
        claim["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
        claim["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": true}]);
        claim["metadata"]["creationTimestamp"] = json!(created);
        claim
    }

    impl Inventory {
        fn see(&mut self, kind: &GroupResource, json: &Value, now: Timestamp) -> Outcome {
            let id = self.registry.id(kind).unwrap();
            let object = testing::object(&**self.registry.evaluator(id), json);
            self.observe(id, &object, now)
        }

        fn lose(&mut self, kind: &GroupResource, uid: &str, now: Timestamp) -> Outcome {
            self.remove(self.registry.id(kind).unwrap(), "ns", ObjectId::from_uid(uid), now)
        }

        fn charge(&self, kind: &GroupResource, uid: &str) -> Option<&ResourceList> {
            self.ledger
                .charge("ns", self.registry.id(kind).unwrap(), ObjectId::from_uid(uid))
                .map(|charge| &charge.usage)
        }

        /// What a claim is charged as example.com/gpu.
        fn gpus(&self, claim: &str) -> Option<i64> {
            self.charge(&CLAIM(), claim)?
                .get("requests.example.com/gpu")
                .map(|gpus| gpus.units().unwrap())
        }

        fn set_quota(&mut self, quota: &str) {
            let names: Vec<ResourceName> = NAMES.iter().map(|name| ResourceName::from(*name)).collect();
            let feed = self.feed(&names, |_| true);
            self.ledger
                .set_quota(&QuotaKey::new("ns", quota), feed, Selector::default());
        }
    }

    /// An inventory with the class gpu that carries example.com/gpu, and a quota.
    fn inventory() -> Inventory {
        let mut inventory = Inventory::new();
        inventory.set_device_class("gpu", Some("example.com/gpu"), second(0));
        inventory.set_quota("q");
        inventory
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-01T00:00:01Z";

    #[test]
    fn a_claim_is_charged_beside_its_pod() {
        let mut inventory = inventory();
        let now = second(0);
        inventory.see(&CLAIM(), &owned(claim("c", 3), "p", EARLY), now);
        assert_eq!(inventory.gpus("c"), Some(3));
        // The pod comes, grows, ends, and goes; each time the claim follows, and admission has seen none of it.
        let mut failed = pod("p", 3);
        failed["status"]["phase"] = json!("Failed");
        for (event, expected) in [
            (Some(pod("p", 1)), Some(2)),
            (Some(pod("p", 3)), None),
            (Some(failed), Some(3)),
            (Some(pod("p", 2)), Some(1)),
            (None, Some(3)),
        ] {
            let outcome = match &event {
                Some(pod) => inventory.see(&POD(), pod, now),
                None => inventory.lose(&POD(), "p", now),
            };
            assert_eq!(inventory.gpus("c"), expected, "{event:?}");
            // The claim's share of the change comes after the pod's.
            let gpus = |(_, delta): &&(Arc<str>, Delta)| delta.name.as_str() == "requests.example.com/gpu";
            let delta = outcome.deltas.iter().rfind(gpus).unwrap();
            assert!(delta.1.asked.is_zero(), "{event:?}: {delta:?}");
            assert_eq!(inventory.ledger.recount(&QuotaKey::new("ns", "q")), None);
        }
    }

    /// Watches come separately: a claim may be seen before its pod, or after the pod has ended or gone. Whichever comes first, what was
    /// charged for the pod is not used up twice.
    #[test]
    fn a_pods_claim_uses_up_no_charge_under_the_pods_names() {
        let claims = [
            // The claim, its pod, and what of example.com/gpu and of the class's devices counts as charged with the claim.
            (owned(claim("c", 3), "p", EARLY), None, (0, 3)),
            (owned(claim("c", 3), "p", EARLY), Some(pod("p", 1)), (0, 3)),
            (owned(claim("c", 3), "p", EARLY), Some(pod("other", 1)), (0, 3)),
            (claim("c", 3), None, (3, 3)),
            (claim("c", 3), Some(pod("p", 1)), (3, 3)),
        ];
        for (claim, pod, expected) in claims {
            let mut inventory = inventory();
            if let Some(pod) = &pod {
                inventory.see(&POD(), pod, second(0));
            }
            let outcome = inventory.see(&CLAIM(), &claim, second(0));
            let asked = |name: &str| {
                let delta = outcome.deltas.iter().find(|(_, delta)| delta.name.as_str() == name);
                delta.map_or(0, |(_, delta)| delta.asked.units().unwrap())
            };
            let asked = (
                asked("requests.example.com/gpu"),
                asked("gpu.deviceclass.resource.k8s.io/devices"),
            );
            assert_eq!(asked, expected, "{claim} after {pod:?}");
        }
    }

    #[test]
    fn whose_claim_it_is() {
        let own = || owned(claim("c", 3), "p", EARLY);
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut claim = own();
            change(&mut claim);
            claim
        };
        let owner = |field: &str, value: Value| {
            changed(&|claim| claim["metadata"]["ownerReferences"][0][field] = value.clone())
        };
        let annotation = |value: Value| changed(&|claim| claim["metadata"]["annotations"] = value.clone());
        let pod_naming = |status: Value| {
            let mut pod = pod("p", 1);
            pod["status"]["extendedResourceClaimStatus"] = status;
            pod
        };
        let table = [
            (own(), pod("p", 1), 2),
            (own(), pod_naming(json!({"resourceClaimName": "c"})), 2),
            (own(), pod_naming(json!({"resourceClaimName": "other"})), 3),
            (own(), pod_naming(json!({})), 3),
            (own(), pod("other", 1), 3),
            (owner("uid", json!("other")), pod("p", 1), 3),
            (owner("kind", json!("Job")), pod("p", 1), 3),
            (owner("apiVersion", json!("v2")), pod("p", 1), 3),
            (owner("controller", json!(false)), pod("p", 1), 3),
            (owner("controller", json!(null)), pod("p", 1), 3),
            (
                annotation(json!({"resource.kubernetes.io/extended-resource-claim": "yes"})),
                pod("p", 1),
                3,
            ),
            (annotation(json!(null)), pod("p", 1), 3),
            (
                changed(&|claim| claim["metadata"]["namespace"] = json!("elsewhere")),
                pod("p", 1),
                3,
            ),
        ];
        for (claim, pod, expected) in table {
            let namespace = claim["metadata"]["namespace"].as_str().unwrap();
            for pod_first in [false, true] {
                let mut inventory = inventory();
                if pod_first {
                    inventory.see(&POD(), &pod, second(0));
                }
                inventory.see(&CLAIM(), &claim, second(0));
                if !pod_first {
                    inventory.see(&POD(), &pod, second(0));
                }
                let id = inventory.claim;
                let charge = inventory.ledger.charge(namespace, id, ObjectId::from_uid("c")).unwrap();
                assert_eq!(
                    charge.usage.get("requests.example.com/gpu"),
                    Some(&crate::Quantity::from(expected)),
                    "{claim} of {pod}"
                );
            }
        }
    }

    #[test]
    fn of_several_claims_the_first_is_the_pods() {
        let mut inventory = inventory();
        let now = second(0);
        inventory.see(&POD(), &pod("p", 1), now);
        let gpus = |inventory: &Inventory| ["a", "b", "c"].map(|name| inventory.gpus(name));
        inventory.see(&CLAIM(), &owned(claim("b", 2), "p", LATE), now);
        assert_eq!(gpus(&inventory), [None, Some(1), None]);
        // Of the same age, but a name before.
        inventory.see(&CLAIM(), &owned(claim("a", 2), "p", LATE), now);
        assert_eq!(gpus(&inventory), [Some(1), Some(2), None]);
        inventory.see(&CLAIM(), &owned(claim("c", 2), "p", EARLY), now);
        assert_eq!(gpus(&inventory), [Some(2), Some(2), Some(1)]);
        // The pod says which.
        let mut naming = pod("p", 1);
        naming["status"]["extendedResourceClaimStatus"] = json!({"resourceClaimName": "b"});
        inventory.see(&POD(), &naming, now);
        assert_eq!(gpus(&inventory), [Some(2), Some(1), Some(2)]);
        inventory.see(&POD(), &pod("p", 1), now);
        // One that changes hands leaves its place to the next.
        inventory.see(&CLAIM(), &owned(claim("c", 2), "other", EARLY), now);
        assert_eq!(gpus(&inventory), [Some(1), Some(2), Some(2)]);
        inventory.lose(&CLAIM(), "a", now);
        assert_eq!(gpus(&inventory), [None, Some(1), Some(2)]);
    }

    #[test]
    fn a_claim_follows_its_pods_grace_even_where_no_quota_counts_the_pod() {
        let mut inventory = Inventory::new();
        inventory.set_device_class("gpu", Some("example.com/gpu"), second(0));
        let mut leaving = pod("p", 2);
        leaving["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:10Z");
        leaving["metadata"]["deletionGracePeriodSeconds"] = json!(20);
        inventory.see(&POD(), &leaving, second(0));
        inventory.see(&CLAIM(), &owned(claim("c", 3), "p", EARLY), second(0));
        inventory.expire(second(30));
        assert_eq!(inventory.gpus("c"), Some(1));
        inventory.expire(second(31));
        assert_eq!(inventory.gpus("c"), Some(3));
    }

    #[test]
    fn device_classes() {
        let mut inventory = Inventory::new();
        let now = second(0);
        inventory.see(&CLAIM(), &claim("c", 2), now);
        let tracked = |inventory: &Inventory| {
            let names: Vec<ResourceName> = NAMES[4..].iter().map(|name| ResourceName::from(*name)).collect();
            inventory.feed(&names, |kind| kind == inventory.claim).names().len()
        };
        let steps = [
            (Some(None), None, 1),
            (Some(Some("example.com/gpu")), Some(2), 2),
            (Some(Some("example.com/other")), None, 1),
            (Some(Some("example.com/gpu")), Some(2), 2),
            (Some(None), None, 1),
            (None, None, 0),
        ];
        assert_eq!(tracked(&inventory), 0);
        for (class, gpus, names) in steps {
            match class {
                Some(extended) => inventory.set_device_class("gpu", extended, now),
                None => inventory.remove_device_class("gpu", now),
            };
            assert_eq!((inventory.gpus("c"), tracked(&inventory)), (gpus, names), "{class:?}");
            assert_eq!(inventory.device_classes().count(), usize::from(class.is_some()));
        }
        let view = |json: Value| serde_json::from_value::<DeviceClassView>(json).unwrap();
        assert_eq!(
            view(json!({"spec": {"extendedResourceName": "example.com/gpu"}})).extended_resource(),
            Some("example.com/gpu")
        );
        for bare in [
            json!({}),
            json!({"spec": null}),
            json!({"spec": {"extendedResourceName": null}}),
            json!({"spec": {"extendedResourceName": ""}}),
        ] {
            assert_eq!(view(bare).extended_resource(), None);
        }
    }

    /// What happens beside an unreadable claim leaves it as it is, unreadable.
    #[test]
    fn unreadable_objects() {
        let mut inventory = inventory();
        let now = second(0);
        inventory.see(&CLAIM(), &owned(claim("c", 3), "p", EARLY), now);
        let mut broken = owned(claim("c", 3), "p", EARLY);
        broken["spec"]["devices"] = json!(5);
        let outcome = inventory.see(&CLAIM(), &broken, now);
        assert!(outcome.unreadable.is_some() && outcome.deltas.is_empty());
        inventory.see(&POD(), &pod("p", 1), now);
        inventory.set_device_class("gpu", None, now);
        assert_eq!(inventory.gpus("c"), Some(3));
        assert!(inventory.ledger.is_clouded("ns", inventory.claim));
        // Readable again, it is charged as everything stands now.
        inventory.see(&CLAIM(), &owned(claim("c", 3), "p", EARLY), now);
        assert_eq!(inventory.gpus("c"), None);
        assert!(!inventory.ledger.is_clouded("ns", inventory.claim));

        let mut broken = pod("p", 1);
        broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("?");
        let outcome = inventory.see(&POD(), &broken, now);
        assert_eq!(
            outcome.unreadable.unwrap().field,
            "spec.containers[0].resources.requests[cpu]"
        );
        assert!(inventory.ledger.is_clouded("ns", inventory.pod));
        inventory.lose(&POD(), "p", now);
        assert!(!inventory.ledger.is_clouded("ns", inventory.pod));
    }

    #[derive(Clone, Debug)]
    enum Event {
        Pod(u8, Option<Value>),
        Claim(u8, Option<Value>),
        Class(&'static str, Option<Option<&'static str>>),
        Time,
    }

    fn events() -> impl Strategy<Value = Event> {
        let pods = (
            0..3_u8,
            0..4_u32,
            0..5_u8,
            proptest::option::weighted(0.3, 0..3_u8),
            proptest::option::weighted(0.3, 0..40_i64),
        )
            .prop_map(|(number, gpus, phase, named, leaves)| {
                let mut pod = pod(&format!("p{number}"), gpus);
                pod["status"]["phase"] = json!(if phase == 0 { "Failed" } else { "Running" });
                if let Some(claim) = named {
                    pod["status"]["extendedResourceClaimStatus"] = json!({"resourceClaimName": format!("c{claim}")});
                }
                if let Some(leaves) = leaves {
                    pod["metadata"]["deletionTimestamp"] = json!(second(leaves).to_string());
                    pod["metadata"]["deletionGracePeriodSeconds"] = json!(5);
                }
                Event::Pod(number, Some(pod))
            });
        let claims = (
            0..4_u8,
            0..6_u32,
            proptest::option::weighted(0.8, 0..3_u8),
            any::<bool>(),
        )
            .prop_map(|(number, devices, owner, early)| {
                let claim = claim(&format!("c{number}"), devices);
                let created = if early { EARLY } else { LATE };
                Event::Claim(
                    number,
                    Some(owner.map_or(claim.clone(), |pod| owned(claim, &format!("p{pod}"), created))),
                )
            });
        let extended = prop_oneof![
            Just(None),
            Just(Some(None)),
            Just(Some(Some("example.com/gpu"))),
            Just(Some(Some("example.com/other")))
        ];
        prop_oneof![
            4 => pods,
            4 => claims,
            1 => (0..3_u8).prop_map(|number| Event::Pod(number, None)),
            1 => (0..4_u8).prop_map(|number| Event::Claim(number, None)),
            1 => (prop_oneof![Just("gpu"), Just("tpu")], extended).prop_map(|(class, extended)| Event::Class(class, extended)),
            1 => Just(Event::Time),
        ]
    }

    fn take(inventory: &mut Inventory, event: &Event, now: Timestamp) -> Outcome {
        match event {
            Event::Pod(_, Some(pod)) => inventory.see(&POD(), pod, now),
            Event::Pod(number, None) => inventory.lose(&POD(), &format!("p{number}"), now),
            Event::Claim(_, Some(claim)) => inventory.see(&CLAIM(), claim, now),
            Event::Claim(number, None) => inventory.lose(&CLAIM(), &format!("c{number}"), now),
            Event::Class(name, Some(extended)) => inventory.set_device_class(name, *extended, now),
            Event::Class(name, None) => inventory.remove_device_class(name, now),
            Event::Time => inventory.expire(now),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// However things came to be as they are, they are charged as if all had been loaded at once.
        #[test]
        fn histories_end_as_a_fresh_load(history in vec(events(), 1..40), reversed in any::<bool>(), each_step in any::<bool>()) {
            let mut inventory = inventory();
            let key = QuotaKey::new("ns", "q");
            let mut last = BTreeMap::from([("gpu".to_owned(), Event::Class("gpu", Some(Some("example.com/gpu"))))]);
            for (number, event) in history.iter().enumerate() {
                let now = second(i64::try_from(number).unwrap());
                let mut before = inventory.ledger.used(&key).unwrap().clone();
                let outcome = take(&mut inventory, event, now);
                for (_, delta) in outcome.deltas {
                    *before.get_mut(delta.name.as_str()).unwrap() += &delta.by;
                }
                prop_assert_eq!(inventory.ledger.used(&key), Some(&before), "the deltas of {:?}", event);
                prop_assert_eq!(inventory.ledger.recount(&key), None);
                match event {
                    Event::Pod(number, _) => last.insert(format!("p{number}"), event.clone()),
                    Event::Claim(number, _) => last.insert(format!("c{number}"), event.clone()),
                    Event::Class(name, _) => last.insert((*name).to_owned(), event.clone()),
                    Event::Time => None,
                };
                if each_step || number + 1 == history.len() {
                    inventory.expire(now);
                    let mut fresh = Inventory::new();
                    let mut load: Vec<&Event> = last.values().collect();
                    if reversed {
                        load.reverse();
                    }
                    for event in load {
                        take(&mut fresh, event, now);
                    }
                    for (kind, names) in [(POD(), ["p0", "p1", "p2", ""]), (CLAIM(), ["c0", "c1", "c2", "c3"])] {
                        for name in names {
                            prop_assert_eq!(inventory.charge(&kind, name), fresh.charge(&kind, name), "{} after {:?}", name, event);
                        }
                    }
                    for inventory in [&mut inventory, &mut fresh] {
                        inventory.set_quota("late");
                    }
                    let late = QuotaKey::new("ns", "late");
                    prop_assert_eq!(inventory.ledger.used(&late), fresh.ledger.used(&late));
                    inventory.ledger.remove_quota(&late);
                }
            }
        }
    }
}
