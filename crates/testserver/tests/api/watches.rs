//! Watches.

use std::time::Duration;

use kubequota_testserver::{Action, Fault, Kind, TestServer, WatchMode};
use serde_json::json;
use tokio::time::Instant;

use crate::client::{Watch, delete, get, pod, with_pods};

fn watch_from(revision: u64) -> String {
    format!("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion={revision}")
}

#[tokio::test(start_paused = true)]
async fn events_follow_a_revision() {
    let server = with_pods(&["a"]);
    let start = server.revision();
    server.create(pod("a", "b")).unwrap();
    let mut watch = Watch::open(&server, &watch_from(start)).await;
    assert_eq!(watch.brief().await, "ADDED b");
    server
        .modify("pods", "a", "b", |pod| pod["spec"]["x"] = 1.into())
        .unwrap();
    assert_eq!(watch.brief().await, "MODIFIED b");
    server
        .create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}))
        .unwrap();
    server.delete("pods", "a", "b").unwrap();
    let deleted = watch.next().await.unwrap().unwrap();
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(
        deleted["object"]["metadata"]["resourceVersion"],
        server.revision().to_string()
    );
    assert_eq!(
        (&deleted["object"]["kind"], &deleted["object"]["apiVersion"]),
        (&json!("Pod"), &json!("v1"))
    );
    assert_eq!(server.watches().len(), 1);
    drop(watch);
    assert!(server.watches().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_revision_it_begins_with_what_is_there() {
    let server = with_pods(&["a"]);
    for query in ["", "&resourceVersion=0"] {
        let mut watch = Watch::open(&server, &format!("/api/v1/namespaces/a/pods?watch=1{query}")).await;
        assert_eq!(watch.brief().await, "ADDED a");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_a_marked_bookmark() {
    let server = with_pods(&["a"]);
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Watch::open(&server, &format!("/api/v1/pods?{query}")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let bookmark = watch.next().await.unwrap().unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let metadata = &bookmark["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(metadata["resourceVersion"], server.revision().to_string());
    server.create(pod("a", "b")).unwrap();
    assert_eq!(watch.brief().await, "ADDED b");
    assert_eq!(
        get(&server, &format!("/api/v1/pods?{query}&resourceVersion=999"))
            .await
            .code,
        504
    );
    assert_eq!(
        get(&server, "/api/v1/pods?watch=true&sendInitialEvents=true")
            .await
            .code,
        422
    );
    let none = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    assert!(
        Watch::open(&server, &format!("/api/v1/pods?{none}&timeoutSeconds=9"))
            .await
            .next()
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_by_the_minute_and_on_demand() {
    let server = with_pods(&["a"]);
    let mut watch = Watch::open(&server, &watch_from(server.revision())).await;
    let start = Instant::now();
    for minutes in 1..=2 {
        assert_eq!(watch.brief().await, "BOOKMARK");
        assert_eq!(start.elapsed(), Duration::from_secs(60 * minutes));
    }
    server
        .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}))
        .unwrap();
    server.bookmark();
    let bookmark = watch.next().await.unwrap().unwrap();
    assert_eq!(
        bookmark["object"]["metadata"]["resourceVersion"],
        server.revision().to_string()
    );
    assert_eq!(start.elapsed(), Duration::from_secs(120));
    let mut plain = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=99").await;
    server.bookmark();
    assert!(
        tokio::time::timeout(Duration::from_secs(600), plain.next())
            .await
            .is_err(),
        "nobody asked for bookmarks"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_time() {
    let server = with_pods(&[]);
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&timeoutSeconds=10").await;
    let start = Instant::now();
    assert_eq!(watch.next().await, Ok(None));
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert_eq!(get(&server, "/api/v1/pods?watch=true&timeoutSeconds=x").await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn a_compacted_revision_is_an_error_event() {
    let server = with_pods(&["a"]);
    let start = server.revision();
    let mut running = Watch::open(&server, &watch_from(start)).await;
    server.create(pod("a", "b")).unwrap();
    server.compact();
    assert_eq!(running.brief().await, "ADDED b", "a running watch goes on");
    let mut late = Watch::open(&server, &watch_from(start)).await;
    let error = late.next().await.unwrap().unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(error["object"]["reason"], "Expired");
    assert_eq!(late.next().await, Ok(None));
    let mut current = Watch::open(&server, &watch_from(server.revision())).await;
    server.create(pod("a", "c")).unwrap();
    assert_eq!(current.brief().await, "ADDED c");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_the_history_expires() {
    let server = TestServer::builder().history(3).build();
    let mut slow = Watch::open(&server, &watch_from(server.revision())).await;
    for name in ["a", "b", "c", "d"] {
        server.create(pod("a", name)).unwrap();
    }
    assert_eq!(slow.next().await.unwrap().unwrap()["object"]["code"], 410);
    assert_eq!(slow.next().await, Ok(None));
    let mut quick = Watch::open(&server, &watch_from(server.revision() - 3)).await;
    assert_eq!(quick.brief().await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn objects_enter_and_leave_a_selection() {
    let server = with_pods(&["a"]);
    let path = format!("{}&labelSelector=app%3Dweb", watch_from(server.revision()));
    let mut watch = Watch::open(&server, &path).await;
    let label = |value: &'static str| {
        server
            .modify("pods", "a", "a", |pod| {
                pod["metadata"]["labels"] = json!({"app": value});
            })
            .unwrap();
    };
    label("web");
    assert_eq!(watch.brief().await, "ADDED a");
    label("db");
    let left = watch.next().await.unwrap().unwrap();
    assert_eq!(
        (&left["type"], &left["object"]["metadata"]["labels"]["app"]),
        (&json!("DELETED"), &json!("web"))
    );
    assert_eq!(
        left["object"]["metadata"]["resourceVersion"],
        server.revision().to_string()
    );
    label("other");
    label("web");
    assert_eq!(watch.brief().await, "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn metadata_can_be_watched_alone() {
    let server = with_pods(&["a"]);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    let mut watch = Watch::open_as(&server, "/api/v1/pods?watch=true", accept).await;
    let event = watch.next().await.unwrap().unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert!(event["object"]["status"].is_null());
}

#[tokio::test(start_paused = true)]
async fn watches_break_end_and_expire_on_demand() {
    let server = with_pods(&["a"]);
    let open = || async { Watch::open(&server, &watch_from(server.revision())).await };
    let mut watch = open().await;
    server.drop_watches("services");
    server.drop_watches("pods");
    assert_eq!(watch.next().await, Err(()));
    let mut watch = open().await;
    server.create(pod("a", "b")).unwrap();
    server.set_watches("pods", WatchMode::Ended);
    assert_eq!(watch.brief().await, "ADDED b");
    assert_eq!(watch.next().await, Ok(None));
    let mut watch = open().await;
    server.set_watches("pods", WatchMode::Expired);
    assert_eq!(watch.next().await.unwrap().unwrap()["object"]["code"], 410);
    let mut watch = open().await;
    server.set_watches("pods", WatchMode::Silent);
    server.create(pod("a", "c")).unwrap();
    assert!(watch.is_quiet().await);
    server.drop_watches("pods");
    assert_eq!(watch.next().await, Err(()));
}

#[tokio::test(start_paused = true)]
async fn silent_and_late_watches() {
    let server = with_pods(&["a"]);
    server.fault(Fault::new(Action::SilentWatch).verb("watch").once());
    let mut silent = Watch::open(&server, &watch_from(server.revision())).await;
    let lag = Duration::from_secs(3);
    server.fault(Fault::new(Action::LagWatch(lag)).verb("watch").resource("pods"));
    let before = server.revision();
    let mut late = Watch::open(&server, &watch_from(before)).await;
    server.create(pod("a", "b")).unwrap();
    server.bookmark();
    let start = Instant::now();
    let bookmark = late.next().await.unwrap().unwrap();
    assert_eq!(
        bookmark["object"]["metadata"]["resourceVersion"],
        before.to_string(),
        "not ahead of what was sent"
    );
    assert_eq!(late.brief().await, "ADDED b");
    assert_eq!(start.elapsed(), lag);
    assert!(silent.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_a_removed_kind_end() {
    let server = with_pods(&[]);
    server.add_kind(Kind::new("example.com", "v1", "Widget", "widgets"));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    server.create(widget).unwrap();
    let mut watch = Watch::open(&server, "/apis/example.com/v1/widgets?watch=true").await;
    assert_eq!(watch.brief().await, "ADDED w");
    server.remove_kind("widgets.example.com");
    assert_eq!(watch.brief().await, "DELETED w");
    assert_eq!(watch.next().await, Ok(None));
    assert_eq!(get(&server, "/apis/example.com/v1/widgets").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_graceful_deletion_is_a_change_and_then_a_deletion() {
    let server = with_pods(&["a"]);
    server
        .modify("pods", "a", "a", |pod| pod["spec"]["nodeName"] = "n".into())
        .unwrap();
    let mut watch = Watch::open(&server, &watch_from(server.revision())).await;
    delete(&server, "/api/v1/namespaces/a/pods/a").await;
    assert_eq!(watch.brief().await, "MODIFIED a");
    server.remove("pods", "a", "a").unwrap();
    assert_eq!(watch.brief().await, "DELETED a");
}
