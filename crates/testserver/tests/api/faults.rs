//! Scripted faults, seen by a client.

use std::time::Duration;

use kubequota_testserver::{Action, Fault, TestServer};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::client::{Watch, get, post, send, with_pods};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(start_paused = true)]
async fn answers_are_upstreams() {
    let server = TestServer::new();
    let hit = |action| {
        let id = server.fault(Fault::new(action).verb("list").resource("pods"));
        let server = server.clone();
        async move {
            let answer = get(&server, "/api/v1/pods").await;
            server.clear_fault(id);
            answer
        }
    };
    let forbidden = hit(Action::Forbidden).await;
    let text = r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope"#;
    assert_eq!((forbidden.code, forbidden.message()), (403, text));
    let busy = hit(Action::TooManyRequests(7)).await;
    assert_eq!((busy.code, &busy.headers["retry-after"]), (429, &"7".parse().unwrap()));
    for (action, code) in [
        (Action::NotFound, 404),
        (Action::Conflict, 409),
        (Action::Expired, 410),
        (Action::InternalError, 500),
        (Action::Unavailable, 503),
    ] {
        assert_eq!(hit(action).await.code, code);
    }
    assert_eq!(get(&server, "/api/v1/pods").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn one_version_can_be_broken() {
    let server = TestServer::new();
    server.add_kind(kubequota_testserver::Kind::new("example.com", "v2", "Widget", "widgets").version("v1"));
    server.fault(
        Fault::new(Action::InternalError)
            .resource("widgets.example.com")
            .version("v2"),
    );
    assert_eq!(get(&server, "/apis/example.com/v2/widgets").await.code, 500);
    assert_eq!(get(&server, "/apis/example.com/v1/widgets").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn discovery_can_fail_by_path() {
    let server = TestServer::new();
    let id = server.fault(Fault::new(Action::Unavailable).path("/apis").once());
    assert_eq!(get(&server, "/apis").await.code, 503);
    assert_eq!(get(&server, "/apis").await.code, 200);
    assert_eq!(server.faults_struck(id), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_late_or_lost_after_the_write() {
    let server = TestServer::new();
    server.fault(Fault::new(Action::LoseAnswer).verb("create").once());
    let object = json!({"metadata": {"name": "p"}});
    assert!(send(&server, "POST", PODS, &[], &object.to_string()).await.is_none());
    assert!(server.get("pods", "default", "p").is_some());
    server.fault(
        Fault::new(Action::DelayAnswer(Duration::from_secs(5)))
            .verb("create")
            .once(),
    );
    let start = Instant::now();
    let object = json!({"metadata": {"name": "q"}});
    let late = timeout(Duration::from_secs(1), post(&server, PODS, &object)).await;
    assert!(late.is_err());
    assert!(
        server.get("pods", "default", "q").is_some(),
        "stored though the client gave up"
    );
    server.fault(Fault::new(Action::Delay(Duration::from_secs(5))).verb("get"));
    assert_eq!(get(&server, &format!("{PODS}/q")).await.code, 200);
    assert_eq!(start.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn requests_are_refused_or_hang() {
    let server = TestServer::new();
    server.fault(Fault::new(Action::Refuse).verb("create").once());
    assert!(
        send(&server, "POST", PODS, &[], r#"{"metadata": {"name": "p"}}"#)
            .await
            .is_none()
    );
    assert!(server.get("pods", "default", "p").is_none());
    server.fault(Fault::new(Action::Hang).resource("pods"));
    assert!(timeout(Duration::from_secs(3600), get(&server, PODS)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_server_goes_away_and_comes_back() {
    let server = with_pods(&["p"]);
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true").await;
    assert_eq!(watch.brief().await, "ADDED p");
    server.down();
    assert_eq!(watch.next().await, Err(()));
    assert!(send(&server, "GET", "/api/v1/pods", &[], "").await.is_none());
    server.up();
    assert_eq!(get(&server, "/api/v1/pods").await.names(), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_what_was_asked() {
    let server = with_pods(&["p"]);
    send(
        &server,
        "GET",
        "/api/v1/pods?limit=5",
        &[("user-agent", "kubequota/1")],
        "",
    )
    .await
    .unwrap();
    get(&server, "/apis/apps/v1/deployments").await;
    let log = server.requests();
    assert_eq!((log[0].verb.as_str(), log[0].path.as_str()), ("list", "/api/v1/pods"));
    assert_eq!(
        (log[0].query.as_str(), log[0].user_agent.as_str()),
        ("limit=5", "kubequota/1")
    );
    assert_eq!(server.request_count("list", "pods"), 1);
    assert_eq!(server.request_count("list", "deployments.apps"), 1);
    assert_eq!(server.request_count("watch", "pods"), 0);
    server.clear_requests();
    assert!(server.requests().is_empty());
}
