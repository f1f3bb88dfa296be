//! Which kinds are watched: those that some quota names and the server serves.
//!
//! A kind's monitor starts when the first quota names it, and stops a while after the last. What the server serves is discovered again when
//! CustomResourceDefinitions or APIServices change, when a quota names what is not known, and on a slow timer.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kubequota_cluster::monitor::{MonitorHandle, Sink, Update};
use kubequota_cluster::{ApiResource, Discovery, Versions};
use kubequota_core::accounts::{Accounts, Served};
use kubequota_core::evaluators::ViewKind;
use kubequota_core::inventory::DeviceClassView;
use kubequota_core::registry::KindId;
use kubequota_core::{GroupResource, Metadata};
use kubequota_shell::ReadyGate;
use kubequota_wire::json::{MetadataOnly, Plain};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::replenishment::{DeviceClassSink, KindSink};
use crate::state::Shared;

/// A kind that no quota names any more is watched this much longer: quotas are often deleted to be made anew.
const LINGER: Duration = Duration::from_secs(60);

/// An API that has just changed may take a moment until discovery shows it: discovery is asked after these times.
const AFTER_CHANGE: [Duration; 3] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(4),
];

/// Discovery that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(2);

struct Kinds {
    state: Shared,
    discovery: Discovery,
    monitors: HashMap<KindId, Running>,
    device_classes: Option<(Versions, MonitorHandle)>,
    /// The unknown kinds that quotas named when discovery was last asked, or is about to be.
    asked: BTreeSet<GroupResource>,
    /// How often discovery has failed in a row. A server that restarts lets it fail once or twice, which is not worth a line.
    failures: u32,
}

struct Running {
    versions: Versions,
    _monitor: MonitorHandle,
    unneeded_since: Option<Instant>,
}

/// Keeps what is watched right, for ever.
pub(crate) async fn run(state: Shared) {
    let discovered = state.readiness.register("kinds discovered");
    // Quotas first: what they hold is then known to be older than any list of objects.
    state.quotas_listed.notified().await;
    let apis_changed = Arc::new(Notify::new());
    let _apis = [ApiResource::custom_resource_definitions(), ApiResource::api_services()].map(|apis| {
        state.monitor(&Versions::from(apis), MetadataOnly).spawn(ApiSink {
            changed: apis_changed.clone(),
        })
    });
    let mut kinds = Kinds {
        state,
        discovery: Discovery::default(),
        monitors: HashMap::new(),
        device_classes: None,
        asked: BTreeSet::new(),
        failures: 0,
    };
    let mut schedule = Schedule::default();
    loop {
        if schedule.is_due(Instant::now()) {
            let answered = kinds.discover(&discovered).await;
            let period = if answered {
                kinds.state.options.discovery_period
            } else {
                RETRY
            };
            schedule.done(Instant::now(), period);
            kinds.asked = kinds.state.read(Accounts::unknown_kinds);
        }
        kinds.adjust();
        tokio::select! {
            () = sleep_until(schedule.next().min(kinds.next_stop().unwrap_or_else(|| schedule.next()))) => {}
            () = kinds.state.wanted.notified() => {
                // A kind that is not served is asked for once, not for as long as a quota names it.
                let unknown = kinds.state.read(Accounts::unknown_kinds);
                if !unknown.is_subset(&kinds.asked) {
                    schedule.also(&[AFTER_CHANGE[0]]);
                }
                kinds.asked = unknown;
                // Quotas often come by the dozen.
                sleep(Duration::from_millis(5)).await;
            }
            () = apis_changed.notified() => schedule.also(&AFTER_CHANGE),
        }
    }
}

/// When discovery is asked: in a while, and at some moments before that.
#[derive(Debug)]
struct Schedule {
    regular: Instant,
    extra: BTreeSet<Instant>,
}

impl Default for Schedule {
    /// At once.
    fn default() -> Self {
        Schedule {
            regular: Instant::now(),
            extra: BTreeSet::new(),
        }
    }
}

impl Schedule {
    /// After these times too.
    fn also(&mut self, after: &[Duration]) {
        let now = Instant::now();
        // However often something changes, the moments stay few: the next is not put off, and the last is not lost.
        let kept = [self.extra.first(), self.extra.last()].map(Option::<&Instant>::copied);
        let new = after.iter().map(|after| now + *after);
        self.extra = kept.into_iter().flatten().chain(new).collect();
    }

    fn is_due(&self, now: Instant) -> bool {
        self.next() <= now
    }

    fn next(&self) -> Instant {
        self.extra
            .first()
            .map_or(self.regular, |extra| self.regular.min(*extra))
    }

    /// It was asked: regularly after `period`, and at the moments that are still to come.
    fn done(&mut self, now: Instant, period: Duration) {
        self.extra.retain(|extra| *extra > now);
        self.regular = now + period;
    }
}

impl Kinds {
    /// Asks what the server serves; whether it answered.
    async fn discover(&mut self, discovered: &ReadyGate) -> bool {
        let about = "discovery";
        let found = match self.state.cluster.discover().await {
            Ok(found) => found,
            Err(error) => {
                self.failures += 1;
                if self.failures > 1 && !self.state.cluster.is_told(&error) {
                    self.state.trouble(about, &error.to_string());
                }
                // What was found before still holds.
                if self.discovery.resources.is_empty() {
                    discovered.not_ready(error.to_string());
                } else {
                    self.state.readiness.degraded(about, error.to_string());
                }
                return false;
            }
        };
        self.failures = 0;
        if found.failed_groups.is_empty() {
            self.state.trouble_over(about);
            self.state.readiness.clear(about);
        } else {
            let failed: Vec<String> = found
                .failed_groups
                .iter()
                .map(|(group, why)| format!("{group}: {why}"))
                .collect();
            let trouble = format!("kinds of these groups keep their figures: {}", failed.join("; "));
            self.state.trouble(about, &trouble);
            self.state.readiness.degraded(about, trouble);
        }
        let served = Served {
            kinds: found.quotable().map(|versions| versions.id().clone()).collect(),
            failed_groups: found.failed_groups.keys().map(ToString::to_string).collect(),
        };
        self.discovery = found;
        self.state
            .update(|accounts, now, time| accounts.discovered(served, now, time));
        discovered.ready();
        true
    }

    /// Starts and stops monitors as quotas need them.
    fn adjust(&mut self) {
        let now = Instant::now();
        let (needed, device_classes) = self.state.read(|accounts| {
            let registry = accounts.inventory().registry();
            let needed = accounts.needed_kinds().map(|kind| {
                let evaluator = registry.evaluator(kind);
                (kind, (evaluator.group_resource().clone(), evaluator.view_kind()))
            });
            (needed.collect::<HashMap<_, _>>(), accounts.needs_device_classes())
        });
        for (kind, running) in &mut self.monitors {
            let since = running.unneeded_since.unwrap_or(now);
            running.unneeded_since = (!needed.contains_key(kind)).then_some(since);
        }
        let over = |running: &Running| {
            let gone = self.discovery.served(running.versions.id()) == kubequota_cluster::Served::Not;
            gone || running.stops_at().is_some_and(|at| at <= now)
        };
        let stopped: Vec<KindId> = self
            .monitors
            .iter()
            .filter(|(_, running)| over(running))
            .map(|(kind, _)| *kind)
            .collect();
        for kind in stopped {
            self.stop(kind);
        }
        for (kind, (id, shape)) in needed {
            if let Some(versions) = self.discovery.resources.get(&id).cloned() {
                self.start(kind, id, versions, shape);
            }
        }
        self.adjust_device_classes(device_classes);
    }

    fn start(&mut self, kind: KindId, id: GroupResource, versions: Versions, shape: ViewKind) {
        if self
            .monitors
            .get(&kind)
            .is_some_and(|running| running.versions == versions)
        {
            return;
        }
        tracing::info!(kind = %id, version = %versions.preferred.version, "watching");
        // The old monitor, of other versions, has to be gone before the new one speaks.
        self.monitors.remove(&kind);
        let monitor = self.state.monitor(&versions, shape);
        self.state.versions.lock().insert(id.clone(), monitor.status());
        let monitor = monitor.spawn(KindSink::new(self.state.clone(), kind, id));
        self.monitors.insert(
            kind,
            Running {
                versions,
                _monitor: monitor,
                unneeded_since: None,
            },
        );
    }

    fn stop(&mut self, kind: KindId) {
        if let Some(running) = self.monitors.remove(&kind) {
            let gone = self.discovery.served(running.versions.id()) == kubequota_cluster::Served::Not;
            let why = if gone {
                "it is no longer served"
            } else {
                "no quota names it any more"
            };
            tracing::info!(kind = %running.versions.id(), "no longer watched: {why}");
            self.state.versions.lock().remove(running.versions.id());
            self.state
                .update(|accounts, now, time| accounts.kind_dropped(kind, now, time));
        }
    }

    /// Device classes are watched while quotas have names that they decide about. A server without them has none.
    fn adjust_device_classes(&mut self, needed: bool) {
        let id = GroupResource::new("resource.k8s.io", "deviceclasses");
        if !needed {
            self.device_classes = None;
            return;
        }
        match self.discovery.served(&id) {
            kubequota_cluster::Served::At(versions) => {
                if self
                    .device_classes
                    .as_ref()
                    .is_none_or(|(running, _)| running != versions)
                {
                    self.device_classes = None;
                    let versions = versions.clone();
                    let shape = Plain::<DeviceClassView>::default();
                    let monitor = self.state.monitor(&versions, shape);
                    self.device_classes = Some((versions, monitor.spawn(DeviceClassSink::new(self.state.clone(), id))));
                }
            }
            kubequota_cluster::Served::Not => {
                self.device_classes = None;
                self.state
                    .update(|accounts, now, time| accounts.device_classes_absent(now, time));
            }
            kubequota_cluster::Served::Unknown(_) => {
                self.state.update(|accounts, _, _| accounts.device_classes_failing());
            }
        }
    }

    /// When the next monitor is to be stopped.
    fn next_stop(&self) -> Option<Instant> {
        self.monitors.values().filter_map(Running::stops_at).min()
    }
}

impl Running {
    fn stops_at(&self) -> Option<Instant> {
        self.unneeded_since.map(|since| since + LINGER)
    }
}

/// Takes note that APIs come, go or change.
struct ApiSink {
    changed: Arc<Notify>,
}

impl Sink<Metadata> for ApiSink {
    async fn handle(&mut self, update: Update<Metadata>) {
        if matches!(update, Update::ListEnded(_) | Update::Applied(_) | Update::Deleted(_)) {
            self.changed.notify_one();
        }
    }
}
