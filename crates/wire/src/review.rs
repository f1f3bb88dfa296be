//! What kube-apiserver asks an admission webhook, and what it is answered: `AdmissionReview` of admission.k8s.io/v1.

use std::collections::BTreeMap;

use kubequota_core::GroupResource;
use kubequota_core::evaluator::Operation;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A body that is no review: its sender has made a mistake, and nothing can be decided.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or a field is not what it should be.
    #[error("the body can't be read as an AdmissionReview: {field}: {reason}")]
    Malformed {
        /// The path of the field; `body` for the whole.
        field: String,
        /// What the parser said.
        reason: String,
    },
    /// Another type, or another version of it.
    #[error(
        "the body is {kind:?} of {api_version:?}, wanted is {KIND} of {API_VERSION}: name v1 in admissionReviewVersions"
    )]
    Version {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// Something that every review has is missing.
    #[error("the AdmissionReview has no {0}")]
    Missing(&'static str),
    /// A verb that Kubernetes does not have.
    #[error("the AdmissionReview has an unknown request.operation: {0:?}")]
    Operation(String),
}

/// A request that waits to be judged. The objects are still text.
#[derive(Clone, Debug)]
pub struct Review<'a> {
    /// Identifies the review; the answer repeats it.
    pub uid: String,
    /// The resource that the webhook's rule matched.
    pub kind: GroupResource,
    /// Empty for the object itself.
    pub subresource: String,
    /// The name in the request; empty where the server made or makes one.
    pub name: String,
    /// The namespace; empty for what has none.
    pub namespace: String,
    /// The verb.
    pub operation: Operation,
    /// The object as it would be.
    pub object: Option<&'a str>,
    /// The object as it is.
    pub old_object: Option<&'a str>,
    /// Nothing will be stored.
    pub dry_run: bool,
}

impl<'a> Review<'a> {
    /// Reads the body of a request to the webhook. What it has beyond v1's fields is passed over.
    ///
    /// # Errors
    /// What makes it no review.
    pub fn read(body: &'a [u8]) -> Result<Self, ReviewError> {
        #[derive(Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        #[derive(Default)]
        struct Outline<'a> {
            api_version: String,
            kind: String,
            #[serde(borrow)]
            request: Option<&'a RawValue>,
        }
        let text = std::str::from_utf8(body).map_err(|error| ReviewError::Malformed {
            field: "body".to_owned(),
            reason: error.to_string(),
        })?;
        // The version decides what the rest means.
        let outline: Outline<'a> = decode(text, "")?;
        if outline.api_version != API_VERSION || outline.kind != KIND {
            let Outline { api_version, kind, .. } = outline;
            return Err(ReviewError::Version { api_version, kind });
        }
        let request = outline.request.ok_or(ReviewError::Missing("request"))?;
        decode::<RequestText<'a>>(request.get(), "request.")?.review()
    }
}

fn decode<'a, T: Deserialize<'a>>(text: &'a str, at: &str) -> Result<T, ReviewError> {
    json::decode(std::marker::PhantomData, text).map_err(|error| ReviewError::Malformed {
        field: match error.field.as_str() {
            "object" if at.is_empty() => "body".to_owned(),
            "object" => at.trim_end_matches('.').to_owned(),
            field => format!("{at}{field}"),
        },
        reason: error.reason,
    })
}

/// `request` of a review.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RequestText<'a> {
    uid: String,
    resource: ResourceText,
    sub_resource: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    operation: String,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
    dry_run: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceText {
    group: String,
    resource: String,
}

impl<'a> RequestText<'a> {
    fn review(self) -> Result<Review<'a>, ReviewError> {
        if self.uid.is_empty() {
            return Err(ReviewError::Missing("request.uid"));
        }
        if self.resource.resource.is_empty() {
            return Err(ReviewError::Missing("request.resource.resource"));
        }
        let operation = match self.operation.as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            _ => return Err(ReviewError::Operation(self.operation)),
        };
        Ok(Review {
            uid: self.uid,
            kind: GroupResource::new(&self.resource.group, &self.resource.resource),
            subresource: self.sub_resource.unwrap_or_default(),
            name: self.name.unwrap_or_default(),
            namespace: self.namespace.unwrap_or_default(),
            operation,
            object: self.object.map(RawValue::get),
            old_object: self.old_object.map(RawValue::get),
            dry_run: self.dry_run.unwrap_or_default(),
        })
    }
}

/// The answer to a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Why the request is refused; `None` lets it through.
    pub refusal: Option<Refused>,
    /// What the audit log keeps; the server puts the webhook's name before each key.
    pub audit_annotations: BTreeMap<String, String>,
}

/// A `Status` as kube-apiserver hands it to its client, after a prefix that names the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP code.
    pub code: u16,
    /// One word of what went wrong, as in `Forbidden`.
    pub reason: &'static str,
    /// What went wrong, for people.
    pub message: String,
    /// The object's name.
    pub name: String,
    /// The object's kind, as upstream tells it: by its resource.
    pub kind: GroupResource,
    /// After how many seconds to try again; zero where that would not help.
    pub retry_after_seconds: u32,
}

impl Answer {
    /// The body of the answer to the review with this uid.
    #[must_use]
    pub fn body(&self, uid: &str) -> Vec<u8> {
        let status = self.refusal.as_ref().map(|refused| StatusText {
            metadata: Empty {},
            status: "Failure",
            message: &refused.message,
            reason: refused.reason,
            details: DetailsText {
                name: &refused.name,
                group: &refused.kind.group,
                kind: &refused.kind.resource,
                retry_after_seconds: refused.retry_after_seconds,
            },
            code: refused.code,
        });
        let review = ReviewText {
            api_version: API_VERSION,
            kind: KIND,
            response: ResponseText {
                uid,
                allowed: status.is_none(),
                status,
                audit_annotations: &self.audit_annotations,
            },
        };
        // Maps with text for keys always make JSON.
        serde_json::to_vec(&review).unwrap_or_default()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewText<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: ResponseText<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseText<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusText<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct StatusText<'a> {
    metadata: Empty,
    status: &'static str,
    message: &'a str,
    reason: &'static str,
    details: DetailsText<'a>,
    code: u16,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DetailsText<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn review(request: &Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    }

    fn request() -> Value {
        json!({
            "uid": "u",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "name": "p",
            "namespace": "a",
            "operation": "CREATE",
            "userInfo": {"username": "someone"},
            "object": {"metadata": {"name": "p"}},
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions"},
        })
    }

    #[test]
    fn a_create() {
        let body = review(&request()).to_string();
        let read = Review::read(body.as_bytes()).unwrap();
        assert_eq!((read.uid.as_str(), &read.kind), ("u", &GroupResource::core("pods")));
        assert_eq!(
            (read.namespace.as_str(), read.name.as_str(), read.subresource.as_str()),
            ("a", "p", "")
        );
        assert_eq!(read.operation, Operation::Create);
        assert_eq!(read.object, Some(r#"{"metadata":{"name":"p"}}"#));
        assert_eq!((read.old_object, read.dry_run), (None, false));
    }

    #[test]
    fn the_rest() {
        let mut request = request();
        request["operation"] = "UPDATE".into();
        request["subResource"] = "resize".into();
        request["oldObject"] = json!({});
        request["dryRun"] = true.into();
        request["resource"] = json!({"group": "apps", "version": "v1", "resource": "deployments"});
        let body = review(&request).to_string();
        let read = Review::read(body.as_bytes()).unwrap();
        assert_eq!(read.kind, GroupResource::new("apps", "deployments"));
        assert_eq!(
            (read.operation, read.subresource.as_str()),
            (Operation::Update, "resize")
        );
        assert_eq!((read.old_object, read.dry_run), (Some("{}"), true));
        // What a cluster-scoped deletion leaves out.
        let body = review(&json!({"uid": "u", "resource": {"resource": "nodes"}, "operation": "DELETE"})).to_string();
        let read = Review::read(body.as_bytes()).unwrap();
        assert_eq!((read.namespace.as_str(), read.object), ("", None));
    }

    #[test]
    fn what_is_no_review() {
        let change = |path: &str, value: Value| {
            let mut review = review(&request());
            *review.pointer_mut(path).unwrap() = value;
            review.to_string()
        };
        let table = [
            (
                String::new(),
                "the body can't be read as an AdmissionReview: body: EOF while parsing a value",
            ),
            ("[]".to_owned(), "the body is \"\" of \"\""),
            (
                "{}".to_owned(),
                "the body is \"\" of \"\", wanted is AdmissionReview of admission.k8s.io/v1",
            ),
            (
                change("/apiVersion", "admission.k8s.io/v1beta1".into()),
                "the body is \"AdmissionReview\" of \"admission.k8s.io/v1beta1\"",
            ),
            (change("/kind", "Pod".into()), "the body is \"Pod\" of"),
            (change("/request", Value::Null), "the AdmissionReview has no request"),
            (
                change("/request", 5.into()),
                "the body can't be read as an AdmissionReview: request: invalid type: integer `5`",
            ),
            (
                change("/request/uid", "".into()),
                "the AdmissionReview has no request.uid",
            ),
            (
                change("/request/uid", 5.into()),
                "the body can't be read as an AdmissionReview: request.uid: invalid type: integer `5`",
            ),
            (
                change("/request/resource/resource", "".into()),
                "the AdmissionReview has no request.resource.resource",
            ),
            (
                change("/request/resource/group", json!({})),
                "the body can't be read as an AdmissionReview: request.resource.group: invalid type: map",
            ),
            (
                change("/request/operation", "PATCH".into()),
                "the AdmissionReview has an unknown request.operation: \"PATCH\"",
            ),
        ];
        for (body, expected) in table {
            let error = Review::read(body.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{body}: {error}");
        }
        let error = Review::read(&[0xff]).unwrap_err().to_string();
        assert!(error.contains("body: invalid utf-8"), "{error}");
    }

    #[test]
    fn answers() {
        let body: Value = serde_json::from_slice(&Answer::default().body("u")).unwrap();
        let outline = |response: Value| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        assert_eq!(body, outline(json!({"uid": "u", "allowed": true})));
        let refused = Answer {
            refusal: Some(Refused {
                code: 403,
                reason: "Forbidden",
                message: "no".to_owned(),
                name: "p".to_owned(),
                kind: GroupResource::core("pods"),
                retry_after_seconds: 0,
            }),
            audit_annotations: BTreeMap::from([("quota".to_owned(), "q".to_owned())]),
        };
        let body: Value = serde_json::from_slice(&refused.body("u")).unwrap();
        let status = json!({
            "metadata": {}, "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403,
            "details": {"name": "p", "kind": "pods"},
        });
        let expected = json!({"uid": "u", "allowed": false, "status": status, "auditAnnotations": {"quota": "q"}});
        assert_eq!(body, outline(expected));
    }
}
