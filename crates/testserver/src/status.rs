//! Errors as Kubernetes knows them: `Status` objects with upstream's codes, reasons and texts.

use std::fmt;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};

use crate::kinds::GroupResource;
use crate::request::RequestInfo;

/// A failure answer of the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason, `NotFound` for instance.
    pub reason: String,
    /// The text people see.
    pub message: String,
    /// `details`, or null.
    pub details: Value,
    /// `metadata.continue`, which only an expired page token carries.
    pub continue_token: Option<String>,
}

impl Status {
    /// A status with this code, reason and message and no details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: Value::Null,
            continue_token: None,
        }
    }

    fn about(self, resource: &GroupResource, name: &str) -> Self {
        let mut details = json!({ "kind": resource.plural });
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !resource.group.is_empty() {
            details["group"] = resource.group.as_str().into();
        }
        Self { details, ..self }
    }

    /// Details that say nothing, as the real server adds them to errors that it found before it knew the object.
    pub(crate) fn with_empty_details(self) -> Self {
        Self {
            details: json!({}),
            ..self
        }
    }

    fn retry_after(mut self, seconds: u64) -> Self {
        if !self.details.is_object() {
            self.details = json!({});
        }
        self.details["retryAfterSeconds"] = seconds.into();
        self
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403 as an authorizer words it for this request.
    pub fn forbidden(request: &RequestInfo, user: &str) -> Self {
        let resource = GroupResource::new(&request.group, &request.resource);
        let with_subresource = match request.subresource.as_str() {
            "" => request.resource.clone(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        let place = match request.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let subject = match request.name.as_str() {
            "" => resource.to_string(),
            name => format!("{resource} {name:?}"),
        };
        let message = if request.resource.is_empty() {
            format!(
                "forbidden: User {user:?} cannot {} path {:?}",
                request.verb, request.path
            )
        } else {
            format!(
                "{subject} is forbidden: User {user:?} cannot {} resource {with_subresource:?} in API group {:?} {place}",
                request.verb, request.group
            )
        };
        Self::new(403, "Forbidden", message).about(&resource, &request.name)
    }

    /// 403 as admission words it: `pods "p" is forbidden: WHY`.
    pub fn denied(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        Self::new(403, "Forbidden", format!("{resource} {name:?} is forbidden: {why}")).about(resource, name)
    }

    /// 404 of an object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// 404 of a resource that isn't served.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_empty_details()
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_empty_details()
    }

    /// 406.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// 409 of a name that is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {name:?} already exists")).about(resource, name)
    }

    /// 409 of a stale resourceVersion.
    pub fn conflict(resource: &GroupResource, name: &str) -> Self {
        Self::conflict_because(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 for another reason.
    pub fn conflict_because(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// 410 of a resourceVersion that was compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413.
    pub fn too_large() -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
        )
    }

    /// 500 of a number that is none, where upstream's code passes on what its parser says; it has no reason.
    pub(crate) fn no_number(text: &str) -> Self {
        Self::new(500, "", format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
    }

    /// 415, naming what would have been accepted.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 422; `subject` is `Kind` or `Kind.group`, each cause a field and what is wrong with it.
    pub fn invalid(subject: &str, name: &str, causes: &[(String, String)]) -> Self {
        let texts: Vec<String> = causes.iter().map(|(field, what)| format!("{field}: {what}")).collect();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let (kind, group) = subject.split_once('.').unwrap_or((subject, ""));
        let mut details = json!({
            "causes": causes.iter().map(|(field, what)| cause(field, what)).collect::<Vec<_>>(),
        });
        for (key, value) in [("name", name), ("kind", kind), ("group", group)] {
            if !value.is_empty() {
                details[key] = value.into();
            }
        }
        let status = Self::new(422, "Invalid", format!("{subject} {name:?} is invalid: {text}"));
        Self { details, ..status }
    }

    /// 429 with a Retry-After.
    pub fn too_many_requests(retry_after_seconds: u64) -> Self {
        let message = "Too many requests, please try again later.";
        Self::new(429, "TooManyRequests", message).retry_after(retry_after_seconds)
    }

    /// 500.
    pub fn internal(why: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {why}"))
    }

    /// 503.
    pub fn unavailable() -> Self {
        Self::new(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        )
    }

    /// 504 of a resourceVersion that isn't reached yet.
    pub fn revision_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut status = Self::new(504, "Timeout", message).retry_after(1);
        status.details["causes"] =
            json!([{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }]);
        status
    }

    /// The object as it goes over the wire.
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            object["reason"] = self.reason.as_str().into();
        }
        if !self.details.is_null() {
            object["details"] = self.details.clone();
        }
        if let Some(token) = &self.continue_token {
            object["metadata"]["continue"] = token.as_str().into();
        }
        object
    }
}

/// A cause of an invalid object. How its text begins gives its reason.
fn cause(field: &str, what: &str) -> Value {
    let mut cause = json!({ "field": field, "message": what });
    let reasons = [
        ("Required value", "FieldValueRequired"),
        ("Invalid value", "FieldValueInvalid"),
        ("Unsupported value", "FieldValueNotSupported"),
        ("Forbidden", "FieldValueForbidden"),
    ];
    if let Some((_, reason)) = reasons.iter().find(|(beginning, _)| what.starts_with(beginning)) {
        cause["reason"] = (*reason).into();
    }
    cause
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Status {}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let mut response = json_response(self.code, &self.to_json());
        if let Some(seconds) = self.details["retryAfterSeconds"].as_u64() {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// A JSON answer.
pub(crate) fn json_response(code: u16, body: &impl serde::Serialize) -> Response {
    // Serialising what was parsed from JSON can't fail; should it ever, an empty body shows it.
    let mut response = Response::new(Body::from(serde_json::to_vec(body).unwrap_or_default()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A plain text answer, as Go's http package writes errors.
pub(crate) fn text_response(code: u16, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// What the server answers to a path it knows nothing about.
pub(crate) fn page_not_found() -> Response {
    text_response(404, "404 page not found\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_upstreams() {
        let deployments = GroupResource::new("apps", "deployments");
        assert_eq!(
            Status::not_found(&deployments, "d").message,
            r#"deployments.apps "d" not found"#
        );
        assert_eq!(Status::not_found(&deployments, "d").details["group"], "apps");
        let invalid = Status::invalid("ListOptions.meta.k8s.io", "", &[("a".into(), "Forbidden: b".into())]);
        assert_eq!(
            invalid.message,
            r#"ListOptions.meta.k8s.io "" is invalid: a: Forbidden: b"#
        );
        let list = RequestInfo {
            verb: "list".into(),
            resource: "pods".into(),
            ..RequestInfo::default()
        };
        assert_eq!(
            Status::forbidden(&list, "u").message,
            r#"pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope"#
        );
        let patch = RequestInfo {
            verb: "patch".into(),
            resource: "resourcequotas".into(),
            namespace: "a".into(),
            name: "q".into(),
            subresource: "status".into(),
            ..RequestInfo::default()
        };
        assert_eq!(
            Status::forbidden(&patch, "u").message,
            r#"resourcequotas "q" is forbidden: User "u" cannot patch resource "resourcequotas/status" in API group "" in the namespace "a""#
        );
    }

    #[test]
    fn retry_after_is_in_body_and_header() {
        let response = Status::too_many_requests(3).into_response();
        assert_eq!(response.headers()[RETRY_AFTER], "3");
        assert_eq!(
            Status::too_many_requests(3).to_json()["details"]["retryAfterSeconds"],
            3
        );
    }
}
