//! The metrics of a process that admits.

use std::fmt::{self, Write as _};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::Registry;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdmissionVerdict {
    /// It was let through.
    Allowed,
    /// It would exceed a quota, or a quota can't be sure that it does not.
    Refused,
    /// There was no verdict in time: its client is asked to try again.
    Undecided,
}

impl EncodeLabelValue for AdmissionVerdict {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(match self {
            AdmissionVerdict::Allowed => "allowed",
            AdmissionVerdict::Refused => "refused",
            AdmissionVerdict::Undecided => "undecided",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    group: String,
    resource: String,
    verdict: AdmissionVerdict,
}

/// The metrics of admission. A cheap handle.
#[derive(Clone, Debug)]
pub struct AdmissionMetrics {
    decisions: Family<DecisionLabels, Counter>,
    duration: Histogram,
    batch_size: Histogram,
    conflicts: Counter,
    compensations: Counter,
    left_charged: Counter,
    waiting: Gauge,
}

impl AdmissionMetrics {
    /// Registers the group.
    #[must_use]
    pub fn register(registry: &Registry) -> Self {
        let group = Self {
            decisions: Family::default(),
            // 0.1 ms to 26 s: a webhook may take 30 s at most.
            duration: Histogram::new(exponential_buckets(0.0001, 2.0, 19)),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            conflicts: Counter::default(),
            compensations: Counter::default(),
            left_charged: Counter::default(),
            waiting: Gauge::default(),
        };
        registry.register(
            "kubequota_admission_decisions",
            "Requests that were judged, by verdict",
            group.decisions.clone(),
        );
        registry.register(
            "kubequota_admission_duration_seconds",
            "How long in seconds a request waited for its verdict",
            group.duration.clone(),
        );
        registry.register(
            "kubequota_admission_batch_size",
            "How many requests one batch judged together",
            group.batch_size.clone(),
        );
        registry.register(
            "kubequota_admission_write_conflicts",
            "Charges refused because the quota had changed",
            group.conflicts.clone(),
        );
        registry.register(
            "kubequota_admission_compensations",
            "Charges given back since their request was not let through",
            group.compensations.clone(),
        );
        registry.register(
            "kubequota_admission_left_charged",
            "Batches that could not give back a charge, which is left to the quota controller",
            group.left_charged.clone(),
        );
        registry.register(
            "kubequota_admission_waiting",
            "Requests that wait for their verdict",
            group.waiting.clone(),
        );
        group
    }

    /// A request for an object of this kind was judged after `took`.
    pub fn decided(&self, group: &str, resource: &str, verdict: AdmissionVerdict, took: Duration) {
        let labels = DecisionLabels {
            group: group.to_owned(),
            resource: resource.to_owned(),
            verdict,
        };
        self.decisions.get_or_create(&labels).inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// So many requests are judged together.
    pub fn batch(&self, requests: usize) {
        #[expect(clippy::cast_precision_loss, reason = "batches are small")]
        self.batch_size.observe(requests as f64);
    }

    /// A charge met a newer quota.
    pub fn conflict(&self) {
        self.conflicts.inc();
    }

    /// So many charges were given back.
    pub fn compensated(&self, charges: u64) {
        self.compensations.inc_by(charges);
    }

    /// A batch ended with a charge that it could not give back.
    pub fn left_charged(&self) {
        self.left_charged.inc();
    }

    /// A request waits until the guard is dropped.
    #[must_use]
    pub fn waits(&self) -> WaitGuard {
        self.waiting.inc();
        WaitGuard(self.waiting.clone())
    }
}

/// Held while a request waits.
#[derive(Debug)]
pub struct WaitGuard(Gauge);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn each_call_shows() {
        let registry = Registry::new();
        let metrics = AdmissionMetrics::register(&registry);
        let took = Duration::from_millis(2);
        metrics.decided("", "pods", AdmissionVerdict::Allowed, took);
        metrics.decided("apps", "deployments", AdmissionVerdict::Refused, took);
        metrics.decided("", "pods", AdmissionVerdict::Undecided, took);
        metrics.batch(3);
        metrics.conflict();
        metrics.compensated(4);
        metrics.left_charged();
        let waits = metrics.waits();
        for line in [
            "kubequota_admission_decisions_total{group=\"\",resource=\"pods\",verdict=\"allowed\"} 1",
            "kubequota_admission_decisions_total{group=\"apps\",resource=\"deployments\",verdict=\"refused\"} 1",
            "kubequota_admission_decisions_total{group=\"\",resource=\"pods\",verdict=\"undecided\"} 1",
            "kubequota_admission_duration_seconds_sum 0.006",
            "kubequota_admission_batch_size_sum 3.0",
            "kubequota_admission_write_conflicts_total 1",
            "kubequota_admission_compensations_total 4",
            "kubequota_admission_left_charged_total 1",
            "kubequota_admission_waiting 1",
        ] {
            assert_eq!(lines(&registry, line), [line], "{:#?}", lines(&registry, ""));
        }
        drop(waits);
        assert_eq!(
            lines(&registry, "kubequota_admission_waiting"),
            ["kubequota_admission_waiting 0"]
        );
    }
}
