//! Prometheus metrics.
//!
//! | metric | type | labels | what it says |
//! |---|---|---|---|
//! | `workqueue_depth` | gauge | `name` | keys waiting in a queue |
//! | `workqueue_adds_total` | counter | `name` | keys added |
//! | `workqueue_queue_duration_seconds` | histogram | `name` | how long a key waited |
//! | `workqueue_work_duration_seconds` | histogram | `name` | how long its work took |
//! | `workqueue_unfinished_work_seconds` | gauge | `name` | seconds of work in progress, all workers together |
//! | `workqueue_longest_running_processor_seconds` | gauge | `name` | seconds the slowest worker has been at its key |
//! | `workqueue_retries_total` | counter | `name` | keys added again after a failure |
//! | `rest_client_requests_total` | counter | `code`, `method`, `host` | requests to the API server; `<error>` without an answer |
//! | `rest_client_request_duration_seconds` | histogram | `verb`, `host` | time to the answer's head; watches are left out |
//! | `rest_client_request_size_bytes` | histogram | `verb`, `host` | size of request bodies |
//! | `kubequota_status_syncs_total` | counter | `result` | quotas synced, by [`SyncResult`] |
//! | `kubequota_status_writes_total` | counter | | status writes that the server accepted |
//! | `kubequota_status_write_conflicts_total` | counter | | status writes refused because the quota had changed |
//! | `kubequota_monitors` | gauge | `group`, `resource` | 1 for each kind that is watched |
//! | `kubequota_monitors_synced` | gauge | `group`, `resource` | 1 when the kind is known completely, else 0 |
//! | `kubequota_frozen_names` | gauge | | resource names of quotas that can't be recounted now |
//! | `kubequota_invalid_objects` | gauge | `group`, `resource` | objects that can't be read, so their names are frozen |
//! | `kubequota_objects_tracked` | gauge | `group`, `resource` | objects in the ledger |
//! | `kubequota_pending_charges` | gauge | | quota names with a raise whose object is not seen yet |
//! | `kubequota_recount_drift_total` | counter | | differences that a full recount found in the ledger: bugs |
//! | `kubequota_foreign_status_writes_total` | counter | | status writes of another manager: two controllers run |
//! | `kubequota_evidence_lists_total` | counter | | lists sent to settle whether a raise was ever stored |
//! | `kubequota_resync_duration_seconds` | histogram | | how long a full resync took |
//! | `kubequota_replenishment_latency_seconds` | histogram | | from an event received to the status written |
//! | `kubequota_admission_decisions_total` | counter | `group`, `resource`, `verdict` | requests judged, by [`AdmissionVerdict`] (this group: webhook only) |
//! | `kubequota_admission_duration_seconds` | histogram | | how long a request waited for its verdict |
//! | `kubequota_admission_batch_size` | histogram | | how many requests one batch judged together |
//! | `kubequota_admission_write_conflicts_total` | counter | | charges refused because the quota had changed |
//! | `kubequota_admission_compensations_total` | counter | | charges given back since their request was not let through |
//! | `kubequota_admission_left_charged_total` | counter | | batches that could not give back a charge |
//! | `kubequota_admission_waiting` | gauge | | requests that wait for their verdict |
//! | `kubequota_build_info` | gauge | `version` | always 1 |
//! | `process_resident_memory_bytes` | gauge | | resident memory (Linux only, as the rest of these) |
//! | `process_cpu_seconds_total` | counter | | user and system time |
//! | `process_start_time_seconds` | gauge | | start, in seconds since 1970 |
//! | `process_open_fds` | gauge | | open file descriptors |
//!
//! Names, labels and buckets of the first two groups are those of Kubernetes' own components, so their dashboards and
//! alerts work unchanged.

mod admission;
mod kubequota;
mod process;
mod rest_client;
mod workqueue;

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry;

pub use self::admission::{AdmissionMetrics, AdmissionVerdict, WaitGuard};
pub use self::kubequota::{KubequotaMetrics, SyncResult};
pub use self::process::ProcessMetrics;
pub use self::rest_client::{RestClientFuture, RestClientLayer, RestClientMetrics, RestClientService};
pub use self::workqueue::{Work, Workqueue, WorkqueueMetrics};

/// All metrics of a process, registered once. A cheap handle.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// What `/metrics` shows.
    pub registry: Registry,
    /// The queues.
    pub workqueue: WorkqueueMetrics,
    /// Requests to the API server.
    pub rest_client: RestClientMetrics,
    /// kubequota's own.
    pub kubequota: KubequotaMetrics,
}

impl Metrics {
    /// Registers every group, the process metrics too. `version` is the program's.
    pub fn new(version: &str) -> Self {
        let registry = Registry::new();
        registry.register_collector(ProcessMetrics::new());
        Self {
            workqueue: WorkqueueMetrics::register(&registry),
            rest_client: RestClientMetrics::register(&registry),
            kubequota: KubequotaMetrics::register(&registry, version),
            registry,
        }
    }
}

/// The metrics of a process, by name; a cheap handle, clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    inner: Arc<RwLock<registry::Registry>>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metric. A counter's name is given without `_total`, which encoding adds; the help text without its full
    /// stop, likewise.
    pub fn register(&self, name: &str, help: &str, metric: impl registry::Metric) {
        self.inner.write().register(name, help, metric);
    }

    /// Adds metrics that are read at the moment they are asked for.
    pub fn register_collector(&self, collector: impl Collector) {
        self.inner.write().register_collector(Box::new(collector));
    }

    /// All metrics as text.
    ///
    /// # Errors
    /// Only when a collector fails to encode itself.
    pub fn encode(&self, format: TextFormat) -> Result<String, fmt::Error> {
        let mut out = String::new();
        let registry = self.inner.read();
        match format {
            TextFormat::Prometheus => prometheus_text::encode(&mut out, &registry)?,
            TextFormat::OpenMetrics => text::encode(&mut out, &registry)?,
        }
        Ok(out)
    }
}

/// The two text formats that scrapers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' text format 0.0.4: for whoever asks for nothing else.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl TextFormat {
    /// The format for a request's `Accept` header.
    pub fn negotiate(accept: &str) -> Self {
        let openmetrics = accept.split(',').any(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            parts
                .next()
                .is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"))
                && parts.all(|parameter| parameter != "q=0")
        });
        if openmetrics {
            TextFormat::OpenMetrics
        } else {
            TextFormat::Prometheus
        }
    }

    /// The answer's `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tower::{Layer as _, ServiceExt as _};

    use super::*;

    /// The lines of `registry` that begin with `prefix`, without comments.
    pub(super) fn lines(registry: &Registry, prefix: &str) -> Vec<String> {
        let text = registry.encode(TextFormat::Prometheus).unwrap();
        text.lines()
            .filter(|line| line.starts_with(prefix))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn accept_headers() {
        use TextFormat::{OpenMetrics, Prometheus};
        let table = [
            ("", Prometheus),
            ("*/*", Prometheus),
            ("text/plain;version=0.0.4", Prometheus),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2",
                OpenMetrics,
            ),
            ("text/plain;q=0.2, Application/OpenMetrics-Text", OpenMetrics),
            ("application/openmetrics-text; q=0, */*", Prometheus),
        ];
        for (accept, format) in table {
            assert_eq!(TextFormat::negotiate(accept), format, "{accept}");
        }
    }

    /// Every name and type, exactly: dashboards depend on them, and the table above promises them.
    #[tokio::test]
    async fn every_metric_is_documented_and_has_its_usual_name() {
        let metrics = Metrics::new("1.2.3");
        // A family is shown from its first member on.
        metrics.workqueue.queue("q");
        AdmissionMetrics::register(&metrics.registry).decided("", "pods", AdmissionVerdict::Allowed, Duration::ZERO);
        metrics.kubequota.set_monitor("", "pods", true);
        metrics.kubequota.set_objects_tracked("", "pods", 1);
        metrics.kubequota.set_invalid_objects("", "pods", 0);
        let server = tower::service_fn(async |_| Ok::<_, fmt::Error>(http::Response::new(())));
        let request = http::Request::new(http_body_util::Empty::<axum::body::Bytes>::new());
        metrics
            .rest_client
            .layer("host")
            .layer(server)
            .oneshot(request)
            .await
            .unwrap();

        let mut families: Vec<String> = metrics
            .registry
            .encode(TextFormat::Prometheus)
            .unwrap()
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter(|family| cfg!(target_os = "linux") || !family.starts_with("process_"))
            .map(str::to_owned)
            .collect();
        families.sort_unstable();

        let mut documented: Vec<String> = include_str!("mod.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `"))
            .filter(|line| cfg!(target_os = "linux") || !line.starts_with("process_"))
            .map(|line| {
                let mut cells = line.split('|').map(|cell| cell.trim().trim_end_matches('`'));
                format!("{} {}", cells.next().unwrap(), cells.next().unwrap())
            })
            .collect();
        documented.sort_unstable();
        assert_eq!(families, documented);
        assert!(documented.len() > 20);
    }

    #[test]
    fn openmetrics_ends_as_it_must() {
        let text = Metrics::new("1.2.3").registry.encode(TextFormat::OpenMetrics).unwrap();
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("kubequota_build_info{version=\"1.2.3\"} 1\n"), "{text}");
    }
}
