//! Recount: what a quota's names come to, from all charges of its namespace.
//!
//! Follows `CalculateUsage` of `k8s.io/apiserver/pkg/quota/v1/resources.go` and `CalculateUsageStats` of `.../generic/evaluator.go`
//! (v1.37). The tools count this way; for the [`ledger`](crate::ledger), which keeps running sums, it is the oracle.

use kubequota_quantity::Quantity;

use crate::evaluator::Charge;
use crate::registry::{Feed, KindId};
use crate::resource_list::ResourceList;
use crate::scope::Selector;

/// The use of each name that `feed` tracks, zero where nothing counts: the sum over the charges that the selector matches.
#[must_use]
pub fn recount<'a>(
    feed: &Feed,
    selector: &Selector,
    charges: impl IntoIterator<Item = (KindId, &'a Charge)>,
) -> ResourceList {
    let mut used: ResourceList = feed
        .names()
        .iter()
        .map(|(name, _)| (name.clone(), Quantity::zero()))
        .collect();
    for (kind, charge) in charges {
        if feed.kinds().binary_search(&kind).is_ok() && selector.matches(&charge.scopes) {
            used.add_assign(&charge.usage.mask(|name| feed.tracks(name.as_str())));
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::evaluator::{GroupResource, NoLookups};
    use crate::evaluators::testing::{charge, resources};
    use crate::registry::Registry;
    use crate::resource_list::ResourceName;
    use crate::scope::{Operator, Requirement, Scope};

    /// A namespace with pods of two priorities, one of them finished, a service, a secret and a claim.
    fn namespace() -> (Registry, Vec<(KindId, Charge)>) {
        let registry = Registry::standard();
        let pod = |class: &str, cpu: &str, phase: &str| {
            let requests = json!({"requests": resources(cpu), "limits": resources(cpu)});
            json!({"spec": {"priorityClassName": class, "containers": [{"resources": requests}]}, "status": {"phase": phase}})
        };
        let objects = [
            ("pods", pod("hi", "cpu=1", "Running")),
            ("pods", pod("hi", "cpu=1", "Succeeded")),
            ("pods", pod("hi", "", "Failed")),
            ("pods", pod("lo", "cpu=500m", "Running")),
            ("services", json!({"spec": {"type": "NodePort", "ports": [{}, {}]}})),
            ("secrets", json!({})),
            (
                "persistentvolumeclaims",
                json!({"spec": {"volumeAttributesClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}}),
            ),
        ];
        let charged = objects.map(|(kind, object)| {
            let kind = registry.id(&GroupResource::core(kind)).unwrap();
            (kind, charge(&**registry.evaluator(kind), &object))
        });
        (registry, charged.into())
    }

    #[test]
    fn recounts() {
        let hi = || Requirement {
            scope: Scope::PriorityClass,
            operator: Operator::In,
            values: vec!["hi".to_owned()],
        };
        let listed = Requirement::listed;
        let table = [
            (
                "pods count/pods cpu limits.cpu",
                vec![],
                "count/pods=4,cpu=1500m,limits.cpu=1500m,pods=2",
            ),
            ("pods count/pods cpu", vec![hi()], "count/pods=3,cpu=1,pods=1"),
            (
                "pods count/pods cpu",
                vec![listed(Scope::PriorityClass), hi()],
                "count/pods=3,cpu=1,pods=1",
            ),
            (
                "pods count/pods",
                vec![listed(Scope::PriorityClass), listed(Scope::BestEffort), hi()],
                "count/pods=1,pods=0",
            ),
            // Nothing uses memory; nothing tracks foo.
            ("memory foo", vec![], "memory=0"),
            (
                "services services.nodeports services.loadbalancers",
                vec![],
                "services=1,services.loadbalancers=0,services.nodeports=2",
            ),
            // Kinds without the scope are tracked at zero.
            (
                "services secrets requests.storage pods",
                vec![listed(Scope::NotTerminating)],
                "pods=2,requests.storage=0,secrets=0,services=0",
            ),
            (
                "requests.storage pods",
                vec![listed(Scope::VolumeAttributesClass)],
                "pods=0,requests.storage=1Gi",
            ),
            ("", vec![], ""),
        ];
        let (registry, charges) = namespace();
        for (names, requirements, expected) in table {
            let names: Vec<ResourceName> = names.split_whitespace().map(ResourceName::from).collect();
            let feed = registry.feed(&names, &NoLookups, |_| true);
            let selector = Selector::new(requirements);
            let used = recount(&feed, &selector, charges.iter().map(|(kind, charge)| (*kind, charge)));
            assert_eq!(used.to_string(), expected, "{names:?} {selector:?}");
        }
    }

    /// As upstream has it, a kind that tracks any name of a quota feeds all of them.
    #[test]
    fn a_kind_feeds_every_tracked_name() {
        let registry = Registry::standard();
        let claims = registry
            .id(&GroupResource::parse("resourceclaims.resource.k8s.io"))
            .unwrap();
        let claim = json!({"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}]}}});
        let charge = charge(&**registry.evaluator(claims), &claim);
        let implied = "requests.deviceclass.resource.kubernetes.io/gpu";
        for (names, expected) in [
            // Without the device class claims don't track the name by itself.
            (vec![implied], "requests.deviceclass.resource.kubernetes.io/gpu=0"),
            (
                vec![implied, "count/resourceclaims.resource.k8s.io"],
                "count/resourceclaims.resource.k8s.io=1,requests.deviceclass.resource.kubernetes.io/gpu=2",
            ),
        ] {
            let names: Vec<ResourceName> = names.into_iter().map(ResourceName::from).collect();
            let feed = registry.feed(&names, &NoLookups, |_| true);
            assert_eq!(
                recount(&feed, &Selector::default(), [(claims, &charge)]).to_string(),
                expected
            );
        }
    }
}
