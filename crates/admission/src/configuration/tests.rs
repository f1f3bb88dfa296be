//! The upkeep beside an embedded API server, under paused time.

use std::sync::Arc;

use kubequota_cluster::{ClientOptions, Monitor, MonitorHandle, MonitorOptions};
use kubequota_core::decision::LimitedResources;
use kubequota_core::quota::ENFORCED;
use kubequota_testserver::{Action, Decision, Fault, Kind, Review, Status, TestServer};
use kubequota_wire::json::Quotas;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};

use super::reach::{PROBE_LABEL, number_of};
use super::upkeep::ours;
use super::*;
use crate::certificates::testing::{Authority, authority};
use crate::handler::PROBE_ANSWER;

const CONFIGURATIONS: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

/// From a change to what is written because of it.
const SOON: Duration = Duration::from_millis(100);

fn server() -> TestServer {
    let server = TestServer::new();
    let (group, kind) = ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration");
    server.add_kind(Kind::new(group, "v1", kind, "validatingwebhookconfigurations").cluster_scoped());
    server
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}))
        .unwrap();
    answers_probes(&server);
    server
}

/// As the webhook does, which a server in memory can't call.
fn answers_probes(server: &TestServer) {
    server.admitter(async |server: TestServer, review: Review| {
        let is_probe = review.object["metadata"]["labels"][PROBE_LABEL] == "true";
        match configuration(&server).filter(|_| is_probe) {
            Some(rules) => Decision::Deny(probed(number_of(&ours(&rules)))),
            None => Decision::Allow,
        }
    });
}

/// What a probe is told that came by the rules of this number.
fn probed(number: u64) -> Status {
    let message = format!("admission webhook {PROBE_WEBHOOK:?} denied the request: {PROBE_ANSWER}{number}");
    Status::new(403, "Forbidden", message)
}

/// One process.
struct Replica {
    readiness: Readiness,
    certificates: watch::Sender<Current>,
    quotas: Arc<QuotaCache>,
    _monitor: MonitorHandle,
    upkeep: JoinHandle<()>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.upkeep.abort();
    }
}

fn options() -> Options {
    Options {
        namespace: "system".to_owned(),
        ..Options::new(Address::service("system/webhook:8443").unwrap())
    }
}

impl Replica {
    async fn start(server: &TestServer) -> Self {
        Self::of(server, options(), None).await
    }

    async fn of(server: &TestServer, options: Options, ca_bundle: Option<&str>) -> Self {
        let client = ClientOptions {
            qps: 0.0,
            ..ClientOptions::default()
        };
        let cluster = Cluster::from_client(kube::Client::new(server.router(), "default"), &client);
        let quotas = QuotaCache::new();
        let of = kubequota_cluster::ApiResource::resource_quotas().into();
        let monitor = Monitor::new(cluster.clone(), &of, None, Quotas, MonitorOptions::default());
        let monitor = monitor.spawn(quotas.sink());
        let certificates = watch::Sender::new(current(ca_bundle));
        let readiness = Readiness::new();
        let parts = Parts {
            cluster,
            quotas: quotas.clone(),
            limited: LimitedResources::default(),
            certificates: certificates.subscribe(),
            readiness: readiness.clone(),
        };
        let upkeep = tokio::spawn(keep(options, parts));
        sleep(SOON).await;
        Replica {
            readiness,
            certificates,
            quotas,
            _monitor: monitor,
            upkeep,
        }
    }

    /// Another CA.
    fn trust(&self, ca_bundle: Option<&str>) {
        self.certificates.send_replace(current(ca_bundle));
    }
}

fn current(ca_bundle: Option<&str>) -> Current {
    Current {
        ca_bundle: ca_bundle.map(Arc::from),
        ..authority().serving("webhook.system.svc")
    }
}

fn add_quota(server: &TestServer, namespace: &str, hard: &Value) {
    add_quota_named(server, namespace, "q", hard);
}

fn add_quota_named(server: &TestServer, namespace: &str, name: &str, hard: &Value) {
    let metadata = json!({"namespace": namespace, "name": name});
    let spec = json!({"hard": hard});
    server
        .create(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}))
        .unwrap();
}

/// A limit of one pod.
fn put_into_force(server: &TestServer, namespace: &str) {
    let status = json!({"hard": {"pods": "1"}, "used": {"pods": "0"}});
    server.apply_status("resourcequotas", namespace, "q", status).unwrap();
}

fn configuration(server: &TestServer) -> Option<Value> {
    server.get(CONFIGURATIONS, "", "kubequota")
}

fn change(server: &TestServer, change: impl FnOnce(&mut Value)) {
    server.modify(CONFIGURATIONS, "", "kubequota", change).unwrap();
}

fn updates(server: &TestServer) -> usize {
    server.request_count("update", CONFIGURATIONS)
}

/// Namespaces and resources of the webhook that refuses: `In a b: configmaps pods`.
fn reached(server: &TestServer) -> String {
    let configuration = configuration(server).unwrap();
    let webhooks = configuration["webhooks"].as_array().unwrap();
    let Some(webhook) = webhooks.iter().find(|webhook| webhook["name"] == WEBHOOK) else {
        return "nothing".to_owned();
    };
    let words = |value: &Value| {
        let words: Vec<&str> = value
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        words.join(" ")
    };
    let selected = &webhook["namespaceSelector"]["matchExpressions"][0];
    let rules = webhook["rules"].as_array().unwrap().iter();
    let resources: Vec<String> = rules.map(|rule| words(&rule["resources"])).collect();
    let (operator, namespaces) = (selected["operator"].as_str().unwrap(), words(&selected["values"]));
    format!("{operator} {namespaces}: {}", resources.join(" "))
}

fn ca_bundle(server: &TestServer) -> Value {
    configuration(server).unwrap()["webhooks"][0]["clientConfig"]["caBundle"].clone()
}

#[tokio::test(start_paused = true)]
async fn it_is_made_and_follows_quotas() {
    let server = server();
    let _replica = Replica::start(&server).await;
    let made = configuration(&server).unwrap();
    assert_eq!(reached(&server), "nothing", "there is no quota yet");
    let record = server.get("configmaps", "system", RECORD).unwrap();
    assert_eq!(record["data"]["uid"], made["metadata"]["uid"]);

    add_quota(&server, "a", &json!({"pods": "1"}));
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a: pods pods/resize");
    // The kind need not be served yet.
    add_quota(&server, "b", &json!({"count/widgets.example.com": "1"}));
    add_quota(&server, "system", &json!({"configmaps": "1"}));
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a b: configmaps pods pods/resize widgets");

    server.delete("resourcequotas", "b", "q").unwrap();
    server.delete("resourcequotas", "system", "q").unwrap();
    sleep(Duration::from_secs(29)).await;
    assert_eq!(reached(&server), "In a b: configmaps pods pods/resize widgets");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(reached(&server), "In a: pods pods/resize");
    server.delete("resourcequotas", "a", "q").unwrap();
    sleep(Duration::from_secs(32)).await;
    assert_eq!(reached(&server), "nothing");
    // Then there is nothing more to do.
    let writes = server.revision();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(server.revision(), writes);
}

#[tokio::test(start_paused = true)]
async fn charges_are_no_reason_to_look() {
    let server = server();
    add_quota(&server, "a", &json!({"pods": "9"}));
    let _replica = Replica::start(&server).await;
    sleep(Duration::from_secs(1)).await;
    server.clear_requests();
    for used in 0..9 {
        let status = json!({"hard": {"pods": "9"}, "used": {"pods": used.to_string()}});
        server.apply_status("resourcequotas", "a", "q", status).unwrap();
        sleep(SOON).await;
    }
    let looks = server.request_count("get", CONFIGURATIONS);
    assert_eq!(looks, 1, "the first status brings limits into force");
}

#[tokio::test(start_paused = true)]
async fn the_cas_that_are_trusted() {
    let server = server();
    add_quota(&server, "a", &json!({"pods": "1"}));
    let (old, new) = (authority(), authority());
    let replica = Replica::of(&server, options(), Some(old.pem())).await;
    let bundle = |authorities: &[&Authority]| {
        let mut pems: Vec<&str> = authorities.iter().map(|authority| authority.pem()).collect();
        pems.sort_unstable();
        json!(k8s_openapi::ByteString(pems.concat().into_bytes()))
    };
    assert_eq!(ca_bundle(&server), bundle(&[&old]));
    replica.trust(Some(new.pem()));
    sleep(SOON).await;
    assert_eq!(ca_bundle(&server), bundle(&[&old, &new]));
    sleep(Duration::from_secs(149)).await;
    assert_eq!(ca_bundle(&server), bundle(&[&old, &new]));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(ca_bundle(&server), bundle(&[&new]));

    // Where there is nothing to publish, what somebody else publishes stays.
    replica.trust(None);
    change(&server, |object| {
        object["webhooks"][0]["clientConfig"]["caBundle"] = bundle(&[&old]);
    });
    add_quota(&server, "b", &json!({"services": "1"}));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(reached(&server), "In a b: pods services pods/resize");
    assert_eq!(ca_bundle(&server), bundle(&[&old]));
}

#[tokio::test(start_paused = true)]
async fn replicas_make_it_once_and_do_not_fight() {
    let server = server();
    add_quota(&server, "a", &json!({"pods": "1"}));
    let (_first, second) = tokio::join!(Replica::start(&server), Replica::start(&server));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(server.list(CONFIGURATIONS, "").len(), 1);
    let record = server.get("configmaps", "system", RECORD).unwrap();
    assert_eq!(
        record["data"]["uid"],
        configuration(&server).unwrap()["metadata"]["uid"]
    );

    drop(second);
    // This one learns of quotas ten seconds late.
    let lag = Action::LagWatch(Duration::from_secs(10));
    server.fault(Fault::new(lag).verb("watch").resource("resourcequotas"));
    let late = Replica::start(&server).await;
    server.clear_requests();
    add_quota(&server, "b", &json!({"services": "1"}));
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a b: pods services pods/resize");
    server.delete("resourcequotas", "a", "q").unwrap();
    sleep(Duration::from_secs(9)).await;
    assert!(late.quotas.in_namespace("b").is_empty() && !late.quotas.in_namespace("a").is_empty());
    sleep(Duration::from_secs(20)).await;
    assert_eq!(
        (reached(&server).as_str(), updates(&server)),
        ("In a b: pods services pods/resize", 1)
    );
    sleep(Duration::from_secs(11)).await;
    assert_eq!(reached(&server), "In b: services");
    let written = updates(&server);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(
        (reached(&server).as_str(), updates(&server)),
        ("In b: services", written)
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_settled_at_once() {
    let server = server();
    let _replica = Replica::start(&server).await;
    server.fault(
        Fault::new(Action::Conflict)
            .verb("update")
            .resource(CONFIGURATIONS)
            .first(2),
    );
    add_quota(&server, "a", &json!({"pods": "1"}));
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a: pods pods/resize");
    assert_eq!(updates(&server), 3);
}

#[tokio::test(start_paused = true)]
async fn once_deleted_it_stays_deleted_until_someone_says_otherwise() {
    let server = server();
    add_quota(&server, "a", &json!({"pods": "1"}));
    let replica = Replica::start(&server).await;
    assert_eq!(replica.readiness.report().brief(), "ok");
    server.delete(CONFIGURATIONS, "", "kubequota").unwrap();
    sleep(SOON).await;
    let off = "ok\nwebhook configuration: degraded: enforcement is off: ValidatingWebhookConfiguration kubequota was deleted; \
               to turn it on again: kubectl -n system delete configmap kubequota-webhook";
    assert_eq!(replica.readiness.report().brief(), off);
    add_quota(&server, "b", &json!({"pods": "1"}));
    sleep(Duration::from_secs(600)).await;
    assert!(configuration(&server).is_none());

    // Another process finds it so, too.
    drop(replica);
    let replica = Replica::start(&server).await;
    sleep(Duration::from_secs(600)).await;
    assert!(configuration(&server).is_none());
    assert_eq!(replica.readiness.report().brief(), off);

    server.delete("configmaps", "system", RECORD).unwrap();
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a b: pods pods/resize");
    assert_eq!(replica.readiness.report().brief(), "ok");
    let record = server.get("configmaps", "system", RECORD).unwrap();
    assert_eq!(
        record["data"]["uid"],
        configuration(&server).unwrap()["metadata"]["uid"]
    );

    // Whoever makes one says otherwise, too; and that one may be deleted like the other.
    server.delete(CONFIGURATIONS, "", "kubequota").unwrap();
    sleep(Duration::from_secs(60)).await;
    let metadata = json!({"name": "kubequota"});
    let (version, kind) = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
    server
        .create(json!({"apiVersion": version, "kind": kind, "metadata": metadata}))
        .unwrap();
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a b: pods pods/resize");
    server.delete(CONFIGURATIONS, "", "kubequota").unwrap();
    sleep(Duration::from_secs(600)).await;
    assert!(configuration(&server).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_others_change() {
    let server = server();
    add_quota(&server, "a", &json!({"pods": "1"}));
    let _replica = Replica::start(&server).await;
    let made = configuration(&server).unwrap()["webhooks"].clone();
    server.clear_requests();

    // What is not kubequota's stays.
    let other = json!({"name": "other.example.com", "clientConfig": {"url": "https://other"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
    change(&server, |object| {
        object["metadata"]["annotations"] = json!({"team": "x"});
        object["webhooks"].as_array_mut().unwrap().insert(0, other.clone());
    });
    add_quota(&server, "b", &json!({"pods": "1"}));
    sleep(SOON).await;
    let kept = configuration(&server).unwrap();
    assert_eq!(kept["metadata"]["annotations"], json!({"team": "x"}));
    assert_eq!(kept["webhooks"][2], other);
    assert_eq!(reached(&server), "In a b: pods pods/resize");
    assert_eq!((updates(&server), made.as_array().unwrap().len()), (1, 2));

    let policy = |server: &TestServer| configuration(server).unwrap()["webhooks"][0]["failurePolicy"].clone();
    let weaken = || {
        change(&server, |object| {
            object["webhooks"][0]["failurePolicy"] = "Ignore".into();
        });
    };
    weaken();
    sleep(SOON).await;
    assert_eq!(policy(&server), "Fail", "put back at once");
    weaken();
    sleep(Duration::from_secs(9)).await;
    assert_eq!(
        policy(&server),
        "Ignore",
        "and no sooner than ten seconds after the last time"
    );
    sleep(Duration::from_secs(1)).await;
    assert_eq!(policy(&server), "Fail");
    sleep(Duration::from_secs(20)).await;
    // What was taken away comes back, and what is added goes like anything that is not needed.
    change(&server, |object| {
        let selected = &mut object["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"];
        *selected = json!(["a", "z"]);
    });
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a b z: pods pods/resize");
    sleep(Duration::from_secs(31)).await;
    assert_eq!(reached(&server), "In a b: pods pods/resize");
    change(&server, |object| object["webhooks"] = json!([]));
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a b: pods pods/resize");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_permitted_is_told_and_tried_again() {
    let server = server();
    add_quota(&server, "a", &json!({"pods": "1"}));
    put_into_force(&server, "a");
    let may_not = server.fault(Fault::new(Action::Forbidden).verb("create").resource(CONFIGURATIONS));
    let replica = Replica::start(&server).await;
    let told = replica.readiness.report().brief();
    let grant = "grant verb create on validatingwebhookconfigurations in API group \"admissionregistration.k8s.io\"";
    assert!(
        told.starts_with("ok\nwebhook configuration: degraded: it can't be kept: ") && told.contains(grant),
        "{told}"
    );
    server.clear_fault(may_not);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(reached(&server), "In a: pods pods/resize");
    assert_eq!(replica.readiness.report().brief(), "ok");

    // Without a watch it is looked now and then.
    drop(replica);
    server.fault(Fault::new(Action::Forbidden).verb("list").resource(CONFIGURATIONS));
    server.fault(Fault::new(Action::Forbidden).verb("list").resource("configmaps"));
    let replica = Replica::start(&server).await;
    let told = replica.readiness.report().brief();
    assert!(
        told.contains("changes of configmaps: degraded: seen only every 30s: "),
        "{told}"
    );
    change(&server, |object| object["webhooks"] = json!([]));
    sleep(Duration::from_secs(31)).await;
    assert_eq!(reached(&server), "In a: pods pods/resize");
}

#[tokio::test(start_paused = true)]
async fn an_uninstallation_is_not_undone() {
    let server = server();
    add_quota(&server, "a", &json!({"pods": "1"}));
    let _replica = Replica::start(&server).await;
    server.delete(CONFIGURATIONS, "", "kubequota").unwrap();
    server.clear_requests();
    // The record may go before the processes do.
    let mut ending = server.get("namespaces", "", "system").unwrap();
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    server.put_raw("namespaces", ending);
    server.delete("configmaps", "system", RECORD).unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(server.request_count("create", "configmaps") > 5);
    assert_eq!(server.request_count("create", CONFIGURATIONS), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost() {
    for (verb, resource) in [
        ("create", CONFIGURATIONS),
        ("create", "configmaps"),
        ("patch", "configmaps"),
    ] {
        let server = server();
        add_quota(&server, "a", &json!({"pods": "1"}));
        server.fault(Fault::new(Action::LoseAnswer).verb(verb).resource(resource).once());
        let replica = Replica::start(&server).await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(reached(&server), "In a: pods pods/resize", "{verb} {resource}");
        let record = server.get("configmaps", "system", RECORD).unwrap();
        assert_eq!(
            record["data"]["uid"],
            configuration(&server).unwrap()["metadata"]["uid"]
        );
        assert_eq!(replica.readiness.report().brief(), "ok");
    }
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_keeps_is_left_alone() {
    let server = server();
    add_quota(&server, "a", &json!({"pods": "1"}));
    let options = Options {
        manage: false,
        ..options()
    };
    let _replica = Replica::of(&server, options, None).await;
    sleep(Duration::from_secs(60)).await;
    assert!(configuration(&server).is_none());
    assert_eq!(
        server
            .requests()
            .iter()
            .filter(|request| request.verb != "watch")
            .count(),
        1,
        "quotas are listed"
    );
}

#[test]
fn the_own_namespace() {
    let directory = crate::certificates::testing::Directory::new();
    for (told, expected) in [("team-x\n", "team-x"), ("", "kubequota-system")] {
        directory.write("namespace", told);
        assert_eq!(namespace_in(&directory.path("namespace")), expected);
    }
    assert_eq!(namespace_in(&directory.path("missing")), "kubequota-system");
}

/// What quota `q` of a namespace is told.
fn told(server: &TestServer, namespace: &str) -> Value {
    server.get("resourcequotas", namespace, "q").unwrap()["metadata"]["annotations"][ENFORCED].clone()
}

/// The API server follows the rules of this number, and no others.
fn follows(server: &TestServer, number: u64) {
    server.clear_faults();
    let answer = Action::Answer(probed(number));
    server.fault(
        Fault::new(answer)
            .verb("create")
            .resource("configmaps")
            .namespace("system"),
    );
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_told_that_it_is_enforced_once_that_was_seen() {
    let server = server();
    add_quota(&server, "old", &json!({"pods": "1"}));
    put_into_force(&server, "old");
    let replica = Replica::start(&server).await;
    server.clear_admitter();
    add_quota(&server, "a", &json!({"pods": "1", "secrets": "1"}));
    sleep(SOON).await;
    // Nobody has seen a probe, and then one of rules that do not cover it.
    assert_eq!(told(&server, "a"), Value::Null);
    let number = number_of(&ours(&configuration(&server).unwrap()));
    follows(&server, number - 1);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(told(&server, "a"), Value::Null);
    follows(&server, number);
    sleep(Duration::from_secs(4)).await;
    let uid = |namespace: &str| {
        let quota = server.get("resourcequotas", namespace, "q").unwrap();
        quota["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    assert_eq!(told(&server, "a"), format!("{} pods secrets", uid("a")));
    assert_eq!(told(&server, "old"), Value::Null, "what is in force need not be told");

    // Another quota under the same rules is told without another probe; new names are covered by new rules.
    server.clear_requests();
    add_quota_named(&server, "a", "r", &json!({"pods": "2"}));
    sleep(SOON).await;
    let second = server.get("resourcequotas", "a", "r").unwrap();
    assert!(second["metadata"]["annotations"][ENFORCED].is_string(), "{second}");
    assert_eq!(server.request_count("create", "configmaps"), 0);
    let hard = json!({"pods": "1", "services": "3"});
    server
        .modify("resourcequotas", "old", "q", |quota| quota["spec"]["hard"] = hard)
        .unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(told(&server, "old"), Value::Null);
    let new = number_of(&ours(&configuration(&server).unwrap()));
    assert_ne!(new, number);
    follows(&server, new);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(told(&server, "old"), format!("{} pods services", uid("old")));
    assert_eq!(replica.readiness.report().brief(), "ok");
}

#[tokio::test(start_paused = true)]
async fn what_keeps_a_quota_from_being_told_is_shown() {
    let may_not = |verb: &str, resource: &str| Some(Fault::new(Action::Forbidden).verb(verb).resource(resource));
    for (fault, shown) in [
        (may_not("create", "configmaps"), "grant verb create on configmaps"),
        (
            may_not("patch", "resourcequotas"),
            "grant verb patch on resourcequotas/status",
        ),
        (None, "kube-apiserver does not call the webhook by its newest rules"),
    ] {
        let server = server();
        let replica = Replica::start(&server).await;
        server.clear_admitter();
        let number = number_of(&ours(&configuration(&server).unwrap())) + 1;
        if shown.contains("resourcequotas") {
            follows(&server, number);
        }
        if let Some(fault) = &fault {
            server.fault(fault.clone());
        }
        add_quota(&server, "a", &json!({"pods": "1"}));
        sleep(Duration::from_secs(20)).await;
        let detail = replica.readiness.report().brief();
        assert!(detail.contains(shown), "{fault:?}: {detail}");
        assert_eq!(told(&server, "a"), Value::Null);
        follows(&server, number);
        sleep(Duration::from_secs(5)).await;
        assert!(told(&server, "a").is_string(), "{fault:?}");
        assert_eq!(replica.readiness.report().brief(), "ok", "{fault:?}");
    }
}

/// A Service leads to a pod some time after it is ready: whoever were asked before would find nobody, and be refused for that.
#[tokio::test(start_paused = true)]
async fn nobody_depends_on_the_webhook_before_it_was_reached() {
    let server = server();
    server.clear_admitter();
    add_quota(&server, "a", &json!({"pods": "1"}));
    put_into_force(&server, "a");
    let replica = Replica::start(&server).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(reached(&server), "nothing");
    let detail = replica.readiness.report().brief();
    assert!(detail.contains("can it reach the webhook's address?"), "{detail}");
    answers_probes(&server);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(reached(&server), "In a: pods pods/resize");
    assert_eq!(replica.readiness.report().brief(), "ok");
    // Once it was, that stands: a replica that can't be reached takes nothing back.
    server.clear_admitter();
    drop(replica);
    let _replica = Replica::start(&server).await;
    add_quota(&server, "b", &json!({"pods": "1"}));
    sleep(SOON).await;
    assert_eq!(reached(&server), "In a b: pods pods/resize");
}

#[tokio::test(start_paused = true)]
async fn quotas_that_nothing_counts_in_need_no_rules() {
    let server = server();
    let _replica = Replica::start(&server).await;
    add_quota(&server, "a", &json!({"nonsense": "1"}));
    sleep(SOON).await;
    assert!(told(&server, "a").is_string());
}
