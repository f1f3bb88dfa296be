//! What kubectl asks for beyond reading and writing: tables, schemas, strategic patches, server-side apply, scale, resize.

use kubequota_testserver::TestServer;
use serde_json::{Value, json};

use crate::client::{Answer, Watch, get, pod, post, put, send, with_pods};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn table(server: &TestServer, path: &str) -> Value {
    let answer = send(server, "GET", path, &[("accept", TABLE)], "").await.unwrap();
    assert_eq!(answer.body["kind"], "Table", "{path}");
    answer.body
}

async fn patch(server: &TestServer, content_type: &str, path: &str, body: &Value) -> Answer {
    let headers = [("content-type", content_type), ("user-agent", "tester/1")];
    send(server, "PATCH", path, &headers, &body.to_string()).await.unwrap()
}

fn columns(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns.iter().map(|column| column["name"].as_str().unwrap()).collect()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "x:1"}, {"name": "y", "image": "y:1"}]}},
        },
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "string", "description": "How large."}, "count": {"type": "integer"},
                }}}}},
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn tables_of_lists_objects_and_watches() {
    let server = with_pods(&["p", "q"]);
    let list = table(&server, "/api/v1/namespaces/a/pods?limit=1").await;
    assert_eq!(columns(&list)[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
    assert_eq!(list["rows"].as_array().unwrap().len(), 1);
    let cells = list["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..4], ["p", "0/0", "Pending", "0"]);
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert!(
        list["metadata"]["continue"].is_string(),
        "a table is paged as a list is"
    );
    let one = table(&server, "/api/v1/namespaces/a/pods/q?includeObject=Object").await;
    assert_eq!(one["rows"][0]["object"]["kind"], "Pod");
    let refused = send(&server, "GET", "/api/v1/pods?includeObject=x", &[("accept", TABLE)], "").await;
    assert_eq!(refused.unwrap().code, 400);

    let mut watch = Watch::open_as(&server, "/api/v1/pods?watch=true", TABLE).await;
    let first = watch.next().await.unwrap().unwrap();
    assert_eq!(
        (&first["type"], &first["object"]["rows"][0]["cells"][0]),
        (&json!("ADDED"), &json!("p"))
    );
    assert!(first["object"]["columnDefinitions"].is_array());
    let second = watch.next().await.unwrap().unwrap();
    assert!(second["object"]["columnDefinitions"].is_null(), "columns are told once");
    server
        .apply_status("pods", "a", "p", json!({"phase": "Failed", "reason": "Evicted"}))
        .unwrap();
    let third = watch.next().await.unwrap().unwrap();
    assert_eq!(
        (&third["type"], &third["object"]["rows"][0]["cells"][2]),
        (&json!("MODIFIED"), &json!("Evicted"))
    );
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_have_their_columns_and_scale() {
    let server = TestServer::new();
    server.create(definition()).unwrap();
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": "small", "sise": 1}});
    let strict = post(&server, &format!("{widgets}?fieldValidation=Strict"), &widget).await;
    assert_eq!(strict.code, 400);
    assert!(
        strict
            .message()
            .ends_with(r#"strict decoding error: unknown field "spec.sise""#),
        "{}",
        strict.message()
    );
    let made = post(&server, widgets, &widget).await;
    assert_eq!(made.headers["warning"], r#"299 - "unknown field \"spec.sise\"""#);
    assert_eq!(made.body["spec"], json!({"size": "small"}));
    let shown = table(&server, widgets).await;
    assert_eq!(
        (columns(&shown), &shown["rows"][0]["cells"]),
        (vec!["Name", "Size"], &json!(["w", "small"]))
    );
    let scaled = patch(
        &server,
        "application/merge-patch+json",
        &format!("{widgets}/w/scale"),
        &json!({"spec": {"replicas": 3}}),
    )
    .await;
    assert_eq!((scaled.code, &scaled.body["spec"]["replicas"]), (200, &json!(3)));
    assert_eq!(
        server.get("widgets.example.com", "default", "w").unwrap()["spec"]["count"],
        3
    );
    let strategic = patch(&server, STRATEGIC, &format!("{widgets}/w"), &json!({})).await;
    assert_eq!(strategic.code, 415);
}

#[tokio::test(start_paused = true)]
async fn schemas_are_found_by_their_index() {
    let server = TestServer::new();
    server.create(definition()).unwrap();
    let index = get(&server, "/openapi/v3").await.body;
    let url = |path: &str| index["paths"][path]["serverRelativeURL"].as_str().unwrap().to_owned();
    let core = get(&server, &url("api/v1")).await.body;
    let quotas = &core["paths"]["/api/v1/namespaces/{namespace}/resourcequotas/{name}"]["patch"];
    assert_eq!(
        quotas["x-kubernetes-group-version-kind"],
        json!({"group": "", "version": "v1", "kind": "ResourceQuota"})
    );
    assert!(quotas["requestBody"]["content"][STRATEGIC].is_object());
    let spec = &core["components"]["schemas"]["io.k8s.api.core.v1.ResourceQuotaSpec"];
    assert_eq!(spec["properties"]["hard"]["type"], "object");
    let widgets = get(&server, &url("apis/example.com/v1")).await.body;
    let widget = &widgets["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(
        widget["properties"]["spec"]["properties"]["size"]["description"],
        "How large."
    );
    assert_eq!(widget["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert!(widgets["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]["requestBody"]["content"][STRATEGIC].is_null());
    assert_eq!(get(&server, "/openapi/v3/apis/nonsense/v1").await.code, 404);
    // A changed definition is told by another address.
    let before = url("apis/example.com/v1");
    let changed = server.modify(
        "customresourcedefinitions.apiextensions.k8s.io",
        "",
        "widgets.example.com",
        |crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Changed.".into();
        },
    );
    changed.unwrap();
    let after = get(&server, "/openapi/v3").await.body["paths"]["apis/example.com/v1"]["serverRelativeURL"].clone();
    assert_ne!(after, before);
}

#[tokio::test(start_paused = true)]
async fn strategic_patches_merge_lists_by_key() {
    let server = TestServer::new();
    server.create(deployment()).unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "y", "image": "y:2"}]}}}});
    let patched = patch(&server, STRATEGIC, path, &change).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    let images: Vec<&Value> = patched.body["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["image"])
        .collect();
    assert_eq!(images, ["x:1", "y:2"]);
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_knows_its_owners() {
    let server = TestServer::new();
    let path = "/api/v1/namespaces/default/configmaps/c";
    let by = |manager: &str, more: &str| format!("{path}?fieldManager={manager}{more}");
    let configuration =
        |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data});
    let made = patch(
        &server,
        APPLY,
        &by("one", ""),
        &configuration(json!({"a": "1", "b": "1"})),
    )
    .await;
    assert_eq!(
        (made.code, &made.body["metadata"]["managedFields"][0]["manager"]),
        (201, &json!("one"))
    );
    let nameless = patch(&server, APPLY, path, &configuration(json!({}))).await;
    assert_eq!(nameless.code, 422);
    let conflict = patch(&server, APPLY, &by("two", ""), &configuration(json!({"a": "2"}))).await;
    assert_eq!((conflict.code, conflict.reason()), (409, "Conflict"));
    assert_eq!(
        conflict.message(),
        r#"Apply failed with 1 conflict: conflict with "one": .data.a"#
    );
    assert_eq!(conflict.body["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let forced = patch(
        &server,
        APPLY,
        &by("two", "&force=true"),
        &configuration(json!({"a": "2"})),
    )
    .await;
    assert_eq!((forced.code, &forced.body["data"]), (200, &json!({"a": "2", "b": "1"})));
    // Other writes are noted on an object that was applied.
    patch(
        &server,
        "application/merge-patch+json",
        path,
        &json!({"data": {"b": "3"}}),
    )
    .await;
    let conflict = patch(&server, APPLY, &by("one", ""), &configuration(json!({"b": "1"}))).await;
    assert!(
        conflict.message().contains(r#"conflict with "tester" using v1 at "#),
        "{}",
        conflict.message()
    );
    let dry = patch(
        &server,
        APPLY,
        &by("one", "&force=true&dryRun=All"),
        &configuration(json!({"b": "9"})),
    )
    .await;
    assert_eq!((dry.code, &dry.body["data"]["b"]), (200, &json!("9")));
    assert_eq!(server.get("configmaps", "default", "c").unwrap()["data"]["b"], "3");
}

#[tokio::test(start_paused = true)]
async fn scale_is_a_view_of_replicas() {
    let server = TestServer::new();
    server.create(deployment()).unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    let mut scale = get(&server, path).await.body;
    assert_eq!(
        (&scale["kind"], &scale["apiVersion"]),
        (&json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(2), &json!("a=b"))
    );
    scale["spec"]["replicas"] = 7.into();
    let answer = put(&server, path, &scale).await;
    assert_eq!((answer.code, &answer.body["spec"]["replicas"]), (200, &json!(7)));
    assert_eq!(
        server.get("deployments.apps", "default", "d").unwrap()["spec"]["replicas"],
        7
    );
    let stale = put(&server, path, &scale).await;
    assert_eq!((stale.code, stale.reason()), (409, "Conflict"));
    assert_eq!(get(&server, "/api/v1/namespaces/default/pods/p/scale").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn resize_takes_resources_alone() {
    let server = TestServer::new();
    let mut made = pod("a", "p");
    made["spec"] = json!({"containers": [{"name": "c", "image": "i"}]});
    server.create(made).unwrap();
    let wanted =
        json!({"spec": {"containers": [{"name": "c", "image": "other", "resources": {"limits": {"cpu": "2"}}}]}});
    let resized = patch(&server, STRATEGIC, "/api/v1/namespaces/a/pods/p/resize", &wanted).await;
    let container = &resized.body["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["resources"]["limits"]["cpu"]),
        (&json!("i"), &json!("2")),
        "{}",
        resized.body
    );
}
