//! Pods: how many, and the cpu, memory, ephemeral storage, huge pages and extended resources they ask for.
//!
//! Follows `k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go`, `k8s.io/component-helpers/resource/helpers.go` and
//! `pkg/apis/core/v1/helper/qos` (v1.37, feature gates at their defaults).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use super::{ResourceTexts, View, ViewKind, is_extended_request, one, wrong_view};
use crate::evaluator::{Assessment, Charge, Context, Evaluator, GroupResource, Lookups, Operation, Request};
use crate::object::{FieldError, Metadata, or_default};
use crate::resource_list::{ResourceList, ResourceName};
use crate::scope::{PodFacts, ScopeFacts, is_qualified_part};

const COUNT: ResourceName = ResourceName::from_static("count/pods");
const PODS: ResourceName = ResourceName::from_static("pods");

/// A resource of containers that quotas know under three names.
struct Compute {
    /// The bare name, which means requests.
    bare: ResourceName,
    requests: ResourceName,
    limits: ResourceName,
}

impl Compute {
    const fn new(bare: &'static str, requests: &'static str, limits: &'static str) -> Self {
        Compute {
            bare: ResourceName::from_static(bare),
            requests: ResourceName::from_static(requests),
            limits: ResourceName::from_static(limits),
        }
    }
}

static COMPUTE: [Compute; 3] = [
    Compute::new("cpu", "requests.cpu", "limits.cpu"),
    Compute::new("memory", "requests.memory", "limits.memory"),
    Compute::new(
        "ephemeral-storage",
        "requests.ephemeral-storage",
        "limits.ephemeral-storage",
    ),
];

const HUGE_PAGES_PREFIX: &str = "hugepages-";
const REQUESTS_PREFIX: &str = "requests.";
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// What quota sees of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodView {
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
    #[serde(deserialize_with = "or_default")]
    overhead: ResourceTexts,
    #[serde(deserialize_with = "or_default")]
    active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    priority_class_name: String,
    #[serde(deserialize_with = "or_default")]
    affinity: Affinity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
    #[serde(deserialize_with = "or_default")]
    restart_policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Resources {
    #[serde(deserialize_with = "or_default")]
    requests: ResourceTexts,
    #[serde(deserialize_with = "or_default")]
    limits: ResourceTexts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Affinity {
    #[serde(deserialize_with = "or_default")]
    pod_affinity: AffinityTerms,
    #[serde(deserialize_with = "or_default")]
    pod_anti_affinity: AffinityTerms,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityTerms {
    #[serde(deserialize_with = "or_default")]
    required_during_scheduling_ignored_during_execution: Vec<AffinityTerm>,
    #[serde(deserialize_with = "or_default")]
    preferred_during_scheduling_ignored_during_execution: Vec<WeightedAffinityTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WeightedAffinityTerm {
    #[serde(deserialize_with = "or_default")]
    pod_affinity_term: AffinityTerm,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityTerm {
    #[serde(deserialize_with = "or_default")]
    namespaces: Vec<String>,
    /// Only whether there is one matters; an empty one selects all namespaces.
    #[serde(deserialize_with = "is_present")]
    namespace_selector: bool,
}

fn is_present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<serde::de::IgnoredAny>::deserialize(deserializer)?.is_some())
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "or_default")]
    phase: String,
    #[serde(rename = "qosClass", deserialize_with = "or_default")]
    qos_class: String,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(deserialize_with = "or_default")]
    r#type: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
}

/// A map that is present counts as set, even when it is empty; one that is absent does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    allocated_resources: Option<ResourceTexts>,
    #[serde(deserialize_with = "or_default")]
    resources: StatusResources,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct StatusResources {
    #[serde(deserialize_with = "or_default")]
    requests: Option<ResourceTexts>,
    #[serde(deserialize_with = "or_default")]
    limits: Option<ResourceTexts>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExtendedResourceClaimStatus {
    #[serde(deserialize_with = "or_default")]
    resource_claim_name: String,
}

/// What one container asks for, by spec and as its status has it.
#[derive(Default)]
struct Demand {
    restartable: bool,
    requests: ResourceList,
    limits: ResourceList,
    allocated: Option<ResourceList>,
    actual_requests: Option<ResourceList>,
    actual_limits: Option<ResourceList>,
}

/// The containers of a pod, parsed.
struct Demands {
    containers: Vec<Demand>,
    init_containers: Vec<Demand>,
    /// A resize was asked for that can't be done: what the spec says is then left out.
    infeasible: bool,
}

impl Demands {
    /// Sum and peaks of the containers' lists that `list` picks.
    ///
    /// Plain init containers run one after the other before the rest, restartable ones (sidecars) from their turn on; so at each
    /// init step the pod needs that container and the sidecars so far, and in the end all containers and all sidecars.
    fn total<'a>(&'a self, list: impl Fn(&'a Demand) -> Option<&'a ResourceList>) -> ResourceList {
        let mut total = ResourceList::new();
        for container in self.containers.iter().filter_map(&list) {
            total.add_assign(container);
        }
        let mut sidecars = ResourceList::new();
        let mut peaks = ResourceList::new();
        for container in &self.init_containers {
            let Some(own) = list(container) else {
                // It asks for nothing itself, but the sidecars so far are running at its step, which earlier steps have covered.
                continue;
            };
            if container.restartable {
                total.add_assign(own);
                sidecars.add_assign(own);
                peaks.raise_to(&sidecars);
            } else {
                peaks.raise_to(&own.add(&sidecars));
            }
        }
        total.raise_to(&peaks);
        total
    }

    fn spec_requests(&self) -> ResourceList {
        self.total(|container| Some(&container.requests))
    }

    fn spec_limits(&self) -> ResourceList {
        self.total(|container| Some(&container.limits))
    }

    /// The larger, for each resource, of what the spec says, what is in force and what is allocated (an equal one of these keeps the
    /// text of the first).
    fn requests(&self) -> ResourceList {
        let by_spec = |container| self.fallback(container, |container| &container.requests);
        let mut result = if self.infeasible {
            ResourceList::new()
        } else {
            self.spec_requests()
        };
        result.raise_to(&self.total(|container| {
            container
                .actual_requests
                .as_ref()
                .or(container.allocated.as_ref())
                .or_else(|| by_spec(container))
        }));
        result.raise_to(&self.total(|container| container.allocated.as_ref().or_else(|| by_spec(container))));
        result
    }

    fn limits(&self) -> ResourceList {
        let by_spec = |container| self.fallback(container, |container| &container.limits);
        let mut result = if self.infeasible {
            ResourceList::new()
        } else {
            self.spec_limits()
        };
        result.raise_to(&self.total(|container| container.actual_limits.as_ref().or_else(|| by_spec(container))));
        result
    }

    fn fallback<'a>(
        &self,
        container: &'a Demand,
        list: impl Fn(&'a Demand) -> &'a ResourceList,
    ) -> Option<&'a ResourceList> {
        (!self.infeasible).then(|| list(container))
    }

    fn has_statuses(&self) -> bool {
        self.infeasible
            || self.containers.iter().chain(&self.init_containers).any(|container| {
                container.allocated.is_some()
                    || container.actual_requests.is_some()
                    || container.actual_limits.is_some()
            })
    }
}

impl PodView {
    /// The name of the resource claim that the pod's status names for its extended resources.
    #[must_use]
    pub fn extended_resource_claim(&self) -> Option<&str> {
        self.status
            .extended_resource_claim_status
            .as_ref()
            .map(|status| status.resource_claim_name.as_str())
    }

    fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    fn scope_facts(&self) -> Result<PodFacts, FieldError> {
        let class = self.spec.priority_class_name.as_str();
        Ok(PodFacts {
            terminating: self.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
            best_effort: self.is_best_effort()?,
            priority_class: (!class.is_empty()).then(|| Arc::from(class)),
            cross_namespace_affinity: self.spec.affinity.crosses_namespaces(),
        })
    }

    /// The class in the status is believed; where it is empty it is worked out from the spec.
    fn is_best_effort(&self) -> Result<bool, FieldError> {
        if !self.status.qos_class.is_empty() {
            return Ok(self.status.qos_class == "BestEffort");
        }
        if self.spec.resources.any_supported_for_pods() {
            return self.spec.resources.is_best_effort("spec.resources");
        }
        for (at, container) in self.all_containers() {
            if !container.resources.is_best_effort(&format!("{at}.resources"))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Containers, then init containers, with their paths.
    fn all_containers(&self) -> impl Iterator<Item = (String, &Container)> {
        let at = |list: &'static str| move |(index, container)| (format!("spec.{list}[{index}]"), container);
        let containers = self.spec.containers.iter().enumerate().map(at("containers"));
        containers.chain(self.spec.init_containers.iter().enumerate().map(at("initContainers")))
    }

    fn demands(&self) -> Result<Demands, FieldError> {
        let parse = |list: &[Container], field: &str| -> Result<Vec<Demand>, FieldError> {
            let numbered = list.iter().enumerate();
            numbered
                .map(|(index, container)| self.demand(container, &|| format!("spec.{field}[{index}]")))
                .collect()
        };
        let resize = self
            .status
            .conditions
            .iter()
            .find(|condition| condition.r#type == "PodResizePending");
        Ok(Demands {
            containers: parse(&self.spec.containers, "containers")?,
            init_containers: parse(&self.spec.init_containers, "initContainers")?,
            infeasible: resize.is_some_and(|condition| condition.reason == "Infeasible"),
        })
    }

    fn demand(&self, container: &Container, at: &dyn Fn() -> String) -> Result<Demand, FieldError> {
        let statuses = self
            .status
            .container_statuses
            .iter()
            .chain(&self.status.init_container_statuses);
        let status = statuses.into_iter().find(|status| status.name == container.name);
        let of_status = |list: Option<&ResourceTexts>, field: &str| {
            list.map(|list| list.parse(|| format!("status.containerStatuses[{}].{field}", container.name)))
                .transpose()
        };
        Ok(Demand {
            restartable: container.restart_policy == "Always",
            requests: container
                .resources
                .requests
                .parse(|| format!("{}.resources.requests", at()))?,
            limits: container
                .resources
                .limits
                .parse(|| format!("{}.resources.limits", at()))?,
            allocated: of_status(
                status.and_then(|status| status.allocated_resources.as_ref()),
                "allocatedResources",
            )?,
            actual_requests: of_status(
                status.and_then(|status| status.resources.requests.as_ref()),
                "resources.requests",
            )?,
            actual_limits: of_status(
                status.and_then(|status| status.resources.limits.as_ref()),
                "resources.limits",
            )?,
        })
    }

    /// What the pod uses while it lives, and what it would use if its status said nothing.
    fn live_usage(&self) -> Result<(ResourceList, Option<ResourceList>), FieldError> {
        let demands = self.demands()?;
        let whole_pod = PodLevel {
            requests: self
                .spec
                .resources
                .requests
                .parse(|| "spec.resources.requests".to_owned())?,
            limits: self
                .spec
                .resources
                .limits
                .parse(|| "spec.resources.limits".to_owned())?,
            overhead: self.spec.overhead.parse(|| "spec.overhead".to_owned())?,
        };
        let by_spec = whole_pod.usage(demands.spec_requests(), demands.spec_limits());
        if !demands.has_statuses() {
            return Ok((by_spec, None));
        }
        let usage = whole_pod.usage(demands.requests(), demands.limits());
        let differs = usage != by_spec;
        Ok((usage, differs.then_some(by_spec)))
    }
}

/// What `spec.resources` and `spec.overhead` say of the pod as a whole.
struct PodLevel {
    requests: ResourceList,
    limits: ResourceList,
    overhead: ResourceList,
}

impl PodLevel {
    /// The usage of a live pod whose containers come to these totals.
    fn usage(&self, mut requests: ResourceList, mut limits: ResourceList) -> ResourceList {
        replace_supported(&mut requests, &self.requests);
        requests.add_assign(&self.overhead);
        replace_supported(&mut limits, &self.limits);
        let limited = |name: &ResourceName| limits.get(name.as_str()).is_some_and(|limit| !limit.is_zero());
        let overhead = self.overhead.mask(limited);
        limits.add_assign(&overhead);
        named_for_quota(&requests, &limits)
    }
}

fn replace_supported(totals: &mut ResourceList, by_pod: &ResourceList) {
    for (name, value) in by_pod.iter().filter(|(name, _)| is_supported_for_pods(name.as_str())) {
        totals.insert(name.clone(), value.clone());
    }
}

/// Resources that may be set for a pod as a whole.
fn is_supported_for_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES_PREFIX)
}

/// The names that quotas use for a live pod's requests and limits (upstream's `podComputeUsageHelper`).
fn named_for_quota(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = ResourceList::new();
    usage.insert(COUNT, one());
    usage.insert(PODS, one());
    for compute in &COMPUTE {
        if let Some(request) = requests.get(compute.bare.as_str()) {
            usage.insert(compute.bare.clone(), request.clone());
            usage.insert(compute.requests.clone(), request.clone());
        }
        if let Some(limit) = limits.get(compute.bare.as_str()) {
            usage.insert(compute.limits.clone(), limit.clone());
        }
    }
    for (name, request) in requests {
        let huge_pages = name.as_str().starts_with(HUGE_PAGES_PREFIX);
        if huge_pages {
            usage.insert(name.clone(), request.clone());
        }
        if huge_pages || is_extended(name.as_str()) {
            usage.insert(ResourceName::from(format!("{REQUESTS_PREFIX}{name}")), request.clone());
        }
    }
    usage
}

/// Whether a container's resource is counted as `requests.NAME`: it is no resource of Kubernetes' own and makes a valid name, or a
/// device class implies it (upstream's `IsDRAExtendedResourceName`).
fn is_extended(name: &str) -> bool {
    let foreign = || name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with(REQUESTS_PREFIX);
    name.starts_with(DEVICE_CLASS_PREFIX) || (foreign() && is_qualified_name(&format!("{REQUESTS_PREFIX}{name}")))
}

/// Kubernetes' qualified names: a DNS subdomain, `/`, and at most 63 of `[A-Za-z0-9_.-]`, alphanumeric at both ends.
fn is_qualified_name(name: &str) -> bool {
    let Some((domain, name)) = name.split_once('/') else {
        return false;
    };
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    domain.len() <= 253 && domain.split('.').all(is_label) && name.len() <= 63 && is_qualified_part(name)
}

impl Resources {
    /// Whether the pod is one that sets its resources as a whole (upstream's `IsPodLevelResourcesSet`).
    fn any_supported_for_pods(&self) -> bool {
        self.requests
            .0
            .keys()
            .chain(self.limits.0.keys())
            .any(|name| is_supported_for_pods(name))
    }

    /// All cpu and memory requests and limits are zero or absent.
    fn is_best_effort(&self, at: &str) -> Result<bool, FieldError> {
        for (list, field) in [(&self.requests, "requests"), (&self.limits, "limits")] {
            for name in ["cpu", "memory"] {
                if list
                    .get(name, &format!("{at}.{field}"))?
                    .is_some_and(|value| !value.is_zero())
                {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Affinity {
    fn crosses_namespaces(&self) -> bool {
        let crosses = |term: &AffinityTerm| !term.namespaces.is_empty() || term.namespace_selector;
        [&self.pod_affinity, &self.pod_anti_affinity].into_iter().any(|terms| {
            terms
                .required_during_scheduling_ignored_during_execution
                .iter()
                .any(crosses)
                || terms
                    .preferred_during_scheduling_ignored_during_execution
                    .iter()
                    .any(|term| crosses(&term.pod_affinity_term))
        })
    }
}

/// Charges pods.
#[derive(Clone, Debug)]
pub struct PodEvaluator(GroupResource);

impl Default for PodEvaluator {
    fn default() -> Self {
        PodEvaluator(GroupResource::core("pods"))
    }
}

impl Evaluator for PodEvaluator {
    fn group_resource(&self) -> &GroupResource {
        &self.0
    }

    fn view_kind(&self) -> ViewKind {
        ViewKind::Pod
    }

    fn tracks(&self, name: &str, _: &dyn Lookups) -> bool {
        let compute = |compute: &Compute| {
            [&compute.bare, &compute.requests, &compute.limits]
                .iter()
                .any(|own| own.as_str() == name)
        };
        name == COUNT.as_str()
            || name == PODS.as_str()
            || COMPUTE.iter().any(compute)
            || name
                .strip_prefix(REQUESTS_PREFIX)
                .unwrap_or(name)
                .starts_with(HUGE_PAGES_PREFIX)
            || is_extended_request(name)
    }

    fn assess(&self, metadata: &Metadata, view: &View, context: &Context<'_>) -> Result<Assessment, FieldError> {
        let View::Pod(pod) = view else {
            return Err(wrong_view("pod"));
        };
        let scopes = ScopeFacts::Pod(pod.scope_facts()?);
        let ended = |scopes| Charge {
            usage: [(COUNT, one())].into_iter().collect(),
            spec_usage: None,
            scopes,
        };
        if pod.is_finished() {
            return Ok(ended(scopes).into());
        }
        let grace_ends = metadata.grace_ends()?;
        if grace_ends.is_some_and(|ends| context.now > ends) {
            return Ok(ended(scopes).into());
        }
        let (usage, spec_usage) = pod.live_usage()?;
        let later = grace_ends.map(|ends| (ends, ended(scopes.clone())));
        Ok(Assessment {
            charge: Charge {
                usage,
                spec_usage,
                scopes,
            },
            later,
        })
    }

    fn constraint(&self, view: &View, required: &[ResourceName]) -> Result<(), String> {
        let View::Pod(pod) = view else { return Ok(()) };
        if pod.spec.resources.any_supported_for_pods() {
            return Ok(());
        }
        // Only these were ever made mandatory; upstream calls it a mistake that must be kept and not repeated.
        let mandatory = |name: &str| {
            COMPUTE[..2].iter().any(|compute| {
                [&compute.bare, &compute.requests, &compute.limits]
                    .iter()
                    .any(|own| own.as_str() == name)
            })
        };
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for name in required.iter().map(ResourceName::as_str).filter(|name| mandatory(name)) {
            for (_, container) in pod.all_containers() {
                let present = match name.strip_prefix("limits.") {
                    Some(limit) => container.resources.limits.contains(limit),
                    None => container
                        .resources
                        .requests
                        .contains(name.strip_prefix(REQUESTS_PREFIX).unwrap_or(name)),
                };
                if !present {
                    missing.entry(name).or_default().insert(&container.name);
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.iter().map(|(name, containers)| {
            format!(
                "{name} for: {}",
                containers.iter().copied().collect::<Vec<_>>().join(",")
            )
        });
        Err(format!("must specify {}", missing.collect::<Vec<_>>().join("; ")))
    }

    fn reviewed(&self) -> &'static [(Operation, &'static str)] {
        &[
            (Operation::Create, ""),
            (Operation::Update, ""),
            (Operation::Update, "resize"),
        ]
    }

    fn handles(&self, request: &Request<'_>) -> bool {
        match (request.subresource, request.operation) {
            ("", Operation::Create) | ("resize", Operation::Update) => true,
            ("", Operation::Update) => match (request.old.map(|old| &old.scopes), request.new.map(|new| &new.scopes)) {
                (Some(ScopeFacts::Pod(old)), Some(ScopeFacts::Pod(new))) => old.terminating != new.terminating,
                _ => false,
            },
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::evaluator::NoLookups;
    use crate::evaluators::testing::{assess, charge, check_handled, check_tracked, now, problem, resources};

    /// A pod to be.
    #[derive(Clone)]
    struct Pod(Value);

    /// A pod of these parts; see [`Pod::and`].
    fn pod(parts: &str) -> Pod {
        Pod(json!({"metadata": {"name": "p"}, "spec": {"containers": [], "initContainers": []}, "status": {}}))
            .and(parts)
    }

    impl Pod {
        fn push(mut self, part: &str, list: &str, item: Value) -> Self {
            let list = &mut self.0[part][list];
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().unwrap().push(item);
            self
        }

        /// Adds parts, with `;` between them. Lists of resources are written `cpu=1 memory=2Gi`.
        /// - `container NAME | requests | limits`, likewise `init` and `sidecar`
        /// - `status NAME | allocated | requests in force | limits in force`, likewise `init-status`; a list left out is absent, `{}` empty
        /// - `whole | requests | limits`, `overhead | requests`
        /// - `condition TYPE REASON`; `infeasible` is the one that leaves the spec out
        fn and(self, parts: &str) -> Self {
            parts
                .split(';')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .fold(self, |pod, part| {
                    let mut columns = part.split('|').map(str::trim);
                    let what = columns.next().unwrap();
                    let (what, name) = what.split_once(' ').unwrap_or((what, ""));
                    let lists: Vec<&str> = columns.collect();
                    let list = |index: usize| lists.get(index).copied().unwrap_or_default();
                    let of_container =
                        |index| json!({"requests": resources(list(index)), "limits": resources(list(index + 1))});
                    let of_status = |index| match list(index) {
                        "" => Value::Null,
                        "{}" => json!({}),
                        list => resources(list),
                    };
                    let status = || {
                        let resources = json!({"requests": of_status(1), "limits": of_status(2)});
                        json!({"name": name, "allocatedResources": of_status(0), "resources": resources})
                    };
                    match what {
                        "container" => pod.push(
                            "spec",
                            "containers",
                            json!({"name": name, "resources": of_container(0)}),
                        ),
                        "init" => pod.push(
                            "spec",
                            "initContainers",
                            json!({"name": name, "resources": of_container(0)}),
                        ),
                        "sidecar" => {
                            let sidecar =
                                json!({"name": name, "resources": of_container(0), "restartPolicy": "Always"});
                            pod.push("spec", "initContainers", sidecar)
                        }
                        "status" => pod.push("status", "containerStatuses", status()),
                        "init-status" => pod.push("status", "initContainerStatuses", status()),
                        "whole" => pod.spec("resources", of_container(0)),
                        "overhead" => pod.spec("overhead", resources(list(0))),
                        "condition" => {
                            let (kind, reason) = name.split_once(' ').unwrap_or((name, ""));
                            pod.push("status", "conditions", json!({"type": kind, "reason": reason}))
                        }
                        "infeasible" => pod.and("condition PodResizePending Infeasible"),
                        other => panic!("{other} is no part of a pod"),
                    }
                })
        }

        fn spec(mut self, field: &str, value: Value) -> Self {
            self.0["spec"][field] = value;
            self
        }

        fn status(mut self, field: &str, value: Value) -> Self {
            self.0["status"][field] = value;
            self
        }

        fn deleted(mut self, at: &str, grace: Option<i64>) -> Self {
            self.0["metadata"]["deletionTimestamp"] = json!(at);
            self.0["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            self
        }

        fn charge(&self) -> Charge {
            charge(&PodEvaluator::default(), &self.0)
        }

        fn facts(&self) -> PodFacts {
            match self.charge().scopes {
                ScopeFacts::Pod(facts) => facts,
                other => panic!("{other:?}"),
            }
        }

        /// What the live pod uses, beside the counts, and without the bare names, which repeat `requests.`.
        fn usage(&self) -> String {
            let mut usage = self.charge().usage;
            for count in [COUNT, PODS] {
                assert_eq!(usage.remove(count.as_str()), Some(one()), "{}", self.0);
            }
            for name in usage.names().cloned().collect::<Vec<_>>() {
                if let Some(bare) = name
                    .as_str()
                    .strip_prefix(REQUESTS_PREFIX)
                    .filter(|name| !name.contains('/'))
                {
                    assert_eq!(
                        usage.remove(bare).as_ref(),
                        usage.get(name.as_str()),
                        "{bare} of {}",
                        self.0
                    );
                }
            }
            usage.to_string()
        }

        fn view(&self) -> View {
            crate::evaluators::testing::object(&PodEvaluator::default(), &self.0)
                .view
                .unwrap()
        }
    }

    /// Rows of `PARTS => usage`.
    fn check(rows: &[&str]) {
        for row in rows {
            let (parts, expected) = row.split_once("=>").unwrap();
            assert_eq!(pod(parts).usage(), expected.trim(), "{row}");
        }
    }

    #[test]
    fn tracked_names() {
        check_tracked(
            &PodEvaluator::default(),
            &NoLookups,
            &[
                "pods",
                "count/pods",
                "cpu",
                "memory",
                "ephemeral-storage",
                "requests.cpu",
                "requests.memory",
                "requests.ephemeral-storage",
                "limits.cpu",
                "limits.memory",
                "limits.ephemeral-storage",
                "hugepages-",
                "hugepages-2Mi",
                "requests.hugepages-2Mi",
                "requests.hugepages-",
                "requests.example.com/gpu",
                "requests.x/y",
                "requests.deviceclass.resource.kubernetes.io/c",
                "requests.deviceclass.resource.kubernetes.io/",
            ],
            &[
                "",
                "storage",
                "requests.storage",
                "requests.pods",
                "limits.pods",
                "limits.hugepages-2Mi",
                "requests.kubernetes.io/x",
                "requests.node.kubernetes.io/x",
                "example.com/gpu",
                "limits.example.com/gpu",
                "deviceclass.resource.kubernetes.io/c",
                "count/pods.",
                "count/pods.metrics.k8s.io",
                "requests.requests.cpu",
            ],
        );
    }

    #[test]
    fn each_resource_by_its_names() {
        let table = [
            ("cpu=1m", "cpu=2m", "limits.cpu=2m,requests.cpu=1m"),
            ("memory=1m", "memory=2m", "limits.memory=2m,requests.memory=1m"),
            (
                "ephemeral-storage=32Mi",
                "ephemeral-storage=64Mi",
                "limits.ephemeral-storage=64Mi,requests.ephemeral-storage=32Mi",
            ),
            ("", "cpu=1", "limits.cpu=1"),
            ("cpu=0", "", "requests.cpu=0"),
            (
                "hugepages-2Mi=100Mi",
                "hugepages-2Mi=100Mi",
                "requests.hugepages-2Mi=100Mi",
            ),
            ("hugepages-=1", "", "requests.hugepages-=1"),
            (
                "example.com/dongle=3",
                "example.com/dongle=3",
                "requests.example.com/dongle=3",
            ),
            (
                "deviceclass.resource.kubernetes.io/dongle=3",
                "deviceclass.resource.kubernetes.io/dongle=3",
                "requests.deviceclass.resource.kubernetes.io/dongle=3",
            ),
            // Names that quotas don't know.
            ("storage=1 pods=5 requests.cpu=1 foo=1", "example.com/gpu=1", ""),
            // One that merely looks like a count.
            ("count/pods=7", "", "requests.count/pods=7"),
        ];
        for (requests, limits, expected) in table {
            for kind in ["container", "init", "sidecar"] {
                assert_eq!(pod(&format!("{kind} a | {requests} | {limits}")).usage(), expected);
            }
        }
    }

    #[test]
    fn extended_names() {
        let long = |count: usize| "a".repeat(count);
        let counted = [
            "example.com/gpu".to_owned(),
            "x/y".to_owned(),
            "x.y/A.b_c-9".to_owned(),
            "a-1.9z/x".to_owned(),
            format!("x/{}", long(63)),
            // With the prefix the domain may have 253 characters.
            format!("{}/x", long(253 - REQUESTS_PREFIX.len())),
            "deviceclass.resource.kubernetes.io/c".to_owned(),
            "deviceclass.resource.kubernetes.io/".to_owned(),
            "deviceclass.resource.kubernetes.io/-?-".to_owned(),
        ];
        let ignored = [
            "gpu".to_owned(),
            "kubernetes.io/x".to_owned(),
            "node.kubernetes.io/x".to_owned(),
            "example.com/kubernetes.io/".to_owned(),
            "requests.example.com/gpu".to_owned(),
            "EXAMPLE.com/gpu".to_owned(),
            "a_b/x".to_owned(),
            "x-/y".to_owned(),
            "x..y/z".to_owned(),
            "/x".to_owned(),
            "x/".to_owned(),
            "x/y/z".to_owned(),
            "x/-y".to_owned(),
            "x/y.".to_owned(),
            "x/é".to_owned(),
            format!("x/{}", long(64)),
            format!("{}/x", long(254 - REQUESTS_PREFIX.len())),
        ];
        for name in counted {
            assert_eq!(
                pod(&format!("container a | {name}=1")).usage(),
                format!("requests.{name}=1")
            );
        }
        for name in ignored {
            assert_eq!(pod(&format!("container a | {name}=1")).usage(), "", "{name}");
        }
        // A domain is judged behind `requests.`: one that begins with a hyphen is none.
        assert_eq!(pod("container a | -x/y=1").usage(), "");
    }

    #[test]
    fn sums_and_peaks() {
        check(&[
            "=>",
            "container a | cpu=1 | cpu=2; container b | cpu=2 memory=1Gi => limits.cpu=2,requests.cpu=3,requests.memory=1Gi",
            // The largest init container, each resource by itself.
            "init i | cpu=4; init j | memory=3Gi; container a | cpu=1 memory=1Gi => requests.cpu=4,requests.memory=3Gi",
            "init i | cpu=4 memory=100M x.io/y=4 | cpu=8 memory=200M x.io/y=4; \
             init j | cpu=1 memory=50M x.io/y=2 | cpu=2 memory=100M x.io/y=2; \
             container a | cpu=1 memory=50M x.io/y=1 | cpu=2 memory=100M x.io/y=1; \
             container b | cpu=2 memory=25M x.io/y=2 | cpu=5 memory=50M x.io/y=2 \
             => limits.cpu=8,limits.memory=200M,requests.cpu=4,requests.memory=100M,requests.x.io/y=4",
            // A sidecar runs beside all that come after it.
            "sidecar s | cpu=1 | cpu=2; container a | cpu=1 | cpu=1 => limits.cpu=3,requests.cpu=2",
            "init i | cpu=4; sidecar s | cpu=1; container a | cpu=1 => requests.cpu=4",
            "sidecar s | cpu=1; init i | cpu=4; container a | cpu=1 => requests.cpu=5",
            "sidecar s | cpu=1; init i | cpu=4; sidecar t | cpu=2; init j | cpu=3; container a | cpu=2 => requests.cpu=6",
            "sidecar s | cpu=1; sidecar t | memory=1Gi; init i => requests.cpu=1,requests.memory=1Gi",
        ]);
        // Only init containers can be sidecars, and only by Always.
        for (list, policy, expected) in [
            ("initContainers", json!("Always"), "requests.cpu=2"),
            ("initContainers", json!("OnFailure"), "requests.cpu=1"),
            ("initContainers", json!(null), "requests.cpu=1"),
            ("containers", json!("Always"), "requests.cpu=2"),
        ] {
            let own = json!({"restartPolicy": policy, "resources": {"requests": {"cpu": 1}}});
            assert_eq!(
                pod("container a | cpu=1").push("spec", list, own).usage(),
                expected,
                "{list} {policy}"
            );
        }
    }

    #[test]
    fn overhead() {
        check(&[
            "container a | cpu=1 | cpu=2; overhead | cpu=1 => limits.cpu=3,requests.cpu=2",
            // To requests always, to limits only where there is one that is not zero.
            "container a; overhead | cpu=1 memory=1Gi => requests.cpu=1,requests.memory=1Gi",
            "container a | | cpu=0 memory=1Gi; overhead | cpu=1 memory=1Gi \
             => limits.cpu=0,limits.memory=2Gi,requests.cpu=1,requests.memory=1Gi",
            "container a | | cpu=1; overhead | cpu=0 => limits.cpu=1,requests.cpu=0",
            "init i | cpu=5; container a | cpu=1; overhead | cpu=1 => requests.cpu=6",
            "container a | example.com/gpu=1; overhead | example.com/gpu=1 => requests.example.com/gpu=2",
            "whole | cpu=3 | cpu=4; container a | cpu=1; overhead | cpu=1 => limits.cpu=5,requests.cpu=4",
        ]);
    }

    #[test]
    fn resources_of_the_whole_pod() {
        check(&[
            "whole | cpu=1m | cpu=2m => limits.cpu=2m,requests.cpu=1m",
            "whole | memory=1Mi | memory=2Mi => limits.memory=2Mi,requests.memory=1Mi",
            "whole | hugepages-2Mi=4Mi => requests.hugepages-2Mi=4Mi",
            "whole | memory=1Mi | memory=2Mi; container a | ephemeral-storage=32Mi | ephemeral-storage=64Mi \
             => limits.ephemeral-storage=64Mi,limits.memory=2Mi,requests.ephemeral-storage=32Mi,requests.memory=1Mi",
            // A name set there replaces the containers', be it smaller; requests and limits each by themselves.
            "whole | cpu=1; container a | cpu=5 memory=1Gi | cpu=6 => limits.cpu=6,requests.cpu=1,requests.memory=1Gi",
            "whole | | cpu=1; container a | cpu=5 | cpu=6 => limits.cpu=1,requests.cpu=5",
            "whole | cpu=0; init i | cpu=5; sidecar s | cpu=5 => requests.cpu=0",
            "whole | hugepages-2Mi=2Mi; container a | hugepages-2Mi=4Mi hugepages-1Gi=1Gi \
             => requests.hugepages-1Gi=1Gi,requests.hugepages-2Mi=2Mi",
            // Other resources can't be set there.
            "whole | ephemeral-storage=1 example.com/gpu=1 cpu=1 | storage=1 => requests.cpu=1",
            "whole | ephemeral-storage=1; container a | ephemeral-storage=3 => requests.ephemeral-storage=3",
            // Always from the spec.
            "whole | cpu=1 | cpu=1; container a | cpu=2 | cpu=2; status a | cpu=5 | cpu=6 | cpu=7; infeasible \
             => limits.cpu=1,requests.cpu=1",
        ]);
        let with_status = pod("whole | cpu=1 | cpu=1")
            .status("resources", json!({"requests": {"cpu": 9}, "limits": {"cpu": 9}}))
            .status("allocatedResources", json!({"cpu": 9}));
        assert_eq!(with_status.usage(), "limits.cpu=1,requests.cpu=1");
    }

    /// The larger of spec, allocated and in force, each summed over the whole pod first.
    #[test]
    fn in_place_resize() {
        check(&[
            "container a | cpu=2 | cpu=2; status a => limits.cpu=2,requests.cpu=2",
            "container a | cpu=2 | cpu=2; status a | cpu=1 | cpu=1 | cpu=1 => limits.cpu=2,requests.cpu=2",
            "container a | cpu=2 | cpu=2; status a | cpu=3 => limits.cpu=2,requests.cpu=3",
            "container a | cpu=2 | cpu=2; status a | | cpu=3 => limits.cpu=2,requests.cpu=3",
            "container a | cpu=2 | cpu=2; status a | cpu=3 | cpu=4 | cpu=5 => limits.cpu=5,requests.cpu=4",
            "container a | cpu=2 | cpu=2; status a | cpu=4 | cpu=3 | cpu=1 => limits.cpu=2,requests.cpu=4",
            "container a | cpu=2; status a | memory=1Gi => requests.cpu=2,requests.memory=1Gi",
            // A map that is there takes the place of the spec, empty or not.
            "container a | cpu=2 | cpu=2; status a | {} | {} | {}; container b | cpu=2 | cpu=2; status b | cpu=3 | cpu=3 | cpu=3 \
             => limits.cpu=4,requests.cpu=4",
            "container a | cpu=2 | cpu=2; container b | cpu=2 | cpu=2; status b | cpu=3 | cpu=3 | cpu=3 \
             => limits.cpu=5,requests.cpu=5",
            // The maximum of sums, not the sum of maxima: 1+3 or 3+1, never 3+3.
            "container a | cpu=1 | cpu=1; status a | cpu=3 | | cpu=3; container b | cpu=3 | cpu=3; status b | cpu=1 | | cpu=1 \
             => limits.cpu=4,requests.cpu=4",
            // Requests in force, else what is allocated, else the spec.
            "container a | cpu=1; status a | cpu=1 | cpu=8; container b | cpu=1; status b | cpu=4; container c | cpu=1 \
             => requests.cpu=13",
            // Containers are found by name: the first of it, those of containers before those of init containers.
            "container a | cpu=2; status x | cpu=9 | cpu=9 | cpu=9 => requests.cpu=2",
            "container a | cpu=2; status a | cpu=3; status a | cpu=9 => requests.cpu=3",
            "container a | cpu=2; init-status a | cpu=9; status a | cpu=3 => requests.cpu=3",
            "container a | cpu=2; init-status a | cpu=9 => requests.cpu=9",
            "sidecar s | cpu=1; container a | cpu=1; status s | cpu=3 => requests.cpu=4",
            "init i | cpu=1; container a | cpu=1; init-status i | cpu=3 => requests.cpu=3",
            // A resource that the spec does not name.
            "container a; status a | cpu=1 | | memory=1Gi => limits.memory=1Gi,requests.cpu=1",
        ]);
    }

    #[test]
    fn infeasible_resize() {
        check(&[
            "container a | cpu=5 | cpu=5; infeasible; status a | cpu=1 | cpu=2 | cpu=3 => limits.cpu=3,requests.cpu=2",
            "container a | cpu=5 | cpu=5; infeasible; status a | cpu=2 | cpu=1 => requests.cpu=2",
            "container a | cpu=5 | cpu=5; infeasible; status a | cpu=2 => requests.cpu=2",
            "container a | cpu=5 | cpu=5; infeasible; status a | | cpu=2 => requests.cpu=2",
            // The spec is left out as a fallback too.
            "container a | cpu=5 | cpu=5; infeasible =>",
            "container a | cpu=5 | cpu=5; infeasible; status a =>",
            "container a | cpu=5 | cpu=5; infeasible; status a | {} | {} | {} =>",
            "container a | cpu=5 | cpu=5; infeasible; container b | cpu=1 | cpu=1; status a | cpu=1 | cpu=1 | cpu=1 \
             => limits.cpu=1,requests.cpu=1",
            "container a | cpu=5 | cpu=5; infeasible; overhead | cpu=1 => requests.cpu=1",
            "sidecar s | cpu=5; init i | cpu=5; status s | cpu=1; infeasible => requests.cpu=1",
            // Only the first condition of the type counts.
            "container a | cpu=5; condition PodResizePending Deferred; infeasible => requests.cpu=5",
            "container a | cpu=5; infeasible; condition PodResizePending Deferred =>",
            "container a | cpu=5; condition Ready Infeasible; condition PodResizeInProgress; infeasible =>",
            "container a | cpu=5; condition PodResizeInProgress Infeasible => requests.cpu=5",
        ]);
    }

    #[test]
    fn equal_values_keep_the_text_of_the_spec() {
        let pod = |spec: &str, requests: &str, allocated: &str| {
            pod(&format!(
                "container a | cpu={spec}; status a | cpu={allocated} | cpu={requests}"
            ))
            .usage()
        };
        assert_eq!(pod("+5", "5", "5"), "requests.cpu=+5");
        assert_eq!(pod("5", "+5", "05"), "requests.cpu=5");
        assert_eq!(pod("1", "+5", "05"), "requests.cpu=+5");
    }

    /// What admission saw of the growth is what the spec says, never what only the status does.
    #[test]
    fn usage_by_spec() {
        let sized = || pod("container a | cpu=2 | cpu=2");
        let table = [
            (sized(), None),
            (sized().and("status a | cpu=2 | cpu=2 | cpu=2"), None),
            (sized().and("status a | cpu=1 | cpu=1 | cpu=1"), None),
            (sized().and("status a | cpu=3"), Some("2")),
            (sized().and("infeasible"), Some("2")),
            (sized().and("infeasible; status a | cpu=2 | cpu=2 | cpu=2"), None),
        ];
        for (pod, expected) in table {
            let charge = pod.charge();
            let by_spec = charge
                .spec_usage
                .as_ref()
                .map(|usage| usage.get("requests.cpu").unwrap().to_string());
            assert_eq!(by_spec.as_deref(), expected, "{}", pod.0);
            assert_eq!(charge.spec_usage().get("limits.cpu").unwrap().to_string(), "2");
        }
    }

    #[test]
    fn quality_of_service() {
        let table = [
            (pod(""), true),
            (pod("container a"), true),
            (pod("container a | cpu=0 memory=0 | cpu=0m"), true),
            (
                pod("container a | ephemeral-storage=1 example.com/gpu=1 | hugepages-2Mi=2Mi"),
                true,
            ),
            (pod("container a | cpu=1n"), false),
            (pod("container a | | memory=1"), false),
            (pod("container a; container b | memory=1"), false),
            (pod("container a; init i | cpu=1"), false),
            (pod("container a | cpu=1 memory=1 | cpu=1 memory=1"), false),
            // With a supported resource of the whole pod only those count.
            (pod("whole | cpu=1"), false),
            (pod("whole | | memory=1; container a"), false),
            (pod("whole | cpu=0; container a | cpu=1"), true),
            (pod("whole | hugepages-2Mi=2Mi; container a | cpu=1"), true),
            (pod("whole | ephemeral-storage=1; container a | cpu=1"), false),
            (pod("whole; container a | cpu=1"), false),
            (pod("").spec("resources", json!(null)).and("container a | cpu=1"), false),
            // The class in the status is believed.
            (
                pod("")
                    .status("qosClass", json!("BestEffort"))
                    .and("container a | cpu=1"),
                true,
            ),
            (pod("").status("qosClass", json!("Burstable")), false),
            (pod("").status("qosClass", json!("Guaranteed")), false),
            (pod("").status("qosClass", json!("")), true),
            (pod("").status("qosClass", json!(null)), true),
            // Overhead and statuses don't matter.
            (
                pod("container a; overhead | cpu=1; status a | cpu=1 | cpu=1 | cpu=1"),
                true,
            ),
        ];
        for (pod, expected) in table {
            assert_eq!(pod.facts().best_effort, expected, "{}", pod.0);
        }
    }

    #[test]
    fn deadlines_and_priority() {
        let deadlines = [
            (json!(null), false),
            (json!(0), true),
            (json!(30), true),
            (json!(-1), false),
        ];
        for (seconds, expected) in deadlines {
            assert_eq!(
                pod("")
                    .spec("activeDeadlineSeconds", seconds.clone())
                    .facts()
                    .terminating,
                expected,
                "{seconds}"
            );
        }
        for (class, expected) in [(json!(null), None), (json!(""), None), (json!("hi"), Some("hi"))] {
            assert_eq!(
                pod("")
                    .spec("priorityClassName", class.clone())
                    .facts()
                    .priority_class
                    .as_deref(),
                expected,
                "{class}"
            );
        }
        // The priority itself names no class.
        assert_eq!(pod("").spec("priority", json!(5)).facts().priority_class, None);
    }

    #[test]
    fn affinity_across_namespaces() {
        let terms = [
            (json!({}), false),
            (json!({"labelSelector": {}, "topologyKey": "zone"}), false),
            (json!({"namespaces": []}), false),
            (json!({"namespaces": null, "namespaceSelector": null}), false),
            (json!({"namespaces": ["a"]}), true),
            (json!({"namespaceSelector": {}}), true),
            (json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}), true),
            (json!({"namespaces": ["a"], "namespaceSelector": {}}), true),
        ];
        for (term, expected) in terms {
            for direction in ["podAffinity", "podAntiAffinity"] {
                let required = json!([{"topologyKey": "zone"}, term]);
                let preferred = json!([{"weight": 1, "podAffinityTerm": term}]);
                for (field, terms) in [
                    ("requiredDuringSchedulingIgnoredDuringExecution", required),
                    ("preferredDuringSchedulingIgnoredDuringExecution", preferred),
                ] {
                    let pod = pod("").spec("affinity", json!({direction: {field: terms}}));
                    assert_eq!(pod.facts().cross_namespace_affinity, expected, "{}", pod.0);
                }
            }
        }
        for none in [
            json!(null),
            json!({}),
            json!({"podAffinity": null, "podAntiAffinity": {}}),
            json!({"nodeAffinity": {"x": [{}]}}),
        ] {
            assert!(
                !pod("").spec("affinity", none.clone()).facts().cross_namespace_affinity,
                "{none}"
            );
        }
    }

    #[test]
    fn end_of_life() {
        let running = || pod("container a | cpu=1").spec("priorityClassName", json!("hi"));
        // Tests run at 12:00:00.
        let table = [
            (running(), true, None),
            (running().status("phase", json!("Pending")), true, None),
            (running().status("phase", json!("Unknown")), true, None),
            (running().status("phase", json!("Succeeded")), false, None),
            (running().status("phase", json!("Failed")), false, None),
            // Both the time and the grace must be there.
            (running().deleted("2020-01-01T00:00:00Z", None), true, None),
            (running().deleted("2026-06-01T11:59:29Z", Some(30)), false, None),
            // The moment itself is not yet past.
            (
                running().deleted("2026-06-01T11:59:30Z", Some(30)),
                true,
                Some("2026-06-01T12:00:00Z"),
            ),
            (
                running().deleted("2026-06-01T12:00:00Z", Some(0)),
                true,
                Some("2026-06-01T12:00:00Z"),
            ),
            (
                running().deleted("2026-06-01T14:00:00+02:00", Some(30)),
                true,
                Some("2026-06-01T12:00:30Z"),
            ),
            (running().deleted("2026-06-01T12:00:29Z", Some(-30)), false, None),
            (
                running()
                    .deleted("2026-06-01T12:00:00Z", Some(0))
                    .status("phase", json!("Failed")),
                false,
                None,
            ),
        ];
        for (pod, lives, until) in table {
            let Assessment { charge, later } = assess(&PodEvaluator::default(), &pod.0).unwrap();
            let expected = if lives {
                "count/pods=1,cpu=1,pods=1,requests.cpu=1"
            } else {
                "count/pods=1"
            };
            assert_eq!(charge.usage.to_string(), expected, "{}", pod.0);
            let ended = Charge {
                usage: [(COUNT, one())].into_iter().collect(),
                spec_usage: None,
                scopes: charge.scopes.clone(),
            };
            assert_eq!(later, until.map(|until| (until.parse().unwrap(), ended)), "{}", pod.0);
            assert_eq!(pod.facts().priority_class.as_deref(), Some("hi"));
        }
    }

    /// An absurd grace ends in a time far away, and the pod counts.
    #[test]
    fn absurd_grace() {
        let pod = pod("container a | cpu=1").deleted("2026-06-01T11:00:00Z", Some(i64::MAX));
        assert_eq!(pod.usage(), "requests.cpu=1");
        let (until, _) = assess(&PodEvaluator::default(), &pod.0).unwrap().later.unwrap();
        assert!(until > now() + jiff::SignedDuration::from_hours(24 * 365 * 1000));
    }

    #[test]
    fn constraint() {
        // What is required of which pod, and what is missing.
        let table = [
            "of container a; container b =>",
            "cpu of =>",
            "cpu requests.cpu limits.cpu of init dummy | cpu=1m | cpu=2m =>",
            "memory of init dummy | cpu=1m | cpu=2m => memory for: dummy",
            "memory of init foo | cpu=1m; init bar | cpu=1m => memory for: bar,foo",
            "memory of container dummy | cpu=1m | cpu=2m => memory for: dummy",
            "memory of container foo | cpu=1m; container bar | cpu=1m => memory for: bar,foo",
            "memory cpu of container foo; container bar => cpu for: bar,foo; memory for: bar,foo",
            "requests.cpu limits.memory of container a => limits.memory for: a; requests.cpu for: a",
            "cpu requests.memory of container a | cpu=1; init i | memory=1 => cpu for: i; requests.memory for: a",
            // A limit is no request; a zero is there.
            "requests.cpu limits.cpu of container a | | cpu=1 => requests.cpu for: a",
            "cpu of container a | cpu=0 =>",
            // Of one name once.
            "cpu of container a; container a; init a => cpu for: a",
            // Nothing else is mandatory.
            "pods storage ephemeral-storage requests.ephemeral-storage hugepages-2Mi requests.example.com/gpu of container a =>",
            // The pod as a whole says enough, whatever it says of what can be said there.
            "memory cpu of container a; whole | cpu=1m =>",
            "memory cpu of container a; whole | | hugepages-2Mi=1 =>",
            "cpu of container a; whole | ephemeral-storage=1 => cpu for: a",
            "cpu of container a; overhead | cpu=1 => cpu for: a",
        ];
        for row in table {
            let (required, rest) = row.split_once("of ").unwrap();
            let (parts, missing) = rest.split_once("=>").unwrap();
            let required: Vec<ResourceName> = required.split_whitespace().map(ResourceName::from).collect();
            let expected = match missing.trim() {
                "" => Ok(()),
                missing => Err(format!("must specify {missing}")),
            };
            assert_eq!(
                PodEvaluator::default().constraint(&pod(parts).view(), &required),
                expected,
                "{row}"
            );
        }
    }

    #[test]
    fn handles() {
        use Operation::{Create, Update};
        // Without objects that can be read an update can't be judged.
        check_handled(&PodEvaluator::default(), &[(Create, ""), (Update, "resize")]);
        assert_eq!(
            PodEvaluator::default().reviewed(),
            [(Create, ""), (Update, ""), (Update, "resize")]
        );

        let with = |deadline: Value| pod("").spec("activeDeadlineSeconds", deadline).charge();
        let (none, one, two, negative) = (with(json!(null)), with(json!(1)), with(json!(2)), with(json!(-1)));
        let table = [
            (&none, &none, false),
            (&none, &one, true),
            (&one, &none, true),
            (&one, &two, false),
            (&none, &negative, false),
            (&one, &negative, true),
        ];
        for (old, new, expected) in table {
            let update = |subresource| Request {
                operation: Update,
                subresource,
                new: Some(new),
                old: Some(old),
            };
            assert_eq!(
                PodEvaluator::default().handles(&update("")),
                expected,
                "{old:?} to {new:?}"
            );
            assert!(!PodEvaluator::default().handles(&update("status")));
            let unreadable = Request {
                old: None,
                ..update("")
            };
            assert!(!PodEvaluator::default().handles(&unreadable));
        }
    }

    #[test]
    fn absent_and_null_fields() {
        let nothing = [
            json!({}),
            json!({"metadata": null, "spec": null, "status": null}),
            json!({"spec": {"containers": null, "initContainers": null, "resources": null, "affinity": null}}),
            json!({"spec": {"containers": [{}, {"name": null, "resources": {"requests": null, "limits": null}}]}}),
            json!({"status": {"conditions": null, "containerStatuses": null, "initContainerStatuses": null, "phase": null}}),
            json!({"status": {"containerStatuses": [{"resources": null, "allocatedResources": null}], "conditions": [{"type": null}]}}),
        ];
        for json in nothing {
            let pod = Pod(json);
            assert_eq!(pod.usage(), "", "{}", pod.0);
            assert_eq!(
                pod.facts(),
                PodFacts {
                    best_effort: true,
                    ..PodFacts::default()
                },
                "{}",
                pod.0
            );
        }
        // A value of null is a zero that is there; a map of null is none.
        assert_eq!(
            Pod(json!({"spec": {"containers": [{"resources": {"requests": {"cpu": null}}}]}})).usage(),
            "requests.cpu=0"
        );
        let null_maps =
            json!([{"name": "a", "allocatedResources": null, "resources": {"requests": null, "limits": null}}]);
        let pod = pod("container a | cpu=1 | cpu=1").status("containerStatuses", null_maps);
        assert_eq!(pod.usage(), "limits.cpu=1,requests.cpu=1");
    }

    #[test]
    fn extended_resource_claims() {
        let table = [
            (json!(null), None),
            (json!({"resourceClaimName": "c", "requestMappings": []}), Some("c")),
            (json!({}), Some("")),
        ];
        for (status, expected) in table {
            let View::Pod(view) = pod("").status("extendedResourceClaimStatus", status.clone()).view() else {
                panic!("no pod")
            };
            assert_eq!(view.extended_resource_claim(), expected, "{status}");
        }
    }

    #[test]
    fn bad_values_are_named() {
        let bad = || json!({"cpu": "1Kx"});
        let container = |resources: Value| json!([{"name": "x"}, {"name": "a", "resources": resources}]);
        let table = [
            (
                pod("").spec("containers", container(json!({"requests": bad()}))),
                "spec.containers[1].resources.requests[cpu]: ",
            ),
            (
                pod("").spec("initContainers", container(json!({"limits": bad()}))),
                "spec.initContainers[1].resources.limits[cpu]: ",
            ),
            (
                pod("").spec("containers", container(json!({"requests": {"foo": true}}))),
                "spec.containers[1].resources.requests[foo]: a boolean is no quantity",
            ),
            (
                pod("").spec("resources", json!({"requests": bad()})),
                "spec.resources.requests[cpu]: ",
            ),
            (
                pod("").spec("resources", json!({"limits": {"foo": "?"}})),
                "spec.resources.limits[foo]: ",
            ),
            (pod("").spec("overhead", bad()), "spec.overhead[cpu]: "),
            (
                pod("container a; status a | cpu=?"),
                "status.containerStatuses[a].allocatedResources[cpu]: ",
            ),
            (
                pod("container a; status a | | cpu=?"),
                "status.containerStatuses[a].resources.requests[cpu]: ",
            ),
            (
                pod("container a; status a | |  | cpu=?"),
                "status.containerStatuses[a].resources.limits[cpu]: ",
            ),
            (pod("").deleted("yesterday", Some(1)), "metadata.deletionTimestamp: "),
            (
                pod("").spec("containers", json!("x")),
                "object: invalid type: string \"x\", expected a sequence",
            ),
            (
                pod("").spec("activeDeadlineSeconds", json!("5")),
                "object: invalid type: string \"5\", expected i64",
            ),
        ];
        for (pod, expected) in table {
            let problem = problem(&PodEvaluator::default(), &pod.0);
            assert!(problem.starts_with(expected), "{}: {problem}", pod.0);
        }
        // What the charge does not depend on may be anything.
        assert_eq!(pod("status no container | cpu=?").spec("volumes", json!(5)).usage(), "");
    }

    #[test]
    fn another_kind() {
        let context = Context {
            now: now(),
            lookups: &NoLookups,
        };
        let error = PodEvaluator::default()
            .assess(&Metadata::default(), &View::Counted, &context)
            .unwrap_err();
        assert_eq!(error.to_string(), "kind: this object was not read as a pod");
        assert_eq!(
            PodEvaluator::default().constraint(&View::Counted, &[ResourceName::from("cpu")]),
            Ok(())
        );
    }
}
