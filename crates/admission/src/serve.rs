//! The HTTPS server: TLS 1.2 and 1.3, HTTP/1.1 and HTTP/2, and bounded in every direction.
//!
//! kube-apiserver speaks HTTP/1.1 to a Service and to any URL that is not on loopback, one connection for each call
//! under way, and keeps 25 of them open for up to 90 s; on loopback it speaks HTTP/2. It sends a review once: a
//! connection that is closed on it fails the create that it was for. So idle connections are kept for longer than it
//! keeps them, and at the end every client is told to go before anything is closed ([`HttpsServer::run`]).
//!
//! Sessions are not resumed: kube-apiserver does not try to, and every handshake proves anew who a client is.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Request, StatusCode, Version};
use http_body_util::Limited;
use hyper::body::{Body as _, Incoming};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use kubequota_shell::{Drain, Listener, ServerError};
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error};

use crate::certificates::{CertificateError, Certificates, Clients, Current, provider};

/// What kube-apiserver sends at most: it takes requests of up to 3 MiB (`MaxRequestBodyBytes`), so a review carries two
/// objects of that size, the new one and the old, and something around them.
const LARGEST_REVIEW: usize = 7 << 20;

/// Bodies above this size are large: hardly any object is.
const LARGE: u64 = 128 << 10;

/// Where to listen, and the bounds of everything that a client can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsOptions {
    /// The address to listen on; by default all IPv4 ones.
    pub bind_address: IpAddr,
    /// The port; 0 takes any free one.
    pub port: u16,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a new connection may be without a request.
    pub header_timeout: Duration,
    /// How long an HTTP/1.1 connection may be without another request. No shorter than clients keep idle connections,
    /// or requests run into connections that are being closed: client-go keeps them for 90 s.
    pub idle_timeout: Duration,
    /// How long a request may take, from its head to the head of its answer; after that the answer is 503.
    pub request_timeout: Duration,
    /// How many connections may be open; more of them wait to be accepted.
    pub max_connections: usize,
    /// How many requests may be worked on; more of them wait, within the request timeout.
    pub max_requests: usize,
    /// How many of those may have bodies of more than 128 KiB.
    pub max_large_requests: usize,
    /// The largest body, in bytes; more is refused with 413.
    pub max_body: usize,
    /// After the end was asked for, how long connections are still accepted, for clients that have not learned yet that
    /// this server is going (`--shutdown-delay-duration` of kube-apiserver).
    pub shutdown_delay: Duration,
}

impl Default for HttpsOptions {
    /// All IPv4 addresses, port 8443; 10 s for a handshake and for the first request, 3 min idle, 30 s for a request
    /// (a webhook's longest timeout); 2000 connections, 1000 requests, 24 of them large, none above 7 MiB, so that all
    /// bodies together stay below 300 MiB; 5 s of delay.
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::UNSPECIFIED.into(),
            port: 8443,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(180),
            request_timeout: Duration::from_secs(30),
            max_connections: 2000,
            max_requests: 1000,
            max_large_requests: 24,
            max_body: LARGEST_REVIEW,
            shutdown_delay: Duration::from_secs(5),
        }
    }
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// The address can't be listened on.
    #[error(transparent)]
    Listen(#[from] ServerError),
    /// The certificates make no TLS server.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
}

/// A server that listens, and answers once it runs.
#[derive(Debug)]
pub struct HttpsServer {
    listener: Listener,
    options: HttpsOptions,
    tls: Tls,
}

impl HttpsServer {
    /// Listens. With `clients` only those are let in.
    ///
    /// # Errors
    /// An address that can't be listened on, or certificates that make no TLS server.
    pub async fn bind(
        options: HttpsOptions,
        certificates: Certificates,
        clients: Option<Clients>,
    ) -> Result<Self, HttpsError> {
        let tls = Tls::new(certificates, clients)?;
        let address = SocketAddr::new(options.bind_address, options.port);
        let listener = Listener::bind(address, "admission reviews", options.max_connections).await?;
        Ok(Self { listener, options, tls })
    }

    /// The address listened on, with the port taken where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Serves until the drain starts, and then ends so that no client loses a request:
    ///
    /// 1. For the shutdown delay everything is answered, new connections too, but every answer on HTTP/1.1 closes its
    ///    connection and HTTP/2 connections that were open are told to go away: clients turn to other replicas as soon
    ///    as they are led there, which is up to readiness, and false by now.
    /// 2. Then no connection is accepted, those that have been idle all the while are closed, those that have just come
    ///    get one answer, and what is under way is answered within the request timeout.
    ///
    /// The drain waits for all that. A request whose client has gone, or whose time is up, is dropped where it stands:
    /// what must not be left half done belongs into a task of its own.
    pub async fn run(mut self, router: Router, drain: Drain) {
        let _busy = drain.guard("admission server");
        let (phase, phases) = watch::channel(Phase::Serving);
        let delay = self.options.shutdown_delay;
        let stop = async move {
            drain.signal().await;
            phase.send_replace(Phase::Leaving);
            sleep(delay).await;
            phase.send_replace(Phase::Closing);
        };
        let server = Arc::new(Server::new(self.options, router, phases));
        let serve = |stream: TcpStream| {
            // Answers are small and waited for.
            let _ = stream.set_nodelay(true);
            Arc::clone(&server).serve(stream, self.tls.acceptor())
        };
        self.listener.run(stop, serve).await;
    }
}

/// The TLS of the next connection.
#[derive(Debug)]
struct Tls {
    current: watch::Receiver<Current>,
    clients: Option<Clients>,
    config: Arc<ServerConfig>,
    /// Keeps the certificates followed.
    _certificates: Certificates,
}

impl Tls {
    fn new(certificates: Certificates, mut clients: Option<Clients>) -> Result<Self, CertificateError> {
        let mut current = certificates.changes();
        Ok(Tls {
            config: configuration(&mut current, clients.as_mut())?,
            current,
            clients,
            _certificates: certificates,
        })
    }

    /// With the certificates as they are now.
    fn acceptor(&mut self) -> TlsAcceptor {
        let clients = self.clients.as_ref();
        // A sender that is gone changes nothing any more.
        let changed = self.current.has_changed().unwrap_or(false)
            || clients.is_some_and(|clients| clients.verifier.has_changed().unwrap_or(false));
        if changed {
            match configuration(&mut self.current, self.clients.as_mut()) {
                Ok(config) => self.config = config,
                Err(error) => error!("what was there before stays in use: {error}"),
            }
        }
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

fn configuration(
    current: &mut watch::Receiver<Current>,
    clients: Option<&mut Clients>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let serving = Arc::clone(&current.borrow_and_update().serving);
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(&clients.verifier.borrow_and_update())),
        None => builder.with_no_client_auth(),
    };
    let key = SingleCertAndKey::from(Arc::clone(&serving.key));
    let mut config = builder.with_cert_resolver(Arc::new(key));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// Clients are told to go.
    Leaving,
    /// Nothing new is taken.
    Closing,
}

/// What all connections share.
struct Server {
    router: TowerToHyperService<Router>,
    requests: Semaphore,
    large_requests: Semaphore,
    options: HttpsOptions,
    phases: watch::Receiver<Phase>,
}

impl Server {
    fn new(options: HttpsOptions, router: Router, phases: watch::Receiver<Phase>) -> Self {
        let semaphore = |permits: usize| Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS));
        Server {
            // The limit here takes the place of axum's, which is lower.
            router: TowerToHyperService::new(router.layer(DefaultBodyLimit::disable())),
            requests: semaphore(options.max_requests),
            large_requests: semaphore(options.max_large_requests),
            options,
            phases,
        }
    }

    /// One connection, from the handshake to its end.
    async fn serve(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        acceptor: TlsAcceptor,
    ) {
        let stream = match timeout(self.options.handshake_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(%error, "a TLS handshake failed"),
            Err(_) => return debug!("a TLS handshake took too long"),
        };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let (ask, asked) = watch::channel(false);
        let service = service_fn(|request| {
            ask.send_replace(true);
            Arc::clone(&self).answer(request)
        });
        let builder = self.protocols();
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let silent = async {
            let mut asked = asked.clone();
            if timeout(self.options.header_timeout, asked.wait_for(|asked| *asked))
                .await
                .is_ok()
            {
                std::future::pending::<()>().await;
            }
        };
        let told = async {
            let (mut phases, mut asked) = (self.phases.clone(), asked.clone());
            let first = *phases.borrow();
            let last = if http2 && first == Phase::Serving {
                Phase::Leaving
            } else {
                Phase::Closing
            };
            let _ = phases.wait_for(|phase| *phase >= last).await;
            // Who has just come is about to ask, and would take the end of the connection for a failure.
            let _ = asked.wait_for(|asked| *asked).await;
        };
        let ended = tokio::select! {
            // A request that has arrived comes before the end.
            biased;
            ended = connection.as_mut() => Some(ended),
            () = silent => return debug!("a connection brought no request"),
            () = told => None,
        };
        let ended = match ended {
            Some(ended) => Ok(ended),
            None => {
                connection.as_mut().graceful_shutdown();
                // Each request has its own bound; this one is for what a client does not read.
                timeout(self.options.request_timeout * 2, connection).await
            }
        };
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "a connection ended early"),
            Err(_) => debug!("a connection took too long to end"),
        }
    }

    fn protocols(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.idle_timeout)
            .max_buf_size(64 << 10);
        builder
            .http2()
            .timer(TokioTimer::new())
            // As Go's server: one client can't take all.
            .max_concurrent_streams(250)
            .max_header_list_size(64 << 10)
            // A peer that is gone without a word is noticed.
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        builder
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response, Infallible> {
        let version = request.version();
        let within = self.options.request_timeout;
        let mut response = match timeout(within, self.handle(request)).await {
            Ok(response) => response,
            Err(_) => refused(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("no answer could be given within {within:?}"),
            ),
        };
        if version < Version::HTTP_2 && *self.phases.borrow() > Phase::Serving {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    async fn handle(&self, request: Request<Incoming>) -> Response {
        let size = request.body().size_hint();
        if size.lower() > self.options.max_body as u64 {
            return refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "a body of {} bytes is larger than {} bytes, which no review is",
                    size.lower(),
                    self.options.max_body
                ),
            );
        }
        let large = size.upper().is_none_or(|size| size > LARGE);
        // Neither semaphore is ever closed.
        let _large = if large {
            self.large_requests.acquire().await.ok()
        } else {
            None
        };
        let _permit = self.requests.acquire().await;
        let request = request.map(|body| Body::new(Limited::new(body, self.options.max_body)));
        match self.router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// client-go tries again by itself after an answer of 5xx with `Retry-After`.
fn refused(code: StatusCode, message: String) -> Response {
    let mut response = (code, message).into_response();
    if code.is_server_error() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
