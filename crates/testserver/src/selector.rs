//! Label and field selectors.

use serde_json::Value;

use crate::status::Status;

/// What a list or watch is narrowed to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    namespace: String,
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Selector {
    /// Reads the two query parameters of a list.
    pub(crate) fn parse(namespace: &str, labels: &str, fields: &str, selectable: &[&str]) -> Result<Self, Status> {
        Ok(Self {
            namespace: namespace.to_owned(),
            labels: parse_labels(labels).ok_or_else(|| {
                Status::bad_request(format!(
                    "unable to parse requirement: invalid label selector {labels:?}"
                ))
            })?,
            fields: parse_fields(fields, selectable)?,
        })
    }

    /// Everything in a namespace; empty for all of them.
    pub(crate) fn within(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..Self::default()
        }
    }

    /// Whether labels or fields narrow it, beyond the namespace.
    pub(crate) fn is_narrowed(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// The namespace, empty for all of them.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether the object that is stored under this namespace and name is selected.
    pub(crate) fn matches(&self, namespace: &str, name: &str, object: &Value) -> bool {
        (self.namespace.is_empty() || self.namespace == namespace)
            && self
                .labels
                .iter()
                .all(|requirement| requirement.matches(&object["metadata"]["labels"]))
            && self.fields.iter().all(|(field, equal, value)| {
                let actual = match field.as_str() {
                    "metadata.name" => name,
                    "metadata.namespace" => namespace,
                    _ => object
                        .pointer(&format!("/{}", field.replace('.', "/")))
                        .and_then(Value::as_str)
                        .unwrap_or_default(),
                };
                (actual == value) == *equal
            })
    }
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        match self {
            Self::In(key, values) => labels[key]
                .as_str()
                .is_some_and(|value| values.iter().any(|v| v == value)),
            Self::NotIn(key, values) => !labels[key]
                .as_str()
                .is_some_and(|value| values.iter().any(|v| v == value)),
            Self::Exists(key) => !labels[key].is_null(),
            Self::Missing(key) => labels[key].is_null(),
        }
    }
}

/// Whether a `LabelSelector` of an object narrows nothing.
pub(crate) fn is_empty(selector: &Value) -> bool {
    let empty = |field: &str| match &selector[field] {
        Value::Object(labels) => labels.is_empty(),
        Value::Array(expressions) => expressions.is_empty(),
        _ => true,
    };
    empty("matchLabels") && empty("matchExpressions")
}

/// Whether a `LabelSelector` of an object selects these labels; an error says what is wrong with it.
pub(crate) fn selects(selector: &Value, labels: &Value) -> Result<bool, String> {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut requirements: Vec<Requirement> = equal
        .map(|(key, value)| Requirement::In(key.clone(), vec![value.as_str().unwrap_or_default().to_owned()]))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default().to_owned();
        let values = expression["values"].as_array().into_iter().flatten();
        let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
        requirements.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => Requirement::In(key, values),
            "NotIn" => Requirement::NotIn(key, values),
            "Exists" => Requirement::Exists(key),
            "DoesNotExist" => Requirement::Missing(key),
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        });
    }
    Ok(requirements.iter().all(|requirement| requirement.matches(labels)))
}

fn parse_labels(text: &str) -> Option<Vec<Requirement>> {
    split_outside_parentheses(text)
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(parse_requirement)
        .collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn parse_requirement(text: &str) -> Option<Requirement> {
    let key_of = |key: &str| {
        let key = key.trim();
        let name = key.rsplit('/').next().unwrap_or_default();
        let fits = is_label_text(name) && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        fits.then(|| key.to_owned())
    };
    let value_of = |value: &str| {
        let value = value.trim();
        (value.is_empty() || is_label_text(value)).then(|| value.to_owned())
    };
    if let Some((head, tail)) = text.split_once('(') {
        let values = tail
            .strip_suffix(')')?
            .split(',')
            .map(value_of)
            .collect::<Option<Vec<_>>>()?;
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(Requirement::In(key_of(key)?, values)),
            "notin" => Some(Requirement::NotIn(key_of(key)?, values)),
            _ => None,
        };
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some(Requirement::NotIn(key_of(key)?, vec![value_of(value)?]));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Requirement::In(key_of(key)?, vec![value_of(value)?]));
    }
    match text.strip_prefix('!') {
        Some(key) => Some(Requirement::Missing(key_of(key)?)),
        None => Some(Requirement::Exists(key_of(text)?)),
    }
}

/// Whether a text may be the name of a label's key, or a value that isn't empty.
fn is_label_text(text: &str) -> bool {
    let bounded = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(bounded) && text.ends_with(bounded) && text.chars().all(|c| bounded(c) || "-_.".contains(c))
}

const OF_EVERY_KIND: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// The fields of a kind that can be selected by, beside its name and namespace.
pub(crate) fn selectable(group: &str, plural: &str) -> &'static [&'static str] {
    match (group, plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ],
        _ => &[],
    }
}

fn parse_fields(text: &str, selectable: &[&str]) -> Result<Vec<(String, bool, String)>, Status> {
    let mut fields = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (field, equal, value) = match (part.split_once("!="), part.split_once("==").or(part.split_once('='))) {
            (Some((field, value)), _) => (field, false, value),
            (None, Some((field, value))) => (field, true, value),
            (None, None) => {
                return Err(Status::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            }
        };
        if !OF_EVERY_KIND.contains(&field) && !selectable.contains(&field) {
            return Err(Status::bad_request(match selectable {
                [] => {
                    format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
                }
                _ => format!("field label not supported: {field}"),
            }));
        }
        fields.push((field.to_owned(), equal, value.to_owned()));
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(labels: &str, fields: &str) -> bool {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        Selector::parse("a", labels, fields, &[])
            .unwrap()
            .matches("a", "x", &object)
    }

    #[test]
    fn labels_and_fields_select() {
        for labels in [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "!gone",
            "app in (web, db),tier notin (back)",
            "gone!=x",
        ] {
            assert!(selects(labels, ""), "{labels}");
        }
        for labels in [
            "gone",
            "app=db",
            "!app",
            "app notin (web)",
            "app in (db)",
            "app=web,tier=back",
        ] {
            assert!(!selects(labels, ""), "{labels}");
        }
        assert!(selects("", "metadata.name=x,metadata.namespace=a"));
        assert!(!selects("", "metadata.name!=x"));
    }

    #[test]
    fn nonsense_is_a_bad_request() {
        for labels in ["app in web", "a b", "app=(", "=x", "a in (b", "app ~ (x)", ")("] {
            assert_eq!(Selector::parse("", labels, "", &[]).unwrap_err().code, 400, "{labels}");
        }
        for fields in ["spec.x=1", "metadata.name"] {
            assert_eq!(Selector::parse("", "", fields, &[]).unwrap_err().code, 400, "{fields}");
        }
    }
}
