//! What the server knows about the fields of its kinds: their OpenAPI schemas, and what tells the entries of a list apart.
//!
//! The schemas of built-in kinds come from k8s-openapi. It leaves out how lists and maps merge, which [`KEYED`] and its
//! neighbours add; a custom kind's schema says it itself.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::schemars::generate::SchemaSettings;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Where the definitions of one document refer to each other.
const REFERENCE: &str = "#/components/schemas/";

/// Lists whose entries are told apart by fields, as upstream's API types say. A strategic merge patch goes by the first of
/// them, server-side apply by all. `core.v1` stands for `io.k8s.api.core.v1`.
const KEYED: [(&str, &str, &[&str]); 48] = [
    (
        "admissionregistration.v1.ValidatingWebhook",
        "matchConditions",
        &["name"],
    ),
    (
        "admissionregistration.v1.ValidatingWebhookConfiguration",
        "webhooks",
        &["name"],
    ),
    ("apps.v1.DaemonSetStatus", "conditions", &["type"]),
    ("apps.v1.DeploymentStatus", "conditions", &["type"]),
    ("apps.v1.ReplicaSetStatus", "conditions", &["type"]),
    ("apps.v1.StatefulSetStatus", "conditions", &["type"]),
    ("batch.v1.JobStatus", "conditions", &["type"]),
    ("core.v1.Container", "env", &["name"]),
    ("core.v1.Container", "ports", &["containerPort", "protocol"]),
    ("core.v1.Container", "volumeDevices", &["devicePath"]),
    ("core.v1.Container", "volumeMounts", &["mountPath"]),
    ("core.v1.ContainerStatus", "allocatedResourcesStatus", &["name"]),
    ("core.v1.ContainerStatus", "volumeMounts", &["mountPath"]),
    ("core.v1.EphemeralContainer", "env", &["name"]),
    ("core.v1.EphemeralContainer", "ports", &["containerPort", "protocol"]),
    ("core.v1.EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("core.v1.EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("core.v1.NamespaceStatus", "conditions", &["type"]),
    ("core.v1.PersistentVolumeClaimStatus", "conditions", &["type"]),
    ("core.v1.PodSpec", "containers", &["name"]),
    ("core.v1.PodSpec", "ephemeralContainers", &["name"]),
    ("core.v1.PodSpec", "hostAliases", &["ip"]),
    ("core.v1.PodSpec", "imagePullSecrets", &["name"]),
    ("core.v1.PodSpec", "initContainers", &["name"]),
    ("core.v1.PodSpec", "resourceClaims", &["name"]),
    ("core.v1.PodSpec", "schedulingGates", &["name"]),
    (
        "core.v1.PodSpec",
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("core.v1.PodSpec", "volumes", &["name"]),
    ("core.v1.PodStatus", "conditions", &["type"]),
    ("core.v1.PodStatus", "podIPs", &["ip"]),
    ("core.v1.PodStatus", "resourceClaimStatuses", &["name"]),
    ("core.v1.ReplicationControllerStatus", "conditions", &["type"]),
    ("core.v1.ServiceAccount", "secrets", &["name"]),
    ("core.v1.ServiceSpec", "ports", &["port", "protocol"]),
    ("core.v1.ServiceStatus", "conditions", &["type"]),
    ("resource.v1.AllocatedDeviceStatus", "conditions", &["type"]),
    (
        "resource.v1.ResourceClaimStatus",
        "devices",
        &["driver", "device", "pool", "shareID"],
    ),
    ("resource.v1.ResourceClaimStatus", "reservedFor", &["uid"]),
    ("core.v1.ResourceRequirements", "claims", &["name"]),
    ("core.v1.ResourceStatus", "resources", &["resourceID"]),
    (
        "core.v1.PodStatus",
        "nodeAllocatableResourceClaimStatuses",
        &["resourceClaimName"],
    ),
    ("core.v1.PodStatus", "volumeHealth", &["name"]),
    ("batch.v1.JobSchedulingConfiguration", "resourceClaims", &["name"]),
    ("core.v1.PodSpec", "evictionResponders", &["name"]),
    ("core.v1.NodeAllocatableResourceClaimStatus", "mapping", &["name"]),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus",
        "conditions",
        &["type"],
    ),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "ownerReferences",
        &["uid"],
    ),
    (
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceStatus",
        "conditions",
        &["type"],
    ),
];

/// Where the patch of an entry has to keep its other keys: of a union only one member is set.
const RETAIN_KEYS: [(&str, &str); 4] = [
    ("apps.v1.DeploymentSpec", "strategy"),
    ("core.v1.PodSpec", "volumes"),
    ("core.v1.PodSpec", "resourceClaims"),
    ("core.v1.PodStatus", "resourceClaimStatuses"),
];

/// Maps that an apply takes as a whole.
const ATOMIC_MAPS: [(&str, &str); 3] = [
    ("core.v1.PodSpec", "nodeSelector"),
    ("core.v1.ReplicationControllerSpec", "selector"),
    ("core.v1.ServiceSpec", "selector"),
];

/// Types that an apply takes as a whole wherever they occur.
const ATOMIC_TYPES: [&str; 11] = [
    "core.v1.ConfigMapKeySelector",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.ScopeSelector",
    "core.v1.SecretKeySelector",
    "core.v1.TypedLocalObjectReference",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
];

/// The schemas of the built-in kinds.
static BUILT_IN: LazyLock<Schemas> = LazyLock::new(Schemas::built_in);
static NO_DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
static NOTHING: Value = Value::Null;

struct Schemas {
    definitions: Map<String, Value>,
    /// The name of a kind's definition, by group, version and kind.
    roots: BTreeMap<(&'static str, &'static str, &'static str), String>,
}

impl Schemas {
    fn built_in() -> Self {
        use k8s_openapi::api::{
            admissionregistration, apps, batch, coordination, core, networking, resource, scheduling, storage,
        };
        use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
        use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;

        let mut generator = SchemaSettings::openapi3().into_generator();
        let mut roots = BTreeMap::new();
        macro_rules! add {
            ($($kind:ty),* $(,)?) => { $( add::<$kind>(&mut generator, &mut roots); )* };
        }
        add!(
            core::v1::Pod,
            core::v1::Service,
            core::v1::PersistentVolumeClaim,
            core::v1::ConfigMap,
            core::v1::Secret,
            core::v1::ReplicationController,
            core::v1::ResourceQuota,
            core::v1::Namespace,
            core::v1::Node,
            core::v1::PersistentVolume,
            core::v1::ServiceAccount,
            core::v1::Endpoints,
            core::v1::LimitRange,
            core::v1::Event,
            apps::v1::Deployment,
            apps::v1::ReplicaSet,
            apps::v1::StatefulSet,
            apps::v1::DaemonSet,
            batch::v1::Job,
            batch::v1::CronJob,
            resource::v1::ResourceClaim,
            resource::v1::ResourceClaimTemplate,
            resource::v1::DeviceClass,
            coordination::v1::Lease,
            networking::v1::Ingress,
            scheduling::v1::PriorityClass,
            storage::v1::StorageClass,
            apiextensions::v1::CustomResourceDefinition,
            admissionregistration::v1::ValidatingWebhookConfiguration,
            apiregistration::v1::APIService,
        );
        let mut definitions = generator.take_definitions(true);
        for ((group, version, kind), name) in &roots {
            definitions[name]["x-kubernetes-group-version-kind"] =
                json!([{ "group": group, "version": version, "kind": kind }]);
        }
        let mut schemas = Self { definitions, roots };
        schemas.add_merging();
        schemas
    }

    fn add_merging(&mut self) {
        for (definition, field, keys) in KEYED {
            self.mark(definition, field, "list-type", "map".into());
            self.mark(definition, field, "list-map-keys", json!(keys));
            self.mark(definition, field, "patch-merge-key", keys[0].into());
            self.mark(definition, field, "patch-strategy", "merge".into());
        }
        for (definition, field) in RETAIN_KEYS {
            let keyed = KEYED.iter().any(|(d, f, _)| (*d, *f) == (definition, field));
            let strategy = if keyed { "merge,retainKeys" } else { "retainKeys" };
            self.mark(definition, field, "patch-strategy", strategy.into());
        }
        for (definition, field) in ATOMIC_MAPS {
            self.mark(definition, field, "map-type", "atomic".into());
        }
        let finalizers = ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers");
        self.mark(finalizers.0, finalizers.1, "list-type", "set".into());
        self.mark(finalizers.0, finalizers.1, "patch-strategy", "merge".into());
        for definition in ATOMIC_TYPES {
            if let Some(Value::Object(definition)) = self.definitions.get_mut(&full_name(definition)) {
                definition.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
            }
        }
    }

    /// Adds an extension to a property. One that no served kind reaches is left out.
    fn mark(&mut self, definition: &str, field: &str, extension: &str, value: Value) {
        let definition = self.definitions.get_mut(&full_name(definition));
        let property = definition.and_then(|definition| definition.pointer_mut(&format!("/properties/{field}")));
        if let Some(Value::Object(property)) = property {
            property.insert(format!("x-kubernetes-{extension}"), value);
        }
    }
}

fn add<K: JsonSchema + k8s_openapi::Resource>(
    generator: &mut SchemaGenerator,
    roots: &mut BTreeMap<(&'static str, &'static str, &'static str), String>,
) {
    generator.subschema_for::<K>();
    roots.insert((K::GROUP, K::VERSION, K::KIND), K::schema_name().into_owned());
}

fn full_name(definition: &str) -> String {
    if definition.starts_with("io.k8s.") {
        definition.to_owned()
    } else {
        format!("io.k8s.api.{definition}")
    }
}

/// The definition of a built-in kind: its name.
pub(crate) fn root(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    let roots = &BUILT_IN.roots;
    let found = roots.iter().find(|(key, _)| **key == (group, version, kind));
    found.map(|(_, name)| name.as_str())
}

/// Adds a definition and all that it refers to.
pub(crate) fn collect(name: &str, into: &mut Map<String, Value>) {
    if into.contains_key(name) {
        return;
    }
    if let Some(definition) = BUILT_IN.definitions.get(name) {
        into.insert(name.to_owned(), definition.clone());
        collect_references(definition, into);
    }
}

fn collect_references(schema: &Value, into: &mut Map<String, Value>) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|r| r.strip_prefix(REFERENCE))
            {
                collect(name, into);
            }
            fields.values().for_each(|value| collect_references(value, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        _ => {}
    }
}

/// How the entries of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum List<'a> {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Map(Vec<&'a str>),
}

/// The type of a value inside of an object; what nothing is known about has an empty schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type<'a> {
    definitions: &'a Map<String, Value>,
    /// The schema where the value is used, which may refer to a definition.
    used: &'a Value,
}

impl<'a> Type<'a> {
    /// The type of a built-in kind; nothing is known about others.
    pub(crate) fn built_in(group: &str, version: &str, kind: &str) -> Type<'static> {
        let definition = root(group, version, kind).and_then(|name| BUILT_IN.definitions.get(name));
        Type {
            definitions: &BUILT_IN.definitions,
            used: definition.unwrap_or(&NOTHING),
        }
    }

    /// The type that a CustomResourceDefinition gives one of its versions.
    pub(crate) fn custom(schema: &'a Value) -> Self {
        Self {
            definitions: &NO_DEFINITIONS,
            used: schema,
        }
    }

    /// ObjectMeta, which every kind has.
    pub(crate) fn metadata() -> Type<'static> {
        let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        Type {
            definitions: &BUILT_IN.definitions,
            used: BUILT_IN.definitions.get(name).unwrap_or(&NOTHING),
        }
    }

    fn at(self, used: &'a Value) -> Self {
        Self { used, ..self }
    }

    fn resolved(self) -> &'a Value {
        let reference = |schema: &'a Value| schema["$ref"].as_str()?.strip_prefix(REFERENCE);
        match reference(self.used).or_else(|| reference(&self.used["allOf"][0])) {
            Some(name) => self.definitions.get(name).unwrap_or(&NOTHING),
            None => self.used,
        }
    }

    /// Something said of the value where it is used, or else by its definition.
    fn said(self, name: &str) -> &'a Value {
        match &self.used[name] {
            Value::Null => &self.resolved()[name],
            value => value,
        }
    }

    /// Whether anything is known.
    pub(crate) fn is_known(self) -> bool {
        !self.resolved().is_null()
    }

    /// The type of a field or of a map's value.
    pub(crate) fn field(self, name: &str) -> Self {
        let schema = self.resolved();
        match &schema["properties"][name] {
            Value::Null => self.at(&schema["additionalProperties"]),
            property => self.at(property),
        }
    }

    /// The type of a list's entries.
    pub(crate) fn items(self) -> Self {
        self.at(&self.resolved()["items"])
    }

    /// Whether an object of this type may have a field.
    pub(crate) fn allows(self, field: &str) -> bool {
        let schema = self.resolved();
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true
            || !matches!(&schema["additionalProperties"], Value::Null | Value::Bool(false));
        open || match &schema["properties"] {
            Value::Object(properties) => properties.contains_key(field),
            // A built-in object that names no field is free in form.
            _ => true,
        }
    }

    /// How server-side apply merges a list.
    pub(crate) fn list(self) -> List<'a> {
        match self.said("x-kubernetes-list-type").as_str() {
            Some("map") => {
                let keys = self.said("x-kubernetes-list-map-keys").as_array();
                List::Map(keys.into_iter().flatten().filter_map(Value::as_str).collect())
            }
            Some("set") => List::Set,
            _ => List::Atomic,
        }
    }

    /// The default of a field that is part of a list's key, `TCP` of a port's protocol.
    pub(crate) fn default_of(self, field: &str) -> Option<Value> {
        match self.field(field).said("default") {
            Value::Null if field == "protocol" => Some("TCP".into()),
            Value::Null => None,
            value => Some(value.clone()),
        }
    }

    /// Whether server-side apply takes the map or object as a whole.
    pub(crate) fn is_atomic(self) -> bool {
        self.said("x-kubernetes-map-type") == "atomic"
    }

    /// Whether a strategic merge patch merges the list instead of replacing it.
    pub(crate) fn merges(self) -> bool {
        self.said("x-kubernetes-patch-strategy")
            .as_str()
            .is_some_and(|strategy| strategy.split(',').any(|part| part == "merge"))
    }

    /// The field by which a strategic merge patch tells the entries of a list apart.
    pub(crate) fn merge_key(self) -> Option<&'a str> {
        self.said("x-kubernetes-patch-merge-key").as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for kind in crate::kinds::Kinds::built_in().all() {
            for version in &kind.versions {
                assert!(Type::built_in(&kind.group, version, &kind.kind).is_known(), "{kind:?}");
            }
        }
    }

    #[test]
    fn what_the_tables_name_exists() {
        let keyed = KEYED.iter().map(|(definition, field, _)| (*definition, *field));
        for (definition, field) in keyed.chain(RETAIN_KEYS).chain(ATOMIC_MAPS) {
            let found = BUILT_IN.definitions.get(&full_name(definition));
            assert!(
                found.is_some_and(|d| d["properties"][field].is_object()),
                "{definition}.{field}"
            );
        }
        for definition in ATOMIC_TYPES {
            assert!(
                BUILT_IN.definitions.contains_key(&full_name(definition)),
                "{definition}"
            );
        }
    }

    #[test]
    fn types_are_followed_through_references() {
        let pod = Type::built_in("", "v1", "Pod");
        let containers = pod.field("spec").field("containers");
        assert_eq!(containers.list(), List::Map(vec!["name"]));
        let ports = containers.items().field("ports");
        assert_eq!(
            (ports.merge_key(), ports.list()),
            (Some("containerPort"), List::Map(vec!["containerPort", "protocol"]))
        );
        assert_eq!(containers.items().field("command").list(), List::Atomic);
        assert!(pod.field("spec").field("nodeSelector").is_atomic());
        assert!(pod.field("spec").allows("containers") && !pod.field("spec").allows("nonsense"));
        assert!(pod.field("metadata").field("labels").allows("anything"));
        let deployment = Type::built_in("apps", "v1", "Deployment");
        assert!(deployment.field("spec").field("selector").is_atomic());
        assert!(!deployment.field("spec").field("strategy").merges());
        assert!(!Type::built_in("x", "v1", "Y").is_known());
    }

    #[test]
    fn a_document_is_closed() {
        let mut definitions = Map::new();
        collect(root("", "v1", "Pod").unwrap(), &mut definitions);
        let text = serde_json::to_string(&definitions).unwrap();
        for part in text.split(REFERENCE).skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(definitions.contains_key(name), "{name}");
        }
    }
}
