//! Subresources that show or take only a part of their object: `scale` and `resize`.

use serde_json::{Value, json};

use crate::jsonpath::JsonPath;
use crate::kinds::Kind;
use crate::object::{meta, set, set_meta};

/// Where a kind keeps what its scale shows.
struct ScalePaths {
    replicas: JsonPath,
    observed: JsonPath,
    selector: Option<JsonPath>,
}

impl ScalePaths {
    /// Built-in kinds have the usual fields, custom ones say where theirs are.
    fn of(kind: &Kind, definition: Option<&Value>, version: &str) -> Self {
        let versions = definition.and_then(|definition| definition["spec"]["versions"].as_array());
        let found = versions.into_iter().flatten().find(|v| v["name"] == version);
        let scale = found.map_or(&Value::Null, |version| &version["subresources"]["scale"]);
        let path = |field: &str, usual: &str| JsonPath::parse(scale[field].as_str().unwrap_or(usual));
        let custom_selector = scale["labelSelectorPath"].as_str();
        Self {
            replicas: path("specReplicasPath", ".spec.replicas"),
            observed: path("statusReplicasPath", ".status.replicas"),
            selector: match custom_selector {
                None if kind.custom => None,
                other => Some(JsonPath::parse(other.unwrap_or(".spec.selector"))),
            },
        }
    }
}

/// The `autoscaling/v1` Scale of an object.
pub(crate) fn scale(object: &Value, kind: &Kind, definition: Option<&Value>, version: &str) -> Value {
    let paths = ScalePaths::of(kind, definition, version);
    let number = |path: &JsonPath| path.find(object).and_then(Value::as_i64);
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {},
        "spec": { "replicas": number(&paths.replicas).unwrap_or(i64::from(!kind.custom)) },
        "status": { "replicas": number(&paths.observed).unwrap_or(0) },
    });
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        set_meta(&mut scale, field, object["metadata"][field].clone());
    }
    let selector = paths.selector.and_then(|path| path.find(object).cloned());
    let selector = match selector {
        Some(Value::String(text)) => text,
        Some(selector) => {
            let labels = if selector["matchLabels"].is_object() {
                &selector["matchLabels"]
            } else {
                &selector
            };
            let pairs = labels.as_object().into_iter().flatten();
            let pairs: Vec<String> = pairs
                .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
                .collect();
            pairs.join(",")
        }
        None => String::new(),
    };
    if !selector.is_empty() {
        set(&mut scale, "status", "selector", selector.into());
    }
    scale
}

/// The object with the replicas that a Scale asks for, guarded by the Scale's resourceVersion.
pub(crate) fn scaled(object: &Value, scale: &Value, kind: &Kind, definition: Option<&Value>, version: &str) -> Value {
    let mut scaled = object.clone();
    set_meta(&mut scaled, "resourceVersion", meta(scale, "resourceVersion").into());
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if let Some(fields) = ScalePaths::of(kind, definition, version).replicas.fields() {
        let mut field = &mut scaled;
        for name in fields {
            if !(field.is_object() || field.is_null()) {
                return scaled;
            }
            field = &mut field[name];
        }
        *field = replicas.into();
    }
    scaled
}

/// The pod with nothing changed but the resources of its containers and its own, and its metadata's resourceVersion.
pub(crate) fn resized(pod: &Value, wanted: &Value) -> Value {
    let mut resized = pod.clone();
    set_meta(
        &mut resized,
        "resourceVersion",
        wanted["metadata"]["resourceVersion"].clone(),
    );
    set(&mut resized, "spec", "resources", wanted["spec"]["resources"].clone());
    for list in ["containers", "initContainers"] {
        let containers = resized.pointer_mut(&format!("/spec/{list}"));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            let wanted = wanted["spec"][list]
                .as_array()
                .into_iter()
                .flatten()
                .find(|w| w["name"] == container["name"]);
            let Some((wanted, container)) = wanted.zip(container.as_object_mut()) else {
                continue;
            };
            for field in ["resources", "resizePolicy"] {
                match &wanted[field] {
                    Value::Null => container.remove(field),
                    value => container.insert(field.to_owned(), value.clone()),
                };
            }
        }
    }
    resized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_shows_and_sets_replicas() {
        let deployment = crate::kinds::Kinds::built_in()
            .served("apps", "v1", "deployments")
            .unwrap()
            .clone();
        let object = json!({
            "metadata": {"name": "d", "namespace": "a", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"replicas": 1},
        });
        let mut shown = scale(&object, &deployment, None, "v1");
        assert_eq!(shown["spec"], json!({"replicas": 2}));
        assert_eq!(shown["status"], json!({"replicas": 1, "selector": "a=b"}));
        shown["spec"]["replicas"] = 5.into();
        let after = scaled(&object, &shown, &deployment, None, "v1");
        assert_eq!(
            (&after["spec"]["replicas"], &after["metadata"]["resourceVersion"]),
            (&json!(5), &json!("7"))
        );
    }

    #[test]
    fn custom_kinds_say_where_their_replicas_are() {
        let definition = json!({"spec": {"versions": [{"name": "v1", "subresources": {"scale": {
            "specReplicasPath": ".spec.many.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector",
        }}}]}});
        let kind = Kind::new("example.com", "v1", "Widget", "widgets");
        let object = json!({"metadata": {}, "status": {"size": 3, "selector": "x=y"}});
        let shown = scale(&object, &kind, Some(&definition), "v1");
        assert_eq!(
            (&shown["spec"]["replicas"], &shown["status"]["replicas"]),
            (&json!(0), &json!(3))
        );
        assert_eq!(shown["status"]["selector"], "x=y");
        let after = scaled(
            &object,
            &json!({"spec": {"replicas": 4}}),
            &kind,
            Some(&definition),
            "v1",
        );
        assert_eq!(after["spec"]["many"]["size"], 4);
    }

    #[test]
    fn a_resize_changes_resources_alone() {
        let pod =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "i"}], "nodeName": "n"}});
        let wanted = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "j", "resources": {"limits": {"cpu": "1"}}}], "nodeName": "m"}});
        let after = resized(&pod, &wanted);
        assert_eq!(
            after["spec"],
            json!({"containers": [{"name": "a", "image": "i", "resources": {"limits": {"cpu": "1"}}}], "nodeName": "n"})
        );
    }
}
