//! Which webhooks a request concerns: their selectors and rules.

use serde_json::Value;

use super::Attributes;
use crate::TestServer;
use crate::kinds::GroupResource;
use crate::selector;
use crate::status::Status;
use crate::store::Key;

/// The version of the resource that a webhook is to be asked about, if it is to be asked. A selector that can't be judged fails a request
/// only if the rules match.
pub(super) fn version_to_ask(
    server: &TestServer,
    webhook: &Value,
    attributes: &Attributes,
) -> Result<Option<String>, Status> {
    let in_namespace = selects_namespace(server, &webhook["namespaceSelector"], attributes);
    let of_object = selects_object(&webhook["objectSelector"], attributes);
    if matches!(in_namespace, Ok(false)) || matches!(of_object, Ok(false)) {
        return Ok(None);
    }
    let rules = || webhook["rules"].as_array().into_iter().flatten();
    let mut version = rules()
        .any(|rule| matches(rule, attributes, &attributes.version))
        .then_some(&attributes.version);
    if version.is_none() && webhook["matchPolicy"] == "Equivalent" {
        // Earlier rules go before earlier versions.
        version = rules().find_map(|rule| {
            let mut others = attributes.other_versions.iter();
            others.find(|version| matches(rule, attributes, version))
        });
    }
    let Some(version) = version else { return Ok(None) };
    in_namespace?;
    of_object?;
    Ok(Some(version.clone()))
}

fn matches(rule: &Value, attributes: &Attributes, version: &str) -> bool {
    let lists = |field: &str, wanted: &str| {
        let mut items = rule[field].as_array().into_iter().flatten();
        items.any(|item| item == "*" || item == wanted)
    };
    let outside = attributes.is_namespace() || attributes.namespace.is_empty();
    let in_scope = match rule["scope"].as_str() {
        None | Some("*") => true,
        Some("Namespaced") => !outside,
        Some("Cluster") => outside,
        Some(_) => false,
    };
    in_scope
        && lists("operations", attributes.operation)
        && lists("apiGroups", &attributes.resource.group)
        && lists("apiVersions", version)
        && names_resource(rule, attributes)
}

/// `pods`, `pods/status`, `pods/*`, `*`, `*/status`, `*/*`.
fn names_resource(rule: &Value, attributes: &Attributes) -> bool {
    let mut resources = rule["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    resources.any(|named| {
        let (resource, subresource) = named.split_once('/').unwrap_or((named, ""));
        (resource == "*" || resource == attributes.resource.plural)
            && (subresource == "*" || subresource == attributes.subresource)
    })
}

fn selects_namespace(server: &TestServer, selector: &Value, attributes: &Attributes) -> Result<bool, Status> {
    if attributes.namespace.is_empty() && !attributes.is_namespace() || selector::is_empty(selector) {
        return Ok(true);
    }
    // A namespace that is written is judged by what it will be.
    let written = attributes.is_namespace() && attributes.subresource.is_empty();
    if let Some(namespace) = attributes.object.as_ref().filter(|_| written) {
        return selector::selects(selector, &namespace["metadata"]["labels"]).map_err(Status::internal);
    }
    let namespaces = GroupResource::new("", "namespaces");
    let found = server
        .store()
        .get(&namespaces, &Key::new("", &attributes.namespace))
        .cloned();
    let namespace = found.ok_or_else(|| Status::not_found(&namespaces, &attributes.namespace))?;
    selector::selects(selector, &namespace["metadata"]["labels"]).map_err(Status::internal)
}

fn selects_object(selector: &Value, attributes: &Attributes) -> Result<bool, Status> {
    if selector::is_empty(selector) {
        return Ok(true);
    }
    for object in [&attributes.object, &attributes.old].into_iter().flatten() {
        if selector::selects(selector, &object["metadata"]["labels"]).map_err(Status::internal)? {
            return Ok(true);
        }
    }
    Ok(false)
}
