//! `kubequota demo` as a user runs it.

#![cfg(feature = "demo")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Request;
use kubequota_cluster::error::Target;
use kubequota_cluster::{ApiError, Call, ClientOptions, Cluster};
use serde_json::{Value, json};

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubequota"));
    command.arg("demo").args(args).stdin(Stdio::null());
    command
}

#[test]
fn it_ends_well_and_fits_on_a_terminal() {
    let output = demo(&[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "too long: {line}");
        assert!(!line.contains('\x1b'), "colours without a terminal: {line}");
    }
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Refused by kubequota's webhook, and not by a plugin of the server.
    let refused = "admission webhook \"quota.kubequota.dev\" denied the request: pods \"web-";
    assert!(one_line.contains(refused), "{text}");
    assert!(
        one_line.contains("\" is forbidden: exceeded quota: compute, requested:"),
        "{text}"
    );
    assert!(one_line.contains("ask its webhook, https://127.0.0.1:"), "{text}");
    assert!(text.contains("quotas, 24 names: no drift"), "{text}");
    // What was recorded is what a recount of the objects gives, and no more than the limit.
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("RESOURCE"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|columns| columns.len() == 5 && columns[4] == "0")
        .collect();
    assert_eq!(rows.len(), 24, "{text}");
    for row in rows {
        assert_eq!(row[2], row[3], "{row:?}");
    }
}

/// A demo that is kept up; killed if the test fails.
struct Serving {
    child: Child,
    kubeconfig: PathBuf,
    cluster: Cluster,
}

impl Serving {
    async fn start() -> Self {
        let kubeconfig = std::env::temp_dir().join(format!("kubequota-test-{}.kubeconfig", std::process::id()));
        let mut child = demo(&["--serve", "--kubeconfig", kubeconfig.to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines
            .map_while(Result::ok)
            .find(|line| line.trim_start().starts_with("export KUBECONFIG="));
        assert!(
            told.unwrap().ends_with(kubeconfig.to_str().unwrap()),
            "another kubeconfig"
        );
        let options = ClientOptions {
            kubeconfig: Some(kubeconfig.clone()),
            ..ClientOptions::default()
        };
        let cluster = Cluster::connect(&options, |_| tower::layer::util::Identity::new()).await;
        Serving {
            child,
            kubeconfig,
            cluster: cluster.unwrap(),
        }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.answer(method, path, body).await.unwrap()
    }

    async fn answer(&self, method: &str, path: &str, body: &Value) -> Result<Value, ApiError> {
        let call = Call {
            verb: "test",
            target: Target::Path(path.to_owned()),
        };
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(if body.is_null() {
                Vec::new()
            } else {
                body.to_string().into_bytes()
            })
            .unwrap();
        let answer = self.cluster.request(&call, request, Duration::from_secs(10)).await?;
        Ok(serde_json::from_slice(&answer.body).unwrap())
    }

    async fn until_used(&self, path: &str, expected: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let quota = self.send("GET", path, &Value::Null).await;
            if expected(&quota["status"]["used"]) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "used is {}", quota["status"]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

#[tokio::test]
async fn what_is_changed_through_its_api_is_followed() {
    let mut serving = Serving::start().await;
    let compute = "/api/v1/namespaces/team-a/resourcequotas/compute";
    let pods = "/api/v1/namespaces/team-a/pods";

    // An edited quota: the new name is counted.
    let edit = json!({"spec": {"hard": {"count/pods": "50"}}});
    serving.send("PATCH", compute, &edit).await;
    let stored = serving.send("GET", pods, &Value::Null).await;
    let stored = stored["items"].as_array().unwrap().len();
    let (all, one_less) = (json!(stored.to_string()), json!((stored - 1).to_string()));
    serving.until_used(compute, |used| used["count/pods"] == all).await;
    // It came into force by the webhook's word, and not because nobody gave it.
    let quota = serving.send("GET", compute, &Value::Null).await;
    let said = quota["metadata"]["annotations"]["quota.kubequota.dev/enforced"].to_string();
    assert!(said.contains(" count/pods "), "{said}");

    // A deleted pod: its share comes back.
    serving.send("DELETE", &format!("{pods}/db-0"), &Value::Null).await;
    serving.until_used(compute, |used| used["count/pods"] == one_less).await;

    // One more than the quota allows is refused, for as long as the server is told to ask the webhook.
    let services = "/api/v1/namespaces/team-a/services";
    let second = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "second"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    let refused = serving.answer("POST", services, &second).await.unwrap_err().to_string();
    let denied = "admission webhook \"quota.kubequota.dev\" denied the request: services \"second\" is forbidden: exceeded quota: objects, ";
    assert!(refused.contains(denied), "{refused}");
    let configuration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kubequota";
    serving.send("DELETE", configuration, &Value::Null).await;
    serving.send("POST", services, &second).await;

    // Ctrl-C ends it, and leaves no kubeconfig behind.
    let interrupted = Command::new("kill")
        .args(["-INT", &serving.child.id().to_string()])
        .status();
    assert!(interrupted.unwrap().success());
    assert!(serving.child.wait().unwrap().success());
    assert!(!serving.kubeconfig.exists());
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let output = demo(&["--kubeconfig", env!("CARGO_MANIFEST_DIR")]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("name one that does not exist"), "{told}");
}
