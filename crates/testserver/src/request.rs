//! What a request asks for, read from its method, path and headers.

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;

/// One request, as the API server understands it. The log, the faults and the admitter all speak of requests this way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The HTTP method.
    pub method: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; for a path that is no
    /// resource the method in lower case.
    pub verb: String,
    /// The path, without the query.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version asked for.
    pub version: String,
    /// The plural name; empty for a path that is no resource.
    pub resource: String,
    /// The namespace, empty across namespaces and for cluster-scoped kinds.
    pub namespace: String,
    /// The object's name, empty for a whole collection.
    pub name: String,
    /// The subresource, `status` for instance.
    pub subresource: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The `Accept` header.
    pub accept: String,
    /// The `Content-Type` header.
    pub content_type: String,
}

impl RequestInfo {
    pub(crate) fn parse(parts: &Parts) -> Self {
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let mut info = Self {
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            user_agent: header(USER_AGENT),
            accept: header(ACCEPT),
            content_type: header(CONTENT_TYPE),
            ..Self::default()
        };
        let segments: Vec<String> = info
            .path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(percent_decode)
            .collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => info.locate("", version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => info.locate(group, version, rest),
            _ => {}
        }
        info.verb = info.find_verb();
        info
    }

    fn locate(&mut self, group: &str, version: &str, rest: &[&str]) {
        let (namespace, rest) = match rest {
            // `namespaces/a/status` is the status of a namespace, `namespaces/a/pods` a collection inside it.
            ["namespaces", namespace, tail @ ..] if !tail.is_empty() && !["status", "finalize"].contains(&tail[0]) => {
                (*namespace, tail)
            }
            _ => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, subresource] => (*resource, *name, *subresource),
            _ => return,
        };
        self.group = group.to_owned();
        self.version = version.to_owned();
        self.namespace = namespace.to_owned();
        self.resource = resource.to_owned();
        self.name = name.to_owned();
        self.subresource = subresource.to_owned();
    }

    fn find_verb(&self) -> String {
        let verb = match (self.method.as_str(), self.resource.is_empty(), self.name.is_empty()) {
            ("GET" | "HEAD", false, false) => "get",
            ("GET" | "HEAD", false, true) if matches!(self.parameter("watch").as_deref(), Some("true" | "1")) => {
                "watch"
            }
            ("GET" | "HEAD", false, true) => "list",
            ("POST", false, _) => "create",
            ("PUT", false, _) => "update",
            ("PATCH", false, _) => "patch",
            ("DELETE", false, false) => "delete",
            ("DELETE", false, true) => "deletecollection",
            (method, _, _) => return method.to_ascii_lowercase(),
        };
        verb.to_owned()
    }

    /// A query parameter, decoded; the first one where it is given twice.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(&key.replace('+', " ")) == name).then(|| percent_decode(&value.replace('+', " ")))
        })
    }

    /// Whether this request changes something.
    pub fn writes(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }
}

/// Decodes `%XX`; a malformed escape stays as it is.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], escape.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn parse(method: &str, uri: &str) -> RequestInfo {
        RequestInfo::parse(
            &http::Request::builder()
                .method(method)
                .uri(uri)
                .body(Body::empty())
                .unwrap()
                .into_parts()
                .0,
        )
    }

    #[test]
    fn paths_become_resources() {
        let pod = parse("PATCH", "/api/v1/namespaces/a/pods/p%3A1/status?dryRun=All");
        assert_eq!(
            (
                pod.verb.as_str(),
                pod.namespace.as_str(),
                pod.resource.as_str(),
                pod.name.as_str()
            ),
            ("patch", "a", "pods", "p:1")
        );
        assert_eq!(pod.subresource, "status");
        assert_eq!(pod.parameter("dryRun").as_deref(), Some("All"));
        let namespace = parse("GET", "/api/v1/namespaces/a/status");
        assert_eq!(
            (namespace.resource.as_str(), namespace.name.as_str()),
            ("namespaces", "a")
        );
        assert_eq!(namespace.subresource, "status");
        let watch = parse("GET", "/apis/apps/v1/deployments?watch=true&labelSelector=a%3Db+,c");
        assert_eq!((watch.verb.as_str(), watch.group.as_str()), ("watch", "apps"));
        assert_eq!(watch.parameter("labelSelector").as_deref(), Some("a=b ,c"));
        assert_eq!(parse("GET", "/apis/apps/v1").resource, "");
        assert_eq!(parse("GET", "/apis/apps/v1").verb, "get");
        assert_eq!(parse("DELETE", "/api/v1/pods").verb, "deletecollection");
        assert_eq!(parse("GET", "/api/v1/a/b/c/d/e").resource, "");
    }

    #[test]
    fn broken_escapes_stay() {
        assert_eq!(percent_decode("a%zz%4"), "a%zz%4");
        assert_eq!(percent_decode("%e4%bd%a0%"), "你%");
    }
}
