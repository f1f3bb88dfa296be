//! The objects, their history and the rules of writing them. One revision counts all writes, as in etcd.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::{Clock, rfc3339};
use crate::defaults;
use crate::kinds::{GroupResource, Kind, Kinds};
use crate::names;
use crate::object;
use crate::pod_update;
use crate::random::Random;
use crate::selector::Selector;
use crate::status::Status;
use crate::watch::{WatchMode, Watchers};
use crate::webhook;

const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// Namespaces that nobody may delete.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Where an object is stored within its resource. Ordered as etcd orders its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) at: Instant,
    pub(crate) resource: GroupResource,
    pub(crate) key: Key,
    /// The object after the write; of a deletion its last state, at the deletion's revision.
    pub(crate) object: Arc<Value>,
    pub(crate) previous: Option<Arc<Value>>,
    pub(crate) deleted: bool,
}

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    /// What containers are given, of a pod.
    Resources,
    /// Everything, for tests only.
    Whole,
}

/// Whether a create comes over the wire, where status is the server's business, or from a test, which may set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Wire,
    Test,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// As webhooks are shown them.
    pub(crate) fn shown(&self) -> Value {
        let mut shown = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" });
        if let Some(grace) = self.grace {
            shown["gracePeriodSeconds"] = grace.into();
        }
        for (name, wanted) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(wanted) = wanted {
                shown["preconditions"][name] = wanted.as_str().into();
            }
        }
        if self.dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        shown
    }
}

/// What a deletion did.
#[derive(Clone, Debug)]
pub(crate) enum Deleted {
    /// The object is gone.
    Removed(Arc<Value>),
    /// The object waits for its grace or its finalizers.
    Marked(Arc<Value>),
}

/// Some objects at one revision.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Value>>,
    /// The key of the last item, where more items follow.
    pub(crate) last: Option<Key>,
}

/// All state that requests read and write.
pub(crate) struct Store {
    pub(crate) kinds: Kinds,
    pub(crate) clock: Clock,
    pub(crate) watchers: Watchers,
    random: Random,
    revision: u64,
    compacted: u64,
    /// The newest revision whose event has been dropped from the history.
    trimmed: u64,
    objects: BTreeMap<GroupResource, BTreeMap<Key, Arc<Value>>>,
    history: VecDeque<Event>,
    /// How many events the history keeps; the oldest are compacted away.
    history_limit: usize,
    changed: watch::Sender<()>,
}

impl Store {
    pub(crate) fn new(epoch: Timestamp, seed: u64, history_limit: usize) -> Self {
        let mut store = Self {
            kinds: Kinds::built_in(),
            clock: Clock::new(epoch),
            watchers: Watchers::default(),
            random: Random::new(seed),
            revision: 1,
            compacted: 0,
            trimmed: 0,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            history_limit,
            changed: watch::Sender::new(()),
        };
        if let Some(namespaces) = store.kinds.get(&GroupResource::new("", "namespaces")).cloned() {
            for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
                // A fresh store has no such namespace yet, so that this can't fail.
                let _ = store.create(
                    &namespaces,
                    "",
                    json!({"metadata": {"name": name}}),
                    Origin::Test,
                    false,
                );
            }
        }
        store
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Forgets the history: watches and lists from a revision before the current one are answered with 410.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
    }

    /// Whether the history still reaches back to this revision for a watch that has begun.
    pub(crate) fn reaches(&self, revision: u64) -> bool {
        revision >= self.trimmed
    }

    /// Wakes all watches.
    pub(crate) fn signal(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(crate) fn get(&self, resource: &GroupResource, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(resource)?.get(key)
    }

    /// The CustomResourceDefinition of a custom kind, where there is one.
    pub(crate) fn definition(&self, kind: &Kind) -> Option<&Arc<Value>> {
        let definitions = GroupResource::new(DEFINITIONS.0, DEFINITIONS.1);
        self.get(&definitions, &Key::new("", &kind.resource().to_string()))
    }

    fn find(&self, resource: &GroupResource, key: &Key) -> Result<Arc<Value>, Status> {
        self.get(resource, key)
            .cloned()
            .ok_or_else(|| Status::not_found(resource, &key.name))
    }

    /// The events after a revision, oldest first.
    pub(crate) fn events_after(&self, revision: u64) -> impl Iterator<Item = &Event> {
        self.history
            .range(self.history.partition_point(|event| event.revision <= revision)..)
    }

    /// A uid that nothing has yet.
    pub(crate) fn new_uid(&mut self) -> String {
        self.random.uuid()
    }

    /// How many objects a namespace has; an empty namespace means all of them.
    pub(crate) fn count(&self, resource: &GroupResource, namespace: &str) -> usize {
        let Some(objects) = self.objects.get(resource) else {
            return 0;
        };
        match namespace {
            "" => objects.len(),
            _ => objects
                .range(Key::new(namespace, "")..)
                .take_while(|(key, _)| key.namespace == namespace)
                .count(),
        }
    }

    /// The selected objects as they were at a revision, after a key, at most `limit`.
    pub(crate) fn page(
        &self,
        resource: &GroupResource,
        revision: u64,
        after: Option<&Key>,
        selector: &Selector,
        limit: usize,
    ) -> Page {
        // What was written since is undone: the earliest event since then knows the state before it.
        let mut undone: BTreeMap<&Key, Option<&Arc<Value>>> = BTreeMap::new();
        for event in self.events_after(revision).filter(|event| event.resource == *resource) {
            undone.entry(&event.key).or_insert(event.previous.as_ref());
        }
        let first = Key::new(selector.namespace(), "");
        let from = after.map_or(Bound::Included(&first), Bound::Excluded);
        let empty = BTreeMap::new();
        let mut current = self
            .objects
            .get(resource)
            .unwrap_or(&empty)
            .range((from, Bound::Unbounded))
            .peekable();
        let mut earlier = undone.range::<Key, _>((from, Bound::Unbounded)).peekable();
        let (mut items, mut last): (Vec<Arc<Value>>, Option<&Key>) = (Vec::new(), None);
        loop {
            let now = current.peek().map(|(key, _)| *key);
            let then = earlier.peek().map(|(key, _)| **key);
            let Some(key) = now.into_iter().chain(then).min() else {
                break;
            };
            let mut found = None;
            if now == Some(key) {
                found = current.next().map(|(_, object)| object);
            }
            if then == Some(key) {
                found = earlier.next().and_then(|(_, object)| *object);
            }
            if !selector.namespace().is_empty() && key.namespace != selector.namespace() {
                break;
            }
            let Some(object) = found.filter(|object| selector.matches(&key.namespace, &key.name, object)) else {
                continue;
            };
            if items.len() == limit {
                return Page {
                    items,
                    last: last.cloned(),
                };
            }
            items.push(Arc::clone(object));
            last = Some(key);
        }
        Page { items, last: None }
    }

    /// Creates an object.
    pub(crate) fn create(
        &mut self,
        kind: &Kind,
        namespace: &str,
        mut object: Value,
        origin: Origin,
        dry_run: bool,
    ) -> Result<Arc<Value>, Status> {
        check_shape(&object)?;
        if origin == Origin::Wire {
            if !matches!(object::meta(&object, "resourceVersion"), "" | "0") {
                let why = "resourceVersion should not be set on objects to be created";
                return Err(Status::new(500, "", why));
            }
            if kind.has_subresource("status") {
                object::set_top(&mut object, "status", None);
            }
        }
        let resource = kind.resource();
        let key = Key::new(namespace, &self.name_for(&resource, namespace, &mut object));
        let wrong = match key.name.as_str() {
            "" => Some("Required value: name or generateName is required".to_owned()),
            name => names::why_invalid(name).map(|why| format!("Invalid value: {name:?}: {why}")),
        };
        // Tests may put in what no client could.
        if let Some(why) = wrong.filter(|_| origin == Origin::Wire || key.name.is_empty() || key.name.contains('/')) {
            return Err(Status::invalid(
                &kind.qualified(),
                &key.name,
                &[("metadata.name".to_owned(), why)],
            ));
        }
        object::set_top(&mut object, "apiVersion", Some(kind.api_version().into()));
        object::set_top(&mut object, "kind", Some(kind.kind.as_str().into()));
        for field in [
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            object::set_meta(&mut object, field, Value::Null);
        }
        object::set_meta(
            &mut object,
            "namespace",
            if kind.namespaced { namespace.into() } else { Value::Null },
        );
        object::set_meta(&mut object, "uid", self.random.uuid().into());
        object::set_meta(&mut object, "creationTimestamp", rfc3339(self.clock.now()).into());
        if kind.generation {
            object::set_meta(&mut object, "generation", 1.into());
        }
        if origin == Origin::Wire && !kind.custom {
            defaults::apply(&resource.to_string(), &mut object);
        }
        object::default_on_create(&resource.to_string(), &mut object);
        check_content(kind, &key.name, &object)?;
        if self.get(&resource, &key).is_some() {
            return Err(Status::already_exists(&resource, &key.name));
        }
        if dry_run {
            return Ok(Arc::new(object));
        }
        Ok(self.commit(&resource, key, object, false))
    }

    /// The name of an object to be created, generated where only `generateName` is set.
    fn name_for(&mut self, resource: &GroupResource, namespace: &str, object: &mut Value) -> String {
        let name = object::meta(object, "name").to_owned();
        let prefix = object::meta(object, "generateName").to_owned();
        if !name.is_empty() || prefix.is_empty() {
            return name;
        }
        loop {
            let name = format!("{prefix}{}", self.random.name_suffix());
            if self.get(resource, &Key::new(namespace, &name)).is_none() {
                object::set_meta(object, "name", name.as_str().into());
                return name;
            }
        }
    }

    /// Changes an object. `change` makes the wanted object out of the stored one.
    pub(crate) fn update(
        &mut self,
        kind: &Kind,
        key: &Key,
        part: Part,
        change: impl FnOnce(&Value) -> Result<Value, Status>,
        dry_run: bool,
    ) -> Result<Arc<Value>, Status> {
        let resource = kind.resource();
        let current = self.find(&resource, key)?;
        let mut wanted = change(&current)?;
        check_shape(&wanted)?;
        let expected = object::meta(&wanted, "resourceVersion");
        if !expected.is_empty() && expected.parse::<u64>().is_err() {
            return Err(Status::no_number(expected));
        }
        if !matches!(expected, "" | "0") && expected != object::meta(&current, "resourceVersion") {
            return Err(Status::conflict(&resource, &key.name));
        }
        let (uid, current_uid) = (object::meta(&wanted, "uid"), object::meta(&current, "uid"));
        if !uid.is_empty() && uid != current_uid {
            // The words of the storage layer, and where it keeps the object.
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {current_uid}",
                resource.plural, key.namespace, key.name
            );
            return Err(Status::conflict_because(&resource, &key.name, why));
        }
        if part == Part::Status {
            wanted = with_status_of(kind, &current, &wanted);
        } else if part != Part::Whole && kind.has_subresource("status") {
            object::set_top(&mut wanted, "status", current.get("status").cloned());
        }
        keep_server_fields(&current, &mut wanted);
        if matches!(part, Part::Main | Part::Resources) && !kind.custom {
            // An object that a test put in as it is stays without defaults.
            let mut complete = (*current).clone();
            defaults::apply(&resource.to_string(), &mut complete);
            if !object::differs(&complete, &current) {
                defaults::apply(&resource.to_string(), &mut wanted);
            }
        }
        if object::is_deleting(&current) {
            check_no_new_finalizers(kind, &current, &wanted)?;
        }
        if kind.generation && object::differs_in_intent(&current, &wanted) {
            let generation = current["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            object::set_meta(&mut wanted, "generation", generation.into());
        }
        check_content(kind, &key.name, &wanted)?;
        if part == Part::Main && is_pod(kind) {
            let causes = pod_update::forbidden(&current["spec"], &wanted["spec"]);
            if !causes.is_empty() {
                return Err(Status::invalid("Pod", &key.name, &causes));
            }
        }
        if dry_run {
            return Ok(Arc::new(wanted));
        }
        if object::is_deleting(&wanted)
            && !object::has_finalizers(&wanted)
            && wanted["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        {
            return Ok(self.commit(&resource, key.clone(), wanted, true));
        }
        if !object::differs(&current, &wanted) {
            return Ok(current);
        }
        Ok(self.commit(&resource, key.clone(), wanted, false))
    }

    /// Deletes an object, or marks it for deletion.
    pub(crate) fn delete(&mut self, kind: &Kind, key: &Key, options: &DeleteOptions) -> Result<Deleted, Status> {
        let resource = kind.resource();
        let current = self.find(&resource, key)?;
        let preconditions = [
            ("UID", "uid", &options.uid, "deleted and then recreated"),
            (
                "ResourceVersion",
                "resourceVersion",
                &options.resource_version,
                "modified",
            ),
        ];
        for (label, field, wanted, instead) in preconditions {
            let actual = object::meta(&current, field);
            if let Some(wanted) = wanted.as_deref().filter(|&wanted| wanted != actual) {
                let why = format!(
                    "the {label} in the precondition ({wanted}) does not match the {label} in record ({actual}). \
                     The object might have been {instead}"
                );
                // Upstream names the kind here, not the resource.
                let subject = GroupResource::new(&kind.group, &kind.kind);
                return Err(Status::conflict_because(&subject, &key.name, why));
            }
        }
        if is_namespace(kind) {
            return self.delete_namespace(key, &current, options.dry_run);
        }
        let grace = grace_of(kind, &current, options.grace);
        if grace == 0 && !object::has_finalizers(&current) {
            let mut last = (*current).clone();
            if is_pod(kind) && !object::is_deleting(&current) {
                mark(&mut last, self.clock.now(), Some(0));
            }
            if is_pod(kind) {
                object::set_meta(&mut last, "deletionGracePeriodSeconds", 0.into());
            }
            if options.dry_run {
                return Ok(Deleted::Removed(Arc::new(last)));
            }
            return Ok(Deleted::Removed(self.commit(&resource, key.clone(), last, true)));
        }
        let mut since = self.clock.now();
        if object::is_deleting(&current) {
            let left = current["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            if grace >= left {
                return Ok(Deleted::Marked(current));
            }
            // A shorter grace counts from the first deletion.
            let end: Option<Timestamp> = object::meta(&current, "deletionTimestamp").parse().ok();
            since = end
                .and_then(|end| end.checked_sub(SignedDuration::from_secs(left)).ok())
                .unwrap_or(since);
        }
        let mut marked = (*current).clone();
        let end = since.checked_add(SignedDuration::from_secs(grace)).unwrap_or(since);
        mark(&mut marked, end, Some(grace));
        if options.dry_run {
            return Ok(Deleted::Marked(Arc::new(marked)));
        }
        Ok(Deleted::Marked(self.commit(&resource, key.clone(), marked, false)))
    }

    /// Removes an object at once, whatever holds it.
    pub(crate) fn remove(&mut self, resource: &GroupResource, key: &Key) -> Option<Arc<Value>> {
        let current = self.get(resource, key)?.clone();
        Some(self.commit(resource, key.clone(), (*current).clone(), true))
    }

    /// A deleted namespace terminates: what is in it is deleted, and it goes once nothing is left.
    fn delete_namespace(&mut self, key: &Key, current: &Arc<Value>, dry_run: bool) -> Result<Deleted, Status> {
        let namespaces = GroupResource::new("", "namespaces");
        if IMMORTAL.contains(&key.name.as_str()) {
            return Err(Status::denied(
                &namespaces,
                &key.name,
                "this namespace may not be deleted",
            ));
        }
        let mut marked = (**current).clone();
        if !object::is_deleting(current) {
            mark(&mut marked, self.clock.now(), None);
            object::set(&mut marked, "status", "phase", "Terminating".into());
        }
        if dry_run || object::is_deleting(current) {
            return Ok(Deleted::Marked(Arc::new(marked)));
        }
        let marked = self.commit(&namespaces, key.clone(), marked, false);
        let kinds: Vec<Arc<Kind>> = self
            .objects
            .keys()
            .filter_map(|resource| self.kinds.get(resource).cloned())
            .collect();
        for kind in kinds.iter().filter(|kind| kind.namespaced) {
            for inside in self.keys_within(&kind.resource(), &key.name) {
                self.delete(kind, &inside, &DeleteOptions::default())?;
            }
        }
        self.finish_namespace(&key.name);
        Ok(Deleted::Marked(marked))
    }

    fn keys_within(&self, resource: &GroupResource, namespace: &str) -> Vec<Key> {
        let objects = self
            .objects
            .get(resource)
            .into_iter()
            .flat_map(|objects| objects.range(Key::new(namespace, "")..));
        objects
            .map(|(key, _)| key)
            .take_while(|key| key.namespace == namespace)
            .cloned()
            .collect()
    }

    /// Removes a namespace that terminates and is empty.
    fn finish_namespace(&mut self, name: &str) {
        let (namespaces, key) = (GroupResource::new("", "namespaces"), Key::new("", name));
        let terminates = self
            .get(&namespaces, &key)
            .is_some_and(|namespace| object::is_deleting(namespace));
        let has_none = |objects: &BTreeMap<Key, Arc<Value>>| {
            objects
                .range(Key::new(name, "")..)
                .next()
                .is_none_or(|(key, _)| key.namespace != name)
        };
        if terminates && self.objects.values().all(has_none) {
            self.remove(&namespaces, &key);
        }
    }

    /// Stores an object as it is: only its resourceVersion is set, and a uid where it has none.
    pub(crate) fn put_raw(&mut self, resource: &GroupResource, mut object: Value) -> Arc<Value> {
        if object["metadata"].is_object() && object["metadata"]["uid"].is_null() {
            object::set_meta(&mut object, "uid", self.random.uuid().into());
        }
        let key = Key::new(object::meta(&object, "namespace"), object::meta(&object, "name"));
        self.commit(resource, key, object, false)
    }

    /// The only place where anything is written.
    fn commit(&mut self, resource: &GroupResource, key: Key, mut object: Value, deleted: bool) -> Arc<Value> {
        self.revision += 1;
        object::set_meta(&mut object, "resourceVersion", self.revision.to_string().into());
        let object = Arc::new(object);
        let namespace = key.namespace.clone();
        let objects = self.objects.entry(resource.clone()).or_default();
        let previous = if deleted {
            objects.remove(&key)
        } else {
            objects.insert(key.clone(), Arc::clone(&object))
        };
        self.history.push_back(Event {
            revision: self.revision,
            at: Instant::now(),
            resource: resource.clone(),
            key,
            object: Arc::clone(&object),
            previous,
            deleted,
        });
        if self.history.len() > self.history_limit
            && let Some(oldest) = self.history.pop_front()
        {
            self.trimmed = oldest.revision;
            self.compacted = self.compacted.max(oldest.revision);
        }
        if (resource.group.as_str(), resource.plural.as_str()) == DEFINITIONS
            && let Some(gone) = self.kinds.define(&object, deleted)
        {
            self.forget(&gone);
        }
        self.signal();
        if deleted && !namespace.is_empty() {
            self.finish_namespace(&namespace);
        }
        object
    }

    /// Removes all objects of a resource and ends its watches.
    pub(crate) fn forget(&mut self, resource: &GroupResource) {
        let keys: Vec<Key> = self
            .objects
            .get(resource)
            .into_iter()
            .flat_map(BTreeMap::keys)
            .cloned()
            .collect();
        for key in keys {
            self.remove(resource, &key);
        }
        self.watchers.set_mode(Some(resource), WatchMode::Ended);
        self.signal();
    }
}

/// Only an object with an object for metadata can be stored.
fn check_shape(object: &Value) -> Result<(), Status> {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    if object.is_object() && (metadata.is_object() || metadata.is_null()) {
        return Ok(());
    }
    Err(Status::bad_request(
        "the object provided is unrecognized: it must be an object with an object for metadata",
    ))
}

/// Validates the kinds that others here rely on.
fn check_content(kind: &Kind, name: &str, object: &Value) -> Result<(), Status> {
    let causes = webhook::invalid(kind, object);
    if !causes.is_empty() {
        return Err(Status::invalid(&kind.qualified(), name, &causes));
    }
    if kind.group.is_empty() && kind.plural == "resourcequotas" {
        if let Some(why) = object::undecodable_quota(object) {
            return Err(Status::bad_request(format!(
                "ResourceQuota in version \"v1\" cannot be handled as a ResourceQuota: {why}"
            )));
        }
        let causes = object::invalid_quota(object);
        if !causes.is_empty() {
            return Err(Status::invalid("ResourceQuota", name, &causes));
        }
    }
    Ok(())
}

/// What a status write leaves: the status of one object and the rest of another. Built-in kinds take metadata too.
fn with_status_of(kind: &Kind, current: &Value, wanted: &Value) -> Value {
    let mut merged = current.clone();
    object::set_top(&mut merged, "status", wanted.get("status").cloned());
    if !kind.custom {
        object::set_top(&mut merged, "metadata", wanted.get("metadata").cloned());
    }
    if is_pod(kind) {
        // Kubelets of old are not trusted with these.
        object::set_meta(
            &mut merged,
            "ownerReferences",
            current["metadata"]["ownerReferences"].clone(),
        );
        object::set(&mut merged, "status", "qosClass", current["status"]["qosClass"].clone());
    }
    merged
}

/// What no client can change.
fn keep_server_fields(current: &Value, wanted: &mut Value) {
    for field in ["apiVersion", "kind"] {
        object::set_top(wanted, field, current.get(field).cloned());
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        object::set_meta(wanted, field, current["metadata"][field].clone());
    }
}

/// Marks an object as deleted at a time; only kinds with a grace say how long it is.
fn mark(object: &mut Value, end: Timestamp, grace: Option<i64>) {
    let begins = !object::is_deleting(object);
    object::set_meta(object, "deletionTimestamp", rfc3339(end).into());
    object::set_meta(
        object,
        "deletionGracePeriodSeconds",
        grace.map_or(Value::Null, Value::from),
    );
    if begins && let Some(generation) = object["metadata"]["generation"].as_i64() {
        object::set_meta(object, "generation", (generation + 1).into());
    }
}

fn is_pod(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "pods"
}

fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "namespaces"
}

/// What is being deleted gets no new reasons to stay.
fn check_no_new_finalizers(kind: &Kind, current: &Value, wanted: &Value) -> Result<(), Status> {
    let of = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let known = of(current);
    let added: Vec<String> = of(wanted)
        .iter()
        .filter(|name| !known.contains(name))
        .map(Value::to_string)
        .collect();
    if added.is_empty() {
        return Ok(());
    }
    let why = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    let causes = [("metadata.finalizers".to_owned(), why)];
    Err(Status::invalid(
        &kind.qualified(),
        object::meta(current, "name"),
        &causes,
    ))
}

/// The grace of a deletion: only a pod that runs on a node has any.
fn grace_of(kind: &Kind, object: &Value, asked: Option<i64>) -> i64 {
    let bound = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !is_pod(kind) || !bound || ended {
        return 0;
    }
    let grace = asked
        .or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or(30);
    if grace < 0 { 1 } else { grace }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Store {
        Store::new(Clock::default_epoch(), 1, 100)
    }

    fn kind(store: &Store, resource: &str) -> Arc<Kind> {
        store.kinds.get(&GroupResource::parse(resource)).unwrap().clone()
    }

    fn create(store: &mut Store, resource: &str, object: Value) -> Result<Arc<Value>, Status> {
        let kind = kind(store, resource);
        store.create(&kind, "a", object, Origin::Test, false)
    }

    fn names(page: &Page) -> Vec<&str> {
        page.items.iter().map(|item| object::meta(item, "name")).collect()
    }

    #[test]
    fn a_create_sets_the_servers_fields() {
        let mut store = store();
        let pod = create(&mut store, "pods", json!({"metadata": {"name": "p", "uid": "mine"}})).unwrap();
        let metadata = &pod["metadata"];
        assert_eq!(metadata["namespace"], "a");
        assert_eq!(metadata["generation"], 1);
        assert_eq!(metadata["creationTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(metadata["resourceVersion"], store.revision().to_string());
        assert_eq!(object::meta(&pod, "uid").len(), 36);
        assert_eq!(pod["status"]["phase"], "Pending");
        assert_eq!(
            (pod["apiVersion"].as_str(), pod["kind"].as_str()),
            (Some("v1"), Some("Pod"))
        );
        let again = create(&mut store, "pods", json!({"metadata": {"name": "p"}})).unwrap_err();
        assert_eq!((again.code, again.reason.as_str()), (409, "AlreadyExists"));
        let generated = create(&mut store, "pods", json!({"metadata": {"generateName": "g-"}})).unwrap();
        assert_eq!(object::meta(&generated, "name").len(), 7);
        assert_eq!(create(&mut store, "pods", json!({})).unwrap_err().code, 422);
        assert_eq!(
            create(&mut store, "pods", json!({"metadata": []})).unwrap_err().code,
            400
        );
    }

    #[test]
    fn a_status_write_leaves_the_spec_and_a_main_write_the_status() {
        let mut store = store();
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
        create(&mut store, "resourcequotas", quota).unwrap();
        let (kind, key) = (kind(&store, "resourcequotas"), Key::new("a", "q"));
        let wanted = json!({"metadata": {"annotations": {"x": "y"}}, "spec": {}, "status": {"used": {"pods": "1"}}});
        let written = store
            .update(&kind, &key, Part::Status, |_| Ok(wanted.clone()), false)
            .unwrap();
        assert_eq!(written["spec"]["hard"]["pods"], "1");
        assert_eq!(written["status"]["used"]["pods"], "1");
        assert_eq!(written["metadata"]["annotations"]["x"], "y");
        let written = store
            .update(&kind, &key, Part::Main, |_| Ok(json!({"spec": {}})), false)
            .unwrap();
        assert_eq!(written["status"]["used"]["pods"], "1");
        assert_eq!(written["spec"], json!({}));
    }

    #[test]
    fn stale_versions_conflict_and_no_ops_are_not_written() {
        let mut store = store();
        let first = create(&mut store, "configmaps", json!({"metadata": {"name": "c"}})).unwrap();
        let (kind, key) = (kind(&store, "configmaps"), Key::new("a", "c"));
        let revision = store.revision();
        store
            .update(&kind, &key, Part::Main, |current| Ok(current.clone()), false)
            .unwrap();
        assert_eq!(store.revision(), revision);
        let changed = |current: &Value| Ok(json!({"metadata": current["metadata"], "data": {"a": "b"}}));
        store.update(&kind, &key, Part::Main, changed, true).unwrap();
        assert_eq!(store.revision(), revision, "a dry run");
        store.update(&kind, &key, Part::Main, changed, false).unwrap();
        let error = store
            .update(&kind, &key, Part::Main, |_| Ok((*first).clone()), false)
            .unwrap_err();
        assert_eq!((error.code, error.reason.as_str()), (409, "Conflict"));
        let other = |_: &Value| Ok(json!({"metadata": {"uid": "other"}}));
        assert_eq!(
            store.update(&kind, &key, Part::Main, other, false).unwrap_err().code,
            409
        );
    }

    #[test]
    fn generation_counts_changes_of_intent() {
        let mut store = store();
        create(
            &mut store,
            "deployments.apps",
            json!({"metadata": {"name": "d"}, "spec": {"replicas": 1}}),
        )
        .unwrap();
        let (kind, key) = (kind(&store, "deployments.apps"), Key::new("a", "d"));
        let label = |current: &Value| {
            let mut next = current.clone();
            next["metadata"]["labels"] = json!({"a": "b"});
            Ok(next)
        };
        let written = store.update(&kind, &key, Part::Main, label, false).unwrap();
        assert_eq!(written["metadata"]["generation"], 1);
        let scale = |current: &Value| {
            let mut next = current.clone();
            next["spec"]["replicas"] = 2.into();
            Ok(next)
        };
        let written = store.update(&kind, &key, Part::Main, scale, false).unwrap();
        assert_eq!(written["metadata"]["generation"], 2);
    }

    #[test]
    fn a_pod_on_a_node_waits_for_its_grace() {
        let mut store = store();
        create(
            &mut store,
            "pods",
            json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}),
        )
        .unwrap();
        create(&mut store, "pods", json!({"metadata": {"name": "loose"}})).unwrap();
        let (kind, key) = (kind(&store, "pods"), Key::new("a", "p"));
        let options = DeleteOptions::default();
        let loose = store.delete(&kind, &Key::new("a", "loose"), &options).unwrap();
        assert!(matches!(loose, Deleted::Removed(_)));
        let Deleted::Marked(pod) = store.delete(&kind, &key, &options).unwrap() else {
            panic!("removed")
        };
        assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
        let revision = store.revision();
        store.delete(&kind, &key, &options).unwrap();
        assert_eq!(store.revision(), revision, "deleted already");
        let shorter = DeleteOptions {
            grace: Some(5),
            ..options.clone()
        };
        let Deleted::Marked(pod) = store.delete(&kind, &key, &shorter).unwrap() else {
            panic!("removed")
        };
        assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-01-01T00:00:05Z");
        let at_once = DeleteOptions {
            grace: Some(0),
            ..options
        };
        assert!(matches!(
            store.delete(&kind, &key, &at_once).unwrap(),
            Deleted::Removed(_)
        ));
        assert_eq!(store.delete(&kind, &key, &at_once).unwrap_err().code, 404);
    }

    #[test]
    fn finalizers_hold_an_object_until_the_last_is_gone() {
        let mut store = store();
        create(
            &mut store,
            "configmaps",
            json!({"metadata": {"name": "c", "finalizers": ["x"]}}),
        )
        .unwrap();
        let (kind, key) = (kind(&store, "configmaps"), Key::new("a", "c"));
        let deleted = store.delete(&kind, &key, &DeleteOptions::default()).unwrap();
        assert!(matches!(deleted, Deleted::Marked(_)));
        store
            .update(&kind, &key, Part::Main, |_| Ok(json!({"metadata": {}})), false)
            .unwrap();
        assert!(store.get(&kind.resource(), &key).is_none());
        assert!(store.events_after(0).last().unwrap().deleted);
    }

    #[test]
    fn preconditions_guard_deletions() {
        let mut store = store();
        create(&mut store, "configmaps", json!({"metadata": {"name": "c"}})).unwrap();
        let (kind, key) = (kind(&store, "configmaps"), Key::new("a", "c"));
        let uid = DeleteOptions {
            uid: Some("other".into()),
            ..DeleteOptions::default()
        };
        assert_eq!(store.delete(&kind, &key, &uid).unwrap_err().code, 409);
        let version = DeleteOptions {
            resource_version: Some("1".into()),
            ..DeleteOptions::default()
        };
        assert_eq!(store.delete(&kind, &key, &version).unwrap_err().code, 409);
    }

    #[test]
    fn pages_show_the_past() {
        let mut store = store();
        for name in ["a", "c", "d"] {
            create(&mut store, "pods", json!({"metadata": {"name": name}})).unwrap();
        }
        let (pods, revision) = (GroupResource::parse("pods"), store.revision());
        create(&mut store, "pods", json!({"metadata": {"name": "b"}})).unwrap();
        store.remove(&pods, &Key::new("a", "c"));
        store.remove(&pods, &Key::new("a", "d"));
        create(
            &mut store,
            "pods",
            json!({"metadata": {"name": "d"}, "spec": {"nodeName": "new"}}),
        )
        .unwrap();
        let all = Selector::default();
        let now = store.page(&pods, store.revision(), None, &all, usize::MAX);
        assert_eq!(names(&now), ["a", "b", "d"]);
        let first = store.page(&pods, revision, None, &all, 2);
        assert_eq!(names(&first), ["a", "c"]);
        let rest = store.page(&pods, revision, first.last.as_ref(), &all, 2);
        assert_eq!(names(&rest), ["d"]);
        assert!(rest.items[0]["spec"].is_null(), "as it was then");
        assert!(rest.last.is_none());
        let elsewhere = Selector::parse("b", "", "", &[]).unwrap();
        assert!(store.page(&pods, revision, None, &elsewhere, 9).items.is_empty());
    }

    #[test]
    fn bad_quantities_are_refused() {
        let mut store = store();
        let quota = |used: &str| json!({"metadata": {"name": "q"}, "status": {"used": {"pods": used}}});
        assert_eq!(
            create(&mut store, "resourcequotas", quota("many")).unwrap_err().code,
            400
        );
        assert_eq!(create(&mut store, "resourcequotas", quota("-1")).unwrap_err().code, 422);
        create(&mut store, "resourcequotas", quota("1")).unwrap();
    }
}
