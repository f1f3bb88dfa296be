//! kubequota's own metrics.

use std::fmt::{self, Write as _};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::Registry;

/// How the sync of one quota ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncResult {
    /// The status was written.
    Written,
    /// The status was right already.
    Unchanged,
    /// It can't be written yet: something is unsynced, pending or in flight.
    Deferred,
    /// The quota had changed meanwhile.
    Conflict,
    /// The quota is gone.
    Gone,
    /// An error; the sync is tried again.
    Error,
}

impl SyncResult {
    const ALL: [Self; 6] = [
        Self::Written,
        Self::Unchanged,
        Self::Deferred,
        Self::Conflict,
        Self::Gone,
        Self::Error,
    ];
}

impl EncodeLabelValue for SyncResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(match self {
            SyncResult::Written => "written",
            SyncResult::Unchanged => "unchanged",
            SyncResult::Deferred => "deferred",
            SyncResult::Conflict => "conflict",
            SyncResult::Gone => "gone",
            SyncResult::Error => "error",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: SyncResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    group: String,
    resource: String,
}

impl ResourceLabels {
    fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VersionLabels {
    version: String,
}

type ByResource = Family<ResourceLabels, Gauge>;

/// The metrics that only kubequota has. A cheap handle. Kinds are named by group (empty for the core group) and
/// resource, as in `("apps", "deployments")`.
#[derive(Clone, Debug)]
pub struct KubequotaMetrics {
    syncs: Family<ResultLabels, Counter>,
    writes: Counter,
    write_conflicts: Counter,
    monitors: ByResource,
    monitors_synced: ByResource,
    frozen_names: Gauge,
    invalid_objects: ByResource,
    objects_tracked: ByResource,
    pending_charges: Gauge,
    recount_drift: Counter,
    foreign_writes: Counter,
    evidence_lists: Counter,
    resync_duration: Histogram,
    replenishment_latency: Histogram,
}

impl KubequotaMetrics {
    /// Registers the group, and the build's `version`.
    pub fn register(registry: &Registry, version: &str) -> Self {
        let group = Self {
            syncs: Family::default(),
            writes: Counter::default(),
            write_conflicts: Counter::default(),
            monitors: Family::default(),
            monitors_synced: Family::default(),
            frozen_names: Gauge::default(),
            invalid_objects: Family::default(),
            objects_tracked: Family::default(),
            pending_charges: Gauge::default(),
            recount_drift: Counter::default(),
            foreign_writes: Counter::default(),
            evidence_lists: Counter::default(),
            // 1 ms to 65 s.
            resync_duration: Histogram::new(exponential_buckets(0.001, 2.0, 17)),
            // 1 ms to 32 s: upstream needs seconds where an event should take milliseconds.
            replenishment_latency: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
        };
        // From 0 on, so that a rate sees the first one of each.
        for result in SyncResult::ALL {
            drop(group.syncs.get_or_create(&ResultLabels { result }));
        }
        let build = Family::<VersionLabels, Gauge>::default();
        build
            .get_or_create(&VersionLabels {
                version: version.to_owned(),
            })
            .set(1);

        registry.register("kubequota_build_info", "The version of this program; always 1", build);
        registry.register(
            "kubequota_status_syncs",
            "Quotas synced, by result",
            group.syncs.clone(),
        );
        registry.register(
            "kubequota_status_writes",
            "Status writes that the server accepted",
            group.writes.clone(),
        );
        registry.register(
            "kubequota_status_write_conflicts",
            "Status writes refused because the quota had changed",
            group.write_conflicts.clone(),
        );
        registry.register("kubequota_monitors", "Kinds that are watched", group.monitors.clone());
        registry.register(
            "kubequota_monitors_synced",
            "Whether a watched kind is known completely",
            group.monitors_synced.clone(),
        );
        registry.register(
            "kubequota_frozen_names",
            "Resource names of quotas that can't be recounted now",
            group.frozen_names.clone(),
        );
        registry.register(
            "kubequota_invalid_objects",
            "Objects that can't be read, so that their names are frozen",
            group.invalid_objects.clone(),
        );
        registry.register(
            "kubequota_objects_tracked",
            "Objects in the ledger",
            group.objects_tracked.clone(),
        );
        registry.register(
            "kubequota_pending_charges",
            "Quota names with a raise whose object is not seen yet",
            group.pending_charges.clone(),
        );
        registry.register(
            "kubequota_recount_drift",
            "Differences that a full recount found in the ledger",
            group.recount_drift.clone(),
        );
        registry.register(
            "kubequota_foreign_status_writes",
            "Status writes of another manager",
            group.foreign_writes.clone(),
        );
        registry.register(
            "kubequota_evidence_lists",
            "Lists sent to settle whether a raise was ever stored",
            group.evidence_lists.clone(),
        );
        registry.register(
            "kubequota_resync_duration_seconds",
            "How long in seconds a full resync took",
            group.resync_duration.clone(),
        );
        registry.register(
            "kubequota_replenishment_latency_seconds",
            "How long in seconds from an event received to the status written",
            group.replenishment_latency.clone(),
        );
        group
    }

    /// The sync of a quota ended.
    pub fn synced(&self, result: SyncResult) {
        self.syncs.get_or_create(&ResultLabels { result }).inc();
    }

    /// The server accepted a status write.
    pub fn status_written(&self) {
        self.writes.inc();
    }

    /// The server refused a status write because the quota had changed.
    pub fn write_conflict(&self) {
        self.write_conflicts.inc();
    }

    /// A kind is watched, and known completely or not yet.
    pub fn set_monitor(&self, group: &str, resource: &str, synced: bool) {
        let labels = ResourceLabels::new(group, resource);
        self.monitors.get_or_create(&labels).set(1);
        self.monitors_synced.get_or_create(&labels).set(synced.into());
    }

    /// A kind is no longer watched: all that was said about it goes.
    pub fn remove_monitor(&self, group: &str, resource: &str) {
        let labels = ResourceLabels::new(group, resource);
        for family in [
            &self.monitors,
            &self.monitors_synced,
            &self.invalid_objects,
            &self.objects_tracked,
        ] {
            family.remove(&labels);
        }
    }

    /// How many names of quotas can't be recounted now.
    pub fn set_frozen_names(&self, count: usize) {
        set(&self.frozen_names, count);
    }

    /// How many objects of a kind can't be read.
    pub fn set_invalid_objects(&self, group: &str, resource: &str, count: usize) {
        set(
            &self
                .invalid_objects
                .get_or_create(&ResourceLabels::new(group, resource)),
            count,
        );
    }

    /// How many objects of a kind the ledger holds.
    pub fn set_objects_tracked(&self, group: &str, resource: &str, count: usize) {
        set(
            &self
                .objects_tracked
                .get_or_create(&ResourceLabels::new(group, resource)),
            count,
        );
    }

    /// How many names of quotas hold a raise whose object is not seen yet.
    pub fn set_pending_charges(&self, count: usize) {
        set(&self.pending_charges, count);
    }

    /// A full recount differed from the ledger in `names` names: that is a bug.
    pub fn recount_drifted(&self, names: u64) {
        self.recount_drift.inc_by(names);
    }

    /// Another manager wrote the status of a quota.
    pub fn foreign_status_write(&self) {
        self.foreign_writes.inc();
    }

    /// A list was sent to settle whether a raise was ever stored.
    pub fn evidence_list(&self) {
        self.evidence_lists.inc();
    }

    /// A full resync took `duration`.
    pub fn resynced(&self, duration: Duration) {
        self.resync_duration.observe(duration.as_secs_f64());
    }

    /// A status was written `latency` after the event that made it necessary.
    pub fn replenished(&self, latency: Duration) {
        self.replenishment_latency.observe(latency.as_secs_f64());
    }
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn each_call_shows() {
        let registry = Registry::new();
        let metrics = KubequotaMetrics::register(&registry, "1.2.3");
        metrics.synced(SyncResult::Written);
        metrics.synced(SyncResult::Written);
        metrics.synced(SyncResult::Conflict);
        metrics.status_written();
        metrics.write_conflict();
        metrics.set_frozen_names(2);
        metrics.set_pending_charges(3);
        metrics.recount_drifted(4);
        metrics.foreign_status_write();
        metrics.evidence_list();
        metrics.resynced(Duration::from_millis(1500));
        metrics.replenished(Duration::from_millis(20));
        metrics.set_monitor("", "pods", true);
        metrics.set_monitor("apps", "deployments", false);
        metrics.set_objects_tracked("", "pods", 7);
        metrics.set_invalid_objects("", "pods", 1);

        for line in [
            "kubequota_build_info{version=\"1.2.3\"} 1",
            "kubequota_status_syncs_total{result=\"written\"} 2",
            "kubequota_status_syncs_total{result=\"conflict\"} 1",
            "kubequota_status_syncs_total{result=\"error\"} 0",
            "kubequota_status_writes_total 1",
            "kubequota_status_write_conflicts_total 1",
            "kubequota_frozen_names 2",
            "kubequota_pending_charges 3",
            "kubequota_recount_drift_total 4",
            "kubequota_foreign_status_writes_total 1",
            "kubequota_evidence_lists_total 1",
            "kubequota_resync_duration_seconds_sum 1.5",
            "kubequota_replenishment_latency_seconds_sum 0.02",
            "kubequota_replenishment_latency_seconds_count 1",
            "kubequota_monitors{group=\"\",resource=\"pods\"} 1",
            "kubequota_monitors_synced{group=\"\",resource=\"pods\"} 1",
            "kubequota_monitors_synced{group=\"apps\",resource=\"deployments\"} 0",
            "kubequota_objects_tracked{group=\"\",resource=\"pods\"} 7",
            "kubequota_invalid_objects{group=\"\",resource=\"pods\"} 1",
        ] {
            assert_eq!(lines(&registry, line), [line], "{:#?}", lines(&registry, ""));
        }
    }

    #[test]
    fn a_kind_that_is_no_longer_watched_leaves_nothing() {
        let registry = Registry::new();
        let metrics = KubequotaMetrics::register(&registry, "1.2.3");
        metrics.set_monitor("", "pods", true);
        metrics.set_objects_tracked("", "pods", 7);
        metrics.set_invalid_objects("", "pods", 1);
        metrics.remove_monitor("", "pods");
        let text = lines(&registry, "").join("\n");
        assert!(!text.contains("resource="), "{text}");
    }
}
