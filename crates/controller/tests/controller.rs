//! The controller against the embedded API server, under paused time: what follows an event, and what no fault may lose.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::collections::BTreeMap;
use std::time::Duration;

use kubequota_cluster::{ClientOptions, Cluster};
use kubequota_controller::Options;
use kubequota_shell::metrics::TextFormat;
use kubequota_shell::{Drain, Metrics, Readiness, Shell};
use kubequota_testserver::{Action, Decision, Fault, GroupHealth, Kind, TestServer, WatchMode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// A controller at work on a server.
struct Running {
    server: TestServer,
    metrics: Metrics,
    readiness: Readiness,
    drain: Drain,
    task: tokio::task::JoinHandle<bool>,
}

fn start(server: &TestServer, options: Options) -> Running {
    let unlimited = ClientOptions {
        qps: 0.0,
        ..ClientOptions::default()
    };
    start_at_rate(server, options, &unlimited)
}

fn start_at_rate(server: &TestServer, options: Options, rate: &ClientOptions) -> Running {
    let client = kube::Client::new(server.router(), "default");
    let shell = Shell::new("test");
    let cluster = Cluster::from_client(client, rate);
    let task = tokio::spawn(kubequota_controller::run(options, cluster, shell.clone()));
    Running {
        server: server.clone(),
        metrics: shell.metrics,
        readiness: shell.readiness,
        drain: shell.drain,
        task,
    }
}

/// The periodic recount is out of the way, so that it can't hide what is missed.
fn without_resync() -> Options {
    Options {
        sync_period: Duration::ZERO,
        ..Options::default()
    }
}

impl Running {
    fn used(&self, quota: &str) -> BTreeMap<String, String> {
        let quota = self.server.get("resourcequotas", "a", quota).unwrap();
        let used = quota["status"]["used"].as_object().cloned().unwrap_or_default();
        used.into_iter()
            .map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned()))
            .collect()
    }

    /// Waits until `used` is as given; fails with what it is after a minute.
    async fn until_used(&self, quota: &str, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let began = Instant::now();
        while self.used(quota) != expected {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "used is {:?}, expected {expected:?}",
                self.used(quota)
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// `used` is as given, and stays so for a while.
    async fn stays_used(&self, quota: &str, expected: &[(&str, &str)]) {
        self.until_used(quota, expected).await;
        sleep(Duration::from_secs(30)).await;
        self.until_used(quota, expected).await;
    }

    fn metric(&self, line: &str) -> bool {
        self.metrics
            .registry
            .encode(TextFormat::Prometheus)
            .unwrap()
            .lines()
            .any(|found| found == line)
    }
}

fn quota(name: &str, hard: impl Into<Value>) -> Value {
    let hard = hard.into();
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "a", "name": name}, "spec": {"hard": hard}})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": name},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"namespace": "a", "name": name}})
}

fn server() -> TestServer {
    let server = TestServer::new();
    server
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}))
        .unwrap();
    server
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_its_turn_says_what_is_known_when_it_is_sent() {
    let server = server();
    for name in ["q", "r"] {
        server.create(quota(name, json!({"pods": "5"}))).unwrap();
    }
    let slow = ClientOptions {
        qps: 1.0,
        burst: 1,
        ..ClientOptions::default()
    };
    let running = start_at_rate(&server, without_resync(), &slow);
    running.stays_used("q", &[("pods", "0")]).await;
    running.stays_used("r", &[("pods", "0")]).await;
    server.clear_requests();
    // One of the two writes goes at once, the other waits for a second: the next pod comes meanwhile.
    server.create(pod("p1", "1")).unwrap();
    sleep(Duration::from_millis(700)).await;
    server.create(pod("p2", "1")).unwrap();
    running.until_used("q", &[("pods", "2")]).await;
    running.until_used("r", &[("pods", "2")]).await;
    assert_eq!(server.request_count("patch", "resourcequotas"), 3);
}

#[tokio::test(start_paused = true)]
async fn figures_follow_every_event() {
    let server = server();
    server.create(pod("p1", "1")).unwrap();
    server
        .create(quota(
            "q",
            json!({"pods": "5", "requests.cpu": "4", "count/configmaps": "3", "unknown": "1"}),
        ))
        .unwrap();
    let running = start(&server, without_resync());
    running
        .until_used("q", &[("pods", "1"), ("requests.cpu", "1"), ("count/configmaps", "0")])
        .await;
    let hard = server.get("resourcequotas", "a", "q").unwrap()["status"]["hard"].clone();
    assert_eq!(
        hard,
        json!({"pods": "5", "requests.cpu": "4", "count/configmaps": "3", "unknown": "1"})
    );

    server.create(pod("p2", "500m")).unwrap();
    server.create(config_map("c")).unwrap();
    running
        .until_used(
            "q",
            &[("pods", "2"), ("requests.cpu", "1500m"), ("count/configmaps", "1")],
        )
        .await;
    server.remove("pods", "a", "p1");
    running
        .until_used(
            "q",
            &[("pods", "1"), ("requests.cpu", "500m"), ("count/configmaps", "1")],
        )
        .await;
    server
        .apply_status("pods", "a", "p2", json!({"phase": "Succeeded"}))
        .unwrap();
    running
        .stays_used("q", &[("pods", "0"), ("requests.cpu", "0"), ("count/configmaps", "1")])
        .await;

    assert!(running.readiness.is_ready());
    assert!(
        !server
            .requests()
            .iter()
            .any(|request| request.resource == "services" && request.verb == "list"),
        "no quota names services"
    );
    assert!(running.metric("kubequota_status_write_conflicts_total 0"));
}

#[tokio::test(start_paused = true)]
async fn an_event_costs_its_quota_and_not_its_namespace() {
    let server = server();
    for number in 0..500 {
        server.create(pod(&format!("p{number}"), "1m")).unwrap();
    }
    server.create(quota("q", json!({"pods": "1k"}))).unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("pods", "500")]).await;
    let lists = server.request_count("list", "pods");
    for number in 0..100 {
        server.remove("pods", "a", &format!("p{number}"));
    }
    running.until_used("q", &[("pods", "400")]).await;
    assert_eq!(server.request_count("list", "pods"), lists, "pods were listed again");
}

#[tokio::test(start_paused = true)]
async fn a_quota_edited_is_counted_anew() {
    let server = server();
    server.create(pod("p1", "1")).unwrap();
    let mut short_lived = pod("p2", "1");
    short_lived["spec"]["activeDeadlineSeconds"] = 60.into();
    server.create(short_lived).unwrap();
    server.create(quota("q", json!({"pods": "5"}))).unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("pods", "2")]).await;
    server
        .modify("resourcequotas", "a", "q", |quota| {
            quota["spec"]["hard"] = json!({"requests.cpu": "5"});
        })
        .unwrap();
    running.until_used("q", &[("requests.cpu", "2")]).await;
    server
        .modify("resourcequotas", "a", "q", |quota| {
            quota["spec"]["scopes"] = json!(["Terminating"]);
        })
        .unwrap();
    running.stays_used("q", &[("requests.cpu", "1")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_grace_runs_out_stops_counting_with_no_event() {
    let server = server();
    let mut deleted = pod("p", "1");
    let now = server.now();
    deleted["metadata"]["deletionTimestamp"] = now.to_string().into();
    deleted["metadata"]["deletionGracePeriodSeconds"] = 300.into();
    server.put_raw("pods", deleted);
    server
        .create(quota("q", json!({"pods": "5", "count/pods": "5"})))
        .unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("pods", "1"), ("count/pods", "1")]).await;
    sleep(Duration::from_secs(250)).await;
    let revision = server.get("pods", "a", "p").unwrap()["metadata"]["resourceVersion"].clone();
    running.until_used("q", &[("pods", "1"), ("count/pods", "1")]).await;
    running.until_used("q", &[("pods", "0"), ("count/pods", "1")]).await;
    let (elapsed, _) = (server.now().duration_since(now), ());
    assert!((300..=302).contains(&elapsed.as_secs()), "released after {elapsed:?}");
    assert_eq!(
        server.get("pods", "a", "p").unwrap()["metadata"]["resourceVersion"],
        revision,
        "there was an event"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_list_always_fails_leaves_the_other_names_updating() {
    for action in [
        Action::InternalError,
        Action::Forbidden,
        Action::Unavailable,
        Action::Hang,
        Action::Refuse,
    ] {
        let server = server();
        server.add_kind(Kind::new("example.com", "v1", "Widget", "widgets"));
        server
            .create(quota("q", json!({"pods": "5", "count/widgets.example.com": "5"})))
            .unwrap();
        server.create(widget("w")).unwrap();
        let broken = server.fault(Fault::new(action.clone()).verb("list").resource("widgets.example.com"));
        let running = start(&server, without_resync());
        let what = format!("{action:?}");
        running.until_used("q", &[("pods", "0")]).await;
        server.create(pod("p", "1")).unwrap();
        running.stays_used("q", &[("pods", "1")]).await;
        sleep(Duration::from_secs(60)).await;
        let report = running.readiness.report();
        assert!(running.readiness.is_ready(), "{what}: {}", report.brief());
        assert!(report.brief().contains("widgets"), "{what}: {}", report.brief());
        assert!(running.metric("kubequota_frozen_names 1"), "{what}");

        server.clear_fault(broken);
        let patience = Instant::now();
        while running.used("q").len() < 2 {
            assert!(patience.elapsed() < Duration::from_secs(200), "{what}: never recovered");
            sleep(Duration::from_secs(1)).await;
        }
        running
            .stays_used("q", &[("pods", "1"), ("count/widgets.example.com", "1")])
            .await;
        assert!(running.metric("kubequota_frozen_names 0"), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_broken_is_read_at_another() {
    let server = server();
    server.add_kind(Kind::new("example.com", "v2", "Widget", "widgets").version("v1"));
    server.create(widget("w")).unwrap();
    server.fault(
        Fault::new(Action::InternalError)
            .resource("widgets.example.com")
            .version("v2"),
    );
    server
        .create(quota("q", json!({"count/widgets.example.com": "5"})))
        .unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("count/widgets.example.com", "1")]).await;
    server.create(widget("w2")).unwrap();
    running.stays_used("q", &[("count/widgets.example.com", "2")]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_freezes_its_kind_in_its_namespace() {
    let server = server();
    server
        .create(quota("q", json!({"pods": "5", "count/configmaps": "5"})))
        .unwrap();
    server.create(pod("p1", "1")).unwrap();
    server.create(pod("p2", "1")).unwrap();
    let running = start(&server, without_resync());
    running
        .until_used("q", &[("pods", "2"), ("count/configmaps", "0")])
        .await;
    let mut broken = pod("p3", "1");
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "a lot".into();
    server.put_raw("pods", broken);
    server.create(config_map("c")).unwrap();
    running
        .stays_used("q", &[("pods", "2"), ("count/configmaps", "1")])
        .await;
    assert!(running.metric("kubequota_frozen_names 1"));
    assert!(running.metric("kubequota_invalid_objects{group=\"\",resource=\"pods\"} 1"));
    server.remove("pods", "a", "p1");
    running
        .stays_used("q", &[("pods", "1"), ("count/configmaps", "1")])
        .await;
    server.remove("pods", "a", "p3");
    server.create(pod("p4", "1")).unwrap();
    running
        .stays_used("q", &[("pods", "2"), ("count/configmaps", "1")])
        .await;
    assert!(running.metric("kubequota_frozen_names 0"));
}

#[tokio::test(start_paused = true)]
async fn writes_that_conflict_fail_or_are_not_answered_settle() {
    for action in [
        Action::Conflict,
        Action::InternalError,
        Action::Unavailable,
        Action::TooManyRequests(1),
        Action::LoseAnswer,
        Action::Refuse,
        Action::DelayAnswer(Duration::from_secs(20)),
        Action::Hang,
    ] {
        let server = server();
        server.create(quota("q", json!({"pods": "9"}))).unwrap();
        server.create(pod("p1", "1")).unwrap();
        server.fault(
            Fault::new(action.clone())
                .verb("patch")
                .resource("resourcequotas")
                .first(2),
        );
        let running = start(&server, without_resync());
        if matches!(action, Action::Conflict) {
            // A conflict says that something newer is on its way.
            sleep(Duration::from_secs(1)).await;
            server
                .modify("resourcequotas", "a", "q", |quota| {
                    quota["metadata"]["labels"] = json!({"n": "1"});
                })
                .unwrap();
            sleep(Duration::from_secs(1)).await;
            server
                .modify("resourcequotas", "a", "q", |quota| {
                    quota["metadata"]["labels"] = json!({"n": "2"});
                })
                .unwrap();
        }
        running.until_used("q", &[("pods", "1")]).await;
        server.create(pod("p2", "1")).unwrap();
        running.stays_used("q", &[("pods", "2")]).await;
        assert!(!running.task.is_finished(), "{action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_break_expire_or_fall_silent_lose_nothing() {
    for mode in [
        WatchMode::Dropped,
        WatchMode::Ended,
        WatchMode::Expired,
        WatchMode::Silent,
    ] {
        for resource in ["pods", "resourcequotas"] {
            let server = server();
            server.create(quota("q", json!({"pods": "9"}))).unwrap();
            server.create(pod("p1", "1")).unwrap();
            let running = start(&server, without_resync());
            running.until_used("q", &[("pods", "1")]).await;
            server.set_watches(resource, mode);
            server.create(pod("p2", "1")).unwrap();
            server.remove("pods", "a", "p1");
            server.create(pod("p3", "1")).unwrap();
            server
                .modify("resourcequotas", "a", "q", |quota| {
                    quota["spec"]["hard"] = json!({"pods": "9", "count/pods": "9"});
                })
                .unwrap();
            let began = Instant::now();
            while running.used("q").get("count/pods").is_none_or(|used| used != "2") || running.used("q")["pods"] != "2"
            {
                assert!(
                    began.elapsed() < Duration::from_secs(400),
                    "{mode:?} {resource}: {:?}",
                    running.used("q")
                );
                sleep(Duration::from_millis(500)).await;
            }
            running.stays_used("q", &[("pods", "2"), ("count/pods", "2")]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_waited_for() {
    let server = server();
    server.down();
    let running = start(&server, without_resync());
    sleep(Duration::from_secs(120)).await;
    assert!(!running.readiness.is_ready());
    assert!(
        running.readiness.report().brief().contains("quotas listed"),
        "{}",
        running.readiness.report().brief()
    );
    server.up();
    server.create(quota("q", json!({"pods": "9"}))).unwrap();
    server.create(pod("p1", "1")).unwrap();
    running.until_used("q", &[("pods", "1")]).await;
    assert!(running.readiness.is_ready());
    server.down();
    sleep(Duration::from_secs(300)).await;
    server.up();
    server.remove("pods", "a", "p1");
    running.stays_used("q", &[("pods", "0")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_charge_for_a_create_that_failed_is_given_back_after_the_grace() {
    let server = server();
    server.create(quota("q", json!({"pods": "9"}))).unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("pods", "0")]).await;
    // As the built-in plugin does before a create that then fails.
    server
        .modify("resourcequotas", "a", "q", |quota| {
            quota["status"]["used"]["pods"] = "3".into();
        })
        .unwrap();
    let charged = Instant::now();
    running.until_used("q", &[("pods", "0")]).await;
    let held = charged.elapsed();
    assert!(
        held >= Duration::from_secs(10) && held < Duration::from_secs(15),
        "held for {held:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_charge_is_kept_until_its_object_is_stored() {
    let server = server();
    server.create(quota("q", json!({"pods": "9"}))).unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("pods", "0")]).await;
    server.admitter(|server: TestServer, _| async move {
        server
            .modify("resourcequotas", "a", "q", |quota| {
                let used: u32 = quota["status"]["used"]["pods"].as_str().unwrap().parse().unwrap();
                quota["status"]["used"]["pods"] = (used + 1).to_string().into();
            })
            .unwrap();
        Decision::DelayStore(Duration::from_secs(5))
    });
    let client = kube::Client::new(server.router(), "a");
    let create = tokio::spawn(async move {
        let request = http_post("/api/v1/namespaces/a/pods", &pod("slow", "1"));
        client.request::<Value>(request).await.unwrap();
    });
    sleep(Duration::from_secs(1)).await;
    // Something else makes the controller write meanwhile.
    server
        .modify("resourcequotas", "a", "q", |quota| {
            quota["spec"]["hard"] = json!({"pods": "9", "count/pods": "9"});
        })
        .unwrap();
    running.until_used("q", &[("pods", "1"), ("count/pods", "0")]).await;
    create.await.unwrap();
    running.stays_used("q", &[("pods", "1"), ("count/pods", "1")]).await;
}

fn http_post(path: &str, body: &Value) -> http::Request<Vec<u8>> {
    http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(body).unwrap())
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn kinds_come_and_go() {
    let server = server();
    server
        .create(quota("q", json!({"count/widgets.example.com": "5"})))
        .unwrap();
    let running = start(&server, without_resync());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(running.used("q"), BTreeMap::new(), "nothing counts it yet");
    server
        .create(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true}]}}))
        .unwrap();
    let created = Instant::now();
    running.until_used("q", &[("count/widgets.example.com", "0")]).await;
    assert!(
        created.elapsed() < Duration::from_secs(10),
        "took {:?}",
        created.elapsed()
    );
    server.create(widget("w")).unwrap();
    running.until_used("q", &[("count/widgets.example.com", "1")]).await;
    server.set_group_health("example.com", GroupHealth::Stale);
    running.stays_used("q", &[("count/widgets.example.com", "1")]).await;
    server.set_group_health("example.com", GroupHealth::Current);
    server
        .delete(
            "customresourcedefinitions.apiextensions.k8s.io",
            "",
            "widgets.example.com",
        )
        .unwrap();
    running.stays_used("q", &[("count/widgets.example.com", "0")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_exports_and_writes_nothing() {
    let server = server();
    server.create(quota("q", json!({"pods": "9"}))).unwrap();
    server.create(pod("p1", "1")).unwrap();
    let running = start(
        &server,
        Options {
            dry_run: true,
            ..without_resync()
        },
    );
    sleep(Duration::from_secs(30)).await;
    assert!(
        running.metric("kubequota_dry_run_computed_used{namespace=\"a\",resourcequota=\"q\",resource=\"pods\"} 1.0")
    );
    assert_eq!(server.request_count("patch", "resourcequotas"), 0);
    assert_eq!(running.used("q"), BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_to_write_is_retried_and_nothing_else_stops() {
    let server = server();
    server.create(quota("q", json!({"pods": "9"}))).unwrap();
    let forbidden = server.fault(Fault::new(Action::Forbidden).verb("patch").resource("resourcequotas"));
    let running = start(&server, without_resync());
    sleep(Duration::from_secs(120)).await;
    let tries = server.request_count("patch", "resourcequotas");
    assert!((5..40).contains(&tries), "{tries} tries in two minutes");
    server.clear_fault(forbidden);
    running.until_used("q", &[("pods", "0")]).await;
}

#[tokio::test(start_paused = true)]
async fn someone_else_who_writes_is_noticed() {
    let server = server();
    server.create(quota("q", json!({"pods": "9"}))).unwrap();
    server.create(pod("p1", "1")).unwrap();
    let running = start(&server, without_resync());
    running.stays_used("q", &[("pods", "1")]).await;
    assert!(running.metric("kubequota_foreign_status_writes_total 0"));
    server
        .modify("resourcequotas", "a", "q", |quota| {
            quota["status"]["used"]["pods"] = "0".into();
        })
        .unwrap();
    running.stays_used("q", &[("pods", "1")]).await;
    assert!(running.metric("kubequota_foreign_status_writes_total 1"));
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_everything_in_order() {
    let server = server();
    server.create(quota("q", json!({"pods": "9"}))).unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("pods", "0")]).await;
    running.drain.wait(Duration::from_secs(5)).await.unwrap();
    assert!(running.task.await.unwrap(), "it was told to end");
}

#[tokio::test(start_paused = true)]
async fn the_periodic_recount_finds_nothing_to_correct() {
    let server = server();
    server
        .create(quota("q", json!({"pods": "9", "requests.cpu": "9"})))
        .unwrap();
    let running = start(
        &server,
        Options {
            sync_period: Duration::from_secs(60),
            ..Options::default()
        },
    );
    for round in 0..20 {
        server.create(pod(&format!("p{round}"), "100m")).unwrap();
        sleep(Duration::from_secs(30)).await;
    }
    running.until_used("q", &[("pods", "20"), ("requests.cpu", "2")]).await;
    assert!(running.metric("kubequota_recount_drift_total 0"));
}

impl Running {
    /// How often discovery has been asked.
    fn discoveries(&self) -> usize {
        self.server
            .requests()
            .iter()
            .filter(|request| request.path == "/apis")
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_is_not_asked_in_a_loop() {
    let server = server();
    server
        .create(quota(
            "q",
            json!({"pods": "9", "count/deployment.apps": "5", "count/nodes": "1"}),
        ))
        .unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("pods", "0")]).await;
    sleep(Duration::from_secs(10)).await;
    let before = running.discoveries();
    sleep(Duration::from_secs(300)).await;
    let asked = running.discoveries() - before;
    assert!(
        (9..=12).contains(&asked),
        "asked {asked} times in 5 minutes, for names that nothing counts"
    );

    for round in 0..10 {
        let name = format!("v{round}.example.com");
        server
            .create(
                json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}}),
            )
            .unwrap();
        sleep(Duration::from_millis(1100)).await;
    }
    sleep(Duration::from_secs(10)).await;
    let before = running.discoveries();
    sleep(Duration::from_secs(300)).await;
    let asked = running.discoveries() - before;
    assert!(
        (9..=12).contains(&asked),
        "asked {asked} times in 5 minutes after APIs had changed"
    );
}

#[tokio::test(start_paused = true)]
async fn quotas_made_one_after_the_other_can_be_used_at_once() {
    let server = server();
    server.create(config_map("c")).unwrap();
    let running = start(&server, without_resync());
    sleep(Duration::from_secs(5)).await;
    for name in ["q1", "q2", "q3", "q4"] {
        server.create(quota(name, json!({"configmaps": "5"}))).unwrap();
        let made = Instant::now();
        running.until_used(name, &[("configmaps", "1")]).await;
        assert!(
            made.elapsed() < Duration::from_millis(500),
            "{name} could be used after {:?}",
            made.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_to_write_is_told_until_it_is_granted() {
    let server = server();
    for name in ["q1", "q2"] {
        server.create(quota(name, json!({"pods": "9"}))).unwrap();
    }
    let forbidden = server.fault(Fault::new(Action::Forbidden).verb("patch").resource("resourcequotas"));
    let running = start(&server, without_resync());
    sleep(Duration::from_secs(30)).await;
    let report = running.readiness.report().brief();
    assert!(
        report.contains("status writes") && report.contains("2 quotas wait"),
        "{report}"
    );
    server.clear_fault(forbidden);
    running.until_used("q1", &[("pods", "0")]).await;
    running.until_used("q2", &[("pods", "0")]).await;
    let report = running.readiness.report().brief();
    assert!(!report.contains("status writes"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_everything_while_it_starts_is_asked_again_soon() {
    let server = server();
    server.create(quota("q", json!({"pods": "9"}))).unwrap();
    let running = start(&server, without_resync());
    running.until_used("q", &[("pods", "0")]).await;
    sleep(Duration::from_secs(60)).await;
    let refuses = server.fault(Fault::new(Action::Forbidden));
    server.set_watches("pods", WatchMode::Ended);
    server.set_watches("resourcequotas", WatchMode::Ended);
    sleep(Duration::from_secs(3)).await;
    server.clear_fault(refuses);
    server.create(pod("p", "1")).unwrap();
    let back = Instant::now();
    running.until_used("q", &[("pods", "1")]).await;
    assert!(back.elapsed() < Duration::from_secs(10), "it took {:?}", back.elapsed());
}
