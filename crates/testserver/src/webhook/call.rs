//! Reaching a webhook: in this process where a test serves it, otherwise over HTTPS.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt;

use crate::TestServer;
use crate::defaults::from_base64;

/// Where HTTPS is where nothing else is said.
const HTTPS_PORT: u16 = 443;

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Host and port.
    pub(super) authority: String,
    /// Host, port and path as Go's client writes them.
    pub(super) url: String,
    /// The name of the Service, which this server can't find unless a test serves it.
    service: Option<String>,
    /// PEM.
    ca: Vec<u8>,
}

impl Target {
    /// Reads a `clientConfig`.
    pub(super) fn of(config: &Value) -> Result<Self, String> {
        let ca = config["caBundle"].as_str().map_or(Some(Vec::new()), from_base64);
        let ca = ca.ok_or("caBundle is no base64")?;
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let service = &config["service"];
        if service.is_object() {
            let port = service["port"].as_u64().unwrap_or(u64::from(HTTPS_PORT));
            let name = text(&service["name"]);
            let authority = format!("{name}.{}.svc:{port}", text(&service["namespace"]));
            let path = text(&service["path"]);
            return Ok(Self {
                url: format!("https://{authority}/{}", path.trim_start_matches('/')),
                authority,
                service: Some(name),
                ca,
            });
        }
        let url = text(&config["url"]);
        if url.is_empty() {
            return Err("webhook configuration must have either service or URL".to_owned());
        }
        let uri: Uri = url.parse().map_err(|why| format!("Unparsable URL: {why}"))?;
        let host = uri.authority().map_or("", |authority| authority.as_str());
        Ok(Self {
            authority: authority_of(&url),
            url: format!("https://{host}{}", uri.path()),
            service: None,
            ca,
        })
    }
}

/// Host and port of a URL, or of `NAMESPACE/SERVICE` with a port or without.
pub(crate) fn authority_of(place: &str) -> String {
    let (host, port) = match place.strip_prefix("https://") {
        Some(rest) => {
            let authority = rest.split('/').next().unwrap_or_default();
            split_port(authority, |host| host.to_ascii_lowercase())
        }
        None => {
            let (namespace, service) = place.split_once('/').unwrap_or(("default", place));
            split_port(service, |name| format!("{name}.{namespace}.svc"))
        }
    };
    format!("{host}:{port}")
}

fn split_port(text: &str, host: impl Fn(&str) -> String) -> (String, u16) {
    let split = text
        .rsplit_once(':')
        .and_then(|(name, port)| Some((name, port.parse().ok()?)));
    let (name, port) = split.unwrap_or((text, HTTPS_PORT));
    (host(name), port)
}

/// An error as Go's client words it.
pub(super) fn at(url: &str, why: impl std::fmt::Display) -> String {
    format!("Post {url:?}: {why}")
}

/// Sends a review and reads what is answered.
pub(super) async fn post(server: &TestServer, target: &Target, url: &str, review: &Value) -> Result<Value, String> {
    let body = Bytes::from(review.to_string());
    let uri: Uri = url.parse().map_err(|why| at(url, why))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(HOST, uri.authority().map_or("", |authority| authority.as_str()))
        .header(CONTENT_TYPE, "application/json");
    let answer = match (server.served_webhook(&target.authority), &target.service) {
        (Some(router), _) => {
            let request = request.body(Body::from(body)).map_err(|why| at(url, why))?;
            let answer = match router.oneshot(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
            gather(answer).await
        }
        (None, Some(service)) => Err(format!("service {service:?} not found")),
        (None, None) => match request.body(Full::new(body)) {
            Ok(request) => send(target, request).await,
            Err(why) => Err(why.to_string()),
        },
    };
    read(&answer.map_err(|why| at(url, why))?)
}

async fn gather<B>(answer: Response<B>) -> Result<Response<Bytes>, String>
where
    B: http_body::Body,
    B::Error: std::fmt::Display,
{
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.map_err(|why| why.to_string())?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// One request over a connection of its own.
async fn send(target: &Target, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, String> {
    let text = |why: &dyn std::fmt::Display| why.to_string();
    let stream = TcpStream::connect(&target.authority).await.map_err(|why| text(&why))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&target.ca) {
        roots
            .add(certificate.map_err(|why| format!("{why:?}"))?)
            .map_err(|why| text(&why))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| text(&why))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = target.authority.rsplit_once(':').map_or("", |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(|why| text(&why))?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = TokioIo::new(stream.map_err(|why| text(&why))?);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(|why| text(&why))?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|why| text(&why))?;
        gather(answer).await
    };
    // The connection is driven for as long as the answer is awaited, and closes with it.
    let mut connection = std::pin::pin!(connection);
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        ended = &mut connection => match ended {
            // What has arrived before the end can still be read.
            Ok(()) => exchange.await,
            Err(why) => Err(why.to_string()),
        },
    }
}

/// The review in an answer, or what Go's client says of another.
fn read(answer: &Response<Bytes>) -> Result<Value, String> {
    let (code, body) = (answer.status().as_u16(), answer.body());
    let parsed: Result<Value, _> = serde_json::from_slice(body);
    if (200..300).contains(&code) {
        return parsed.map_err(|why| format!("couldn't get version/kind; json parse error: {why}"));
    }
    if let Some(message) = parsed.ok().filter(|status| status["kind"] == "Status") {
        return Err(message["message"].as_str().unwrap_or("unknown").to_owned());
    }
    let kind = answer
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or("");
    let said = String::from_utf8_lossy(body);
    let said = if kind.is_empty() || kind.starts_with("text/") {
        said.trim()
    } else {
        "unknown"
    };
    Err(match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => said.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({said:?}) has prevented the request from succeeding"),
        code => format!("the server responded with the status code {code} but did not return more information"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_have_a_host_and_a_port() {
        for (place, authority) in [
            ("https://Hook.example/validate", "hook.example:443"),
            ("https://127.0.0.1:8443", "127.0.0.1:8443"),
            ("system/webhook:8443", "webhook.system.svc:8443"),
            ("system/webhook", "webhook.system.svc:443"),
        ] {
            assert_eq!(authority_of(place), authority, "{place}");
        }
        let target = Target::of(&json!({"service": {"namespace": "system", "name": "webhook", "path": "/v"}})).unwrap();
        assert_eq!(target.authority, authority_of("system/webhook"));
        assert_eq!(target.url, "https://webhook.system.svc:443/v");
        let target = Target::of(&json!({"url": "https://127.0.0.1:8443"})).unwrap();
        assert_eq!(
            (target.authority.as_str(), target.url.as_str()),
            ("127.0.0.1:8443", "https://127.0.0.1:8443/")
        );
        for wrong in [json!({}), json!({"url": "https://a", "caBundle": "?"})] {
            assert!(Target::of(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_answers_are_told_as_gos_client_tells_them() {
        let answer = |code: u16, body: &'static str| {
            read(
                &Response::builder()
                    .status(code)
                    .body(Bytes::from_static(body.as_bytes()))
                    .unwrap(),
            )
        };
        assert_eq!(answer(200, "{}"), Ok(json!({})));
        for (code, body, told) in [
            (
                500,
                "boom\n",
                "an error on the server (\"boom\") has prevented the request from succeeding",
            ),
            (404, "", "the server could not find the requested resource"),
            (
                418,
                "",
                "the server responded with the status code 418 but did not return more information",
            ),
            (500, r#"{"kind": "Status", "message": "m"}"#, "m"),
        ] {
            assert_eq!(answer(code, body), Err(told.to_owned()), "{code}");
        }
        assert!(
            answer(200, "no")
                .unwrap_err()
                .starts_with("couldn't get version/kind; json parse error: ")
        );
    }
}
