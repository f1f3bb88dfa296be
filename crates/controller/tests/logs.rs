//! What the log says of a server that was away: few lines, however many kinds are watched and quotas written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::sync::Arc;
use std::time::Duration;

use kubequota_cluster::{ClientOptions, Cluster};
use kubequota_controller::Options;
use kubequota_shell::Shell;
use kubequota_testserver::{Action, Fault, TestServer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the messages that people see by default.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("kubequota")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = event.metadata().level().to_string();
        event.record(&mut Message(&mut line));
        self.0.lock().push(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            *self.0 = format!("{} {value:?}", self.0);
        }
    }
}

fn object(kind: &str, namespace: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

/// A controller with twenty quotas of four kinds, and what it has logged since it was at rest.
async fn at_rest() -> (TestServer, Lines, tracing::subscriber::DefaultGuard) {
    let lines = Lines::default();
    let guard = tracing::subscriber::set_default(lines.clone());
    let server = TestServer::new();
    for number in 0..20 {
        let namespace = format!("n{number}");
        server
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .unwrap();
        let hard = json!({"pods": "5", "services": "5", "count/configmaps": "5", "count/secrets": "5"});
        server
            .create(object(
                "ResourceQuota",
                &namespace,
                "q",
                &json!({"spec": {"hard": hard}}),
            ))
            .unwrap();
    }
    let client = kube::Client::new(server.router(), "default");
    let cluster = Cluster::from_client(client, &ClientOptions::default());
    tokio::spawn(kubequota_controller::run(
        Options::default(),
        cluster,
        Shell::new("test"),
    ));
    sleep(Duration::from_secs(60)).await;
    lines.0.lock().clear();
    (server, lines, guard)
}

/// Every quota has something to be written.
fn use_all(server: &TestServer, name: &str) {
    for number in 0..20 {
        server
            .create(object("ConfigMap", &format!("n{number}"), name, &json!({})))
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_gives_two_lines() {
    let (server, lines, _guard) = at_rest().await;
    use_all(&server, "before");
    server.down();
    sleep(Duration::from_secs(20)).await;
    // At first it refuses everything, and then it has lost its history.
    for resource in ["pods", "services", "configmaps", "secrets", "resourcequotas"] {
        server.fault(Fault::new(Action::Forbidden).resource(resource).verb("watch").once());
        server.fault(Fault::new(Action::Expired).resource(resource).verb("watch").once());
    }
    server.up();
    sleep(Duration::from_secs(120)).await;
    let lines = lines.0.lock().clone();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].starts_with("WARN no answer from the server: "), "{lines:?}");
    assert_eq!(lines[1], "INFO the server answers again");
}

#[tokio::test(start_paused = true)]
async fn writes_without_an_answer_are_told_once_for_all_quotas() {
    let (server, lines, _guard) = at_rest().await;
    let fault = server.fault(Fault::new(Action::Unavailable).resource("resourcequotas").verb("patch"));
    use_all(&server, "x");
    sleep(Duration::from_secs(120)).await;
    server.clear_fault(fault);
    sleep(Duration::from_secs(60)).await;
    let lines = lines.0.lock().clone();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].starts_with("WARN they are sent again until"), "{lines:?}");
    assert_eq!(lines[1], "INFO all right again");
}

#[tokio::test(start_paused = true)]
async fn what_stays_broken_is_told_and_so_is_its_end() {
    let (server, lines, _guard) = at_rest().await;
    let fault = server.fault(Fault::new(Action::Forbidden).resource("pods"));
    server.compact();
    server.set_watches("pods", kubequota_testserver::WatchMode::Dropped);
    sleep(Duration::from_secs(120)).await;
    server.clear_fault(fault);
    sleep(Duration::from_secs(120)).await;
    let lines = lines.0.lock().clone();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(
        lines[0].starts_with("WARN may not watch pods: grant verb watch"),
        "{lines:?}"
    );
    assert_eq!(lines[1], "INFO listed and watched again");
}
