use std::io;

use axum::routing::post;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::certificates::testing::{Authority, authority, verifier};

const HOST: &str = "quota.kube-system.svc";

/// A server on loopback, and what it needs to be driven.
struct Running {
    address: SocketAddr,
    authority: Authority,
    certificates: watch::Sender<Current>,
    drain: Drain,
    task: JoinHandle<()>,
    /// Every request that a handler has begun with, by its body's size.
    begun: mpsc::UnboundedReceiver<usize>,
    /// Each permit lets one waiting handler end, the one that has waited longest.
    go: Arc<Semaphore>,
}

fn options() -> HttpsOptions {
    HttpsOptions {
        bind_address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        ..HttpsOptions::default()
    }
}

async fn start(options: HttpsOptions) -> Running {
    start_with(options, None).await
}

/// `/echo` answers the size of what was sent; `/wait` too, once it may.
async fn start_with(options: HttpsOptions, clients: Option<Clients>) -> Running {
    let authority = authority();
    let (certificates, current) = watch::channel(authority.serving(HOST));
    let server = HttpsServer::bind(options, Certificates::of(current), clients)
        .await
        .unwrap();
    let (sender, begun) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let wait = {
        let go = Arc::clone(&go);
        async move |body: Bytes| {
            sender.send(body.len()).unwrap();
            go.acquire().await.unwrap().forget();
            body.len().to_string()
        }
    };
    let router = Router::new()
        .route("/echo", post(async |body: Bytes| body.len().to_string()))
        .route("/wait", post(wait));
    let drain = Drain::new();
    Running {
        address: server.local_addr(),
        authority,
        certificates,
        drain: drain.clone(),
        task: tokio::spawn(server.run(router, drain)),
        begun,
        go,
    }
}

/// How a client comes.
struct Caller<'a> {
    trusts: &'a Authority,
    shows: Option<(&'a Authority, &'a str)>,
    version: &'static SupportedProtocolVersion,
    alpn: &'static [u8],
}

impl Running {
    fn caller(&self) -> Caller<'_> {
        Caller {
            trusts: &self.authority,
            shows: None,
            version: &rustls::version::TLS13,
            alpn: b"http/1.1",
        }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        self.caller().connect(self.address).await.unwrap()
    }

    async fn http2(&self) -> (SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
        let caller = Caller {
            alpn: b"h2",
            ..self.caller()
        };
        let stream = caller.connect(self.address).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        (sender, tokio::spawn(connection))
    }
}

impl Caller<'_> {
    async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        self.connect_on(TcpStream::connect(address).await.unwrap()).await
    }

    async fn connect_on<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusts.root()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match self.shows {
            None => builder.with_no_client_auth(),
            Some((authority, name)) => {
                let (chain, key) = authority.client(name);
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![self.alpn.to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(ServerName::try_from(HOST).unwrap(), stream).await
    }
}

fn head(path: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: {HOST}\r\n{more}\r\n\r\n")
}

/// One answer on HTTP/1.1, which must have a length.
async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        bytes.push(stream.read_u8().await.unwrap());
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    answer(stream).await
}

async fn echo(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    ask(stream, &(head("/echo", "content-length: 3") + "abc")).await
}

/// Resolves when the server has closed the connection; what it sent before doesn't matter.
async fn closed(stream: &mut (impl AsyncRead + Unpin)) {
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

fn request(path: &str, size: usize) -> Request<Full<Bytes>> {
    Request::post(format!("https://{HOST}{path}"))
        .body(Full::new(vec![b'x'; size].into()))
        .unwrap()
}

async fn body(response: hyper::Result<http::Response<Incoming>>) -> (u16, String) {
    let response = response.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn both_tls_versions_and_both_http_versions() {
    let running = start(options()).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let caller = Caller {
            version,
            ..running.caller()
        };
        let mut stream = caller.connect(running.address).await.unwrap();
        for _ in 0..2 {
            let got = echo(&mut stream).await;
            assert!(
                got.starts_with("HTTP/1.1 200 OK\r\n") && got.ends_with("\r\n\r\n3"),
                "{got}"
            );
            assert!(!got.contains("connection: close"), "{got}");
        }
    }
    let (mut sender, _connection) = running.http2().await;
    let answers = [7, 0].map(|size| sender.send_request(request("/echo", size)));
    for (answer, expected) in answers.into_iter().zip(["7", "0"]) {
        assert_eq!(body(answer.await).await, (200, expected.to_owned()));
    }
}

#[tokio::test]
async fn tls_1_1_is_refused() {
    let running = start(options()).await;
    // A hello of TLS 1.1 with a cipher suite of its time, a group (P-256) and a signature scheme.
    let extensions = [0, 10, 0, 4, 0, 2, 0, 23, 0, 13, 0, 4, 0, 2, 4, 3];
    let mut body = vec![3, 2];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xc0, 0x09, 1, 0, 0, extensions.len() as u8]);
    body.extend(extensions);
    let length = body.len() as u8;
    let mut hello = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    hello.extend(body);
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(&hello).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    // An alert, fatal: protocol_version.
    assert_eq!((answer[0], &answer[5..]), (0x15, &[2, 70][..]));
}

#[tokio::test]
async fn only_clients_with_the_right_certificate_are_let_in() {
    let (ours, theirs) = (authority(), authority());
    let trusting = |authority: &Authority, names: &[&str]| verifier(authority.pem(), names);
    let (change, any) = watch::channel(trusting(&ours, &[]));
    let (_keep, named) = watch::channel(trusting(&ours, &["other", "kube-apiserver"]));
    let any = start_with(options(), Some(Clients::of(any))).await;
    let named = start_with(options(), Some(Clients::of(named))).await;
    let let_in = async |running: &Running, shows, version| {
        let caller = Caller {
            shows,
            version,
            ..running.caller()
        };
        // In TLS 1.3 a client learns only afterwards that it was refused.
        let Ok(mut stream) = caller.connect(running.address).await else {
            return false;
        };
        let _ = stream.write_all((head("/echo", "content-length: 0")).as_bytes()).await;
        stream.read_u8().await.is_ok()
    };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (running, shows, expected) in [
            (&any, None, false),
            (&any, Some((&theirs, "kube-apiserver")), false),
            (&any, Some((&ours, "anyone")), true),
            (&named, None, false),
            (&named, Some((&ours, "anyone")), false),
            (&named, Some((&theirs, "kube-apiserver")), false),
            (&named, Some((&ours, "kube-apiserver")), true),
        ] {
            let who = shows.map(|(_, name)| name);
            assert_eq!(let_in(running, shows, version).await, expected, "{who:?}");
        }
    }
    change.send_replace(trusting(&theirs, &[]));
    let tls13 = &rustls::version::TLS13;
    assert!(!let_in(&any, Some((&ours, "anyone")), tls13).await);
    assert!(let_in(&any, Some((&theirs, "anyone")), tls13).await);
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections() {
    let running = start(options()).await;
    let mut old = running.connect().await;
    let next = authority();
    running.certificates.send_replace(next.serving(HOST));
    assert!(running.caller().connect(running.address).await.is_err());
    let caller = Caller {
        trusts: &next,
        ..running.caller()
    };
    let mut new = caller.connect(running.address).await.unwrap();
    for stream in [&mut old, &mut new] {
        assert!(echo(stream).await.ends_with("\r\n\r\n3"));
    }
}

#[tokio::test]
async fn bodies_up_to_the_limit_and_none_above() {
    let running = start(options()).await;
    let (mut sender, _connection) = running.http2().await;
    assert_eq!(
        body(sender.send_request(request("/echo", LARGEST_REVIEW)).await).await,
        (200, LARGEST_REVIEW.to_string())
    );
    // Refused before anything of it is read.
    let mut stream = running.connect().await;
    let got = ask(&mut stream, &head("/echo", "content-length: 7340033")).await;
    assert!(got.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{got}");
    assert!(
        got.ends_with("a body of 7340033 bytes is larger than 7340032 bytes, which no review is"),
        "{got}"
    );

    let running = start(HttpsOptions {
        max_body: 10,
        ..options()
    })
    .await;
    for (chunk, expected) in [("a\r\n0123456789", "200"), ("b\r\n01234567890", "413")] {
        let mut stream = running.connect().await;
        let chunked = head("/echo", "transfer-encoding: chunked") + chunk + "\r\n0\r\n\r\n";
        let got = ask(&mut stream, &chunked).await;
        assert!(got.starts_with(&format!("HTTP/1.1 {expected} ")), "{got}");
    }
}

#[tokio::test]
async fn no_more_requests_than_allowed_and_fewer_large_ones() {
    let mut running = start(HttpsOptions {
        max_requests: 3,
        max_large_requests: 1,
        ..options()
    })
    .await;
    let (mut sender, _connection) = running.http2().await;
    let large = 128 * 1024 + 1;
    let first = sender.send_request(request("/wait", large));
    assert_eq!(running.begun.recv().await, Some(large));
    // Requests of one connection are taken up in order.
    let second = sender.send_request(request("/wait", large));
    let small = [1, 2].map(|size| sender.send_request(request("/wait", size)));
    let last = sender.send_request(request("/wait", 3));
    assert_eq!(running.begun.recv().await, Some(1), "not the large one");
    assert_eq!(running.begun.recv().await, Some(2));
    assert!(running.begun.try_recv().is_err(), "three are at work");
    // With the end of the first large one a place is free, and the other large one may queue for the next.
    for begins in [3, large] {
        running.go.add_permits(1);
        assert_eq!(running.begun.recv().await, Some(begins));
    }
    running.go.add_permits(3);
    for answer in [first, second, last].into_iter().chain(small) {
        assert_eq!(body(answer.await).await.0, 200);
    }
}

#[tokio::test]
async fn clients_are_told_to_go_while_everything_is_still_answered() {
    let mut running = start(HttpsOptions {
        shutdown_delay: Duration::from_secs(3600),
        ..options()
    })
    .await;
    let (mut idle, mut busy) = (running.connect().await, running.connect().await);
    assert!(!echo(&mut idle).await.contains("connection: close"));
    busy.write_all((head("/wait", "content-length: 1") + "a").as_bytes())
        .await
        .unwrap();
    let (mut sender, connection) = running.http2().await;
    let waiting = sender.send_request(request("/wait", 2));
    running.begun.recv().await.unwrap();
    running.begun.recv().await.unwrap();

    running.drain.start();
    // The HTTP/2 connection ends once its request is answered, and takes no other.
    running.go.add_permits(2);
    assert_eq!(body(waiting.await).await, (200, "2".to_owned()));
    connection.await.unwrap().unwrap();
    for mut stream in [idle, running.connect().await] {
        let got = echo(&mut stream).await;
        assert!(
            got.contains("\r\nconnection: close\r\n") && got.ends_with("\r\n\r\n3"),
            "{got}"
        );
        closed(&mut stream).await;
    }
    let got = answer(&mut busy).await;
    assert!(got.contains("\r\nconnection: close\r\n"), "{got}");
    let (mut sender, _connection) = running.http2().await;
    assert_eq!(
        body(sender.send_request(request("/echo", 5)).await).await,
        (200, "5".to_owned())
    );
    assert!(!running.task.is_finished());
}

#[tokio::test]
async fn the_end_waits_for_what_is_under_way() {
    let mut running = start(HttpsOptions {
        shutdown_delay: Duration::ZERO,
        ..options()
    })
    .await;
    let (mut idle, mut busy, mut new) = (
        running.connect().await,
        running.connect().await,
        running.connect().await,
    );
    echo(&mut idle).await;
    busy.write_all((head("/wait", "content-length: 1") + "a").as_bytes())
        .await
        .unwrap();
    let (mut sender, connection) = running.http2().await;
    let waiting = sender.send_request(request("/wait", 2));
    running.begun.recv().await.unwrap();
    running.begun.recv().await.unwrap();

    running.drain.start();
    closed(&mut idle).await;
    assert!(TcpStream::connect(running.address).await.is_err());
    let got = echo(&mut new).await;
    assert!(
        got.contains("\r\nconnection: close\r\n") && got.ends_with("\r\n\r\n3"),
        "{got}"
    );
    assert!(!running.task.is_finished());
    running.go.add_permits(2);
    let got = answer(&mut busy).await;
    assert!(
        got.contains("\r\nconnection: close\r\n") && got.ends_with("\r\n\r\n1"),
        "{got}"
    );
    assert_eq!(body(waiting.await).await, (200, "2".to_owned()));
    connection.await.unwrap().unwrap();
    running.drain.wait(Duration::from_secs(60)).await.unwrap();
    running.task.await.unwrap();
}

#[tokio::test]
async fn bad_clients_harm_nobody_else() {
    let running = start(options()).await;
    let mut garbage = TcpStream::connect(running.address).await.unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    closed(&mut garbage).await;
    let mut inside = running.connect().await;
    inside.write_all(&[0xff; 100]).await.unwrap();
    closed(&mut inside).await;
    drop(TcpStream::connect(running.address).await.unwrap());
    let stranger = authority();
    let caller = Caller {
        trusts: &stranger,
        ..running.caller()
    };
    assert!(caller.connect(running.address).await.is_err());
    assert!(echo(&mut running.connect().await).await.ends_with("\r\n\r\n3"));
}

/// Connections without sockets, for paused time: it stands still only where everything is in this process.
struct Piped {
    server: Arc<Server>,
    tls: Tls,
    authority: Authority,
    _phase: watch::Sender<Phase>,
    _certificates: watch::Sender<Current>,
}

impl Piped {
    fn new() -> Self {
        let authority = authority();
        let (certificates, current) = watch::channel(authority.serving(HOST));
        let (phase, phases) = watch::channel(Phase::Serving);
        let router = Router::new()
            .route("/echo", post(async |body: Bytes| body.len().to_string()))
            .route("/never", post(std::future::pending::<()>));
        Piped {
            server: Arc::new(Server::new(options(), router, phases)),
            tls: Tls::new(Certificates::of(current), None).unwrap(),
            authority,
            _phase: phase,
            _certificates: certificates,
        }
    }

    fn open(&mut self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        tokio::spawn(Arc::clone(&self.server).serve(theirs, self.tls.acceptor()));
        ours
    }

    async fn connect(&mut self) -> TlsStream<DuplexStream> {
        let stream = self.open();
        let caller = Caller {
            trusts: &self.authority,
            shows: None,
            version: &rustls::version::TLS13,
            alpn: b"http/1.1",
        };
        caller.connect_on(stream).await.unwrap()
    }
}

/// How long until the server closes a connection.
async fn lasts(stream: &mut (impl AsyncRead + Unpin)) -> u64 {
    let begin = Instant::now();
    closed(stream).await;
    begin.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn slow_clients_are_left() {
    let mut piped = Piped::new();
    // No hello, and half of one.
    for sent in [&[][..], &[0x16, 3, 1, 0, 45, 1]] {
        let mut stream = piped.open();
        stream.write_all(sent).await.unwrap();
        assert_eq!(lasts(&mut stream).await, 10);
    }
    // No request, and half of one.
    for sent in ["", "POST /echo HTTP/1.1\r\n"] {
        let mut stream = piped.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        assert_eq!(lasts(&mut stream).await, 10);
    }
    let mut stream = piped.connect().await;
    echo(&mut stream).await;
    assert_eq!(lasts(&mut stream).await, 180, "longer than client-go keeps it");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_given_in_time_whatever_it_says() {
    let mut piped = Piped::new();
    for unanswerable in [
        head("/never", "content-length: 1") + "a",
        head("/echo", "content-length: 2") + "a",
    ] {
        let mut stream = piped.connect().await;
        let begin = Instant::now();
        let got = ask(&mut stream, &unanswerable).await;
        assert_eq!(begin.elapsed().as_secs(), 30);
        assert!(got.starts_with("HTTP/1.1 503 "), "{got}");
        assert!(got.contains("\r\nretry-after: 1\r\n"), "{got}");
        assert!(got.ends_with("\r\n\r\nno answer could be given within 30s"), "{got}");
    }
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let running = start(options()).await;
    let options = HttpsOptions {
        port: running.address.port(),
        ..options()
    };
    let (_sender, current) = watch::channel(running.authority.serving(HOST));
    let error = HttpsServer::bind(options, Certificates::of(current), None)
        .await
        .unwrap_err();
    let expected = format!("can't listen on {} for admission reviews: ", running.address);
    assert!(error.to_string().starts_with(&expected), "{error}");
}
