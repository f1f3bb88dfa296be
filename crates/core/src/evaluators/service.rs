//! Services: `services`, `services.loadbalancers`, `services.nodeports`, `count/services`.
//!
//! Follows `k8s.io/kubernetes/pkg/quota/v1/evaluator/core/services.go` (v1.37). Services match no scope.

use kubequota_quantity::Quantity;
use serde::Deserialize;

use super::{View, ViewKind, one, wrong_view};
use crate::evaluator::{Assessment, Charge, Context, Evaluator, GroupResource, Lookups, Operation};
use crate::object::{FieldError, Metadata, or_default};
use crate::resource_list::ResourceName;

const COUNT: ResourceName = ResourceName::from_static("count/services");
const SERVICES: ResourceName = ResourceName::from_static("services");
const LOAD_BALANCERS: ResourceName = ResourceName::from_static("services.loadbalancers");
const NODE_PORTS: ResourceName = ResourceName::from_static("services.nodeports");

/// What quota sees of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceView {
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    r#type: String,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<Port>,
    #[serde(deserialize_with = "or_default")]
    allocate_load_balancer_node_ports: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    #[serde(deserialize_with = "or_default")]
    node_port: i64,
}

/// Charges services.
#[derive(Clone, Debug)]
pub struct ServiceEvaluator(GroupResource);

impl Default for ServiceEvaluator {
    fn default() -> Self {
        ServiceEvaluator(GroupResource::core("services"))
    }
}

impl ServiceView {
    /// Node ports by intent: they are counted before the server allocates them.
    fn node_ports(&self) -> usize {
        let ports = &self.spec.ports;
        match self.spec.r#type.as_str() {
            "LoadBalancer" if self.spec.allocate_load_balancer_node_ports == Some(false) => {
                ports.iter().filter(|port| port.node_port != 0).count()
            }
            "LoadBalancer" | "NodePort" => ports.len(),
            _ => 0,
        }
    }
}

impl Evaluator for ServiceEvaluator {
    fn group_resource(&self) -> &GroupResource {
        &self.0
    }

    fn view_kind(&self) -> ViewKind {
        ViewKind::Service
    }

    fn tracks(&self, name: &str, _: &dyn Lookups) -> bool {
        [COUNT, SERVICES, LOAD_BALANCERS, NODE_PORTS]
            .iter()
            .any(|own| own.as_str() == name)
    }

    fn assess(&self, _: &Metadata, view: &View, _: &Context<'_>) -> Result<Assessment, FieldError> {
        let View::Service(service) = view else {
            return Err(wrong_view("service"));
        };
        let load_balancers = i64::from(service.spec.r#type == "LoadBalancer");
        let node_ports = i64::try_from(service.node_ports()).unwrap_or(i64::MAX);
        let usage = [
            (COUNT, one()),
            (SERVICES, one()),
            (LOAD_BALANCERS, Quantity::from(load_balancers)),
            (NODE_PORTS, Quantity::from(node_ports)),
        ];
        Ok(Charge {
            usage: usage.into_iter().collect(),
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
    use crate::evaluators::testing::{charge, check_handled, check_tracked, problem, usage};
    use crate::scope::ScopeFacts;

    #[test]
    fn load_balancers_and_node_ports() {
        // How many node ports each type comes to with three ports of which one is explicit, by allocateLoadBalancerNodePorts.
        let table = [
            (json!("ClusterIP"), [0, 0, 0], 0),
            (json!("ExternalName"), [0, 0, 0], 0),
            (json!(""), [0, 0, 0], 0),
            (json!(null), [0, 0, 0], 0),
            (json!("Future"), [0, 0, 0], 0),
            (json!("NodePort"), [3, 3, 3], 0),
            (json!("LoadBalancer"), [3, 3, 1], 1),
        ];
        for (kind, node_ports, load_balancers) in table {
            for (allocate, node_ports) in [json!(null), json!(true), json!(false)].into_iter().zip(node_ports) {
                let service = json!({"spec": {
                    "type": kind,
                    "allocateLoadBalancerNodePorts": allocate,
                    "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}, {"port": 3, "nodePort": 0}],
                }});
                let expected = format!(
                    "count/services=1,services=1,services.loadbalancers={load_balancers},services.nodeports={node_ports}"
                );
                assert_eq!(usage(&ServiceEvaluator::default(), &service), expected, "{service}");
            }
        }
    }

    #[test]
    fn a_bare_service() {
        let bare: [Value; 5] = [
            json!({}),
            json!({"spec": null}),
            json!({"spec": {}}),
            json!({"spec": {"type": "LoadBalancer", "ports": null}}),
            json!({"spec": {"type": "NodePort", "ports": []}}),
        ];
        for (service, load_balancers) in bare.iter().zip([0, 0, 0, 1, 0]) {
            let charge = charge(&ServiceEvaluator::default(), service);
            let expected =
                format!("count/services=1,services=1,services.loadbalancers={load_balancers},services.nodeports=0");
            assert_eq!(charge.usage.to_string(), expected, "{service}");
            assert_eq!((charge.spec_usage, charge.scopes), (None, ScopeFacts::None));
        }
    }

    #[test]
    fn wrong_types() {
        let service = json!({"spec": {"type": "NodePort", "ports": {"port": 1}}});
        assert!(problem(&ServiceEvaluator::default(), &service).contains("expected a sequence"));
    }

    #[test]
    fn tracked_names() {
        check_tracked(
            &ServiceEvaluator::default(),
            &NoLookups,
            &[
                "services",
                "count/services",
                "services.loadbalancers",
                "services.nodeports",
            ],
            &["services.clusterips", "count/services.loadbalancers", "pods", ""],
        );
    }

    #[test]
    fn handles_creations_and_updates() {
        check_handled(
            &ServiceEvaluator::default(),
            &[(Operation::Create, ""), (Operation::Update, "")],
        );
    }
}
