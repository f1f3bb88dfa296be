//! The registry: which evaluator knows which kind, and which kinds a quota's names are fed by.
//!
//! Follows `k8s.io/apiserver/pkg/quota/v1/generic/registry.go` and `k8s.io/kubernetes/pkg/quota/v1/install` (v1.37).

use std::sync::Arc;

use hashbrown::HashMap;

use crate::evaluator::{Evaluator, GroupResource, Lookups};
use crate::evaluators::{
    COUNT_ALIASES, ObjectCountEvaluator, PersistentVolumeClaimEvaluator, PodEvaluator, ResourceClaimEvaluator,
    ServiceEvaluator,
};
use crate::resource_list::ResourceName;

/// Resources that are never counted: those that are not stored, and events.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// A kind's number in one registry: small, so that it can be kept with every object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(u16);

/// The evaluators, by kind.
#[derive(Clone, Debug)]
pub struct Registry {
    evaluators: Vec<Arc<dyn Evaluator>>,
    ids: HashMap<GroupResource, KindId>,
}

impl Registry {
    /// The evaluators that do more than count, and the counters that have an alias. An API that a server lacks is simply never fed.
    #[must_use]
    pub fn standard() -> Self {
        let mut registry = Registry {
            evaluators: Vec::new(),
            ids: HashMap::new(),
        };
        registry.add(Arc::new(PodEvaluator::default()));
        registry.add(Arc::new(ServiceEvaluator::default()));
        registry.add(Arc::new(PersistentVolumeClaimEvaluator::default()));
        registry.add(Arc::new(ResourceClaimEvaluator::default()));
        for alias in COUNT_ALIASES {
            registry.add(Arc::new(ObjectCountEvaluator::new(GroupResource::core(alias))));
        }
        registry
    }

    fn add(&mut self, evaluator: Arc<dyn Evaluator>) -> Option<KindId> {
        let id = KindId(u16::try_from(self.evaluators.len()).ok()?);
        self.ids.insert(evaluator.group_resource().clone(), id);
        self.evaluators.push(evaluator);
        Some(id)
    }

    /// The id of `kind`, which from now on is counted if it was not known before. `None` for what is never counted (and beyond 65,536
    /// kinds).
    pub fn ensure(&mut self, kind: &GroupResource) -> Option<KindId> {
        if let Some(id) = self.ids.get(kind) {
            return Some(*id);
        }
        if Self::ignores(kind) {
            return None;
        }
        self.add(Arc::new(ObjectCountEvaluator::new(kind.clone())))
    }

    /// Whether `kind` is never counted.
    #[must_use]
    pub fn ignores(kind: &GroupResource) -> bool {
        IGNORED
            .iter()
            .any(|(group, resource)| *group == &*kind.group && *resource == &*kind.resource)
    }

    /// The id of a known kind.
    #[must_use]
    pub fn id(&self, kind: &GroupResource) -> Option<KindId> {
        self.ids.get(kind).copied()
    }

    /// The evaluator with this id.
    #[must_use]
    pub fn evaluator(&self, id: KindId) -> &Arc<dyn Evaluator> {
        &self.evaluators[usize::from(id.0)]
    }

    /// The evaluator of a known kind.
    #[must_use]
    pub fn get(&self, kind: &GroupResource) -> Option<&Arc<dyn Evaluator>> {
        self.id(kind).map(|id| self.evaluator(id))
    }

    /// All ids with their evaluators.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &Arc<dyn Evaluator>)> {
        self.evaluators
            .iter()
            .zip(0..)
            .map(|(evaluator, number)| (KindId(number), evaluator))
    }

    /// The kinds that count objects under `name`; none where nothing tracks it.
    #[must_use]
    pub fn tracking(&self, name: &str, lookups: &dyn Lookups) -> Vec<KindId> {
        self.iter()
            .filter(|(_, evaluator)| evaluator.tracks(name, lookups))
            .map(|(id, _)| id)
            .collect()
    }

    /// What a quota over `names` has to do with each kind of those that `served` says yes to.
    #[must_use]
    pub fn feed<'a>(
        &self,
        names: impl IntoIterator<Item = &'a ResourceName>,
        lookups: &dyn Lookups,
        served: impl Fn(KindId) -> bool,
    ) -> Feed {
        let mut feed = Feed::default();
        for name in names {
            let mut kinds = self.tracking(name.as_str(), lookups);
            kinds.retain(|kind| served(*kind));
            if !kinds.is_empty() {
                feed.names.push((name.clone(), kinds));
            }
        }
        feed.names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        feed.kinds = feed.names.iter().flat_map(|(_, kinds)| kinds.iter().copied()).collect();
        feed.kinds.sort_unstable();
        feed.kinds.dedup();
        feed
    }
}

/// Which names of a quota are tracked, and by which kinds.
///
/// As upstream has it (`CalculateUsage`), a kind that tracks any of the names feeds all of them: its objects' whole usage is taken,
/// cut to the tracked names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    names: Vec<(ResourceName, Vec<KindId>)>,
    kinds: Vec<KindId>,
}

impl Feed {
    /// The tracked names, sorted, each with the kinds that track it.
    #[must_use]
    pub fn names(&self) -> &[(ResourceName, Vec<KindId>)] {
        &self.names
    }

    /// The kinds that track at least one name, sorted.
    #[must_use]
    pub fn kinds(&self) -> &[KindId] {
        &self.kinds
    }

    /// Whether `name` is tracked.
    #[must_use]
    pub fn tracks(&self, name: &str) -> bool {
        self.names.binary_search_by(|(own, _)| own.as_str().cmp(name)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluator::NoLookups;
    use crate::object::Metadata;
    use crate::resource_list::ResourceList;

    fn names(text: &str) -> Vec<ResourceName> {
        text.split_whitespace().map(ResourceName::from).collect()
    }

    fn id(registry: &Registry, kind: &str) -> KindId {
        registry.id(&GroupResource::parse(kind)).unwrap()
    }

    /// The tracked names, and the kinds that feed them.
    fn feed(registry: &Registry, text: &str, lookups: &dyn Lookups) -> (String, String) {
        let feed = registry.feed(&names(text), lookups, |_| true);
        let tracked: Vec<&str> = feed.names().iter().map(|(name, _)| name.as_str()).collect();
        let kinds: Vec<String> = feed
            .kinds()
            .iter()
            .map(|id| registry.evaluator(*id).group_resource().to_string())
            .collect();
        (tracked.join(" "), kinds.join(" "))
    }

    #[test]
    fn group_resources() {
        let table = [
            ("pods", "", "pods", "count/pods"),
            ("deployments.apps", "apps", "deployments", "count/deployments.apps"),
            ("a.b.c", "b.c", "a", "count/a.b.c"),
        ];
        for (text, group, resource, count) in table {
            let kind = GroupResource::parse(text);
            assert_eq!(kind, GroupResource::new(group, resource));
            assert_eq!((kind.to_string(), kind.count_name().as_str()), (text.to_owned(), count));
            assert_eq!(GroupResource::counted_under(count), Some(kind));
            assert_eq!(GroupResource::counted_under(text), None);
        }
    }

    #[test]
    fn ignored_kinds() {
        let ignored = [
            "bindings",
            "componentstatuses",
            "events",
            "events.events.k8s.io",
            "tokenreviews.authentication.k8s.io",
            "selfsubjectreviews.authentication.k8s.io",
            "subjectaccessreviews.authorization.k8s.io",
            "selfsubjectaccessreviews.authorization.k8s.io",
            "localsubjectaccessreviews.authorization.k8s.io",
            "selfsubjectrulesreviews.authorization.k8s.io",
        ];
        let mut registry = Registry::standard();
        for kind in ignored.map(GroupResource::parse) {
            assert!(Registry::ignores(&kind), "{kind}");
            assert_eq!(registry.ensure(&kind), None, "{kind}");
            assert!(
                registry.tracking(kind.count_name().as_str(), &NoLookups).is_empty(),
                "{kind}"
            );
        }
        for kind in [
            "pods",
            "events.example.com",
            "bindings.example.com",
            "tokenreviews",
            "leases.coordination.k8s.io",
        ]
        .map(GroupResource::parse)
        {
            assert!(!Registry::ignores(&kind), "{kind}");
            assert!(registry.ensure(&kind).is_some(), "{kind}");
        }
    }

    #[test]
    fn standard_kinds_and_those_met_later() {
        let mut registry = Registry::standard();
        let standard = [
            "pods",
            "services",
            "persistentvolumeclaims",
            "resourceclaims.resource.k8s.io",
            "configmaps",
            "resourcequotas",
            "replicationcontrollers",
            "secrets",
        ];
        assert_eq!(
            registry
                .iter()
                .map(|(_, evaluator)| evaluator.group_resource().to_string())
                .collect::<Vec<_>>(),
            standard
        );
        for (id, evaluator) in registry.iter() {
            assert_eq!(registry.id(evaluator.group_resource()), Some(id));
        }
        let deployments = GroupResource::parse("deployments.apps");
        assert!(registry.get(&deployments).is_none());
        let id = registry.ensure(&deployments).unwrap();
        assert_eq!(registry.ensure(&deployments), Some(id));
        assert_eq!(
            registry.ensure(&GroupResource::core("pods")),
            registry.id(&GroupResource::core("pods"))
        );
        assert_eq!(registry.get(&deployments).unwrap().group_resource(), &deployments);
        assert_eq!(registry.tracking("count/deployments.apps", &NoLookups), [id]);
    }

    #[test]
    fn feeds() {
        let mut registry = Registry::standard();
        registry.ensure(&GroupResource::parse("deployments.apps"));
        let table = [
            ("", "", ""),
            ("pods requests.cpu", "pods requests.cpu", "pods"),
            ("secrets count/secrets", "count/secrets secrets", "secrets"),
            (
                "services.nodeports persistentvolumeclaims",
                "persistentvolumeclaims services.nodeports",
                "services persistentvolumeclaims",
            ),
            (
                "count/deployments.apps count/replicasets.apps",
                "count/deployments.apps",
                "deployments.apps",
            ),
            ("foo limits.foo count/deployments", "", ""),
            (
                "gpu.deviceclass.resource.k8s.io/devices",
                "gpu.deviceclass.resource.k8s.io/devices",
                "resourceclaims.resource.k8s.io",
            ),
            ("requests.example.com/gpu", "requests.example.com/gpu", "pods"),
        ];
        for (quota, tracked, kinds) in table {
            assert_eq!(
                feed(&registry, quota, &NoLookups),
                (tracked.to_owned(), kinds.to_owned()),
                "{quota}"
            );
        }
    }

    /// One class, gpu, which carries example.com/gpu.
    struct OneClass;

    impl Lookups for OneClass {
        fn has_device_class(&self, name: &str) -> bool {
            name == "gpu"
        }

        fn extended_resource(&self, device_class: &str) -> Option<&str> {
            (device_class == "gpu").then_some("example.com/gpu")
        }

        fn is_extended_resource(&self, name: &str) -> bool {
            name == "example.com/gpu"
        }

        fn owner_usage(&self, _: &Metadata) -> Option<&ResourceList> {
            None
        }
    }

    #[test]
    fn two_kinds_may_track_one_name() {
        let registry = Registry::standard();
        let (pods, claims) = (id(&registry, "pods"), id(&registry, "resourceclaims.resource.k8s.io"));
        for name in [
            "requests.example.com/gpu",
            "requests.deviceclass.resource.kubernetes.io/gpu",
        ] {
            assert_eq!(registry.tracking(name, &OneClass), [pods, claims], "{name}");
            assert_eq!(registry.tracking(name, &NoLookups), [pods], "{name}");
        }
        let feed = registry.feed(&names("requests.example.com/gpu pods"), &OneClass, |_| true);
        assert_eq!(
            feed.names(),
            [
                ("pods".into(), vec![pods]),
                ("requests.example.com/gpu".into(), vec![pods, claims])
            ]
        );
        assert_eq!(feed.kinds(), [pods, claims]);
        assert!(feed.tracks("pods") && !feed.tracks("cpu"));
    }

    #[test]
    fn kinds_that_are_not_served_feed_nothing() {
        let registry = Registry::standard();
        let claims = id(&registry, "resourceclaims.resource.k8s.io");
        let quota = names("pods requests.example.com/gpu count/resourceclaims.resource.k8s.io");
        let feed = registry.feed(&quota, &OneClass, |kind| kind != claims);
        assert_eq!(
            feed.names().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["pods", "requests.example.com/gpu"]
        );
        assert_eq!(feed.kinds(), [id(&registry, "pods")]);
    }
}
