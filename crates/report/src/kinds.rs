//! Which resource a kind is: the built-in kinds by a table, custom ones by their definitions, others by Kubernetes' usual plural.

use std::collections::HashMap;
use std::str::FromStr;

use kubequota_core::GroupResource;
use serde::Deserialize;

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Scope {
    /// In namespaces: quotas may count them.
    Namespaced,
    /// In none: no quota sees them.
    Cluster,
}

/// A kind of which a resource name is known or guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its resource.
    pub resource: GroupResource,
    /// Where its objects live; `None` where nothing says so.
    pub scope: Option<Scope>,
}

/// The stored kinds of Kubernetes v1.37 (group, kind, resource) that live in namespaces and are served unless somebody turns them off.
const NAMESPACED: [(&str, &str, &str); 32] = [
    ("", "ConfigMap", "configmaps"),
    ("", "Endpoints", "endpoints"),
    ("", "Event", "events"),
    ("", "LimitRange", "limitranges"),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "Pod", "pods"),
    ("", "PodTemplate", "podtemplates"),
    ("", "ReplicationController", "replicationcontrollers"),
    ("", "ResourceQuota", "resourcequotas"),
    ("", "Secret", "secrets"),
    ("", "Service", "services"),
    ("", "ServiceAccount", "serviceaccounts"),
    ("apps", "ControllerRevision", "controllerrevisions"),
    ("apps", "DaemonSet", "daemonsets"),
    ("apps", "Deployment", "deployments"),
    ("apps", "ReplicaSet", "replicasets"),
    ("apps", "StatefulSet", "statefulsets"),
    ("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ("batch", "CronJob", "cronjobs"),
    ("batch", "Job", "jobs"),
    ("certificates.k8s.io", "PodCertificateRequest", "podcertificaterequests"),
    ("coordination.k8s.io", "Lease", "leases"),
    ("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    ("events.k8s.io", "Event", "events"),
    ("networking.k8s.io", "Ingress", "ingresses"),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies"),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "Role", "roles"),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
    ("resource.k8s.io", "ResourceClaim", "resourceclaims"),
    ("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates"),
    ("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities"),
];

/// Namespaced kinds of alpha and beta versions, which are served only where somebody turns them on.
const OPTIONAL: [(&str, &str, &str); 6] = [
    ("coordination.k8s.io", "LeaseCandidate", "leasecandidates"),
    ("lifecycle.k8s.io", "Eviction", "evictions"),
    ("lifecycle.k8s.io", "EvictionRequest", "evictionrequests"),
    ("scheduling.k8s.io", "CompositePodGroup", "compositepodgroups"),
    ("scheduling.k8s.io", "PodGroup", "podgroups"),
    ("scheduling.k8s.io", "Workload", "workloads"),
];

/// Kinds outside of namespaces. Their resources have the usual plural.
const CLUSTER: [(&str, &[&str]); 16] = [
    ("", &["ComponentStatus", "Namespace", "Node", "PersistentVolume"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("authentication.k8s.io", &["SelfSubjectReview", "TokenReview"]),
    (
        "authorization.k8s.io",
        &[
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    ),
    (
        "certificates.k8s.io",
        &["CertificateSigningRequest", "ClusterTrustBundle"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    ("internal.apiserver.k8s.io", &["StorageVersion"]),
    ("networking.k8s.io", &["IPAddress", "IngressClass", "ServiceCIDR"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    (
        "resource.k8s.io",
        &[
            "DeviceClass",
            "DeviceTaintRule",
            "ResourcePoolStatusRequest",
            "ResourceSlice",
        ],
    ),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
];

/// The resources that every cluster of this version serves in namespaces, so that none of their objects means 0.
pub fn served() -> impl Iterator<Item = GroupResource> {
    NAMESPACED
        .iter()
        .map(|(group, _, resource)| GroupResource::new(group, resource))
}

/// A kind of Kubernetes' own.
#[must_use]
pub fn built_in(group: &str, kind: &str) -> Option<Kind> {
    let namespaced = NAMESPACED
        .iter()
        .chain(&OPTIONAL)
        .find(|(own, name, _)| *own == group && *name == kind);
    if let Some((group, _, resource)) = namespaced {
        return Some(Kind {
            resource: GroupResource::new(group, resource),
            scope: Some(Scope::Namespaced),
        });
    }
    let in_cluster = CLUSTER
        .iter()
        .any(|(own, kinds)| *own == group && kinds.contains(&kind));
    in_cluster.then(|| Kind {
        resource: GroupResource::new(group, &guess_plural(kind)),
        scope: Some(Scope::Cluster),
    })
}

/// The usual plural of a kind, as `meta.UnsafeGuessKindToResource` of k8s.io/apimachinery has it.
#[must_use]
pub fn guess_plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    if singular.is_empty() || singular.ends_with("endpoints") {
        singular
    } else if singular.ends_with('s') {
        format!("{singular}es")
    } else if let Some(stem) = singular.strip_suffix('y') {
        format!("{stem}ies")
    } else {
        format!("{singular}s")
    }
}

/// What somebody says is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// A kind, whose resource a definition may still tell.
    Kind {
        /// Its group.
        group: String,
        /// Its name.
        kind: String,
    },
    /// A resource.
    Resource(GroupResource),
}

/// What is neither `KIND.GROUP` nor `RESOURCE.GROUP`, nor the plain name of something built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no kind: write it as KIND.GROUP or RESOURCE.GROUP, such as Widget.example.com (only built-in kinds go without a group)"
)]
pub struct NoKind;

/// Kinds begin with a capital.
impl FromStr for Served {
    type Err = NoKind;

    fn from_str(text: &str) -> Result<Self, NoKind> {
        let is_label =
            |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !text.split('.').all(is_label) {
            return Err(NoKind);
        }
        match text.split_once('.') {
            None => plain(text).map(Served::Resource).ok_or(NoKind),
            Some((kind, group)) if kind.starts_with(|first: char| first.is_uppercase()) => Ok(Served::Kind {
                group: group.to_owned(),
                kind: kind.to_owned(),
            }),
            Some((resource, group)) => Ok(Served::Resource(GroupResource::new(group, resource))),
        }
    }
}

/// The built-in resource of this name, or of a kind of this name, in whatever group; as with kubectl the core group's goes first.
fn plain(name: &str) -> Option<GroupResource> {
    let namespaced = NAMESPACED
        .iter()
        .chain(&OPTIONAL)
        .map(|(group, kind, _)| (*group, *kind));
    let in_cluster = CLUSTER
        .iter()
        .flat_map(|(group, kinds)| kinds.iter().map(move |kind| (*group, *kind)));
    namespaced
        .chain(in_cluster)
        .map(|(group, kind)| (kind, GroupResource::new(group, &guess_plural(kind))))
        .find(|(kind, resource)| kind.eq_ignore_ascii_case(name) || &*resource.resource == name)
        .map(|(_, resource)| resource)
}

/// What quota needs of a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DefinitionView {
    spec: DefinitionSpec,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct DefinitionSpec {
    group: String,
    names: DefinitionNames,
    scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct DefinitionNames {
    kind: String,
    plural: String,
}

/// The kinds that definitions among the objects tell of, and those of Kubernetes itself.
#[derive(Clone, Debug, Default)]
pub struct Kinds(HashMap<(String, String), Kind>);

impl Kinds {
    /// Takes a definition in.
    pub fn define(&mut self, definition: DefinitionView) {
        let DefinitionSpec {
            group,
            names: DefinitionNames { kind, plural },
            scope,
        } = definition.spec;
        let defined = Kind {
            resource: GroupResource::new(&group, &plural),
            scope: Some(scope),
        };
        self.0.insert((group, kind), defined);
    }

    /// The resource of a kind: known, or guessed.
    #[must_use]
    pub fn get(&self, group: &str, kind: &str) -> Kind {
        let defined = || self.0.get(&(group.to_owned(), kind.to_owned())).cloned();
        let guessed = || Kind {
            resource: GroupResource::new(group, &guess_plural(kind)),
            scope: None,
        };
        built_in(group, kind).or_else(defined).unwrap_or_else(guessed)
    }

    /// The resource that is served.
    #[must_use]
    pub fn resource(&self, served: &Served) -> GroupResource {
        match served {
            Served::Kind { group, kind } => self.get(group, kind).resource,
            Served::Resource(resource) => resource.clone(),
        }
    }

    /// The namespaced resources that have been defined.
    pub fn defined(&self) -> impl Iterator<Item = &GroupResource> {
        self.0
            .values()
            .filter(|kind| kind.scope == Some(Scope::Namespaced))
            .map(|kind| &kind.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals() {
        let table = [
            ("Widget", "widgets"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gatewaies"), // sic
            ("Endpoints", "endpoints"),
            ("", ""),
        ];
        for (kind, plural) in table {
            assert_eq!(guess_plural(kind), plural);
        }
    }

    #[test]
    fn built_in_kinds() {
        let table = [
            ("", "Pod", Some(("pods", Scope::Namespaced))),
            ("apps", "Deployment", Some(("deployments.apps", Scope::Namespaced))),
            (
                "resource.k8s.io",
                "ResourceClaim",
                Some(("resourceclaims.resource.k8s.io", Scope::Namespaced)),
            ),
            (
                "scheduling.k8s.io",
                "Workload",
                Some(("workloads.scheduling.k8s.io", Scope::Namespaced)),
            ),
            ("", "Node", Some(("nodes", Scope::Cluster))),
            (
                "storage.k8s.io",
                "StorageClass",
                Some(("storageclasses.storage.k8s.io", Scope::Cluster)),
            ),
            (
                "networking.k8s.io",
                "IPAddress",
                Some(("ipaddresses.networking.k8s.io", Scope::Cluster)),
            ),
            ("extensions", "Deployment", None),
            ("example.com", "Widget", None),
        ];
        for (group, kind, expected) in table {
            let found = built_in(group, kind).map(|kind| (kind.resource.to_string(), kind.scope));
            assert_eq!(
                found,
                expected.map(|(resource, scope)| (resource.to_owned(), Some(scope))),
                "{group}/{kind}"
            );
        }
        for (_, kind, resource) in NAMESPACED.iter().chain(&OPTIONAL) {
            assert_eq!(
                guess_plural(kind),
                *resource,
                "a typo: all built-in plurals are the usual ones"
            );
        }
        assert_eq!(served().count(), 32);
    }

    #[test]
    fn custom_kinds() {
        let mut kinds = Kinds::default();
        let define = |kind: &str, plural: &str, scope: Scope| DefinitionView {
            spec: DefinitionSpec {
                group: "example.com".to_owned(),
                names: DefinitionNames {
                    kind: kind.to_owned(),
                    plural: plural.to_owned(),
                },
                scope,
            },
        };
        kinds.define(define("Foot", "feet", Scope::Namespaced));
        kinds.define(define("World", "worlds", Scope::Cluster));
        let foot = Kind {
            resource: GroupResource::new("example.com", "feet"),
            scope: Some(Scope::Namespaced),
        };
        assert_eq!(kinds.get("example.com", "Foot"), foot);
        assert_eq!(kinds.get("example.com", "World").scope, Some(Scope::Cluster));
        assert_eq!(
            kinds.get("example.com", "Hand"),
            Kind {
                resource: GroupResource::new("example.com", "hands"),
                scope: None
            }
        );
        assert_eq!(
            kinds.defined().map(ToString::to_string).collect::<Vec<_>>(),
            ["feet.example.com"]
        );
        let table = [
            ("Foot.example.com", "feet.example.com"),
            ("feet.example.com", "feet.example.com"),
            ("Hand.example.com", "hands.example.com"),
            ("CronJob.batch", "cronjobs.batch"),
            ("cronjobs.batch", "cronjobs.batch"),
            ("Pod", "pods"),
            ("pod", "pods"),
            ("pods", "pods"),
            ("events", "events"),
            ("CronJob", "cronjobs.batch"),
            ("workloads", "workloads.scheduling.k8s.io"),
            ("Node", "nodes"),
            ("nodes", "nodes"),
        ];
        for (text, expected) in table {
            let served = text.parse().unwrap();
            assert_eq!(kinds.resource(&served).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn served_without_a_kind() {
        for text in [
            "",
            ".",
            "foo",
            "Foo",
            "foo.",
            "Foo.",
            ".x.io",
            "Foo..io",
            " ",
            "Pod ",
            "Foo.x.io,Bar.x.io",
        ] {
            assert_eq!(text.parse::<Served>(), Err(NoKind), "{text:?}");
        }
    }
}
