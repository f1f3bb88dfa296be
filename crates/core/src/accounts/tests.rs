use serde_json::{Value, json};

use super::*;
use crate::evaluators::View;
use crate::object::{Metadata, OwnerReference};
use crate::quota::{QuotaStatus, QuotaView};
use crate::scope::{Operator, Requirement, Scope, Selector};

const NAMESPACE: &str = "ns";
const GRACE: Duration = Duration::from_secs(10);
/// The grace, and some: raises count as seen at the end of their slot.
const PAST_GRACE: Duration = Duration::from_secs(11);

/// A server and its clock, with the accounts beside it. What happens at the server is seen at once where the method says so, and
/// by the next list otherwise.
struct World {
    accounts: Accounts,
    since_start: Duration,
    revision: u64,
    objects: Vec<(KindId, Object)>,
    quotas: BTreeMap<QuotaKey, Quota>,
}

fn key(name: &str) -> QuotaKey {
    QuotaKey::new(NAMESPACE, name)
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

/// `pods=1,requests.cpu=2`
fn list(text: &str) -> ResourceList {
    let pairs = text
        .split(',')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap());
    pairs
        .map(|(name, value)| (ResourceName::from(name), quantity(value)))
        .collect()
}

fn metadata(object: &Value) -> Metadata {
    serde_json::from_value(object["metadata"].clone()).unwrap()
}

/// A quota without a status.
fn quota(name: &str, hard: &str) -> Quota {
    let hard: serde_json::Map<String, Value> = list(hard)
        .iter()
        .map(|(name, value)| (name.to_string(), json!(value.to_string())))
        .collect();
    let object = json!({"metadata": {"namespace": NAMESPACE, "name": name, "uid": name}, "spec": {"hard": hard}});
    serde_json::from_value::<QuotaView>(object.clone())
        .unwrap()
        .quota(&metadata(&object))
}

/// A pod that requests so much cpu; with none it is BestEffort.
fn pod(name: &str, cpu: &str) -> Object {
    let requests = if cpu.is_empty() { json!({}) } else { json!({"cpu": cpu}) };
    let view = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}});
    Object {
        view: Ok(View::Pod(serde_json::from_value(view).unwrap())),
        ..counted(name)
    }
}

/// A pod whose status has more cpu than its spec.
fn grown_pod(name: &str, cpu: &str, allocated: &str) -> Object {
    let view = json!({
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": allocated}}]},
    });
    Object {
        view: Ok(View::Pod(serde_json::from_value(view).unwrap())),
        ..counted(name)
    }
}

fn counted(name: &str) -> Object {
    let metadata = Metadata {
        name: name.to_owned(),
        namespace: NAMESPACE.to_owned(),
        uid: name.to_owned(),
        ..Metadata::default()
    };
    Object {
        metadata,
        view: Ok(View::Counted),
    }
}

/// A claim for so many devices of a class.
fn claim(name: &str, class: &str, count: i64) -> Object {
    let exactly = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    let view = json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
    Object {
        view: Ok(View::ResourceClaim(serde_json::from_value(view).unwrap())),
        ..counted(name)
    }
}

fn spoiled(object: Object) -> Object {
    Object {
        view: Err(FieldError {
            field: "spec".to_owned(),
            reason: "spoiled".to_owned(),
        }),
        ..object
    }
}

fn served(kinds: &[&str], failed_groups: &[&str]) -> Served {
    Served {
        kinds: kinds.iter().map(|kind| GroupResource::parse(kind)).collect(),
        failed_groups: failed_groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

const PODS: &str = "pods";
const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const WIDGETS: &str = "widgets.example.com";
const ALL: [&str; 5] = [PODS, "services", "configmaps", CLAIMS, WIDGETS];

impl World {
    /// Nothing is known yet.
    fn new() -> Self {
        World {
            accounts: Accounts::new(Settings::default()),
            since_start: Duration::from_secs(100),
            revision: 1,
            objects: Vec::new(),
            quotas: BTreeMap::new(),
        }
    }

    /// One quota, all lists answered, and its status written.
    fn settled(hard: &str, objects: impl IntoIterator<Item = (&'static str, Object)>) -> Self {
        let mut world = World::new();
        world.discovered(&ALL, &[]);
        for (kind, object) in objects {
            world.store(kind, object);
        }
        world.put(quota("a", hard));
        world.list_needed();
        world.sync();
        world.pass(PAST_GRACE);
        world.sync();
        world.accounts.take_notices();
        world
    }

    // ---- time

    fn tick(&mut self) -> Tick {
        self.since_start += Duration::from_nanos(1);
        Tick::after_start(self.since_start)
    }

    fn time(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.since_start
    }

    fn pass(&mut self, time: Duration) {
        self.since_start += time;
    }

    fn pass_millis(&mut self, millis: u64) {
        self.pass(Duration::from_millis(millis));
    }

    // ---- the server

    fn discovered(&mut self, kinds: &[&str], failed_groups: &[&str]) {
        let (tick, time) = (self.tick(), self.time());
        self.accounts.discovered(served(kinds, failed_groups), tick, time);
    }

    fn kind(&self, kind: &str) -> KindId {
        self.accounts
            .inventory()
            .registry()
            .id(&GroupResource::parse(kind))
            .unwrap()
    }

    fn next_revision(&mut self) -> String {
        self.revision += 1;
        self.revision.to_string()
    }

    /// Stores an object, unseen.
    fn store(&mut self, kind: &str, mut object: Object) -> Object {
        let id = self
            .accounts
            .inventory
            .registry_mut()
            .ensure(&GroupResource::parse(kind))
            .unwrap();
        object.metadata.resource_version = self.next_revision();
        self.objects
            .retain(|(of, old)| *of != id || old.metadata.uid != object.metadata.uid);
        self.objects.push((id, object.clone()));
        object
    }

    /// Stores an object, and its event is seen.
    fn apply(&mut self, kind: &str, object: Object) {
        let object = self.store(kind, object);
        self.see(kind, &object);
    }

    fn see(&mut self, kind: &str, object: &Object) {
        let (id, tick, time) = (self.kind(kind), self.tick(), self.time());
        self.accounts.object_applied(id, object, tick, time);
    }

    /// Deletes an object, unseen.
    fn lose(&mut self, kind: &str, name: &str) -> Object {
        let id = self.kind(kind);
        let index = self
            .objects
            .iter()
            .position(|(of, object)| *of == id && object.metadata.name == name)
            .unwrap();
        let (_, mut object) = self.objects.remove(index);
        object.metadata.resource_version = self.next_revision();
        object
    }

    /// Deletes an object, and its event is seen.
    fn delete(&mut self, kind: &str, name: &str) {
        let object = self.lose(kind, name);
        let (id, tick, time) = (self.kind(kind), self.tick(), self.time());
        self.accounts.object_deleted(id, &object, tick, time);
    }

    /// Stores a quota, and its event is seen.
    fn put(&mut self, quota: Quota) {
        let key = self.put_unseen(quota);
        self.see_quota(&key, Sighting::Event);
    }

    fn put_unseen(&mut self, mut quota: Quota) -> QuotaKey {
        quota.resource_version = self.next_revision();
        let key = quota.key.clone();
        self.quotas.insert(key.clone(), quota);
        key
    }

    fn see_quota(&mut self, key: &QuotaKey, sighting: Sighting) {
        let tick = self.tick();
        self.accounts.quota_seen(self.quotas[key].clone(), sighting, tick);
    }

    fn edit(&mut self, name: &str, edit: impl FnOnce(&mut Quota)) {
        let mut quota = self.quotas[&key(name)].clone();
        edit(&mut quota);
        self.put(quota);
    }

    /// Someone, usually admission, changes quota `a`'s `used`.
    fn change_used(&mut self, name: &str, by: i64) {
        self.edit("a", |quota| {
            *quota.status.used.as_mut().unwrap().get_mut(name).unwrap() += &Quantity::from(by);
        });
    }

    fn used_of(&self, name: &str) -> String {
        self.quotas[&key(name)]
            .status
            .used
            .as_ref()
            .map_or("none".to_owned(), ResourceList::to_string)
    }

    /// What quota `a` has in its status.
    fn used(&self) -> String {
        self.used_of("a")
    }

    // ---- the controller's hands

    fn plan(&mut self) -> Plan {
        let tick = self.tick();
        self.accounts.plan(&key("a"), tick)
    }

    /// What is planned to be written of quota `a`.
    fn wanted(&mut self) -> String {
        self.plan()
            .write
            .map_or("nothing".to_owned(), |write| write.used.to_string())
    }

    fn list_needed(&mut self) {
        let needed: Vec<KindId> = self.accounts.needed_kinds().collect();
        for kind in needed {
            self.list(kind);
        }
    }

    /// A list of all namespaces.
    fn list(&mut self, kind: KindId) {
        let sent_at = self.tick();
        self.accounts.list_began(kind);
        let revision = self.revision.to_string();
        for object in self.objects_of(kind) {
            let (tick, time) = (self.tick(), self.time());
            self.accounts.list_page(kind, &revision, &[object], tick, time);
        }
        let (tick, time) = (self.tick(), self.time());
        self.accounts.list_ended(kind, &revision, sent_at, tick, time);
    }

    fn objects_of(&self, kind: KindId) -> Vec<Object> {
        self.objects
            .iter()
            .filter(|(of, _)| *of == kind)
            .map(|(_, object)| object.clone())
            .collect()
    }

    fn send_list(&mut self, kind: &str) {
        let (id, tick) = (self.kind(kind), self.tick());
        self.accounts.namespace_list_sent(id, NAMESPACE, tick);
    }

    fn answer_list(&mut self, kind: &str) {
        let revision = self.revision;
        let objects = self.objects_of(self.kind(kind));
        self.answer_list_with(kind, revision, &objects);
    }

    fn answer_list_with(&mut self, kind: &str, revision: u64, objects: &[Object]) {
        let (id, tick, time) = (self.kind(kind), self.tick(), self.time());
        self.accounts
            .namespace_listed(id, NAMESPACE, &revision.to_string(), objects, tick, time);
    }

    /// Sends what is planned for quota `a`.
    fn send_write(&mut self) -> StatusWrite {
        let write = self.plan().write.expect("a write is planned");
        let tick = self.tick();
        self.accounts.write_sent(write.clone(), tick);
        write
    }

    /// The write reaches the server, which takes it.
    fn take_write(&mut self, write: &StatusWrite) {
        let mut quota = self.quotas[&write.quota].clone();
        assert_eq!(write.resource_version, quota.resource_version, "it is guarded");
        quota.status = QuotaStatus {
            hard: Some(write.hard.clone()),
            used: Some(write.used.clone()),
        };
        self.put_unseen(quota);
    }

    fn answer_write(&mut self, result: WriteResult) {
        let tick = self.tick();
        self.accounts.write_ended(&key("a"), result, tick);
    }

    fn landed(&self) -> WriteResult {
        WriteResult::Landed {
            resource_version: self.quotas[&key("a")].resource_version.clone(),
        }
    }

    fn write_lands(&mut self) {
        let write = self.send_write();
        self.take_write(&write);
        self.answer_write(self.landed());
    }

    /// Does what is planned for all quotas, with every answer at once, until nothing is left to do now.
    fn sync(&mut self) {
        for _ in 0..20 {
            let mut idle = true;
            for key in self.accounts.keys() {
                let tick = self.tick();
                let plan = self.accounts.plan(&key, tick);
                for kind in plan.lists {
                    let resource = self
                        .accounts
                        .inventory()
                        .registry()
                        .evaluator(kind)
                        .group_resource()
                        .to_string();
                    self.send_list(&resource);
                    self.answer_list(&resource);
                    idle = false;
                }
                if let Some(write) = plan.write {
                    let tick = self.tick();
                    self.accounts.write_sent(write.clone(), tick);
                    self.take_write(&write);
                    let (tick, resource_version) = (self.tick(), self.quotas[&key].resource_version.clone());
                    self.accounts
                        .write_ended(&key, WriteResult::Landed { resource_version }, tick);
                    idle = false;
                }
            }
            if idle {
                return;
            }
            self.pass_millis(20);
        }
        panic!("there is always something left to do: {:?}", self.accounts);
    }
}

// ---- enforcement

#[test]
fn new_limits_wait_for_the_word_that_they_are_enforced() {
    let mut world = World::new();
    world.accounts = Accounts::new(Settings {
        enforcement_patience: Some(Duration::from_secs(10)),
        ..Settings::default()
    });
    world.discovered(&ALL, &[]);
    world.put(quota("a", "pods=5"));
    world.list_needed();
    world.sync();
    assert_eq!(world.used(), "none");
    world.pass_millis(9_000);
    let plan = world.plan();
    assert!(plan.write.is_none() && plan.again_at.is_some(), "{plan:?}");
    world.edit("a", |quota| quota.enforced = Some("a pods".to_owned()));
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.take_notices()),
        ("pods=0".to_owned(), vec![])
    );

    // What is in force needs no word, whatever its value; another name does.
    world.edit("a", |quota| quota.spec.hard = list("pods=7"));
    world.apply(PODS, pod("p", "1"));
    world.pass_millis(300);
    world.sync();
    assert_eq!(world.used(), "pods=1");
    world.edit("a", |quota| quota.spec.hard = list("pods=7,services=1"));
    world.list_needed();
    world.sync();
    assert_eq!(world.used(), "pods=1");
    // Nobody says a word: then it is done without.
    world.pass_millis(10_001);
    world.sync();
    assert_eq!(world.used(), "pods=1,services=0");
    assert_eq!(world.accounts.take_notices(), [Notice::Unenforced { quota: key("a") }]);
}

#[test]
fn where_nobody_gives_the_word_nobody_waits() {
    let mut world = World::settled("pods=5", []);
    assert_eq!(world.used(), "pods=0");
    world.edit("a", |quota| quota.spec.hard = list("pods=7,services=1"));
    world.list_needed();
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.take_notices()),
        ("pods=0,services=0".to_owned(), vec![])
    );
}

// ---- quotas and lists

#[test]
fn before_discovery_nothing_is_planned() {
    let mut world = World::new();
    world.put(quota("a", "pods=10"));
    assert_eq!(world.plan(), Plan::default());
    world.discovered(&ALL, &[]);
    assert_eq!(world.accounts.needed_kinds().collect::<Vec<_>>(), [world.kind(PODS)]);
    assert!(world.accounts.take_wanted_changed());
}

#[test]
fn a_new_quota_waits_for_the_first_list_of_its_kinds() {
    let mut world = World::new();
    world.discovered(&ALL, &[]);
    world.store(PODS, pod("p", "2"));
    world.put(quota("a", "pods=10,requests.cpu=10"));
    // The kind's monitor is at it.
    let plan = world.plan();
    assert_eq!((plan.write, plan.lists.len()), (None, 0));
    world.list_needed();
    assert!(world.accounts.is_missing_usage(&key("a")));
    world.write_lands();
    assert_eq!(world.used(), "pods=1,requests.cpu=2");
    assert!(!world.accounts.is_missing_usage(&key("a")));
    assert_eq!(world.plan(), Plan::default());
    // So it is where only one of the two is missing: the limits, or a figure.
    world.edit("a", |quota| {
        quota.status.hard = None;
    });
    assert!(world.accounts.is_missing_usage(&key("a")));
    world.sync();
    world.edit("a", |quota| {
        quota.status.used = Some(list("pods=1"));
    });
    assert!(world.accounts.is_missing_usage(&key("a")));
}

#[test]
fn a_quota_that_comes_later_asks_for_a_list_of_its_namespace() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", "2"))]);
    world.put(quota("b", "requests.cpu=10"));
    let tick = world.tick();
    let plan = world.accounts.plan(&key("b"), tick);
    assert_eq!((plan.write, plan.lists), (None, vec![world.kind(PODS)]));
    world.send_list(PODS);
    let tick = world.tick();
    assert_eq!(world.accounts.plan(&key("b"), tick).lists, [], "one is under way");
    world.answer_list(PODS);
    world.sync();
    assert_eq!(
        (world.used(), world.used_of("b")),
        ("pods=1".to_owned(), "requests.cpu=2".to_owned())
    );
}

#[test]
fn what_a_restart_finds_is_in_flight_until_it_is_known_better() {
    let mut world = World::new();
    world.discovered(&ALL, &[]);
    world.store(PODS, pod("p", "2"));
    let status = QuotaStatus {
        hard: Some(list("pods=10")),
        used: Some(list("pods=3")),
    };
    world.put(Quota {
        status,
        ..quota("a", "pods=10")
    });
    world.list_needed();
    // Two may be in flight: another list must be sent a grace later.
    let plan = world.plan();
    assert_eq!((plan.write, plan.lists.len()), (None, 0));
    let again = plan.again_at.unwrap() - Tick::after_start(world.since_start);
    assert!(
        (GRACE - Duration::from_secs(1)..=GRACE + Duration::from_secs(1)).contains(&again),
        "{again:?}"
    );
    world.pass(again);
    world.sync();
    assert_eq!(world.used(), "pods=1");
}

#[test]
fn a_list_that_fails_is_sent_again_later() {
    let mut world = World::settled("pods=10", []);
    world.put(quota("b", "pods=10"));
    world.send_list(PODS);
    let kind = world.kind(PODS);
    world.accounts.take_dirty();
    world.accounts.namespace_list_failed(kind, NAMESPACE);
    assert_eq!(world.accounts.take_dirty().len(), 2);
    let tick = world.tick();
    let plan = world.accounts.plan(&key("b"), tick);
    assert_eq!(plan.lists, []);
    world.since_start = plan.again_at.unwrap() - Tick::default();
    world.pass_millis(1_000);
    let tick = world.tick();
    assert_eq!(world.accounts.plan(&key("b"), tick).lists, [kind]);
}

#[test]
fn a_quota_made_anew_under_its_name_is_another_one() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.change_used("pods", 1);
    // Its deletion was missed, or not.
    for missed in [true, false] {
        if !missed {
            world.accounts.quota_gone(&key("a"));
            assert!(world.accounts.quota(&key("a")).is_none());
        }
        world.put(Quota {
            uid: format!("missed: {missed}"),
            ..quota("a", "pods=10")
        });
        assert!(world.plan().write.is_none());
        world.pass(Duration::from_secs(3));
        world.sync();
        assert_eq!(world.used(), "pods=1");
    }
}

#[test]
fn an_answer_for_a_quota_that_is_gone_does_nothing() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.apply(PODS, pod("q", ""));
    world.pass_millis(500);
    let write = world.send_write();
    world.accounts.quota_gone(&key("a"));
    world.put(Quota {
        uid: "other".to_owned(),
        ..quota("a", "pods=10")
    });
    world.answer_write(WriteResult::Landed {
        resource_version: "999999".to_owned(),
    });
    assert_ne!(world.accounts.quota(&key("a")).unwrap().status.used, Some(write.used));
    world.accounts.quota_gone(&key("a"));
    assert_eq!(world.accounts.needed_kinds().count(), 0);
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn an_older_sighting_changes_nothing() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    let old = world.quotas[&key("a")].clone();
    world.change_used("pods", 1);
    let tick = world.tick();
    world.accounts.quota_seen(old, Sighting::Listed, tick);
    assert_eq!(
        world.accounts.quota(&key("a")).unwrap().status.used,
        Some(list("pods=2"))
    );
    assert!(world.plan().lists.is_empty());
}

#[test]
fn a_quota_without_limits_is_left_alone() {
    let mut world = World::settled("pods=10", []);
    world.put(quota("a", ""));
    world.sync();
    assert_eq!(world.used(), "none");
    assert!(!world.accounts.is_missing_usage(&key("a")));
}

#[test]
fn a_quota_found_again_after_its_watch_broke_is_resolved_anew() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    let mut raised = world.quotas[&key("a")].clone();
    raised.status.used = Some(list("pods=3"));
    let key = world.put_unseen(raised);
    world.see_quota(&key, Sighting::Listed);
    let plan = world.plan();
    assert_eq!((plan.write, plan.lists), (None, vec![world.kind(PODS)]));
    world.sync();
    assert_eq!(world.used(), "pods=3");
    world.pass(PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "pods=1");
}

// ---- raises and growth

#[test]
fn a_raise_and_its_growth_need_no_write() {
    let mut world = World::settled("pods=10,requests.cpu=10", [(PODS, pod("p", "1"))]);
    world.edit("a", |quota| quota.status.used = Some(list("pods=2,requests.cpu=3")));
    assert_eq!(world.wanted(), "nothing");
    assert_eq!(world.accounts.pending_charges(), 2);
    world.apply(PODS, pod("q", "2"));
    assert_eq!(world.plan(), Plan::default());
    assert_eq!(world.accounts.pending_charges(), 0);
    world.delete(PODS, "p");
    assert_eq!(world.wanted(), "pods=1,requests.cpu=2");
}

#[test]
fn a_deletion_does_not_release_what_is_in_flight() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.change_used("pods", 1);
    world.delete(PODS, "p");
    assert_eq!(world.wanted(), "pods=1");
}

#[test]
fn a_failed_create_is_released_by_a_list_sent_after_the_grace() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.change_used("pods", 2);
    world.pass(Duration::from_secs(9));
    assert!(world.plan().lists.is_empty());
    // A list before that tells nothing.
    world.send_list(PODS);
    world.pass(Duration::from_secs(2));
    world.answer_list(PODS);
    let plan = world.plan();
    assert_eq!((plan.write, plan.lists), (None, vec![world.kind(PODS)]));
    world.send_list(PODS);
    world.answer_list(PODS);
    assert_eq!(world.wanted(), "pods=1");
}

#[test]
fn evidence_is_asked_for_no_more_often_than_allowed() {
    let mut world = World::settled("pods=10", []);
    for _ in 0..2 {
        world.change_used("pods", 1);
        world.pass_millis(1_000);
    }
    world.pass_millis(8_600);
    world.sync();
    assert_eq!(world.used(), "pods=1");
    world.pass_millis(1_000);
    let plan = world.plan();
    assert!(plan.lists.is_empty() && plan.again_at.is_some(), "{plan:?}");
    world.pass_millis(1_000);
    world.sync();
    assert_eq!(world.used(), "pods=0");
}

#[test]
fn growth_seen_before_its_raise_waits_for_it() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.apply(PODS, pod("q", ""));
    let plan = world.plan();
    assert_eq!(plan.write, None);
    assert_eq!(
        plan.again_at.unwrap() - Tick::after_start(world.since_start),
        Duration::from_millis(200) - Duration::from_nanos(1)
    );
    world.pass_millis(100);
    world.change_used("pods", 1);
    world.pass_millis(500);
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn growth_without_a_raise_is_written_after_a_moment_and_then_settled() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.apply(PODS, pod("q", ""));
    world.pass_millis(200);
    world.write_lands();
    assert_eq!(
        (world.used(), world.accounts.pending_charges()),
        ("pods=2".to_owned(), 0)
    );
    // The next raise is not taken for the one that never came.
    world.change_used("pods", 1);
    world.pass_millis(20);
    world.delete(PODS, "p");
    assert_eq!(world.wanted(), "pods=2");
}

#[test]
fn growth_that_admission_never_sees_leaves_raises_pending() {
    let mut world = World::settled("requests.cpu=10", [(PODS, pod("p", "1"))]);
    world.change_used("requests.cpu", 2);
    world.apply(PODS, grown_pod("p", "1", "3"));
    assert_eq!(world.accounts.pending_charges(), 1);
    world.apply(PODS, pod("q", "2"));
    assert_eq!(world.accounts.pending_charges(), 0);
    assert_eq!(world.wanted(), "requests.cpu=5");
}

#[test]
fn what_the_status_of_a_new_object_adds_leaves_raises_pending() {
    let mut world = World::settled("requests.cpu=10", []);
    // Two are raised; one was stored, and its status had grown before it was seen.
    world.change_used("requests.cpu", 2);
    world.apply(PODS, grown_pod("p", "1", "2"));
    assert_eq!(world.accounts.pending_charges(), 1);
    world.apply(PODS, pod("p", "1"));
    assert_eq!(world.wanted(), "nothing");
}

#[test]
fn growth_that_admission_never_sees_hides_nothing_that_is_found() {
    let mut world = World::new();
    world.discovered(&ALL, &[]);
    world.store(PODS, grown_pod("p", "1", "3"));
    // One is the pod's, and one is in flight.
    let status = QuotaStatus {
        hard: Some(list("requests.cpu=10")),
        used: Some(list("requests.cpu=2")),
    };
    world.put(Quota {
        status,
        ..quota("a", "requests.cpu=10")
    });
    world.list_needed();
    world.write_lands();
    assert_eq!(world.used(), "requests.cpu=4");
    world.apply(PODS, pod("p", "1"));
    world.pass_millis(20);
    assert_eq!(world.wanted(), "requests.cpu=2");
}

#[test]
fn growth_of_a_known_object_found_by_a_list_leaves_raises_pending() {
    let mut world = World::settled("requests.cpu=10", [(PODS, pod("p", "1"))]);
    world.change_used("requests.cpu", 2);
    world.store(PODS, pod("p", "3"));
    world.store(PODS, pod("q", "1"));
    let kind = world.kind(PODS);
    world.list(kind);
    // Of `q` it is certain that it was admitted, of `p`'s growth it is not.
    assert_eq!(world.wanted(), "requests.cpu=5");
    world.pass(PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "requests.cpu=4");
}

#[test]
fn grace_that_runs_out_releases_a_pod_without_an_event() {
    let mut world = World::settled("pods=10,count/pods=10", [(PODS, pod("p", ""))]);
    let ends = world.time() + Duration::from_secs(30);
    let mut terminating = pod("p", "");
    terminating.metadata.deletion_timestamp = Some(world.time().to_string());
    terminating.metadata.deletion_grace_period_seconds = Some(30);
    world.apply(PODS, terminating);
    assert_eq!(world.accounts.next_deadline(), Some(ends));
    world.accounts.take_dirty();
    for (seconds, wanted) in [(30, "nothing"), (1, "count/pods=1,pods=0")] {
        world.pass(Duration::from_secs(seconds));
        // Exactly then it still counts.
        let (tick, time) = (world.tick(), if seconds == 30 { ends } else { world.time() });
        world.accounts.expire(tick, time);
        assert_eq!(world.wanted(), wanted);
    }
    assert_eq!(world.accounts.take_dirty().len(), 1);
    assert_eq!(world.accounts.next_deadline(), None);
}

// ---- writes

#[test]
fn a_conflict_waits_for_a_newer_quota() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.delete(PODS, "p");
    world.send_write();
    world.answer_write(WriteResult::Superseded);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.plan().write, None);
    world.change_used("pods", 1);
    assert_eq!(world.wanted(), "pods=1");
}

#[test]
fn an_unknown_outcome_is_settled_at_the_same_revision() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.delete(PODS, "p");
    let write = world.send_write();
    assert_eq!(world.plan().write, None, "one is in flight");
    world.answer_write(WriteResult::Unsettled {
        retry_after: Duration::from_secs(1),
    });
    let plan = world.plan();
    assert_eq!((plan.write.is_none(), plan.again_at.is_some()), (true, true));
    world.pass(Duration::from_secs(1));
    let again = world.send_write();
    assert_eq!(again, write);
    // The first had landed after all.
    world.take_write(&write);
    world.answer_write(WriteResult::Superseded);
    world.see_quota(&key("a"), Sighting::Event);
    assert_eq!(world.plan(), Plan::default());
    assert_eq!(world.accounts.take_notices(), [], "it is known as an own write");
}

#[test]
fn own_raises_are_not_taken_for_admissions() {
    let mut world = World::settled("pods=10", []);
    world.apply(PODS, pod("p", ""));
    world.pass_millis(200);
    let write = world.send_write();
    world.take_write(&write);
    // The watch is faster than the answer, and shows a raise on top.
    world.see_quota(&key("a"), Sighting::Event);
    let mut raised = world.quotas[&key("a")].clone();
    raised.status.used = Some(list("pods=2"));
    let landed = world.landed();
    world.put(raised);
    assert_eq!(
        world.accounts.quota(&key("a")).unwrap().status.used,
        Some(list("pods=0"))
    );
    world.answer_write(landed);
    assert_eq!(
        world.accounts.quota(&key("a")).unwrap().status.used,
        Some(list("pods=2"))
    );
    assert_eq!(world.wanted(), "nothing");
    world.delete(PODS, "p");
    world.pass_millis(20);
    assert_eq!(world.wanted(), "pods=1");
}

/// A name is found anew while the write is under way that gives its first figure, and admission raises that.
#[test]
fn what_is_found_during_a_write_is_found_with_what_it_wrote() {
    let mut world = World::new();
    world.discovered(&ALL, &[]);
    world.put(quota("a", "pods=10"));
    world.store(PODS, pod("p", ""));
    world.list_needed();
    let write = world.send_write();
    assert_eq!(write.used, list("pods=1"));
    world.apply(PODS, spoiled(pod("x", "")));
    world.delete(PODS, "x");
    world.take_write(&write);
    let landed = world.landed();
    let mut raised = world.quotas[&key("a")].clone();
    raised.status.used = Some(list("pods=2"));
    world.put(raised);
    world.answer_write(landed);
    world.pass_millis(20);
    world.sync();
    assert_eq!(world.used(), "pods=2", "it is still in flight");
    world.pass(PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "pods=1");
}

#[test]
fn a_sighting_that_waited_is_resolved_by_a_list_that_came_first() {
    let mut world = World::settled("pods=10", []);
    world.apply(PODS, pod("p", ""));
    world.pass_millis(200);
    let write = world.send_write();
    world.take_write(&write);
    let landed = world.landed();
    let mut touched = world.quotas[&key("a")].clone();
    touched.status.used = Some(list("pods=3"));
    let key = world.put_unseen(touched);
    world.see_quota(&key, Sighting::Listed);
    let kind = world.kind(PODS);
    world.list(kind);
    world.answer_write(landed);
    let plan = world.plan();
    assert_eq!((plan.write, plan.lists), (None, vec![]), "it is resolved");
    world.pass(PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "pods=1");
}

#[test]
fn writes_of_a_quota_keep_their_distance() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", "")), (PODS, pod("q", ""))]);
    world.delete(PODS, "p");
    world.write_lands();
    world.delete(PODS, "q");
    let plan = world.plan();
    assert_eq!((plan.write.is_none(), plan.again_at.is_some()), (true, true));
    world.pass_millis(20);
    assert_eq!(world.wanted(), "pods=0");
}

#[test]
fn a_write_that_changes_nothing_is_not_repeated() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.delete(PODS, "p");
    world.send_write();
    // The server had just that already, and so makes no new revision.
    world.answer_write(world.landed());
    world.pass(Duration::from_secs(60));
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn a_rejected_value_is_left_out() {
    let mut world = World::settled("pods=10,requests.cpu=10", [(PODS, pod("p", "2"))]);
    world.delete(PODS, "p");
    world.send_write();
    let cpu = ResourceName::from("requests.cpu");
    world.answer_write(WriteResult::Rejected {
        names: vec![cpu.clone()],
    });
    // Not at once: what is left may be rejected too.
    assert!(world.plan().write.is_none());
    world.pass(Duration::from_secs(2));
    world.write_lands();
    assert_eq!(world.used(), "pods=0,requests.cpu=2");
    assert_eq!(
        world.accounts.take_notices(),
        [Notice::LeftOut {
            quota: key("a"),
            name: cpu,
            value: quantity("0")
        }]
    );
    assert_eq!(world.plan(), Plan::default());
    // Another value is tried.
    world.edit("a", |quota| quota.status.used = Some(list("pods=1,requests.cpu=3")));
    world.apply(PODS, pod("q", "1"));
    world.pass_millis(20);
    assert_eq!(world.wanted(), "pods=1,requests.cpu=1");
}

#[test]
fn a_rejection_of_no_name_is_tried_again_later() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.delete(PODS, "p");
    world.send_write();
    world.answer_write(WriteResult::Rejected { names: Vec::new() });
    let plan = world.plan();
    assert_eq!((plan.write.is_none(), plan.again_at.is_some()), (true, true));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.wanted(), "pods=0");
}

#[test]
fn a_foreign_write_is_noticed_and_an_own_one_is_not() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", "")), (PODS, pod("q", ""))]);
    world.delete(PODS, "p");
    let write = world.send_write();
    world.take_write(&write);
    world.see_quota(&key("a"), Sighting::Event);
    world.answer_write(world.landed());
    assert_eq!(world.accounts.take_notices(), []);
    world.pass_millis(20);
    world.change_used("pods", -1);
    let notice = Notice::ForeignWrite {
        quota: key("a"),
        name: ResourceName::from("pods"),
        from: quantity("1"),
        to: quantity("0"),
    };
    assert_eq!(world.accounts.take_notices(), [notice]);
    assert_eq!(world.wanted(), "pods=1", "what is observed is put back");
}

#[test]
fn a_plan_that_is_only_looked_at_changes_nothing() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.delete(PODS, "p");
    world.change_used("pods", 1);
    world.pass(PAST_GRACE);
    let before = format!("{:?}", world.accounts);
    let tick = world.tick();
    assert_eq!(
        world.accounts.plan(&key("a"), tick),
        world.accounts.plan(&key("a"), tick)
    );
    assert_eq!(format!("{:?}", world.accounts), before);
}

// ---- edits of the quota

#[test]
fn names_come_and_go_with_hard() {
    let mut world = World::settled("pods=10,requests.cpu=10", [(PODS, pod("p", "2"))]);
    world.edit("a", |quota| quota.spec.hard = list("count/pods=5,pods=20"));
    world.sync();
    assert_eq!(world.used(), "count/pods=1,pods=1");
    world.edit("a", |quota| quota.spec.hard = list("pods=20"));
    let write = world.plan().write.unwrap();
    assert_eq!(write.gone_from_hard, [ResourceName::from("count/pods")]);
    assert_eq!(write.gone_from_used, [ResourceName::from("count/pods")]);
    assert_eq!((write.hard, write.used), (list("pods=20"), list("pods=1")));
}

#[test]
fn an_edit_of_the_selector_recounts_at_once_and_loses_nothing_in_flight() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", "1")), (PODS, pod("q", ""))]);
    world.change_used("pods", 1);
    let best_effort = Selector::new(vec![Requirement::listed(Scope::BestEffort)]);
    world.edit("a", |quota| quota.spec.selector = best_effort);
    assert_eq!(world.wanted(), "pods=2");
    world.apply(PODS, pod("r", ""));
    assert_eq!(world.wanted(), "pods=2");
    world.sync();
    world.delete(PODS, "q");
    assert_eq!(world.wanted(), "pods=1");
}

#[test]
fn an_invalid_selector_keeps_the_last_figures() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", "")), (PODS, pod("q", ""))]);
    let invalid = Requirement {
        scope: Scope::PriorityClass,
        operator: Operator::In,
        values: Vec::new(),
    };
    world.edit("a", |quota| quota.spec.selector = Selector::new(vec![invalid]));
    assert!(matches!(
        world.accounts.take_notices()[..],
        [Notice::InvalidSelector { .. }]
    ));
    world.delete(PODS, "p");
    assert_eq!((world.plan().write, world.accounts.frozen_names().count()), (None, 1));
    world.edit("a", |quota| quota.spec.selector = Selector::default());
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.frozen_names().count()),
        ("pods=1".to_owned(), 0)
    );
}

#[test]
fn unreadable_values_are_told_once() {
    let mut world = World::settled("pods=10", []);
    let object = json!({
        "metadata": {"namespace": NAMESPACE, "name": "a", "uid": "a"},
        "spec": {"hard": {"pods": "10", "requests.cpu": "lots"}},
        "status": {"hard": {"pods": "10"}, "used": {"pods": "0"}},
    });
    let spoiled = serde_json::from_value::<QuotaView>(object.clone())
        .unwrap()
        .quota(&metadata(&object));
    world.put(spoiled.clone());
    assert!(
        matches!(&world.accounts.take_notices()[..], [Notice::UnreadableValue { error, .. }] if error.field == "spec.hard[requests.cpu]")
    );
    world.put(spoiled);
    assert_eq!(world.accounts.take_notices(), []);
    world.sync();
    assert_eq!(world.used(), "pods=0");
}

// ---- what can't be read or listed

#[test]
fn an_unreadable_object_freezes_the_names_of_its_kind() {
    let mut world = World::settled(
        "pods=10,configmaps=10",
        [(PODS, pod("p", "")), (PODS, pod("q", "")), ("configmaps", counted("c"))],
    );
    world.apply(PODS, spoiled(pod("q", "")));
    assert!(matches!(&world.accounts.take_notices()[..], [Notice::Unreadable { object, .. }] if object == "ns/q"));
    assert_eq!(world.accounts.frozen_names().count(), 1);
    // A failed create is not released meanwhile, a removal is counted, and other names go on.
    world.change_used("pods", 1);
    world.pass(PAST_GRACE + PAST_GRACE);
    assert!(world.plan().lists.is_empty());
    world.delete(PODS, "p");
    world.delete("configmaps", "c");
    world.write_lands();
    assert_eq!(world.used(), "configmaps=0,pods=2");
    // Readable again: a list resolves what is stored.
    world.apply(PODS, pod("q", ""));
    assert_eq!(world.accounts.frozen_names().count(), 0);
    assert_eq!(world.plan().lists, [world.kind(PODS)]);
    world.sync();
    world.pass(PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "configmaps=0,pods=1");
}

#[test]
fn an_unreadable_object_that_goes_thaws_its_names() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", "")), (PODS, spoiled(pod("q", "")))]);
    // What it uses was never known: there is no figure yet.
    assert_eq!((world.used().as_str(), world.accounts.frozen_names().count()), ("", 1));
    world.delete(PODS, "q");
    assert_eq!(world.accounts.frozen_names().count(), 0);
    world.pass(Duration::from_secs(2));
    world.sync();
    assert_eq!(world.used(), "pods=1");
}

#[test]
fn a_kind_that_fails_holds_up_its_own_names_only() {
    let mut world = World::new();
    world.discovered(&ALL, &[]);
    world.put(quota("a", "pods=10,configmaps=10"));
    let (pods, configmaps) = (world.kind(PODS), world.kind("configmaps"));
    world.list(pods);
    // It is not known to fail yet: the others wait, and not for ever.
    let plan = world.plan();
    assert_eq!(plan.write, None);
    world.since_start = plan.again_at.unwrap() - Tick::default();
    assert_eq!(world.wanted(), "pods=0");
    world.since_start -= Duration::from_secs(1);
    assert_eq!(world.plan().write, None);
    world.accounts.take_dirty();
    world.accounts.kind_failing(configmaps);
    assert_eq!(world.accounts.take_dirty().len(), 1);
    assert_eq!(world.accounts.frozen_names().count(), 1);
    world.write_lands();
    assert_eq!(world.used(), "pods=0");
    // No list of a namespace is asked for while its monitor tries.
    world.pass(PAST_GRACE);
    assert_eq!(world.plan(), Plan::default());
    world.list(configmaps);
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.frozen_names().count()),
        ("configmaps=0,pods=0".to_owned(), 0)
    );
}

#[test]
fn a_kind_that_fails_later_releases_nothing() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    let kind = world.kind(PODS);
    world.accounts.kind_failing(kind);
    world.change_used("pods", 1);
    world.pass(PAST_GRACE + PAST_GRACE);
    assert_eq!(world.plan(), Plan::default());
    world.list(kind);
    assert_eq!(world.wanted(), "pods=1");
}

// ---- revisions

#[test]
fn a_relist_leaves_namespaces_alone_that_were_listed_later() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    let kind = world.kind(PODS);
    let revision = world.revision.to_string();
    let old = world.objects_of(kind);
    world.apply(PODS, pod("q", ""));
    world.lose(PODS, "p");
    world.send_list(PODS);
    world.answer_list(PODS);
    // A list of all namespaces from before, answered afterwards: it lacks `q`, and has `p` still.
    let (tick, time) = (world.tick(), world.time());
    world.accounts.list_began(kind);
    world.accounts.list_page(kind, &revision, &old, tick, time);
    world.accounts.list_ended(kind, &revision, tick, tick, time);
    let names: Vec<ObjectId> = world.accounts.inventory().ledger().ids(NAMESPACE, kind).collect();
    assert_eq!(names, [ObjectId::from_uid("q")]);
    // A newer one counts.
    world.store(PODS, pod("r", ""));
    world.list(kind);
    assert_eq!(world.accounts.inventory().ledger().len(kind), 2);
}

#[test]
fn events_up_to_a_list_of_the_namespace_are_skipped() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    let kind = world.kind(PODS);
    let created = world.store(PODS, pod("q", ""));
    world.lose(PODS, "q");
    let second = world.store(PODS, pod("r", ""));
    world.send_list(PODS);
    world.answer_list(PODS);
    world.see(PODS, &created);
    world.see(PODS, &second);
    assert_eq!(world.accounts.inventory().ledger().len(kind), 2);
    world.apply(PODS, pod("s", ""));
    assert_eq!(world.accounts.inventory().ledger().len(kind), 3);
}

#[test]
fn a_list_older_than_the_watch_is_evidence_and_no_news() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.change_used("pods", 2);
    world.pass(PAST_GRACE);
    world.pass_millis(100);
    world.send_list(PODS);
    let (revision, objects) = (world.revision, world.objects_of(world.kind(PODS)));
    world.apply(PODS, pod("q", ""));
    world.delete(PODS, "p");
    world.answer_list_with(PODS, revision, &objects);
    assert_eq!(world.wanted(), "pods=1");
}

#[test]
fn a_list_of_a_namespace_does_not_undo_a_newer_list_half_taken_in() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    let kind = world.kind(PODS);
    world.change_used("pods", 1);
    world.send_list(PODS);
    let (revision, objects) = (world.revision + 1, world.objects_of(kind));
    world.next_revision();
    // The watch broke, and `q` was stored meanwhile. The relist shows it before the older list is answered.
    let stored = world.store(PODS, pod("q", ""));
    let (sent_at, relisted) = (world.tick(), world.revision.to_string());
    let (tick, time) = (world.tick(), world.time());
    world.accounts.list_began(kind);
    world.accounts.list_page(kind, &relisted, &[stored], tick, time);
    world.answer_list_with(PODS, revision, &objects);
    assert_eq!(world.accounts.inventory().ledger().len(kind), 2);
    let (tick, time) = (world.tick(), world.time());
    world.accounts.list_page(kind, &relisted, &objects, tick, time);
    world.accounts.list_ended(kind, &relisted, sent_at, tick, time);
    assert_eq!(world.accounts.inventory().ledger().len(kind), 2);
    assert_eq!(
        (world.wanted(), world.accounts.pending_charges()),
        ("nothing".to_owned(), 0)
    );
}

// ---- kinds that come and go

#[test]
fn a_kind_that_is_gone_counts_nothing_until_it_is_back() {
    let mut world = World::settled("count/widgets.example.com=5,pods=10", [(WIDGETS, counted("w"))]);
    assert_eq!(world.used(), "count/widgets.example.com=1,pods=0");
    let widgets = world.kind(WIDGETS);
    world.change_used("count/widgets.example.com", 1);
    world.discovered(&[PODS, CLAIMS], &[]);
    assert!(!world.accounts.needed_kinds().any(|kind| kind == widgets));
    world.sync();
    assert_eq!(world.used(), "count/widgets.example.com=0,pods=0");
    // What comes too late from its watch or lists is not counted, and a quota that names it then has its figure at once.
    world.see(WIDGETS, &counted("late"));
    world.send_list(WIDGETS);
    world.put(quota("b", "count/widgets.example.com=5"));
    world.sync();
    assert_eq!(world.used_of("b"), "count/widgets.example.com=0");
    world.objects.clear();
    world.store(WIDGETS, counted("x"));
    world.discovered(&ALL, &[]);
    assert!(world.plan().write.is_none());
    world.list(widgets);
    world.pass(PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "count/widgets.example.com=1,pods=0");
}

#[test]
fn failed_discovery_changes_nothing() {
    let mut world = World::settled("count/widgets.example.com=5,pods=10", [(WIDGETS, counted("w"))]);
    world.accounts.take_dirty();
    world.discovered(&[PODS, CLAIMS], &["example.com"]);
    assert_eq!(world.accounts.take_dirty().len(), 0);
    world.delete(WIDGETS, "w");
    assert_eq!(world.wanted(), "count/widgets.example.com=0,pods=0");
}

#[test]
fn a_kind_that_may_be_served_holds_up_its_names() {
    let mut world = World::new();
    world.discovered(&[PODS], &["resource.k8s.io"]);
    world.put(quota("a", "pods=10,requests.example.com/gpu=5"));
    list_classes(&mut world, &[("gpu", Some("example.com/gpu"))]);
    world.list_needed();
    assert_eq!(world.accounts.needed_kinds().count(), 1);
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.frozen_names().count()),
        ("pods=0".to_owned(), 1)
    );
    world.discovered(&ALL, &[]);
    assert_eq!(world.accounts.needed_kinds().count(), 2);
    world.pass(Duration::from_secs(3));
    world.list_needed();
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.frozen_names().count()),
        ("pods=0,requests.example.com/gpu=0".to_owned(), 0)
    );
}

#[test]
fn a_kind_that_turns_out_not_to_be_served_feeds_nothing() {
    let mut world = World::new();
    world.discovered(&[PODS], &["resource.k8s.io"]);
    world.put(quota(
        "a",
        "count/resourceclaims.resource.k8s.io=3,requests.example.com/gpu=5",
    ));
    list_classes(&mut world, &[("gpu", Some("example.com/gpu"))]);
    world.list_needed();
    world.sync();
    assert_eq!(world.accounts.frozen_names().count(), 2);
    world.discovered(&[PODS], &[]);
    world.pass(Duration::from_secs(3));
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.frozen_names().count()),
        ("requests.example.com/gpu=0".to_owned(), 0)
    );
}

#[test]
fn a_kind_never_served_leaves_the_last_figure() {
    let mut world = World::new();
    world.discovered(&[PODS], &[]);
    let status = QuotaStatus {
        hard: None,
        used: Some(list("count/things.example.com=7")),
    };
    world.put(Quota {
        status,
        ..quota("a", "count/things.example.com=9,pods=10")
    });
    world.list_needed();
    world.sync();
    assert_eq!(world.used(), "count/things.example.com=7,pods=0");
    let things = GroupResource::new("example.com", "things");
    assert_eq!(world.accounts.unknown_kinds(), BTreeSet::from([things]));
    // Once it is served it is counted.
    world.discovered(&[PODS, "things.example.com"], &[]);
    assert_eq!(world.accounts.unknown_kinds(), BTreeSet::new());
    world.list_needed();
    world.pass(PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "count/things.example.com=0,pods=0");
}

#[test]
fn a_dropped_kind_is_forgotten() {
    let mut world = World::settled("pods=10,configmaps=10", [("configmaps", counted("c"))]);
    let configmaps = world.kind("configmaps");
    world.edit("a", |quota| quota.spec.hard = list("pods=10"));
    assert!(!world.accounts.needed_kinds().any(|kind| kind == configmaps));
    // It is named again before that is done.
    world.edit("a", |quota| quota.spec.hard = list("pods=10,configmaps=10"));
    let (tick, time) = (world.tick(), world.time());
    world.accounts.kind_dropped(configmaps, tick, time);
    assert_eq!(world.accounts.inventory().ledger().len(configmaps), 0);
    world.pass(PAST_GRACE);
    assert_eq!(world.plan().write, None);
    world.list(configmaps);
    world.sync();
    assert_eq!(world.used(), "configmaps=1,pods=0");
}

// ---- names that two kinds feed

fn with_device_classes() -> World {
    let mut world = World::new();
    world.discovered(&ALL, &[]);
    world.put(quota("a", "pods=10,requests.example.com/gpu=9"));
    assert!(world.accounts.needs_device_classes());
    world.store(CLAIMS, claim("c", "gpu", 2));
    world
}

fn list_classes(world: &mut World, classes: &[(&str, Option<&str>)]) {
    let classes = classes
        .iter()
        .map(|(class, extended)| ((*class).to_owned(), extended.map(str::to_owned)))
        .collect();
    let (tick, time) = (world.tick(), world.time());
    world.accounts.device_classes_listed(&classes, tick, time);
}

#[test]
fn a_name_that_two_kinds_feed_needs_both_lists() {
    let mut world = with_device_classes();
    list_classes(&mut world, &[("gpu", Some("example.com/gpu"))]);
    let (pods, claims) = (world.kind(PODS), world.kind(CLAIMS));
    world.list(pods);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.wanted(), "pods=0");
    world.list(claims);
    world.sync();
    assert_eq!(world.used(), "pods=0,requests.example.com/gpu=2");
    // A failed create is released by lists of both.
    world.change_used("requests.example.com/gpu", 3);
    world.pass(PAST_GRACE);
    world.pass_millis(100);
    assert_eq!(world.plan().lists, [pods, claims]);
    world.send_list(CLAIMS);
    world.answer_list(CLAIMS);
    assert_eq!((world.wanted(), world.plan().lists), ("nothing".to_owned(), vec![pods]));
    world.send_list(PODS);
    world.answer_list(PODS);
    assert_eq!(world.wanted(), "pods=0,requests.example.com/gpu=2");
}

#[test]
fn a_claim_seen_before_its_pod_hides_no_raise() {
    let mut world = with_device_classes();
    list_classes(&mut world, &[("gpu", Some("example.com/gpu"))]);
    world.list_needed();
    world.sync();
    assert_eq!(world.used(), "pods=0,requests.example.com/gpu=2");
    // A pod is admitted, and its claim, which costs nothing more; then another pod, still on its way.
    world.change_used("requests.example.com/gpu", 1);
    let view = json!({"spec": {"containers": [{"resources": {"requests": {"example.com/gpu": 1}}}]}});
    let pod = Object {
        view: Ok(View::Pod(serde_json::from_value(view).unwrap())),
        ..counted("p")
    };
    let mut claim = claim("p-claim", "gpu", 1);
    claim.metadata.annotations.extended_resource_claim = Some("true".to_owned());
    claim.metadata.owner_references = vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: "p".to_owned(),
        uid: "p".to_owned(),
        controller: Some(true),
    }];
    let (pod, claim) = (world.store(PODS, pod), world.store(CLAIMS, claim));
    world.change_used("requests.example.com/gpu", 5);
    world.see(CLAIMS, &claim);
    world.see(PODS, &pod);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.wanted(), "pods=1,requests.example.com/gpu=8");
}

#[test]
fn device_classes_that_fail_freeze_only_what_they_decide_about() {
    let mut world = with_device_classes();
    world.list_needed();
    assert_eq!(world.plan().write, None);
    world.accounts.device_classes_failing();
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.frozen_names().count()),
        ("pods=0".to_owned(), 1)
    );
    list_classes(&mut world, &[("gpu", Some("example.com/gpu"))]);
    world.list_needed();
    world.sync();
    assert_eq!(
        (world.used(), world.accounts.frozen_names().count()),
        ("pods=0,requests.example.com/gpu=2".to_owned(), 0)
    );
    // Known once, they stay known.
    world.accounts.device_classes_failing();
    assert_eq!(world.accounts.frozen_names().count(), 0);
}

#[test]
fn a_device_class_that_changes_or_goes_changes_what_feeds_the_name() {
    let mut world = with_device_classes();
    list_classes(&mut world, &[("gpu", None)]);
    world.list_needed();
    world.sync();
    assert_eq!(world.used(), "pods=0,requests.example.com/gpu=0");
    let (tick, time) = (world.tick(), world.time());
    world
        .accounts
        .device_class_changed("gpu", Some("example.com/gpu"), tick, time);
    assert!(world.accounts.take_wanted_changed());
    world.list_needed();
    world.pass(PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "pods=0,requests.example.com/gpu=2");
    let (tick, time) = (world.tick(), world.time());
    world.accounts.device_class_gone("gpu", tick, time);
    world.pass(PAST_GRACE);
    world.sync();
    world.pass(PAST_GRACE + PAST_GRACE);
    world.sync();
    assert_eq!(world.used(), "pods=0,requests.example.com/gpu=0");
}

// ---- size, and checks

#[test]
fn an_event_concerns_the_quotas_of_its_namespace_alone() {
    let mut world = World::settled("pods=10", []);
    for number in 0..2_000 {
        let mut other = quota("a", "pods=10,requests.cpu=10");
        other.key = QuotaKey::new(&format!("ns{number}"), "a");
        other.resource_version = "5".to_owned();
        let tick = world.tick();
        world.accounts.quota_seen(other, Sighting::Listed, tick);
    }
    world.accounts.take_dirty();
    for number in 0..100 {
        world.apply(PODS, pod(&number.to_string(), ""));
        world.change_used("pods", 1);
        assert_eq!(world.accounts.take_dirty(), [key("a")].into());
    }
}

#[test]
fn a_recount_finds_no_drift() {
    let mut world = World::settled("pods=10", [(PODS, pod("p", ""))]);
    world.accounts.take_dirty();
    world.accounts.recount(&key("a"));
    assert_eq!(world.accounts.take_notices(), []);
    assert_eq!(world.accounts.take_dirty(), [key("a")].into());
}
