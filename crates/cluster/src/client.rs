//! The handle on a server: how it is found, and how one request is sent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Config;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kubequota_wire::{Status, json};
use tokio::time::{Instant, timeout_at};
use tower::util::BoxService;
use tower::{BoxError, Layer, Service};

use crate::clock::ServerClock;
use crate::error::{ApiError, Call, chain};
use crate::limit::Limiter;
use crate::reach::Reach;

/// How to reach a server, and how hard to ask it.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The kubeconfig to use. Without one: `KUBECONFIG`, then `~/.kube/config`, then the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use; its current one if `None`.
    pub context: Option<String>,
    /// Requests a second; no limit where it is zero or less.
    pub qps: f32,
    /// Requests at once.
    pub burst: u32,
    /// How the client calls itself.
    pub user_agent: String,
    /// How long an answer may take, to its end. (The server gives up after 60 s itself.)
    pub request_timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            kubeconfig: None,
            context: None,
            qps: 20.0,
            burst: 30,
            user_agent: concat!("kubequota/", env!("CARGO_PKG_VERSION")).to_owned(),
            request_timeout: Duration::from_secs(60),
        }
    }
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig that was named can't be used.
    #[error("the kubeconfig {} can't be used: {cause}; correct it, or name another one with --kubeconfig (or another context with --context)", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The kubeconfig that the environment gives can't be used.
    #[error(
        "the kubeconfig (KUBECONFIG, else ~/.kube/config) can't be used: {cause}; correct it, or name another one with --kubeconfig (or another context with --context)"
    )]
    DefaultKubeconfig {
        /// What is wrong with it.
        cause: String,
    },
    /// There is no kubeconfig, and this is no pod.
    #[error(
        "no cluster to talk to: there is no kubeconfig ({kubeconfig}) and no pod's service account ({in_cluster}); name a kubeconfig with --kubeconfig, set KUBECONFIG, or run in a pod with a service account"
    )]
    NoConfig {
        /// Why there is no kubeconfig.
        kubeconfig: String,
        /// Why there is no service account.
        in_cluster: String,
    },
    /// No client can be made from the configuration: credentials, certificates or proxy.
    #[error("no client for {server} can be made: {cause}; check the credentials and certificates of its configuration")]
    Client {
        /// The server's address.
        server: String,
        /// Why not.
        cause: String,
    },
}

/// kube's HTTP client with credentials: what a layer for metrics is put on.
pub type HttpStack = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// A server, as one client sees it. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    limiter: Arc<Limiter>,
    clock: Arc<ServerClock>,
    reach: Arc<Reach>,
    request_timeout: Duration,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

/// An answer of success, complete.
#[derive(Clone, Debug)]
pub struct Answer {
    /// When its request was sent.
    pub sent_at: Instant,
    /// The status.
    pub code: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The head of an answer of success, and when its request was sent.
pub(crate) struct Head {
    pub(crate) sent_at: Instant,
    pub(crate) response: Response<Body>,
}

/// No answer that refuses something needs more than this.
const REFUSAL_LIMIT: usize = 1 << 20;

impl Cluster {
    /// A client as the options say. Nothing is sent yet. `layer` is given the server's host and port, and what it
    /// returns sees every request: metrics, or [`tower::layer::util::Identity`] for nothing.
    ///
    /// # Errors
    /// No usable configuration: which, and what to do.
    pub async fn connect<L, B>(options: &ClientOptions, layer: impl FnOnce(&str) -> L) -> Result<Self, ConnectError>
    where
        L: Layer<HttpStack>,
        L::Service: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut config = configuration(options).await?;
        // A request is sent once: whoever asked knows whether it may be sent again.
        config.default_retry = false;
        if let Ok(agent) = HeaderValue::from_str(&options.user_agent) {
            config.headers.push((USER_AGENT, agent));
        }
        let server = config.cluster_url.clone();
        let builder = ClientBuilder::try_from(config).map_err(|error| ConnectError::Client {
            server: server.to_string(),
            cause: chain(&error),
        })?;
        let host = server
            .authority()
            .map_or_else(|| server.to_string(), ToString::to_string);
        Ok(Cluster::from_client(builder.with_layer(&layer(&host)).build(), options))
    }

    /// A handle on a client that is there already; of the options only the rate and the timeout matter. The client
    /// should not retry.
    #[must_use]
    pub fn from_client(client: kube::Client, options: &ClientOptions) -> Self {
        Cluster {
            client,
            limiter: Arc::new(Limiter::new(options.qps, options.burst)),
            clock: Arc::default(),
            reach: Arc::default(),
            request_timeout: options.request_timeout,
        }
    }

    /// The same server with a rate limit of its own, so that what is urgent (a leader's lease) does not wait behind a
    /// thousand lists.
    #[must_use]
    pub fn with_own_rate(&self, qps: f32, burst: u32) -> Self {
        Cluster {
            limiter: Arc::new(Limiter::new(qps, burst)),
            ..self.clone()
        }
    }

    /// The same server without a rate limit, for requests whose turn was waited for.
    #[must_use]
    pub fn without_rate(&self) -> Self {
        self.with_own_rate(0.0, 1)
    }

    /// Waits for a turn under the rate limit. Who sends what grows old waits first, works it out then, and sends it
    /// [without a further wait](Cluster::without_rate).
    pub async fn turn(&self) {
        self.limiter.turn().await;
    }

    /// The server's time.
    #[must_use]
    pub fn clock(&self) -> &Arc<ServerClock> {
        &self.clock
    }

    /// Whether a line in the log says already what this error does: that the server is away.
    #[must_use]
    pub fn is_told(&self, error: &ApiError) -> bool {
        matches!(error, ApiError::Unreachable { .. }) && self.reach.is_away()
    }

    /// The server has answered, whatever it said. The head of an answer alone proves nothing: a proxy may send it before it finds its
    /// server gone.
    pub(crate) fn answered(&self) {
        self.reach.answered();
    }

    /// There was no answer, or it broke off before it said anything.
    pub(crate) fn broke_off(&self, error: &ApiError) {
        if let ApiError::Unreachable { cause, .. } = error {
            self.reach.failed(cause);
        }
    }

    /// How long an answer may take, to its end.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// Sends a request once, and waits for the whole answer, no longer than `deadline` from when its turn has come.
    ///
    /// # Errors
    /// Everything but an answer with a 2xx status.
    pub async fn request(
        &self,
        call: &Call,
        request: Request<Vec<u8>>,
        deadline: Duration,
    ) -> Result<Answer, ApiError> {
        let Head { sent_at, response } = self.open(call, request, deadline).await?;
        let (parts, body) = response.into_parts();
        let body = timeout_at(sent_at + deadline, body.collect()).await;
        let body = body.map_err(|_| ApiError::Timeout {
            call: Box::new(call.clone()),
            after: deadline,
        })?;
        let body = body.map_err(|error| unreachable(call, &error));
        let body = body.inspect_err(|error| self.broke_off(error))?.to_bytes();
        self.answered();
        Ok(Answer {
            sent_at,
            code: parts.status,
            headers: parts.headers,
            body,
        })
    }

    /// Gets a path.
    pub(crate) async fn fetch(&self, call: &Call, path: &str, accept: &'static str) -> Result<Answer, ApiError> {
        self.request(call, request(call, Method::GET, path, accept)?, self.request_timeout)
            .await
    }

    /// Sends a request once, and waits for the head of the answer.
    pub(crate) async fn open(
        &self,
        call: &Call,
        request: Request<Vec<u8>>,
        deadline: Duration,
    ) -> Result<Head, ApiError> {
        let request = request.map(Body::from);
        self.limiter.turn().await;
        let sent_at = Instant::now();
        let ends = sent_at + deadline;
        let response = timeout_at(ends, self.client.send(request)).await;
        let response = response.map_err(|_| ApiError::Timeout {
            call: Box::new(call.clone()),
            after: deadline,
        })?;
        let response = response
            .map_err(|error| unreachable(call, &error))
            .inspect_err(|error| self.broke_off(error))?;
        self.clock.learn(response.headers());
        if response.status().is_success() {
            return Ok(Head { sent_at, response });
        }
        let (parts, body) = response.into_parts();
        // The code alone says enough, should the rest not come.
        let body = timeout_at(ends, Limited::new(body, REFUSAL_LIMIT).collect()).await;
        let body = body
            .ok()
            .and_then(Result::ok)
            .map(|body| body.to_bytes())
            .unwrap_or_default();
        self.answered();
        Err(refusal(call, parts.status, &parts.headers, &body))
    }
}

/// A request without a body.
pub(crate) fn request(
    call: &Call,
    method: Method,
    path: &str,
    accept: &'static str,
) -> Result<Request<Vec<u8>>, ApiError> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, accept)
        .body(Vec::new());
    request.map_err(|source| ApiError::Invalid {
        call: Box::new(call.clone()),
        source,
    })
}

fn unreachable(call: &Call, error: &kube::Error) -> ApiError {
    let call = Box::new(call.clone());
    match error {
        kube::Error::Auth(error) => ApiError::Credentials {
            call,
            cause: chain(error),
        },
        kube::Error::Service(error) => ApiError::Unreachable {
            call,
            cause: chain(error.as_ref()),
        },
        kube::Error::HyperError(error) => ApiError::Unreachable {
            call,
            cause: chain(error),
        },
        error => ApiError::Unreachable {
            call,
            cause: chain(error),
        },
    }
}

/// An answer of failure. A proxy's is no `Status`, but has a code.
fn refusal(call: &Call, code: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let mut status = json::status(body).unwrap_or_else(|| Status {
        reason: code.canonical_reason().unwrap_or_default().to_owned(),
        message: String::from_utf8_lossy(body).trim().chars().take(200).collect(),
        ..Status::default()
    });
    status.code = code.as_u16();
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    ApiError::from_status(call, status, seconds.map(Duration::from_secs))
}

/// Finds the configuration: the file named, else kubectl's places, else the pod's service account.
async fn configuration(options: &ClientOptions) -> Result<Config, ConnectError> {
    let wanted = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    if let Some(path) = &options.kubeconfig {
        let unusable = |error: KubeconfigError| ConnectError::Kubeconfig {
            path: path.clone(),
            cause: chain(&error),
        };
        let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
        return Config::from_custom_kubeconfig(kubeconfig, &wanted)
            .await
            .map_err(unusable);
    }
    let missing = match Config::from_kubeconfig(&wanted).await {
        Ok(config) => return Ok(config),
        // A file that is there and broken is a mistake, not a reason to talk to another cluster.
        Err(error) if options.context.is_none() && is_missing(&error) => error,
        Err(error) => return Err(ConnectError::DefaultKubeconfig { cause: chain(&error) }),
    };
    Config::incluster().map_err(|error| ConnectError::NoConfig {
        kubeconfig: chain(&missing),
        in_cluster: chain(&error),
    })
}

fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kubequota_testserver::{Action, Fault, TestServer};
    use tower::layer::util::Identity;

    use super::*;
    use crate::resource::ApiResource;
    use crate::testing::{cluster, pods, stub_of};

    async fn list(cluster: &Cluster) -> Result<Answer, ApiError> {
        let call = Call::on("list", &pods(), None);
        cluster.fetch(&call, &pods().path(None), "application/json").await
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_sent_once_and_answered_in_time_or_not_at_all() {
        let server = TestServer::new();
        let cluster = cluster(&server);
        for (action, expected) in [
            (Action::Unavailable, "could not list pods: 503 ServiceUnavailable"),
            (Action::Hang, "could not list pods: no answer within 60s"),
            (
                Action::DelayAnswer(Duration::from_secs(61)),
                "could not list pods: no answer within 60s",
            ),
            (Action::Refuse, "could not list pods: no answer from the server"),
            (
                Action::Forbidden,
                "may not list pods: grant verb list on pods in API group \"\" (a ClusterRole)",
            ),
            (
                Action::TooManyRequests(7),
                "could not list pods: the server has too much to do",
            ),
        ] {
            server.clear_requests();
            let fault = server.fault(Fault::new(action).verb("list"));
            let error = list(&cluster).await.unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
            assert_eq!(
                error.retry_after().map(|wait| wait.as_secs()),
                error.is_too_many().then_some(7)
            );
            assert_eq!(server.request_count("list", "pods"), 1, "{error}");
            server.clear_fault(fault);
        }
        server.fault(Fault::new(Action::Delay(Duration::from_secs(59))));
        assert_eq!(list(&cluster).await.unwrap().code, 200);
    }

    #[tokio::test]
    async fn a_refusal_that_is_no_status_still_has_its_code() {
        for (code, body, headers) in [(502, "<html>bad gateway</html>", None), (429, "", Some("3"))] {
            let cluster = stub_of(move |_| {
                let mut response = Response::builder().status(code);
                if let Some(seconds) = headers {
                    response = response.header(RETRY_AFTER, seconds);
                }
                response.body(body.to_owned()).unwrap()
            });
            let error = list(&cluster).await.unwrap_err();
            assert_eq!(error.code(), Some(code));
            assert_eq!(error.retry_after(), headers.map(|_| Duration::from_secs(3)));
            assert!(error.to_string().contains(body), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_time_is_learned_from_every_answer() {
        let server = TestServer::new();
        let cluster = cluster(&server);
        server.set_clock_skew(jiff::SignedDuration::from_mins(-90));
        assert_eq!(cluster.clock().now(), None);
        server.fault(Fault::new(Action::Forbidden).once());
        assert!(list(&cluster).await.is_err());
        for _ in 0..5 {
            tokio::time::advance(Duration::from_millis(700)).await;
            let _ = list(&cluster).await;
            let (now, server) = (cluster.clock().now().unwrap(), server.now());
            assert!(
                now <= server && server - now < jiff::SignedDuration::from_secs(2),
                "{now} {server}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_urgent_request_does_not_wait_behind_others() {
        let server = TestServer::new();
        let options = ClientOptions {
            qps: 1.0,
            burst: 1,
            ..ClientOptions::default()
        };
        let cluster = Cluster::from_client(kube::Client::new(server.router(), "default"), &options);
        let urgent = cluster.with_own_rate(10.0, 10);
        let start = Instant::now();
        for _ in 0..3 {
            list(&cluster).await.unwrap();
        }
        assert_eq!(start.elapsed().as_secs(), 2);
        list(&urgent).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 2);
        assert!(urgent.clock().now().is_some());
    }

    fn kubeconfig(name: &str, text: &str) -> ClientOptions {
        let path = std::env::temp_dir().join(format!("kubequota-cluster-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        ClientOptions {
            kubeconfig: Some(path),
            ..ClientOptions::default()
        }
    }

    fn kubeconfig_of(name: &str, server: &str) -> ClientOptions {
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, users: [],\
             contexts: [{{name: c, context: {{cluster: c}}}}], clusters: [{{name: c, cluster: {{server: '{server}'}}}}]}}"
        );
        kubeconfig(name, &text)
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_named_is_used_or_says_why_not() {
        let server = TestServer::new();
        let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let options = kubeconfig_of("good", &format!("http://{}", listening.address()));
        let mut host = String::new();
        let connected = Cluster::connect(&options, |name| {
            host = name.to_owned();
            Identity::new()
        });
        let cluster = connected.await.unwrap();
        assert_eq!(host, listening.address().to_string());
        list(&cluster).await.unwrap();
        assert!(
            server
                .requests()
                .iter()
                .all(|request| request.user_agent.starts_with("kubequota/"))
        );

        let nobody = kubeconfig_of("nobody", "http://127.0.0.1:1");
        let cluster = Cluster::connect(&nobody, |_| Identity::new()).await.unwrap();
        let error = list(&cluster).await.unwrap_err().to_string();
        assert!(
            error.contains("Connection refused") || error.contains("connection refused"),
            "{error}"
        );

        let context = ClientOptions {
            context: Some("other".to_owned()),
            ..options
        };
        let missing = ClientOptions {
            kubeconfig: Some("no/such/file".into()),
            ..ClientOptions::default()
        };
        let broken = kubeconfig("broken", "apiVersion: [");
        for (options, expected) in [(context, "other"), (missing, "no/such/file"), (broken, "YAML")] {
            let path = options.kubeconfig.clone().unwrap();
            let error = Cluster::connect(&options, |_| Identity::new())
                .await
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(expected) && error.contains(&path.display().to_string()),
                "{error}"
            );
            assert!(error.contains("--kubeconfig"), "{error}");
            let _ = std::fs::remove_file(path);
        }
        let _ = std::fs::remove_file(nobody.kubeconfig.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn single_objects() {
        let server = TestServer::new();
        server.create(crate::testing::pod("a", "p")).unwrap();
        let cluster = cluster(&server);
        let shape = kubequota_wire::json::MetadataOnly;
        let metadata = cluster.get(&pods(), Some("a"), "p", shape).await.unwrap();
        assert_eq!(metadata.display_name(), "a/p");
        let error = cluster.get(&pods(), Some("a"), "q", shape).await.unwrap_err();
        assert!(error.is_not_found());
        assert_eq!(
            error.to_string(),
            "could not get pods a/q: 404 NotFound: pods \"q\" not found"
        );
        let error = cluster
            .get(&ApiResource::new("x.io", "v1", "xs", "X", true), None, "q", shape)
            .await
            .unwrap_err();
        assert!(error.is_not_found());
    }
}
