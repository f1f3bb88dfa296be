//! What the tests here share.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use kubequota_testserver::TestServer;
use serde_json::{Value, json};

use crate::client::{ClientOptions, Cluster};
use crate::resource::ApiResource;

fn options() -> ClientOptions {
    ClientOptions {
        qps: 0.0,
        request_timeout: Duration::from_secs(60),
        ..ClientOptions::default()
    }
}

/// A client of a test server, without a rate limit.
pub(crate) fn cluster(server: &TestServer) -> Cluster {
    Cluster::from_client(kube::Client::new(server.router(), "default"), &options())
}

/// A client of a server that answers path and query with this text.
pub(crate) fn stub(answer: impl Fn(&str) -> String + Clone + Send + Sync + 'static) -> Cluster {
    stub_of(move |path| Response::new(answer(path)))
}

/// A client of a server that answers path and query like this.
pub(crate) fn stub_of(answer: impl Fn(&str) -> Response<String> + Clone + Send + Sync + 'static) -> Cluster {
    let service = tower::service_fn(move |request: Request<Body>| {
        let response = answer(&request.uri().to_string());
        async move { Ok::<_, Infallible>(response) }
    });
    Cluster::from_client(kube::Client::new(service, "default"), &options())
}

pub(crate) fn pods() -> ApiResource {
    ApiResource::new("", "v1", "pods", "Pod", true)
}

pub(crate) fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    })
}

pub(crate) fn quota(namespace: &str, name: &str, hard: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": namespace, "name": name, "labels": {"kept": "yes"}},
        "spec": {"hard": hard},
    })
}
