//! Audit: for each name of each quota what was recorded, what the objects come to, and the difference.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use kubequota_core::evaluators::View;
use kubequota_core::inventory::Inventory;
use kubequota_core::registry::KindId;
use kubequota_core::{FieldError, GroupResource, Metadata, Object, ObjectId, Quantity, Quota, QuotaKey, ResourceName};
use kubequota_wire::files::Place;
use serde::{Serialize, Serializer};

use crate::problem::Problem;

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Audit {
    /// Every quota, by namespace and name.
    pub quotas: Vec<QuotaAudit>,
    /// What of the input could not be used. The rest is computed all the same.
    pub errors: Vec<Problem>,
}

/// The findings for one quota.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuotaAudit {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Every name in its `spec.hard`, in order.
    pub resources: Vec<Resource>,
    /// How many names of its `spec.hard` are not among them, for their limits can't be read: the errors tell which.
    #[serde(skip)]
    pub left_out: usize,
}

/// One name of a quota.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resource {
    /// The name.
    #[serde(serialize_with = "as_text")]
    pub name: ResourceName,
    /// `spec.hard`.
    pub hard: Quantity,
    /// `status.used`; `None` where nothing is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Quantity>,
    /// What the objects come to; `None` where nothing tracks the name, or it can't be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed: Option<Quantity>,
    /// Recorded less computed, where there is something computed. Nothing recorded is taken as 0, and is a drift even so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Quantity>,
}

/// How the two figures of a name stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// They are equal.
    None,
    /// They differ.
    Differs,
    /// Nothing is recorded for a name that is tracked.
    NotRecorded,
    /// Nothing is computed, so nothing can be said.
    NotComputed,
}

impl Resource {
    /// How its two figures stand to each other.
    #[must_use]
    pub fn state(&self) -> Drift {
        match (&self.recorded, &self.drift) {
            (_, None) => Drift::NotComputed,
            (None, Some(_)) => Drift::NotRecorded,
            (Some(_), Some(drift)) if drift.is_zero() => Drift::None,
            (Some(_), Some(_)) => Drift::Differs,
        }
    }

    /// Whether what is recorded is wrong.
    #[must_use]
    pub fn has_drifted(&self) -> bool {
        matches!(self.state(), Drift::Differs | Drift::NotRecorded)
    }
}

impl Audit {
    /// All names of all quotas.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.quotas.iter().flat_map(|quota| &quota.resources)
    }

    /// Whether any figure is wrong.
    #[must_use]
    pub fn has_drifted(&self) -> bool {
        self.resources().any(Resource::has_drifted)
    }
}

fn as_text<S: Serializer>(name: &ResourceName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name.as_str())
}

/// Takes objects in, and works out the findings at the end. The order does not matter.
#[derive(Debug)]
pub struct Auditor {
    inventory: Inventory,
    now: Timestamp,
    served: HashSet<KindId>,
    quotas: BTreeMap<QuotaKey, (Quota, Option<Place>)>,
    /// What objects are there, by namespace and name, and how the inventory knows them.
    seen: HashMap<(KindId, ObjectId), ObjectId>,
    problems: Vec<Problem>,
}

impl Auditor {
    /// An auditor of what stands at `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let inventory = Inventory::new();
        let served = inventory.registry().iter().map(|(kind, _)| kind).collect();
        Auditor {
            inventory,
            now,
            served,
            quotas: BTreeMap::new(),
            seen: HashMap::new(),
            problems: Vec::new(),
        }
    }

    /// Says that a resource is served, so that none of its objects means 0; a resource of which there are objects is. `None` for what is
    /// never counted.
    pub fn serve(&mut self, resource: &GroupResource) -> Option<KindId> {
        let kind = self.inventory.registry_mut().ensure(resource)?;
        self.served.insert(kind);
        Some(kind)
    }

    /// How objects of a kind are to be decoded.
    #[must_use]
    pub fn view_kind(&self, kind: KindId) -> kubequota_core::evaluators::ViewKind {
        self.inventory.registry().evaluator(kind).view_kind()
    }

    /// Takes an object in. Of several with the same name the last one counts, and that is a problem.
    pub fn observe(&mut self, kind: KindId, object: &Object, shown_kind: &str, place: Option<&Place>) {
        let metadata = &object.metadata;
        let known_as = ObjectId::from_uid(&metadata.display_name());
        // A name that is still to be generated is nobody else's.
        if !metadata.name.is_empty()
            && let Some(earlier) = self.seen.insert((kind, known_as), ObjectId::of(metadata))
        {
            self.inventory.remove(kind, &metadata.namespace, earlier, self.now);
            self.problem(
                Problem::with(
                    shown(shown_kind, metadata),
                    "it is there more than once; this one counts, not the one before",
                ),
                place,
            );
        }
        let outcome = self.inventory.observe(kind, object, self.now);
        if let Some(mut error) = outcome.unreadable {
            let resource = self.inventory.registry().evaluator(kind).group_resource();
            error.reason.push_str(&format!(
                " (so what {resource} use in {} is not computed)",
                metadata.namespace
            ));
            self.problem(Problem::of(shown(shown_kind, metadata), error), place);
        }
    }

    /// Takes an object in of which no more than its metadata matters.
    pub fn observe_counted(&mut self, kind: KindId, metadata: Metadata, shown_kind: &str, place: Option<&Place>) {
        self.observe(
            kind,
            &Object {
                metadata,
                view: Ok(View::Counted),
            },
            shown_kind,
            place,
        );
    }

    /// Takes a quota in. It is an object too, to be observed beside.
    pub fn quota(&mut self, quota: Quota, place: Option<&Place>) {
        for error in &quota.problems {
            self.problems
                .push(Problem::of(shown_quota(&quota.key), error.clone()).at(place));
        }
        self.quotas.insert(quota.key.clone(), (quota, place.cloned()));
    }

    /// Takes a device class in.
    pub fn device_class(&mut self, name: &str, extended_resource: Option<&str>) {
        self.inventory.set_device_class(name, extended_resource, self.now);
    }

    /// Notes what could not be taken in.
    pub fn problem(&mut self, problem: Problem, place: Option<&Place>) {
        let problem = if place.is_some() { problem.at(place) } else { problem };
        self.problems.push(problem);
    }

    /// Works out the findings.
    #[must_use]
    pub fn finish(mut self) -> Audit {
        let quotas = std::mem::take(&mut self.quotas);
        let audits = quotas
            .into_values()
            .map(|(quota, place)| self.audit(&quota, place.as_ref()))
            .collect();
        Audit {
            quotas: audits,
            errors: self.problems,
        }
    }

    fn audit(&mut self, quota: &Quota, place: Option<&Place>) -> QuotaAudit {
        let mut computed = HashMap::new();
        match quota.spec.selector.validate() {
            Ok(()) => {
                let feed = self
                    .inventory
                    .feed(quota.spec.hard.names(), |kind| self.served.contains(&kind));
                self.inventory
                    .ledger_mut()
                    .set_quota(&quota.key, feed.clone(), quota.spec.selector.clone());
                let ledger = self.inventory.ledger();
                for (name, kinds) in feed.names() {
                    let clouded = kinds.iter().any(|kind| ledger.is_clouded(&quota.key.namespace, *kind));
                    if let Some(used) = ledger
                        .used(&quota.key)
                        .and_then(|used| used.get(name.as_str()))
                        .filter(|_| !clouded)
                    {
                        computed.insert(name.clone(), used.clone());
                    }
                }
            }
            Err(error) => {
                let error = FieldError {
                    field: "spec.scopeSelector".to_owned(),
                    reason: format!("{error} (so nothing is computed for this quota)"),
                };
                self.problem(Problem::of(shown_quota(&quota.key), error), place);
            }
        }
        let resource = |(name, hard): (&ResourceName, &Quantity)| {
            let recorded = quota.status.used(name.as_str()).cloned();
            // A figure that is there and can't be read is no missing one.
            let illegible = quota
                .problems
                .iter()
                .any(|problem| problem.field == format!("status.used[{name}]"));
            let computed = computed.remove(name);
            let drift = computed
                .as_ref()
                .filter(|_| !illegible)
                .map(|computed| recorded.clone().unwrap_or_default() - computed);
            Resource {
                name: name.clone(),
                hard: hard.clone(),
                recorded,
                computed,
                drift,
            }
        };
        QuotaAudit {
            namespace: quota.key.namespace.to_string(),
            name: quota.key.name.to_string(),
            resources: quota.spec.hard.iter().map(resource).collect(),
            left_out: quota
                .problems
                .iter()
                .filter(|problem| problem.field.starts_with("spec.hard["))
                .count(),
        }
    }
}

fn shown(kind: &str, metadata: &Metadata) -> String {
    // A name that is still to be generated is shown by its beginning.
    format!(
        "{kind} {}{}",
        metadata.display_name(),
        if metadata.name.is_empty() {
            &*metadata.generate_name
        } else {
            ""
        }
    )
}

fn shown_quota(key: &QuotaKey) -> String {
    format!("ResourceQuota {key}")
}
