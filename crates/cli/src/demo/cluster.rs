//! The cluster of the demo: the embedded API server on loopback, the admission plugin in it, and the controller beside it.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kubequota_cluster::error::Target;
use kubequota_cluster::{ApiError, Call, ClientOptions, Cluster};
use kubequota_controller::Options;
use kubequota_shell::{Drain, Readiness, Shell};
use kubequota_testserver::{Listening, QuotaPlugin, TestServer};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::DemoError;

/// The server is in this process: an answer that takes this long will not come.
const DEADLINE: Duration = Duration::from_secs(10);

/// How long anything may take to come about.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked at meanwhile: what is measured is as exact as this.
const LOOK: Duration = Duration::from_millis(1);

/// How long the controller may take to stop.
const GRACE: Duration = Duration::from_secs(5);

/// What the demo's own requests call themselves.
const AGENT: &str = "kubequota-demo";

/// All of it, at work.
pub(super) struct Demo {
    pub(super) server: TestServer,
    pub(super) readiness: Readiness,
    pub(super) kubeconfig: Kubeconfig,
    listening: Listening,
    client: Cluster,
    controller: JoinHandle<bool>,
    drain: Drain,
}

impl Demo {
    /// Starts it. The server is reached as any other is: over a socket, by a kubeconfig.
    pub(super) async fn start(port: u16, kubeconfig: Option<&Path>, drain: &Drain) -> Result<Self, DemoError> {
        let server = TestServer::builder().epoch(Timestamp::now()).user("demo").build();
        server.admitter(QuotaPlugin::new());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listening = server.listen(address).await;
        let listening = listening.map_err(|source| DemoError::Listen { address, source })?;
        let kubeconfig = Kubeconfig::write(kubeconfig, &listening.url())?;
        let options = |user_agent: String, qps: f32| ClientOptions {
            kubeconfig: Some(kubeconfig.path.clone()),
            user_agent,
            qps,
            ..ClientOptions::default()
        };
        let defaults = ClientOptions::default();
        let unmeasured = |_: &str| tower::layer::util::Identity::new();
        let client = Cluster::connect(&options(AGENT.to_owned(), 0.0), unmeasured).await?;
        let shell = Shell {
            drain: drain.clone(),
            ..Shell::new(env!("CARGO_PKG_VERSION"))
        };
        let own = options(defaults.user_agent, defaults.qps);
        let readiness = shell.readiness.clone();
        let cluster = Cluster::connect(&own, |host| shell.metrics.rest_client.layer(host)).await?;
        Ok(Demo {
            server,
            readiness,
            kubeconfig,
            listening,
            client,
            controller: tokio::spawn(kubequota_controller::run(Options::default(), cluster, shell)),
            drain: drain.clone(),
        })
    }

    /// Where the server is.
    pub(super) fn url(&self) -> String {
        self.listening.url()
    }

    /// Ends it. The controller finishes what is in its hands.
    pub(super) async fn stop(self) -> Result<(), DemoError> {
        let told = self.drain.wait(GRACE).await;
        told.map_err(|late| DemoError::Unexpected(late.to_string()))?;
        match self.controller.await {
            Ok(true) => self.kubeconfig.remove(),
            _ => Err(DemoError::Unexpected("the controller ended by itself".to_owned())),
        }
    }

    async fn send(
        &self,
        verb: &'static str,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, ApiError> {
        let call = Call {
            verb,
            target: Target::Path(path.to_owned()),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json");
        if let Some((content_type, _)) = body {
            request = request.header("content-type", content_type);
        }
        let body = body.map(|(_, body)| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(body).map_err(|source| ApiError::Invalid {
            call: Box::new(call.clone()),
            source,
        })?;
        let answer = self.client.request(&call, request, DEADLINE).await?;
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send("get", "GET", path, None).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Value, ApiError> {
        self.send("delete", "DELETE", path, None).await
    }

    pub(super) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        self.send("patch", "PATCH", path, Some(("application/merge-patch+json", patch)))
            .await
    }

    /// Creates an object where discovery says that its kind lives.
    pub(super) async fn create(&self, object: &Value) -> Result<Value, DemoError> {
        let path = self.path(object).await?;
        Ok(self
            .send("create", "POST", &path, Some(("application/json", object)))
            .await?)
    }

    /// The path of the collection that an object belongs to.
    async fn path(&self, object: &Value) -> Result<String, DemoError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let root = if version.contains('/') { "apis" } else { "api" };
        let base = format!("/{root}/{version}");
        let served = self.get(&base).await?;
        let found = served["resources"].as_array().into_iter().flatten();
        let found = found
            .filter(|resource| resource["kind"] == kind.as_str())
            .find(|resource| !text(&resource["name"]).contains('/'));
        let Some(resource) = found else {
            let why = format!("the server has no {kind} in {version}");
            return Err(DemoError::Unexpected(why));
        };
        let plural = text(&resource["name"]);
        Ok(match resource["namespaced"].as_bool() {
            Some(true) => format!("{base}/namespaces/{}/{plural}", text(&object["metadata"]["namespace"])),
            _ => format!("{base}/{plural}"),
        })
    }

    /// Waits until `probe` finds something, and says how long that took.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        mut probe: impl AsyncFnMut(&Self) -> Result<Option<T>, DemoError>,
    ) -> Result<(T, Duration), DemoError> {
        let began = Instant::now();
        loop {
            if let Some(found) = probe(self).await? {
                return Ok((found, began.elapsed()));
            }
            if self.controller.is_finished() {
                return Err(DemoError::Unexpected("the controller ended by itself".to_owned()));
            }
            if began.elapsed() > PATIENCE {
                return Err(DemoError::Late {
                    what: what.to_owned(),
                    after: PATIENCE,
                });
            }
            sleep(LOOK).await;
        }
    }

    /// How many requests the controller has sent, and how many of them were writes.
    pub(super) fn controllers_requests(&self) -> (usize, usize) {
        let requests = self.server.requests();
        let own: Vec<_> = requests
            .iter()
            .filter(|request| !request.user_agent.contains(AGENT) && request.user_agent.starts_with("kubequota/"))
            .collect();
        (own.len(), own.iter().filter(|request| request.writes()).count())
    }
}

/// A kubeconfig for the server, gone when the demo ends.
pub(super) struct Kubeconfig {
    pub(super) path: PathBuf,
    /// The folder that was made for it.
    folder: Option<PathBuf>,
}

impl Kubeconfig {
    /// Writes it to where it is wanted, else to a folder of its own. A file that is there is left alone.
    fn write(wanted: Option<&Path>, url: &str) -> Result<Self, DemoError> {
        let mut kubeconfig = Kubeconfig {
            path: PathBuf::new(),
            folder: None,
        };
        kubeconfig.path = match wanted {
            Some(path) => path.to_owned(),
            None => {
                let folder = std::env::temp_dir().join(format!("kubequota-demo-{}", std::process::id()));
                fs::create_dir(&folder).map_err(|source| DemoError::file(&folder, source))?;
                kubeconfig.folder = Some(folder.clone());
                folder.join("kubeconfig")
            }
        };
        let text = format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - {{name: kubequota-demo, cluster: {{server: \"{url}\"}}}}\n\
             users:\n\
             - {{name: demo, user: {{}}}}\n\
             contexts:\n\
             - {{name: kubequota-demo, context: {{cluster: kubequota-demo, user: demo, namespace: team-a}}}}\n\
             current-context: kubequota-demo\n"
        );
        let written = fs::File::create_new(&kubeconfig.path).and_then(|mut file| file.write_all(text.as_bytes()));
        match written {
            Ok(()) => Ok(kubeconfig),
            Err(source) => Err(DemoError::file(&std::mem::take(&mut kubeconfig.path), source)),
        }
    }

    /// Takes it away.
    fn remove(mut self) -> Result<(), DemoError> {
        let path = std::mem::take(&mut self.path);
        let removed = fs::remove_file(&path).or_else(|error| match error.kind() {
            // Somebody else has.
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        removed.map_err(|source| DemoError::file(&path, source))
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // A file that is left over does no harm, and here there is nobody to be told.
        if !self.path.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.path);
        }
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir(folder);
        }
    }
}
