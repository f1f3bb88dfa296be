//! The metadata that every kind shares, and how an object is known.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::evaluators::View;

/// The part of `metadata` that quotas, and the bookkeeping about them, look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Name; empty while `generateName` is still to be filled in.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Prefix of a name that the server will make.
    #[serde(deserialize_with = "or_default")]
    pub generate_name: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Unique id; empty in files.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// The revision of the object's last change, as text; see [`Revision`].
    #[serde(deserialize_with = "or_default")]
    pub resource_version: String,
    /// When it was created, RFC 3339; kept as text since only extended-resource claims are ordered by it.
    #[serde(deserialize_with = "or_default")]
    pub creation_timestamp: String,
    /// When it was, or will be, deleted, RFC 3339.
    #[serde(deserialize_with = "or_default")]
    pub deletion_timestamp: Option<String>,
    /// How long after `deletionTimestamp` it may still be there.
    #[serde(deserialize_with = "or_default")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// The annotations that quotas read.
    #[serde(deserialize_with = "or_default")]
    pub annotations: Annotations,
    /// Who it belongs to.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
}

/// The few annotations that decide what an object is charged, and what a quota notes of its charges; all others are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// Names the storage class of a claim, before `spec.storageClassName`, even when empty.
    #[serde(rename = "volume.beta.kubernetes.io/storage-class", deserialize_with = "present")]
    pub storage_class: Option<String>,
    /// `"true"` on resource claims that the scheduler makes for a pod's extended resources.
    #[serde(
        rename = "resource.kubernetes.io/extended-resource-claim",
        deserialize_with = "present"
    )]
    pub extended_resource_claim: Option<String>,
    /// On a quota, which charges of which writer landed last: written by kubequota's webhook.
    #[serde(rename = "quota.kubequota.dev/last-charges", deserialize_with = "present")]
    pub last_charges: Option<String>,
    /// On a quota, the names that are enforced: written by kubequota's webhook.
    #[serde(rename = "quota.kubequota.dev/enforced", deserialize_with = "present")]
    pub enforced: Option<String>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// API version of the owner, `v1` for pods.
    #[serde(deserialize_with = "or_default")]
    pub api_version: String,
    /// Kind of the owner.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name of the owner.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Uid of the owner.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// Whether this owner controls the object.
    #[serde(deserialize_with = "or_default")]
    pub controller: Option<bool>,
}

impl Metadata {
    /// The moment after which a deleted object is past its grace: `deletionTimestamp` plus `deletionGracePeriodSeconds`, both set.
    ///
    /// # Errors
    /// A `deletionTimestamp` that is no RFC 3339 time.
    pub fn grace_ends(&self) -> Result<Option<Timestamp>, FieldError> {
        let (Some(deleted), Some(grace)) = (&self.deletion_timestamp, self.deletion_grace_period_seconds) else {
            return Ok(None);
        };
        let invalid = |error| FieldError {
            field: "metadata.deletionTimestamp".to_owned(),
            reason: format!("{deleted:?} is no RFC 3339 time: {error}"),
        };
        let deleted: Timestamp = deleted.parse().map_err(invalid)?;
        // Whoever makes a pod chooses its grace: an absurd one must neither spoil the object nor, by overflow as upstream, end it.
        deleted
            .saturating_add(jiff::SignedDuration::from_secs(grace))
            .map(Some)
            .map_err(invalid)
    }

    /// The owner that controls the object, if there is one.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }

    /// `NAMESPACE/NAME`, or the name alone where there is no namespace.
    #[must_use]
    pub fn display_name(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

/// An object as far as quota sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its metadata.
    pub metadata: Metadata,
    /// The fields its evaluator looks at, or why they could not be read.
    pub view: Result<View, FieldError>,
}

/// A field whose value can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct FieldError {
    /// Path of the field, as in `spec.containers[0].resources.requests[cpu]`.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// How an object is known among those of its kind and namespace: its uid, 128 bits. A uid that is no UUID is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(u128);

impl ObjectId {
    /// The id of an object with this metadata. Objects without a uid (from files) are known by their name.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        if metadata.uid.is_empty() {
            ObjectId(fnv1a(&metadata.name))
        } else {
            ObjectId::from_uid(&metadata.uid)
        }
    }

    /// The id that a uid stands for.
    #[must_use]
    pub fn from_uid(uid: &str) -> Self {
        ObjectId(uuid::Uuid::try_parse(uid).map_or_else(|_| fnv1a(uid), |uuid| uuid.as_u128()))
    }
}

/// FNV-1a with 128 bits: the same in every process, and short ids don't collide in practice.
fn fnv1a(text: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    text.bytes()
        .fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// A resource version that can be compared: Kubernetes (from v1.35) defines it as a decimal number that grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// The revision that `text` stands for; `None` where a server hands out something else. Such objects are taken in the order they come.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Revision)
    }
}

impl From<u64> for Revision {
    fn from(number: u64) -> Self {
        Revision(number)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads `null` as the type's default, as Kubernetes' decoders do: for `#[serde(deserialize_with)]`.
///
/// # Errors
/// Those of the type.
pub fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the value of a map's entry: the entry is there even where its value is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    or_default(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn grace() {
        // Deleted at, grace, the end of it.
        let table = [
            ("", Some(30), "none"),
            ("2026-01-01T00:00:00Z", None, "none"),
            ("yesterday", None, "none"),
            ("2026-01-01T00:00:00Z", Some(30), "2026-01-01T00:00:30Z"),
            ("2026-01-01T00:00:00Z", Some(0), "2026-01-01T00:00:00Z"),
            ("2026-01-01T00:00:00Z", Some(-30), "2025-12-31T23:59:30Z"),
            ("2026-01-01T02:00:00+02:00", Some(1), "2026-01-01T00:00:01Z"),
            ("2026-01-01T00:00:00Z", Some(i64::MAX), "9999-12-30T22:00:00.999999999Z"),
            ("2026-01-01T00:00:00Z", Some(i64::MIN), "-009999-01-02T01:59:59Z"),
            ("yesterday", Some(30), "metadata.deletionTimestamp"),
        ];
        for (deleted, grace, expected) in table {
            let metadata = Metadata {
                deletion_timestamp: (!deleted.is_empty()).then(|| deleted.to_owned()),
                deletion_grace_period_seconds: grace,
                ..Metadata::default()
            };
            let ends = match metadata.grace_ends() {
                Ok(Some(ends)) => ends.to_string(),
                Ok(None) => "none".to_owned(),
                Err(error) => error.field,
            };
            assert_eq!(ends, expected, "{deleted} + {grace:?}");
        }
    }

    #[test]
    fn ids() {
        let uid = "0a1b2c3d-0000-4000-8000-00000000000f";
        assert_eq!(
            ObjectId::from_uid(uid),
            ObjectId(0x0a1b_2c3d_0000_4000_8000_0000_0000_000f)
        );
        assert_ne!(ObjectId::from_uid("a"), ObjectId::from_uid("b"));
        let named = |name: &str| {
            ObjectId::of(&Metadata {
                name: name.to_owned(),
                ..Metadata::default()
            })
        };
        assert_eq!(named("a"), named("a"));
        assert_ne!(named("a"), named("b"));
    }

    fn metadata(json: serde_json::Value) -> Metadata {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn null_is_the_default() {
        let json = json!({
            "name": null, "generateName": null, "namespace": null, "uid": null, "resourceVersion": null, "creationTimestamp": null,
            "deletionTimestamp": null, "deletionGracePeriodSeconds": null, "annotations": null, "ownerReferences": null,
            "labels": {"a": "b"}, "managedFields": [{}],
        });
        assert_eq!(metadata(json), Metadata::default());
    }

    #[test]
    fn all_fields() {
        let json = json!({
            "name": "n", "generateName": "g", "namespace": "ns", "uid": "u", "resourceVersion": "5", "creationTimestamp": "c",
            "deletionTimestamp": "d", "deletionGracePeriodSeconds": 30,
            "annotations": {"volume.beta.kubernetes.io/storage-class": "gold", "other": "x", "quota.kubequota.dev/last-charges": "w:1",
                "quota.kubequota.dev/enforced": "u pods"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o", "controller": true, "blockOwnerDeletion": true}],
        });
        let expected = Metadata {
            name: "n".to_owned(),
            generate_name: "g".to_owned(),
            namespace: "ns".to_owned(),
            uid: "u".to_owned(),
            resource_version: "5".to_owned(),
            creation_timestamp: "c".to_owned(),
            deletion_timestamp: Some("d".to_owned()),
            deletion_grace_period_seconds: Some(30),
            annotations: Annotations {
                storage_class: Some("gold".to_owned()),
                extended_resource_claim: None,
                last_charges: Some("w:1".to_owned()),
                enforced: Some("u pods".to_owned()),
            },
            owner_references: vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: "p".to_owned(),
                uid: "o".to_owned(),
                controller: Some(true),
            }],
        };
        assert_eq!(metadata(json), expected);
        assert_eq!(expected.display_name(), "ns/n");
        assert_eq!(
            Metadata {
                namespace: String::new(),
                ..expected
            }
            .display_name(),
            "n"
        );
    }

    #[test]
    fn annotations_that_are_empty_are_there() {
        let table = [
            (json!({}), None),
            (json!({"x": "y"}), None),
            (json!({"volume.beta.kubernetes.io/storage-class": ""}), Some("")),
            (json!({"volume.beta.kubernetes.io/storage-class": null}), Some("")),
        ];
        for (annotations, expected) in table {
            assert_eq!(
                metadata(json!({"annotations": annotations}))
                    .annotations
                    .storage_class
                    .as_deref(),
                expected
            );
        }
    }

    #[test]
    fn the_first_controller_counts() {
        let owner = |uid: &str, controller| json!({"uid": uid, "controller": controller});
        let table = [
            (vec![], None),
            (vec![owner("a", json!(null)), owner("b", json!(false))], None),
            (
                vec![
                    owner("a", json!(false)),
                    owner("b", json!(true)),
                    owner("c", json!(true)),
                ],
                Some("b"),
            ),
        ];
        for (owners, expected) in table {
            let metadata = metadata(json!({"ownerReferences": owners}));
            assert_eq!(metadata.controller().map(|owner| owner.uid.as_str()), expected);
        }
    }

    #[test]
    fn revisions() {
        assert!(Revision::parse("9") < Revision::parse("10"));
        for text in ["", "abc", "-1", "1.5", "18446744073709551616"] {
            assert_eq!(Revision::parse(text), None, "{text}");
        }
        assert_eq!(
            (Revision::parse("0"), Revision::from(7).to_string()),
            (Some(Revision::default()), "7".to_owned())
        );
    }
}
