//! A ResourceQuota as everything here sees it, and its narrow view.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use crate::evaluators::QuantityText;
use crate::object::{FieldError, Metadata, or_default};
use crate::resource_list::{ResourceList, ResourceName};
use crate::scope::{Operator, Requirement, Scope, Selector};

/// Namespace and name of a quota.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaKey {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl QuotaKey {
    /// The key of `namespace`/`name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        QuotaKey {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for QuotaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for QuotaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A ResourceQuota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Namespace and name.
    pub key: QuotaKey,
    /// Uid: a quota made anew under an old name is another quota.
    pub uid: String,
    /// The revision it was read at, as the server gave it.
    pub resource_version: String,
    /// What the user wants.
    pub spec: QuotaSpec,
    /// What was last written about it.
    pub status: QuotaStatus,
    /// The note of which charges landed last, as whoever charges keeps it: the annotation [`LAST_CHARGES`].
    pub last_charges: Option<String>,
    /// Which names are enforced, as the webhook says: the annotation [`ENFORCED`].
    pub enforced: Option<String>,
    /// Values that could not be read: they are treated as absent, and the rest goes on.
    pub problems: Vec<FieldError>,
}

/// The annotation of a quota that is written together with `status.used` by whoever charges, so that an answer may be lost.
pub const LAST_CHARGES: &str = "quota.kubequota.dev/last-charges";

/// The annotation of a quota in which the webhook says for which names it is asked by now: the quota's uid, since objects are copied with
/// their annotations, and the names.
pub const ENFORCED: &str = "quota.kubequota.dev/enforced";

impl Quota {
    /// The names whose limit in force is there and can't be read.
    pub fn unreadable_limits(&self) -> impl Iterator<Item = ResourceName> {
        let name = |problem: &FieldError| {
            let name = problem.field.strip_prefix("status.hard[")?.strip_suffix(']')?;
            Some(ResourceName::from(name))
        };
        self.problems.iter().filter_map(name)
    }

    /// Whether some of its limits are not in force yet, and nobody has said to enforce them.
    #[must_use]
    pub fn awaits_enforcement(&self) -> bool {
        let in_force = |name: &str| self.status.hard.as_ref().is_some_and(|hard| hard.contains(name));
        let is_said = |name: &str| {
            let mut words = self.enforced.as_deref().unwrap_or_default().split_whitespace();
            words.next() == Some(self.uid.as_str()) && words.any(|said| said == name)
        };
        let mut names = self.spec.hard.names().map(ResourceName::as_str);
        names.any(|name| !in_force(name) && !is_said(name))
    }

    /// What [`ENFORCED`] is to say once all its limits are enforced.
    #[must_use]
    pub fn enforcement(&self) -> String {
        let names = self.spec.hard.names().map(ResourceName::as_str);
        std::iter::once(self.uid.as_str())
            .chain(names)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Records that so much more is used.
    pub fn raise(&mut self, by: &ResourceList) {
        self.status.used.get_or_insert_with(ResourceList::new).add_assign(by);
    }
}

/// `spec` of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaSpec {
    /// The limits.
    pub hard: ResourceList,
    /// `scopes` and `scopeSelector` together.
    pub selector: Selector,
}

/// `status` of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaStatus {
    /// The limits in force; `None` before the first sync.
    pub hard: Option<ResourceList>,
    /// What is used; `None` before the first sync.
    pub used: Option<ResourceList>,
}

impl QuotaStatus {
    /// The recorded use of `name`.
    #[must_use]
    pub fn used(&self, name: &str) -> Option<&crate::Quantity> {
        self.used.as_ref().and_then(|used| used.get(name))
    }
}

/// The fields of a ResourceQuota object, unparsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QuotaView {
    #[serde(deserialize_with = "or_default")]
    spec: SpecView,
    #[serde(deserialize_with = "or_default")]
    status: StatusView,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecView {
    #[serde(deserialize_with = "or_default")]
    hard: BTreeMap<String, QuantityText>,
    #[serde(deserialize_with = "or_default")]
    scopes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    scope_selector: SelectorView,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectorView {
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<RequirementView>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RequirementView {
    #[serde(deserialize_with = "or_default")]
    scope_name: String,
    #[serde(deserialize_with = "or_default")]
    operator: String,
    #[serde(deserialize_with = "or_default")]
    values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct StatusView {
    #[serde(deserialize_with = "or_default")]
    hard: Option<BTreeMap<String, QuantityText>>,
    #[serde(deserialize_with = "or_default")]
    used: Option<BTreeMap<String, QuantityText>>,
}

impl QuotaView {
    /// The quota, with every value that can be read. The others are named in [`Quota::problems`].
    #[must_use]
    pub fn quota(&self, metadata: &Metadata) -> Quota {
        let mut problems = Vec::new();
        let mut read = |texts: &BTreeMap<String, QuantityText>, at: &str| {
            let mut list = ResourceList::new();
            for (name, text) in texts {
                match text.quantity(at, name) {
                    Ok(value) => list.insert(ResourceName::from(name.as_str()), value),
                    Err(problem) => problems.push(problem),
                }
            }
            list
        };
        let hard = read(&self.spec.hard, "spec.hard");
        let status = QuotaStatus {
            hard: self.status.hard.as_ref().map(|hard| read(hard, "status.hard")),
            used: self.status.used.as_ref().map(|used| read(used, "status.used")),
        };
        let listed = self
            .spec
            .scopes
            .iter()
            .map(|scope| Requirement::listed(Scope::from(scope.as_str())));
        let selected = self
            .spec
            .scope_selector
            .match_expressions
            .iter()
            .map(|expression| Requirement {
                scope: Scope::from(expression.scope_name.as_str()),
                operator: Operator::from(expression.operator.as_str()),
                values: expression.values.clone(),
            });
        Quota {
            key: QuotaKey::new(&metadata.namespace, &metadata.name),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            spec: QuotaSpec {
                hard,
                selector: Selector::new(listed.chain(selected).collect()),
            },
            status,
            last_charges: metadata.annotations.last_charges.clone(),
            enforced: metadata.annotations.enforced.clone(),
            problems,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::scope::{PodFacts, ScopeFacts};

    fn quota(json: Value) -> Quota {
        let metadata = Metadata {
            namespace: "ns".to_owned(),
            name: "q".to_owned(),
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            ..Metadata::default()
        };
        serde_json::from_value::<QuotaView>(json).unwrap().quota(&metadata)
    }

    #[test]
    fn whole() {
        let quota = quota(json!({
            "apiVersion": "v1",
            "spec": {"hard": {"pods": "5", "requests.cpu": 2, "limits.memory": "1.500Gi"}},
            "status": {"hard": {"pods": "4"}, "used": {"pods": "3", "requests.cpu": null}},
        }));
        assert_eq!(quota.key, QuotaKey::new("ns", "q"));
        assert_eq!(quota.key.to_string(), "ns/q");
        assert_eq!((quota.uid.as_str(), quota.resource_version.as_str()), ("u", "7"));
        assert_eq!(
            quota.spec.hard.to_string(),
            "limits.memory=1536Mi,pods=5,requests.cpu=2"
        );
        assert_eq!(quota.status.hard.as_ref().unwrap().to_string(), "pods=4");
        assert_eq!(quota.status.used.as_ref().unwrap().to_string(), "pods=3,requests.cpu=0");
        assert_eq!(quota.status.used("pods"), Some(&crate::Quantity::from(3)));
        assert_eq!(quota.status.used("limits.memory"), None);
        assert_eq!(quota.spec.selector, Selector::default());
        assert_eq!(quota.problems, []);
    }

    #[test]
    fn absent_and_null_fields() {
        let bare = [
            json!({}),
            json!({"spec": null, "status": null}),
            json!({"spec": {"hard": null, "scopes": null, "scopeSelector": null}, "status": {"hard": null, "used": null}}),
            json!({"spec": {"scopes": [], "scopeSelector": {"matchExpressions": null}}, "status": {}}),
        ];
        for json in bare {
            let quota = quota(json.clone());
            assert_eq!(
                (quota.spec, quota.status, quota.problems),
                (QuotaSpec::default(), QuotaStatus::default(), vec![]),
                "{json}"
            );
        }
        // Before the first sync there is no figure; an empty one is one.
        let synced = quota(json!({"status": {"hard": {}, "used": {}}}));
        assert_eq!(
            synced.status,
            QuotaStatus {
                hard: Some(ResourceList::new()),
                used: Some(ResourceList::new())
            }
        );
    }

    #[test]
    fn scopes_and_selector_together() {
        let quota = quota(json!({"spec": {
            "scopes": ["BestEffort", "Strange"],
            "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["hi"]},
                {"scopeName": "Terminating", "operator": "Exists", "values": null},
            ]},
        }}));
        let texts: Vec<String> = quota
            .spec
            .selector
            .requirements()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "{BestEffort Exists []}",
                "{Strange Exists []}",
                "{PriorityClass In [hi]}",
                "{Terminating Exists []}"
            ]
        );
        assert!(!quota.spec.selector.matches(&ScopeFacts::Pod(PodFacts {
            best_effort: true,
            terminating: true,
            ..PodFacts::default()
        })));
    }

    #[test]
    fn an_invalid_selector_is_found() {
        let quota = quota(json!({"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}}}));
        let error = quota.spec.selector.validate().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("scopeSelector for PriorityClass: \"\" is not a scope selector operator"),
            "{error}"
        );
    }

    #[test]
    fn who_waits_to_be_enforced() {
        let both = json!({"pods": "1", "secrets": "1"});
        for (in_force, said, waits) in [
            (json!(null), None, true),
            (json!({"pods": "1"}), None, true),
            (both.clone(), None, false),
            (json!({"pods": "2", "secrets": "2", "services": "2"}), None, false),
            (json!(null), Some("u pods secrets"), false),
            (json!(null), Some("u secrets services pods"), false),
            (json!(null), Some("u pods"), true),
            (json!({"secrets": "1"}), Some("u pods"), false),
            (json!(null), Some("other pods secrets"), true),
            (json!(null), Some(""), true),
        ] {
            let mut quota = quota(json!({"spec": {"hard": both}, "status": {"hard": in_force}}));
            quota.enforced = said.map(str::to_owned);
            assert_eq!(quota.awaits_enforcement(), waits, "{in_force} {said:?}");
            quota.enforced = Some(quota.enforcement());
            assert!(!quota.awaits_enforcement(), "{in_force}");
        }
        assert_eq!(quota(json!({"spec": {"hard": both}})).enforcement(), "u pods secrets");
    }

    /// One bad value is left out and named; all others stand.
    #[test]
    fn bad_values() {
        let quota = quota(json!({
            "spec": {"hard": {"pods": "five", "requests.cpu": "2", "secrets": true}},
            "status": {"hard": {"pods": "1", "secrets": ""}, "used": {"pods": {}, "requests.cpu": "1"}},
        }));
        assert_eq!(quota.spec.hard.to_string(), "requests.cpu=2");
        assert_eq!(quota.status.hard.unwrap().to_string(), "pods=1");
        assert_eq!(quota.status.used.unwrap().to_string(), "requests.cpu=1");
        let fields: Vec<&str> = quota.problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.hard[pods]",
                "spec.hard[secrets]",
                "status.hard[secrets]",
                "status.used[pods]"
            ]
        );
    }
}
