//! Fields that a kind doesn't have: told to the client, refused if it asked for that, and never stored.

use serde_json::Value;

use crate::schema::Type;
use crate::status::Status;

/// What a request wants done about unknown fields (`fieldValidation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Ignore,
    Warn,
    Refuse,
}

impl Unknown {
    /// Reads the query parameter; a server warns unless told otherwise.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("" | "Warn") => Ok(Self::Warn),
            Some("Ignore") => Ok(Self::Ignore),
            Some("Strict") => Ok(Self::Refuse),
            Some(other) => Err(Status::bad_request(format!(
                "invalid fieldValidation {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            ))),
        }
    }
}

/// Removes what the type doesn't have, and says what it was: `unknown field "spec.x"`.
pub(crate) fn prune(object: &mut Value, of: Type<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if of.is_known() {
        prune_at(object, of, "", &mut found);
    }
    found
}

fn prune_at(value: &mut Value, of: Type<'_>, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let path = if at.is_empty() {
                    name.clone()
                } else {
                    format!("{at}.{name}")
                };
                let every_kind_has = at.is_empty() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                if !every_kind_has && !of.allows(name) {
                    found.push(format!("unknown field \"{path}\""));
                    return false;
                }
                let inner = if path == "metadata" {
                    Type::metadata()
                } else {
                    of.field(name)
                };
                prune_at(value, inner, &path, found);
                true
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_at(item, of.items(), &format!("{at}[{index}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_named_and_dropped() {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"any": "x"}, "lables": {}},
            "spec": {"containers": [{"name": "a", "imagee": "i", "resources": {"requests": {"example.com/any": "1"}}}]},
            "sepc": 1,
        });
        let mut found = prune(&mut pod, Type::built_in("", "v1", "Pod"));
        found.sort();
        assert_eq!(
            found,
            [
                r#"unknown field "metadata.lables""#,
                r#"unknown field "sepc""#,
                r#"unknown field "spec.containers[0].imagee""#
            ]
        );
        assert_eq!(
            pod["spec"],
            json!({"containers": [{"name": "a", "resources": {"requests": {"example.com/any": "1"}}}]})
        );
        assert!(prune(&mut pod, Type::built_in("", "v1", "Pod")).is_empty());
    }

    #[test]
    fn custom_kinds_are_held_to_their_schema() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let mut widget = json!({"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "w"}, "spec": {"size": 1, "sise": 2}, "free": {"x": 1}});
        assert_eq!(
            prune(&mut widget, Type::custom(&schema)),
            [r#"unknown field "spec.sise""#]
        );
        let mut anything = json!({"x": 1});
        assert!(prune(&mut anything, Type::custom(&Value::Null)).is_empty());
    }

    #[test]
    fn the_parameter_chooses() {
        for (text, wanted) in [
            (None, Unknown::Warn),
            (Some("Strict"), Unknown::Refuse),
            (Some("Ignore"), Unknown::Ignore),
        ] {
            assert_eq!(Unknown::parse(text), Ok(wanted));
        }
        assert_eq!(Unknown::parse(Some("strict")).unwrap_err().code, 400);
    }
}
