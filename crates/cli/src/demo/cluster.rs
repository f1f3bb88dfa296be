//! The cluster of the demo: the embedded API server on loopback, and beside it kubequota, controller and webhook, as `kubequota run` has them.

use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kubequota_admission::certificates::OwnOptions;
use kubequota_admission::configuration::{self, Address};
use kubequota_admission::serve::{HttpsError, HttpsOptions};
use kubequota_admission::start::{self, CertificateOptions, StartError, Webhook};
use kubequota_cluster::error::Target;
use kubequota_cluster::{ApiError, Call, ClientOptions, Cluster};
use kubequota_controller::Options;
use kubequota_core::decision::LimitedResources;
use kubequota_shell::{Drain, Readiness, Shell};
use kubequota_testserver::{Listening, TestServer};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::DemoError;
use crate::controller::Enforcer;

/// The server is in this process: an answer that takes this long will not come.
const DEADLINE: Duration = Duration::from_secs(10);

/// How long anything may take to come about.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked at meanwhile: what is measured is as exact as this.
const LOOK: Duration = Duration::from_millis(1);

/// How long kubequota may take to stop.
const GRACE: Duration = Duration::from_secs(5);

/// kubequota's own namespace, as in `deploy/`.
const NAMESPACE: &str = "kubequota-system";

/// So many ports are tried for the webhook.
const PORTS: u32 = 5;

/// What the demo's own requests call themselves.
const AGENT: &str = "kubequota-demo";

/// All of it, at work.
pub(super) struct Demo {
    pub(super) server: TestServer,
    pub(super) readiness: Readiness,
    pub(super) kubeconfig: Kubeconfig,
    listening: Listening,
    client: Cluster,
    kubequota: JoinHandle<bool>,
    drain: Drain,
}

impl Demo {
    /// Starts it. The server is reached as any other is: over a socket, by a kubeconfig.
    pub(super) async fn start(port: u16, kubeconfig: Option<&Path>, drain: &Drain) -> Result<Self, DemoError> {
        let server = TestServer::builder().epoch(Timestamp::now()).user("demo").build();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let made = server.create(namespace);
        made.map_err(|status| DemoError::Unexpected(status.message))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listening = server.listen(address).await;
        let listening = listening.map_err(|source| DemoError::Listen { address, source })?;
        let kubeconfig = Kubeconfig::write(kubeconfig, &listening.url())?;
        // Nobody else uses the server, so nobody is held back.
        let options = |user_agent: String| ClientOptions {
            kubeconfig: Some(kubeconfig.path.clone()),
            user_agent,
            qps: 0.0,
            ..ClientOptions::default()
        };
        let unmeasured = |_: &str| tower::layer::util::Identity::new();
        let client = Cluster::connect(&options(AGENT.to_owned()), unmeasured).await?;
        let shell = Shell {
            drain: drain.clone(),
            ..Shell::new(env!("CARGO_PKG_VERSION"))
        };
        let own = options(ClientOptions::default().user_agent);
        let cluster = Cluster::connect(&own, |host| shell.metrics.rest_client.layer(host)).await?;
        let mut webhook = webhook(&cluster, &shell).await?;
        Ok(Demo {
            server,
            readiness: shell.readiness.clone(),
            kubeconfig,
            listening,
            client,
            kubequota: tokio::spawn(async move {
                let controller =
                    kubequota_controller::run_and_feed(controller_options(), cluster, shell, webhook.feed());
                let ((controller, _quotas), webhook) = tokio::join!(controller, webhook.run());
                webhook && controller
            }),
            drain: drain.clone(),
        })
    }

    /// Where the server is.
    pub(super) fn url(&self) -> String {
        self.listening.url()
    }

    /// Ends it. kubequota finishes what is in its hands.
    pub(super) async fn stop(self) -> Result<(), DemoError> {
        let told = self.drain.wait(GRACE).await;
        told.map_err(|late| DemoError::Unexpected(late.to_string()))?;
        match self.kubequota.await {
            Ok(true) => self.kubeconfig.remove(),
            _ => Err(DemoError::Unexpected("kubequota ended by itself".to_owned())),
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
            if self.kubequota.is_finished() {
                return Err(DemoError::Unexpected("kubequota ended by itself".to_owned()));
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

    /// How many requests kubequota has sent, and how many of them were writes of a quota's status.
    pub(super) fn kubequotas_requests(&self) -> (usize, usize) {
        let requests = self.server.requests();
        let own: Vec<_> = requests
            .iter()
            .filter(|request| !request.user_agent.contains(AGENT) && request.user_agent.starts_with("kubequota/"))
            .collect();
        let writes = own
            .iter()
            .filter(|request| request.writes() && request.resource == "resourcequotas");
        (own.len(), writes.count())
    }
}

fn controller_options() -> Options {
    Options {
        admission_grace: Enforcer::Webhook.usual_grace(),
        enforcement_patience: Enforcer::Webhook.patience(),
        ..Options::default()
    }
}

/// The webhook, at a URL on loopback: it makes its own certificates, and tells the server of itself.
async fn webhook(cluster: &Cluster, shell: &Shell) -> Result<Webhook, DemoError> {
    for _ in 1..PORTS {
        match webhook_at(free_port()?, cluster, shell).await {
            // Somebody was faster.
            Err(StartError::Https(HttpsError::Listen(_))) => {}
            started => return Ok(started?),
        }
    }
    Ok(webhook_at(free_port()?, cluster, shell).await?)
}

async fn webhook_at(port: u16, cluster: &Cluster, shell: &Shell) -> Result<Webhook, StartError> {
    let address = Address::Url(format!("https://{}:{port}", Ipv4Addr::LOCALHOST));
    let options = start::Options {
        https: HttpsOptions {
            bind_address: Ipv4Addr::LOCALHOST.into(),
            port,
            // There is one server, and it ends with this.
            shutdown_delay: Duration::ZERO,
            ..HttpsOptions::default()
        },
        certificates: CertificateOptions::Own(OwnOptions::new(NAMESPACE, vec![address.host()])),
        clients: None,
        limited: LimitedResources::default(),
        configuration: configuration::Options {
            namespace: NAMESPACE.to_owned(),
            ..configuration::Options::new(address)
        },
    };
    Webhook::start(options, cluster.clone(), shell.clone()).await
}

/// A port of loopback that is free now: the webhook's URL has it before the webhook listens.
fn free_port() -> Result<u16, DemoError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let found = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    let found = found.map_err(|source| DemoError::Listen { address, source })?;
    Ok(found.port())
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
