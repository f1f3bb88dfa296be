//! Keeps the configuration: reads what there is, works out what there should be, writes the difference, and notices what others
//! do.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhook;
use kubequota_cluster::backoff::{Backoff, Random};
use kubequota_cluster::{ApiError, ApiResource, Discovery, Monitor, MonitorHandle, MonitorOptions, Sink, Update};
use kubequota_core::Metadata;
use kubequota_shell::{OncePer, Readiness};
use kubequota_wire::json::MetadataOnly;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use super::linger::Linger;
use super::proof::{Rules, prove};
use super::reach::{
    CLAIM_STATUS_WEBHOOK, Frame, Limited, PROBE_WEBHOOK, Part, Reach, VersionsRead, WEBHOOK, authorities, number_of,
    reach_of,
};
use super::{Options, Parts, RECORD};
use crate::certificates::MANAGED_BY;

/// Quotas often come by the dozen: after the first one so long is waited for others.
const DEBOUNCE: Duration = Duration::from_millis(25);

/// Without any notice it is looked this often.
const EVERY: Duration = Duration::from_secs(30);

/// What somebody else changed is put back no sooner than this after the last time.
const PUT_BACK: Duration = Duration::from_secs(10);

/// The server is asked this often which versions it prefers; built-in APIs change with the server's own version only.
const DISCOVERY: Duration = Duration::from_secs(300);

/// Discovery that failed is tried again after this.
const DISCOVERY_RETRY: Duration = Duration::from_secs(10);

/// A trouble that stays is told again after this long.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(600);

/// So often in a row a write may find that somebody else was faster.
const TRIES: u32 = 5;

/// The name of the readiness detail.
const DETAIL: &str = "webhook configuration";

/// Keeps the configuration, for ever; see the [module](super). It needs these verbs:
///
/// - `validatingwebhookconfigurations`: list, watch, create; get and update on the one of [`Options::name`];
/// - `configmaps` in [`Options::namespace`]: list, watch, create; get and patch on [`RECORD`].
///
/// What is missing is logged by name and shown in readiness, and tried again.
pub async fn keep(options: Options, parts: Parts) {
    if !options.manage {
        return pending().await;
    }
    let mut synced = parts.quotas.synced();
    if synced.wait_for(|synced| *synced).await.is_err() {
        return pending().await;
    }
    let (mut limits, mut certificates) = (parts.quotas.limits_changes(), parts.certificates.clone());
    let noticed = Arc::new(Notify::new());
    let _monitors = [
        follow(&parts, &configurations(), None, &options.name, &noticed),
        follow(&parts, &config_maps(), Some(&options.namespace), RECORD, &noticed),
    ];
    let (settled, reached) = (watch::Sender::new(None), watch::Sender::new(false));
    let mut is_reached = reached.subscribe();
    let proof = prove(options.namespace.clone(), &parts, settled.subscribe(), reached);
    let mut upkeep = Upkeep::new(options, parts.clone(), settled, is_reached.clone());
    let upkeep = async {
        loop {
            limits.mark_unchanged();
            certificates.mark_unchanged();
            let began = Instant::now();
            upkeep.discover().await;
            let looked = upkeep.round().await;
            let took = began.elapsed();
            match looked {
                Ok(next) => {
                    tokio::select! {
                        () = sleep_until(next) => {}
                        () = changed(&mut limits) => {}
                        () = changed(&mut certificates) => {}
                        () = changed(&mut is_reached) => {}
                        () = noticed.notified() => {}
                    }
                    // Where the server is slow it is written less often.
                    sleep(DEBOUNCE.max(took)).await;
                }
                Err(delay) => sleep(delay).await,
            }
        }
    };
    tokio::join!(upkeep, proof);
}

pub(super) async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        pending::<()>().await;
    }
}

fn configurations() -> ApiResource {
    ApiResource::new(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        false,
    )
}

pub(super) fn config_maps() -> ApiResource {
    ApiResource::new("", "v1", "configmaps", "ConfigMap", true)
}

/// Notices changes of one object.
fn follow(
    parts: &Parts,
    of: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    noticed: &Arc<Notify>,
) -> MonitorHandle {
    let monitor = Monitor::new(
        parts.cluster.clone(),
        &of.clone().into(),
        namespace,
        MetadataOnly,
        MonitorOptions::default(),
    );
    monitor.spawn(Notices {
        name: name.to_owned(),
        detail: format!("{DETAIL}: changes of {}", of.id),
        noticed: noticed.clone(),
        readiness: parts.readiness.clone(),
    })
}

struct Notices {
    name: String,
    detail: String,
    noticed: Arc<Notify>,
    readiness: Readiness,
}

impl Sink<Metadata> for Notices {
    async fn handle(&mut self, update: Update<Metadata>) {
        match update {
            Update::Applied(object) | Update::Deleted(object) if object.name == self.name => self.noticed.notify_one(),
            // What was missed meanwhile may be about it.
            Update::ListEnded(_) => self.noticed.notify_one(),
            Update::Failed(failure) => {
                let seldom = format!("seen only every {EVERY:?}: {}", failure.error);
                self.readiness.degraded(self.detail.as_str(), seldom);
            }
            Update::Recovered => self.readiness.clear(&self.detail),
            _ => {}
        }
    }
}

/// How things stand after a look.
enum Standing {
    /// The configuration is as it should be.
    Kept,
    /// It will be put right at this moment.
    Later(Instant),
    /// Somebody deleted it.
    Off,
}

struct Upkeep {
    options: Options,
    parts: Parts,
    discovery: Option<Discovery>,
    next_discovery: Instant,
    linger: Linger,
    /// The rules as they were when they were last right.
    settled: watch::Sender<Option<Arc<Rules>>>,
    /// The API server has been seen to reach the webhook.
    reached: watch::Receiver<bool>,
    put_back: Option<Instant>,
    troubles: OncePer,
    backoff: Backoff,
    random: Random,
}

impl Upkeep {
    fn new(
        options: Options,
        parts: Parts,
        settled: watch::Sender<Option<Arc<Rules>>>,
        reached: watch::Receiver<bool>,
    ) -> Self {
        Upkeep {
            reached,
            options,
            parts,
            discovery: None,
            next_discovery: Instant::now(),
            linger: Linger::default(),
            settled,
            put_back: None,
            troubles: OncePer::new(TROUBLE_INTERVAL),
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(5)),
            random: Random::new(None),
        }
    }

    async fn discover(&mut self) {
        if Instant::now() < self.next_discovery {
            return;
        }
        let about = "discovery";
        let period = match self.parts.cluster.discover().await {
            Ok(found) => {
                self.discovery = Some(found);
                self.troubles.over(about);
                DISCOVERY
            }
            Err(error) => {
                if !self.parts.cluster.is_told(&error) {
                    let trouble = format!("the preferred versions of APIs are not known: {error}");
                    self.warn(about, &trouble);
                }
                DISCOVERY_RETRY
            }
        };
        self.next_discovery = Instant::now() + period;
    }

    /// Looks, and writes what is to be written. When to look again at the latest, or after what delay, having failed.
    async fn round(&mut self) -> Result<Instant, Duration> {
        let mut tries = 0;
        let standing = loop {
            tries += 1;
            match self.attempt().await {
                // Somebody else was faster.
                Err(error) if error.is_conflict() && tries < TRIES => {}
                standing => break standing,
            }
        };
        let now = Instant::now();
        let next = (now + EVERY).min(self.next_discovery.max(now));
        match standing {
            Ok(Standing::Off) => {
                let off = self.off();
                self.warn(DETAIL, &off);
                self.parts.readiness.degraded(DETAIL, off);
                Ok(next)
            }
            Ok(standing) => {
                self.parts.readiness.clear(DETAIL);
                if self.troubles.over(DETAIL) {
                    info!(name = self.options.name, "the webhook configuration is kept again");
                }
                let later = match standing {
                    Standing::Later(at) => Some(at),
                    _ => None,
                };
                Ok(next
                    .min(self.linger.next_end(now).unwrap_or(next))
                    .min(later.unwrap_or(next)))
            }
            Err(error) => {
                let trouble = format!("it can't be kept: {error}");
                if !self.parts.cluster.is_told(&error) {
                    self.warn(DETAIL, &trouble);
                }
                self.parts.readiness.degraded(DETAIL, trouble);
                Err(self.backoff.next(&mut self.random))
            }
        }
    }

    fn warn(&mut self, about: &str, trouble: &str) {
        if let Some(repeats) = self.troubles.check(about, trouble, Instant::now()) {
            warn!(repeats, name = self.options.name, "webhook configuration: {trouble}");
        }
    }

    fn off(&self) -> String {
        let Options { name, namespace, .. } = &self.options;
        format!(
            "enforcement is off: ValidatingWebhookConfiguration {name} was deleted; to turn it on again: \
             kubectl -n {namespace} delete configmap {RECORD}"
        )
    }

    async fn attempt(&mut self) -> Result<Standing, ApiError> {
        let (cluster, name) = (self.parts.cluster.clone(), self.options.name.clone());
        let live = found(cluster.get_object(&configurations(), None, &name).await)?;
        let (config_maps, namespace) = (config_maps(), Some(self.options.namespace.as_str()));
        let record = found(cluster.get_object(&config_maps, namespace, RECORD).await)?;
        let made = record.as_ref().and_then(|record| self.made(record));
        match live {
            None if made.is_some() => {
                self.settle(None);
                Ok(Standing::Off)
            }
            None => self.make(record).await,
            Some(live) => {
                if made.as_deref() != uid(&live) {
                    self.remember(record, &live).await?;
                }
                self.correct(live).await
            }
        }
    }

    /// The uid of the configuration that was made, as far as the record says.
    fn made(&self, record: &Value) -> Option<String> {
        let data = &record["data"];
        let made = data["uid"]
            .as_str()
            .filter(|_| data["name"] == self.options.name.as_str());
        made.filter(|uid| !uid.is_empty()).map(str::to_owned)
    }

    fn record(&self, uid: &str) -> Value {
        let note = format!(
            "kubequota has made ValidatingWebhookConfiguration {}. Where that was deleted, it is made again when this is deleted.",
            self.options.name
        );
        json!({"name": self.options.name, "uid": uid, "note": note})
    }

    /// Makes the configuration. A record without a uid goes first: a namespace that is being deleted takes none, so that whoever
    /// removes kubequota is not left with a webhook that nobody answers.
    async fn make(&mut self, record: Option<Value>) -> Result<Standing, ApiError> {
        let record = match record {
            Some(record) => record,
            None => self.create_record("").await?,
        };
        let webhooks = self.wanted(&[], Instant::now());
        let (cluster, name) = (self.parts.cluster.clone(), self.options.name.clone());
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name, "labels": labels()}, "webhooks": webhooks,
        });
        let made = cluster.create_object(&configurations(), None, &name, &object).await?;
        info!(name, "the webhook configuration was made");
        self.remember(Some(record), &made).await?;
        self.settle(Some(webhooks));
        Ok(Standing::Kept)
    }

    /// Remembers that this configuration was made.
    async fn remember(&self, record: Option<Value>, configuration: &Value) -> Result<(), ApiError> {
        let uid = uid(configuration).unwrap_or_default();
        let Some(record) = record else {
            return self.create_record(uid).await.map(|_| ());
        };
        let revision = &record["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"resourceVersion": revision}, "data": self.record(uid)});
        let (cluster, namespace) = (&self.parts.cluster, Some(self.options.namespace.as_str()));
        let patched = cluster.patch_object(&config_maps(), namespace, RECORD, &patch).await;
        patched.map(|_: Value| ())
    }

    async fn create_record(&self, uid: &str) -> Result<Value, ApiError> {
        let namespace = self.options.namespace.as_str();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": RECORD, "namespace": namespace, "labels": labels()}, "data": self.record(uid),
        });
        let cluster = &self.parts.cluster;
        cluster
            .create_object(&config_maps(), Some(namespace), RECORD, &object)
            .await
    }

    /// Writes what is not as it should be.
    async fn correct(&mut self, live: Value) -> Result<Standing, ApiError> {
        let ours = ours(&live);
        let now = Instant::now();
        let wanted = self.wanted(&ours, now);
        if wanted == ours {
            self.settle(Some(ours));
            return Ok(Standing::Kept);
        }
        let foreign = self.is_foreign(&ours, &wanted);
        let not_before = self.put_back.map(|last| last + PUT_BACK).filter(|at| *at > now);
        if let (true, Some(at)) = (foreign, not_before) {
            return Ok(Standing::Later(at));
        }
        let (cluster, name) = (self.parts.cluster.clone(), self.options.name.clone());
        let object = with(live, &wanted);
        cluster.replace_object(&configurations(), None, &name, &object).await?;
        if wanted.iter().any(refuses) && !ours.iter().any(refuses) {
            info!(name, "enforcement is on: the API server reaches the webhook");
        }
        if foreign {
            self.put_back = Some(now);
            warn!(
                name,
                "somebody else changed webhooks that kubequota keeps, and they were put back; \
                 delete the configuration to turn enforcement off, or run kubequota with --manage-webhook=false"
            );
        }
        self.settle(Some(wanted));
        Ok(Standing::Kept)
    }

    fn settle(&self, webhooks: Option<Vec<ValidatingWebhook>>) {
        let rules = webhooks.map(|webhooks| {
            let versions = VersionsRead::of(self.discovery.as_ref());
            Arc::new(Rules { webhooks, versions })
        });
        self.settled.send_if_modified(|settled| {
            let changed = *settled != rules;
            if changed {
                *settled = rules;
            }
            changed
        });
    }

    /// The webhooks as they should be, where they are like this.
    fn wanted(&mut self, live: &[ValidatingWebhook], now: Instant) -> Vec<ValidatingWebhook> {
        let versions = VersionsRead::of(self.discovery.as_ref());
        let limited = Limited::by(&self.parts.quotas);
        let mut needed = limited.reach(&self.parts.limited, &versions, &self.options.namespace);
        if let Some(bundle) = &self.parts.certificates.borrow().ca_bundle {
            needed.extend(authorities(bundle));
        }
        let reach = self.linger.reach(&needed, &reach_of(live), now);
        if *self.reached.borrow() || live.iter().any(refuses) {
            self.webhooks(&versions, &reach, live)
        } else {
            // Whoever were asked now would find nobody, and be refused for that.
            let authorities = reach.into_iter().filter(|part| matches!(part, Part::Authority(_)));
            self.webhooks(&versions, &authorities.collect(), live)
        }
    }

    fn webhooks(&self, versions: &VersionsRead, reach: &Reach, live: &[ValidatingWebhook]) -> Vec<ValidatingWebhook> {
        let numbered = |number| Frame {
            address: &self.options.address,
            own_namespace: &self.options.namespace,
            versions,
            number,
        };
        let number = number_of(live);
        let same = self.filled(numbered(number).webhooks(reach), live);
        if same == live {
            return same;
        }
        self.filled(numbered(number.wrapping_add(1)).webhooks(reach), live)
    }

    fn filled(&self, mut webhooks: Vec<ValidatingWebhook>, live: &[ValidatingWebhook]) -> Vec<ValidatingWebhook> {
        if self.parts.certificates.borrow().ca_bundle.is_none() {
            // Somebody else may fill it in.
            for webhook in &mut webhooks {
                let same = live.iter().find(|live| live.name == webhook.name);
                webhook.client_config.ca_bundle = same.and_then(|live| live.client_config.ca_bundle.clone());
            }
        }
        webhooks
    }

    /// Whether what is wrong is somebody else's doing: what was there and is needed was taken away, or something was changed that
    /// every replica sets alike.
    fn is_foreign(&self, live: &[ValidatingWebhook], wanted: &[ValidatingWebhook]) -> bool {
        let settled = self.settled.borrow();
        let settled = settled.as_ref().map(|rules| rules.webhooks.as_slice());
        let Some(settled) = settled.filter(|settled| *settled != live) else {
            return false;
        };
        let versions = VersionsRead::of(self.discovery.as_ref());
        let is_bent =
            |webhooks: &[ValidatingWebhook]| self.webhooks(&versions, &reach_of(webhooks), webhooks) != webhooks;
        let (had, has, needs) = (reach_of(settled), reach_of(live), reach_of(wanted));
        let was_taken = |part: &Part| needs.contains(part) && !has.contains(part);
        had.iter().any(was_taken) || is_bent(live) && !is_bent(settled)
    }
}

fn found(read: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

fn labels() -> Value {
    let (key, value) = MANAGED_BY;
    json!({"app.kubernetes.io/name": "kubequota", key: value})
}

fn is_ours(webhook: &Value) -> bool {
    [WEBHOOK, CLAIM_STATUS_WEBHOOK, PROBE_WEBHOOK]
        .iter()
        .any(|ours| webhook["name"] == *ours)
}

/// Whether it is the webhook that refuses what exceeds quotas, even where nobody answers.
fn refuses(webhook: &ValidatingWebhook) -> bool {
    webhook.name == WEBHOOK
}

/// The webhooks of a configuration that kubequota keeps.
pub(super) fn ours(configuration: &Value) -> Vec<ValidatingWebhook> {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    let read = |webhook: &Value| ValidatingWebhook::deserialize(webhook).unwrap_or_default();
    webhooks.filter(|webhook| is_ours(webhook)).map(read).collect()
}

/// The configuration with these webhooks in place of the ones that kubequota keeps. Others, labels and annotations stay.
fn with(mut configuration: Value, webhooks: &[ValidatingWebhook]) -> Value {
    let others = configuration["webhooks"].as_array().into_iter().flatten();
    let others: Vec<Value> = others.filter(|webhook| !is_ours(webhook)).cloned().collect();
    let mut all = json!(webhooks);
    if let Some(all) = all.as_array_mut() {
        all.extend(others);
    }
    configuration["webhooks"] = all;
    configuration
}
