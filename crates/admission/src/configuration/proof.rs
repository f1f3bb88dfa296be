//! Sees that the API server reaches the webhook before anything depends on that, and says on each new quota that it is enforced, once the
//! API server has been seen to follow the rules that cover it.
//!
//! A webhook that refuses where nobody answers must not be asked before it can be found: a Service leads to a pod only some time after it is
//! ready. So a configuration is made with the webhook for probes alone, and the others join it when a probe has come.
//!
//! A configuration that has been written takes a moment until API servers follow it. Limits that came into force before would be exceeded by
//! what nobody reviews. So the quota controller waits with the first `status.hard` for an annotation
//! ([`ENFORCED`](kubequota_core::quota::ENFORCED)), and it is set here when a probe (the dry run of a ConfigMap in kubequota's own namespace)
//! has come to the webhook by rules of the number that covers the quota. Where there are several API servers the probe has met one of
//! them; the others follow within the same moment.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhook;
use kubequota_cluster::backoff::{Backoff, Random};
use kubequota_cluster::{ApiError, StatusWriter};
use kubequota_core::Quota;
use kubequota_core::decision::LimitedResources;
use kubequota_shell::OncePer;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::Parts;
use super::reach::{Limited, PROBE_LABEL, Part, VersionsRead, number_of, reach_of};
use super::upkeep::{changed, config_maps};
use crate::handler::PROBE_ANSWER;

/// So many quotas are told at a time.
const CONCURRENT: usize = 16;

/// A trouble that stays is told again after this long.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(600);

/// So long API servers may take to follow new rules before that is a trouble.
const LONG: Duration = Duration::from_secs(5);

/// The name of the readiness detail.
const DETAIL: &str = "webhook configuration: probe";

/// The rules that API servers have been given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) webhooks: Vec<ValidatingWebhook>,
    /// What they were worked out with.
    pub(super) versions: VersionsRead,
}

/// Tells new quotas, for ever. It needs these verbs beside those of [`keep`](super::keep): create of `configmaps` in the own namespace,
/// and patch of `resourcequotas/status`.
pub(super) async fn prove(
    own_namespace: String,
    parts: &Parts,
    mut settled: watch::Receiver<Option<Arc<Rules>>>,
    reached: watch::Sender<bool>,
) {
    let mut limits = parts.quotas.limits_changes();
    let mut proof = Proof {
        own_namespace,
        parts,
        writer: StatusWriter::new(parts.cluster.clone()),
        reached,
        proven: None,
        unproven: None,
        troubles: OncePer::new(TROUBLE_INTERVAL),
    };
    let mut random = Random::new(None);
    let mut backoff = first_pauses();
    loop {
        limits.mark_unchanged();
        let rules = settled.borrow_and_update().clone();
        let waiting = rules.as_ref().map_or_else(Vec::new, |rules| proof.waiting(rules));
        let done = match rules {
            Some(rules) if !waiting.is_empty() || !*proof.reached.borrow() => proof.tell(&rules, waiting).await,
            rules => {
                if rules.is_none() {
                    // Enforcement is off: the rules of the next configuration are others, whatever their number.
                    proof.proven = None;
                }
                proof.at_rest();
                true
            }
        };
        if done || settled.has_changed().unwrap_or(false) {
            backoff = first_pauses();
        }
        tokio::select! {
            () = changed(&mut settled) => {}
            () = changed(&mut limits), if done => {}
            () = sleep(backoff.next(&mut random)), if !done => {}
        }
    }
}

/// New rules are followed within milliseconds, as a rule.
fn first_pauses() -> Backoff {
    Backoff::new(Duration::from_millis(20), Duration::from_secs(2))
}

struct Proof<'a> {
    own_namespace: String,
    parts: &'a Parts,
    writer: StatusWriter,
    /// Whether a probe has come, be it by other rules.
    reached: watch::Sender<bool>,
    /// The rules that the API server has been seen to follow.
    proven: Option<Arc<Rules>>,
    /// Since when rules of this number have been probed in vain.
    unproven: Option<(u64, Instant)>,
    troubles: OncePer,
}

impl Proof<'_> {
    /// The quotas that wait to be told, and that these rules cover.
    fn waiting(&self, rules: &Rules) -> Vec<Quota> {
        let mut waiting = Vec::new();
        self.parts.quotas.for_each(|quota| {
            if quota.awaits_enforcement() {
                waiting.push(quota.clone());
            }
        });
        if !waiting.is_empty() {
            let reach = reach_of(&rules.webhooks);
            waiting.retain(|quota| {
                let limited = Limited::of(quota);
                let needed = limited.reach(&LimitedResources::default(), &rules.versions, &self.own_namespace);
                // What nobody counts nobody reviews, and nothing in the own namespace.
                let is_counted = needed.iter().any(|part| matches!(part, Part::Request { .. }));
                let is_reviewed = is_counted && *quota.key.namespace != *self.own_namespace;
                !is_reviewed || needed.iter().all(|part| part.is_in(&reach))
            });
        }
        waiting
    }

    /// Whether all have been told; otherwise it is to be tried again.
    async fn tell(&mut self, rules: &Arc<Rules>, waiting: Vec<Quota>) -> bool {
        if !self.proven.as_ref().is_some_and(|proven| Arc::ptr_eq(proven, rules)) {
            let number = number_of(&rules.webhooks);
            let met = self.probe().await;
            if matches!(met, Ok(Some(_))) {
                self.reached
                    .send_if_modified(|reached| !std::mem::replace(reached, true));
            }
            match met {
                Ok(Some(seen)) if seen == number => {
                    self.proven = Some(rules.clone());
                    self.unproven = None;
                }
                Ok(_) => {
                    let unproven = self.unproven.filter(|(unproven, _)| *unproven == number);
                    let (_, since) = *self.unproven.insert(unproven.unwrap_or((number, Instant::now())));
                    if since.elapsed() >= LONG {
                        self.trouble(
                            "kube-apiserver does not call the webhook by its newest rules: can it reach the webhook's address? \
                             (its log and its metric apiserver_admission_webhook_fail_open_count tell)",
                        );
                    }
                    return false;
                }
                Err(error) => {
                    self.trouble(&format!("whether the API server follows it is not known: {error}"));
                    return false;
                }
            }
        }
        let told = stream::iter(waiting).map(|quota| {
            let writer = &self.writer;
            async move { (writer.say_enforced(&quota).await, quota) }
        });
        let told: Vec<_> = told.buffer_unordered(CONCURRENT).collect().await;
        let mut all = true;
        for (told, quota) in told {
            match told {
                Ok(Ok(quota)) => self.parts.quotas.landed(quota),
                // The watch will show a quota whose answer can't be read.
                Ok(Err(_)) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    all = false;
                    self.trouble(&format!(
                        "quota {} could not be told that it is enforced: {error}",
                        quota.key
                    ));
                }
            }
        }
        if all {
            self.at_rest();
        }
        all
    }

    /// Nobody waits to be told.
    fn at_rest(&mut self) {
        self.unproven = None;
        self.parts.readiness.clear(DETAIL);
        if self.troubles.over(DETAIL) {
            info!("no quota waits any more to be told that it is enforced");
        }
    }

    /// The number of the rules by which a probe comes to the webhook; `None` where it does not come.
    async fn probe(&self) -> Result<Option<u64>, ApiError> {
        let (name, namespace) = ("kubequota-probe", self.own_namespace.as_str());
        let probe = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {PROBE_LABEL: "true"}},
        });
        let cluster = &self.parts.cluster;
        let answer: Result<Value, ApiError> = cluster
            .try_create_object(&config_maps(), Some(namespace), name, &probe)
            .await;
        match answer {
            Ok(_) => Ok(None),
            Err(ApiError::Status { status, .. }) if status.message.contains(PROBE_ANSWER) => {
                let number = status.message.rsplit(PROBE_ANSWER).next().unwrap_or_default();
                Ok(number.trim().parse().ok())
            }
            Err(error) => Err(error),
        }
    }

    fn trouble(&mut self, trouble: &str) {
        let what = if *self.reached.borrow() {
            "new quotas are not told that they are enforced"
        } else {
            "enforcement is not on, unless another replica has turned it on"
        };
        let trouble = format!("{what}: {trouble}");
        self.parts.readiness.degraded(DETAIL, trouble.as_str());
        if let Some(repeats) = self.troubles.check(DETAIL, &trouble, Instant::now()) {
            warn!(repeats, "{trouble}");
        }
    }
}
