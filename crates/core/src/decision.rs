//! Admission's judgement: whether a request fits the quotas of its namespace, and what it is charged.
//!
//! Follows `CheckRequest` of `k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go` (v1.37): the same verdicts, in the same
//! order, in the same words. Meant differences: quotas are taken in the order given, so that one request gets one answer; a mistake in a
//! scope selector refuses by name and never lets everything pass.
//!
//! A [`Demand`] is worked out once for each request and can then be judged again whenever its quotas have changed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write};

use crate::evaluator::{Charge, Context, Evaluator, GroupResource, Lookups, Operation, Request};
use crate::evaluators::View;
use crate::object::{FieldError, Object};
use crate::quota::Quota;
use crate::resource_list::{ResourceList, ResourceName};
use crate::scope::{Requirement, Selector, SelectorError};

/// What admission is asked about one object of a kind that has an evaluator, in a namespace: upstream's plugin never looks at
/// cluster-scoped objects, nor at the creation of namespaces. A deletion carries no object and is never charged.
#[derive(Clone, Copy, Debug)]
pub struct Review<'a> {
    /// The verb.
    pub operation: Operation,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The namespace of the request; an object that says none is in it.
    pub namespace: &'a str,
    /// The name in the request; empty where the server is to make one.
    pub name: &'a str,
    /// The object as it would be.
    pub object: &'a Object,
    /// The object as it was; `None` where the request carries none.
    pub old: Option<&'a Object>,
    /// The request is only tried: it is judged like any other and charged nothing.
    pub dry_run: bool,
}

impl<'a> Review<'a> {
    /// The whole message of a refusal, as Kubernetes' clients know it: `pods "p" is forbidden: REASON`.
    #[must_use]
    pub fn message(&self, kind: &GroupResource, refusal: &Refusal) -> String {
        format!("{kind} {} is forbidden: {refusal}", Quoted(self.display_name()))
    }

    /// What messages call the object: its name in the request or in the object, or the prefix of the name to be made.
    #[must_use]
    pub fn display_name(&self) -> &'a str {
        let metadata = &self.object.metadata;
        [self.name, &metadata.name, &metadata.generate_name]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or("Unknown")
    }
}

/// Objects that may only be made where a quota covers them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitedResources(Vec<LimitedResource>);

/// An entry of `limitedResources`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedResource {
    /// The kind whose consumption is limited.
    pub kind: GroupResource,
    /// Parts of resource names: what an object uses under a name that contains one of them must be covered.
    pub match_contains: Vec<String>,
    /// Scopes that must be covered. They hold for objects of every kind, whatever `kind` says.
    pub match_scopes: Vec<Requirement>,
}

impl LimitedResources {
    /// Limits of these entries.
    ///
    /// # Errors
    /// The first entry that says no resource, or has a scope that can't be evaluated.
    pub fn new(entries: Vec<LimitedResource>) -> Result<Self, FieldError> {
        for (index, entry) in entries.iter().enumerate() {
            let at = |field: &str, reason: String| FieldError {
                field: format!("limitedResources[{index}].{field}"),
                reason,
            };
            if entry.kind.resource.is_empty() {
                return Err(at("resource", "is required".to_owned()));
            }
            if let Err(error) = Selector::new(entry.match_scopes.clone()).validate() {
                return Err(at("matchScopes", error.to_string()));
            }
        }
        Ok(LimitedResources(entries))
    }

    /// The entries, in their order.
    #[must_use]
    pub fn entries(&self) -> &[LimitedResource] {
        &self.0
    }

    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names used above zero that some quota must track.
    fn names(&self, kind: &GroupResource, usage: &ResourceList) -> BTreeSet<ResourceName> {
        let limits = |name: &str| {
            let mut entries = self.0.iter().filter(|entry| entry.kind == *kind);
            entries.any(|entry| entry.match_contains.iter().any(|part| name.contains(part.as_str())))
        };
        usage
            .iter()
            .filter(|(name, used)| used.signum() > 0 && limits(name.as_str()))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

/// Why a request is refused. Its text is upstream's, without the object's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The new object can't be charged.
    #[error("the object can't be counted: {0}")]
    Unreadable(FieldError),
    /// A quota's scopes can't be evaluated for an object of this kind.
    #[error("error matching scopes of quota {quota}, err: {error}")]
    Selector {
        /// Name of the quota.
        quota: String,
        /// What is wrong.
        error: SelectorError,
    },
    /// The object leaves out what a quota demands that it says.
    #[error("failed quota: {quota}: {reason}")]
    Constraint {
        /// Name of the quota.
        quota: String,
        /// What is left out, and where.
        reason: String,
    },
    /// A quota has limits, and no use is recorded yet for some of them, or one can't be read.
    #[error("status unknown for quota: {quota}, resources: {}", Joined(names, ","))]
    StatusUnknown {
        /// Name of the quota.
        quota: String,
        /// All names of the quota that objects of this kind count under.
        names: Vec<ResourceName>,
    },
    /// The object would use less than nothing.
    #[error("quota usage is negative for resource(s): {}", Joined(.0, ","))]
    Negative(Vec<ResourceName>),
    /// An update without the object as it was.
    #[error("unable to get previous usage since prior version of object was not found")]
    NoPriorVersion,
    /// No quota of the namespace covers what may only be used under a quota.
    #[error("insufficient quota to consume: {}", Joined(.0, ","))]
    Uncovered(Vec<ResourceName>),
    /// No quota of the namespace selects a scope that may only be used under a quota.
    #[error("insufficient quota to match these scopes: [{}]", Joined(.0, " "))]
    UncoveredScopes(Vec<Requirement>),
    /// It does not fit.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// Name of the quota.
        quota: String,
        /// What the request adds, of the names that it would exceed.
        requested: ResourceList,
        /// What is used of these.
        used: ResourceList,
        /// What is allowed of these.
        limited: ResourceList,
    },
}

impl Refusal {
    /// The quota that refuses; `None` where it is not one alone.
    #[must_use]
    pub fn quota(&self) -> Option<&str> {
        match self {
            Refusal::Selector { quota, .. }
            | Refusal::Constraint { quota, .. }
            | Refusal::StatusUnknown { quota, .. }
            | Refusal::Exceeded { quota, .. } => Some(quota),
            Refusal::Unreadable(_)
            | Refusal::Negative(_)
            | Refusal::NoPriorVersion
            | Refusal::Uncovered(_)
            | Refusal::UncoveredScopes(_) => None,
        }
    }
}

/// A text as Go's `%q` quotes it. Names come here before they are validated.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for letter in self.0.chars() {
            match letter {
                '"' | '\\' => write!(f, "\\{letter}")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\t' => f.write_str("\\t")?,
                '\n' => f.write_str("\\n")?,
                '\x0b' => f.write_str("\\v")?,
                '\x0c' => f.write_str("\\f")?,
                '\r' => f.write_str("\\r")?,
                ' '..='~' => f.write_char(letter)?,
                '\0'..='\x7f' => write!(f, "\\x{:02x}", u32::from(letter))?,
                // What Rust shows as it is can be seen.
                _ if letter.escape_debug().count() == 1 => f.write_char(letter)?,
                '\u{80}'..='\u{ffff}' => write!(f, "\\u{:04x}", u32::from(letter))?,
                _ => write!(f, "\\U{:08x}", u32::from(letter))?,
            }
        }
        f.write_char('"')
    }
}

/// Items with something between them: `a,b`.
struct Joined<'a, T>(&'a [T], &'static str);

impl<T: fmt::Display> fmt::Display for Joined<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { self.1 })?;
        }
        Ok(())
    }
}

/// What an admitted request adds to the `used` of one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raise {
    /// Which of the quotas that were given.
    pub quota: usize,
    /// By how much; names in `status.hard` only, none of them zero.
    pub by: ResourceList,
}

/// A request as quotas see it: what its object uses, and what it used before.
#[derive(Clone)]
pub struct Demand<'a> {
    evaluator: &'a dyn Evaluator,
    lookups: &'a dyn Lookups,
    operation: Operation,
    /// Of a status, which tells what is already so: it is charged and can't be refused for its size.
    of_status: bool,
    dry_run: bool,
    /// Judged only where there is something to judge it by.
    new: Result<New<'a>, FieldError>,
    old: Prior,
}

/// What the object uses from now on.
#[derive(Clone)]
struct New<'a> {
    view: &'a View,
    charge: Charge,
}

/// What the object used before.
#[derive(Clone)]
enum Prior {
    /// Nothing: the object is new, or was never stored, or could not be read and so was never counted.
    Nothing,
    /// The request should tell, and does not.
    Missing,
    Charged(Charge),
}

impl<'a> Demand<'a> {
    /// Works out what a request demands; `None` where quotas have nothing to say about such a request.
    pub fn of(evaluator: &'a dyn Evaluator, review: &Review<'a>, context: &Context<'a>) -> Option<Self> {
        let assess = |object: &'a Object| {
            let view = object.view.as_ref().map_err(Clone::clone)?;
            let mut metadata = Cow::Borrowed(&object.metadata);
            if metadata.namespace.is_empty() && !review.namespace.is_empty() {
                review.namespace.clone_into(&mut metadata.to_mut().namespace);
            }
            let charge = evaluator.assess(&metadata, view, context)?.charge;
            Ok::<_, FieldError>(New { view, charge })
        };
        let new = assess(review.object);
        let old = review.old.map(assess);
        let request = Request {
            operation: review.operation,
            subresource: review.subresource,
            new: new.as_ref().ok().map(|new| &new.charge),
            old: old.as_ref().and_then(|old| old.as_ref().ok()).map(|old| &old.charge),
        };
        if !evaluator.handles(&request) {
            return None;
        }
        let stored = |old: &Object| !old.metadata.resource_version.is_empty();
        let old = match old {
            _ if review.operation != Operation::Update => Prior::Nothing,
            None => Prior::Missing,
            Some(Ok(New { charge, .. })) if review.old.is_some_and(stored) => Prior::Charged(charge),
            Some(_) => Prior::Nothing,
        };
        Some(Demand {
            evaluator,
            lookups: context.lookups,
            operation: review.operation,
            of_status: review.subresource == "status",
            dry_run: review.dry_run,
            new,
            old,
        })
    }

    /// Judges the request against the quotas of its namespace. Allowed, it says what to add to the `used` of which of them.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn judge(&self, quotas: &[&Quota], limited: &LimitedResources) -> Result<Vec<Raise>, Refusal> {
        if quotas.is_empty() && limited.is_empty() {
            return Ok(Vec::new());
        }
        let new = self.new.as_ref().map_err(|error| Refusal::Unreadable(error.clone()))?;
        let mut interesting = Vec::new();
        for (index, quota) in quotas.iter().enumerate() {
            if let Some(tracked) = self.interest(new, quota)? {
                interesting.push((index, *quota, tracked));
            }
        }
        let negative = new.charge.usage.negative_names();
        if !negative.is_empty() {
            return Err(Refusal::Negative(negative));
        }
        let whole = new.charge.usage.without_zeros();
        let growth = match &self.old {
            Prior::Nothing => whole.clone(),
            Prior::Missing => return Err(Refusal::NoPriorVersion),
            Prior::Charged(old) => new.charge.usage.subtract_non_negative(&old.usage).without_zeros(),
        };
        // A quota that did not count the object before gets all of it.
        let demanded = |quota: &Quota| match &self.old {
            Prior::Charged(old) if !quota.spec.selector.matches(&old.scopes) => &whole,
            _ => &growth,
        };
        let raises_nothing = match interesting.as_slice() {
            [] => growth.is_empty() || !matches!(self.operation, Operation::Create | Operation::Update),
            quotas => quotas.iter().all(|(_, quota, _)| demanded(quota).is_empty()),
        };
        if raises_nothing {
            return Ok(Vec::new());
        }
        let tracked = interesting.iter().flat_map(|(_, _, tracked)| tracked);
        self.covered(new, quotas, &tracked.collect(), limited)?;
        let mut raises = Vec::new();
        for (index, quota, _) in interesting {
            let by = self.fits(quota, demanded(quota))?;
            if !by.is_empty() && !self.dry_run {
                raises.push(Raise { quota: index, by });
            }
        }
        Ok(raises)
    }

    /// The names of a quota's `status.hard` that objects of this kind count under, if the quota counts this object at all.
    fn interest(&self, new: &New<'_>, quota: &Quota) -> Result<Option<Vec<ResourceName>>, Refusal> {
        let name = || quota.key.name.to_string();
        let mut matches = true;
        for requirement in quota.spec.selector.requirements() {
            let mistake = |error| Refusal::Selector { quota: name(), error };
            matches &= requirement.try_matches(&new.charge.scopes).map_err(mistake)?;
        }
        let tracks = |name: &ResourceName| self.evaluator.tracks(name.as_str(), self.lookups);
        let hard = quota.status.hard.iter().flat_map(ResourceList::names);
        let mut tracked: Vec<ResourceName> = hard.filter(|name| tracks(name)).cloned().collect();
        // A limit that can't be read is a limit all the same.
        let unreadable: Vec<ResourceName> = quota.unreadable_limits().filter(tracks).collect();
        tracked.extend_from_slice(&unreadable);
        tracked.sort_unstable();
        if tracked.is_empty() || !matches {
            return Ok(None);
        }
        self.evaluator
            .constraint(new.view, &tracked)
            .map_err(|reason| Refusal::Constraint { quota: name(), reason })?;
        let unknown = |name: &ResourceName| quota.status.used(name.as_str()).is_none();
        if !unreadable.is_empty() || tracked.iter().any(unknown) {
            return Err(Refusal::StatusUnknown {
                quota: name(),
                names: tracked,
            });
        }
        Ok(Some(tracked))
    }

    /// Checks that what may only be used under a quota is used under one.
    fn covered(
        &self,
        new: &New<'_>,
        quotas: &[&Quota],
        tracked: &BTreeSet<&ResourceName>,
        limited: &LimitedResources,
    ) -> Result<(), Refusal> {
        let mut names = limited.names(self.evaluator.group_resource(), &new.charge.usage);
        names.retain(|name| !tracked.contains(name));
        if !names.is_empty() {
            return Err(Refusal::Uncovered(names.into_iter().collect()));
        }
        let selected = |requirement: &Requirement| {
            let mut selectors = quotas.iter().flat_map(|quota| quota.spec.selector.requirements());
            selectors.any(|selector| selector.scope == requirement.scope && selector.matches(&new.charge.scopes))
        };
        let scopes = limited.0.iter().flat_map(|entry| &entry.match_scopes);
        let uncovered: Vec<Requirement> = scopes
            .filter(|requirement| requirement.matches(&new.charge.scopes) && !selected(requirement))
            .cloned()
            .collect();
        if uncovered.is_empty() {
            Ok(())
        } else {
            Err(Refusal::UncoveredScopes(uncovered))
        }
    }

    /// What a quota is to be raised by, if that fits.
    fn fits(&self, quota: &Quota, demanded: &ResourceList) -> Result<ResourceList, Refusal> {
        let none = ResourceList::new();
        let hard = quota.status.hard.as_ref().unwrap_or(&none);
        let used = quota.status.used.as_ref().unwrap_or(&none);
        let by = demanded.mask(|name| hard.contains(name.as_str()));
        let mut after = by.clone();
        for (name, value) in used {
            if let Some(raised) = after.get_mut(name.as_str()) {
                *raised = value + &*raised;
            }
        }
        let exceeded = after.exceeding(hard);
        if exceeded.is_empty() || self.of_status {
            return Ok(by);
        }
        let only = |list: &ResourceList| list.mask(|name| exceeded.contains(name));
        Err(Refusal::Exceeded {
            quota: quota.key.name.to_string(),
            requested: only(&by),
            used: only(used),
            limited: only(hard),
        })
    }
}

#[cfg(test)]
mod tests;
