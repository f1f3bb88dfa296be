//! Create, get, update, patch, delete.

use std::time::Duration;

use jiff::SignedDuration;
use kubequota_testserver::{Decision, Kind, Review, Status, TestServer};
use serde_json::json;

use crate::client::{delete, get, merge, pod, post, put, send, with_pods};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(start_paused = true)]
async fn created_over_the_wire() {
    let server = TestServer::new();
    let created = post(
        &server,
        PODS,
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Failed"}}),
    )
    .await;
    assert_eq!(created.code, 201);
    assert_eq!(created.body["kind"], "Pod");
    assert_eq!(created.body["status"]["phase"], "Pending", "status is not the client's");
    let again = post(&server, PODS, &json!({"metadata": {"name": "p"}})).await;
    assert_eq!((again.code, again.reason()), (409, "AlreadyExists"));
    assert_eq!(again.message(), r#"pods "p" already exists"#);
    let read = get(&server, &format!("{PODS}/p")).await;
    assert_eq!(read.body, created.body);
    let missing = get(&server, &format!("{PODS}/q")).await;
    assert_eq!((missing.code, missing.message()), (404, r#"pods "q" not found"#));
    assert_eq!(missing.body["details"], json!({"name": "q", "kind": "pods"}));
    let stray = post(
        &server,
        "/api/v1/namespaces/nowhere/pods",
        &json!({"metadata": {"name": "p"}}),
    )
    .await;
    assert_eq!(
        (stray.code, stray.message()),
        (404, r#"namespaces "nowhere" not found"#)
    );
}

#[tokio::test(start_paused = true)]
async fn bad_requests_get_their_codes() {
    let server = with_pods(&["p"]);
    let named = json!({"metadata": {"name": "x"}});
    for (method, path, body, code) in [
        ("POST", PODS, "{", 400),
        ("POST", PODS, "[]", 400),
        ("POST", PODS, "{\"metadata\": 5}", 400),
        ("POST", PODS, "{\"kind\": \"Service\"}", 400),
        ("POST", PODS, "{\"apiVersion\": \"v2\"}", 400),
        ("POST", PODS, "{\"metadata\": {\"namespace\": \"b\"}}", 400),
        ("POST", PODS, "{}", 422),
        ("POST", PODS, "{\"metadata\": {\"name\": \"a/b\"}}", 422),
        (
            "POST",
            PODS,
            "{\"metadata\": {\"name\": \"x\", \"resourceVersion\": \"5\"}}",
            500,
        ),
        (
            "POST",
            "/api/v1/namespaces/default/pods?dryRun=Some",
            &named.to_string(),
            422,
        ),
        ("POST", "/api/v1/pods", "{}", 405),
        ("POST", "/api/v1/namespaces/a/pods/p", "{}", 405),
        ("PUT", PODS, "{}", 405),
        ("OPTIONS", PODS, "", 405),
        ("POST", "/api", "", 405),
        ("DELETE", "/api/v1/pods", "", 405),
        ("DELETE", "/api/v1/namespaces/a/pods/p/status", "", 405),
        ("PUT", "/api/v1/namespaces/a/pods/p", "{}", 400),
        (
            "PUT",
            "/api/v1/namespaces/a/pods/p",
            "{\"metadata\": {\"name\": \"q\"}}",
            400,
        ),
        ("PATCH", "/api/v1/namespaces/a/pods/p", "{}", 415),
        ("GET", "/api/v1/namespaces/a/pods/p/nonsense", "", 404),
        ("GET", "/api/v1/pods/p", "", 404),
        ("GET", "/api/v1/namespaces/a/nonsense", "", 404),
        ("GET", "/apis/example.com/v1/pods", "", 404),
        ("GET", "/nonsense", "", 404),
        ("GET", "/apis/resource.k8s.io/v1/namespaces/a/deviceclasses", "", 404),
    ] {
        let answer = send(&server, method, path, &[], body).await.unwrap();
        assert_eq!(answer.code, code, "{method} {path} {body}: {}", answer.body);
    }
    assert_eq!(get(&server, "/nonsense").await.body, "404 page not found\n");
    let yaml = send(&server, "POST", PODS, &[("content-type", "application/yaml")], "a: b")
        .await
        .unwrap();
    assert_eq!((yaml.code, yaml.reason()), (415, "UnsupportedMediaType"));
    let protobuf = send(
        &server,
        "GET",
        PODS,
        &[("accept", "application/vnd.kubernetes.protobuf")],
        "",
    )
    .await
    .unwrap();
    assert_eq!((protobuf.code, protobuf.reason()), (406, "NotAcceptable"));
}

#[tokio::test(start_paused = true)]
async fn a_status_patch_is_guarded_by_its_version() {
    let server = TestServer::new();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = post(
        &server,
        quotas,
        &json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}),
    )
    .await
    .body;
    assert_eq!(quota["status"], json!({}));
    let status = format!("{quotas}/q/status");
    let version = &quota["metadata"]["resourceVersion"];
    let patch = |used: &str| json!({"metadata": {"resourceVersion": version}, "spec": {"hard": {}}, "status": {"used": {"pods": used}}});
    let patched = merge(&server, &status, &patch("1")).await;
    assert_eq!(patched.code, 200);
    assert_eq!(patched.body["status"]["used"]["pods"], "1");
    assert_eq!(patched.body["spec"]["hard"]["pods"], "2", "only the status is written");
    let stale = merge(&server, &status, &patch("2")).await;
    assert_eq!((stale.code, stale.reason()), (409, "Conflict"));
    assert!(
        stale
            .message()
            .starts_with(r#"Operation cannot be fulfilled on resourcequotas "q": the object has been modified"#)
    );
    let unreadable = merge(&server, &status, &json!({"status": {"used": {"pods": "many"}}})).await;
    assert_eq!((unreadable.code, unreadable.reason()), (422, "Invalid"));
    let negative = merge(&server, &status, &json!({"status": {"used": {"pods": "-1"}}})).await;
    assert_eq!((negative.code, negative.reason()), (422, "Invalid"));
    let revision = server.revision();
    assert_eq!(
        merge(&server, &status, &json!({"status": {"used": {"pods": "1"}}}))
            .await
            .code,
        200
    );
    assert_eq!(server.revision(), revision, "nothing changed, nothing written");
    let spec = merge(
        &server,
        &format!("{quotas}/q"),
        &json!({"status": null, "spec": {"hard": {"pods": "3"}}}),
    )
    .await;
    assert_eq!(spec.body["status"]["used"]["pods"], "1", "and only the spec");
    assert_eq!(
        merge(&server, &format!("{quotas}/none/status"), &patch("1")).await.code,
        404
    );
    assert_eq!(
        merge(&server, &format!("{quotas}/q"), &json!({"metadata": {"name": "other"}}))
            .await
            .code,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn json_patches_work_too() {
    let server = with_pods(&["p"]);
    let patch = |operations: &'static str| {
        let server = server.clone();
        async move {
            let headers = [("content-type", "application/json-patch+json")];
            send(&server, "PATCH", "/api/v1/namespaces/a/pods/p", &headers, operations)
                .await
                .unwrap()
        }
    };
    let patched = patch(r#"[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]"#).await;
    assert_eq!(
        (patched.code, &patched.body["metadata"]["labels"]["a"]),
        (200, &json!("b"))
    );
    assert_eq!(
        patch(r#"[{"op": "test", "path": "/metadata/name", "value": "q"}]"#)
            .await
            .code,
        422
    );
    assert_eq!(patch("{").await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn updates_replace() {
    let server = TestServer::new();
    server.add_kind(Kind::new("example.com", "v1", "Widget", "widgets"));
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1, "b": 2}});
    let mut created = post(&server, widgets, &widget).await.body;
    assert_eq!(
        put(&server, &format!("{widgets}/w"), &widget).await.code,
        422,
        "a custom resource needs a version"
    );
    created["spec"] = json!({"a": 1});
    let updated = put(&server, &format!("{widgets}/w"), &created).await;
    assert_eq!((updated.code, &updated.body["spec"]), (200, &json!({"a": 1})));
    assert_eq!(updated.body["metadata"]["generation"], 2);
    assert_eq!(put(&server, &format!("{widgets}/w"), &created).await.code, 409);
    assert_eq!(
        post(&server, widgets, &json!({"metadata": {"name": "x"}})).await.code,
        400,
        "the type is missing"
    );
}

#[tokio::test(start_paused = true)]
async fn deletions_answer_objects_or_statuses() {
    let server = with_pods(&["p"]);
    server
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}))
        .unwrap();
    server
        .modify("pods", "a", "p", |pod| pod["spec"]["nodeName"] = "n".into())
        .unwrap();
    let status = delete(&server, "/api/v1/namespaces/default/configmaps/c").await;
    assert_eq!((status.code, &status.body["status"]), (200, &json!("Success")));
    let path = "/api/v1/namespaces/a/pods/p";
    let marked = delete(&server, path).await;
    assert_eq!(marked.body["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(get(&server, path).await.code, 200);
    let body = r#"{"gracePeriodSeconds": 0, "preconditions": {"uid": "other"}}"#;
    assert_eq!(send(&server, "DELETE", path, &[], body).await.unwrap().code, 409);
    assert_eq!(delete(&server, &format!("{path}?gracePeriodSeconds=x")).await.code, 400);
    assert_eq!(
        delete(&server, &format!("{path}?gracePeriodSeconds=0&dryRun=All"))
            .await
            .code,
        200
    );
    assert_eq!(get(&server, path).await.code, 200, "a dry run");
    assert_eq!(delete(&server, &format!("{path}?gracePeriodSeconds=0")).await.code, 200);
    assert_eq!(get(&server, path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn collections_are_deleted_by_selector() {
    let server = with_pods(&["x", "y", "z"]);
    server.create(pod("b", "x")).unwrap();
    server
        .modify("pods", "a", "y", |pod| {
            pod["metadata"]["labels"] = json!({"keep": "me"});
        })
        .unwrap();
    let deleted = delete(&server, "/api/v1/namespaces/a/pods?labelSelector=!keep").await;
    assert_eq!(deleted.names(), ["x", "z"]);
    assert_eq!(get(&server, "/api/v1/pods").await.names(), ["y", "x"]);
}

#[tokio::test(start_paused = true)]
async fn definitions_bring_kinds_and_take_them_away() {
    let server = TestServer::new();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false},
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
            ],
        },
    });
    let created = post(&server, definitions, &definition).await;
    assert_eq!(created.body["status"]["conditions"][1]["type"], "Established");
    let widget =
        json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}, "status": {"x": 1}});
    let beta = "/apis/example.com/v1beta1/namespaces/default/widgets";
    assert_eq!(
        post(&server, beta, &widget).await.body["apiVersion"],
        "example.com/v1beta1"
    );
    let other = get(&server, "/apis/example.com/v1/namespaces/default/widgets/w")
        .await
        .body;
    assert_eq!(
        (&other["apiVersion"], &other["status"]),
        (&json!("example.com/v1"), &json!(null))
    );
    let status = json!({"metadata": {"labels": {"a": "b"}}, "status": {"x": 1}});
    let patched = merge(
        &server,
        "/apis/example.com/v1/namespaces/default/widgets/w/status",
        &status,
    )
    .await
    .body;
    assert_eq!(patched["status"]["x"], 1);
    assert!(
        patched["metadata"]["labels"].is_null(),
        "the metadata of a custom resource is not its status"
    );
    assert_eq!(
        delete(&server, &format!("{definitions}/widgets.example.com"))
            .await
            .code,
        200
    );
    assert_eq!(get(&server, beta).await.code, 404);
    assert!(server.list("widgets.example.com", "").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing() {
    let server = TestServer::new();
    let revision = server.revision();
    assert_eq!(
        post(
            &server,
            &format!("{PODS}?dryRun=All"),
            &json!({"metadata": {"name": "p"}})
        )
        .await
        .code,
        201
    );
    assert_eq!(server.revision(), revision);
}

#[tokio::test(start_paused = true)]
async fn an_admitter_charges_then_the_object_is_stored() {
    let server = TestServer::new();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "status": {"used": {"pods": "0"}}});
    server.create(quota).unwrap();
    server.admitter(|server: TestServer, review: Review| async move {
        if review.object["metadata"]["name"] == "bad" {
            return Decision::Deny(Status::denied(
                &kubequota_testserver::GroupResource::new("", "pods"),
                "bad",
                "no",
            ));
        }
        server
            .modify("resourcequotas", "default", "q", |quota| {
                quota["status"]["used"]["pods"] = "1".into();
            })
            .unwrap();
        Decision::DelayStore(Duration::from_secs(5))
    });
    let denied = post(&server, PODS, &json!({"metadata": {"name": "bad"}})).await;
    assert_eq!((denied.code, denied.message()), (403, r#"pods "bad" is forbidden: no"#));
    let creating = tokio::spawn({
        let server = server.clone();
        async move { post(&server, PODS, &json!({"metadata": {"name": "p"}})).await.code }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        server.get("resourcequotas", "default", "q").unwrap()["status"]["used"]["pods"],
        "1"
    );
    assert!(server.get("pods", "default", "p").is_none());
    assert_eq!(creating.await.unwrap(), 201);
    assert!(server.get("pods", "default", "p").is_some());
    server.clear_admitter();
    assert_eq!(
        post(&server, PODS, &json!({"metadata": {"name": "bad"}})).await.code,
        201
    );
}

#[tokio::test(start_paused = true)]
async fn the_date_is_the_servers() {
    let server = TestServer::builder()
        .epoch("2030-05-06T07:08:09Z".parse().unwrap())
        .build();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        get(&server, "/version").await.headers["date"],
        "Mon, 06 May 2030 07:08:10 GMT"
    );
    server.set_clock_skew(SignedDuration::from_secs(-10));
    assert_eq!(
        get(&server, "/version").await.headers["date"],
        "Mon, 06 May 2030 07:08:00 GMT"
    );
}

#[tokio::test(start_paused = true)]
async fn raw_objects_are_served_as_they_are() {
    let server = TestServer::new();
    server.put_raw(
        "pods",
        json!({"metadata": {"name": "odd", "namespace": "a"}, "spec": "nonsense", "status": [1]}),
    );
    let odd = get(&server, "/api/v1/namespaces/a/pods/odd").await.body;
    assert_eq!((&odd["spec"], &odd["status"]), (&json!("nonsense"), &json!([1])));
    assert_eq!(odd["metadata"]["resourceVersion"], server.revision().to_string());
    let list = get(&server, "/api/v1/pods").await.body;
    assert_eq!(list["items"][0]["spec"], "nonsense");
    assert_eq!(delete(&server, "/api/v1/namespaces/a/pods/odd").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_uids() {
    let uid = |seed| TestServer::builder().seed(seed).build().create(pod("a", "p")).unwrap()["metadata"]["uid"].clone();
    assert_eq!(uid(5), uid(5));
    assert_ne!(uid(5), uid(6));
}
