//! Bodies in protobuf, as Kubernetes' own clients send them.

use kubequota_testserver::{Kind, TestServer};
use serde_json::json;

use crate::client::{Answer, get, send};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn protobuf(server: &TestServer, method: &str, path: &str, body: &str) -> Answer {
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    send(server, method, path, &headers, body).await.unwrap()
}

/// An envelope around a ConfigMap that has only a name, of one letter.
fn map(name: char, data: &str) -> String {
    let length = char::from(5 + data.len() as u8);
    format!("k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12{length}\x0a\x03\x0a\x01{name}{data}")
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_and_replaced() {
    let server = TestServer::new();
    let created = protobuf(&server, "POST", MAPS, &map('c', "\x12\x06\x0a\x01k\x12\x01v")).await;
    assert_eq!((created.code, &created.body["data"]), (201, &json!({"k": "v"})));
    let replaced = protobuf(&server, "PUT", &format!("{MAPS}/c"), &map('c', "")).await;
    assert_eq!((replaced.code, replaced.body.get("data")), (200, None));
    assert_eq!(
        protobuf(&server, "PUT", &format!("{MAPS}/c"), &map('d', "")).await.code,
        400
    );
    assert_eq!(
        get(&server, &format!("{MAPS}/c")).await.body["kind"],
        "ConfigMap",
        "answers are JSON"
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_refused() {
    let server = TestServer::new();
    for (body, message) in [
        (
            "",
            "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)",
        ),
        (
            "nonsense",
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message, \
             expected prefix [107 56 115 0] (6e6f6e73656e7365)",
        ),
        (
            "k8s\0\x12\x01\x0a",
            r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: it ends within a field"#,
        ),
    ] {
        let refused = protobuf(&server, "POST", MAPS, body).await;
        assert_eq!((refused.code, refused.message()), (400, message));
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_have_options() {
    let server = TestServer::new();
    protobuf(&server, "POST", MAPS, &map('c', "")).await;
    // Preconditions with the uid "x".
    let options = "k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x05\x12\x03\x0a\x01x";
    let path = format!("{MAPS}/c");
    assert_eq!(protobuf(&server, "DELETE", &path, options).await.code, 409);
    assert_eq!(protobuf(&server, "DELETE", &path, "nonsense").await.code, 400);
    assert_eq!(protobuf(&server, "DELETE", &path, "k8s\0\x12\x00").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_have_no_messages() {
    let server = TestServer::new();
    server.add_kind(Kind::new("example.com", "v1", "Widget", "widgets"));
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let refused = protobuf(&server, "POST", widgets, "k8s\0\x12\x00").await;
    assert_eq!((refused.code, refused.reason()), (415, "UnsupportedMediaType"));
    // Options do.
    let gone = protobuf(&server, "DELETE", &format!("{widgets}/none"), "k8s\0\x12\x00").await;
    assert_eq!(gone.code, 404);
}
