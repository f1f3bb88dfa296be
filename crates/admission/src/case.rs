//! A request as it is judged, again and again if need be: what is owned of it while it waits.

use std::sync::Arc;

use jiff::Timestamp;
use kubequota_core::decision::{Demand, LimitedResources, Raise, Refusal, Review as Asked};
use kubequota_core::evaluator::{Context, Evaluator, GroupResource, Operation};
use kubequota_core::inventory::Inventory;
use kubequota_core::{FieldError, Object, Quota};
use kubequota_wire::json::Shape as _;
use kubequota_wire::review::Review;

/// A request that quotas may have a say in.
#[derive(Debug)]
pub(crate) struct Case {
    evaluator: Arc<dyn Evaluator>,
    operation: Operation,
    subresource: String,
    pub(crate) namespace: String,
    name: String,
    object: Object,
    old: Option<Object>,
    dry_run: bool,
    /// The pod that a resource claim belongs to, which its charge depends on.
    owner: Option<Object>,
}

/// What judging depends on beside the request and its quotas.
pub(crate) struct Surroundings<'a> {
    /// The device classes.
    pub(crate) inventory: &'a Inventory,
    /// The server's time.
    pub(crate) now: Timestamp,
    /// What may only be used under a quota.
    pub(crate) limited: &'a LimitedResources,
}

impl Case {
    /// The case of a review; `None` where quotas have nothing to say: upstream's plugin looks at nothing without a namespace, at no
    /// creation of namespaces, and at nothing that only goes.
    ///
    /// # Errors
    /// An object whose metadata can't be read.
    pub(crate) fn of(review: &Review<'_>, evaluator: Arc<dyn Evaluator>) -> Result<Option<Self>, FieldError> {
        let is_new_namespace =
            review.operation == Operation::Create && review.kind == GroupResource::core("namespaces");
        let Some(object) = review
            .object
            .filter(|_| !review.namespace.is_empty() && !is_new_namespace)
        else {
            return Ok(None);
        };
        let read = |text: &str, field: &str| {
            evaluator.view_kind().read(text).map_err(|error| FieldError {
                field: field.to_owned(),
                reason: error.to_string(),
            })
        };
        let object = read(object, "object")?;
        let old = review.old_object.map(|old| read(old, "oldObject")).transpose()?;
        Ok(Some(Case {
            evaluator,
            operation: review.operation,
            subresource: review.subresource.clone(),
            namespace: review.namespace.clone(),
            name: review.name.clone(),
            object,
            old,
            dry_run: review.dry_run,
            owner: None,
        }))
    }

    /// The kind.
    pub(crate) fn kind(&self) -> &GroupResource {
        self.evaluator.group_resource()
    }

    /// The name of the pod that controls the object.
    pub(crate) fn owning_pod(&self) -> Option<&str> {
        let owner = self.object.metadata.controller()?;
        (owner.kind == "Pod" && owner.api_version == "v1").then_some(owner.name.as_str())
    }

    /// Tells of that pod.
    pub(crate) fn belongs_to(&mut self, owner: Object) {
        self.owner = Some(owner);
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            operation: self.operation,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            object: &self.object,
            old: self.old.as_ref(),
            dry_run: self.dry_run,
        }
    }

    /// The message of a refusal.
    pub(crate) fn message(&self, refusal: &Refusal) -> String {
        self.asked().message(self.kind(), refusal)
    }

    /// What messages call the object.
    pub(crate) fn display_name(&self) -> &str {
        self.asked().display_name()
    }

    /// Judges the request against the quotas of its namespace.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn judge(&self, quotas: &[&Quota], around: &Surroundings<'_>) -> Result<Vec<Raise>, Refusal> {
        let Some(owner) = &self.owner else {
            return self.judge_among(quotas, around.inventory, around);
        };
        let pods = GroupResource::core("pods");
        let mut inventory = around.inventory.without_objects();
        if let Some(pods) = inventory.registry().id(&pods) {
            inventory.observe(pods, owner, around.now);
        }
        self.judge_among(quotas, &inventory, around)
    }

    fn judge_among(
        &self,
        quotas: &[&Quota],
        inventory: &Inventory,
        around: &Surroundings<'_>,
    ) -> Result<Vec<Raise>, Refusal> {
        let context = Context {
            now: around.now,
            lookups: &inventory.lookups(),
        };
        Demand::of(&*self.evaluator, &self.asked(), &context)
            .map_or(Ok(Vec::new()), |demand| demand.judge(quotas, around.limited))
    }
}
