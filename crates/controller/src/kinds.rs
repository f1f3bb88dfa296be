//! Which kinds are watched: those that some quota names and the server serves.
//!
//! A kind's monitor starts when the first quota names it, and stops a while after the last. What the server serves is discovered again when
//! CustomResourceDefinitions or APIServices change, when a quota names what is not known, and on a slow timer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kubequota_cluster::monitor::{Monitor, MonitorHandle, MonitorOptions, Sink, Update};
use kubequota_cluster::{ApiResource, Discovery, Versions};
use kubequota_core::accounts::Served;
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
        let monitor = Monitor::new(
            state.cluster.clone(),
            &Versions::from(apis),
            None,
            MetadataOnly,
            MonitorOptions::default(),
        );
        monitor.spawn(ApiSink {
            changed: apis_changed.clone(),
        })
    });
    let mut kinds = Kinds {
        state,
        discovery: Discovery::default(),
        monitors: HashMap::new(),
        device_classes: None,
    };
    let mut discover_at = vec![Instant::now()];
    loop {
        let now = Instant::now();
        if discover_at.iter().any(|at| *at <= now) {
            discover_at.retain(|at| *at > now);
            let again = if kinds.discover(&discovered).await {
                kinds.state.options.discovery_period
            } else {
                RETRY
            };
            discover_at.push(Instant::now() + again);
        }
        kinds.adjust();
        let next = discover_at.iter().copied().chain(kinds.next_stop()).min();
        tokio::select! {
            () = sleep_until(next.unwrap_or(now + RETRY)) => {}
            () = kinds.state.wanted.notified() => {
                if kinds.state.read(|accounts| accounts.has_unknown_kinds()) {
                    discover_at.push(Instant::now() + AFTER_CHANGE[0]);
                }
                // Quotas often come by the dozen.
                sleep(Duration::from_millis(5)).await;
            }
            () = apis_changed.notified() => discover_at.extend(AFTER_CHANGE.map(|after| Instant::now() + after)),
        }
        coalesce(&mut discover_at);
    }
}

/// Moments that lie close together are one.
fn coalesce(moments: &mut Vec<Instant>) {
    moments.sort_unstable();
    moments.dedup_by(|later, earlier| *later - *earlier < AFTER_CHANGE[0]);
}

impl Kinds {
    /// Asks what the server serves; whether it answered.
    async fn discover(&mut self, discovered: &ReadyGate) -> bool {
        let about = "discovery";
        let found = match self.state.cluster.discover().await {
            Ok(found) => found,
            Err(error) => {
                self.state.trouble(about, &error.to_string());
                // What was found before still holds.
                if self.discovery.resources.is_empty() {
                    discovered.not_ready(error.to_string());
                } else {
                    self.state.readiness.degraded(about, error.to_string());
                }
                return false;
            }
        };
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
        let monitor = Monitor::new(
            self.state.cluster.clone(),
            &versions,
            None,
            shape,
            MonitorOptions::default(),
        );
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
            tracing::info!(kind = %running.versions.id(), "no quota names it any more, or it is gone: no longer watched");
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
                    let monitor = Monitor::new(
                        self.state.cluster.clone(),
                        &versions,
                        None,
                        shape,
                        MonitorOptions::default(),
                    );
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
