//! Lists and pages.

use serde_json::json;

use crate::client::{get, pod, send, with_pods};

#[tokio::test(start_paused = true)]
async fn a_list_has_its_revision_and_untyped_items() {
    let server = with_pods(&["x", "y"]);
    server.create(pod("b", "z")).unwrap();
    let all = get(&server, "/api/v1/pods").await;
    assert_eq!(all.names(), ["x", "y", "z"]);
    assert_eq!(
        (&all.body["kind"], &all.body["apiVersion"]),
        (&json!("PodList"), &json!("v1"))
    );
    assert_eq!(
        all.body["metadata"],
        json!({"resourceVersion": server.revision().to_string()})
    );
    assert!(all.body["items"][0]["kind"].is_null());
    assert_eq!(get(&server, "/api/v1/namespaces/b/pods").await.names(), ["z"]);
    assert!(get(&server, "/api/v1/namespaces/c/pods").await.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pages_stay_at_their_snapshot() {
    let server = with_pods(&["a", "b", "c", "d", "e"]);
    let first = get(&server, "/api/v1/pods?limit=2").await;
    assert_eq!(first.names(), ["a", "b"]);
    assert_eq!(first.body["metadata"]["remainingItemCount"], 3);
    server.delete("pods", "a", "c").unwrap();
    server.create(pod("a", "bb")).unwrap();
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    let second = get(&server, &format!("/api/v1/pods?limit=2&continue={token}")).await;
    assert_eq!(second.names(), ["c", "d"]);
    assert_eq!(second.body["metadata"]["remainingItemCount"], 1);
    assert_eq!(
        second.body["metadata"]["resourceVersion"],
        first.body["metadata"]["resourceVersion"]
    );
    let token = second.body["metadata"]["continue"].as_str().unwrap();
    let last = get(&server, &format!("/api/v1/pods?limit=2&continue={token}")).await;
    assert_eq!(last.names(), ["e"]);
    assert!(last.body["metadata"]["continue"].is_null());
    assert_eq!(get(&server, "/api/v1/pods?limit=2&continue=nonsense").await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_offers_an_inconsistent_rest() {
    let server = with_pods(&["a", "b", "c"]);
    let first = get(&server, "/api/v1/pods?limit=1").await;
    server.create(pod("a", "bb")).unwrap();
    server.compact();
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    let expired = get(&server, &format!("/api/v1/pods?limit=2&continue={token}")).await;
    assert_eq!((expired.code, expired.reason()), (410, "Expired"));
    let token = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = get(&server, &format!("/api/v1/pods?limit=2&continue={token}")).await;
    assert_eq!(rest.names(), ["b", "bb"]);
    assert_eq!(rest.body["metadata"]["resourceVersion"], server.revision().to_string());
    let token = rest.body["metadata"]["continue"].as_str().unwrap();
    server.compact();
    assert_eq!(
        get(&server, &format!("/api/v1/pods?limit=2&continue={token}"))
            .await
            .names(),
        ["c"]
    );
}

#[tokio::test(start_paused = true)]
async fn versions_are_matched_as_asked() {
    let server = with_pods(&["a"]);
    let old = server.revision();
    server.create(pod("a", "b")).unwrap();
    let at = |query: String| {
        let server = server.clone();
        async move { get(&server, &format!("/api/v1/pods?{query}")).await }
    };
    assert_eq!(
        at(format!("resourceVersion={old}&resourceVersionMatch=Exact"))
            .await
            .names(),
        ["a"]
    );
    assert_eq!(at(format!("resourceVersion={old}&limit=9")).await.names(), ["a"]);
    assert_eq!(
        at(format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan"))
            .await
            .names(),
        ["a", "b"]
    );
    assert_eq!(at(format!("resourceVersion={old}")).await.names(), ["a", "b"]);
    assert_eq!(
        at("resourceVersion=0&limit=1".into()).await.names(),
        ["a", "b"],
        "0 is served whole"
    );
    let future = at("resourceVersion=999".into()).await;
    assert_eq!((future.code, future.reason()), (504, "Timeout"));
    assert_eq!(future.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    server.compact();
    assert_eq!(
        at(format!("resourceVersion={old}&resourceVersionMatch=Exact"))
            .await
            .code,
        410
    );
    assert_eq!(at("resourceVersionMatch=Exact".into()).await.code, 422);
}

#[tokio::test(start_paused = true)]
async fn selectors_narrow() {
    let server = with_pods(&["a", "b"]);
    server
        .modify("pods", "a", "b", |pod| {
            pod["metadata"]["labels"] = json!({"app": "web"});
        })
        .unwrap();
    assert_eq!(
        get(&server, "/api/v1/pods?labelSelector=app%3Dweb").await.names(),
        ["b"]
    );
    assert_eq!(
        get(&server, "/api/v1/pods?fieldSelector=metadata.name%3Da")
            .await
            .names(),
        ["a"]
    );
    assert_eq!(get(&server, "/api/v1/pods?fieldSelector=spec.foo%3Da").await.code, 400);
    assert_eq!(get(&server, "/api/v1/pods?labelSelector=a%20b").await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_where_accepted() {
    let server = with_pods(&["a"]);
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let list = send(&server, "GET", "/api/v1/pods", &[("accept", accept)], "")
        .await
        .unwrap()
        .body;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert!(list["items"][0]["status"].is_null());
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let one = send(&server, "GET", "/api/v1/namespaces/a/pods/a", &[("accept", accept)], "")
        .await
        .unwrap();
    assert_eq!(one.body["kind"], "PartialObjectMetadata");
    assert_eq!(
        send(&server, "GET", "/api/v1/pods", &[("accept", accept)], "")
            .await
            .unwrap()
            .code,
        406
    );
}
