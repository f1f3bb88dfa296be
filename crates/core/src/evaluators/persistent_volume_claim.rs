//! Persistent volume claims: how many, how much storage, and both by storage class.
//!
//! Follows `k8s.io/kubernetes/pkg/quota/v1/evaluator/core/persistent_volume_claims.go` (v1.37). Claims match the scope
//! VolumeAttributesClass and no other.

use std::sync::Arc;

use kubequota_quantity::Quantity;
use serde::Deserialize;

use super::{ResourceTexts, View, ViewKind, one, wrong_view};
use crate::evaluator::{Assessment, Charge, Context, Evaluator, GroupResource, Lookups, Operation, Request};
use crate::object::{FieldError, Metadata, or_default};
use crate::resource_list::{ResourceList, ResourceName};
use crate::scope::ScopeFacts;

const COUNT: ResourceName = ResourceName::from_static("count/persistentvolumeclaims");
const CLAIMS: ResourceName = ResourceName::from_static("persistentvolumeclaims");
const STORAGE: ResourceName = ResourceName::from_static("requests.storage");

/// Between a storage class and what is counted of it.
const CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

/// What quota sees of a persistent volume claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaimView {
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    storage_class_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    volume_attributes_class_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Resources {
    #[serde(deserialize_with = "or_default")]
    requests: ResourceTexts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "or_default")]
    allocated_resources: ResourceTexts,
    #[serde(deserialize_with = "or_default")]
    current_volume_attributes_class_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    modify_volume_status: ModifyVolumeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModifyVolumeStatus {
    #[serde(deserialize_with = "or_default")]
    target_volume_attributes_class_name: String,
}

impl PersistentVolumeClaimView {
    /// Requested storage, or what is allocated where that is larger, in whole bytes; `None` where the claim requests none.
    fn storage(&self) -> Result<Option<Quantity>, FieldError> {
        let Some(requested) = self.spec.resources.requests.get("storage", "spec.resources.requests")? else {
            return Ok(None);
        };
        // Both are rounded only after the comparison, and the comparison is with the rounded request, as upstream does it.
        let requested = requested.ceil();
        let allocated = self
            .status
            .allocated_resources
            .get("storage", "status.allocatedResources")?;
        Ok(Some(
            allocated
                .filter(|allocated| *allocated > requested)
                .map_or(requested, |allocated| allocated.ceil()),
        ))
    }

    fn attributes_classes(&self) -> ScopeFacts {
        let names = [
            self.spec.volume_attributes_class_name.as_deref(),
            self.status.current_volume_attributes_class_name.as_deref(),
            Some(
                self.status
                    .modify_volume_status
                    .target_volume_attributes_class_name
                    .as_str(),
            ),
        ];
        let mut classes: smallvec::SmallVec<[Arc<str>; 1]> = names
            .into_iter()
            .flatten()
            .filter(|name| !name.is_empty())
            .map(Arc::from)
            .collect();
        classes.sort_unstable();
        classes.dedup();
        ScopeFacts::PersistentVolumeClaim(classes)
    }
}

/// Charges persistent volume claims.
#[derive(Clone, Debug)]
pub struct PersistentVolumeClaimEvaluator(GroupResource);

impl Default for PersistentVolumeClaimEvaluator {
    fn default() -> Self {
        PersistentVolumeClaimEvaluator(GroupResource::core("persistentvolumeclaims"))
    }
}

impl Evaluator for PersistentVolumeClaimEvaluator {
    fn group_resource(&self) -> &GroupResource {
        &self.0
    }

    fn view_kind(&self) -> ViewKind {
        ViewKind::PersistentVolumeClaim
    }

    fn tracks(&self, name: &str, _: &dyn Lookups) -> bool {
        [COUNT, CLAIMS, STORAGE].iter().any(|own| own.as_str() == name)
            || [CLAIMS, STORAGE].iter().any(|own| {
                name.strip_suffix(own.as_str())
                    .is_some_and(|class| class.ends_with(CLASS_INFIX))
            })
    }

    fn assess(&self, metadata: &Metadata, view: &View, _: &Context<'_>) -> Result<Assessment, FieldError> {
        let View::PersistentVolumeClaim(claim) = view else {
            return Err(wrong_view("persistent volume claim"));
        };
        let annotated = metadata.annotations.storage_class.as_deref();
        let class = annotated
            .or(claim.spec.storage_class_name.as_deref())
            .filter(|class| !class.is_empty());

        let mut usage = ResourceList::new();
        usage.insert(COUNT, one());
        let mut charge = |name: ResourceName, value: Quantity| {
            if let Some(class) = class {
                usage.insert(ResourceName::from(format!("{class}{CLASS_INFIX}{name}")), value.clone());
            }
            usage.insert(name, value);
        };
        charge(CLAIMS, one());
        if let Some(storage) = claim.storage()? {
            charge(STORAGE, storage);
        }
        Ok(Charge {
            usage,
            spec_usage: None,
            scopes: claim.attributes_classes(),
        }
        .into())
    }

    fn reviewed(&self) -> &'static [(Operation, &'static str)] {
        &[
            (Operation::Create, ""),
            (Operation::Update, ""),
            (Operation::Update, "status"),
        ]
    }

    fn handles(&self, request: &Request<'_>) -> bool {
        match request.subresource {
            "" => matches!(request.operation, Operation::Create | Operation::Update),
            "status" => request.new.is_some() && request.old.is_some(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::evaluator::NoLookups;
    use crate::evaluators::testing::{charge, check_handled, check_tracked, problem, usage};

    fn evaluator() -> PersistentVolumeClaimEvaluator {
        PersistentVolumeClaimEvaluator::default()
    }

    #[test]
    fn storage() {
        // Requested, allocated, charged.
        let table = [
            (json!("10Gi"), json!(null), "10Gi"),
            (json!("5G"), json!("10G"), "10G"),
            (json!("10G"), json!("5G"), "10G"),
            (json!("1001m"), json!(null), "2"),
            (json!("0.5"), json!(null), "1"),
            (json!("1n"), json!(null), "1"),
            (json!("1.5Ki"), json!(null), "1536"),
            (json!(1024), json!(null), "1024"),
            // What is allocated is rounded too, and only where it is more than the rounded request.
            (json!("1"), json!("1500m"), "2"),
            (json!("1001m"), json!("1500m"), "2"),
            (json!("1001m"), json!("2001m"), "3"),
            (json!("0"), json!(null), "0"),
            (json!("0"), json!("1Gi"), "1Gi"),
            (json!(null), json!(null), "0"),
            (json!("-1500m"), json!(null), "-2"),
            // A whole number keeps its text.
            (json!("+5"), json!(null), "+5"),
            (json!("5"), json!("+5"), "5"),
        ];
        for (requested, allocated, expected) in table {
            let mut claim = json!({"spec": {"resources": {"requests": {"storage": requested}}}});
            if !allocated.is_null() {
                claim["status"] = json!({"allocatedResources": {"storage": allocated}});
            }
            let expected =
                format!("count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage={expected}");
            assert_eq!(usage(&evaluator(), &claim), expected, "{claim}");
        }
    }

    #[test]
    fn without_a_request_there_is_no_storage() {
        let bare: [Value; 7] = [
            json!({}),
            json!({"spec": null, "status": null}),
            json!({"spec": {"resources": null}}),
            json!({"spec": {"resources": {"requests": null, "limits": {"storage": "1Gi"}}}}),
            json!({"spec": {"resources": {"requests": {}}}, "status": {"allocatedResources": {"storage": "1Gi"}}}),
            json!({"spec": {"resources": {"requests": {"cpu": "1"}}}, "status": {"allocatedResources": null}}),
            json!({"spec": {"storageClassName": null}, "metadata": {"annotations": null}}),
        ];
        for claim in bare {
            assert_eq!(
                usage(&evaluator(), &claim),
                "count/persistentvolumeclaims=1,persistentvolumeclaims=1",
                "{claim}"
            );
        }
    }

    #[test]
    fn storage_class() {
        const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
        // The annotation, the field, the class.
        let table = [
            (json!({}), json!(null), ""),
            (json!({}), json!(""), ""),
            (json!({}), json!("gold"), "gold"),
            (json!({ANNOTATION: "old"}), json!(null), "old"),
            (json!({ANNOTATION: "old"}), json!("gold"), "old"),
            // An empty annotation is one.
            (json!({ANNOTATION: ""}), json!("gold"), ""),
            (json!({ANNOTATION: null}), json!("gold"), ""),
            (json!({"other": "old"}), json!("gold"), "gold"),
        ];
        for (annotations, field, class) in table {
            let claim = json!({
                "metadata": {"annotations": annotations},
                "spec": {"storageClassName": field, "resources": {"requests": {"storage": "1001m"}}},
            });
            let mut expected = "count/persistentvolumeclaims=1".to_owned();
            if !class.is_empty() {
                expected += &format!(",{class}.storageclass.storage.k8s.io/persistentvolumeclaims=1");
                expected += &format!(",{class}.storageclass.storage.k8s.io/requests.storage=2");
            }
            expected += ",persistentvolumeclaims=1,requests.storage=2";
            let mut names: Vec<&str> = expected.split(',').collect();
            names.sort_unstable();
            assert_eq!(usage(&evaluator(), &claim), names.join(","), "{claim}");
        }
    }

    #[test]
    fn a_class_without_a_request_counts_the_claim_alone() {
        let claim = json!({"spec": {"storageClassName": "gold"}});
        let expected = "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,persistentvolumeclaims=1";
        assert_eq!(usage(&evaluator(), &claim), expected);
    }

    #[test]
    fn volume_attributes_classes() {
        let table: [(Value, &[&str]); 7] = [
            (json!({}), &[]),
            (
                json!({"spec": {"volumeAttributesClassName": ""}, "status": {"modifyVolumeStatus": null}}),
                &[],
            ),
            (
                json!({"status": {"currentVolumeAttributesClassName": "", "modifyVolumeStatus": {}}}),
                &[],
            ),
            (json!({"spec": {"volumeAttributesClassName": "a"}}), &["a"]),
            (
                json!({"spec": {"volumeAttributesClassName": "b"}, "status": {"currentVolumeAttributesClassName": "a"}}),
                &["a", "b"],
            ),
            (
                json!({
                    "spec": {"volumeAttributesClassName": "c"},
                    "status": {
                        "currentVolumeAttributesClassName": "a",
                        "modifyVolumeStatus": {"targetVolumeAttributesClassName": "b", "status": "Pending"},
                    },
                }),
                &["a", "b", "c"],
            ),
            (
                json!({"spec": {"volumeAttributesClassName": "a"}, "status": {"currentVolumeAttributesClassName": "a"}}),
                &["a"],
            ),
        ];
        for (claim, classes) in table {
            let expected = ScopeFacts::PersistentVolumeClaim(classes.iter().map(|class| Arc::from(*class)).collect());
            assert_eq!(charge(&evaluator(), &claim).scopes, expected, "{claim}");
        }
    }

    #[test]
    fn bad_values_are_named() {
        let table = [
            (
                json!({"spec": {"resources": {"requests": {"storage": "1GB"}}}}),
                "spec.resources.requests[storage]: ",
            ),
            (
                json!({"spec": {"resources": {"requests": {"storage": [1]}}}}),
                "spec.resources.requests[storage]: a list is no quantity",
            ),
            (
                json!({"spec": {"resources": {"requests": {"storage": "1"}}}, "status": {"allocatedResources": {"storage": "?"}}}),
                "status.allocatedResources[storage]: ",
            ),
            (
                json!({"spec": {"storageClassName": 5}}),
                "object: invalid type: integer `5`",
            ),
        ];
        for (claim, expected) in table {
            let problem = problem(&evaluator(), &claim);
            assert!(problem.starts_with(expected), "{claim}: {problem}");
        }
        // What nobody looks at may be anything.
        usage(
            &evaluator(),
            &json!({"spec": {"resources": {"requests": {"cpu": "?"}}, "volumeMode": 5}}),
        );
    }

    #[test]
    fn tracked_names() {
        check_tracked(
            &evaluator(),
            &NoLookups,
            &[
                "persistentvolumeclaims",
                "count/persistentvolumeclaims",
                "requests.storage",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
                "gold.storageclass.storage.k8s.io/requests.storage",
                ".storageclass.storage.k8s.io/requests.storage",
                "a.storageclass.storage.k8s.io/b.storageclass.storage.k8s.io/requests.storage",
            ],
            &[
                "storage",
                "ephemeral-storage",
                "limits.storage",
                "bronze.storageclass.storage.k8s.io/storage",
                "gold.storage.k8s.io/requests.storage",
                "storageclass.storage.k8s.io/requests.storage",
                "gold.storageclass.storage.k8s.io/count/persistentvolumeclaims",
            ],
        );
    }

    #[test]
    fn handles_updates_of_status_too() {
        // Without both objects a status can't be judged.
        let of_the_object = [(Operation::Create, ""), (Operation::Update, "")];
        check_handled(&evaluator(), &of_the_object);
        let (of_the_status, reviewed) = ((Operation::Update, "status"), evaluator().reviewed());
        assert_eq!(reviewed, [of_the_object[0], of_the_object[1], of_the_status]);
        let charge = charge(&evaluator(), &json!({}));
        for (new, old) in [(true, true), (true, false), (false, true), (false, false)] {
            let request = Request {
                operation: Operation::Update,
                subresource: "status",
                new: new.then_some(&charge),
                old: old.then_some(&charge),
            };
            assert_eq!(evaluator().handles(&request), new && old, "{request:?}");
        }
    }
}
