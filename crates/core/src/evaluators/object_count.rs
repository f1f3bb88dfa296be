//! Kinds that are only counted: `count/RESOURCE.GROUP`, and for four kinds of the core API an older alias.
//!
//! Follows `k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go` (v1.37). These objects match no scope.

use super::{View, ViewKind, one};
use crate::evaluator::{Assessment, Charge, Context, Evaluator, GroupResource, Lookups, Operation};
use crate::object::{FieldError, Metadata};
use crate::resource_list::ResourceName;

/// Kinds of the core API that quotas counted, under their plain names, before `count/` existed.
pub const COUNT_ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// Counts the stored objects of a kind.
#[derive(Clone, Debug)]
pub struct ObjectCountEvaluator {
    group_resource: GroupResource,
    names: Vec<ResourceName>,
}

impl ObjectCountEvaluator {
    /// An evaluator for any kind.
    #[must_use]
    pub fn new(group_resource: GroupResource) -> Self {
        let alias = COUNT_ALIASES
            .into_iter()
            .find(|alias| group_resource.group.is_empty() && *alias == &*group_resource.resource);
        let names = std::iter::once(group_resource.count_name())
            .chain(alias.map(ResourceName::from_static))
            .collect();
        ObjectCountEvaluator { group_resource, names }
    }
}

impl Evaluator for ObjectCountEvaluator {
    fn group_resource(&self) -> &GroupResource {
        &self.group_resource
    }

    fn view_kind(&self) -> ViewKind {
        ViewKind::Counted
    }

    fn tracks(&self, name: &str, _: &dyn Lookups) -> bool {
        self.names.iter().any(|own| own.as_str() == name)
    }

    fn assess(&self, _: &Metadata, _: &View, _: &Context<'_>) -> Result<Assessment, FieldError> {
        let usage = self.names.iter().map(|name| (name.clone(), one())).collect();
        Ok(Charge {
            usage,
            ..Charge::default()
        }
        .into())
    }

    fn reviewed(&self) -> &'static [(Operation, &'static str)] {
        &[(Operation::Create, "")]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::evaluator::NoLookups;
    use crate::evaluators::testing::{charge, check_handled, check_tracked};
    use crate::scope::ScopeFacts;

    #[test]
    fn counts_by_name_and_alias() {
        let table = [
            ("configmaps", "configmaps=1,count/configmaps=1"),
            ("secrets", "count/secrets=1,secrets=1"),
            ("resourcequotas", "count/resourcequotas=1,resourcequotas=1"),
            (
                "replicationcontrollers",
                "count/replicationcontrollers=1,replicationcontrollers=1",
            ),
            ("serviceaccounts", "count/serviceaccounts=1"),
            ("deployments.apps", "count/deployments.apps=1"),
            // Only the core API's have an alias.
            ("secrets.example.com", "count/secrets.example.com=1"),
            ("widgets.a.b.example.com", "count/widgets.a.b.example.com=1"),
        ];
        for (kind, expected) in table {
            let evaluator = ObjectCountEvaluator::new(GroupResource::parse(kind));
            let charge = charge(&evaluator, &json!({"metadata": {"name": "a"}, "spec": 5}));
            assert_eq!(charge.usage.to_string(), expected);
            assert_eq!((charge.spec_usage, charge.scopes), (None, ScopeFacts::None));
        }
    }

    #[test]
    fn tracks_its_own_names() {
        let secrets = ObjectCountEvaluator::new(GroupResource::core("secrets"));
        check_tracked(
            &secrets,
            &NoLookups,
            &["secrets", "count/secrets"],
            &["count/secrets.", "configmaps", "count/", "", "Secrets"],
        );
        let deployments = ObjectCountEvaluator::new(GroupResource::parse("deployments.apps"));
        check_tracked(
            &deployments,
            &NoLookups,
            &["count/deployments.apps"],
            &["deployments.apps", "deployments", "count/deployments"],
        );
    }

    #[test]
    fn handles_creations() {
        check_handled(
            &ObjectCountEvaluator::new(GroupResource::core("secrets")),
            &[(Operation::Create, "")],
        );
    }
}
