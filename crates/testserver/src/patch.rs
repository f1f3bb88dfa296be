//! Patches: JSON merge patch and JSON patch.

use serde_json::Value;

use crate::status::Status;

const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json";

/// A patch, read from the body of a request.
#[derive(Debug)]
pub(crate) enum Patch {
    Merge(Value),
    Json(json_patch::Patch),
}

impl Patch {
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<Self, Status> {
        let malformed = |error: serde_json::Error| Status::bad_request(format!("error decoding patch: {error}"));
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/merge-patch+json" => {
                let patch: Value = serde_json::from_slice(body).map_err(malformed)?;
                if !patch.is_object() {
                    return Err(Status::bad_request(
                        "error decoding patch: a merge patch has to be an object",
                    ));
                }
                Ok(Self::Merge(patch))
            }
            "application/json-patch+json" => Ok(Self::Json(serde_json::from_slice(body).map_err(malformed)?)),
            _ => Err(Status::unsupported_media_type(ACCEPTED)),
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(&self, object: &Value) -> Result<Value, Status> {
        let mut patched = object.clone();
        match self {
            Self::Merge(patch) => json_patch::merge(&mut patched, patch),
            Self::Json(patch) => json_patch::patch(&mut patched, patch).map_err(|_| {
                Status::new(
                    422,
                    "Invalid",
                    "the server rejected our request due to an error in our request",
                )
            })?,
        }
        Ok(patched)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(content_type: &str, patch: &str) -> Result<Value, Status> {
        Patch::parse(content_type, patch.as_bytes())?.apply(&json!({"a": 1, "b": {"c": 2}}))
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
