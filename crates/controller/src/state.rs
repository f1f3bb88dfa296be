//! What the controller's tasks share: the accounts, and all that follows from a change of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kubequota_cluster::{ApiResource, Cluster, Monitor, MonitorOptions, MonitorStatus, Versions};
use kubequota_core::accounts::{Accounts, Notice, Settings};
use kubequota_core::pending::Tick;
use kubequota_core::{GroupResource, QuotaKey};
use kubequota_shell::{Drain, Metrics, OncePer, Readiness};
use kubequota_wire::json::Shape;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::dry_run::DryRun;
use crate::options::Options;
use crate::queue::Queue;

/// A trouble that stays is told again after this long.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(600);

/// So many namespaces are listed at a time, so that evidence for many quotas does not crowd out everything else.
const CONCURRENT_LISTS: usize = 8;

/// A cheap handle.
pub(crate) type Shared = Arc<State>;

pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) cluster: Cluster,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) drain: Drain,
    /// Quotas in general.
    pub(crate) primary: Queue,
    /// Quotas whose usage is missing: they don't wait behind the others.
    pub(crate) missing_usage: Queue,
    /// How each monitor of a kind is.
    pub(crate) versions: Mutex<HashMap<GroupResource, watch::Receiver<MonitorStatus>>>,
    /// The quotas are known.
    pub(crate) quotas_listed: Notify,
    pub(crate) dry_run: Option<DryRun>,
    /// Which kinds are needed may have changed.
    pub(crate) wanted: Notify,
    /// The next moment at which a charge changes by itself may be another.
    pub(crate) deadlines: Notify,
    pub(crate) lists: Semaphore,
    accounts: Mutex<Accounts>,
    troubles: Mutex<OncePer>,
    /// The quotas whose writes fail.
    failures: Mutex<HashMap<QuotaKey, Failing>>,
    /// Quotas whose status may not be written.
    forbidden: Mutex<HashSet<QuotaKey>>,
    /// Since when quotas have waited for a write.
    waiting: Mutex<HashMap<QuotaKey, Instant>>,
    epoch: Instant,
}

/// How often writes of a quota have failed in a row, and since when.
struct Failing {
    count: u32,
    since: Instant,
}

impl State {
    pub(crate) fn new(
        options: Options,
        cluster: Cluster,
        metrics: Metrics,
        readiness: Readiness,
        drain: Drain,
    ) -> Shared {
        let settings = Settings {
            grace: options.admission_grace,
            enforcement_patience: options.enforcement_patience,
            ..Settings::default()
        };
        Arc::new(State {
            primary: Queue::new(metrics.workqueue.queue("resourcequota_primary")),
            missing_usage: Queue::new(metrics.workqueue.queue("resourcequota_priority")),
            dry_run: options.dry_run.then(|| DryRun::new(&metrics.registry)),
            versions: Mutex::default(),
            quotas_listed: Notify::new(),
            waiting: Mutex::default(),
            forbidden: Mutex::default(),
            wanted: Notify::new(),
            deadlines: Notify::new(),
            lists: Semaphore::new(CONCURRENT_LISTS),
            accounts: Mutex::new(Accounts::new(settings)),
            troubles: Mutex::new(OncePer::new(TROUBLE_INTERVAL)),
            failures: Mutex::default(),
            epoch: Instant::now(),
            options,
            cluster,
            metrics,
            readiness,
            drain,
        })
    }

    /// This moment.
    pub(crate) fn tick(&self) -> Tick {
        self.tick_at(Instant::now())
    }

    pub(crate) fn tick_at(&self, instant: Instant) -> Tick {
        Tick::after_start(instant.saturating_duration_since(self.epoch))
    }

    pub(crate) fn instant(&self, tick: Tick) -> Instant {
        self.epoch + (tick - Tick::default())
    }

    /// Since when a quota has waited to be synced is remembered for its replenishment latency.
    fn note_waiting(&self, keys: impl Iterator<Item = QuotaKey>) {
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        for key in keys {
            waiting.entry(key).or_insert(now);
        }
    }

    /// A quota's status was written: whatever it waited for has taken this long.
    pub(crate) fn replenished(&self, key: &QuotaKey) {
        if let Some(since) = self.waiting.lock().remove(key) {
            self.metrics.kubequota.replenished(since.elapsed());
        }
    }

    /// A quota's status is right.
    pub(crate) fn settled(&self, key: &QuotaKey) {
        self.waiting.lock().remove(key);
    }

    /// A monitor of a resource in all namespaces.
    pub(crate) fn monitor<S: Shape + Send + Sync + 'static>(&self, versions: &Versions, shape: S) -> Monitor<S>
    where
        S::Output: Send + 'static,
    {
        Monitor::new(self.cluster.clone(), versions, None, shape, MonitorOptions::default())
    }

    /// The version of a kind that can be listed.
    pub(crate) fn version_in_use(&self, id: &GroupResource) -> Option<ApiResource> {
        self.versions
            .lock()
            .get(id)
            .map(|status| status.borrow().version.clone())
    }

    /// The server's time. Before it is known no grace has run out.
    pub(crate) fn server_now(&self) -> Timestamp {
        self.cluster.clock().now().unwrap_or(Timestamp::MIN)
    }

    /// Looks at the accounts.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Accounts) -> R) -> R {
        look(&self.accounts.lock())
    }

    /// Changes the accounts, and sees to what follows: quotas are queued, people are told, tasks are woken.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut Accounts, Tick, Timestamp) -> R) -> R {
        let server_now = self.server_now();
        let mut accounts = self.accounts.lock();
        let deadline = accounts.next_deadline();
        let result = change(&mut accounts, self.tick(), server_now);
        let dirty: Vec<(QuotaKey, bool)> = accounts
            .take_dirty()
            .into_iter()
            .map(|key| {
                let missing = accounts.is_missing_usage(&key);
                (key, missing)
            })
            .collect();
        let notices = accounts.take_notices();
        let deadline_changed = accounts.next_deadline() != deadline;
        let wanted_changed = accounts.take_wanted_changed();
        drop(accounts);
        self.note_waiting(dirty.iter().map(|(key, _)| key.clone()));
        for (key, missing) in dirty {
            if missing {
                self.missing_usage.add(key);
            } else {
                self.primary.add(key);
            }
        }
        for notice in notices {
            self.tell(notice);
        }
        if deadline_changed {
            self.deadlines.notify_one();
        }
        if wanted_changed {
            self.wanted.notify_one();
        }
        result
    }

    /// Logs a trouble, unless it was logged just before.
    pub(crate) fn trouble(&self, about: &str, trouble: &str) {
        self.trouble_such_as(about, trouble, "");
    }

    /// Logs a trouble with an example of it, unless it was logged just before, be it with another example.
    pub(crate) fn trouble_such_as(&self, about: &str, trouble: &str, example: &str) {
        if let Some(repeats) = self.troubles.lock().check(about, trouble, Instant::now()) {
            let colon = if example.is_empty() { "" } else { ": " };
            tracing::warn!(about, repeats, "{trouble}{colon}{example}");
        }
    }

    /// Logs that a trouble is over, if there was one.
    pub(crate) fn trouble_over(&self, about: &str) {
        if self.troubles.lock().over(about) {
            tracing::info!(about, "all right again");
        }
    }

    fn tell(&self, notice: Notice) {
        match notice {
            // Whoever keeps the quotas while we only look is no stranger.
            Notice::ForeignWrite { .. } if self.dry_run.is_some() => {}
            Notice::ForeignWrite { quota, name, from, to } => {
                self.metrics.kubequota.foreign_status_write();
                let trouble = "someone else lowers status.used: is another quota controller still on? \
                     (kube-controller-manager --controllers=*,-resourcequota-controller takes its own out)";
                self.trouble_such_as(
                    "foreign writes",
                    trouble,
                    &format!("quota {quota}, {name} from {from} to {to}"),
                );
            }
            Notice::Unreadable { kind, object, error } => {
                let trouble = format!("can't be charged, what {kind} feed in its namespace keeps its figures: {error}");
                self.trouble(&format!("{kind} {object}"), &trouble);
            }
            Notice::InvalidSelector { quota, error } => {
                self.trouble(
                    &format!("quota {quota}"),
                    &format!("its figures are kept as they are: {error}"),
                );
            }
            Notice::UnreadableValue { quota, error } => {
                self.trouble(&format!("quota {quota}"), &format!("a value is left out: {error}"));
            }
            Notice::Drift { quota, drift } => {
                let names = drift.recounted.subtract(&drift.running).without_zeros().len();
                self.metrics
                    .kubequota
                    .recount_drifted(names.try_into().unwrap_or(u64::MAX));
                tracing::error!(%quota, running = %drift.running, recounted = %drift.recounted,
                    "a recount found other sums than the running ones, and corrected them: this is a bug, please report it");
            }
            Notice::Unenforced { quota } => {
                let trouble = "put into force without the webhook's word that it is asked for them: is it running, and is \
                     its configuration there? (kubectl get validatingwebhookconfiguration)";
                self.trouble_such_as("limits", trouble, &format!("quota {quota}"));
            }
            Notice::LeftOut { quota, name, value } => {
                self.trouble(
                    &format!("quota {quota}"),
                    &format!("the server does not take {name}={value}: it is left out"),
                );
            }
        }
    }

    /// A write of `key` failed: how long to wait before the next.
    pub(crate) fn failed(&self, key: &QuotaKey) -> Duration {
        let mut failures = self.failures.lock();
        let failing = failures.entry(key.clone()).or_insert_with(|| Failing {
            count: 0,
            since: Instant::now(),
        });
        failing.count += 1;
        // As client-go's rate limiter for work queues, with an earlier end.
        Duration::from_millis(5)
            .saturating_mul(1 << (failing.count - 1).min(13))
            .min(Duration::from_secs(30))
    }

    /// A write of `key` had no answer that tells, which is the server's trouble and not the quota's: it is told once for all of them, where it
    /// lasts.
    pub(crate) fn unanswered(&self, key: &QuotaKey, answer: &str) {
        let lasts = self
            .failures
            .lock()
            .get(key)
            .is_some_and(|failing| failing.since.elapsed() >= WORTH_TELLING);
        if lasts {
            self.trouble_such_as(
                UNANSWERED,
                "they are sent again until the server says what became of them",
                answer,
            );
        }
    }

    /// A write of `key` was answered.
    pub(crate) fn succeeded(&self, key: &QuotaKey) {
        let mut failures = self.failures.lock();
        failures.remove(key);
        if failures.is_empty() {
            self.trouble_over(UNANSWERED);
        }
        drop(failures);
        if self.forbidden.lock().remove(key) {
            self.tell_forbidden();
        }
    }

    /// A write of `key` was refused for want of a permission. That is the same for all quotas, so it is told once.
    pub(crate) fn forbidden(&self, key: &QuotaKey, answer: &str) {
        self.trouble_such_as(STATUS_WRITES, MAY_NOT_WRITE, answer);
        if self.forbidden.lock().insert(key.clone()) {
            self.tell_forbidden();
        }
    }

    fn tell_forbidden(&self) {
        let count = self.forbidden.lock().len();
        if count == 0 {
            self.readiness.clear(STATUS_WRITES);
            self.trouble_over(STATUS_WRITES);
        } else {
            self.readiness
                .degraded(STATUS_WRITES, format!("{MAY_NOT_WRITE} ({count} quotas wait)"));
        }
    }

    /// Brings the gauges, and what readiness tells beside, up to date.
    pub(crate) fn export(&self) {
        let accounts = self.accounts.lock();
        let metrics = &self.metrics.kubequota;
        let frozen = accounts.frozen_names().count();
        let some: Vec<String> = accounts
            .frozen_names()
            .take(NAMED)
            .map(|(quota, name)| format!("{name} of {quota}"))
            .collect();
        metrics.set_frozen_names(frozen);
        metrics.set_pending_charges(accounts.pending_charges());
        let inventory = accounts.inventory();
        for kind in accounts.needed_kinds() {
            let id = inventory.registry().evaluator(kind).group_resource();
            metrics.set_objects_tracked(&id.group, &id.resource, inventory.ledger().len(kind));
            metrics.set_invalid_objects(&id.group, &id.resource, inventory.ledger().invalid(kind));
        }
        drop(accounts);
        if frozen == 0 {
            self.readiness.clear(FROZEN);
        } else {
            let more = if frozen > NAMED { ", ..." } else { "" };
            let some = some.join(", ");
            self.readiness.degraded(
                FROZEN,
                format!("{frozen} can't be recounted, the log says why: {some}{more}"),
            );
        }
    }
}

const FROZEN: &str = "frozen names";

/// So many frozen names are shown.
const NAMED: usize = 5;

/// Writes without an answer for no longer than this are not worth a line.
const WORTH_TELLING: Duration = Duration::from_secs(1);

const UNANSWERED: &str = "status writes without an answer";

const STATUS_WRITES: &str = "status writes";

const MAY_NOT_WRITE: &str =
    "may not patch the status of quotas: grant verb patch on resourcequotas/status in API group \"\" (a ClusterRole)";
