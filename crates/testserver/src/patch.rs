//! Patches: JSON merge patch, JSON patch and strategic merge patch.

use serde_json::Value;

use crate::schema::Type;
use crate::status::Status;
use crate::strategic;

const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
const APPLY: &str = "application/apply-patch+yaml";

/// Whether a body is no patch but a configuration for server-side apply. It has to be JSON, which is YAML too.
pub(crate) fn is_apply(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim() == APPLY
}

/// A patch, read from the body of a request.
#[derive(Debug)]
pub(crate) enum Patch {
    Merge(Value),
    Strategic(Value),
    Json(json_patch::Patch),
}

impl Patch {
    /// Reads a patch. Custom kinds take no strategic merge patch.
    pub(crate) fn parse(content_type: &str, body: &[u8], custom: bool) -> Result<Self, Status> {
        let malformed = |error: serde_json::Error| Status::bad_request(format!("error decoding patch: {error}"));
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match media_type {
            "application/strategic-merge-patch+json" if custom => Err(Status::unsupported_media_type(ACCEPTED)),
            "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                let patch: Value =
                    serde_json::from_slice(body).map_err(|_| Status::bad_request("invalid JSON patch"))?;
                if !patch.is_object() {
                    return Err(Status::bad_request(
                        "error decoding patch: a merge patch has to be an object",
                    ));
                }
                Ok(if media_type == "application/merge-patch+json" {
                    Self::Merge(patch)
                } else {
                    Self::Strategic(patch)
                })
            }
            "application/json-patch+json" => {
                let operations: Vec<Value> = serde_json::from_slice(body).map_err(malformed)?;
                // An operation that is none is found when it is applied.
                serde_json::from_value(operations.into())
                    .map(Self::Json)
                    .map_err(|_| inapplicable())
            }
            _ => Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_empty_details()),
        }
    }

    /// The object, of a type, after the patch.
    pub(crate) fn apply(&self, object: &Value, of: Type<'_>) -> Result<Value, Status> {
        let mut patched = object.clone();
        match self {
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
            Self::Strategic(patch) => strategic::merge(&mut patched, patch, of)?,
            Self::Json(patch) => json_patch::patch(&mut patched, patch).map_err(|_| inapplicable())?,
        }
        Ok(patched)
    }
}

fn inapplicable() -> Status {
    let message = "the server rejected our request due to an error in our request";
    Status::new(422, "Invalid", message).with_empty_details()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(content_type: &str, patch: &str) -> Result<Value, Status> {
        let patch = Patch::parse(content_type, patch.as_bytes(), true)?;
        patch.apply(&json!({"a": 1, "b": {"c": 2}}), Type::custom(&Value::Null))
    }

    #[test]
    fn both_kinds_of_patch_apply() {
        let merged = apply(
            "application/merge-patch+json; charset=utf-8",
            r#"{"a": null, "b": {"d": 3}}"#,
        )
        .unwrap();
        assert_eq!(merged, json!({"b": {"c": 2, "d": 3}}));
        let patched = apply(
            "application/json-patch+json",
            r#"[{"op": "replace", "path": "/a", "value": 5}]"#,
        )
        .unwrap();
        assert_eq!(patched["a"], 5);
    }

    #[test]
    fn what_is_wrong_gets_its_code() {
        let failed_test = r#"[{"op": "test", "path": "/a", "value": 9}]"#;
        assert_eq!(apply("application/json-patch+json", failed_test).unwrap_err().code, 422);
        assert_eq!(apply("application/json-patch+json", "{}").unwrap_err().code, 400);
        assert_eq!(apply("application/merge-patch+json", "[]").unwrap_err().code, 400);
        assert_eq!(apply("application/merge-patch+json", "{").unwrap_err().code, 400);
        assert_eq!(apply("application/apply-patch+yaml", "{}").unwrap_err().code, 415);
    }
}
