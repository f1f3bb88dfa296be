//! Objects as the watches show them: each event replenishes, or uses up, the quotas of its namespace.

use std::collections::BTreeMap;

use kubequota_cluster::monitor::{Failure, Sink, Update};
use kubequota_core::inventory::DeviceClassView;
use kubequota_core::registry::KindId;
use kubequota_core::{FieldError, GroupResource, Metadata, Object};
use kubequota_shell::ReadyGate;

use crate::state::Shared;

/// Takes what the monitor of one kind tells.
pub(crate) struct KindSink {
    state: Shared,
    kind: KindId,
    watched: Watched,
}

impl KindSink {
    pub(crate) fn new(state: Shared, kind: KindId, id: GroupResource) -> Self {
        KindSink {
            watched: Watched::new(&state, id),
            state,
            kind,
        }
    }
}

impl Sink<Object> for KindSink {
    async fn handle(&mut self, update: Update<Object>) {
        let kind = self.kind;
        match update {
            Update::ListBegan(_) => self.state.update(|accounts, _, _| accounts.list_began(kind)),
            Update::Page(listed, objects) => {
                self.state
                    .update(|accounts, now, time| accounts.list_page(kind, &listed.revision, &objects, now, time));
            }
            Update::ListEnded(listed) => {
                let sent_at = self.state.tick_at(listed.sent_at);
                self.state
                    .update(|accounts, now, time| accounts.list_ended(kind, &listed.revision, sent_at, now, time));
                self.watched.listed(&self.state);
            }
            Update::Applied(object) => self
                .state
                .update(|accounts, now, time| accounts.object_applied(kind, &object, now, time)),
            Update::Deleted(object) => self
                .state
                .update(|accounts, now, time| accounts.object_deleted(kind, &object, now, time)),
            Update::Bookmark(revision) => self.state.update(|accounts, _, _| accounts.bookmark(kind, &revision)),
            Update::Failed(failure) => {
                if failure.lost {
                    self.state.update(|accounts, _, _| accounts.kind_failing(kind));
                }
                self.watched.failed(&self.state, &failure);
            }
            Update::Recovered => self.watched.recovered(&self.state),
        }
    }
}

/// Takes what the monitor of device classes tells.
pub(crate) struct DeviceClassSink {
    state: Shared,
    listing: BTreeMap<String, Option<String>>,
    watched: Watched,
}

type DeviceClass = (Metadata, Result<DeviceClassView, FieldError>);

impl DeviceClassSink {
    pub(crate) fn new(state: Shared, id: GroupResource) -> Self {
        DeviceClassSink {
            watched: Watched::new(&state, id),
            state,
            listing: BTreeMap::new(),
        }
    }

    /// A class that can't be read is one without an extended resource, and is told of.
    fn extended(&self, (metadata, view): &DeviceClass) -> Option<String> {
        match view {
            Ok(view) => view.extended_resource().map(str::to_owned),
            Err(error) => {
                self.state.trouble(
                    &format!("device class {}", metadata.name),
                    &format!("can't be read: {error}"),
                );
                None
            }
        }
    }
}

impl Sink<DeviceClass> for DeviceClassSink {
    async fn handle(&mut self, update: Update<DeviceClass>) {
        match update {
            Update::ListBegan(_) => self.listing.clear(),
            Update::Page(_, classes) => {
                for class in classes {
                    let extended = self.extended(&class);
                    self.listing.insert(class.0.name, extended);
                }
            }
            Update::ListEnded(_) => {
                let classes = std::mem::take(&mut self.listing);
                self.state
                    .update(|accounts, now, time| accounts.device_classes_listed(&classes, now, time));
                self.watched.listed(&self.state);
            }
            Update::Applied(class) => {
                let extended = self.extended(&class);
                let name = &class.0.name;
                self.state
                    .update(|accounts, now, time| accounts.device_class_changed(name, extended.as_deref(), now, time));
            }
            Update::Deleted((metadata, _)) => {
                self.state
                    .update(|accounts, now, time| accounts.device_class_gone(&metadata.name, now, time));
            }
            Update::Bookmark(_) => {}
            Update::Failed(failure) => {
                if failure.lost {
                    self.state.update(|accounts, _, _| accounts.device_classes_failing());
                }
                self.watched.failed(&self.state, &failure);
            }
            Update::Recovered => self.watched.recovered(&self.state),
        }
    }
}

/// How a kind's monitor shows in metrics and readiness.
///
/// Readiness waits until a kind has been listed once, or is known to fail: one broken kind does not keep the rest from being ready, but it
/// is named there until it recovers.
struct Watched {
    id: GroupResource,
    detail: String,
    gate: Option<ReadyGate>,
    state: Shared,
}

impl Watched {
    fn new(state: &Shared, id: GroupResource) -> Self {
        let detail = format!("monitor {id}");
        // A kind that is needed later must not make a running controller unready.
        let gate = (!state.readiness.is_ready()).then(|| state.readiness.register(format!("{id} listed")));
        state.metrics.kubequota.set_monitor(&id.group, &id.resource, false);
        Watched {
            id,
            detail,
            gate,
            state: state.clone(),
        }
    }

    fn listed(&mut self, state: &Shared) {
        state
            .metrics
            .kubequota
            .set_monitor(&self.id.group, &self.id.resource, true);
        if let Some(gate) = self.gate.take() {
            gate.remove();
        }
        state.readiness.clear(&self.detail);
    }

    fn failed(&mut self, state: &Shared, failure: &Failure) {
        if failure.lost {
            state
                .metrics
                .kubequota
                .set_monitor(&self.id.group, &self.id.resource, false);
        }
        if let Some(gate) = self.gate.take() {
            gate.remove();
        }
        state.readiness.degraded(&*self.detail, failure.error.to_string());
    }

    fn recovered(&self, state: &Shared) {
        state.readiness.clear(&self.detail);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.state
            .metrics
            .kubequota
            .remove_monitor(&self.id.group, &self.id.resource);
        self.state.readiness.clear(&self.detail);
        if let Some(gate) = self.gate.take() {
            gate.remove();
        }
    }
}
