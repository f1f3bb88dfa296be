//! What can go wrong with a call, and what people can do about it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubequota_wire::{Status, WireError};

use crate::resource::ApiResource;

/// What was asked of the server, as far as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The verb as RBAC has it: `list`, `watch`, `get`, `patch`.
    pub verb: &'static str,
    /// What it is done to.
    pub target: Target,
}

/// What a [`Call`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Objects, or one of them.
    Resource {
        /// API group; empty for core.
        group: Arc<str>,
        /// Plural name, with the subresource: `pods`, `resourcequotas/status`.
        resource: Arc<str>,
        /// The namespace; `None` for all of them, and for what has none.
        namespace: Option<String>,
        /// The object; `None` for all.
        name: Option<String>,
    },
    /// A path that is no resource, such as `/apis`.
    Path(String),
}

impl Call {
    /// `verb` on the objects of a resource, in one namespace or all.
    #[must_use]
    pub fn on(verb: &'static str, resource: &ApiResource, namespace: Option<&str>) -> Self {
        let id = &resource.id;
        let namespace = namespace.map(str::to_owned);
        Call {
            verb,
            target: Target::Resource {
                group: id.group.clone(),
                resource: id.resource.clone(),
                namespace,
                name: None,
            },
        }
    }

    /// `verb` on one object.
    #[must_use]
    pub fn on_one(verb: &'static str, resource: &ApiResource, namespace: Option<&str>, name: &str) -> Self {
        let mut call = Call::on(verb, resource, namespace);
        if let Target::Resource { name: target, .. } = &mut call.target {
            *target = Some(name.to_owned());
        }
        call
    }

    /// The same on a subresource.
    #[must_use]
    pub fn of(mut self, subresource: &str) -> Self {
        if let Target::Resource { resource, .. } = &mut self.target {
            *resource = format!("{resource}/{subresource}").into();
        }
        self
    }

    /// A `get` of a path that is no resource.
    #[must_use]
    pub fn get_path(path: &str) -> Self {
        Call {
            verb: "get",
            target: Target::Path(path.to_owned()),
        }
    }

    /// What has to be granted for this call.
    fn grant(&self) -> String {
        match &self.target {
            Target::Resource {
                group,
                resource,
                namespace,
                ..
            } => {
                let place = if namespace.is_some() {
                    "a Role there or a ClusterRole"
                } else {
                    "a ClusterRole"
                };
                format!(
                    "grant verb {} on {resource} in API group \"{group}\" ({place})",
                    self.verb
                )
            }
            Target::Path(path) => format!("grant verb {} on the nonResourceURL {path} (a ClusterRole)", self.verb),
        }
    }
}

/// `list pods.apps in namespace a`: reads after "may not" and "could not".
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { verb, target } = self;
        match target {
            Target::Path(path) => write!(f, "{verb} {path}"),
            Target::Resource {
                group,
                resource,
                namespace,
                name,
            } => {
                write!(f, "{verb} {resource}")?;
                if !group.is_empty() {
                    write!(f, " ({group})")?;
                }
                match (namespace, name) {
                    (Some(namespace), Some(name)) => write!(f, " {namespace}/{name}"),
                    (None, Some(name)) => write!(f, " {name}"),
                    (Some(namespace), None) => write!(f, " in namespace {namespace}"),
                    (None, None) => Ok(()),
                }
            }
        }
    }
}

/// A call that did not give what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server said no.
    #[error("{}", refusal(call, status))]
    Status {
        /// What was asked.
        call: Box<Call>,
        /// The answer.
        status: Box<Status>,
        /// How long the server wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// There was no answer, or it broke off.
    #[error("could not {call}: no answer from the server: {cause}; is it up, and is its address right?")]
    Unreachable {
        /// What was asked.
        call: Box<Call>,
        /// Why.
        cause: String,
    },
    /// The credentials could not even be made.
    #[error(
        "could not {call}: no credentials for the server: {cause}; check the user in the kubeconfig, or the service account's token"
    )]
    Credentials {
        /// What was asked.
        call: Box<Call>,
        /// Why.
        cause: String,
    },
    /// The answer did not come, or did not end, in time.
    #[error("could not {call}: no answer within {after:?}; the server may be overloaded, or the network drops packets")]
    Timeout {
        /// What was asked.
        call: Box<Call>,
        /// The deadline.
        after: Duration,
    },
    /// A watch on which nothing came any more, not even bookmarks.
    #[error("could not {call}: nothing came for {after:?}, not even a bookmark")]
    Silent {
        /// What was asked.
        call: Box<Call>,
        /// How long it was waited for.
        after: Duration,
    },
    /// The answer is not what Kubernetes sends.
    #[error("could not {call}: {source}; is something between this client and the server that answers in its place?")]
    Decode {
        /// What was asked.
        call: Box<Call>,
        /// What is wrong with it.
        source: WireError,
    },
    /// A line of a watch is longer than is believed.
    #[error("could not {call}: an event of more than {limit} bytes")]
    TooLong {
        /// What was asked.
        call: Box<Call>,
        /// The limit.
        limit: usize,
    },
    /// A watch says less than what was already known: the server's store was set back, or it is another server.
    #[error("could not {call}: the server went back from revision {known} to {told}")]
    WentBack {
        /// What was asked.
        call: Box<Call>,
        /// The revision known.
        known: String,
        /// The revision told.
        told: String,
    },
    /// A request that can't be sent at all.
    #[error("could not {call}: it makes no valid request: {source}")]
    Invalid {
        /// What was asked.
        call: Box<Call>,
        /// Why not.
        source: http::Error,
    },
}

impl ApiError {
    /// What the server says, in an answer or an event. `retry_after` is what a header says.
    pub(crate) fn from_status(call: &Call, status: Status, retry_after: Option<Duration>) -> Self {
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let told = Some(Duration::from_secs(seconds.into())).filter(|told| !told.is_zero());
        ApiError::Status {
            call: Box::new(call.clone()),
            status: Box::new(status),
            retry_after: retry_after.or(told),
        }
    }

    /// What was asked.
    #[must_use]
    pub fn call(&self) -> &Call {
        match self {
            ApiError::Status { call, .. }
            | ApiError::Unreachable { call, .. }
            | ApiError::Credentials { call, .. }
            | ApiError::Timeout { call, .. }
            | ApiError::Silent { call, .. }
            | ApiError::Decode { call, .. }
            | ApiError::TooLong { call, .. }
            | ApiError::WentBack { call, .. }
            | ApiError::Invalid { call, .. } => call,
        }
    }

    /// The HTTP status, where the server answered with one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            ApiError::Status { status, .. } => Some(status.code),
            _ => None,
        }
    }

    /// The object has another revision by now.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The revision, or the rest of the list, is no longer kept: list again.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        match self {
            ApiError::Status { status, .. } => {
                status.code == 410 || matches!(status.reason.as_str(), "Expired" | "Gone")
            }
            _ => false,
        }
    }

    /// There is no such object, or no such resource.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// This client may not do that.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// The server wants fewer requests.
    #[must_use]
    pub fn is_too_many(&self) -> bool {
        self.code() == Some(429)
    }

    /// The server does not have the resource in its cache: it has just started, or can't read what is stored.
    #[must_use]
    pub fn is_initializing(&self) -> bool {
        match self {
            ApiError::Status { status, .. } => is_initializing(status),
            _ => false,
        }
    }

    /// The server failed (5xx).
    #[must_use]
    pub fn is_server_error(&self) -> bool {
        self.code().is_some_and(|code| code >= 500)
    }

    /// How long the server wants to be left alone, where it says so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ApiError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether this says the same as `other` to a reader of a log, though the text may differ in a detail.
    #[must_use]
    pub fn is_like(&self, other: &ApiError) -> bool {
        match (self, other) {
            (ApiError::Status { status, .. }, ApiError::Status { status: other, .. }) => {
                status.code == other.code && status.reason == other.reason
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// What the server's refusal means, and what to do.
fn refusal(call: &Call, status: &Status) -> String {
    let Status {
        code, reason, message, ..
    } = status;
    match code {
        401 => format!("could not {call}: the server does not know this client ({message}); renew its credentials"),
        // Admission refuses with 403 too, and no grant helps against that; RBAC always says who "cannot" do what.
        403 if message.contains("cannot") => format!("may not {call}: {}; the server says: {message}", call.grant()),
        403 => format!("may not {call}: {message}"),
        404 if message.is_empty() => format!("could not {call}: the server has no such thing"),
        429 if is_initializing(status) => format!(
            "could not {call}: the server does not serve it yet, because it has just started or can't read what is stored ({message})"
        ),
        429 => format!(
            "could not {call}: the server has too much to do ({message}); lower --kube-api-qps, or give this client more priority"
        ),
        _ => format!("could not {call}: {code} {reason}: {message}"),
    }
}

/// kube-apiserver says so with the code for too many requests, and in these words alone.
fn is_initializing(status: &Status) -> bool {
    status.code == 429 && status.message.contains("storage is (re)initializing")
}

/// An error and what lies under it, each thing said once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, message: &str) -> Box<Status> {
        Box::new(Status {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            details: None,
        })
    }

    fn refused(call: Call, status: Box<Status>) -> ApiError {
        ApiError::Status {
            call: Box::new(call),
            status,
            retry_after: None,
        }
    }

    #[test]
    fn messages_name_what_was_asked_and_what_to_do() {
        let pods = ApiResource::new("", "v1", "pods", "Pod", true);
        let rbac = "pods is forbidden: User \"q\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
        let error = refused(Call::on("list", &pods, None), status(403, "Forbidden", rbac));
        assert_eq!(
            error.to_string(),
            format!(
                "may not list pods: grant verb list on pods in API group \"\" (a ClusterRole); the server says: {rbac}"
            )
        );
        let quota = Call::on_one("patch", &ApiResource::resource_quotas(), Some("a"), "q").of("status");
        let error = refused(
            quota.clone(),
            status(403, "Forbidden", "admission webhook \"x\" denied the request"),
        );
        assert_eq!(
            error.to_string(),
            "may not patch resourcequotas/status a/q: admission webhook \"x\" denied the request"
        );
        let error = refused(quota, status(409, "Conflict", "the object has been modified"));
        assert_eq!(
            error.to_string(),
            "could not patch resourcequotas/status a/q: 409 Conflict: the object has been modified"
        );
        let deployments = ApiResource::new("apps", "v1", "deployments", "Deployment", true);
        let error = ApiError::Timeout {
            call: Box::new(Call::on("watch", &deployments, Some("a"))),
            after: Duration::from_secs(9),
        };
        assert!(
            error
                .to_string()
                .starts_with("could not watch deployments (apps) in namespace a: no answer within 9s"),
            "{error}"
        );
        for (message, expected) in [
            (
                "too many requests",
                "could not watch pods: the server has too much to do (too many requests); lower --kube-api-qps",
            ),
            (
                "storage is (re)initializing: failed to list",
                "could not watch pods: the server does not serve it yet",
            ),
        ] {
            let error = refused(Call::on("watch", &pods, None), status(429, "TooManyRequests", message));
            assert!(error.to_string().starts_with(expected), "{error}");
            assert_eq!(error.is_initializing(), message.starts_with("storage"));
        }
        let error = refused(
            Call::get_path("/apis"),
            status(403, "Forbidden", "User \"q\" cannot get path \"/apis\""),
        );
        assert!(
            error.to_string().contains("grant verb get on the nonResourceURL /apis"),
            "{error}"
        );
    }

    #[test]
    fn expired_is_known_by_code_or_reason() {
        let call = Call::get_path("/");
        for (code, reason, expired) in [
            (410, "Expired", true),
            (410, "Gone", true),
            (504, "Expired", true),
            (404, "NotFound", false),
        ] {
            assert_eq!(
                refused(call.clone(), status(code, reason, "")).is_expired(),
                expired,
                "{code} {reason}"
            );
        }
    }

    #[test]
    fn alike_for_a_log() {
        let call = Call::get_path("/");
        let error = |code, reason, message| refused(call.clone(), status(code, reason, message));
        assert!(error(500, "InternalError", "a").is_like(&error(500, "InternalError", "b")));
        assert!(!error(500, "InternalError", "a").is_like(&error(403, "Forbidden", "a")));
        let timeout = ApiError::Timeout {
            call: Box::new(call.clone()),
            after: Duration::ZERO,
        };
        assert!(!timeout.is_like(&error(500, "", "")));
    }

    #[test]
    fn chains_say_each_thing_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::io::Error);
        #[derive(Debug, thiserror::Error)]
        #[error("all: {0}")]
        struct All(#[source] Outer);
        let error = All(Outer(std::io::Error::other("refused")));
        assert_eq!(chain(&error), "all: outer: refused");
    }
}
