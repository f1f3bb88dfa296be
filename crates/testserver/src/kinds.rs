//! The kinds that the server serves: the built-in ones that quotas can name, and those that tests add.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

const ALL_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// All verbs in the order in which custom kinds list them.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// A resource without its version, which is how objects are stored: `pods`, `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The API group, empty for the core group.
    pub group: String,
    /// The plural name.
    pub plural: String,
}

impl GroupResource {
    /// A resource of a group.
    pub fn new(group: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
        }
    }

    /// Reads `pods` or `deployments.apps`.
    pub fn parse(text: &str) -> Self {
        let (plural, group) = text.split_once('.').unwrap_or((text, ""));
        Self::new(group, plural)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// A kind of object and how it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The API group, empty for the core group.
    pub group: String,
    /// Its name, `Pod`.
    pub kind: String,
    /// The name of its lists, `PodList`.
    pub list_kind: String,
    /// `pods`.
    pub plural: String,
    /// `pod`.
    pub singular: String,
    /// `po`.
    pub short_names: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The served versions, the preferred one first.
    pub versions: Vec<String>,
    /// What may be done with it.
    pub verbs: Vec<String>,
    /// Its subresources; of these `status`, `scale` and `resize` are served.
    pub subresources: Vec<String>,
    /// Custom resources differ in small ways: items of a list keep their type, a PUT needs a resourceVersion, a status
    /// write leaves all metadata alone.
    pub custom: bool,
    /// Whether changes of anything but metadata and status raise `metadata.generation`.
    pub generation: bool,
    /// Whether a deletion answers the deleted object (otherwise a Status).
    pub returns_deleted: bool,
}

impl Kind {
    /// A namespaced custom kind with every verb and without subresources.
    pub fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_ascii_lowercase(),
            short_names: Vec::new(),
            namespaced: true,
            versions: vec![version.to_owned()],
            verbs: CUSTOM_VERBS.map(str::to_owned).to_vec(),
            subresources: Vec::new(),
            custom: true,
            generation: true,
            returns_deleted: false,
        }
    }

    /// Serves one more version, less preferred than those before.
    pub fn version(mut self, version: &str) -> Self {
        self.versions.push(version.to_owned());
        self
    }

    /// Makes it live outside of namespaces.
    pub fn cluster_scoped(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// Serves these verbs only.
    pub fn verbs(mut self, verbs: &[&str]) -> Self {
        self.verbs = verbs.iter().map(|&verb| verb.to_owned()).collect();
        self
    }

    /// Gives it a `status` subresource.
    pub fn with_status(mut self) -> Self {
        self.subresources.push("status".to_owned());
        self
    }

    /// Adds a short name.
    pub fn short_name(mut self, name: &str) -> Self {
        self.short_names.push(name.to_owned());
        self
    }

    /// The resource it is stored under.
    pub fn resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Whether it has this subresource.
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|subresource| subresource == name)
    }

    /// The `apiVersion` of its preferred version.
    pub fn api_version(&self) -> String {
        api_version(&self.group, self.versions.first().map_or("", String::as_str))
    }

    /// `Kind` or `Kind.group`, the way errors name it.
    pub(crate) fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.kind.clone(),
            group => format!("{}.{group}", self.kind),
        }
    }

    /// The kind that a CustomResourceDefinition defines; none where the definition makes no sense.
    fn of_definition(definition: &Value) -> Option<Self> {
        let spec = &definition["spec"];
        let names = &spec["names"];
        let served: Vec<&Value> = spec["versions"]
            .as_array()?
            .iter()
            .filter(|v| v["served"] == true)
            .collect();
        let mut versions: Vec<String> = served
            .iter()
            .filter_map(|v| v["name"].as_str())
            .map(str::to_owned)
            .collect();
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        let kind = names["kind"].as_str()?;
        let mut made = Self::new(spec["group"].as_str()?, "", kind, names["plural"].as_str()?);
        made.versions = versions;
        made.namespaced = spec["scope"] != "Cluster";
        if let Some(singular) = names["singular"].as_str() {
            made.singular = singular.to_owned();
        }
        if let Some(list_kind) = names["listKind"].as_str() {
            made.list_kind = list_kind.to_owned();
        }
        if let Some(short_names) = names["shortNames"].as_array() {
            made.short_names = short_names
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
        }
        if served
            .iter()
            .any(|version| version["subresources"]["status"].is_object())
        {
            made.subresources.push("status".to_owned());
        }
        if served
            .iter()
            .any(|version| version["subresources"]["scale"].is_object())
        {
            made.subresources.push("scale".to_owned());
        }
        Some(made)
    }
}

/// `v1`, or `apps/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

/// Splits an `apiVersion` into group and version.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Upstream's order of versions, greater is preferred: v2, v1, v1beta2, v1beta1, v1alpha1.
fn version_priority(version: &str) -> (u8, u64, u64) {
    let leading_number = |text: &str| -> u64 {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..digits].parse().unwrap_or(0)
    };
    let (stage, minor) = match (version.split_once("beta"), version.split_once("alpha")) {
        (Some((_, minor)), _) => (1, leading_number(minor)),
        (_, Some((_, minor))) => (0, leading_number(minor)),
        _ => (2, 0),
    };
    (stage, leading_number(version.trim_start_matches('v')), minor)
}

/// How a group presents itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupHealth {
    /// Served.
    #[default]
    Current,
    /// Its server is away: requests answer 503, aggregated discovery still lists its kinds, as stale.
    Stale,
    /// Its server is away and its kinds were never seen: requests answer 503, aggregated discovery lists no kinds.
    Failing,
}

/// The served kinds.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    kinds: Vec<Arc<Kind>>,
    health: BTreeMap<String, GroupHealth>,
}

impl Kinds {
    /// The kinds that every server has.
    pub(crate) fn built_in() -> Self {
        Self {
            kinds: built_in().into_iter().map(Arc::new).collect(),
            health: BTreeMap::new(),
        }
    }

    /// Adds a kind, or replaces the one of the same group and plural.
    pub(crate) fn insert(&mut self, kind: Kind) {
        let kind = Arc::new(kind);
        match self
            .kinds
            .iter_mut()
            .find(|known| known.group == kind.group && known.plural == kind.plural)
        {
            Some(known) => *known = kind,
            None => self.kinds.push(kind),
        }
    }

    pub(crate) fn remove(&mut self, resource: &GroupResource) {
        self.kinds
            .retain(|kind| kind.group != resource.group || kind.plural != resource.plural);
    }

    /// Serves, or serves no longer, what a CustomResourceDefinition says. Answers the resource that is gone.
    pub(crate) fn define(&mut self, definition: &Value, deleted: bool) -> Option<GroupResource> {
        let kind = Kind::of_definition(definition)?;
        let resource = kind.resource();
        if deleted || kind.versions.is_empty() {
            self.remove(&resource);
            return Some(resource);
        }
        self.insert(kind);
        None
    }

    pub(crate) fn set_health(&mut self, group: &str, health: GroupHealth) {
        self.health.insert(group.to_owned(), health);
    }

    pub(crate) fn health(&self, group: &str) -> GroupHealth {
        self.health.get(group).copied().unwrap_or_default()
    }

    pub(crate) fn get(&self, resource: &GroupResource) -> Option<&Arc<Kind>> {
        self.kinds
            .iter()
            .find(|kind| kind.group == resource.group && kind.plural == resource.plural)
    }

    /// The kind served at group, version and plural.
    pub(crate) fn served(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let kind = self
            .kinds
            .iter()
            .find(|kind| kind.group == group && kind.plural == plural)?;
        kind.versions.iter().any(|served| served == version).then_some(kind)
    }

    /// Whether a group has built-in kinds.
    pub(crate) fn is_built_in(&self, group: &str) -> bool {
        self.kinds.iter().any(|kind| kind.group == group && !kind.custom)
    }

    /// The kind of an object, by its `apiVersion` and `kind`.
    pub(crate) fn of_object(&self, object: &Value) -> Option<&Arc<Kind>> {
        let (group, version) = split_api_version(object["apiVersion"].as_str()?);
        let name = object["kind"].as_str()?;
        self.kinds.iter().find(|kind| {
            kind.group == group && kind.kind == name && kind.versions.iter().any(|served| served == version)
        })
    }

    /// Every kind, in the order they were added.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter()
    }

    /// The groups but the core one, in the order they were added.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let mut groups = Vec::new();
        for kind in &self.kinds {
            if !kind.group.is_empty() && !groups.contains(&kind.group.as_str()) {
                groups.push(&kind.group);
            }
        }
        groups
    }

    /// The versions of a group, the preferred one first; none for a group that isn't served.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let mut versions = Vec::new();
        for version in self
            .kinds
            .iter()
            .filter(|kind| kind.group == group)
            .flat_map(|kind| &kind.versions)
        {
            if !versions.contains(&version.as_str()) {
                versions.push(version);
            }
        }
        versions
    }

    /// The kinds served at a version of a group.
    pub(crate) fn at<'a>(&'a self, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Kind>> {
        self.kinds
            .iter()
            .filter(move |kind| kind.group == group && kind.versions.iter().any(|v| v == version))
    }
}

/// What differs between the built-in kinds.
#[derive(Clone, Copy, Default)]
struct Traits {
    cluster: bool,
    status: bool,
    generation: bool,
    returns_deleted: bool,
}

fn built_in() -> Vec<Kind> {
    let plain = Traits::default();
    let cluster = Traits { cluster: true, ..plain };
    let status = Traits { status: true, ..plain };
    let workload = Traits {
        status: true,
        generation: true,
        ..plain
    };
    let returned = Traits {
        returns_deleted: true,
        ..plain
    };
    let returned_status = Traits {
        status: true,
        ..returned
    };
    let pod = Traits {
        generation: true,
        ..returned_status
    };
    let cluster_status = Traits {
        cluster: true,
        status: true,
        ..plain
    };
    let definition = Traits {
        generation: true,
        ..cluster_status
    };
    [
        ("v1", "Pod", "pods", "po", pod),
        ("v1", "Service", "services", "svc", returned_status),
        (
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            "pvc",
            returned_status,
        ),
        ("v1", "ConfigMap", "configmaps", "cm", plain),
        ("v1", "Secret", "secrets", "", plain),
        ("v1", "ReplicationController", "replicationcontrollers", "rc", workload),
        ("v1", "ResourceQuota", "resourcequotas", "quota", returned_status),
        ("v1", "Namespace", "namespaces", "ns", cluster_status),
        ("v1", "Node", "nodes", "no", cluster_status),
        (
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            "pv",
            Traits {
                cluster: true,
                ..returned_status
            },
        ),
        ("v1", "ServiceAccount", "serviceaccounts", "sa", returned),
        ("v1", "Endpoints", "endpoints", "ep", plain),
        ("v1", "LimitRange", "limitranges", "limits", plain),
        ("v1", "Event", "events", "ev", plain),
        ("apps/v1", "Deployment", "deployments", "deploy", workload),
        ("apps/v1", "ReplicaSet", "replicasets", "rs", workload),
        ("apps/v1", "StatefulSet", "statefulsets", "sts", workload),
        ("apps/v1", "DaemonSet", "daemonsets", "ds", workload),
        ("batch/v1", "Job", "jobs", "", workload),
        ("batch/v1", "CronJob", "cronjobs", "cj", workload),
        ("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", "", status),
        (
            "resource.k8s.io/v1",
            "ResourceClaimTemplate",
            "resourceclaimtemplates",
            "",
            plain,
        ),
        (
            "resource.k8s.io/v1",
            "DeviceClass",
            "deviceclasses",
            "",
            Traits {
                generation: true,
                ..cluster
            },
        ),
        ("coordination.k8s.io/v1", "Lease", "leases", "", plain),
        ("networking.k8s.io/v1", "Ingress", "ingresses", "ing", workload),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "priorityclasses",
            "pc",
            Traits {
                generation: true,
                ..cluster
            },
        ),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            "storageclasses",
            "sc",
            Traits {
                cluster: true,
                ..returned
            },
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "crd",
            definition,
        ),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "",
            Traits {
                generation: true,
                ..cluster
            },
        ),
        (
            "apiregistration.k8s.io/v1",
            "APIService",
            "apiservices",
            "",
            cluster_status,
        ),
    ]
    .into_iter()
    .map(|(api_version, kind, plural, short_name, traits)| {
        let (group, version) = split_api_version(api_version);
        let mut made = Kind::new(group, version, kind, plural);
        if !short_name.is_empty() {
            made = made.short_name(short_name);
        }
        if traits.status {
            made = made.with_status();
        }
        let own = match plural {
            "pods" => Some("resize"),
            "deployments" | "replicasets" | "statefulsets" | "replicationcontrollers" => Some("scale"),
            _ => None,
        };
        made.subresources.extend(own.map(str::to_owned));
        made.namespaced = !traits.cluster;
        made.custom = false;
        made.verbs = ALL_VERBS.map(str::to_owned).to_vec();
        if kind == "CustomResourceDefinition" {
            made = made.short_name("crds");
        }
        made.generation = traits.generation;
        made.returns_deleted = traits.returns_deleted;
        // Each takes its objects along when it is deleted, or ends connections: not all at once.
        if plural == "namespaces" {
            made.verbs.retain(|verb| verb != "deletecollection");
        }
        made
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_ordered_as_upstream_orders_them() {
        let mut versions = ["v1alpha1", "v10", "v1", "v1beta1", "v2", "v1beta2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1"]);
    }

    #[test]
    fn a_definition_becomes_a_kind_and_goes() {
        let definition = json!({"spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "versions": [{"name": "v1beta1", "served": true}, {"name": "v1", "served": true}, {"name": "v0", "served": false}],
        }});
        let mut kinds = Kinds::built_in();
        assert_eq!(kinds.define(&definition, false), None);
        let widget = kinds.served("example.com", "v1beta1", "widgets").unwrap();
        assert_eq!(widget.versions, ["v1", "v1beta1"]);
        assert!(!widget.namespaced);
        assert!(kinds.served("example.com", "v0", "widgets").is_none());
        assert_eq!(
            kinds.define(&definition, true),
            Some(GroupResource::parse("widgets.example.com"))
        );
        assert!(kinds.versions("example.com").is_empty());
    }

    #[test]
    fn the_first_kind_of_a_group_gives_its_preferred_version() {
        let mut kinds = Kinds::built_in();
        kinds.insert(Kind::new("g.io", "v2", "A", "as").version("v1"));
        kinds.insert(Kind::new("g.io", "v1", "B", "bs"));
        assert_eq!(kinds.versions("g.io"), ["v2", "v1"]);
        assert_eq!(kinds.at("g.io", "v1").count(), 2);
        assert_eq!(kinds.at("g.io", "v2").count(), 1);
    }
}
