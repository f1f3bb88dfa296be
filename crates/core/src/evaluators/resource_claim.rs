//! Resource claims (`resource.k8s.io`): how many, and the devices they ask for by class.
//!
//! Follows `k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go` (v1.37, with extended resources). Claims match no scope.

use kubequota_quantity::Quantity;
use serde::Deserialize;

use super::{View, ViewKind, is_extended_request, one, wrong_view};
use crate::evaluator::{Assessment, Charge, Context, Evaluator, GroupResource, Lookups, Operation};
use crate::object::{FieldError, Metadata, or_default};
use crate::resource_list::{ResourceList, ResourceName};

const COUNT: ResourceName = ResourceName::from_static("count/resourceclaims.resource.k8s.io");
/// Behind a device class: the devices of it.
const DEVICES_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";
/// Before a device class: the same, as the extended resource it implies.
const IMPLICIT_PREFIX: &str = "requests.deviceclass.resource.kubernetes.io/";
const REQUESTS_PREFIX: &str = "requests.";
/// The most devices one claim can be given (upstream's `AllocationResultsMaxSize`): what "all" is charged, the worst case.
const MOST_DEVICES: i64 = 32;

/// What quota sees of a resource claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceClaimView {
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    devices: Devices,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Devices {
    #[serde(deserialize_with = "or_default")]
    requests: Vec<DeviceRequest>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceRequest {
    #[serde(deserialize_with = "or_default")]
    first_available: Vec<DeviceCount>,
    #[serde(deserialize_with = "or_default")]
    exactly: Option<DeviceCount>,
}

/// So many devices of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceCount {
    #[serde(deserialize_with = "or_default")]
    device_class_name: String,
    #[serde(deserialize_with = "or_default")]
    allocation_mode: String,
    #[serde(deserialize_with = "or_default")]
    count: i64,
}

impl DeviceCount {
    /// The devices of a mode that this version does not know are not counted, as upstream has it after a downgrade.
    fn most(&self) -> i64 {
        match self.allocation_mode.as_str() {
            "ExactCount" => self.count,
            "All" => MOST_DEVICES,
            _ => 0,
        }
    }
}

impl DeviceRequest {
    /// For each device class, the most devices that this request may be given. A class of a known mode is named even at zero.
    fn worst_case(&self) -> Vec<(&str, i64)> {
        if self.first_available.is_empty() {
            // Neither form: a kind of request from the future, which can't be counted.
            return self
                .exactly
                .iter()
                .map(|devices| (devices.device_class_name.as_str(), devices.most()))
                .collect();
        }
        let mut most: Vec<(&str, i64)> = Vec::new();
        for devices in self.first_available.iter().filter(|devices| devices.most() > 0) {
            match most.iter_mut().find(|(class, _)| *class == devices.device_class_name) {
                Some((_, count)) => *count = (*count).max(devices.most()),
                None => most.push((&devices.device_class_name, devices.most())),
            }
        }
        most
    }
}

impl ResourceClaimView {
    /// Devices by class, summed over the requests.
    fn devices(&self) -> ResourceList {
        let mut devices = ResourceList::new();
        for (class, count) in self.spec.devices.requests.iter().flat_map(DeviceRequest::worst_case) {
            let one_class = (ResourceName::from(class), Quantity::from(count));
            devices.add_assign(&std::iter::once(one_class).collect());
        }
        devices
    }
}

/// Charges resource claims.
#[derive(Clone, Debug)]
pub struct ResourceClaimEvaluator(GroupResource);

impl Default for ResourceClaimEvaluator {
    fn default() -> Self {
        ResourceClaimEvaluator(GroupResource::new("resource.k8s.io", "resourceclaims"))
    }
}

impl Evaluator for ResourceClaimEvaluator {
    fn group_resource(&self) -> &GroupResource {
        &self.0
    }

    fn view_kind(&self) -> ViewKind {
        ViewKind::ResourceClaim
    }

    fn tracks(&self, name: &str, lookups: &dyn Lookups) -> bool {
        let implied = || {
            name.strip_prefix(IMPLICIT_PREFIX)
                .is_some_and(|class| lookups.has_device_class(class))
        };
        let extended = || {
            is_extended_request(name)
                && name
                    .strip_prefix(REQUESTS_PREFIX)
                    .is_some_and(|name| lookups.is_extended_resource(name))
        };
        name == COUNT.as_str() || name.ends_with(DEVICES_SUFFIX) || implied() || extended()
    }

    fn assess(&self, metadata: &Metadata, view: &View, context: &Context<'_>) -> Result<Assessment, FieldError> {
        let View::ResourceClaim(claim) = view else {
            return Err(wrong_view("resource claim"));
        };
        let mut usage = ResourceList::new();
        usage.insert(COUNT, one());
        let mut extended = ResourceList::new();
        for (class, count) in claim.devices() {
            usage.insert(ResourceName::from(format!("{class}{DEVICES_SUFFIX}")), count.clone());
            if class.as_str().is_empty() {
                continue;
            }
            extended.insert(ResourceName::from(format!("{IMPLICIT_PREFIX}{class}")), count.clone());
            if let Some(name) = context.lookups.extended_resource(class.as_str()) {
                // Two classes may carry the same extended resource: both count. (Upstream keeps one of the two at random.)
                let name = ResourceName::from(format!("{REQUESTS_PREFIX}{name}"));
                extended.add_assign(&std::iter::once((name, count)).collect());
            }
        }
        // What the owning pod is charged under the same names is not charged twice.
        let owner = context.lookups.owner_usage(metadata);
        for (name, mut count) in extended {
            if let Some(charged) = owner.and_then(|usage| usage.get(name.as_str())) {
                count -= charged;
            }
            if !count.is_zero() && !count.is_negative() {
                usage.insert(name, count);
            }
        }
        Ok(Charge {
            usage,
            ..Charge::default()
        }
        .into())
    }

    fn reviewed(&self) -> &'static [(Operation, &'static str)] {
        &[(Operation::Create, ""), (Operation::Update, "")]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::evaluator::NoLookups;
    use crate::evaluators::testing::{assess_with, charge, check_handled, check_tracked, problem, usage};
    use crate::scope::ScopeFacts;

    fn evaluator() -> ResourceClaimEvaluator {
        ResourceClaimEvaluator::default()
    }

    fn exactly(class: &str, mode: &str, count: i64) -> Value {
        json!({"name": "r", "exactly": {"deviceClassName": class, "allocationMode": mode, "count": count}})
    }

    fn first_available(requests: &[(&str, &str, i64)]) -> Value {
        let requests: Vec<Value> = requests
            .iter()
            .map(|(class, mode, count)| json!({"name": "s", "deviceClassName": class, "allocationMode": mode, "count": count}))
            .collect();
        json!({"name": "r", "firstAvailable": requests})
    }

    fn claim(requests: &[Value]) -> Value {
        json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}})
    }

    /// `gpu=1` is one device of the class gpu, under both names it always has.
    fn devices(text: &str) -> String {
        let mut names = vec!["count/resourceclaims.resource.k8s.io=1".to_owned()];
        for (class, count) in text.split_whitespace().map(|pair| pair.split_once('=').unwrap()) {
            names.push(format!("{class}.deviceclass.resource.k8s.io/devices={count}"));
            if !class.is_empty() && !count.starts_with(['-', '0']) {
                names.push(format!("requests.deviceclass.resource.kubernetes.io/{class}={count}"));
            }
        }
        names.sort_unstable();
        names.join(",")
    }

    #[test]
    fn devices_by_class() {
        let table = [
            (vec![], ""),
            (vec![exactly("gpu", "ExactCount", 1)], "gpu=1"),
            (vec![exactly("gpu", "ExactCount", 5)], "gpu=5"),
            (vec![exactly("gpu", "ExactCount", 1); 5], "gpu=5"),
            (vec![exactly("gpu", "All", 0)], "gpu=32"),
            (vec![exactly("gpu", "All", 100)], "gpu=32"),
            (vec![exactly("gpu", "Future", 7)], "gpu=0"),
            (vec![exactly("gpu", "", 7)], "gpu=0"),
            (
                vec![exactly("gpu", "ExactCount", 2), exactly("tpu", "All", 1)],
                "gpu=2 tpu=32",
            ),
            // Nobody may have negative counts; they are summed all the same.
            (vec![exactly("gpu", "ExactCount", -1)], "gpu=-1"),
            (
                vec![exactly("gpu", "ExactCount", -1), exactly("gpu", "ExactCount", 3)],
                "gpu=2",
            ),
            (
                vec![exactly("gpu", "ExactCount", i64::MAX); 2],
                "gpu=18446744073709551614",
            ),
            // A class without a name implies no extended resource.
            (vec![exactly("", "ExactCount", 1)], "=1"),
            // Of alternatives, the most for each class.
            (vec![first_available(&[("gpu", "ExactCount", 1)])], "gpu=1"),
            (
                vec![first_available(&[("gpu", "ExactCount", 2), ("gpu", "ExactCount", 1)])],
                "gpu=2",
            ),
            (
                vec![first_available(&[("gpu", "ExactCount", 1), ("gpu", "All", 0)])],
                "gpu=32",
            ),
            (
                vec![first_available(&[("gpu", "ExactCount", 1), ("tpu", "All", 0)])],
                "gpu=1 tpu=32",
            ),
            (
                vec![first_available(&[
                    ("gpu", "Future", 9),
                    ("gpu", "ExactCount", 0),
                    ("gpu", "ExactCount", -1),
                ])],
                "",
            ),
            (
                vec![
                    first_available(&[("gpu", "ExactCount", 2)]),
                    first_available(&[("gpu", "ExactCount", 3)]),
                ],
                "gpu=5",
            ),
            (
                vec![first_available(&[("gpu", "ExactCount", 2)]), exactly("gpu", "All", 0)],
                "gpu=34",
            ),
            (vec![json!({"name": "future"})], ""),
            (vec![json!({"name": "r", "exactly": null, "firstAvailable": null})], ""),
        ];
        for (requests, expected) in table {
            let claim = claim(&requests);
            assert_eq!(usage(&evaluator(), &claim), devices(expected), "{claim}");
        }
        // Both forms at once are no valid request: alternatives are looked at first, where there are any.
        let mut both = exactly("gpu", "ExactCount", 1);
        both["firstAvailable"] = json!([]);
        assert_eq!(usage(&evaluator(), &claim(&[both.clone()])), devices("gpu=1"));
        both["firstAvailable"] = json!([{"deviceClassName": "tpu", "allocationMode": "All"}]);
        assert_eq!(usage(&evaluator(), &claim(&[both])), devices("tpu=32"));
        // Administrators are not exempt.
        let mut admin = exactly("gpu", "ExactCount", 1);
        admin["exactly"]["adminAccess"] = json!(true);
        assert_eq!(usage(&evaluator(), &claim(&[admin])), devices("gpu=1"));
    }

    #[test]
    fn a_bare_claim() {
        for bare in [
            json!({}),
            json!({"spec": null}),
            json!({"spec": {"devices": null}}),
            json!({"spec": {"devices": {"requests": null}}}),
        ] {
            let charge = charge(&evaluator(), &bare);
            assert_eq!(charge.usage.to_string(), devices(""), "{bare}");
            assert_eq!((charge.spec_usage, charge.scopes), (None, ScopeFacts::None));
        }
    }

    #[test]
    fn wrong_types() {
        let claim = claim(&[json!({"exactly": {"count": "5"}})]);
        assert!(problem(&evaluator(), &claim).contains("expected i64"));
    }

    /// Class gpu and class vgpu carry example.com/gpu, class npu carries example.com/npu, class tpu nothing.
    #[derive(Default)]
    struct Classes {
        owner: ResourceList,
    }

    impl Lookups for Classes {
        fn has_device_class(&self, name: &str) -> bool {
            ["gpu", "vgpu", "npu", "tpu"].contains(&name)
        }

        fn extended_resource(&self, device_class: &str) -> Option<&str> {
            match device_class {
                "gpu" | "vgpu" => Some("example.com/gpu"),
                "npu" => Some("example.com/npu"),
                _ => None,
            }
        }

        fn is_extended_resource(&self, name: &str) -> bool {
            ["example.com/gpu", "example.com/npu"].contains(&name)
        }

        fn owner_usage(&self, _: &Metadata) -> Option<&ResourceList> {
            (!self.owner.is_empty()).then_some(&self.owner)
        }
    }

    #[test]
    fn extended_resources() {
        let gpu = "requests.example.com/gpu";
        let implied = |class: &str| format!("requests.deviceclass.resource.kubernetes.io/{class}");
        let table = [
            (
                vec![exactly("gpu", "ExactCount", 2)],
                vec![],
                vec![(gpu.to_owned(), 2), (implied("gpu"), 2)],
            ),
            (vec![exactly("tpu", "ExactCount", 2)], vec![], vec![(implied("tpu"), 2)]),
            (
                vec![exactly("none", "ExactCount", 2)],
                vec![],
                vec![(implied("none"), 2)],
            ),
            (
                vec![exactly("gpu", "ExactCount", 2), exactly("vgpu", "ExactCount", 3)],
                vec![],
                vec![(gpu.to_owned(), 5), (implied("gpu"), 2), (implied("vgpu"), 3)],
            ),
            // What the owning pod is charged under these names is left out.
            (
                vec![exactly("gpu", "ExactCount", 2)],
                vec![(gpu.to_owned(), 1), (implied("gpu"), 1)],
                vec![(gpu.to_owned(), 1), (implied("gpu"), 1)],
            ),
            (
                vec![exactly("gpu", "ExactCount", 1)],
                vec![(gpu.to_owned(), 1)],
                vec![(implied("gpu"), 1)],
            ),
            (
                vec![exactly("gpu", "ExactCount", 1)],
                vec![(gpu.to_owned(), 3), (implied("gpu"), 1)],
                vec![],
            ),
            (
                vec![exactly("gpu", "ExactCount", 1)],
                vec![("requests.cpu".to_owned(), 9)],
                vec![(gpu.to_owned(), 1), (implied("gpu"), 1)],
            ),
        ];
        let list = |pairs: Vec<(String, i64)>| -> ResourceList {
            pairs
                .into_iter()
                .map(|(name, count)| (ResourceName::from(name), Quantity::from(count)))
                .collect()
        };
        for (requests, owner, expected) in table {
            let claim = claim(&requests);
            let lookups = Classes {
                owner: list(owner.clone()),
            };
            let usage = assess_with(&evaluator(), &claim, &lookups).unwrap().charge.usage;
            // The device names are charged in full, whoever owns the claim.
            for request in &requests {
                let devices = format!(
                    "{}{DEVICES_SUFFIX}",
                    request["exactly"]["deviceClassName"].as_str().unwrap()
                );
                assert_eq!(
                    usage.get(&devices),
                    Some(&Quantity::from(request["exactly"]["count"].as_i64().unwrap()))
                );
            }
            assert_eq!(
                usage.mask(|name| name.as_str().starts_with(REQUESTS_PREFIX)),
                list(expected),
                "{claim} with {owner:?}"
            );
        }
    }

    #[test]
    fn tracked_names() {
        let always = [
            "count/resourceclaims.resource.k8s.io",
            "gpu.deviceclass.resource.k8s.io/devices",
            "none.deviceclass.resource.k8s.io/devices",
            ".deviceclass.resource.k8s.io/devices",
        ];
        let by_class = [
            "requests.example.com/gpu",
            "requests.deviceclass.resource.kubernetes.io/gpu",
            // A class implies its name even where it carries no other.
            "requests.deviceclass.resource.kubernetes.io/tpu",
        ];
        let never = [
            "resourceclaims",
            "count/resourceclaims",
            "storage",
            "bronze.deviceclass.resource.k8s.io/storage",
            "gpu.storage.k8s.io/requests.storage",
            "example.com/gpu",
            "requests.example.com/tpu",
            "requests.deviceclass.resource.kubernetes.io/none",
            "requests.deviceclass.resource.kubernetes.io/",
        ];
        check_tracked(
            &evaluator(),
            &Classes::default(),
            &[always.as_slice(), by_class.as_slice()].concat(),
            &never,
        );
        check_tracked(
            &evaluator(),
            &NoLookups,
            &always,
            &[by_class.as_slice(), never.as_slice()].concat(),
        );
    }

    #[test]
    fn handles_creations_and_updates() {
        check_handled(&evaluator(), &[(Operation::Create, ""), (Operation::Update, "")]);
    }
}
