//! Discovery.

use kubequota_testserver::{GroupHealth, Kind, TestServer};
use serde_json::{Value, json};

use crate::client::{get, send};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

fn named<'a>(items: &'a Value, field: &str, name: &str) -> &'a Value {
    items
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item.pointer(field).unwrap_or(&Value::Null) == name)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn groups_versions_and_kinds() {
    let server = TestServer::builder().minor_version(34).build();
    server.add_kind(
        Kind::new("example.com", "v2", "Widget", "widgets")
            .version("v1")
            .short_name("wd"),
    );
    assert_eq!(get(&server, "/version").await.body["minor"], "34");
    assert_eq!(get(&server, "/api").await.body["versions"], json!(["v1"]));
    let groups = get(&server, "/apis").await.body;
    let group = named(&groups["groups"], "/name", "example.com");
    assert_eq!(group["preferredVersion"]["groupVersion"], "example.com/v2");
    assert_eq!(
        get(&server, "/apis/example.com").await.body["versions"][1]["version"],
        "v1"
    );
    let core = get(&server, "/api/v1").await.body;
    let quotas = named(&core["resources"], "/name", "resourcequotas");
    assert_eq!(
        (&quotas["namespaced"], &quotas["kind"]),
        (&json!(true), &json!("ResourceQuota"))
    );
    assert_eq!(
        named(&core["resources"], "/name", "resourcequotas/status")["verbs"],
        json!(["get", "patch", "update"])
    );
    let widgets = get(&server, "/apis/example.com/v1").await.body;
    assert_eq!(widgets["groupVersion"], "example.com/v1");
    assert_eq!(widgets["resources"][0]["shortNames"], json!(["wd"]));
    for path in ["/api/v2", "/apis/example.com/v9", "/apis/nonsense", "/apis/nonsense/v1"] {
        assert_eq!(get(&server, path).await.code, 404, "{path}");
    }
    assert_eq!(get(&server, "/readyz").await.body, "ok");
}

#[tokio::test(start_paused = true)]
async fn aggregated_where_accepted() {
    let server = TestServer::new();
    let core = send(&server, "GET", "/api", &[("accept", AGGREGATED)], "")
        .await
        .unwrap();
    assert_eq!(
        core.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let version = &core.body["items"][0]["versions"][0];
    assert_eq!(
        (&version["version"], &version["freshness"]),
        (&json!("v1"), &json!("Current"))
    );
    let quotas = named(&version["resources"], "/resource", "resourcequotas");
    assert_eq!(
        quotas["responseKind"],
        json!({"group": "", "version": "", "kind": "ResourceQuota"}),
        "as upstream leaves out what the path says"
    );
    assert_eq!(quotas["subresources"][0]["subresource"], "status");
    let groups = send(&server, "GET", "/apis", &[("accept", AGGREGATED)], "")
        .await
        .unwrap()
        .body;
    let apps = named(&groups["items"], "/metadata/name", "apps");
    assert_eq!(
        named(&apps["versions"][0]["resources"], "/resource", "deployments")["scope"],
        "Namespaced"
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_can_be_away() {
    let server = TestServer::new();
    server.add_kind(Kind::new("example.com", "v1", "Widget", "widgets"));
    for (health, resources) in [(GroupHealth::Stale, 1), (GroupHealth::Failing, 0)] {
        server.set_group_health("example.com", health);
        let groups = send(&server, "GET", "/apis", &[("accept", AGGREGATED)], "")
            .await
            .unwrap()
            .body;
        let version = &named(&groups["items"], "/metadata/name", "example.com")["versions"][0];
        assert_eq!(version["freshness"], "Stale");
        assert_eq!(version["resources"].as_array().map_or(0, Vec::len), resources);
        assert_eq!(get(&server, "/apis/example.com/v1").await.code, 503);
        assert_eq!(get(&server, "/apis/example.com/v1/widgets").await.code, 503);
        assert_eq!(get(&server, "/apis/apps/v1").await.code, 200);
    }
    server.set_group_health("example.com", GroupHealth::Current);
    assert_eq!(get(&server, "/apis/example.com/v1/widgets").await.code, 200);
}
