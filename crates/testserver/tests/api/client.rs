//! The barest of clients.

use axum::body::{Body, BodyDataStream, to_bytes};
use futures::StreamExt;
use http::{HeaderMap, Request};
use kubequota_testserver::TestServer;
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    /// The body; a text that is no JSON as a string.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.body["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .collect()
    }
}

pub(crate) async fn send(
    server: &TestServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<Answer> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = server
        .router()
        .oneshot(request.body(Body::from(body.to_owned())).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.ok()?;
    let text = || String::from_utf8_lossy(&bytes).into_owned().into();
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
    Some(Answer {
        code: parts.status.as_u16(),
        headers: parts.headers,
        body,
    })
}

pub(crate) async fn get(server: &TestServer, path: &str) -> Answer {
    send(server, "GET", path, &[], "").await.unwrap()
}

pub(crate) async fn post(server: &TestServer, path: &str, body: &Value) -> Answer {
    send(server, "POST", path, &[], &body.to_string()).await.unwrap()
}

pub(crate) async fn put(server: &TestServer, path: &str, body: &Value) -> Answer {
    send(
        server,
        "PUT",
        path,
        &[("content-type", "application/json")],
        &body.to_string(),
    )
    .await
    .unwrap()
}

pub(crate) async fn merge(server: &TestServer, path: &str, body: &Value) -> Answer {
    send(
        server,
        "PATCH",
        path,
        &[("content-type", "application/merge-patch+json")],
        &body.to_string(),
    )
    .await
    .unwrap()
}

pub(crate) async fn delete(server: &TestServer, path: &str) -> Answer {
    send(server, "DELETE", path, &[], "").await.unwrap()
}

pub(crate) fn pod(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}})
}

/// A server with some pods in the namespace `a`.
pub(crate) fn with_pods(names: &[&str]) -> TestServer {
    let server = TestServer::new();
    for name in names {
        server.create(pod("a", name)).unwrap();
    }
    server
}

/// A running watch.
pub(crate) struct Watch {
    stream: BodyDataStream,
    buffer: Vec<u8>,
}

impl Watch {
    pub(crate) async fn open(server: &TestServer, path: &str) -> Self {
        Self::open_as(server, path, "").await
    }

    pub(crate) async fn open_as(server: &TestServer, path: &str, accept: &str) -> Self {
        let request = Request::builder()
            .uri(path)
            .header("accept", accept)
            .body(Body::empty())
            .unwrap();
        let response = server.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self {
            stream: response.into_body().into_data_stream(),
            buffer: Vec::new(),
        }
    }

    /// The next event; none when the watch ended, an error when it broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, ()> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).unwrap()));
            }
            match self.stream.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(_)) => return Err(()),
                None => return Ok(None),
            }
        }
    }

    /// The next event as `TYPE name`.
    pub(crate) async fn brief(&mut self) -> String {
        let event = self.next().await.unwrap().unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap())
            .trim_end()
            .to_owned()
    }

    /// Whether nothing comes for an hour.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(std::time::Duration::from_secs(3600), self.next())
            .await
            .is_err()
    }
}
