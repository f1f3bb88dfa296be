//! Bad requests, and what the server fills in: the same answers as kube-apiserver's, which `conformance/run apiserver` compares.

use kubequota_testserver::TestServer;
use serde_json::{Value, json};

use crate::client::{delete, get, merge, post, put, send};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn with_map() -> (TestServer, Value) {
    let server = TestServer::new();
    let map = post(&server, MAPS, &json!({"metadata": {"name": "c", "generation": 7}}))
        .await
        .body;
    (server, map)
}

#[tokio::test(start_paused = true)]
async fn writes_of_another_object_are_refused() {
    let (server, map) = with_map().await;
    let path = format!("{MAPS}/c");
    assert_eq!(map["metadata"]["generation"], 7, "only some kinds count theirs");
    for (body, code, text) in [
        (
            json!({}),
            400,
            "the name of the object (c based on URL) was undeterminable: name must be provided",
        ),
        (
            json!({"metadata": {"name": "d"}}),
            400,
            "the name of the object (d) does not match the name on the URL (c)",
        ),
        (
            json!({"metadata": {"name": "c", "resourceVersion": "x"}}),
            500,
            r#"strconv.ParseUint: parsing "x": invalid syntax"#,
        ),
        (
            json!({"kind": "Secret", "metadata": {"name": "c"}}),
            400,
            "cannot be handled as a ConfigMap",
        ),
        (
            json!({"metadata": {"name": "c", "uid": "other"}}),
            409,
            "Precondition failed: UID in precondition: other",
        ),
    ] {
        let answer = put(&server, &path, &body).await;
        assert_eq!(answer.code, code, "{body}");
        assert!(answer.message().contains(text), "{body}: {}", answer.message());
    }
    for (body, code) in [
        (json!({"metadata": {"name": "d"}}), 400),
        (json!({"metadata": {"namespace": "d"}}), 400),
        (json!({"metadata": {"uid": "other"}}), 422),
        (json!({"kind": "Secret"}), 422),
    ] {
        assert_eq!(merge(&server, &path, &body).await.code, code, "{body}");
    }
    let named = post(&server, MAPS, &json!({"metadata": {"name": "Upper_Case"}})).await;
    assert_eq!(
        (named.code, &named.body["details"]["causes"][0]["reason"]),
        (422, &json!("FieldValueInvalid"))
    );
    let body = r#"{"preconditions": {"resourceVersion": "1"}}"#;
    let kept = send(&server, "DELETE", &path, &[], body).await.unwrap();
    assert_eq!((kept.code, &kept.body["details"]["kind"]), (409, &json!("ConfigMap")));
    assert!(
        kept.message()
            .contains("the ResourceVersion in the precondition (1) does not match")
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_served_is_told_as_upstream_tells_it() {
    let server = TestServer::new();
    for path in [
        "/api/v1/nonsense",
        "/apis/apps/v9/deployments",
        "/apis/apps/v9",
        "/api/v1/configmaps/c",
    ] {
        let answer = get(&server, path).await;
        assert_eq!(
            (answer.code, answer.reason(), &answer.body["details"]),
            (404, "NotFound", &json!({})),
            "{path}"
        );
    }
    for path in ["/nonsense", "/apis/nonsense.example.com/v1/things"] {
        assert_eq!(get(&server, path).await.body, "404 page not found\n", "{path}");
    }
    let html = send(&server, "GET", MAPS, &[("accept", "text/html")], "")
        .await
        .unwrap();
    assert!(html.message().starts_with("406: Not Acceptable"), "{}", html.message());
}

#[tokio::test(start_paused = true)]
async fn selectors_are_checked() {
    let server = TestServer::new();
    post(&server, "/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).await;
    let selected = get(
        &server,
        "/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3Da",
    )
    .await;
    assert_eq!(selected.names(), ["a"]);
    assert!(
        get(&server, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn")
            .await
            .names()
            .is_empty()
    );
    for query in [
        "fieldSelector=data.a%3Db",
        "fieldSelector=spec.nodeName%3Dn",
        "fieldSelector=metadata.name",
        "labelSelector=-app%3Dweb",
        "labelSelector=app%3D_web_",
        "resourceVersion=x",
    ] {
        assert_eq!(get(&server, &format!("{MAPS}?{query}")).await.code, 400, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn defaults_come_over_the_wire_only() {
    let server = TestServer::new();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let sent = post(&server, pods, &pod("sent")).await.body;
    assert_eq!(
        (&sent["spec"]["restartPolicy"], &sent["status"]["qosClass"]),
        (&json!("Always"), &json!("BestEffort"))
    );
    server.create(pod("put")).unwrap();
    let put = merge(
        &server,
        &format!("{pods}/put"),
        &json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await
    .body;
    assert_eq!(put["spec"], pod("put")["spec"]);
    let gone = delete(&server, &format!("{pods}/sent")).await.body;
    assert_eq!(
        (
            &gone["metadata"]["deletionGracePeriodSeconds"],
            &gone["metadata"]["generation"]
        ),
        (&json!(0), &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn a_custom_object_says_what_it_is() {
    let server = TestServer::new();
    server.add_kind(kubequota_testserver::Kind::new(
        "example.com",
        "v1",
        "Widget",
        "widgets",
    ));
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    for (version, kind, code) in [
        ("example.com/v2", "Widget", 400),
        ("", "Widget", 400),
        ("example.com/v1", "", 400),
        ("example.com/v1", "Gadget", 422),
    ] {
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "w"}});
        assert_eq!(post(&server, widgets, &body).await.code, code, "{body}");
    }
    assert_eq!(get(&server, widgets).await.body["metadata"]["continue"], "");
}
