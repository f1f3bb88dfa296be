//! What a configuration reaches: the requests and namespaces that are reviewed, and whom callers trust. Pure.
//!
//! It is worked out as a set of [`Part`]s, so that what is needed can be compared and joined with what there is. Too much in it
//! costs a call now and then; too little lets something through.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations, ValidatingWebhook};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kubequota_cluster::{Discovery, QuotaCache, Served};
use kubequota_core::decision::LimitedResources;
use kubequota_core::evaluator::{GroupResource, Lookups, Operation};
use kubequota_core::evaluators::ViewKind;
use kubequota_core::registry::{KindId, Registry};
use kubequota_core::{Metadata, Quota, ResourceList, ResourceName};

use super::address::Address;
use crate::certificates;
use crate::handler::{PATH, PROBE_PATH};

/// The webhook that refuses.
pub const WEBHOOK: &str = "quota.kubequota.dev";

/// The webhook that is told of the status of claims. It never refuses one for its size, so it is not waited for where it is away.
pub const CLAIM_STATUS_WEBHOOK: &str = "claim-status.quota.kubequota.dev";

/// The webhook that nothing meets but kubequota's own probes, dry runs in its own namespace. Its path has a number, which changes with
/// every change of the others: who has reached it has seen that the API server follows all of them.
pub const PROBE_WEBHOOK: &str = "probe.quota.kubequota.dev";

/// The label of probes.
pub(super) const PROBE_LABEL: &str = "quota.kubequota.dev/probe";

/// How long a probe may take.
const PROBE_SECONDS: i32 = 2;

/// Every namespace has its name under this label.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// With more namespaces than this all but kubequota's own are reached: each stands there twice, and an object has to fit into
/// etcd (1.5 MiB).
const MOST_NAMESPACES: usize = 10_000;

/// The version at which fields are read where discovery does not say better: all servers that are supported have it.
const USUAL_VERSION: &str = "v1";

/// Updates of pods are charged where they change whether the pod has a deadline (`Handles` of upstream's pod evaluator). All others,
/// as when a job lets go of its pods, can pass even where nobody reviews.
const POD_UPDATES: (&str, &str) = (
    "pod-updates-that-change-the-deadline",
    "request.operation != 'UPDATE' || request.resource.group != '' || request.resource.resource != 'pods' || \
     (has(request.subResource) && request.subResource != '') || \
     has(object.spec.activeDeadlineSeconds) != has(oldObject.spec.activeDeadlineSeconds) || \
     (has(object.spec.activeDeadlineSeconds) && \
     object.spec.activeDeadlineSeconds != oldObject.spec.activeDeadlineSeconds)",
);

/// Something that a configuration reaches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// All namespaces but kubequota's own.
    EveryNamespace,
    /// A namespace.
    Namespace(String),
    /// Requests.
    Request {
        /// Their API group.
        group: String,
        /// What they are made on, with the subresource: `pods/resize`.
        resource: String,
        /// As rules have it: `CREATE`.
        operation: String,
    },
    /// A CA that callers trust, PEM.
    Authority(String),
}

impl Part {
    /// Whether it is part of what is reached.
    pub(super) fn is_in(&self, reach: &Reach) -> bool {
        let is_everywhere = matches!(self, Part::Namespace(_)) && reach.contains(&Part::EveryNamespace);
        is_everywhere || reach.contains(self)
    }
}

/// All of it.
pub(super) type Reach = BTreeSet<Part>;

/// What quotas limit, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) namespaces: BTreeSet<String>,
    /// Of `spec.hard`, which will be in force in a moment, and of `status.hard`, which is.
    pub(super) names: BTreeSet<ResourceName>,
}

impl Limited {
    pub(super) fn by(quotas: &QuotaCache) -> Self {
        let mut limited = Limited::default();
        quotas.for_each(|quota| limited.add(quota));
        limited
    }

    /// By this quota alone.
    pub(super) fn of(quota: &Quota) -> Self {
        let mut limited = Limited::default();
        limited.add(quota);
        limited
    }

    fn add(&mut self, quota: &Quota) {
        if !self.namespaces.contains(&*quota.key.namespace) {
            self.namespaces.insert(quota.key.namespace.to_string());
        }
        let in_force = quota.status.hard.iter().flat_map(ResourceList::names);
        for name in quota.spec.hard.names().chain(in_force) {
            if !self.names.contains(name) {
                self.names.insert(name.clone());
            }
        }
        self.names.extend(quota.unreadable_limits());
    }

    /// What has to be reviewed because of quotas, and of what may only be used under one.
    pub(super) fn reach(&self, by_file: &LimitedResources, versions: &VersionsRead, own_namespace: &str) -> Reach {
        let mut reach = Reach::new();
        let (registry, kinds) = kinds(&self.names, by_file);
        for kind in kinds {
            let evaluator = registry.evaluator(kind);
            let GroupResource { group, resource } = evaluator.group_resource();
            if !versions.may_be_served(evaluator.group_resource()) {
                continue;
            }
            for (operation, subresource) in evaluator.reviewed() {
                let separator = if subresource.is_empty() { "" } else { "/" };
                reach.insert(Part::Request {
                    group: group.to_string(),
                    resource: format!("{resource}{separator}{subresource}"),
                    operation: name_of(*operation).to_owned(),
                });
            }
        }
        if !by_file.is_empty() || self.namespaces.len() > MOST_NAMESPACES {
            reach.insert(Part::EveryNamespace);
        } else {
            let others = self.namespaces.iter().filter(|name| *name != own_namespace);
            reach.extend(others.cloned().map(Part::Namespace));
        }
        reach
    }
}

/// The kinds whose objects count under one of the names, or that the file limits.
fn kinds(names: &BTreeSet<ResourceName>, by_file: &LimitedResources) -> (Registry, BTreeSet<KindId>) {
    let mut registry = Registry::standard();
    // A kind is reviewed whether it is served by now or not: nothing of it can then come before its rule.
    let counted = names
        .iter()
        .filter_map(|name| GroupResource::counted_under(name.as_str()));
    for kind in counted.filter(can_be_named) {
        registry.ensure(&kind);
    }
    let mut kinds: BTreeSet<KindId> = registry
        .feed(names, &EveryDeviceClass, |_| true)
        .kinds()
        .iter()
        .copied()
        .collect();
    for entry in by_file.entries() {
        let by_name = Some(entry.kind.clone()).filter(|kind| !entry.match_contains.is_empty() && can_be_named(kind));
        // The scopes of an entry hold for objects of every kind.
        let by_scope = entry
            .match_scopes
            .iter()
            .filter_map(|requirement| requirement.scope.kind());
        kinds.extend(
            by_name
                .into_iter()
                .chain(by_scope)
                .filter_map(|kind| registry.ensure(&kind)),
        );
    }
    (registry, kinds)
}

/// Whether a rule can name the kind and mean only that.
fn can_be_named(kind: &GroupResource) -> bool {
    !kind.resource.is_empty() && !kind.resource.contains(['*', '/']) && !kind.group.contains(['*', '/'])
}

/// Whichever device classes there are: with the next one a name may count that did not before.
struct EveryDeviceClass;

impl Lookups for EveryDeviceClass {
    fn has_device_class(&self, _: &str) -> bool {
        true
    }

    fn extended_resource(&self, _: &str) -> Option<&str> {
        None
    }

    fn is_extended_resource(&self, _: &str) -> bool {
        true
    }

    fn owner_usage(&self, _: &Metadata) -> Option<&ResourceList> {
        None
    }
}

fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// The versions at which the objects of those kinds are reviewed whose fields are read: requests of other versions are converted to
/// it. Of all other kinds any version will do, and no conversion is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VersionsRead(BTreeMap<GroupResource, Option<String>>);

impl VersionsRead {
    /// As the server prefers them; `None` before it has said.
    pub(super) fn of(discovery: Option<&Discovery>) -> Self {
        let registry = Registry::standard();
        let read = registry
            .iter()
            .map(|(_, evaluator)| evaluator)
            .filter(|evaluator| evaluator.view_kind() != ViewKind::Counted);
        let version = |kind: &GroupResource| match discovery.map(|found| found.served(kind)) {
            Some(Served::At(versions)) => Some(versions.preferred.version.to_string()),
            Some(Served::Not) => None,
            Some(Served::Unknown(_)) | None => Some(USUAL_VERSION.to_owned()),
        };
        VersionsRead(
            read.map(|evaluator| {
                let kind = evaluator.group_resource();
                (kind.clone(), version(kind))
            })
            .collect(),
        )
    }

    fn may_be_served(&self, kind: &GroupResource) -> bool {
        self.0.get(kind).is_none_or(Option::is_some)
    }

    fn version(&self, kind: &GroupResource) -> &str {
        match self.0.get(kind) {
            Some(version) => version.as_deref().unwrap_or(USUAL_VERSION),
            None => "*",
        }
    }
}

/// All of the webhooks that is not reach.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) address: &'a Address,
    pub(super) own_namespace: &'a str,
    pub(super) versions: &'a VersionsRead,
    /// Which rules these are.
    pub(super) number: u64,
}

impl Frame<'_> {
    /// The webhooks that reach this, the last one for probes; that one alone where they would reach nothing. Every field that a server
    /// would fill in is set, so that what is stored is the same.
    pub(super) fn webhooks(&self, reach: &Reach) -> Vec<ValidatingWebhook> {
        let mut webhooks = self.reviews(reach);
        webhooks.push(self.probe());
        for webhook in &mut webhooks {
            webhook.client_config.ca_bundle = bundle(reach);
        }
        webhooks
    }

    fn reviews(&self, reach: &Reach) -> Vec<ValidatingWebhook> {
        let Some(selector) = self.selector(reach) else {
            return Vec::new();
        };
        let is_status = |resource: &str| resource.ends_with("/status");
        let refusing = self.webhook(
            WEBHOOK,
            "Fail",
            &selector,
            self.rules(reach, |resource| !is_status(resource)),
        );
        let mut webhooks: Vec<ValidatingWebhook> = refusing.into_iter().collect();
        for webhook in &mut webhooks {
            let (name, expression) = POD_UPDATES;
            webhook.match_conditions = Some(vec![MatchCondition {
                name: name.to_owned(),
                expression: expression.to_owned(),
            }]);
        }
        webhooks.extend(self.webhook(CLAIM_STATUS_WEBHOOK, "Ignore", &selector, self.rules(reach, is_status)));
        webhooks
    }

    fn probe(&self) -> ValidatingWebhook {
        let own = in_namespaces("In", vec![self.own_namespace.to_owned()]);
        let rule = RuleWithOperations {
            api_groups: Some(vec![String::new()]),
            api_versions: Some(vec!["v1".to_owned()]),
            operations: Some(vec![name_of(Operation::Create).to_owned()]),
            resources: Some(vec!["configmaps".to_owned()]),
            scope: Some("Namespaced".to_owned()),
        };
        ValidatingWebhook {
            client_config: self.address.client_config(&format!("{PROBE_PATH}{}", self.number)),
            failure_policy: Some("Ignore".to_owned()),
            object_selector: Some(LabelSelector {
                match_expressions: None,
                match_labels: Some([(PROBE_LABEL.to_owned(), "true".to_owned())].into()),
            }),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(PROBE_SECONDS),
            ..self.review(PROBE_WEBHOOK, own, vec![rule])
        }
    }

    fn webhook(
        &self,
        name: &str,
        failure_policy: &str,
        selector: &LabelSelector,
        rules: Vec<RuleWithOperations>,
    ) -> Option<ValidatingWebhook> {
        (!rules.is_empty()).then(|| ValidatingWebhook {
            failure_policy: Some(failure_policy.to_owned()),
            ..self.review(name, selector.clone(), rules)
        })
    }

    fn review(&self, name: &str, selector: LabelSelector, rules: Vec<RuleWithOperations>) -> ValidatingWebhook {
        ValidatingWebhook {
            name: name.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: self.address.client_config(PATH),
            failure_policy: Some("Fail".to_owned()),
            match_conditions: None,
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(selector),
            object_selector: Some(LabelSelector::default()),
            rules: Some(rules),
            side_effects: "NoneOnDryRun".to_owned(),
            timeout_seconds: Some(10),
        }
    }

    fn selector(&self, reach: &Reach) -> Option<LabelSelector> {
        let namespaces = reach.iter().filter_map(|part| match part {
            Part::Namespace(name) if name != self.own_namespace => Some(name.clone()),
            _ => None,
        });
        let (operator, values) = if reach.contains(&Part::EveryNamespace) {
            ("NotIn", vec![self.own_namespace.to_owned()])
        } else {
            ("In", namespaces.collect())
        };
        (!values.is_empty()).then(|| in_namespaces(operator, values))
    }

    /// One rule for each group, version and set of operations.
    fn rules(&self, reach: &Reach, takes: impl Fn(&str) -> bool) -> Vec<RuleWithOperations> {
        let mut operations: BTreeMap<(&String, &String), Vec<String>> = BTreeMap::new();
        for part in reach {
            if let Part::Request {
                group,
                resource,
                operation,
            } = part
                && takes(resource)
            {
                operations.entry((group, resource)).or_default().push(operation.clone());
            }
        }
        let mut rules: BTreeMap<(&String, &str, Vec<String>), Vec<String>> = BTreeMap::new();
        for ((group, resource), operations) in operations {
            let kind = GroupResource::new(group, resource.split('/').next().unwrap_or_default());
            let rule = rules
                .entry((group, self.versions.version(&kind), operations))
                .or_default();
            rule.push(resource.clone());
        }
        let rule = |((group, version, operations), resources): ((&String, &str, _), _)| RuleWithOperations {
            api_groups: Some(vec![group.clone()]),
            api_versions: Some(vec![version.to_owned()]),
            operations: Some(operations),
            resources: Some(resources),
            scope: Some("Namespaced".to_owned()),
        };
        rules.into_iter().map(rule).collect()
    }
}

fn in_namespaces(operator: &str, names: Vec<String>) -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: NAMESPACE_LABEL.to_owned(),
            operator: operator.to_owned(),
            values: Some(names),
        }]),
        match_labels: None,
    }
}

fn bundle(reach: &Reach) -> Option<ByteString> {
    let authorities = reach.iter().filter_map(|part| match part {
        Part::Authority(pem) => Some(pem.as_str()),
        _ => None,
    });
    let pem: String = authorities.collect();
    (!pem.is_empty()).then(|| ByteString(pem.into_bytes()))
}

/// The number of these rules; zero where they have none.
pub(super) fn number_of(webhooks: &[ValidatingWebhook]) -> u64 {
    let probe = webhooks.iter().find(|webhook| webhook.name == PROBE_WEBHOOK);
    let config = probe.map(|probe| &probe.client_config);
    let url = config.and_then(|config| config.url.as_ref());
    let path = config.and_then(|config| config.service.as_ref()?.path.as_ref());
    let text = url.or(path).and_then(|text| text.rsplit('/').next());
    text.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// The CAs of a PEM text.
pub(super) fn authorities(pem: &str) -> impl Iterator<Item = Part> {
    certificates::sections(pem).into_iter().map(Part::Authority)
}

/// What webhooks reach.
pub(super) fn reach_of(webhooks: &[ValidatingWebhook]) -> Reach {
    let mut reach = Reach::new();
    for webhook in webhooks {
        if let Some(ByteString(pem)) = &webhook.client_config.ca_bundle {
            reach.extend(authorities(&String::from_utf8_lossy(pem)));
        }
    }
    for webhook in webhooks.iter().filter(|webhook| webhook.name != PROBE_WEBHOOK) {
        let selector = webhook.namespace_selector.as_ref();
        let requirements = selector.and_then(|selector| selector.match_expressions.as_deref());
        match requirements.and_then(|all| all.iter().find(|one| one.key == NAMESPACE_LABEL)) {
            Some(requirement) if requirement.operator == "In" => {
                let names = requirement.values.iter().flatten().cloned();
                reach.extend(names.map(Part::Namespace));
            }
            _ => {
                reach.insert(Part::EveryNamespace);
            }
        }
        for rule in webhook.rules.iter().flatten() {
            for (group, resource, operation) in combinations(rule) {
                reach.insert(Part::Request {
                    group: group.clone(),
                    resource: resource.clone(),
                    operation: operation.clone(),
                });
            }
        }
    }
    reach
}

fn combinations(rule: &RuleWithOperations) -> impl Iterator<Item = (&String, &String, &String)> {
    let groups = rule.api_groups.iter().flatten();
    groups.flat_map(move |group| {
        let resources = rule.resources.iter().flatten();
        resources.flat_map(move |resource| {
            let operations = rule.operations.iter().flatten();
            operations.map(move |operation| (group, resource, operation))
        })
    })
}

#[cfg(test)]
mod tests;
