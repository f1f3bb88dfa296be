//! Scopes and scope selectors: which objects a quota counts.
//!
//! Follows `k8s.io/kubernetes/pkg/quota/v1/evaluator/core` and `k8s.io/apiserver/pkg/quota/v1/generic` (v1.37), with one meant
//! difference: a selector that is invalid is an error of its quota ([`Selector::validate`]), never a silent zero.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::evaluator::GroupResource;

/// What of an object a scope can look at. It is kept with the object's charge, so that a quota's scopes can be changed without
/// reading the objects again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScopeFacts {
    /// Kinds that match no scope at all: services, resource claims and everything that is only counted.
    #[default]
    None,
    /// A pod.
    Pod(PodFacts),
    /// A persistent volume claim: the volume attributes classes it refers to (desired, current, target), without empty ones.
    PersistentVolumeClaim(SmallVec<[Arc<str>; 1]>),
}

/// The scope facts of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodFacts {
    /// `activeDeadlineSeconds` is set and not negative.
    pub terminating: bool,
    /// Its quality of service class is BestEffort.
    pub best_effort: bool,
    /// `priorityClassName`; `None` where it is empty.
    pub priority_class: Option<Arc<str>>,
    /// Some affinity or anti-affinity term reaches into other namespaces.
    pub cross_namespace_affinity: bool,
}

/// The scope names a quota may list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Pods with an active deadline.
    Terminating,
    /// Pods without one.
    NotTerminating,
    /// Pods of quality of service class BestEffort.
    BestEffort,
    /// Pods of any other class.
    NotBestEffort,
    /// Pods by priority class.
    PriorityClass,
    /// Pods with cross-namespace affinity terms.
    CrossNamespacePodAffinity,
    /// Persistent volume claims by volume attributes class.
    VolumeAttributesClass,
    /// A name this version does not know: it matches nothing.
    Unknown(String),
}

impl Scope {
    /// The kind whose objects the scope selects among; `None` for a name that this version does not know.
    #[must_use]
    pub fn kind(&self) -> Option<GroupResource> {
        match self {
            Scope::Terminating
            | Scope::NotTerminating
            | Scope::BestEffort
            | Scope::NotBestEffort
            | Scope::PriorityClass
            | Scope::CrossNamespacePodAffinity => Some(GroupResource::core("pods")),
            Scope::VolumeAttributesClass => Some(GroupResource::core("persistentvolumeclaims")),
            Scope::Unknown(_) => None,
        }
    }
}

impl From<&str> for Scope {
    fn from(name: &str) -> Self {
        match name {
            "Terminating" => Scope::Terminating,
            "NotTerminating" => Scope::NotTerminating,
            "BestEffort" => Scope::BestEffort,
            "NotBestEffort" => Scope::NotBestEffort,
            "PriorityClass" => Scope::PriorityClass,
            "CrossNamespacePodAffinity" => Scope::CrossNamespacePodAffinity,
            "VolumeAttributesClass" => Scope::VolumeAttributesClass,
            other => Scope::Unknown(other.to_owned()),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Terminating => "Terminating",
            Scope::NotTerminating => "NotTerminating",
            Scope::BestEffort => "BestEffort",
            Scope::NotBestEffort => "NotBestEffort",
            Scope::PriorityClass => "PriorityClass",
            Scope::CrossNamespacePodAffinity => "CrossNamespacePodAffinity",
            Scope::VolumeAttributesClass => "VolumeAttributesClass",
            Scope::Unknown(name) => name,
        })
    }
}

/// The operator of a scope selector requirement. It matters only for [`Scope::PriorityClass`] and [`Scope::VolumeAttributesClass`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The class is one of the values.
    In,
    /// The class is none of the values, or there is no class.
    NotIn,
    /// There is a class.
    Exists,
    /// There is no class.
    DoesNotExist,
    /// An operator this version does not know.
    Unknown(String),
}

impl From<&str> for Operator {
    fn from(name: &str) -> Self {
        match name {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => Operator::Unknown(other.to_owned()),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::In => "In",
            Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::Unknown(name) => name,
        })
    }
}

/// One requirement: a scope, and for class scopes an operator and values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The scope.
    pub scope: Scope,
    /// How the values are meant.
    pub operator: Operator,
    /// Class names.
    pub values: Vec<String>,
}

/// `{PriorityClass In [hi]}`, as upstream prints it in messages.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.scope, self.operator, self.values.join(" "))
    }
}

impl Requirement {
    /// A scope that is merely listed: it means Exists.
    #[must_use]
    pub fn listed(scope: Scope) -> Self {
        Requirement {
            scope,
            operator: Operator::Exists,
            values: Vec::new(),
        }
    }

    /// Whether an object with these facts matches. What an invalid requirement says means nothing; see [`Selector::validate`].
    #[must_use]
    pub fn matches(&self, facts: &ScopeFacts) -> bool {
        match (facts, &self.scope) {
            (ScopeFacts::Pod(pod), Scope::Terminating) => pod.terminating,
            (ScopeFacts::Pod(pod), Scope::NotTerminating) => !pod.terminating,
            (ScopeFacts::Pod(pod), Scope::BestEffort) => pod.best_effort,
            (ScopeFacts::Pod(pod), Scope::NotBestEffort) => !pod.best_effort,
            (ScopeFacts::Pod(pod), Scope::CrossNamespacePodAffinity) => pod.cross_namespace_affinity,
            (ScopeFacts::Pod(pod), Scope::PriorityClass) => self.matches_class(pod.priority_class.as_deref()),
            (ScopeFacts::PersistentVolumeClaim(classes), Scope::VolumeAttributesClass) => {
                if classes.is_empty() {
                    self.matches_class(None)
                } else {
                    classes.iter().any(|class| self.matches_class(Some(class)))
                }
            }
            _ => false,
        }
    }

    fn matches_class(&self, class: Option<&str>) -> bool {
        let listed = || class.is_some_and(|class| self.values.iter().any(|value| value == class));
        match self.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => class.is_some(),
            Operator::DoesNotExist => class.is_none(),
            Operator::Unknown(_) => false,
        }
    }

    /// Whether an object with these facts matches, as [`matches`](Requirement::matches) says.
    ///
    /// # Errors
    /// A mistake in operator or values, where objects of this kind are judged by them.
    pub fn try_matches(&self, facts: &ScopeFacts) -> Result<bool, SelectorError> {
        let judged_by_class = matches!(
            (facts, &self.scope),
            (ScopeFacts::Pod(_), Scope::PriorityClass)
                | (ScopeFacts::PersistentVolumeClaim(_), Scope::VolumeAttributesClass)
        );
        if judged_by_class {
            self.validate()?;
        }
        Ok(self.matches(facts))
    }

    /// As upstream's `labels.NewRequirement` judges it. Exists is taken before upstream looks at the values, and no other scope reads
    /// operator or values.
    fn validate(&self) -> Result<(), SelectorError> {
        if !matches!(self.scope, Scope::PriorityClass | Scope::VolumeAttributesClass) {
            return Ok(());
        }
        let problem = match &self.operator {
            Operator::Exists => None,
            Operator::In | Operator::NotIn if self.values.is_empty() => {
                Some(format!("operator {} needs at least one value", self.operator))
            }
            Operator::In | Operator::NotIn => self
                .values
                .iter()
                .find(|value| !is_label_value(value))
                .map(|value| format!("{value:?} can be no class name: at most 63 letters, digits, '-', '_' or '.', a letter or digit first and last")),
            Operator::DoesNotExist if !self.values.is_empty() => Some("operator DoesNotExist takes no values".to_owned()),
            Operator::DoesNotExist => None,
            Operator::Unknown(name) => Some(format!("{name:?} is not a scope selector operator: use In, NotIn, Exists or DoesNotExist")),
        };
        match problem {
            None => Ok(()),
            Some(reason) => Err(SelectorError {
                scope: self.scope.to_string(),
                reason,
            }),
        }
    }
}

/// A scope selector that can't be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("scopeSelector for {scope}: {reason}")]
pub struct SelectorError {
    /// The scope of the requirement.
    pub scope: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// All that a quota asks of the objects it counts: `scopes` and `scopeSelector.matchExpressions` together. An empty one matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
    error: Option<SelectorError>,
}

impl Selector {
    /// A selector of these requirements, all of which must match.
    #[must_use]
    pub fn new(requirements: Vec<Requirement>) -> Self {
        let error = requirements.iter().find_map(|requirement| requirement.validate().err());
        Selector { requirements, error }
    }

    /// The requirements, in the quota's order.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object with these facts is counted. A selector that can't be evaluated counts nothing.
    #[must_use]
    pub fn matches(&self, facts: &ScopeFacts) -> bool {
        self.error.is_none() && self.requirements.iter().all(|requirement| requirement.matches(facts))
    }

    /// Says whether the selector can be evaluated at all.
    ///
    /// # Errors
    /// The first requirement that can't. Upstream would count nothing then; here the quota's names keep their last figures.
    pub fn validate(&self) -> Result<(), SelectorError> {
        self.error.clone().map_or(Ok(()), Err)
    }
}

/// Kubernetes' rule for label values: empty, or at most 63 of `[A-Za-z0-9_.-]`, alphanumeric at both ends.
fn is_label_value(value: &str) -> bool {
    value.is_empty() || (value.len() <= 63 && is_qualified_part(value))
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
pub(crate) fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alphanumeric_ends =
        bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
    alphanumeric_ends
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(scope: &str, operator: &str, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Requirement {
            scope: scope.into(),
            operator: operator.into(),
            values,
        }
    }

    fn pod(facts: PodFacts) -> ScopeFacts {
        ScopeFacts::Pod(facts)
    }

    fn claim(classes: &[&str]) -> ScopeFacts {
        ScopeFacts::PersistentVolumeClaim(classes.iter().map(|class| Arc::from(*class)).collect())
    }

    const SCOPES: [&str; 8] = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
        "VolumeAttributesClass",
        "Nonsense",
    ];

    #[test]
    fn scopes_select_among_one_kind() {
        let pods = [true, false].map(|yes| {
            pod(PodFacts {
                terminating: yes,
                best_effort: yes,
                priority_class: yes.then(|| "hi".into()),
                cross_namespace_affinity: yes,
            })
        });
        for name in SCOPES {
            let scope = Scope::from(name);
            let (kind, listed) = (scope.kind().map(|kind| kind.to_string()), Requirement::listed(scope));
            let matches = |facts: &[ScopeFacts]| facts.iter().any(|facts| listed.matches(facts));
            assert_eq!(matches(&pods), kind.as_deref() == Some("pods"), "{name}");
            assert_eq!(
                matches(&[claim(&["a"])]),
                kind.as_deref() == Some("persistentvolumeclaims"),
                "{name}"
            );
        }
    }

    #[test]
    fn listed_scopes() {
        let table = [
            (ScopeFacts::None, vec![]),
            (pod(PodFacts::default()), vec!["NotTerminating", "NotBestEffort"]),
            (
                pod(PodFacts {
                    terminating: true,
                    ..PodFacts::default()
                }),
                vec!["Terminating", "NotBestEffort"],
            ),
            (
                pod(PodFacts {
                    best_effort: true,
                    ..PodFacts::default()
                }),
                vec!["NotTerminating", "BestEffort"],
            ),
            (
                pod(PodFacts {
                    priority_class: Some("hi".into()),
                    ..PodFacts::default()
                }),
                vec!["NotTerminating", "NotBestEffort", "PriorityClass"],
            ),
            (
                pod(PodFacts {
                    cross_namespace_affinity: true,
                    ..PodFacts::default()
                }),
                vec!["NotTerminating", "NotBestEffort", "CrossNamespacePodAffinity"],
            ),
            (claim(&[]), vec![]),
            (claim(&["gold"]), vec!["VolumeAttributesClass"]),
        ];
        for (facts, expected) in table {
            let matching: Vec<&str> = SCOPES
                .into_iter()
                .filter(|scope| Requirement::listed(Scope::from(*scope)).matches(&facts))
                .collect();
            assert_eq!(matching, expected, "{facts:?}");
        }
    }

    #[test]
    fn operators_matter_only_for_classes() {
        let facts = pod(PodFacts {
            terminating: true,
            best_effort: true,
            cross_namespace_affinity: true,
            priority_class: None,
        });
        for scope in ["Terminating", "BestEffort", "CrossNamespacePodAffinity"] {
            for (operator, values) in [
                ("In", &["x"][..]),
                ("In", &[]),
                ("NotIn", &["x"]),
                ("DoesNotExist", &[]),
                ("", &["-"]),
                ("Huh", &[]),
            ] {
                let selector = Selector::new(vec![requirement(scope, operator, values)]);
                assert_eq!(selector.validate(), Ok(()), "{scope} {operator} {values:?}");
                assert!(selector.matches(&facts), "{scope} {operator} {values:?}");
            }
        }
    }

    #[test]
    fn operators() {
        let table: [(&str, &[&str], [bool; 4]); 9] = [
            // Without a class, of class a, of class b, of class c.
            ("Exists", &[], [false, true, true, true]),
            ("Exists", &["a"], [false, true, true, true]),
            ("DoesNotExist", &[], [true, false, false, false]),
            ("In", &["a"], [false, true, false, false]),
            ("In", &["a", "b"], [false, true, true, false]),
            ("In", &[""], [false, false, false, false]),
            ("NotIn", &["a"], [true, false, true, true]),
            ("NotIn", &["a", "b"], [true, false, false, true]),
            ("NotIn", &[""], [true, true, true, true]),
        ];
        for (operator, values, expected) in table {
            for (class, expected) in [None, Some("a"), Some("b"), Some("c")].into_iter().zip(expected) {
                let facts = pod(PodFacts {
                    priority_class: class.map(Arc::from),
                    ..PodFacts::default()
                });
                let selector = Selector::new(vec![requirement("PriorityClass", operator, values)]);
                assert_eq!(
                    selector.matches(&facts),
                    expected,
                    "PriorityClass {operator} {values:?} for {class:?}"
                );

                let facts = claim(class.as_slice());
                let selector = Selector::new(vec![requirement("VolumeAttributesClass", operator, values)]);
                assert_eq!(
                    selector.matches(&facts),
                    expected,
                    "VolumeAttributesClass {operator} {values:?} for {class:?}"
                );
            }
        }
    }

    /// A claim matches when any one of its classes does.
    #[test]
    fn several_volume_attributes_classes() {
        let table: [(&str, &[&str], bool); 6] = [
            ("Exists", &[], true),
            ("DoesNotExist", &[], false),
            ("In", &["b", "x"], true),
            ("In", &["x"], false),
            ("NotIn", &["a"], true),
            ("NotIn", &["a", "b", "c"], false),
        ];
        for (operator, values, expected) in table {
            let requirement = requirement("VolumeAttributesClass", operator, values);
            assert_eq!(requirement.matches(&claim(&["a", "b", "c"])), expected, "{requirement}");
        }
    }

    #[test]
    fn class_scopes_belong_to_one_kind() {
        for operator in ["Exists", "DoesNotExist"] {
            let facts = pod(PodFacts {
                priority_class: Some("a".into()),
                ..PodFacts::default()
            });
            assert!(!requirement("VolumeAttributesClass", operator, &[]).matches(&facts));
            assert!(!requirement("PriorityClass", operator, &[]).matches(&claim(&["a"])));
            assert!(!requirement("PriorityClass", operator, &[]).matches(&ScopeFacts::None));
        }
    }

    #[test]
    fn all_requirements_must_match() {
        let facts = pod(PodFacts {
            best_effort: true,
            priority_class: Some("hi".into()),
            ..PodFacts::default()
        });
        let hi = || requirement("PriorityClass", "In", &["hi"]);
        let lo = || requirement("PriorityClass", "In", &["lo"]);
        let best_effort = || Requirement::listed(Scope::BestEffort);
        let table = [
            (vec![], true),
            (vec![hi()], true),
            (vec![best_effort(), hi()], true),
            (vec![best_effort(), lo()], false),
            (vec![hi(), lo()], false),
            (vec![Requirement::listed(Scope::Terminating), hi()], false),
        ];
        for (requirements, expected) in table {
            assert_eq!(
                Selector::new(requirements.clone()).matches(&facts),
                expected,
                "{requirements:?}"
            );
            assert_eq!(
                Selector::new(requirements.clone()).matches(&ScopeFacts::None),
                requirements.is_empty(),
                "{requirements:?}"
            );
        }
    }

    #[test]
    fn invalid_selectors_count_nothing() {
        let long = "a".repeat(64);
        let table: [(&str, &[&str], &str); 10] = [
            ("In", &[], "needs at least one value"),
            ("NotIn", &[], "needs at least one value"),
            ("DoesNotExist", &["a"], "takes no values"),
            ("", &["a"], "\"\" is not a scope selector operator"),
            ("exists", &[], "\"exists\" is not a scope selector operator"),
            ("In", &["ok", "no spaces"], "\"no spaces\" can be no class name"),
            ("NotIn", &["-a"], "can be no class name"),
            ("In", &["a."], "can be no class name"),
            ("In", &["ä"], "can be no class name"),
            ("In", &[&long], "can be no class name"),
        ];
        for scope in ["PriorityClass", "VolumeAttributesClass"] {
            for (operator, values, expected) in table {
                let selector = Selector::new(vec![
                    Requirement::listed(Scope::NotTerminating),
                    requirement(scope, operator, values),
                ]);
                let error = selector.validate().unwrap_err();
                assert_eq!(error.scope, scope);
                assert!(error.reason.contains(expected), "{error}");
                for facts in [ScopeFacts::None, pod(PodFacts::default()), claim(&["b"]), claim(&[])] {
                    assert!(!selector.matches(&facts), "{selector:?}");
                }
            }
        }
    }

    /// A mistake is one only for objects that are judged by operator and values.
    #[test]
    fn mistakes_in_requirements() {
        let gold = || {
            pod(PodFacts {
                priority_class: Some("gold".into()),
                ..PodFacts::default()
            })
        };
        let table = [
            (requirement("PriorityClass", "In", &["gold"]), gold(), Some(true)),
            (requirement("PriorityClass", "NotIn", &["gold"]), gold(), Some(false)),
            (requirement("PriorityClass", "In", &[]), gold(), None),
            (requirement("PriorityClass", "In", &[]), claim(&["gold"]), Some(false)),
            (requirement("PriorityClass", "In", &[]), ScopeFacts::None, Some(false)),
            (
                requirement("VolumeAttributesClass", "In", &["gold"]),
                claim(&["gold"]),
                Some(true),
            ),
            (
                requirement("VolumeAttributesClass", "In", &["gold"]),
                claim(&[]),
                Some(false),
            ),
            (requirement("VolumeAttributesClass", "In", &["-"]), claim(&[]), None),
            (requirement("VolumeAttributesClass", "Huh", &[]), gold(), Some(false)),
            (requirement("NotTerminating", "In", &[]), gold(), Some(true)),
            (requirement("Terminating", "Huh", &["-"]), gold(), Some(false)),
        ];
        for (requirement, facts, expected) in table {
            let expected = expected.ok_or_else(|| requirement.validate().unwrap_err());
            assert_eq!(requirement.try_matches(&facts), expected, "{requirement} for {facts:?}");
        }
    }

    #[test]
    fn valid_selectors() {
        let longest = "a".repeat(63);
        let table: [(&str, &[&str]); 7] = [
            ("In", &["a"]),
            ("In", &["A-b_c.9"]),
            ("NotIn", &[&longest]),
            ("In", &[""]),
            ("Exists", &[]),
            // Upstream never looks at the values of Exists.
            ("Exists", &["no spaces"]),
            ("DoesNotExist", &[]),
        ];
        for (operator, values) in table {
            assert_eq!(
                Selector::new(vec![requirement("PriorityClass", operator, values)]).validate(),
                Ok(()),
                "{operator} {values:?}"
            );
        }
    }

    #[test]
    fn texts() {
        for scope in SCOPES {
            assert_eq!(Scope::from(scope).to_string(), scope);
        }
        for operator in ["In", "NotIn", "Exists", "DoesNotExist", "Huh"] {
            assert_eq!(Operator::from(operator).to_string(), operator);
        }
        assert_eq!(
            requirement("PriorityClass", "In", &["hi", "lo"]).to_string(),
            "{PriorityClass In [hi lo]}"
        );
        assert_eq!(
            Requirement::listed(Scope::BestEffort).to_string(),
            "{BestEffort Exists []}"
        );
    }
}
