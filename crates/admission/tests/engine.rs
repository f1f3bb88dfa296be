//! The judging engine beside an embedded API server, under paused time: what is let through, what is written, and what becomes of
//! conflicts, lost answers and late ones.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kubequota_admission::engine::{Engine, Parts};
use kubequota_cluster::{ApiResource, ClientOptions, Cluster, Monitor, MonitorHandle, MonitorOptions, QuotaCache};
use kubequota_core::decision::{LimitedResource, LimitedResources};
use kubequota_core::evaluator::GroupResource;
use kubequota_shell::{AdmissionMetrics, Drain, Registry};
use kubequota_testserver::{Action, Fault, TestServer, WatchMode};
use kubequota_wire::json::Quotas;
use kubequota_wire::review::{Answer, Review};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const TIMEOUT: Duration = Duration::from_secs(9);

/// One replica.
struct Replica {
    engine: Arc<Engine>,
    registry: Registry,
    drain: Drain,
    _monitor: MonitorHandle,
}

impl Replica {
    async fn start(server: &TestServer) -> Self {
        Self::start_limited(server, LimitedResources::default()).await
    }

    async fn start_limited(server: &TestServer, limited: LimitedResources) -> Self {
        let options = ClientOptions {
            qps: 0.0,
            ..ClientOptions::default()
        };
        let cluster = Cluster::from_client(kube::Client::new(server.router(), "default"), &options);
        let quotas = QuotaCache::new();
        let monitor = Monitor::new(
            cluster.clone(),
            &ApiResource::resource_quotas().into(),
            None,
            Quotas,
            MonitorOptions::default(),
        );
        let monitor = monitor.spawn(quotas.sink());
        quotas.synced().wait_for(|synced| *synced).await.unwrap();
        let (registry, drain) = (Registry::new(), Drain::new());
        let engine = Engine::new(Parts {
            cluster,
            quotas,
            limited,
            metrics: AdmissionMetrics::register(&registry),
            drain: drain.clone(),
        });
        Replica {
            engine,
            registry,
            drain,
            _monitor: monitor,
        }
    }

    async fn ask(&self, request: &Value) -> Answer {
        let body =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string();
        let review = Review::read(body.as_bytes()).unwrap();
        self.engine.review(&review, Instant::now() + TIMEOUT).await
    }

    /// The sum of a metric's lines.
    fn metric(&self, line: &str) -> f64 {
        let text = self
            .registry
            .encode(kubequota_shell::metrics::TextFormat::Prometheus)
            .unwrap();
        let values = text
            .lines()
            .filter_map(|found| found.strip_prefix(line)?.split(' ').next_back()?.parse::<f64>().ok());
        values.sum()
    }
}

fn create(pod: &str, cpu: &str) -> Value {
    json!({
        "uid": format!("review of {pod}"),
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": pod, "namespace": "a", "operation": "CREATE", "dryRun": false,
        "object": pod_object(pod, cpu),
    })
}

fn pod_object(pod: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": pod, "namespace": "a", "uid": format!("uid of {pod}"), "resourceVersion": ""},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

/// A quota that has been synced.
fn add_quota(server: &TestServer, name: &str, hard: &Value, used: &Value) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "a", "name": name},
        "spec": {"hard": hard}, "status": {"hard": hard, "used": used},
    });
    server.create(quota).unwrap();
}

fn used(server: &TestServer, quota: &str) -> Value {
    server.get("resourcequotas", "a", quota).unwrap()["status"]["used"].clone()
}

fn outcome(answer: &Answer) -> u16 {
    answer.refusal.as_ref().map_or(200, |refused| refused.code)
}

fn of_pods(hard: &str, used: &str) -> TestServer {
    let server = TestServer::new();
    add_quota(&server, "q", &json!({"pods": hard}), &json!({"pods": used}));
    server
}

#[tokio::test(start_paused = true)]
async fn what_fits_is_charged_and_what_does_not_is_refused_in_upstreams_words() {
    let server = TestServer::new();
    add_quota(
        &server,
        "q",
        &json!({"pods": "2", "requests.cpu": "1"}),
        &json!({"pods": "0", "requests.cpu": "0"}),
    );
    let replica = Replica::start(&server).await;
    let allowed = replica.ask(&create("p", "600m")).await;
    assert_eq!(allowed.refusal, None);
    assert_eq!(allowed.audit_annotations["charged"], "q: pods=1,requests.cpu=600m");
    assert_eq!(used(&server, "q"), json!({"pods": "1", "requests.cpu": "600m"}));

    let answer = replica.ask(&create("r", "600m")).await;
    let refused = answer.refusal.unwrap();
    let message = "pods \"r\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, \
                   limited: requests.cpu=1";
    assert_eq!(
        (refused.code, refused.reason, refused.message.as_str()),
        (403, "Forbidden", message)
    );
    assert_eq!(
        (refused.name.as_str(), refused.kind.to_string()),
        ("r", "pods".to_owned())
    );
    let annotations: Vec<(&str, &str)> = answer
        .audit_annotations
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        annotations,
        [
            ("limited", "requests.cpu=1"),
            ("quota", "q"),
            ("requested", "requests.cpu=600m"),
            ("used", "requests.cpu=600m"),
        ]
    );
    let verdicts = |verdict: &str| {
        replica.metric(&format!(
            "kubequota_admission_decisions_total{{group=\"\",resource=\"pods\",verdict=\"{verdict}\"}}"
        ))
    };
    assert_eq!((verdicts("allowed"), verdicts("refused")), (1.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn what_quotas_have_no_say_in_passes_and_writes_nothing() {
    let server = of_pods("1", "1");
    let replica = Replica::start(&server).await;
    server.clear_requests();
    let change = |field: &str, value: Value| {
        let mut request = create("p", "1");
        request[field] = value;
        request
    };
    let resource = |group: &str, resource: &str| json!({"group": group, "version": "v1", "resource": resource});
    for request in [
        change("namespace", "other".into()),
        change("namespace", "".into()),
        change("operation", "DELETE".into()),
        change("resource", resource("", "events")),
        change("resource", resource("", "namespaces")),
        change("resource", resource("apps", "deployments")),
        change("subResource", "binding".into()),
    ] {
        assert_eq!(replica.ask(&request).await, Answer::default(), "{request}");
    }
    assert_eq!(server.requests(), []);
    assert_eq!(outcome(&replica.ask(&create("p", "1")).await), 403);
}

#[tokio::test(start_paused = true)]
async fn many_requests_share_a_write() {
    let server = of_pods("20", "0");
    let replica = Replica::start(&server).await;
    server.clear_requests();
    server.fault(Fault::new(Action::Delay(Duration::from_millis(5))).verb("patch"));
    let requests: Vec<Value> = (0..50).map(|n| create(&format!("p{n}"), "1")).collect();
    let answers = join_all(requests.iter().map(|request| replica.ask(request))).await;
    let allowed = answers.iter().filter(|answer| outcome(answer) == 200).count();
    let refused = answers.iter().filter(|answer| outcome(answer) == 403).count();
    assert_eq!((allowed, refused), (20, 30));
    assert_eq!(used(&server, "q"), json!({"pods": "20"}));
    assert_eq!(server.request_count("patch", "resourcequotas"), 1);
    assert_eq!(
        server.request_count("list", "resourcequotas"),
        0,
        "a write that landed proves the rest"
    );
    assert_eq!(replica.metric("kubequota_admission_batch_size_sum"), 50.0);
}

/// Two replicas and someone who deletes: what is charged is what was let through.
#[tokio::test(start_paused = true)]
async fn replicas_never_let_more_through_than_fits() {
    for seed in 0..20 {
        let server = TestServer::builder().seed(seed).build();
        add_quota(&server, "q", &json!({"pods": "30"}), &json!({"pods": "0"}));
        add_quota(
            &server,
            "r",
            &json!({"requests.cpu": "40"}),
            &json!({"requests.cpu": "0"}),
        );
        let replicas = [Replica::start(&server).await, Replica::start(&server).await];
        server.fault(Fault::new(Action::Delay(Duration::from_millis(3))).chance(0.5));
        server.fault(Fault::new(Action::DelayAnswer(Duration::from_millis(4))).chance(0.3));
        server.fault(Fault::new(Action::LagWatch(Duration::from_millis(20))).resource("resourcequotas"));
        let mut clients = Vec::new();
        for client in 0..32 {
            let (replica, server) = (&replicas[client % 2], &server);
            clients.push(async move {
                let mut held = 0;
                for turn in 0..6 {
                    let cpu = 1 + (client + turn) % 2;
                    let answer = replica
                        .ask(&create(&format!("p{client}-{turn}"), &cpu.to_string()))
                        .await;
                    match outcome(&answer) {
                        200 => held += cpu,
                        403 => {}
                        other => panic!("{other}: {answer:?}"),
                    }
                    sleep(Duration::from_millis(7)).await;
                }
                let _ = server;
                held
            });
        }
        let cpu: usize = join_all(clients).await.into_iter().sum();
        for replica in &replicas {
            replica.drain.wait(TIMEOUT).await.unwrap();
        }
        assert!(cpu <= 40, "{cpu}");
        assert_eq!(
            used(&server, "r"),
            json!({"requests.cpu": cpu.to_string()}),
            "seed {seed}"
        );
        let pods: usize = used(&server, "q")["pods"].as_str().unwrap().parse().unwrap();
        assert!(pods <= 30 && pods * 2 >= cpu, "seed {seed}: {pods} pods, {cpu} cpu");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_judged_again_on_what_is_there() {
    let server = of_pods("5", "3");
    let replica = Replica::start(&server).await;
    server.set_watches("resourcequotas", WatchMode::Silent);
    let set = |pods: &str| {
        let status = json!({"hard": {"pods": "5"}, "used": {"pods": pods}});
        server.apply_status("resourcequotas", "a", "q", status).unwrap();
    };
    set("4");
    assert_eq!(outcome(&replica.ask(&create("p", "1")).await), 200);
    assert_eq!(used(&server, "q"), json!({"pods": "5"}));
    assert_eq!(replica.metric("kubequota_admission_write_conflicts_total"), 1.0);
    // What is known says that it is full, and is no proof: it was another who filled it.
    set("2");
    assert_eq!(
        outcome(&replica.ask(&create("r", "1")).await),
        403,
        "the last write was its own"
    );
    let stale = of_pods("5", "5");
    let replica = Replica::start(&stale).await;
    stale.set_watches("resourcequotas", WatchMode::Silent);
    let status = json!({"hard": {"pods": "5"}, "used": {"pods": "2"}});
    stale.apply_status("resourcequotas", "a", "q", status).unwrap();
    assert_eq!(outcome(&replica.ask(&create("p", "1")).await), 200);
    assert_eq!(used(&stale, "q"), json!({"pods": "3"}));
}

#[tokio::test(start_paused = true)]
async fn several_quotas_are_all_charged_or_none() {
    let server = of_pods("5", "0");
    add_quota(&server, "r", &json!({"pods": "5"}), &json!({"pods": "0"}));
    let replica = Replica::start(&server).await;
    let conflict = server.fault(Fault::new(Action::Conflict).verb("patch").name("r"));
    let began = Instant::now();
    let answer = replica.ask(&create("p", "1")).await;
    assert_eq!(outcome(&answer), 429);
    assert!(began.elapsed() <= TIMEOUT + Duration::from_millis(1));
    let refused = answer.refusal.unwrap();
    assert_eq!((refused.reason, refused.retry_after_seconds), ("TooManyRequests", 1));
    replica.drain.wait(TIMEOUT).await.unwrap();
    assert_eq!(
        (used(&server, "q"), used(&server, "r")),
        (json!({"pods": "0"}), json!({"pods": "0"}))
    );
    assert_eq!(replica.metric("kubequota_admission_compensations_total"), 1.0);
    assert!(server.faults_struck(conflict) > 3);
    assert!(
        server.request_count("patch", "resourcequotas") < 200,
        "it does not ask without end: {}",
        server.request_count("patch", "resourcequotas")
    );
}

/// Who can't be charged by one quota is not charged by those after it: what is charged in vain is held against the namespace for a while.
#[tokio::test(start_paused = true)]
async fn a_quota_that_can_not_be_written_has_nothing_charged_elsewhere() {
    let server = of_pods("5", "0");
    add_quota(
        &server,
        "r",
        &json!({"pods": "5", "configmaps": "5"}),
        &json!({"pods": "0", "configmaps": "0"}),
    );
    let replica = Replica::start(&server).await;
    server.fault(Fault::new(Action::Conflict).verb("patch").name("q"));
    let mut other = create("c", "1");
    other["resource"]["resource"] = "configmaps".into();
    let (pod, configmap) = (create("p", "1"), other);
    let (pod, configmap) = tokio::join!(replica.ask(&pod), replica.ask(&configmap));
    assert_eq!((outcome(&pod), outcome(&configmap)), (429, 200));
    replica.drain.wait(TIMEOUT).await.unwrap();
    assert_eq!(used(&server, "q"), json!({"pods": "0"}));
    assert_eq!(used(&server, "r"), json!({"pods": "0", "configmaps": "1"}));
    assert_eq!(replica.metric("kubequota_admission_compensations_total"), 0.0);
}

/// Two replicas, two quotas, room for one: one gets it, and neither charges in vain.
#[tokio::test(start_paused = true)]
async fn one_of_two_gets_the_last_place() {
    for seed in 0..50 {
        let server = TestServer::builder().seed(seed).build();
        for quota in ["q", "r"] {
            add_quota(&server, quota, &json!({"pods": "1"}), &json!({"pods": "0"}));
        }
        let replicas = [Replica::start(&server).await, Replica::start(&server).await];
        server.fault(Fault::new(Action::Delay(Duration::from_millis(3))).chance(0.5));
        server.fault(Fault::new(Action::DelayAnswer(Duration::from_millis(4))).chance(0.5));
        let requests = [create("a", "1"), create("b", "1")];
        let answers = tokio::join!(replicas[0].ask(&requests[0]), replicas[1].ask(&requests[1]));
        let mut outcomes = [outcome(&answers.0), outcome(&answers.1)];
        outcomes.sort_unstable();
        assert_eq!(outcomes, [200, 403], "seed {seed}");
        for replica in &replicas {
            replica.drain.wait(TIMEOUT).await.unwrap();
            let compensations = replica.metric("kubequota_admission_compensations_total");
            assert_eq!(compensations, 0.0, "seed {seed}");
        }
        assert_eq!(
            (used(&server, "q"), used(&server, "r")),
            (json!({"pods": "1"}), json!({"pods": "1"}))
        );
    }
}

/// The second quota is full, which only a live read can tell: the first gets back what it was charged.
#[tokio::test(start_paused = true)]
async fn what_was_charged_before_a_refusal_is_given_back() {
    let server = of_pods("5", "0");
    add_quota(&server, "r", &json!({"pods": "5"}), &json!({"pods": "4"}));
    let replica = Replica::start(&server).await;
    server.set_watches("resourcequotas", WatchMode::Silent);
    let status = json!({"hard": {"pods": "5"}, "used": {"pods": "5"}});
    server.apply_status("resourcequotas", "a", "r", status).unwrap();
    let answer = replica.ask(&create("p", "1")).await;
    assert_eq!(outcome(&answer), 403);
    replica.drain.wait(TIMEOUT).await.unwrap();
    assert_eq!(
        (used(&server, "q"), used(&server, "r")),
        (json!({"pods": "0"}), json!({"pods": "5"}))
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_again_until_time_is_up() {
    for (action, times, code) in [
        (Action::InternalError, 3, 200),
        (Action::Unavailable, 3, 200),
        (Action::TooManyRequests(1), 3, 200),
        (Action::Refuse, 3, 200),
        (Action::Forbidden, u64::MAX, 429),
        (Action::InternalError, u64::MAX, 429),
        (Action::Hang, u64::MAX, 429),
    ] {
        let server = of_pods("5", "0");
        let replica = Replica::start(&server).await;
        let fault = server.fault(Fault::new(action.clone()).verb("patch").first(times));
        let began = Instant::now();
        let answer = replica.ask(&create("p", "1")).await;
        assert_eq!(outcome(&answer), code, "{action:?}: {answer:?}");
        assert!(
            began.elapsed() <= TIMEOUT + Duration::from_millis(1),
            "{action:?}: {:?}",
            began.elapsed()
        );
        assert!(
            server.faults_struck(fault) <= 60,
            "{action:?}: {}",
            server.faults_struck(fault)
        );
        let expected = if code == 200 { "1" } else { "0" };
        assert_eq!(used(&server, "q"), json!({"pods": expected}), "{action:?}");
    }
}

/// The quota itself tells whether a write has landed whose answer was lost.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_charges_once() {
    for lost in [1, 2, 5] {
        let server = of_pods("9", "0");
        let replica = Replica::start(&server).await;
        server.fault(Fault::new(Action::LoseAnswer).verb("patch").first(lost));
        let requests: Vec<Value> = (0..4).map(|index| create(&format!("p{index}"), "1")).collect();
        let answers = join_all(requests.iter().map(|request| replica.ask(request))).await;
        assert!(answers.iter().all(|answer| outcome(answer) == 200), "{answers:?}");
        assert_eq!(used(&server, "q"), json!({"pods": "4"}), "{lost} answers were lost");
    }
}

/// A write that takes longer than anyone waits: it may land after it was looked for, and is then found all the same.
#[tokio::test(start_paused = true)]
async fn a_write_that_lands_late_charges_once() {
    for late in [
        Action::Delay(Duration::from_secs(6)),
        Action::DelayAnswer(Duration::from_secs(6)),
    ] {
        let server = of_pods("5", "0");
        let replica = Replica::start(&server).await;
        server.fault(Fault::new(late.clone()).verb("patch").once());
        let answer = replica.ask(&create("p", "1")).await;
        assert_eq!(outcome(&answer), 200, "{late:?}: {answer:?}");
        replica.drain.wait(TIMEOUT).await.unwrap();
        assert_eq!(used(&server, "q"), json!({"pods": "1"}), "{late:?}");
    }
}

/// A write that takes a charge away and is not answered: whoever it was of is not let through by what was written before.
#[tokio::test(start_paused = true)]
async fn nobody_passes_by_a_charge_that_is_in_doubt() {
    for in_doubt in [
        Action::LoseAnswer,
        Action::InternalError,
        Action::DelayAnswer(Duration::from_secs(6)),
        Action::Hang,
    ] {
        let server = TestServer::new();
        let cpu = |value: &str| json!({"requests.cpu": value});
        add_quota(&server, "q", &cpu("10"), &cpu("0"));
        add_quota(&server, "r", &cpu("2"), &cpu("1"));
        let lag = Action::LagWatch(Duration::from_secs(60));
        server.fault(Fault::new(lag).verb("watch").resource("resourcequotas"));
        let replica = Replica::start(&server).await;
        // By what is known only the second fits; by what is there, only the first.
        let now = json!({"hard": cpu("2"), "used": cpu("0")});
        server.apply_status("resourcequotas", "a", "r", now).unwrap();
        let fault = Fault::new(in_doubt.clone()).verb("patch").name("q");
        let fault = server.fault(fault.after(1));
        let (large, small) = (create("large", "2"), create("small", "1"));
        let cleared = async {
            sleep(Duration::from_millis(50)).await;
            server.clear_fault(fault);
        };
        let (large, small, ()) = tokio::join!(replica.ask(&large), replica.ask(&small), cleared);
        assert_eq!((outcome(&large), outcome(&small)), (200, 403), "{in_doubt:?}");
        replica.drain.wait(Duration::from_secs(20)).await.unwrap();
        assert_eq!(
            (used(&server, "q"), used(&server, "r")),
            (cpu("2"), cpu("2")),
            "{in_doubt:?}"
        );
    }
}

/// A write that never arrived keeps nobody waiting, even where whoever it was for has hung up.
#[tokio::test(start_paused = true)]
async fn a_write_in_doubt_is_settled_at_once() {
    let server = of_pods("5", "0");
    let replica = Replica::start(&server).await;
    server.fault(Fault::new(Action::Hang).verb("patch").once());
    let request = create("p", "1");
    let gone = tokio::time::timeout(Duration::from_millis(100), replica.ask(&request)).await;
    assert!(gone.is_err());
    sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    assert_eq!(outcome(&replica.ask(&create("r", "1")).await), 200);
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    replica.drain.wait(TIMEOUT).await.unwrap();
    assert_eq!(used(&server, "q"), json!({"pods": "1"}));
    assert_eq!(replica.metric("kubequota_admission_left_charged_total"), 0.0);
}

/// Where the verdict came too late what was charged is given back, however many answers were lost on the way.
#[tokio::test(start_paused = true)]
async fn lost_answers_until_time_is_up_leave_no_charge() {
    let server = of_pods("5", "0");
    let replica = Replica::start(&server).await;
    let lost = server.fault(Fault::new(Action::LoseAnswer).verb("patch"));
    let unread = server.fault(
        Fault::new(Action::InternalError)
            .verb("list")
            .resource("resourcequotas"),
    );
    let ended = sleep(TIMEOUT + Duration::from_secs(1));
    let (answer, ()) = tokio::join!(async { replica.ask(&create("p", "1")).await }, async {
        ended.await;
        server.clear_fault(lost);
        server.clear_fault(unread);
    });
    assert_eq!(outcome(&answer), 429);
    replica.drain.wait(Duration::from_secs(20)).await.unwrap();
    assert_eq!(used(&server, "q"), json!({"pods": "0"}));
}

#[tokio::test(start_paused = true)]
async fn who_hangs_up_is_not_charged() {
    let server = of_pods("5", "0");
    let replica = Replica::start(&server).await;
    server.fault(
        Fault::new(Action::DelayAnswer(Duration::from_millis(300)))
            .verb("patch")
            .once(),
    );
    let request = create("p", "1");
    let gone = tokio::time::timeout(Duration::from_millis(100), replica.ask(&request)).await;
    assert!(gone.is_err());
    replica.drain.wait(TIMEOUT).await.unwrap();
    assert_eq!(used(&server, "q"), json!({"pods": "0"}));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_judged_and_charged_nothing() {
    let server = of_pods("5", "4");
    let replica = Replica::start(&server).await;
    let mut request = create("p", "1");
    request["dryRun"] = true.into();
    assert_eq!(outcome(&replica.ask(&request).await), 200);
    assert_eq!(used(&server, "q"), json!({"pods": "4"}));
    assert_eq!(outcome(&replica.ask(&create("r", "1")).await), 200);
    assert_eq!(outcome(&replica.ask(&request).await), 403);
}

#[tokio::test(start_paused = true)]
async fn an_update_is_charged_what_it_grows_by() {
    let server = TestServer::new();
    add_quota(
        &server,
        "q",
        &json!({"requests.cpu": "3"}),
        &json!({"requests.cpu": "1"}),
    );
    let replica = Replica::start(&server).await;
    let resize = |from: &str, to: &str| {
        let mut request = create("p", to);
        request["operation"] = "UPDATE".into();
        request["subResource"] = "resize".into();
        let mut old = pod_object("p", from);
        old["metadata"]["resourceVersion"] = "7".into();
        request["object"]["metadata"]["resourceVersion"] = "7".into();
        request["oldObject"] = old;
        request
    };
    assert_eq!(outcome(&replica.ask(&resize("1", "2500m")).await), 200);
    assert_eq!(used(&server, "q"), json!({"requests.cpu": "2500m"}));
    assert_eq!(outcome(&replica.ask(&resize("2500m", "4")).await), 403);
    assert_eq!(outcome(&replica.ask(&resize("2500m", "1")).await), 200);
    assert_eq!(
        used(&server, "q"),
        json!({"requests.cpu": "2500m"}),
        "lowering is the controller's"
    );
}

#[tokio::test(start_paused = true)]
async fn limited_resources_must_be_covered() {
    let server = TestServer::new();
    let limited = LimitedResources::new(vec![LimitedResource {
        kind: GroupResource::core("pods"),
        match_contains: vec!["cpu".to_owned()],
        match_scopes: Vec::new(),
    }]);
    let replica = Replica::start_limited(&server, limited.unwrap()).await;
    let answer = replica.ask(&create("p", "1")).await;
    let message = answer.refusal.unwrap().message;
    assert_eq!(
        message,
        "pods \"p\" is forbidden: insufficient quota to consume: cpu,requests.cpu"
    );
    add_quota(
        &server,
        "q",
        &json!({"cpu": "3", "requests.cpu": "3"}),
        &json!({"cpu": "0", "requests.cpu": "0"}),
    );
    assert_eq!(
        outcome(&replica.ask(&create("p", "1")).await),
        200,
        "the live read knows of the quota"
    );
    assert_eq!(used(&server, "q"), json!({"cpu": "1", "requests.cpu": "1"}));
}

/// A quota or an object that can't be read lets nothing through by itself.
#[tokio::test(start_paused = true)]
async fn doubt_refuses() {
    let server = of_pods("5", "0");
    let replica = Replica::start(&server).await;
    let mut request = create("p", "1");
    request["object"]["spec"]["containers"] = 5.into();
    let answer = replica.ask(&request).await;
    let message = answer.refusal.unwrap().message;
    assert!(
        message.starts_with("pods \"p\" is forbidden: the object can't be counted: spec.containers: "),
        "{message}"
    );
    server.put_raw(
        "resourcequotas",
        json!({"metadata": {"namespace": "a", "name": "r"}, "spec": 5}),
    );
    sleep(Duration::from_secs(1)).await;
    let answer = replica.ask(&create("p", "1")).await;
    assert_eq!(outcome(&answer), 429);
    let message = answer.refusal.unwrap().message;
    assert!(message.contains("quota r can't be read: spec: "), "{message}");
}
