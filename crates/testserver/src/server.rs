//! The handle that tests hold.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::admitter::Admitter;
use crate::clock::{Clock, http_date};
use crate::faults::{Fault, FaultId, Faults, Plan};
use crate::handlers;
use crate::kinds::{GroupHealth, GroupResource, Kind};
use crate::listen::Listening;
use crate::object;
use crate::request::RequestInfo;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{DeleteOptions, Deleted, Key, Origin, Part, Store};
use crate::watch::WatchMode;
use crate::webhook;

/// How many requests the log keeps.
const LOG_LIMIT: usize = 100_000;

/// An in-memory Kubernetes API server. Clones share one state.
///
/// Resources are named as kubectl names them: `pods`, `deployments.apps`.
#[derive(Clone)]
pub struct TestServer {
    shared: Arc<Shared>,
}

struct Shared {
    store: Mutex<Store>,
    faults: Mutex<Faults>,
    log: Mutex<VecDeque<RequestInfo>>,
    admitter: Mutex<Option<Arc<dyn Admitter>>>,
    webhooks: Mutex<webhook::Served>,
    conditions: webhook::Conditions,
    down: AtomicBool,
    user: String,
    minor_version: u32,
}

/// How a server is to be set up.
#[derive(Clone, Debug)]
pub struct Builder {
    epoch: Timestamp,
    seed: u64,
    user: String,
    minor_version: u32,
    history: usize,
}

impl Builder {
    /// What the server's clock shows when it is built. Default: 2026-01-01T00:00:00Z.
    pub fn epoch(mut self, epoch: Timestamp) -> Self {
        self.epoch = epoch;
        self
    }

    /// Where uids, generated names and the chances of faults come from. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The user that messages name. Default: `u`.
    pub fn user(mut self, user: &str) -> Self {
        self.user = user.to_owned();
        self
    }

    /// The minor version that `/version` tells. Default: 37.
    pub fn minor_version(mut self, minor: u32) -> Self {
        self.minor_version = minor;
        self
    }

    /// How many writes are remembered; a watch or page from before them is answered with 410. Default: 100,000.
    pub fn history(mut self, writes: usize) -> Self {
        self.history = writes;
        self
    }

    /// The server, its clock running from now on tokio's time.
    pub fn build(self) -> TestServer {
        TestServer {
            shared: Arc::new(Shared {
                store: Mutex::new(Store::new(self.epoch, self.seed, self.history)),
                faults: Mutex::new(Faults::new(self.seed)),
                log: Mutex::new(VecDeque::new()),
                admitter: Mutex::new(None),
                webhooks: Mutex::default(),
                conditions: webhook::Conditions::default(),
                down: AtomicBool::new(false),
                user: self.user,
                minor_version: self.minor_version,
            }),
        }
    }
}

impl Default for TestServer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

/// Setting up and serving.
impl TestServer {
    /// A server with the default settings.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Settings to be changed.
    pub fn builder() -> Builder {
        Builder {
            epoch: Clock::default_epoch(),
            seed: 1,
            user: "u".to_owned(),
            minor_version: 37,
            history: 100_000,
        }
    }

    /// The server as a service, to be given to `kube::Client::new`. No socket is involved, so that everything happens
    /// under paused time.
    pub fn router(&self) -> Router {
        Router::new().fallback(handlers::handle).with_state(self.clone())
    }

    /// Serves plain HTTP on an address; port 0 lets the system choose.
    pub async fn listen(&self, address: SocketAddr) -> io::Result<Listening> {
        Listening::start(self.router(), address).await
    }

    /// Serves one more kind, or another version of a known one. Its first version is the preferred one; of a group the
    /// first version of its first kind is.
    pub fn add_kind(&self, kind: Kind) {
        self.store().kinds.insert(kind);
    }

    /// Serves a kind no longer: its objects are deleted and its watches end.
    pub fn remove_kind(&self, resource: &str) {
        let resource = GroupResource::parse(resource);
        let mut store = self.store();
        store.forget(&resource);
        store.kinds.remove(&resource);
    }

    /// Lets the server of a whole API group be away, or back.
    pub fn set_group_health(&self, group: &str, health: GroupHealth) {
        self.store().kinds.set_health(group, health);
    }
}

/// The objects.
impl TestServer {
    /// Creates an object by its `apiVersion` and `kind`. Unlike a request this keeps the `status` that is given, asks no
    /// admitter, needs no Namespace, and takes `default` where a namespace is missing.
    pub fn create(&self, object: Value) -> Result<Value, Status> {
        let mut store = self.store();
        let kind = store
            .kinds
            .of_object(&object)
            .cloned()
            .ok_or_else(Status::no_such_resource)?;
        let namespace = match object::meta(&object, "namespace").to_owned() {
            _ if !kind.namespaced => String::new(),
            namespace if namespace.is_empty() => "default".to_owned(),
            namespace => namespace,
        };
        store
            .create(&kind, &namespace, object, Origin::Test, false)
            .map(Arc::unwrap_or_clone)
    }

    /// An object; the namespace is empty for cluster-scoped kinds.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let found = self
            .store()
            .get(&GroupResource::parse(resource), &Key::new(namespace, name))
            .cloned();
        found.map(Arc::unwrap_or_clone)
    }

    /// All objects of a namespace; an empty namespace means all of them.
    pub fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let store = self.store();
        let all = store.page(
            &GroupResource::parse(resource),
            store.revision(),
            None,
            &Selector::within(namespace),
            usize::MAX,
        );
        drop(store);
        all.items.into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// Changes an object in one step, its status and spec alike.
    pub fn modify(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, Status> {
        let mut store = self.store();
        let kind = store
            .kinds
            .get(&GroupResource::parse(resource))
            .cloned()
            .ok_or_else(Status::no_such_resource)?;
        let changed = |current: &Value| {
            let mut wanted = current.clone();
            change(&mut wanted);
            Ok(wanted)
        };
        store
            .update(&kind, &Key::new(namespace, name), Part::Whole, changed, false)
            .map(Arc::unwrap_or_clone)
    }

    /// Gives an object another status.
    pub fn apply_status(&self, resource: &str, namespace: &str, name: &str, status: Value) -> Result<Value, Status> {
        self.modify(resource, namespace, name, |object| {
            object::set_top(object, "status", Some(status));
        })
    }

    /// Deletes as a request does: a pod on a node is marked, others go. Answers the object.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let mut store = self.store();
        let kind = store
            .kinds
            .get(&GroupResource::parse(resource))
            .cloned()
            .ok_or_else(Status::no_such_resource)?;
        match store.delete(&kind, &Key::new(namespace, name), &DeleteOptions::default())? {
            Deleted::Removed(object) | Deleted::Marked(object) => Ok(Arc::unwrap_or_clone(object)),
        }
    }

    /// Removes an object at once, whatever holds it, as a kubelet ends a pod.
    pub fn remove(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let removed = self
            .store()
            .remove(&GroupResource::parse(resource), &Key::new(namespace, name));
        removed.map(Arc::unwrap_or_clone)
    }

    /// Stores an object as it is, without validation or defaults, under its `metadata.namespace` and `metadata.name`:
    /// only its resourceVersion is set, and a uid where it has none. For objects that a client can't read.
    pub fn put_raw(&self, resource: &str, object: Value) -> Value {
        Arc::unwrap_or_clone(self.store().put_raw(&GroupResource::parse(resource), object))
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.store().revision()
    }
}

/// The clock.
impl TestServer {
    /// What the server's clock shows.
    pub fn now(&self) -> Timestamp {
        self.store().clock.now()
    }

    /// Lets the server's clock go ahead of tokio's time, or behind it.
    pub fn set_clock_skew(&self, skew: SignedDuration) {
        self.store().clock.set_skew(skew);
    }

    pub(crate) fn http_date(&self) -> String {
        http_date(self.now())
    }
}

/// What goes wrong.
impl TestServer {
    /// Follows a rule from now on.
    pub fn fault(&self, fault: Fault) -> FaultId {
        self.shared.faults.lock().add(fault)
    }

    /// Lifts a rule.
    pub fn clear_fault(&self, id: FaultId) {
        self.shared.faults.lock().remove(id);
    }

    /// Lifts all rules.
    pub fn clear_faults(&self) {
        self.shared.faults.lock().clear();
    }

    /// How often a rule has struck; 0 once it is lifted.
    pub fn faults_struck(&self, id: FaultId) -> u64 {
        self.shared.faults.lock().struck(id)
    }

    pub(crate) fn plan(&self, request: &RequestInfo) -> Plan {
        self.shared.faults.lock().plan(request, &self.shared.user)
    }

    /// Breaks the connections of the running watches of a resource.
    pub fn drop_watches(&self, resource: &str) {
        self.set_watches(resource, WatchMode::Dropped);
    }

    /// Lets the running watches of a resource go silent, end, expire or break.
    pub fn set_watches(&self, resource: &str, mode: WatchMode) {
        let mut store = self.store();
        store.watchers.set_mode(Some(&GroupResource::parse(resource)), mode);
        store.signal();
    }

    /// Sends a bookmark to every running watch that wants bookmarks.
    pub fn bookmark(&self) {
        let mut store = self.store();
        store.watchers.ask_for_bookmarks();
        store.signal();
    }

    /// Forgets the history: new watches and pages from an earlier revision are answered with 410.
    pub fn compact(&self) {
        self.store().compact();
    }

    /// Goes away: running watches break, and every request ends with a broken connection.
    pub fn down(&self) {
        self.shared.down.store(true, Ordering::SeqCst);
        let mut store = self.store();
        store.watchers.set_mode(None, WatchMode::Dropped);
        store.signal();
    }

    /// Comes back, with all its objects.
    pub fn up(&self) {
        self.shared.down.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_down(&self) -> bool {
        self.shared.down.load(Ordering::SeqCst)
    }

    /// Asks an admitter before namespaced objects are made or changed, in place of the one before.
    pub fn admitter(&self, admitter: impl Admitter + 'static) {
        *self.shared.admitter.lock() = Some(Arc::new(admitter));
    }

    /// Admits everything again.
    pub fn clear_admitter(&self) {
        *self.shared.admitter.lock() = None;
    }

    /// Serves an admission webhook in this process, so that it obeys paused time: what a ValidatingWebhookConfiguration has at this place,
    /// `https://HOST[:PORT]` or the Service `NAMESPACE/NAME[:PORT]`, is answered by the router. Paths are the router's business, and no
    /// certificate is asked for. Any other URL is called over HTTPS.
    pub fn serve_webhook(&self, place: &str, router: Router) {
        self.shared.webhooks.lock().insert(webhook::authority_of(place), router);
    }

    pub(crate) fn served_webhook(&self, authority: &str) -> Option<Router> {
        self.shared.webhooks.lock().get(authority).cloned()
    }

    pub(crate) fn conditions(&self) -> &webhook::Conditions {
        &self.shared.conditions
    }

    pub(crate) fn user(&self) -> &str {
        &self.shared.user
    }

    pub(crate) fn current_admitter(&self) -> Option<Arc<dyn Admitter>> {
        self.shared.admitter.lock().clone()
    }
}

/// What clients did.
impl TestServer {
    /// The requests so far, oldest first; the log keeps the last 100,000.
    pub fn requests(&self) -> Vec<RequestInfo> {
        self.shared.log.lock().iter().cloned().collect()
    }

    /// How many requests of this verb and resource the log has.
    pub fn request_count(&self, verb: &str, resource: &str) -> usize {
        let resource = GroupResource::parse(resource);
        let log = self.shared.log.lock();
        log.iter()
            .filter(|r| r.verb == verb && r.resource == resource.plural && r.group == resource.group)
            .count()
    }

    /// Begins the log anew.
    pub fn clear_requests(&self) {
        self.shared.log.lock().clear();
    }

    /// The requests whose watches are running.
    pub fn watches(&self) -> Vec<RequestInfo> {
        self.store().watchers.requests()
    }

    pub(crate) fn record(&self, request: &RequestInfo) {
        let mut log = self.shared.log.lock();
        if log.len() == LOG_LIMIT {
            log.pop_front();
        }
        log.push_back(request.clone());
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.store.lock()
    }

    pub(crate) fn minor_version(&self) -> u32 {
        self.shared.minor_version
    }
}
