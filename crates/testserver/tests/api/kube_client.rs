//! The same through kube, and over a socket.

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};
use kubequota_testserver::{Action, Fault, TestServer};
use serde_json::json;

use crate::client::{pod, with_pods};

fn client(server: &TestServer) -> Client {
    Client::new(server.router(), "default")
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn list_pages_and_expiry() {
    let server = with_pods(&["a", "b", "c"]);
    let pods: Api<Pod> = Api::all(client(&server));
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(
        first.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        ["a", "b"]
    );
    let token = first.metadata.continue_.unwrap();
    let rest = pods
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .unwrap();
    assert_eq!(rest.items[0].name_any(), "c");
    server.create(pod("a", "d")).unwrap();
    server.compact();
    let expired = pods
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .unwrap_err();
    assert_eq!(code(&expired), Some(410));
}

#[tokio::test(start_paused = true)]
async fn metadata_lists_and_single_objects() {
    let server = with_pods(&["a"]);
    let pods: Api<Pod> = Api::namespaced(client(&server), "a");
    assert_eq!(
        pods.list_metadata(&ListParams::default()).await.unwrap().items[0].name_any(),
        "a"
    );
    let one: PartialObjectMeta<Pod> = pods.get_metadata("a").await.unwrap();
    assert_eq!(one.name_any(), "a");
    assert!(pods.get_opt("none").await.unwrap().is_none());
    let created = serde_json::from_value(json!({"metadata": {"name": "b"}})).unwrap();
    assert_eq!(
        code(&pods.create(&PostParams::default(), &created).await.unwrap_err()),
        Some(404),
        "no such namespace"
    );
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_and_its_410() {
    let server = with_pods(&["a"]);
    let pods: Api<Pod> = Api::all(client(&server));
    let start = server.revision().to_string();
    server.create(pod("a", "b")).unwrap();
    let mut watch = Box::pin(pods.watch(&WatchParams::default(), &start).await.unwrap());
    let event = watch.try_next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Added(pod) if pod.name_any() == "b"));
    server.bookmark();
    let event = watch.try_next().await.unwrap().unwrap();
    assert!(
        matches!(event, WatchEvent::Bookmark(mark) if mark.metadata.resource_version == server.revision().to_string())
    );
    server.drop_watches("pods");
    assert!(watch.try_next().await.is_err());
    server.compact();
    let mut late = Box::pin(pods.watch(&WatchParams::default(), &start).await.unwrap());
    let event = late.try_next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Error(status) if status.code == 410));
    let mut metadata = Box::pin(pods.watch_metadata(&WatchParams::default(), "0").await.unwrap());
    let event = metadata.try_next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Added(pod) if pod.name_any() == "a"));
    let streamed = WatchParams::default().initial_events();
    let mut streamed = Box::pin(pods.watch(&streamed, "").await.unwrap());
    let mut marked = false;
    while !marked {
        if let WatchEvent::Bookmark(mark) = streamed.try_next().await.unwrap().unwrap() {
            marked = mark.metadata.annotations.contains_key("k8s.io/initial-events-end");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_patch_conflicts() {
    let server = TestServer::new();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
    let version = server.create(quota).unwrap()["metadata"]["resourceVersion"].clone();
    let quotas: Api<ResourceQuota> = Api::default_namespaced(client(&server));
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": {"used": {"pods": "1"}}}));
    let parameters = PatchParams::default();
    let patched = quotas.patch_status("q", &parameters, &patch).await.unwrap();
    assert_eq!(patched.status.unwrap().used.unwrap()["pods"].0, "1");
    let again = quotas.patch_status("q", &parameters, &patch).await.unwrap_err();
    assert_eq!(code(&again), Some(409));
    server.fault(Fault::new(Action::LoseAnswer).verb("patch").once());
    let blind = Patch::Merge(json!({"status": {"used": {"pods": "0"}}}));
    let lost = quotas.patch_status("q", &parameters, &blind).await.unwrap_err();
    assert_eq!(code(&lost), None, "a broken connection, no answer");
    assert_eq!(
        server.get("resourcequotas", "default", "q").unwrap()["status"]["used"]["pods"],
        "0"
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_as_kube_does_it() {
    let server = TestServer::new();
    let client = client(&server);
    assert_eq!(client.apiserver_version().await.unwrap().minor, "37");
    let discovered = kube::discovery::Discovery::new(client.clone()).run().await.unwrap();
    assert!(
        discovered
            .get("apps")
            .unwrap()
            .recommended_resources()
            .iter()
            .any(|(kind, _)| kind.plural == "deployments")
    );
    let aggregated = kube::discovery::Discovery::new(client).run_aggregated().await.unwrap();
    assert!(aggregated.has_group("batch"));
}

#[tokio::test]
async fn over_a_socket_too() {
    let server = with_pods(&["a"]);
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let pods: Api<Pod> = {
        let mut config = kube::Config::new(listening.url().parse().unwrap());
        config.default_namespace = "a".into();
        Api::default_namespaced(Client::try_from(config).unwrap())
    };
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let mut watch = Box::pin(pods.watch(&WatchParams::default(), "0").await.unwrap());
    assert!(matches!(watch.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
    server.drop_watches("pods");
    // kube takes a connection that broke for the end of the watch.
    assert!(!matches!(watch.try_next().await, Ok(Some(_))));
    server.fault(Fault::new(Action::LoseAnswer).verb("delete").once());
    let lost = pods.delete("a", &DeleteParams::default()).await.unwrap_err();
    assert_eq!(code(&lost), None);
    assert!(server.get("pods", "a", "a").is_none());
}
