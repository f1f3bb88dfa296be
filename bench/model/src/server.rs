//! The server: what is stored, what it costs, and what admission charges for it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kubequota_core::evaluators::View;
use kubequota_core::object::{Annotations, OwnerReference};
use kubequota_core::quota::{QuotaSpec, QuotaStatus};
use kubequota_core::scope::Selector;
use kubequota_core::{
    FieldError, GroupResource, Metadata, Object, Quantity, Quota, QuotaKey, ResourceList, ResourceName,
};

use crate::history::{Event, History};
use crate::paths::Path;
use crate::plot::{GRACE, Ms};

/// The server's time when a history begins.
const EPOCH: i64 = 1_780_000_000_000;
/// Enough for every history: refusals are not what is modelled.
const HARD: i64 = 100_000;

/// What quotas can limit. The extended resource is fed by pods, and by claims while the device class carries it.
pub(crate) const NAMES: [&str; 5] = [
    "pods",
    "requests.cpu",
    "count/configmaps",
    GPUS,
    "count/resourceclaims.resource.k8s.io",
];
const GPUS: &str = "requests.example.com/gpu";
/// Its place in [`NAMES`].
pub(crate) const GPU: usize = 3;
pub(crate) const CLASS: &str = "gpu";
pub(crate) const EXTENDED: &str = "example.com/gpu";

/// An amount for each of [`NAMES`].
pub(crate) type Amounts = [i64; NAMES.len()];
pub(crate) type Used = [Option<i64>; NAMES.len()];
pub(crate) type Names = [bool; NAMES.len()];
/// Namespace and place in it: where a quota is, whichever it is by now.
pub(crate) type Spot = (usize, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Pod,
    ConfigMap,
    Claim,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Pod, Kind::ConfigMap, Kind::Claim];

pub(crate) fn group_resource(kind: Kind) -> GroupResource {
    match kind {
        Kind::Pod => GroupResource::core("pods"),
        Kind::ConfigMap => GroupResource::core("configmaps"),
        Kind::Claim => GroupResource::new("resource.k8s.io", "resourceclaims"),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) kind: Kind,
    pub(crate) namespace: usize,
    pub(crate) uid: u32,
    pub(crate) revision: u64,
    /// What its spec asks for.
    pub(crate) cpu: i64,
    /// Of a pod, the extended resource it asks for; of a claim, its devices.
    pub(crate) gpu: i64,
    /// The pod that a claim was made for.
    pub(crate) owner: Option<u32>,
    /// What its status says, if that is more.
    pub(crate) allocated: i64,
    pub(crate) readable: bool,
    /// When its grace runs out.
    pub(crate) ends: Option<Ms>,
    /// The newest raise of those that paid for it.
    pub(crate) raised_at: u64,
    /// What of its use was charged, by quota.
    pub(crate) charged: BTreeMap<u32, Amounts>,
}

impl Stored {
    pub(crate) fn has_ended(&self, now: Ms) -> bool {
        self.ends.is_some_and(|ends| now > ends)
    }

    pub(crate) fn object(&self, views: &mut Views) -> Object {
        let view = if self.readable {
            Ok(views.of(self))
        } else {
            Err(FieldError {
                field: "spec".to_owned(),
                reason: "spoiled".to_owned(),
            })
        };
        let owner = self.owner.map(|uid| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: format!("o{uid}"),
            uid: format!("o{uid}"),
            controller: Some(true),
        });
        let metadata = Metadata {
            name: format!("o{}", self.uid),
            namespace: namespace(self.namespace),
            uid: format!("o{}", self.uid),
            resource_version: self.revision.to_string(),
            deletion_timestamp: self.ends.map(|ends| server_time(ends).to_string()),
            deletion_grace_period_seconds: self.ends.map(|_| 0),
            annotations: Annotations {
                extended_resource_claim: owner.as_ref().map(|_| "true".to_owned()),
                ..Annotations::default()
            },
            owner_references: owner.into_iter().collect(),
            ..Metadata::default()
        };
        Object { metadata, view }
    }
}

/// Views of objects, so that each is read once.
#[derive(Default)]
pub(crate) struct Views(BTreeMap<(Kind, i64, i64, i64), View>);

impl Views {
    fn of(&mut self, object: &Stored) -> View {
        let Stored {
            kind,
            cpu,
            gpu,
            allocated,
            ..
        } = *object;
        let make = || match kind {
            Kind::ConfigMap => View::Counted,
            Kind::Pod => {
                let allocated = (allocated > 0).then(|| serde_json::json!({"cpu": allocated.to_string()}));
                let requests = serde_json::json!({"cpu": cpu.to_string(), EXTENDED: gpu.to_string()});
                let pod = serde_json::json!({
                    "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
                    "status": {"containerStatuses": [{"name": "c", "allocatedResources": allocated}]},
                });
                View::Pod(serde_json::from_value(pod).unwrap())
            }
            Kind::Claim => {
                let exactly =
                    serde_json::json!({"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": gpu});
                let claim = serde_json::json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
                View::ResourceClaim(serde_json::from_value(claim).unwrap())
            }
        };
        self.0.entry((kind, cpu, gpu, allocated)).or_insert_with(make).clone()
    }
}

pub(crate) fn namespace(number: usize) -> String {
    format!("n{number}")
}

pub(crate) fn server_time(now: Ms) -> Timestamp {
    Timestamp::from_millisecond(EPOCH + i64::try_from(now).unwrap()).unwrap()
}

/// The first millisecond after `time`.
pub(crate) fn after(time: Timestamp) -> Ms {
    u64::try_from(time.as_millisecond() - EPOCH + 1).unwrap_or(0)
}

#[derive(Clone, Debug)]
pub(crate) struct StoredQuota {
    pub(crate) spot: Spot,
    pub(crate) uid: u32,
    pub(crate) revision: u64,
    pub(crate) hard: Names,
    pub(crate) status_hard: Option<Names>,
    pub(crate) used: Option<Used>,
}

impl StoredQuota {
    pub(crate) fn key(&self) -> QuotaKey {
        key(self.spot)
    }

    pub(crate) fn used(&self, name: usize) -> Option<i64> {
        self.used.and_then(|used| used[name])
    }

    pub(crate) fn quota(&self) -> Quota {
        let limits = |names: Names| list(names.map(|named| named.then_some(HARD)));
        Quota {
            key: self.key(),
            uid: format!("q{}", self.uid),
            resource_version: self.revision.to_string(),
            spec: QuotaSpec {
                hard: limits(self.hard),
                selector: Selector::default(),
            },
            status: QuotaStatus {
                hard: self.status_hard.map(limits),
                used: self.used.map(list),
            },
            last_charges: None,
            enforced: None,
            problems: Vec::new(),
        }
    }
}

pub(crate) fn key((in_namespace, slot): Spot) -> QuotaKey {
    QuotaKey::new(&namespace(in_namespace), &format!("q{slot}"))
}

pub(crate) fn spot(key: &QuotaKey) -> Spot {
    (key.namespace[1..].parse().unwrap(), key.name[1..].parse().unwrap())
}

fn list(values: Used) -> ResourceList {
    let named = NAMES.into_iter().zip(values);
    named
        .filter_map(|(name, value)| Some((ResourceName::from_static(name), Quantity::from(value?))))
        .collect()
}

pub(crate) fn amounts(list: &ResourceList) -> Used {
    NAMES.map(|name| list.get(name).map(|value| value.units().unwrap()))
}

#[derive(Clone, Debug)]
pub(crate) struct ObjectChange {
    pub(crate) at: Ms,
    pub(crate) object: Stored,
    pub(crate) deleted: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct QuotaChange {
    pub(crate) at: Ms,
    pub(crate) quota: StoredQuota,
    pub(crate) deleted: bool,
    /// The controller that wrote it, if it will hear of that.
    pub(crate) writer: Option<u64>,
}

/// Use went down; that is known to whoever has been shown this revision of the kind.
#[derive(Clone, Debug)]
pub(crate) struct Shrinkage {
    pub(crate) at: Ms,
    pub(crate) namespace: usize,
    pub(crate) kind: Kind,
    pub(crate) revision: u64,
    pub(crate) by: Amounts,
}

/// A request that admission is judging, or has let through and that is not stored yet.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    namespace: usize,
    what: Wish,
    change: Amounts,
    /// By quota, what was charged.
    pub(crate) charged: BTreeMap<u32, Amounts>,
    first_charge: Option<Ms>,
    raised_at: u64,
    delay: Ms,
    fails: bool,
    tries: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Wish {
    Create { object: Stored, life: Option<Ms> },
    Resize { uid: u32, revision: u64, cpu: i64 },
}

impl History {
    pub(crate) fn usage(&self, object: &Stored) -> Amounts {
        match object.kind {
            Kind::ConfigMap => [0, 0, 1, 0, 0],
            Kind::Pod if object.has_ended(self.now) => [0; 5],
            Kind::Pod => [1, object.cpu.max(object.allocated), 0, object.gpu, 0],
            Kind::Claim => {
                let owner = object.owner.and_then(|pod| self.objects.get(&pod));
                let paid = owner.filter(|pod| !pod.has_ended(self.now)).map_or(0, |pod| pod.gpu);
                let devices = if self.class_carries {
                    (object.gpu - paid).max(0)
                } else {
                    0
                };
                [0, 0, 0, devices, 1]
            }
        }
    }

    pub(crate) fn objects_in(&self, namespace: usize) -> impl Iterator<Item = &Stored> {
        self.objects
            .values()
            .filter(move |object| object.namespace == namespace)
    }

    fn quotas_in(&self, namespace: usize) -> impl Iterator<Item = &StoredQuota> {
        self.quotas.values().filter(move |quota| quota.spot.0 == namespace)
    }

    pub(crate) fn stored(&self, namespace: usize) -> Amounts {
        let mut sum = [0; NAMES.len()];
        for object in self.objects_in(namespace) {
            add(&mut sum, &self.usage(object));
        }
        sum
    }

    /// Stores an object, of which `raised` was charged by quota.
    pub(crate) fn put(&mut self, mut object: Stored, raised: &BTreeMap<u32, Amounts>) {
        let was = self.objects.get(&object.uid).map_or([0; 5], |old| self.usage(old));
        let is = self.usage(&object);
        let uids: Vec<u32> = self.quotas_in(object.namespace).map(|quota| quota.uid).collect();
        for uid in uids {
            let charged = object.charged.entry(uid).or_default();
            let raised = raised.get(&uid).copied().unwrap_or_default();
            for name in 0..NAMES.len() {
                charged[name] =
                    charged[name].min(was[name]).min(is[name]) + raised[name].min((is[name] - was[name]).max(0));
            }
        }
        self.revision += 1;
        object.revision = self.revision;
        let shrunk: Amounts = std::array::from_fn(|name| (was[name] - is[name]).max(0));
        if self.objects.contains_key(&object.uid) && shrunk != [0; 5] {
            self.paths.note(Path::ShrunkInPlace);
        }
        self.shrunk(&object, self.now, shrunk);
        if let Some(ends) = object.ends {
            self.shrunk(&object, ends, is);
        }
        // Until a controller has seen the pod it takes the claim for one that nobody has paid for.
        if let Some(pod) = object.owner.and_then(|pod| self.objects.get(&pod)).cloned() {
            self.shrunk(&pod, self.now, [0, 0, 0, object.gpu.min(pod.gpu), 0]);
        }
        self.objects.insert(object.uid, object.clone());
        self.log_object(object, false);
    }

    pub(crate) fn delete(&mut self, uid: u32) {
        let Some(object) = self.objects.get(&uid) else { return };
        let was = self.usage(object);
        let mut object = object.clone();
        self.objects.remove(&uid);
        self.note_orphans(&object);
        if self.is_hidden(&object) {
            self.paths.note(Path::ShortLived);
        }
        if self.is_unshown(&object) {
            self.paths.note(Path::NeverShown);
        }
        self.revision += 1;
        object.revision = self.revision;
        self.shrunk(&object, self.now, was);
        self.log_object(object, true);
    }

    /// A pod went, or its grace ran out: what it paid for is its claims' own use now.
    pub(crate) fn note_orphans(&mut self, pod: &Stored) {
        let is_orphan = |claim: &Stored| claim.owner == Some(pod.uid) && claim.gpu.min(pod.gpu) > 0;
        if self.class_carries && self.objects_in(pod.namespace).any(is_orphan) {
            self.paths.note(Path::GrownByOwner);
        }
    }

    fn shrunk(&mut self, object: &Stored, at: Ms, by: Amounts) {
        if by != [0; 5] {
            self.shrinkages.push(Shrinkage {
                at,
                namespace: object.namespace,
                kind: object.kind,
                revision: object.revision.max(self.revision),
                by,
            });
        }
    }

    fn log_object(&mut self, object: Stored, deleted: bool) {
        self.busy = self.now;
        self.say(|_| {
            let gone = if deleted { "DELETED" } else { "" };
            format!("o{} at r{}: {object:?} {gone}", object.uid, object.revision)
        });
        self.object_log.push(ObjectChange {
            at: self.now,
            object,
            deleted,
        });
        for who in 0..2 {
            self.deliver_object(who, self.object_log.len() - 1);
        }
    }

    pub(crate) fn put_quota(&mut self, mut quota: StoredQuota, deleted: bool, writer: Option<u64>) {
        self.revision += 1;
        quota.revision = self.revision;
        self.say(|_| {
            let gone = if deleted { "DELETED" } else { "" };
            format!("{:?} is now {quota:?} {gone}", quota.key())
        });
        if deleted {
            self.quotas.remove(&quota.spot);
        } else {
            self.quotas.insert(quota.spot, quota.clone());
        }
        self.quota_log.push(QuotaChange {
            at: self.now,
            quota,
            deleted,
            writer,
        });
        for who in 0..2 {
            self.deliver_quota(who, self.quota_log.len() - 1);
        }
    }

    /// Whether every controller knows of the device class what admission knows.
    fn is_class_known(&self) -> bool {
        let mut controllers = self.controllers.iter().flatten();
        controllers.all(|controller| controller.class_carries.is_none_or(|known| known == self.class_carries))
    }

    /// Whatever is stored counts as charged under names that a quota begins to limit: the controller finds it. (What claims cost by a
    /// device class that some controller knows otherwise, it can't.)
    pub(crate) fn charge_all_stored(&mut self, quota: &StoredQuota, names: Names) {
        let is_class_known = self.is_class_known();
        let usages: Vec<(u32, Amounts)> = self
            .objects_in(quota.spot.0)
            .map(|object| {
                let mut usage = self.usage(object);
                if object.kind == Kind::Claim && !is_class_known {
                    usage[GPU] = 0;
                }
                (object.uid, usage)
            })
            .collect();
        for (uid, usage) in usages {
            if let Some(object) = self.objects.get_mut(&uid) {
                let charged = object.charged.entry(quota.uid).or_default();
                for name in (0..NAMES.len()).filter(|name| names[*name]) {
                    charged[name] = usage[name];
                }
            }
        }
    }

    pub(crate) fn create_quota(&mut self, spot: Spot, hard: Names) {
        self.busy = self.now;
        let uid = self.id();
        let quota = StoredQuota {
            spot,
            uid,
            revision: 0,
            hard,
            status_hard: None,
            used: None,
        };
        self.charge_all_stored(&quota, [true; NAMES.len()]);
        self.put_quota(quota, false, None);
    }

    /// The device class carries the extended resource, or does no more.
    pub(crate) fn class_changes(&mut self) {
        let claims = self.objects.values().filter(|object| object.kind == Kind::Claim);
        let costs: Vec<(u32, usize, Amounts)> = claims
            .map(|claim| (claim.uid, claim.namespace, self.usage(claim)))
            .collect();
        self.class_carries = !self.class_carries;
        if !self.class_carries {
            for (_, namespace, [.., devices, _]) in &costs {
                self.shrinkages.push(Shrinkage {
                    at: self.now,
                    namespace: *namespace,
                    kind: Kind::Claim,
                    revision: 0,
                    by: [0, 0, 0, *devices, 0],
                });
            }
        }
        let claims: Vec<u32> = costs.into_iter().map(|(uid, ..)| uid).collect();
        if self.class_carries && !claims.is_empty() {
            self.paths.note(Path::GrownByClass);
        }
        for uid in claims {
            let Some(claim) = self.objects.get_mut(&uid) else {
                continue;
            };
            // What they cost from now on nobody has charged, so it may hide a pending raise of its size: a known limit of the rule.
            claim.charged.values_mut().for_each(|charged| charged[GPU] = 0);
            let (of, devices) = (claim.namespace, if self.class_carries { claim.gpu } else { 0 });
            for quota in self.quotas.values().filter(|quota| quota.spot.0 == of) {
                self.hidden.entry(quota.uid).or_default()[GPU] += devices;
            }
        }
        for who in 0..2 {
            self.deliver_class(who);
        }
    }

    // ---- admission

    pub(crate) fn request(&mut self, namespace: usize, what: Wish, change: Amounts) {
        let (low, high) = self.plot.delays;
        let delay = if self.chance.percent(60) {
            self.chance.between(1, 40)
        } else {
            self.chance.between(low, high)
        };
        let fails = self.chance.percent(self.plot.fails);
        let request = Request {
            namespace,
            what,
            change,
            charged: BTreeMap::new(),
            first_charge: None,
            raised_at: 0,
            delay,
            fails,
            tries: 0,
        };
        let id = self.id();
        self.requests.insert(id, request);
        self.judge(id);
    }

    /// Charges the next quota that the request concerns, or stores it once all are charged.
    pub(crate) fn judge(&mut self, id: u32) {
        let Some(request) = self.requests.get(&id).cloned() else {
            return;
        };
        let mut next = None;
        let mut without_figure = None;
        for quota in self.quotas_in(request.namespace) {
            let limited = quota.status_hard.unwrap_or_default();
            let mut concerned = (0..NAMES.len())
                .filter(|name| limited[*name] && request.change[*name] > 0)
                .peekable();
            if concerned.peek().is_none() || request.charged.contains_key(&quota.uid) {
                continue;
            }
            if concerned.any(|name| quota.used(name).is_none()) {
                without_figure = Some(quota.key());
                break;
            }
            next = next.or(Some((quota.uid, quota.revision)));
        }
        if let Some(key) = without_figure {
            self.say(|_| format!("admission refuses request {id}: {key} has no figure yet"));
            self.settle(id);
            return;
        }
        match next {
            Some((quota, revision)) => {
                let delay = self.chance.between(1, 30);
                self.after(
                    delay,
                    Event::Charge {
                        request: id,
                        quota,
                        revision,
                    },
                );
            }
            None => {
                let latest = request.first_charge.map_or(Ms::MAX, |first| first + GRACE - 1);
                self.at((self.now + request.delay).min(latest), Event::Store(id));
            }
        }
    }

    pub(crate) fn charge(&mut self, id: u32, quota: u32, revision: u64) {
        let Some(mut request) = self.requests.remove(&id) else {
            return;
        };
        match self.quotas.values().find(|stored| stored.uid == quota).cloned() {
            Some(mut stored) if stored.revision == revision => {
                let limited = stored.status_hard.unwrap_or_default();
                let mut used = stored.used.unwrap_or_default();
                let mut charged = [0; NAMES.len()];
                for name in (0..NAMES.len()).filter(|name| limited[*name] && request.change[*name] > 0) {
                    charged[name] = request.change[name];
                    used[name] = used[name].map(|used| used + charged[name]);
                }
                stored.used = Some(used);
                self.busy = self.now;
                let spot = stored.spot;
                self.raises.push((self.now, spot, charged));
                self.say(|_| format!("admission raises {:?} by {charged:?} for request {id}", key(spot)));
                self.put_quota(stored, false, None);
                request.charged.insert(quota, charged);
                request.first_charge = request.first_charge.or(Some(self.now));
                request.raised_at = self.revision;
                self.requests.insert(id, request);
                self.judge(id);
            }
            _ if request.tries < 3 && self.chance.percent(80) => {
                request.tries += 1;
                self.requests.insert(id, request);
                let delay = self.chance.between(5, 100);
                self.after(delay, Event::Judge(id));
            }
            _ => {
                if !request.charged.is_empty() {
                    self.paths.note(Path::PartlyCharged);
                }
                self.busy = self.now;
            }
        }
    }

    /// The request is over; what it was charged is in flight no more.
    fn settle(&mut self, id: u32) -> Option<Request> {
        self.busy = self.now;
        self.requests.remove(&id)
    }

    /// Whether some quota has come to limit what the request was not charged for, or it costs more by now (or a controller thinks so that
    /// has yet to be shown what became of the device class). Such objects may hide a pending raise of their size, which is a known limit
    /// of the rule; here they are not stored.
    fn is_uncharged(&self, request: &Request) -> bool {
        let change = match &request.what {
            Wish::Create { object, .. } if object.kind == Kind::Claim && !self.is_class_known() => return true,
            Wish::Create { object, .. } => self.usage(object),
            Wish::Resize { .. } => request.change,
        };
        self.quotas_in(request.namespace).any(|quota| {
            let charged = request.charged.get(&quota.uid).copied().unwrap_or_default();
            (0..NAMES.len()).any(|name| quota.hard[name] && charged[name] < change[name])
        })
    }

    /// The scheduler makes one claim for a pod.
    fn is_second_claim(&self, request: &Request) -> bool {
        match &request.what {
            Wish::Create { object, .. } if object.owner.is_some() => {
                self.objects.values().any(|other| other.owner == object.owner)
            }
            _ => false,
        }
    }

    pub(crate) fn store(&mut self, id: u32) {
        let Some(request) = self.settle(id) else { return };
        let is_charged = !request.charged.is_empty();
        if request.fails || self.is_uncharged(&request) || self.is_second_claim(&request) {
            if is_charged {
                self.paths.note(Path::NeverStored);
            }
            self.say(|_| format!("request {id} fails after admission"));
            return;
        }
        if request.first_charge.is_some_and(|first| self.now > first + 1_000) {
            self.paths.note(Path::StoredLate);
        }
        let raised_at = request.raised_at;
        match request.what {
            Wish::Create { object, life } => {
                let uid = self.id();
                let object = Stored {
                    uid,
                    raised_at,
                    ..object
                };
                if object.owner.is_some() {
                    self.grown.push((self.now, object.namespace, [0, 0, 0, object.gpu, 0]));
                }
                self.put(object, &request.charged);
                if let Some(life) = life {
                    self.after(life, Event::Gone(uid));
                }
            }
            Wish::Resize { uid, revision, cpu } => match self.objects.get(&uid).cloned() {
                Some(object) if object.revision == revision => {
                    self.put(
                        Stored {
                            cpu,
                            raised_at,
                            ..object
                        },
                        &request.charged,
                    );
                }
                _ => self.say(|_| format!("request {id} finds o{uid} changed and fails")),
            },
        }
    }
}

pub(crate) fn add(sum: &mut Amounts, by: &Amounts) {
    for (sum, by) in sum.iter_mut().zip(by) {
        *sum += by;
    }
}
