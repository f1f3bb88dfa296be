//! Where the API server finds the webhook.

use http::Uri;
use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};

/// Where the API server finds the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At this URL, to which the [path](crate::handler::PATH) is added.
    Url(String),
    /// Behind a Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
}

/// Why a text is no address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is no URL that an API server calls.
    #[error(
        "{0:?} is no address for a webhook: it must be https://HOST or https://HOST:PORT, and a path if need be, without user, query and fragment"
    )]
    Url(String),
    /// It does not name a Service.
    #[error("{0:?} names no Service: it must be NAMESPACE/NAME, or NAMESPACE/NAME:PORT with a port from 1 to 65535")]
    Service(String),
}

impl Address {
    /// Reads `https://HOST:PORT`.
    ///
    /// # Errors
    /// What an API server would not call.
    pub fn url(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError::Url(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let plain = !text.contains(['?', '#', '@']);
        if uri.scheme_str() != Some("https") || uri.host().is_none_or(str::is_empty) || !plain {
            return Err(wrong());
        }
        Ok(Address::Url(text.trim_end_matches('/').to_owned()))
    }

    /// Reads `NAMESPACE/NAME:PORT`; the port is 443 where none is given.
    ///
    /// # Errors
    /// What does not name a Service.
    pub fn service(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError::Service(text.to_owned());
        let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
        let (name, port) = rest.split_once(':').unwrap_or((rest, "443"));
        let is_name = |name: &str| {
            let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            (1..=63).contains(&name.len()) && name.chars().all(plain)
        };
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        if !is_name(namespace) || !is_name(name) {
            return Err(wrong());
        }
        Ok(Address::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        })
    }

    /// The name that the API server looks for in the webhook's certificate: a DNS name or an IP address.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Address::Url(url) => {
                let uri: Option<Uri> = url.parse().ok();
                let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
                host.trim_matches(['[', ']']).to_owned()
            }
            Address::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }

    /// How the API server calls `path` there.
    pub(super) fn client_config(&self, path: &str) -> WebhookClientConfig {
        let mut config = WebhookClientConfig::default();
        match self {
            Address::Url(url) => config.url = Some(format!("{}{path}", url.trim_end_matches('/'))),
            Address::Service { namespace, name, port } => {
                config.service = Some(ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    path: Some(path.to_owned()),
                    port: Some(i32::from(*port)),
                });
            }
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::handler::PATH;

    fn shown(address: Result<Address, AddressError>) -> Result<(String, Value), String> {
        let address = address.map_err(|error| error.to_string())?;
        Ok((
            address.host(),
            serde_json::to_value(address.client_config(PATH)).unwrap(),
        ))
    }

    #[test]
    fn urls() {
        for (text, host, url) in [
            (
                "https://a.example.com",
                "a.example.com",
                "https://a.example.com/admission",
            ),
            (
                "https://127.0.0.1:9443/",
                "127.0.0.1",
                "https://127.0.0.1:9443/admission",
            ),
            ("https://[::1]:9443", "::1", "https://[::1]:9443/admission"),
            ("https://a/quota/", "a", "https://a/quota/admission"),
        ] {
            assert_eq!(
                shown(Address::url(text)),
                Ok((host.to_owned(), json!({"url": url}))),
                "{text}"
            );
        }
        for text in [
            "",
            "a:443",
            "http://a",
            "https://",
            "https://u@a",
            "https://a?b=c",
            "https://a#b",
            "/x",
        ] {
            let error = shown(Address::url(text)).unwrap_err();
            assert!(
                error.starts_with(&format!("{text:?} is no address for a webhook")),
                "{error}"
            );
        }
    }

    #[test]
    fn services() {
        for (text, port) in [("ns/webhook:8443", 8443), ("ns/webhook", 443)] {
            let service = json!({"namespace": "ns", "name": "webhook", "path": "/admission", "port": port});
            let expected = ("webhook.ns.svc".to_owned(), json!({"service": service}));
            assert_eq!(shown(Address::service(text)), Ok(expected), "{text}");
        }
        for text in [
            "",
            "webhook",
            "/webhook",
            "ns/",
            "ns/w:0",
            "ns/w:65536",
            "ns/w:x",
            "NS/w",
            "ns/w/x",
            "n s/w",
        ] {
            let error = shown(Address::service(text)).unwrap_err();
            assert!(error.starts_with(&format!("{text:?} names no Service")), "{error}");
        }
    }
}
