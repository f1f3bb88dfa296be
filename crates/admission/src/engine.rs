//! From a review to its answer: which requests quotas have a say in, who waits together, and what the server is told.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kubequota_cluster::{ApiError, ApiResource, Cluster, QuotaCache, StatusWriter};
use kubequota_core::decision::{LimitedResources, Refusal};
use kubequota_core::evaluator::{Evaluator, GroupResource};
use kubequota_core::evaluators::ViewKind;
use kubequota_core::inventory::Inventory;
use kubequota_core::registry::Registry;
use kubequota_core::{Quota, QuotaKey, ResourceList};
use kubequota_shell::{AdmissionMetrics, AdmissionVerdict, Drain, OncePer};
use kubequota_wire::review::{Answer, Refused, Review};
use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::batch::{Batch, Verdict, Waiting};
use crate::case::{Case, Surroundings};
use crate::last_charges::Writer;

/// A trouble that stays is told again after this long.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(60);

/// A batch that does not keep a deadline by itself is given up so much later.
const BATCH_IS_LATE: Duration = Duration::from_millis(200);

/// What judging needs. Cheap to share.
#[derive(Debug)]
pub struct Engine {
    pub(crate) cluster: Cluster,
    pub(crate) writer: StatusWriter,
    /// Who it is that notes its charges on quotas.
    pub(crate) charges_as: Writer,
    pub(crate) quotas: Arc<QuotaCache>,
    /// The evaluators of the kinds met so far, and the device classes; no objects.
    pub(crate) inventory: RwLock<Inventory>,
    pub(crate) limited: LimitedResources,
    pub(crate) metrics: AdmissionMetrics,
    drain: Drain,
    /// Who waits for the batch after the one under way, by namespace. A namespace without a batch has no entry.
    waiting: Mutex<HashMap<String, Vec<Waiting>>>,
    troubles: Mutex<OncePer>,
}

/// What an [`Engine`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The server.
    pub cluster: Cluster,
    /// The quotas, fed by a monitor.
    pub quotas: Arc<QuotaCache>,
    /// What may only be used under a quota.
    pub limited: LimitedResources,
    /// Where figures go.
    pub metrics: AdmissionMetrics,
    /// What must not end while a batch is under way.
    pub drain: Drain,
}

impl Engine {
    /// An engine that knows no device classes yet.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Engine {
            writer: StatusWriter::new(parts.cluster.clone()),
            charges_as: Writer::new(),
            cluster: parts.cluster,
            quotas: parts.quotas,
            inventory: RwLock::new(Inventory::new()),
            limited: parts.limited,
            metrics: parts.metrics,
            drain: parts.drain,
            waiting: Mutex::default(),
            troubles: Mutex::new(OncePer::new(TROUBLE_INTERVAL)),
        })
    }

    /// The server's time. Before it is known no grace has run out.
    pub(crate) fn now(&self) -> Timestamp {
        self.cluster.clock().now().unwrap_or(Timestamp::MIN)
    }

    /// Changes what is known of device classes.
    pub(crate) fn update_device_classes(&self, change: impl FnOnce(&mut Inventory, Timestamp)) {
        change(&mut self.inventory.write(), self.now());
    }

    /// Charges stay that nobody holds: the quota controller will find that.
    pub(crate) fn left_charged(&self, namespace: &str, trouble: &str) {
        self.metrics.left_charged();
        let told =
            "could not give back what was charged to requests that were not let through; the quota controller will";
        self.trouble(&format!("namespace {namespace}"), &format!("{told}: {trouble}"));
    }

    /// Logs a trouble, unless it was logged just before.
    pub(crate) fn trouble(&self, about: &str, trouble: &str) {
        if let Some(repeats) = self.troubles.lock().check(about, trouble, Instant::now()) {
            tracing::warn!(about, repeats, "{trouble}");
        }
    }

    /// Judges a request. Whoever gets no verdict before `deadline` is asked to try again.
    pub async fn review(self: &Arc<Self>, review: &Review<'_>, deadline: Instant) -> Answer {
        let began = Instant::now();
        let (verdict, answer) = match self
            .evaluator(&review.kind)
            .map(|evaluator| Case::of(review, evaluator))
        {
            None | Some(Ok(None)) => (AdmissionVerdict::Allowed, Answer::default()),
            Some(Ok(Some(case))) => {
                let _waits = self.metrics.waits();
                let case = Arc::new(case);
                let verdict = self.judge(case.clone(), deadline).await;
                (kind_of(&verdict), answer(&case, verdict))
            }
            Some(Err(error)) => {
                let name = if review.name.is_empty() {
                    "Unknown"
                } else {
                    &review.name
                };
                let message = format!("{} {name:?} is forbidden: {}", review.kind, Refusal::Unreadable(error));
                (AdmissionVerdict::Refused, refused(&review.kind, name, message))
            }
        };
        self.metrics
            .decided(&review.kind.group, &review.kind.resource, verdict, began.elapsed());
        answer
    }

    fn evaluator(&self, kind: &GroupResource) -> Option<Arc<dyn Evaluator>> {
        if Registry::ignores(kind) {
            return None;
        }
        if let Some(evaluator) = self.inventory.read().registry().get(kind) {
            return Some(evaluator.clone());
        }
        let mut inventory = self.inventory.write();
        let id = inventory.registry_mut().ensure(kind)?;
        Some(inventory.registry().evaluator(id).clone())
    }

    async fn judge(self: &Arc<Self>, mut case: Arc<Case>, deadline: Instant) -> Verdict {
        if !self.quotas.is_synced() {
            return Verdict::Undecided("quotas are still being read".to_owned());
        }
        if let Err(trouble) = self.add_owner(&mut case, deadline).await {
            return Verdict::Undecided(trouble);
        }
        if self.raises_nothing(&case) {
            return Verdict::Allowed(Vec::new());
        }
        let (sender, receiver) = oneshot::channel();
        self.wait(Waiting {
            case,
            deadline,
            verdict: sender,
        });
        let late = || Verdict::Undecided("there was no verdict in time".to_owned());
        // The batch keeps the deadline itself, and knows why it is late.
        timeout_at(deadline + BATCH_IS_LATE, receiver)
            .await
            .map_or_else(|_| late(), |verdict| verdict.unwrap_or_else(|_| late()))
    }

    /// A resource claim's charge depends on the pod that it belongs to.
    async fn add_owner(&self, case: &mut Arc<Case>, deadline: Instant) -> Result<(), String> {
        let claims = GroupResource::new("resource.k8s.io", "resourceclaims");
        let Some(pod) = case.owning_pod().filter(|_| *case.kind() == claims) else {
            return Ok(());
        };
        let pods = ApiResource::new("", "v1", "pods", "Pod", true);
        let get = self.cluster.get(&pods, Some(&case.namespace), pod, ViewKind::Pod);
        match timeout_at(deadline, get).await {
            Ok(Ok(pod)) => {
                if let Some(case) = Arc::get_mut(case) {
                    case.belongs_to(pod);
                }
                Ok(())
            }
            Ok(Err(error)) if ApiError::is_not_found(&error) => Ok(()),
            Ok(Err(error)) => Err(format!("the pod that the claim belongs to could not be read: {error}")),
            Err(_) => Err("the pod that the claim belongs to could not be read in time".to_owned()),
        }
    }

    /// Most changes of objects are of no interest to any quota: they wait for nobody.
    fn raises_nothing(&self, case: &Case) -> bool {
        let known = self.quotas.in_namespace(&case.namespace);
        let Ok(quotas) = known
            .iter()
            .map(|(_, known)| known.quota.clone())
            .collect::<Result<Vec<_>, _>>()
        else {
            return false;
        };
        let quotas: Vec<&Quota> = quotas.iter().map(AsRef::as_ref).collect();
        let inventory = self.inventory.read();
        let around = Surroundings {
            inventory: &inventory,
            now: self.now(),
            limited: &self.limited,
        };
        case.judge(&quotas, &around).is_ok_and(|raises| raises.is_empty())
    }

    /// Joins those who wait in the namespace, and sees to it that someone serves them.
    fn wait(self: &Arc<Self>, waiting: Waiting) {
        let namespace = waiting.case.namespace.clone();
        let mut all = self.waiting.lock();
        match all.get_mut(&namespace) {
            Some(others) => others.push(waiting),
            None => {
                all.insert(namespace.clone(), vec![waiting]);
                tokio::spawn(self.clone().serve(namespace));
            }
        }
    }

    /// Serves a namespace, batch after batch, until nobody waits.
    async fn serve(self: Arc<Self>, namespace: String) {
        let _busy = self.drain.guard(format!("admission in namespace {namespace}"));
        loop {
            let batch = {
                let mut all = self.waiting.lock();
                match all.get_mut(&namespace).map(std::mem::take) {
                    Some(batch) if !batch.is_empty() => batch,
                    _ => {
                        all.remove(&namespace);
                        return;
                    }
                }
            };
            self.metrics.batch(batch.len());
            Batch::new(&self, &namespace, batch).run().await;
        }
    }
}

fn kind_of(verdict: &Verdict) -> AdmissionVerdict {
    match verdict {
        Verdict::Allowed(_) => AdmissionVerdict::Allowed,
        Verdict::Refused(_) => AdmissionVerdict::Refused,
        Verdict::Undecided(_) => AdmissionVerdict::Undecided,
    }
}

fn answer(case: &Case, verdict: Verdict) -> Answer {
    match verdict {
        Verdict::Allowed(charged) => Answer {
            refusal: None,
            audit_annotations: charges(&charged),
        },
        Verdict::Refused(refusal) => {
            let mut answer = refused(case.kind(), case.display_name(), case.message(&refusal));
            answer.audit_annotations = reasons(&refusal);
            answer
        }
        // Clients of Kubernetes take this for what it is, and come again by themselves.
        Verdict::Undecided(why) => {
            let (kind, name) = (case.kind(), case.display_name());
            let message = format!("{kind} {name:?}: quota could not be charged, try again: {why}");
            let mut answer = refused(kind, name, message);
            if let Some(refusal) = &mut answer.refusal {
                refusal.code = 429;
                refusal.reason = "TooManyRequests";
                refusal.retry_after_seconds = 1;
            }
            answer
        }
    }
}

fn refused(kind: &GroupResource, name: &str, message: String) -> Answer {
    Answer {
        refusal: Some(Refused {
            code: 403,
            reason: "Forbidden",
            message,
            name: name.to_owned(),
            kind: kind.clone(),
            retry_after_seconds: 0,
        }),
        audit_annotations: BTreeMap::new(),
    }
}

/// What the audit log keeps of a request that was let through.
fn charges(charged: &[(QuotaKey, ResourceList)]) -> BTreeMap<String, String> {
    let quotas = charged.iter().map(|(quota, by)| format!("{}: {by}", quota.name));
    let text = quotas.collect::<Vec<_>>().join("; ");
    Some(("charged".to_owned(), text))
        .filter(|(_, text)| !text.is_empty())
        .into_iter()
        .collect()
}

/// What the audit log keeps of a refusal.
fn reasons(refusal: &Refusal) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    let mut keep = |key: &str, value: String| kept.insert(key.to_owned(), value);
    if let Some(quota) = refusal.quota() {
        keep("quota", quota.to_owned());
    }
    if let Refusal::Exceeded {
        requested,
        used,
        limited,
        ..
    } = refusal
    {
        keep("requested", requested.to_string());
        keep("used", used.to_string());
        keep("limited", limited.to_string());
    }
    kept
}
