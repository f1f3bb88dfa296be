//! The HTTP server for probes and metrics: plain HTTP, and bounded in every direction.
//!
//! - `/readyz`: 200 `ok`, or 503 and a line for each thing that is pending; `?verbose` lists everything;
//! - `/livez`, `/healthz`: 200 `ok`, or 503 when a heartbeat is stale; `?verbose` too;
//! - `/metrics`: Prometheus or OpenMetrics text.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::drain::Drain;
use crate::health::{Condition, Liveness, Readiness, Report};
use crate::listener::{Listener, ServerError};
use crate::metrics::{Registry, TextFormat};

/// What the endpoints show. A cheap handle.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// `/readyz`.
    pub readiness: Readiness,
    /// `/livez`.
    pub liveness: Liveness,
    /// `/metrics`.
    pub registry: Registry,
    /// A process that is ending isn't ready, whatever else holds.
    pub drain: Drain,
}

impl Endpoints {
    /// Endpoints with no gates and no heartbeats yet.
    pub fn new(registry: Registry, drain: Drain) -> Self {
        Self {
            readiness: Readiness::new(),
            liveness: Liveness::new(),
            registry,
            drain,
        }
    }

    /// The routes, for a server of one's own.
    pub fn router(self) -> Router {
        Router::new()
            .route("/readyz", get(readyz))
            .route("/livez", get(livez))
            .route("/healthz", get(livez))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

async fn readyz(State(endpoints): State<Endpoints>, uri: Uri) -> Response {
    let mut report = endpoints.readiness.report();
    if endpoints.drain.is_draining() {
        report = report.with("shutdown", Condition::Failed("the process is ending".to_owned()));
    }
    probe("readyz", &report, &uri)
}

async fn livez(State(endpoints): State<Endpoints>, uri: Uri) -> Response {
    // Loops end while draining, and the drain has a deadline of its own.
    let report = if endpoints.drain.is_draining() {
        Report::default()
    } else {
        endpoints.liveness.report(Instant::now())
    };
    probe(uri.path().trim_start_matches('/'), &report, &uri)
}

fn probe(name: &str, report: &Report, uri: &Uri) -> Response {
    let status = if report.passed() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let parameters = uri.query().unwrap_or_default().split('&');
    let verbose = parameters
        .map(|parameter| parameter.split('=').next())
        .any(|key| key == Some("verbose"));
    let body = if verbose { report.verbose(name) } else { report.brief() };
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CACHE_CONTROL, "no-cache, private"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body).into_response()
}

async fn metrics(State(endpoints): State<Endpoints>, headers: HeaderMap) -> Response {
    let accept = headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let format = TextFormat::negotiate(accept);
    match endpoints.registry.encode(format) {
        Ok(text) => ([(CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics could not be encoded");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Where to listen, and the bounds of every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// The address to listen on; by default all IPv4 ones.
    pub bind_address: IpAddr,
    /// The port; 0 takes any free one.
    pub port: u16,
    /// How long a client may take to send a request's head.
    pub header_timeout: Duration,
    /// How long a connection may last, from its acceptance to the last byte of the answer.
    pub request_timeout: Duration,
    /// How many connections may be open; more of them wait to be accepted.
    pub max_connections: usize,
}

impl Default for ServerOptions {
    /// All IPv4 addresses, port 8080, 5 s for a head, 10 s for a request, 64 connections.
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::UNSPECIFIED.into(),
            port: 8080,
            header_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            max_connections: 64,
        }
    }
}

/// A server that listens, and answers once it runs.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    options: ServerOptions,
}

impl Server {
    /// Listens, so that an address that can't be had is known before any work begins.
    ///
    /// # Errors
    /// [`ServerError::Bind`].
    pub async fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        let address = SocketAddr::new(options.bind_address, options.port);
        let listener = Listener::bind(address, "probes and metrics", options.max_connections).await?;
        Ok(Self { listener, options })
    }

    /// The address listened on, with the port taken where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Serves until the drain is finished: probes are answered for as long as anything runs. Answers under way then are
    /// still given, within the request timeout.
    pub async fn run(self, endpoints: Endpoints) {
        let finished = endpoints.drain.finished();
        let router = endpoints.router();
        let serve = |stream| {
            let serving = serve(stream, router.clone(), self.options.header_timeout);
            let serving = tokio::time::timeout(self.options.request_timeout, serving);
            async {
                // A client that is too slow is simply left; it would not read a complaint either.
                let _ = serving.await;
            }
        };
        self.listener.run(finished, serve).await;
    }
}

/// One request, one answer. Without keep-alive the timeout around it bounds everything a client can do, and a new
/// connection every few seconds costs nothing.
async fn serve(stream: TcpStream, router: Router, header_timeout: Duration) {
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection for probes and metrics ended early");
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tower::ServiceExt as _;

    use super::*;
    use crate::metrics::Metrics;

    fn endpoints() -> Endpoints {
        Endpoints::new(Metrics::new("1.2.3").registry, Drain::new())
    }

    async fn get(endpoints: &Endpoints, uri: &str, accept: &str) -> (u16, String, String) {
        let request = Request::get(uri)
            .header(ACCEPT, accept)
            .body(axum::body::Body::empty())
            .unwrap();
        let response = endpoints.clone().router().oneshot(request).await.unwrap();
        let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, content_type, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn probes_say_how_things_stand() {
        let endpoints = endpoints();
        let synced = endpoints.readiness.register("quotas synced");
        let heartbeat = endpoints.liveness.heartbeat("main loop", Duration::from_secs(30));
        let check = async |uri, status, body: &str| {
            let (got, content_type, text) = get(&endpoints, uri, "*/*").await;
            assert_eq!((got, text.as_str()), (status, body), "{uri}");
            assert_eq!(content_type, "text/plain; charset=utf-8");
        };

        check("/readyz", 503, "quotas synced: pending").await;
        check(
            "/readyz?verbose",
            503,
            "[-]quotas synced failed: pending\nreadyz check failed\n",
        )
        .await;
        synced.ready();
        check("/readyz", 200, "ok").await;
        check(
            "/readyz?timeout=5s&verbose=true",
            200,
            "[+]quotas synced ok\nreadyz check passed\n",
        )
        .await;

        check("/livez", 200, "ok").await;
        tokio::time::advance(Duration::from_secs(31)).await;
        check("/livez", 503, "main loop: no progress for 31s, at most 30s allowed").await;
        check("/readyz", 200, "ok").await;
        heartbeat.beat(Instant::now());
        check("/livez?verbose", 200, "[+]main loop ok\nlivez check passed\n").await;
        check("/healthz?verbose", 200, "[+]main loop ok\nhealthz check passed\n").await;

        tokio::time::advance(Duration::from_secs(31)).await;
        endpoints.drain.start();
        check("/livez", 200, "ok").await;
        check("/readyz", 503, "shutdown: the process is ending").await;
    }

    #[tokio::test]
    async fn metrics_in_the_format_asked_for() {
        let endpoints = endpoints();
        for (accept, content_type, end) in [
            ("*/*", "text/plain; version=0.0.4; charset=utf-8", "\n"),
            (
                "application/openmetrics-text;version=1.0.0,text/plain;q=0.2",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                "# EOF\n",
            ),
        ] {
            let (status, got, body) = get(&endpoints, "/metrics", accept).await;
            assert_eq!((status, got.as_str()), (200, content_type));
            assert!(body.contains("kubequota_build_info{version=\"1.2.3\"} 1\n"), "{body}");
            assert!(body.ends_with(end));
        }
    }

    async fn start(endpoints: &Endpoints, max_connections: usize) -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let options = ServerOptions {
            bind_address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            max_connections,
            ..ServerOptions::default()
        };
        let server = Server::bind(options).await.unwrap();
        (server.local_addr(), tokio::spawn(server.run(endpoints.clone())))
    }

    /// Everything that the server answers to `sent` until it closes the connection.
    async fn talk(address: SocketAddr, sent: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset is a way to close, too.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn serves_until_the_drain_is_finished() {
        let endpoints = endpoints();
        let (address, serving) = start(&endpoints, 8).await;
        let answer = talk(address, "GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"),
            "{answer}"
        );

        endpoints.drain.start();
        let answer = talk(address, "GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 503 "),
            "still answered while draining: {answer}"
        );

        endpoints.drain.wait(Duration::ZERO).await.unwrap();
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_no_head_is_left() {
        let endpoints = endpoints();
        let (address, _serving) = start(&endpoints, 8).await;
        let begin = Instant::now();
        for half in ["", "GET /readyz HTTP/1.1\r\nhost:"] {
            talk(address, half).await;
        }
        let elapsed = begin.elapsed();
        assert!(
            elapsed >= Duration::from_secs(10) && elapsed < Duration::from_secs(11),
            "{elapsed:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_no_answer_is_left() {
        let endpoints = endpoints();
        let help = "far more than the sockets' buffers hold ".repeat(1 << 20);
        endpoints.registry.register(
            "big",
            &help,
            prometheus_client::metrics::counter::Counter::<u64>::default(),
        );
        let (address, serving) = start(&endpoints, 8).await;
        let begin = Instant::now();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        endpoints.drain.wait(Duration::ZERO).await.unwrap();
        serving.await.unwrap();
        let elapsed = begin.elapsed();
        assert!(
            elapsed >= Duration::from_secs(10) && elapsed < Duration::from_secs(11),
            "{elapsed:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_connections_than_allowed() {
        let endpoints = endpoints();
        let (address, _serving) = start(&endpoints, 1).await;
        let begin = Instant::now();
        let idle = TcpStream::connect(address).await.unwrap();
        let answer = talk(address, "GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(answer.ends_with("ok"), "{answer}");
        assert!(
            begin.elapsed() >= Duration::from_secs(5),
            "the second waited for the first one's timeout"
        );
        drop(idle);
    }

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let (address, _serving) = start(&endpoints(), 1).await;
        let options = ServerOptions {
            bind_address: address.ip(),
            port: address.port(),
            ..ServerOptions::default()
        };
        let error = Server::bind(options).await.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("can't listen on {address} for probes and metrics: ")),
            "{error}"
        );
    }
}
