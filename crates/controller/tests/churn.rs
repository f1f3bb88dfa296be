//! An hour of a busy cluster under paused time: who admits raises first, fails now and then, and stores late; watches lag and break, answers
//! are lost. No quota is ever exceeded by what is stored, and when it goes quiet `used` is what the objects come to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::sync::Arc;
use std::time::Duration;

use kubequota_cluster::{ClientOptions, Cluster};
use kubequota_controller::Options;
use kubequota_core::inventory::Inventory;
use kubequota_core::registry::KindId;
use kubequota_core::usage::recount;
use kubequota_core::{Charge, Context, GroupResource, Quota, ResourceList};
use kubequota_shell::metrics::TextFormat;
use kubequota_shell::{Drain, Metrics, Shell};
use kubequota_testserver::{Action, Fault, Kind, QuotaPlugin, TestServer};
use kubequota_wire::json::{Quotas, Shape};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const HOUR: Duration = Duration::from_secs(3600);

/// How often the stored objects are recounted meanwhile.
const CHECK: Duration = Duration::from_secs(10);

/// No admitted object is stored later than this after its charge: less than `--admission-grace`.
const LATEST: Duration = Duration::from_secs(8);

/// `--admission-grace` and 5 s: so long after the last write `used` is exact.
const QUIET: Duration = Duration::from_secs(15);

/// The kinds that quotas here name, and the paths they are made at.
const KINDS: [(&str, &str); 6] = [
    ("pods", "api/v1"),
    ("services", "api/v1"),
    ("persistentvolumeclaims", "api/v1"),
    ("configmaps", "api/v1"),
    ("secrets", "api/v1"),
    ("widgets.example.com", "apis/example.com/v1"),
];

/// SplitMix64, so that a seed is one history.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let index = self.below(u64::try_from(from.len()).ok()?.max(1));
        from.get(usize::try_from(index).ok()?)
    }

    fn millis(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}

/// What became of the requests.
#[derive(Debug, Default)]
struct Tally {
    stored: u32,
    refused: u32,
    failed: u32,
    taken: u32,
    conflicts: u32,
    other: Vec<String>,
}

/// The quotas, by namespace: compute, storage, object counts, scopes.
fn quotas() -> Vec<Value> {
    let quota = |namespace: &str, name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": namespace, "name": name}, "spec": spec});
    let high = json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    vec![
        quota(
            "a",
            "compute",
            json!({"hard": {"pods": "10", "requests.cpu": "5", "limits.memory": "6Gi", "count/pods": "14"}}),
        ),
        quota(
            "a",
            "objects",
            json!({"hard": {"configmaps": "6", "services": "4", "services.nodeports": "6", "count/widgets.example.com": "5"}}),
        ),
        quota(
            "b",
            "batch",
            json!({"hard": {"pods": "5", "requests.cpu": "3"}, "scopes": ["Terminating"]}),
        ),
        quota(
            "b",
            "long-running",
            json!({"hard": {"pods": "6"}, "scopes": ["NotTerminating"]}),
        ),
        quota("b", "high", json!({"hard": {"pods": "3"}, "scopeSelector": high})),
        quota(
            "b",
            "storage",
            json!({"hard": {"persistentvolumeclaims": "6", "requests.storage": "60Gi",
                "gold.storageclass.storage.k8s.io/requests.storage": "25Gi"}}),
        ),
        quota(
            "c",
            "best-effort",
            json!({"hard": {"pods": "4"}, "scopes": ["BestEffort"]}),
        ),
        quota(
            "c",
            "all",
            json!({"hard": {"count/pods": "9", "pods": "7", "secrets": "5", "services": "3"}}),
        ),
    ]
}

/// A new object of some kind.
fn object(random: &mut Random) -> (&'static str, &'static str, Value) {
    let (kind, path) = match random.below(10) {
        0..5 => KINDS[0],
        5 => KINDS[1],
        6 => KINDS[2],
        7 => KINDS[3],
        8 => KINDS[4],
        _ => KINDS[5],
    };
    // A name that may be taken: who admits has charged for it all the same.
    let name = match random.below(8) {
        0 => json!({"name": format!("taken-{}", random.below(3))}),
        _ => json!({"generateName": "x-"}),
    };
    let mut object = json!({"metadata": name});
    match kind {
        "pods" => {
            let amount = 100 * (1 + random.below(12));
            let resources = json!({"requests": {"cpu": format!("{amount}m")}, "limits": {"memory": format!("{amount}Mi"), "cpu": "2"}});
            object["spec"] = json!({"containers": [{"name": "c", "resources": resources}]});
            match random.below(6) {
                0 | 1 => object["spec"]["activeDeadlineSeconds"] = 600.into(),
                2 => object["spec"]["priorityClassName"] = "high".into(),
                3 => object["spec"]["containers"] = json!([{"name": "c"}]),
                _ => {}
            }
            if random.below(2) == 0 {
                object["spec"]["nodeName"] = "n".into();
            }
        }
        "services" => object["spec"] = service(random),
        "persistentvolumeclaims" => {
            let class = *random.pick(&["gold", "iron"]).unwrap();
            object["spec"] =
                json!({"storageClassName": class, "resources": {"requests": {"storage": gibibytes(random)}}});
        }
        "widgets.example.com" => {
            object["apiVersion"] = "example.com/v1".into();
            object["kind"] = "Widget".into();
        }
        _ => {}
    }
    (kind, path, object)
}

fn service(random: &mut Random) -> Value {
    let ports: Vec<Value> = (0..=random.below(3)).map(|port| json!({"port": 80 + port})).collect();
    let kind = *random.pick(&["ClusterIP", "NodePort"]).unwrap();
    json!({"type": kind, "ports": ports})
}

fn gibibytes(random: &mut Random) -> String {
    format!("{}Gi", 1 + random.below(12))
}

/// A cluster, its users and its kubelets.
struct Churn {
    server: TestServer,
    client: kube::Client,
    random: Random,
    tally: Arc<Mutex<Tally>>,
    tasks: JoinSet<()>,
}

impl Churn {
    /// Sends a request and notes what became of it.
    fn send(&mut self, method: &str, path: String, body: &Value) {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(
                "content-type",
                if method == "PATCH" {
                    "application/merge-patch+json"
                } else {
                    "application/json"
                },
            )
            .body(serde_json::to_vec(body).unwrap())
            .unwrap();
        let (client, tally) = (self.client.clone(), self.tally.clone());
        self.tasks.spawn(async move {
            let answer = client.request::<Value>(request).await;
            let mut tally = tally.lock();
            match answer {
                Ok(_) => tally.stored += 1,
                Err(kube::Error::Api(status)) => match (status.code, status.reason.as_str()) {
                    (403, _) => tally.refused += 1,
                    (500, _) => tally.failed += 1,
                    (409, "AlreadyExists") => tally.taken += 1,
                    (409, _) => tally.conflicts += 1,
                    // It was deleted meanwhile.
                    (404, _) => {}
                    _ => tally.other.push(status.message.clone()),
                },
                Err(error) => tally.other.push(error.to_string()),
            }
        });
    }

    /// Somebody does something.
    fn step(&mut self) {
        let namespace = *self.random.pick(&["a", "b", "c"]).unwrap();
        match self.random.below(20) {
            0..11 => {
                let (kind, path, object) = object(&mut self.random);
                let plural = kind.split('.').next().unwrap_or_default();
                self.send("POST", format!("/{path}/namespaces/{namespace}/{plural}"), &object);
            }
            11..16 => {
                let (kind, _) = *self.random.pick(&KINDS).unwrap();
                if let Some(name) = self.any(kind, namespace) {
                    self.delete(kind, namespace, &name);
                }
            }
            // A kubelet says that a pod has ended.
            16 | 17 => {
                if let Some(name) = self.any("pods", namespace) {
                    let phase = *self.random.pick(&["Succeeded", "Failed"]).unwrap();
                    let _ = self
                        .server
                        .apply_status("pods", namespace, &name, json!({"phase": phase}));
                }
            }
            18 => {
                if let Some(name) = self.any("services", namespace) {
                    let spec = service(&mut self.random);
                    let path = format!("/api/v1/namespaces/{namespace}/services/{name}");
                    self.send("PATCH", path, &json!({"spec": spec}));
                }
            }
            _ => {
                if let Some(name) = self.any("persistentvolumeclaims", namespace) {
                    let storage = gibibytes(&mut self.random);
                    let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
                    self.send(
                        "PATCH",
                        path,
                        &json!({"spec": {"resources": {"requests": {"storage": storage}}}}),
                    );
                }
            }
        }
    }

    fn any(&mut self, kind: &str, namespace: &str) -> Option<String> {
        let objects = self.server.list(kind, namespace);
        let chosen = self.random.pick(&objects)?;
        Some(chosen["metadata"]["name"].as_str().unwrap().to_owned())
    }

    /// Deletes; a pod on a node goes when its kubelet says so, often long after its grace.
    fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        let deleted = self.server.delete(kind, namespace, name).unwrap();
        if kind == "pods" && deleted["spec"]["nodeName"].is_string() {
            let (server, after) = (self.server.clone(), self.random.millis(60_000));
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            self.tasks.spawn(async move {
                sleep(after).await;
                server.remove("pods", &namespace, &name);
            });
        }
    }
}

/// The quotas as they are stored, each with what the stored objects come to by its names.
fn recounted(server: &TestServer) -> Vec<(Quota, ResourceList)> {
    let mut inventory = Inventory::new();
    let kinds = KINDS.map(|(kind, _)| {
        (
            kind,
            inventory.registry_mut().ensure(&GroupResource::parse(kind)).unwrap(),
        )
    });
    let context = Context {
        now: server.now(),
        lookups: &inventory.lookups(),
    };
    let mut answer = Vec::new();
    for namespace in ["a", "b", "c"] {
        let mut charges: Vec<(KindId, Charge)> = Vec::new();
        for (kind, id) in kinds {
            let evaluator = inventory.registry().evaluator(id);
            for object in server.list(kind, namespace) {
                let object = evaluator.view_kind().read(object.to_string().as_str()).unwrap();
                let charge = evaluator.assess(&object.metadata, &object.view.unwrap(), &context);
                charges.push((id, charge.unwrap().charge));
            }
        }
        for quota in server.list("resourcequotas", namespace) {
            let quota = Quotas.read(quota.to_string().as_str()).unwrap().1.unwrap();
            let feed = inventory.feed(quota.spec.hard.names(), |kind| kinds.iter().any(|(_, id)| *id == kind));
            let charges = charges.iter().map(|(kind, charge)| (*kind, charge));
            let used = recount(&feed, &quota.spec.selector, charges);
            answer.push((quota, used));
        }
    }
    answer
}

fn start(server: &TestServer) -> (Metrics, Drain) {
    let unlimited = ClientOptions {
        qps: 0.0,
        ..ClientOptions::default()
    };
    let shell = Shell::new("test");
    let client = kube::Client::new(server.router(), "default");
    let cluster = Cluster::from_client(client, &unlimited);
    tokio::spawn(kubequota_controller::run(Options::default(), cluster, shell.clone()));
    (shell.metrics, shell.drain)
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_churn_ends_exact() {
    let seed = 1;
    let server = TestServer::builder().seed(seed).build();
    for namespace in ["a", "b", "c"] {
        server
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .unwrap();
    }
    server.add_kind(Kind::new("example.com", "v1", "Widget", "widgets"));
    for quota in quotas() {
        server.create(quota).unwrap();
    }
    let (metrics, drain) = start(&server);
    sleep(Duration::from_secs(5)).await;
    let plugin = QuotaPlugin::new()
        .seed(seed)
        .late(Duration::ZERO..LATEST)
        .failing(0.05)
        .lag(Duration::ZERO..Duration::from_millis(40));
    server.admitter(plugin);
    for fault in [
        Fault::new(Action::LagWatch(Duration::from_millis(200))).resource("pods"),
        Fault::new(Action::LoseAnswer)
            .verb("patch")
            .resource("resourcequotas")
            .chance(0.02),
        Fault::new(Action::Unavailable).verb("list").chance(0.02),
    ] {
        server.fault(fault);
    }

    let mut churn = Churn {
        client: kube::Client::new(server.router(), "default"),
        server: server.clone(),
        random: Random(seed),
        tally: Arc::default(),
        tasks: JoinSet::new(),
    };
    let (began, mut checked) = (Instant::now(), Instant::now());
    while began.elapsed() < HOUR {
        sleep(churn.random.millis(2000)).await;
        churn.step();
        if churn.random.below(150) == 0 {
            server.drop_watches(KINDS[usize::try_from(churn.random.below(6)).unwrap()].0);
        }
        if churn.random.below(300) == 0 {
            server.drop_watches("resourcequotas");
        }
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            for (quota, used) in recounted(&server) {
                let exceeded = used.exceeding(&quota.spec.hard);
                assert!(
                    exceeded.is_empty(),
                    "after {:?} {} is exceeded: stored {used}, of {}",
                    began.elapsed(),
                    quota.key,
                    quota.spec.hard
                );
            }
        }
    }
    while churn.tasks.join_next().await.is_some() {}
    sleep(QUIET).await;

    for (quota, used) in recounted(&server) {
        assert_eq!(quota.status.used.as_ref(), Some(&used), "{}", quota.key);
    }
    let exported = metrics.registry.encode(TextFormat::Prometheus).unwrap();
    assert!(
        exported.lines().any(|line| line == "kubequota_recount_drift_total 0"),
        "the running sums were wrong"
    );
    let tally = churn.tally.lock();
    assert!(
        tally.stored > 500 && tally.refused > 100 && tally.failed > 20 && tally.taken > 10,
        "too little has happened: {tally:?}"
    );
    assert_eq!(tally.other, Vec::<String>::new());
    drain.start();
}
