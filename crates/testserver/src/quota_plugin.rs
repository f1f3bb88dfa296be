//! An admitter that behaves as Kubernetes' built-in ResourceQuota plugin does (v1.37).
//!
//! Judging is [`kubequota_core::decision`]'s work; here is what `checkQuotas` of
//! `k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go` does around it: `status.used` is raised before the object is
//! stored, quota by quota, each write guarded by the quota's resourceVersion; after a conflict the quotas that failed, and only they, are
//! read and judged again, three times at most. What was raised for a request that then fails is not given back: that is the quota
//! controller's work. Requests are not gathered in batches, which changes how many writes there are and no verdict.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use kubequota_core::decision::{Demand, LimitedResources, Raise, Refusal, Review as Asked};
use kubequota_core::evaluator::Operation;
use kubequota_core::evaluators::ViewKind;
use kubequota_core::inventory::{DeviceClassView, Inventory};
use kubequota_core::{Context, GroupResource as CoreGroupResource, Object, Quota, ResourceList};
use kubequota_wire::json::{Plain, Quotas, Shape};
use parking_lot::Mutex;
use serde_json::Value;

use crate::TestServer;
use crate::admitter::{Admitter, Decision, DecisionFuture, Review};
use crate::kinds::GroupResource;
use crate::object::{meta, set, set_meta};
use crate::random::Random;
use crate::request::RequestInfo;
use crate::status::Status;

/// So often a charge that met a newer quota is tried again.
const RETRIES: u32 = 3;

/// The built-in plugin: `server.admitter(QuotaPlugin::new())`. No resources are limited beyond what quotas say (`limitedResources`).
///
/// As it comes it stores at once and never fails. For tests it can store late, fail after it has raised, and work from quotas that are a
/// while old; what it draws for that comes from its seed.
#[derive(Clone, Debug)]
pub struct QuotaPlugin {
    random: Arc<Mutex<Random>>,
    late: Range<Duration>,
    failures: f64,
    lag: Range<Duration>,
}

impl Default for QuotaPlugin {
    fn default() -> Self {
        Self::new()
    }
}

impl QuotaPlugin {
    /// A plugin after which objects are stored at once.
    pub fn new() -> Self {
        Self {
            random: Arc::new(Mutex::new(Random::new(1))),
            late: Duration::ZERO..Duration::ZERO,
            failures: 0.0,
            lag: Duration::ZERO..Duration::ZERO,
        }
    }

    /// Where what it draws comes from. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = Arc::new(Mutex::new(Random::new(seed)));
        self
    }

    /// Lets so much time pass between a charge and the object being stored, or the request failing.
    pub fn late(mut self, after: Range<Duration>) -> Self {
        self.late = after;
        self
    }

    /// Lets requests fail with this probability after they were charged, as when the store does not answer.
    pub fn failing(mut self, probability: f64) -> Self {
        self.failures = probability;
        self
    }

    /// Lets so much time pass between reading the quotas and writing them, so that others may write in between.
    pub fn lag(mut self, range: Range<Duration>) -> Self {
        self.lag = range;
        self
    }

    fn draw(&self, range: &Range<Duration>) -> Duration {
        self.random.lock().between(range)
    }

    async fn decide(&self, server: &TestServer, review: &Review) -> Decision {
        match self.charge(server, review).await {
            Err(status) => return Decision::Deny(status),
            Ok(false) => return Decision::Allow,
            Ok(true) => {}
        }
        let late = self.draw(&self.late);
        if self.random.lock().chance(self.failures) {
            tokio::time::sleep(late).await;
            return Decision::Deny(Status::internal("etcdserver: request timed out"));
        }
        Decision::DelayStore(late)
    }

    /// Raises what the request demands; whether there was anything to raise.
    async fn charge(&self, server: &TestServer, review: &Review) -> Result<bool, Status> {
        let namespace = &review.request.namespace;
        let mut quotas = quotas(server, namespace);
        let mut charged = false;
        for tries_left in (0..=RETRIES).rev() {
            let raises = judge(server, review, &quotas)?;
            let lag = self.draw(&self.lag);
            if !raises.is_empty() && !lag.is_zero() {
                tokio::time::sleep(lag).await;
            }
            let mut failed: Option<(Vec<Arc<str>>, Status)> = None;
            for Raise { quota, by } in raises {
                let quota = &quotas[quota];
                match raise(server, quota, &by) {
                    Ok(()) => charged = true,
                    Err(status) => {
                        failed
                            .get_or_insert_with(|| (Vec::new(), status))
                            .0
                            .push(quota.key.name.clone());
                    }
                }
            }
            let Some((names, status)) = failed else {
                return Ok(charged);
            };
            if tries_left == 0 {
                return Err(status);
            }
            quotas = self::quotas(server, namespace);
            quotas.retain(|quota| names.contains(&quota.key.name));
        }
        Ok(charged)
    }
}

impl Admitter for QuotaPlugin {
    fn handles(&self, request: &RequestInfo) -> bool {
        operation(&request.verb).is_some()
    }

    fn before_store(&self, server: TestServer, review: Review) -> DecisionFuture {
        let plugin = self.clone();
        Box::pin(async move { plugin.decide(&server, &review).await })
    }
}

fn operation(verb: &str) -> Option<Operation> {
    match verb {
        "create" => Some(Operation::Create),
        "update" | "patch" => Some(Operation::Update),
        _ => None,
    }
}

/// The quotas of a namespace, by name.
fn quotas(server: &TestServer, namespace: &str) -> Vec<Quota> {
    let read = |quota: &Value| Quotas.read(quota.to_string().as_str()).ok()?.1.ok();
    server
        .list("resourcequotas", namespace)
        .iter()
        .filter_map(read)
        .collect()
}

/// What the request is to raise, of which of these quotas.
fn judge(server: &TestServer, review: &Review, quotas: &[Quota]) -> Result<Vec<Raise>, Status> {
    let request = &review.request;
    let kind = CoreGroupResource::new(&request.group, &request.resource);
    let mut inventory = Inventory::new();
    let (Some(id), Some(operation)) = (inventory.registry_mut().ensure(&kind), operation(&request.verb)) else {
        return Ok(Vec::new());
    };
    surround(server, &request.namespace, &kind, &mut inventory);
    let evaluator = inventory.registry().evaluator(id).as_ref();
    let read = |object: &Value| read(evaluator.view_kind(), object);
    let object = read(&review.object)?;
    let old = review.old.as_ref().map(read).transpose()?;
    let asked = Asked {
        operation,
        subresource: &request.subresource,
        namespace: &request.namespace,
        name: &request.name,
        object: &object,
        old: old.as_ref(),
        dry_run: review.dry_run,
    };
    let context = Context {
        now: server.now(),
        lookups: &inventory.lookups(),
    };
    let judged = Demand::of(evaluator, &asked, &context).map_or(Ok(Vec::new()), |demand| {
        demand.judge(&quotas.iter().collect::<Vec<_>>(), &LimitedResources::default())
    });
    judged.map_err(|refusal: Refusal| {
        let resource = GroupResource::new(&request.group, &request.resource);
        Status::denied(&resource, asked.display_name(), refusal)
    })
}

fn read(kind: ViewKind, object: &Value) -> Result<Object, Status> {
    kind.read(object.to_string().as_str()).map_err(Status::internal)
}

/// What the charge of a resource claim depends on beside the claim: device classes, and the pods that may own it. Other kinds need to
/// know of the classes alone, by which their names are told.
fn surround(server: &TestServer, namespace: &str, kind: &CoreGroupResource, inventory: &mut Inventory) {
    let now = server.now();
    for class in server.list("deviceclasses.resource.k8s.io", "") {
        if let Ok((_, Ok(view))) = Plain::<DeviceClassView>::default().read(class.to_string().as_str()) {
            inventory.set_device_class(meta(&class, "name"), view.extended_resource(), now);
        }
    }
    let pods = CoreGroupResource::core("pods");
    let Some(id) = inventory.registry().id(&pods) else {
        return;
    };
    if &*kind.resource == "resourceclaims" {
        for pod in server.list("pods", namespace) {
            if let Ok(pod) = read(ViewKind::Pod, &pod) {
                inventory.observe(id, &pod, now);
            }
        }
    }
}

/// Adds to the `used` of a quota, unless it has changed since it was read.
fn raise(server: &TestServer, quota: &Quota, by: &ResourceList) -> Result<(), Status> {
    let none = ResourceList::new();
    let used = quota.status.used.as_ref().unwrap_or(&none).add(by);
    let written = server.modify("resourcequotas", &quota.key.namespace, &quota.key.name, |stored| {
        set_meta(stored, "resourceVersion", quota.resource_version.as_str().into());
        let mut figures = stored["status"]["used"].clone();
        for name in by.names() {
            if let Some(value) = used.get(name.as_str()) {
                figures[name.as_str()] = value.to_string().into();
            }
        }
        set(stored, "status", "used", figures);
    });
    written.map(drop)
}
