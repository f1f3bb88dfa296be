//! Metrics of work queues, as client-go's queues report them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

use super::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: Arc<str>,
}

type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of all queues of a process. A cheap handle.
#[derive(Clone, Debug)]
pub struct WorkqueueMetrics {
    depth: Family<Labels, Gauge>,
    adds: Family<Labels, Counter>,
    queue_duration: Histograms,
    work_duration: Histograms,
    retries: Family<Labels, Counter>,
    in_progress: InProgress,
}

impl WorkqueueMetrics {
    /// Registers the group.
    pub fn register(registry: &Registry) -> Self {
        // Kubernetes' buckets: 10 ns to 10 s.
        let histograms = || Histograms::new_with_constructor(|| Histogram::new(exponential_buckets(10e-9, 10.0, 10)));
        let group = Self {
            depth: Family::default(),
            adds: Family::default(),
            queue_duration: histograms(),
            work_duration: histograms(),
            retries: Family::default(),
            in_progress: InProgress::default(),
        };
        registry.register("workqueue_depth", "Current depth of workqueue", group.depth.clone());
        registry.register(
            "workqueue_adds",
            "Total number of adds handled by workqueue",
            group.adds.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            group.queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            group.work_duration.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Total number of retries handled by workqueue",
            group.retries.clone(),
        );
        registry.register_collector(group.in_progress.clone());
        group
    }

    /// The metrics of the queue called `name`; asking again gives the same ones.
    pub fn queue(&self, name: &str) -> Workqueue {
        let labels = Labels { name: name.into() };
        Workqueue {
            depth: self.depth.get_or_create_owned(&labels),
            adds: self.adds.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            started: self.in_progress.0.lock().entry(labels.name).or_default().clone(),
        }
    }
}

/// The metrics of one queue. A cheap handle. The queue says how deep it is rather than have it counted here, so the
/// two can't drift apart.
#[derive(Clone, Debug)]
pub struct Workqueue {
    depth: Gauge,
    adds: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    retries: Counter,
    started: Shared,
}

impl Workqueue {
    /// A key was added that was not waiting yet; `depth` keys wait now.
    pub fn added(&self, depth: usize) {
        self.adds.inc();
        self.set_depth(depth);
    }

    /// A worker took a key that had waited for `waited`; `depth` keys are left. Hold the [`Work`] until it is done.
    pub fn taken(&self, waited: Duration, depth: usize) -> Work {
        self.queue_duration.observe(waited.as_secs_f64());
        self.set_depth(depth);
        let begin = Instant::now();
        let mut started = self.started.lock();
        let id = started.next;
        started.next += 1;
        started.running.insert(id, begin);
        Work {
            id,
            begin,
            work_duration: self.work_duration.clone(),
            started: Arc::clone(&self.started),
        }
    }

    /// A key goes back into the queue because its work failed.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// `depth` keys wait now: for changes that neither add nor take.
    pub fn set_depth(&self, depth: usize) {
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }
}

/// One key being worked on; its duration is observed on drop.
#[derive(Debug)]
#[must_use = "work that is dropped at once took no time"]
pub struct Work {
    id: u64,
    begin: Instant,
    work_duration: Histogram,
    started: Shared,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.started.lock().running.remove(&self.id);
        self.work_duration.observe(self.begin.elapsed().as_secs_f64());
    }
}

/// When the work in progress began. Ids rise with time, so the first is the longest running.
#[derive(Debug, Default)]
struct Started {
    next: u64,
    running: BTreeMap<u64, Instant>,
}

/// The queue's handle, its workers and the collector all look at it.
type Shared = Arc<Mutex<Started>>;

/// Work in progress by queue, measured when it is asked for: a worker that hangs reports nothing by itself.
#[derive(Clone, Debug, Default)]
struct InProgress(Arc<Mutex<BTreeMap<Arc<str>, Shared>>>);

impl Collector for InProgress {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let now = Instant::now();
        let mut unfinished = Vec::new();
        let mut longest = Vec::new();
        for (name, started) in &*self.0.lock() {
            let started = started.lock();
            let mut seconds = started
                .running
                .values()
                .map(|begin| now.saturating_duration_since(*begin).as_secs_f64());
            let first = seconds.next().unwrap_or(0.0);
            longest.push((name.clone(), first));
            unfinished.push((name.clone(), first + seconds.sum::<f64>()));
        }
        let gauges = [
            (
                "workqueue_unfinished_work_seconds",
                "How many seconds of work has been done that is in progress and hasn't been observed by work_duration",
                unfinished,
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How many seconds has the longest running processor for workqueue been running",
                longest,
            ),
        ];
        for (metric, help, values) in gauges {
            let mut family = encoder.encode_descriptor(metric, help, None, MetricType::Gauge)?;
            for (name, seconds) in values {
                ConstGauge::new(seconds).encode(family.encode_family(&Labels { name })?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_key_through_the_queue() {
        let registry = Registry::new();
        let queue = WorkqueueMetrics::register(&registry).queue("resourcequota_primary");
        queue.added(1);
        queue.added(2);
        let slow = queue.taken(Duration::from_millis(5), 1);
        tokio::time::advance(Duration::from_secs(3)).await;
        let quick = queue.taken(Duration::from_millis(3005), 0);
        tokio::time::advance(Duration::from_secs(1)).await;

        let sample = |metric: &str| {
            let found = lines(&registry, metric);
            let [line] = &found[..] else {
                panic!("{metric}: {found:?}")
            };
            line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
        };
        assert_eq!(
            lines(&registry, "workqueue_adds_total"),
            ["workqueue_adds_total{name=\"resourcequota_primary\"} 2"]
        );
        assert_eq!(sample("workqueue_depth"), 0.0);
        assert_eq!(sample("workqueue_unfinished_work_seconds"), 5.0);
        assert_eq!(sample("workqueue_longest_running_processor_seconds"), 4.0);
        assert_eq!(sample("workqueue_queue_duration_seconds_count"), 2.0);
        assert_eq!(sample("workqueue_work_duration_seconds_count"), 0.0);

        drop(slow);
        assert_eq!(sample("workqueue_unfinished_work_seconds"), 1.0);
        drop(quick);
        queue.retried();
        assert_eq!(sample("workqueue_longest_running_processor_seconds"), 0.0);
        assert_eq!(sample("workqueue_work_duration_seconds_sum"), 5.0);
        assert_eq!(sample("workqueue_retries_total"), 1.0);
    }

    #[test]
    fn buckets_are_those_of_kubernetes() {
        let registry = Registry::new();
        WorkqueueMetrics::register(&registry)
            .queue("q")
            .queue_duration
            .observe(0.0);
        let bounds: Vec<f64> = lines(&registry, "workqueue_queue_duration_seconds_bucket")
            .iter()
            .map(|line| {
                line.split("le=\"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        assert_eq!(bounds.len(), 11);
        for (bound, power) in bounds.iter().zip(-8..) {
            let expected = 10f64.powi(power);
            assert!(
                bound.is_infinite() || (bound / expected - 1.0).abs() < 1e-9,
                "{bound} is not {expected}"
            );
        }
    }
}
