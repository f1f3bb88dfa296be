//! Namespaces that empty themselves.

use kubequota_testserver::TestServer;
use serde_json::json;

use crate::client::{delete, get, merge, post};

const NAMESPACES: &str = "/api/v1/namespaces";

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_goes_when_the_last_object_does() {
    let server = TestServer::new();
    let created = post(&server, NAMESPACES, &json!({"metadata": {"name": "a"}}))
        .await
        .body;
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    let maps = "/api/v1/namespaces/a/configmaps";
    post(&server, maps, &json!({"metadata": {"name": "free"}})).await;
    post(
        &server,
        maps,
        &json!({"metadata": {"name": "held", "finalizers": ["example.com/x"]}}),
    )
    .await;
    let marked = delete(&server, "/api/v1/namespaces/a").await;
    assert_eq!(
        (marked.code, &marked.body["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    assert_eq!(get(&server, &format!("{maps}/free")).await.code, 404);
    let late = post(&server, maps, &json!({"metadata": {"name": "late"}})).await;
    assert_eq!((late.code, late.reason()), (403, "Forbidden"));
    assert_eq!(late.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(
        get(&server, "/api/v1/namespaces/a").await.code,
        200,
        "something holds it"
    );
    let more = merge(
        &server,
        &format!("{maps}/held"),
        &json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}),
    )
    .await;
    assert_eq!((more.code, more.reason()), (422, "Invalid"), "nothing new may hold it");
    merge(
        &server,
        &format!("{maps}/held"),
        &json!({"metadata": {"finalizers": []}}),
    )
    .await;
    assert_eq!(get(&server, "/api/v1/namespaces/a").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_empty_namespace_goes_at_once_and_some_never() {
    let server = TestServer::new();
    post(&server, NAMESPACES, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(delete(&server, "/api/v1/namespaces/a?dryRun=All").await.code, 200);
    assert_eq!(get(&server, "/api/v1/namespaces/a").await.code, 200, "a dry run");
    delete(&server, "/api/v1/namespaces/a").await;
    assert_eq!(get(&server, "/api/v1/namespaces/a").await.code, 404);
    let refused = delete(&server, "/api/v1/namespaces/default").await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            403,
            r#"namespaces "default" is forbidden: this namespace may not be deleted"#
        )
    );
    assert_eq!(delete(&server, NAMESPACES).await.code, 405);
}
