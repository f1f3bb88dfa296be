//! The admitter that behaves as the built-in plugin: what it charges, what it refuses, and what it leaves charged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::time::Duration;

use kubequota_testserver::{QuotaPlugin, TestServer};
use serde_json::{Value, json};

fn server(plugin: QuotaPlugin) -> TestServer {
    let server = TestServer::new();
    let hard = json!({"pods": "2", "services": "5", "services.nodeports": "3"});
    let used = json!({"pods": "0", "services": "0", "services.nodeports": "0"});
    server
        .create(
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
            "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}),
        )
        .unwrap();
    server.admitter(plugin);
    server
}

fn used(server: &TestServer, name: &str) -> Value {
    server.get("resourcequotas", "default", "q").unwrap()["status"]["used"][name].clone()
}

/// The code and message of an answer; of success 200 and nothing.
async fn send(server: &TestServer, method: &str, path: &str, body: Value) -> (u16, String) {
    let content_type = ["application/json", "application/merge-patch+json"][usize::from(method == "PATCH")];
    let request = http::Request::builder()
        .method(method)
        .uri(format!("/api/v1/namespaces/default/{path}"))
        .header("content-type", content_type)
        .body(body.to_string().into_bytes())
        .unwrap();
    let client = kube::Client::new(server.router(), "default");
    match client.request::<Value>(request).await {
        Ok(_) => (200, String::new()),
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        Err(error) => (0, error.to_string()),
    }
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c"}]}})
}

#[tokio::test(start_paused = true)]
async fn charges_until_it_refuses() {
    let server = server(QuotaPlugin::new());
    assert_eq!(send(&server, "POST", "pods?dryRun=All", pod("p")).await.0, 200);
    assert_eq!(used(&server, "pods"), "0", "a dry run is charged nothing");
    assert_eq!(send(&server, "POST", "pods", pod("p")).await.0, 200);
    assert_eq!(used(&server, "pods"), "1");
    // A name that is taken shows only after the charge.
    assert_eq!(send(&server, "POST", "pods", pod("p")).await.0, 409);
    assert_eq!(used(&server, "pods"), "2");
    let refused = (
        403,
        r#"pods "q" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"#.to_owned(),
    );
    assert_eq!(send(&server, "POST", "pods", pod("q")).await, refused);
    // What is not valid is never charged.
    assert_eq!(send(&server, "POST", "services", json!({"metadata": {}})).await.0, 422);
    assert_eq!(used(&server, "services"), "0");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_charged_what_it_adds() {
    let server = server(QuotaPlugin::new());
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}});
    assert_eq!(send(&server, "POST", "services", service).await.0, 200);
    let ports =
        |count: i32| json!({"spec": {"ports": (0..count).map(|port| json!({"port": 1 + port})).collect::<Vec<_>>()}});
    assert_eq!(send(&server, "PATCH", "services/s", ports(3)).await.0, 200);
    assert_eq!(
        (used(&server, "services"), used(&server, "services.nodeports")),
        (json!("1"), json!("3"))
    );
    assert_eq!(send(&server, "PATCH", "services/s", ports(4)).await.0, 403);
    assert_eq!(send(&server, "PATCH", "services/s", ports(1)).await.0, 200);
    assert_eq!(used(&server, "services.nodeports"), "3", "it never lowers");
}

#[tokio::test(start_paused = true)]
async fn a_failure_leaves_its_charge_and_stores_nothing() {
    let server = server(
        QuotaPlugin::new()
            .failing(1.0)
            .late(Duration::from_secs(1)..Duration::from_secs(2)),
    );
    let (code, message) = send(&server, "POST", "pods", pod("p")).await;
    assert_eq!(code, 500, "{message}");
    assert!(server.get("pods", "default", "p").is_none());
    assert_eq!(used(&server, "pods"), "1");
}

#[tokio::test(start_paused = true)]
async fn charges_that_meet_each_other_are_all_kept() {
    let server = server(QuotaPlugin::new().lag(Duration::from_millis(10)..Duration::from_millis(50)));
    let create = |name| {
        let server = server.clone();
        tokio::spawn(async move { send(&server, "POST", "pods", pod(name)).await })
    };
    let answers = [create("a"), create("b"), create("c")];
    let mut stored = 0;
    for answer in answers {
        let (code, message) = answer.await.unwrap();
        assert!(code == 200 || message.contains("exceeded quota"), "{code} {message}");
        stored += usize::from(code == 200);
    }
    assert_eq!((stored, used(&server, "pods")), (2, json!("2")));
}
