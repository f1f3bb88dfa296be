//! Metrics of requests to the API server, as client-go reports them.

use std::fmt::{self, Write as _};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Method, Request, Response};
use http_body::Body;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;
use tower::{Layer, Service};

use super::Registry;

/// Kubernetes' buckets.
const DURATION_BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Kubernetes' buckets: 64 bytes to 16 MiB.
const SIZE_BUCKETS: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: Code,
    method: Verb,
    host: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: Verb,
    host: Arc<str>,
}

/// The status code, or none: the request failed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code(Option<u16>);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        match self.0 {
            Some(code) => write!(encoder, "{code}"),
            None => encoder.write_str("<error>"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Verb(Method);

impl EncodeLabelValue for Verb {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(self.0.as_str())
    }
}

type Histograms = Family<VerbLabels, Histogram, fn() -> Histogram>;

/// The metrics of all API clients of a process. A cheap handle.
#[derive(Clone, Debug)]
pub struct RestClientMetrics {
    requests: Family<RequestLabels, Counter>,
    duration: Histograms,
    request_size: Histograms,
}

impl RestClientMetrics {
    /// Registers the group.
    pub fn register(registry: &Registry) -> Self {
        let group = Self {
            requests: Family::default(),
            duration: Histograms::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            request_size: Histograms::new_with_constructor(|| Histogram::new(SIZE_BUCKETS)),
        };
        registry.register(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host",
            group.requests.clone(),
        );
        registry.register(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host",
            group.duration.clone(),
        );
        registry.register(
            "rest_client_request_size_bytes",
            "Request size in bytes. Broken down by verb and host",
            group.request_size.clone(),
        );
        group
    }

    /// A layer for an API client's service stack. `host` is the server's host and port: inside the stack, requests may
    /// have no more than a path. Put it inside a layer that retries to count every try, as client-go does.
    pub fn layer(&self, host: &str) -> RestClientLayer {
        RestClientLayer {
            metrics: self.clone(),
            host: host.into(),
        }
    }
}

/// Counts the requests of a service. See [`RestClientMetrics::layer`].
#[derive(Clone, Debug)]
pub struct RestClientLayer {
    metrics: RestClientMetrics,
    host: Arc<str>,
}

impl<S> Layer<S> for RestClientLayer {
    type Service = RestClientService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RestClientService {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service whose requests are counted. See [`RestClientMetrics::layer`].
#[derive(Clone, Debug)]
pub struct RestClientService<S> {
    inner: S,
    layer: RestClientLayer,
}

impl<S, B, C> Service<Request<B>> for RestClientService<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    B: Body,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RestClientFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let sent = Sent {
            layer: self.layer.clone(),
            verb: Verb(request.method().clone()),
            size: request.body().size_hint().exact(),
            watch: is_watch(request.uri().query().unwrap_or_default()),
            begin: Instant::now(),
        };
        RestClientFuture {
            inner: Box::pin(self.inner.call(request)),
            sent: Some(sent),
        }
    }
}

/// A watch lasts for minutes on purpose, so it says nothing about latency.
fn is_watch(query: &str) -> bool {
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// A request under way.
#[derive(Debug)]
struct Sent {
    layer: RestClientLayer,
    verb: Verb,
    size: Option<u64>,
    watch: bool,
    begin: Instant,
}

impl Sent {
    fn answered(self, code: Code) {
        let RestClientLayer { metrics, host } = self.layer;
        let labels = RequestLabels {
            code,
            method: self.verb.clone(),
            host: host.clone(),
        };
        metrics.requests.get_or_create(&labels).inc();
        let labels = VerbLabels { verb: self.verb, host };
        if !self.watch {
            metrics
                .duration
                .get_or_create(&labels)
                .observe(self.begin.elapsed().as_secs_f64());
        }
        if let Some(size) = self.size {
            // Sizes are far below 2^52, where the conversion is exact.
            metrics.request_size.get_or_create(&labels).observe(size as f64);
        }
    }
}

/// The answer of a [`RestClientService`], counted when its head arrives. One that is dropped before that, as by a
/// timeout, counts as `<error>`.
#[derive(Debug)]
pub struct RestClientFuture<F> {
    inner: Pin<Box<F>>,
    sent: Option<Sent>,
}

impl<F, C, E> Future for RestClientFuture<F>
where
    F: Future<Output = Result<Response<C>, E>>,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.inner.as_mut().poll(cx));
        if let Some(sent) = self.sent.take() {
            sent.answered(Code(answer.as_ref().ok().map(|response| response.status().as_u16())));
        }
        Poll::Ready(answer)
    }
}

impl<F> Drop for RestClientFuture<F> {
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take() {
            sent.answered(Code(None));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::Full;
    use tower::ServiceExt as _;

    use super::super::tests::lines;
    use super::*;

    type Bytes = Full<axum::body::Bytes>;

    /// A server that takes 2 s, answers with the code in the path, and not at all where there is none.
    async fn server(request: Request<Bytes>) -> Result<Response<String>, std::io::Error> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let code: u16 = request.uri().path()[1..]
            .parse()
            .map_err(|_| std::io::Error::other("reset"))?;
        Ok(Response::builder()
            .status(code)
            .body("the body is never looked at".to_owned())
            .unwrap())
    }

    fn request(method: Method, uri: &str, body: &'static str) -> Request<Bytes> {
        Request::builder()
            .method(method)
            .uri(uri)
            .body(Full::from(body))
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_counted_as_client_go_does() {
        let registry = Registry::new();
        let layer = RestClientMetrics::register(&registry).layer("10.0.0.1:443");
        let service = layer.layer(tower::service_fn(server));
        let send = |method, uri, body| service.clone().oneshot(request(method, uri, body));

        assert!(send(Method::GET, "/200?limit=500", "").await.is_ok());
        assert!(
            send(Method::GET, "/200?watch=true&allowWatchBookmarks=true", "")
                .await
                .is_ok()
        );
        assert!(send(Method::PATCH, "/409", "{\"status\":{}}").await.is_ok());
        assert!(send(Method::GET, "/reset", "").await.is_err());
        let late = tokio::time::timeout(Duration::from_secs(1), send(Method::GET, "/200", "")).await;
        assert!(late.is_err());

        assert_eq!(
            {
                let mut requests = lines(&registry, "rest_client_requests_total");
                requests.sort_unstable();
                requests
            },
            [
                r#"rest_client_requests_total{code="200",method="GET",host="10.0.0.1:443"} 2"#,
                r#"rest_client_requests_total{code="409",method="PATCH",host="10.0.0.1:443"} 1"#,
                r#"rest_client_requests_total{code="<error>",method="GET",host="10.0.0.1:443"} 2"#,
            ]
        );
        let sums = |metric: &str| {
            let mut sums = lines(&registry, metric);
            sums.sort_unstable();
            sums
        };
        assert_eq!(
            sums("rest_client_request_duration_seconds_sum"),
            [
                r#"rest_client_request_duration_seconds_sum{verb="GET",host="10.0.0.1:443"} 5.0"#,
                r#"rest_client_request_duration_seconds_sum{verb="PATCH",host="10.0.0.1:443"} 2.0"#,
            ],
            "the watch is left out"
        );
        assert_eq!(
            sums("rest_client_request_size_bytes_sum"),
            [
                r#"rest_client_request_size_bytes_sum{verb="GET",host="10.0.0.1:443"} 0.0"#,
                r#"rest_client_request_size_bytes_sum{verb="PATCH",host="10.0.0.1:443"} 13.0"#,
            ]
        );
    }

    #[test]
    fn watches_are_known_by_their_query() {
        for (query, watch) in [
            ("", false),
            ("watch=true", true),
            ("limit=1&watch=1", true),
            ("watch=false", false),
        ] {
            assert_eq!(is_watch(query), watch, "{query}");
        }
    }
}
