//! Reading and writing the metadata of objects, whatever shape they are in.

use serde_json::{Map, Value, json};

/// A text of `metadata`, empty where it is absent or no text.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Sets a field of `metadata`; null removes it. An object that is none, or whose metadata is none, is left alone.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Value) {
    set(object, "metadata", field, value);
}

/// Sets a field inside of a top-level field; null removes it.
pub(crate) fn set(object: &mut Value, outer: &str, field: &str, value: Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let inner = fields.entry(outer).or_insert_with(|| Value::Object(Map::new()));
    if let Some(inner) = inner.as_object_mut() {
        match value {
            Value::Null => inner.remove(field),
            value => inner.insert(field.to_owned(), value),
        };
    }
}

/// Gives the object another top-level field, or none where `value` is absent.
pub(crate) fn set_top(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => fields.insert(field.to_owned(), value),
        None => fields.remove(field),
    };
}

/// The object at another resourceVersion.
pub(crate) fn at_revision(object: &Value, revision: u64) -> Value {
    let mut object = object.clone();
    set_meta(&mut object, "resourceVersion", revision.to_string().into());
    object
}

/// Whether finalizers hold the object.
pub(crate) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
}

/// Whether the object was deleted and waits for its end.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether two objects differ in anything but their resourceVersion.
pub(crate) fn differs(left: &Value, right: &Value) -> bool {
    differs_beside(left, right, &["metadata"])
        || differs_beside(&left["metadata"], &right["metadata"], &["resourceVersion"])
}

/// Whether two objects differ outside of their metadata and status, which is what `generation` counts.
pub(crate) fn differs_in_intent(left: &Value, right: &Value) -> bool {
    differs_beside(left, right, &["metadata", "status", "apiVersion", "kind"])
}

/// Whether two maps differ in any but the ignored fields.
fn differs_beside(left: &Value, right: &Value, ignored: &[&str]) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else {
        return left != right;
    };
    let missing = |from: &Map<String, Value>, to: &Map<String, Value>| {
        from.iter()
            .any(|(field, value)| !ignored.contains(&field.as_str()) && to.get(field) != Some(value))
    };
    missing(left, right) || missing(right, left)
}

/// Fills in what the real server's defaulting would and what clients rely on: phases and the namespace label.
pub(crate) fn default_on_create(resource: &str, object: &mut Value) {
    let absent = |object: &Value, field: &str| object["status"][field].is_null();
    match resource {
        "pods" | "persistentvolumeclaims" if absent(object, "phase") => {
            set(object, "status", "phase", "Pending".into());
        }
        "persistentvolumes" if absent(object, "phase") => {
            let now = object["metadata"]["creationTimestamp"].clone();
            set(object, "status", "phase", "Pending".into());
            set(object, "status", "lastPhaseTransitionTime", now);
        }
        "namespaces" => {
            let name = meta(object, "name").to_owned();
            let mut labels = object["metadata"]["labels"].clone();
            if !labels.is_object() {
                labels = json!({});
            }
            labels["kubernetes.io/metadata.name"] = name.into();
            set_meta(object, "labels", labels);
            if absent(object, "phase") {
                set(object, "status", "phase", "Active".into());
            }
        }
        "customresourcedefinitions.apiextensions.k8s.io" if absent(object, "conditions") => {
            let now = object["metadata"]["creationTimestamp"].clone();
            let condition = |kind: &str, reason: &str, message: &str| {
                json!({
                    "type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message,
                })
            };
            let accepted = object["spec"]["names"].clone();
            set(object, "status", "acceptedNames", accepted);
            set(
                object,
                "status",
                "conditions",
                json!([
                    condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                    condition(
                        "Established",
                        "InitialNamesAccepted",
                        "the initial names have been accepted"
                    ),
                ]),
            );
            let versions = object["spec"]["versions"].as_array().into_iter().flatten();
            let stored: Vec<Value> = versions
                .filter(|version| version["storage"] == true)
                .map(|version| version["name"].clone())
                .collect();
            set(object, "status", "storedVersions", stored.into());
        }
        _ => {}
    }
}

/// The quantities of a ResourceQuota, as `(field, value)`.
fn quantities(object: &Value) -> impl Iterator<Item = (String, &Value)> {
    [("spec", "hard"), ("status", "hard"), ("status", "used")]
        .into_iter()
        .flat_map(move |(part, list)| {
            let entries = object[part][list].as_object().into_iter().flatten();
            entries.map(move |(name, value)| (format!("{part}.{list}[{name}]"), value))
        })
}

/// What keeps a ResourceQuota from being decoded at all.
pub(crate) fn undecodable_quota(object: &Value) -> Option<String> {
    let bad = quantities(object).any(|(_, value)| match value {
        Value::String(text) => !is_quantity(text),
        Value::Number(_) | Value::Null => false,
        _ => true,
    });
    bad.then(|| {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()
    })
}

/// What validation has against a ResourceQuota.
pub(crate) fn invalid_quota(object: &Value) -> Vec<(String, String)> {
    let negative = |text: &str| {
        let digits = text.split(|c: char| c.is_ascii_alphabetic()).next().unwrap_or_default();
        text.starts_with('-') && digits.contains(|c| ('1'..='9').contains(&c))
    };
    quantities(object)
        .filter(|(_, value)| value.as_str().is_some_and(negative) || value.as_f64().is_some_and(|number| number < 0.0))
        .map(|(field, value)| {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (
                field,
                format!("Invalid value: {shown:?}: must be greater than or equal to 0"),
            )
        })
        .collect()
}

/// Whether the text is a `resource.Quantity`; its value is nobody's business here.
fn is_quantity(text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let suffix = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let suffix = suffix
        .strip_prefix('.')
        .map_or(suffix, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    const SUFFIXES: &str = " n u m k M G T P E Ki Mi Gi Ti Pi Ei ";
    if suffix.is_empty() || (!suffix.contains(' ') && SUFFIXES.contains(&format!(" {suffix} "))) {
        return true;
    }
    let exponent = suffix.strip_prefix(['e', 'E']).unwrap_or_default();
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_told_from_other_texts() {
        for text in [
            "1", "-", ".", "Ki", "e3", "1.5Gi", "+5", "1E", "1E-3", "100m", "12e6", "5.",
        ] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "1e", "1K", "1ki", "many", "1 ", "1.2.3", "1Gi2", "--1", "1 k"] {
            assert!(!is_quantity(text), "{text}");
        }
    }

    #[test]
    fn negative_amounts_are_invalid() {
        let quota = json!({"status": {"used": {"pods": "-1", "cpu": "-0", "memory": "1Gi"}}});
        assert_eq!(
            invalid_quota(&quota),
            [(
                "status.used[pods]".to_owned(),
                r#"Invalid value: "-1": must be greater than or equal to 0"#.to_owned()
            )]
        );
        assert!(undecodable_quota(&json!({"spec": {"hard": {"pods": []}}})).is_some());
        assert!(undecodable_quota(&quota).is_none());
    }

    #[test]
    fn differences_are_told_apart() {
        let object = |version: &str, label: &str, spec: i32| json!({"metadata": {"resourceVersion": version, "labels": label}, "spec": spec});
        assert!(!differs(&object("1", "a", 1), &object("2", "a", 1)));
        assert!(differs(&object("1", "a", 1), &object("1", "b", 1)));
        assert!(differs(&object("1", "a", 1), &json!({"metadata": {"labels": "a"}})));
        assert!(differs(&json!({}), &object("1", "a", 1)));
        assert!(!differs_in_intent(&object("1", "a", 1), &object("2", "b", 1)));
        assert!(differs_in_intent(&object("1", "a", 1), &object("1", "a", 2)));
    }

    #[test]
    fn metadata_of_nonsense_is_left_alone() {
        for mut nonsense in [json!(1), json!({"metadata": 5}), json!([]), Value::Null] {
            let before = nonsense.clone();
            set_meta(&mut nonsense, "name", "x".into());
            assert_eq!(nonsense, before);
            assert_eq!(meta(&nonsense, "name"), "");
        }
    }
}
