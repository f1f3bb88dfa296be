//! What the views read of Kubernetes' messages: the numbers, names and types of their fields, as the `generated.proto` files of
//! k8s.io/api and k8s.io/apimachinery v0.37.2 have them. Fields that nothing reads are left out, and passed over where they are met.
//!
//! Fields have the names they have in JSON: the views then read protobuf as they read JSON. No message contains itself, so nothing read
//! by this can nest without end.

/// A message.
#[derive(Debug)]
pub(super) struct Schema(pub(super) &'static [Field]);

/// A field: its number, its name in JSON and its type. In order of the numbers.
pub(super) type Field = (u32, &'static str, Type);

/// The type of a field, or of the items of a list or map.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    /// `string`
    Text,
    /// `bytes`, handed on as they are.
    Bytes,
    /// `int32` or `int64`
    Integer,
    /// `bool`
    Boolean,
    /// `resource.Quantity`, in JSON its text.
    Quantity,
    /// `meta.v1.Time`, in JSON RFC 3339 to the second, or null.
    Time,
    Message(&'static Schema),
    /// `repeated`
    List(&'static Type),
    /// `map<string, _>`
    Map(&'static Type),
}

use Type::{Boolean, Bytes, Integer, List, Map, Message, Quantity, Text, Time};

/// The message of a kind, or `None` where it is not known. `metadata` is the first field of every kind: [`OBJECT`].
pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Schema> {
    Some(match (api_version, kind) {
        ("v1", "Pod") => &POD,
        ("v1", "Service") => &SERVICE,
        ("v1", "PersistentVolumeClaim") => &PERSISTENT_VOLUME_CLAIM,
        ("v1", "ResourceQuota") => &RESOURCE_QUOTA,
        ("v1", "Status") => &STATUS,
        ("resource.k8s.io/v1", "ResourceClaim") => &RESOURCE_CLAIM,
        ("resource.k8s.io/v1", "DeviceClass") => &DEVICE_CLASS,
        _ => return None,
    })
}

// runtime

/// `runtime.Unknown`: what every body is.
pub(super) static ENVELOPE: Schema = Schema(&[
    (1, "typeMeta", Message(&TYPE_META)),
    (2, "raw", Bytes),
    (3, "contentEncoding", Text),
    (4, "contentType", Text),
]);

static TYPE_META: Schema = Schema(&[(1, "apiVersion", Text), (2, "kind", Text)]);

static RAW_EXTENSION: Schema = Schema(&[(1, "raw", Bytes)]);

// meta/v1

/// Any object.
pub(super) static OBJECT: Schema = Schema(&[METADATA]);

/// Any list, its objects still encoded.
pub(super) static LIST: Schema = Schema(&[(1, "metadata", Message(&LIST_META)), (2, "items", List(&Bytes))]);

/// An event of a watch.
pub(super) static WATCH_EVENT: Schema = Schema(&[(1, "type", Text), (2, "object", Message(&RAW_EXTENSION))]);

const METADATA: Field = (1, "metadata", Message(&OBJECT_META));

static OBJECT_META: Schema = Schema(&[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (10, "deletionGracePeriodSeconds", Integer),
    (12, "annotations", Map(&Text)),
    (13, "ownerReferences", List(&Message(&OWNER_REFERENCE))),
]);

static OWNER_REFERENCE: Schema = Schema(&[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Boolean),
]);

static LIST_META: Schema = Schema(&[
    (2, "resourceVersion", Text),
    (3, "continue", Text),
    (4, "remainingItemCount", Integer),
]);

static STATUS: Schema = Schema(&[
    (3, "message", Text),
    (4, "reason", Text),
    (5, "details", Message(&STATUS_DETAILS)),
    (6, "code", Integer),
]);

static STATUS_DETAILS: Schema = Schema(&[
    (4, "causes", List(&Message(&STATUS_CAUSE))),
    (5, "retryAfterSeconds", Integer),
]);

static STATUS_CAUSE: Schema = Schema(&[(2, "message", Text), (3, "field", Text)]);

// core/v1

static POD: Schema = Schema(&[
    METADATA,
    (2, "spec", Message(&POD_SPEC)),
    (3, "status", Message(&POD_STATUS)),
]);

static POD_SPEC: Schema = Schema(&[
    (2, "containers", List(&Message(&CONTAINER))),
    (5, "activeDeadlineSeconds", Integer),
    (18, "affinity", Message(&AFFINITY)),
    (20, "initContainers", List(&Message(&CONTAINER))),
    (24, "priorityClassName", Text),
    (32, "overhead", Map(&Quantity)),
    (40, "resources", Message(&RESOURCE_REQUIREMENTS)),
]);

static CONTAINER: Schema = Schema(&[
    (1, "name", Text),
    (8, "resources", Message(&RESOURCE_REQUIREMENTS)),
    (24, "restartPolicy", Text),
]);

/// Of claims, too: their `VolumeResourceRequirements` has the same numbers.
static RESOURCE_REQUIREMENTS: Schema = Schema(&[(1, "limits", Map(&Quantity)), (2, "requests", Map(&Quantity))]);

static AFFINITY: Schema = Schema(&[
    (2, "podAffinity", Message(&POD_AFFINITY)),
    (3, "podAntiAffinity", Message(&POD_AFFINITY)),
]);

/// `PodAntiAffinity` has the same numbers.
static POD_AFFINITY: Schema = Schema(&[
    (
        1,
        "requiredDuringSchedulingIgnoredDuringExecution",
        List(&Message(&POD_AFFINITY_TERM)),
    ),
    (
        2,
        "preferredDuringSchedulingIgnoredDuringExecution",
        List(&Message(&WEIGHTED_POD_AFFINITY_TERM)),
    ),
]);

static WEIGHTED_POD_AFFINITY_TERM: Schema = Schema(&[(2, "podAffinityTerm", Message(&POD_AFFINITY_TERM))]);

static POD_AFFINITY_TERM: Schema = Schema(&[
    (2, "namespaces", List(&Text)),
    // Whether it is there is all that is asked.
    (4, "namespaceSelector", Message(&Schema(&[]))),
]);

static POD_STATUS: Schema = Schema(&[
    (1, "phase", Text),
    (2, "conditions", List(&Message(&POD_CONDITION))),
    (8, "containerStatuses", List(&Message(&CONTAINER_STATUS))),
    (9, "qosClass", Text),
    (10, "initContainerStatuses", List(&Message(&CONTAINER_STATUS))),
    (
        18,
        "extendedResourceClaimStatus",
        Message(&EXTENDED_RESOURCE_CLAIM_STATUS),
    ),
]);

static POD_CONDITION: Schema = Schema(&[(1, "type", Text), (5, "reason", Text)]);

static CONTAINER_STATUS: Schema = Schema(&[
    (1, "name", Text),
    (10, "allocatedResources", Map(&Quantity)),
    (11, "resources", Message(&RESOURCE_REQUIREMENTS)),
]);

static EXTENDED_RESOURCE_CLAIM_STATUS: Schema = Schema(&[(2, "resourceClaimName", Text)]);

static SERVICE: Schema = Schema(&[METADATA, (2, "spec", Message(&SERVICE_SPEC))]);

static SERVICE_SPEC: Schema = Schema(&[
    (1, "ports", List(&Message(&SERVICE_PORT))),
    (4, "type", Text),
    (20, "allocateLoadBalancerNodePorts", Boolean),
]);

static SERVICE_PORT: Schema = Schema(&[(5, "nodePort", Integer)]);

static PERSISTENT_VOLUME_CLAIM: Schema = Schema(&[
    METADATA,
    (2, "spec", Message(&PERSISTENT_VOLUME_CLAIM_SPEC)),
    (3, "status", Message(&PERSISTENT_VOLUME_CLAIM_STATUS)),
]);

static PERSISTENT_VOLUME_CLAIM_SPEC: Schema = Schema(&[
    (2, "resources", Message(&RESOURCE_REQUIREMENTS)),
    (5, "storageClassName", Text),
    (9, "volumeAttributesClassName", Text),
]);

static PERSISTENT_VOLUME_CLAIM_STATUS: Schema = Schema(&[
    (5, "allocatedResources", Map(&Quantity)),
    (8, "currentVolumeAttributesClassName", Text),
    (9, "modifyVolumeStatus", Message(&MODIFY_VOLUME_STATUS)),
]);

static MODIFY_VOLUME_STATUS: Schema = Schema(&[(1, "targetVolumeAttributesClassName", Text)]);

static RESOURCE_QUOTA: Schema = Schema(&[
    METADATA,
    (2, "spec", Message(&RESOURCE_QUOTA_SPEC)),
    (3, "status", Message(&RESOURCE_QUOTA_STATUS)),
]);

static RESOURCE_QUOTA_SPEC: Schema = Schema(&[
    (1, "hard", Map(&Quantity)),
    (2, "scopes", List(&Text)),
    (3, "scopeSelector", Message(&SCOPE_SELECTOR)),
]);

static SCOPE_SELECTOR: Schema = Schema(&[(1, "matchExpressions", List(&Message(&SCOPE_REQUIREMENT)))]);

static SCOPE_REQUIREMENT: Schema = Schema(&[
    (1, "scopeName", Text),
    (2, "operator", Text),
    (3, "values", List(&Text)),
]);

static RESOURCE_QUOTA_STATUS: Schema = Schema(&[(1, "hard", Map(&Quantity)), (2, "used", Map(&Quantity))]);

// resource/v1

static RESOURCE_CLAIM: Schema = Schema(&[METADATA, (2, "spec", Message(&RESOURCE_CLAIM_SPEC))]);

static RESOURCE_CLAIM_SPEC: Schema = Schema(&[(1, "devices", Message(&DEVICE_CLAIM))]);

static DEVICE_CLAIM: Schema = Schema(&[(1, "requests", List(&Message(&DEVICE_REQUEST)))]);

static DEVICE_REQUEST: Schema = Schema(&[
    (2, "exactly", Message(&EXACT_DEVICE_REQUEST)),
    (3, "firstAvailable", List(&Message(&DEVICE_SUB_REQUEST))),
]);

static EXACT_DEVICE_REQUEST: Schema = Schema(&[
    (1, "deviceClassName", Text),
    (3, "allocationMode", Text),
    (4, "count", Integer),
]);

static DEVICE_SUB_REQUEST: Schema = Schema(&[
    (2, "deviceClassName", Text),
    (4, "allocationMode", Text),
    (5, "count", Integer),
]);

static DEVICE_CLASS: Schema = Schema(&[METADATA, (2, "spec", Message(&DEVICE_CLASS_SPEC))]);

static DEVICE_CLASS_SPEC: Schema = Schema(&[(4, "extendedResourceName", Text)]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_order() {
        fn check(schema: &Schema) {
            assert!(schema.0.is_sorted_by_key(|(number, _, _)| *number), "{schema:?}");
            let mut names: Vec<_> = schema.0.iter().map(|(_, name, _)| name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), schema.0.len(), "{schema:?}");
            for (_, _, r#type) in schema.0 {
                if let Message(inner) | List(Message(inner)) = r#type {
                    check(inner);
                }
            }
        }
        let kinds = [
            ("v1", "Pod"),
            ("v1", "Service"),
            ("v1", "PersistentVolumeClaim"),
            ("v1", "ResourceQuota"),
            ("v1", "Status"),
            ("resource.k8s.io/v1", "ResourceClaim"),
            ("resource.k8s.io/v1", "DeviceClass"),
        ];
        let known = kinds.map(|(version, kind)| of_kind(version, kind).unwrap());
        for schema in known.into_iter().chain([&ENVELOPE, &OBJECT, &LIST, &WATCH_EVENT]) {
            check(schema);
        }
    }
}
