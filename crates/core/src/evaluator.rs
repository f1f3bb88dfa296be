//! What an evaluator is: the one place that knows what objects of a kind cost.
//!
//! Follows `k8s.io/apiserver/pkg/quota/v1/interfaces.go` (v1.37). Where upstream's evaluator also lists objects and sums them, that is
//! the [`ledger`](crate::ledger)'s and [`usage`](crate::usage)'s work here.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::evaluators::{View, ViewKind};
use crate::object::{FieldError, Metadata};
use crate::resource_list::{ResourceList, ResourceName};
use crate::scope::ScopeFacts;

/// A resource and its API group, as in `deployments.apps`; the group is empty for the core API.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Plural resource name, lower case.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// `resource` in `group`.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        GroupResource {
            group: group.into(),
            resource: resource.into(),
        }
    }

    /// A resource of the core API.
    #[must_use]
    pub fn core(resource: &str) -> Self {
        GroupResource::new("", resource)
    }

    /// Reads `resource` or `resource.group`: what stands after `count/` in a quota.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource::new(group, resource)
    }

    /// The kind whose objects are counted under `name`, where that begins with [`COUNT_PREFIX`].
    #[must_use]
    pub fn counted_under(name: &str) -> Option<Self> {
        name.strip_prefix(COUNT_PREFIX).map(GroupResource::parse)
    }

    /// The name under which a quota counts these objects: `count/RESOURCE` or `count/RESOURCE.GROUP`.
    #[must_use]
    pub fn count_name(&self) -> ResourceName {
        ResourceName::from(format!("{COUNT_PREFIX}{self}"))
    }
}

/// What the names of object counts begin with.
pub const COUNT_PREFIX: &str = "count/";

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.pad(&self.resource)
        } else {
            f.pad(&format!("{}.{}", self.resource, self.group))
        }
    }
}

impl fmt::Debug for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What one object uses, and the facts by which quotas are matched to it. Replicas have equal charges, so charges are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Charge {
    /// What it uses, by every name its kind is tracked under.
    pub usage: ResourceList,
    /// The part of it that admission sees when the object's `spec` changes; `None` where that is all of it. Growth beyond this comes
    /// from status alone, is never charged by admission, and so must not use up a pending charge.
    pub spec_usage: Option<ResourceList>,
    /// What scopes look at.
    pub scopes: ScopeFacts,
}

impl Charge {
    /// The usage that follows from what the client asked for.
    #[must_use]
    pub fn spec_usage(&self) -> &ResourceList {
        self.spec_usage.as_ref().unwrap_or(&self.usage)
    }
}

/// A charge, and how it will change by itself as time passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assessment {
    /// What the object uses now.
    pub charge: Charge,
    /// The moment after which (strictly) it uses something else without any event, and what.
    pub later: Option<(Timestamp, Charge)>,
}

impl From<Charge> for Assessment {
    fn from(charge: Charge) -> Self {
        Assessment { charge, later: None }
    }
}

/// What an evaluator may know beside the object itself.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The server's time.
    pub now: Timestamp,
    /// Device classes, and the pods that own claims.
    pub lookups: &'a dyn Lookups,
}

/// What the charge of a resource claim depends on beside the claim.
pub trait Lookups {
    /// Whether there is a device class of this name.
    fn has_device_class(&self, name: &str) -> bool;

    /// The `spec.extendedResourceName` of a device class; `None` where there is no such class or it has none.
    fn extended_resource(&self, device_class: &str) -> Option<&str>;

    /// Whether some device class has this `spec.extendedResourceName`.
    fn is_extended_resource(&self, name: &str) -> bool;

    /// What the pod that controls an extended-resource claim is charged itself: `None` unless it is live and the claim is its own.
    fn owner_usage(&self, claim: &Metadata) -> Option<&ResourceList>;
}

/// No device classes and no pods.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookups;

impl Lookups for NoLookups {
    fn has_device_class(&self, _: &str) -> bool {
        false
    }

    fn extended_resource(&self, _: &str) -> Option<&str> {
        None
    }

    fn is_extended_resource(&self, _: &str) -> bool {
        false
    }

    fn owner_usage(&self, _: &Metadata) -> Option<&ResourceList> {
        None
    }
}

/// A verb that admission can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object.
    Update,
    /// A deletion.
    Delete,
    /// A connection to an object, as exec and attach make.
    Connect,
}

/// A request as far as [`Evaluator::handles`] looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is asked.
    pub operation: Operation,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The charge of the object as it would be, where it could be read.
    pub new: Option<&'a Charge>,
    /// The charge of the object as it was, where there was one and it could be read.
    pub old: Option<&'a Charge>,
}

/// What quota knows of one kind. Everything is pure; an evaluator holds no objects.
pub trait Evaluator: fmt::Debug + Send + Sync {
    /// The kind.
    fn group_resource(&self) -> &GroupResource;

    /// Which narrow view its objects are read as.
    fn view_kind(&self) -> ViewKind;

    /// Whether objects of this kind are counted under `name` (upstream's `MatchingResources`).
    fn tracks(&self, name: &str, lookups: &dyn Lookups) -> bool;

    /// What an object uses.
    ///
    /// # Errors
    /// A field that can't be used, by its path.
    fn assess(&self, metadata: &Metadata, view: &View, context: &Context<'_>) -> Result<Assessment, FieldError>;

    /// Whether the object says everything that a quota over `required` demands of it (upstream's `Constraints`).
    ///
    /// # Errors
    /// The text of upstream's message, without the quota's name.
    fn constraint(&self, _view: &View, _required: &[ResourceName]) -> Result<(), String> {
        Ok(())
    }

    /// The requests that admission may charge: operation, and subresource (empty for the object itself). No other is ever
    /// [handled](Evaluator::handles), so no other need be reviewed.
    fn reviewed(&self) -> &'static [(Operation, &'static str)];

    /// Whether admission charges this request (upstream's `Handles`).
    fn handles(&self, request: &Request<'_>) -> bool {
        self.reviewed().contains(&(request.operation, request.subresource))
    }
}
