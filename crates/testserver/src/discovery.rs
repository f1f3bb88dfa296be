//! Discovery: which groups, versions and kinds there are.

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

use crate::kinds::{GroupHealth, Kind, Kinds, api_version};
use crate::render::media_types;
use crate::status::{Status, json_response, page_not_found, text_response};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a path that is no resource.
pub(crate) fn respond(kinds: &Kinds, minor_version: u32, path: &str, accept: &str) -> Response {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    match segments.as_slice() {
        ["version"] => json_response(200, &version(minor_version)),
        ["healthz" | "livez" | "readyz"] => text_response(200, "ok"),
        ["api"] if wants_aggregated(accept) => aggregated(kinds, &[""]),
        ["apis"] if wants_aggregated(accept) => aggregated(kinds, &kinds.groups()),
        ["api"] => json_response(200, &json!({ "kind": "APIVersions", "versions": kinds.versions("") })),
        ["apis"] => {
            let groups: Vec<Value> = kinds
                .groups()
                .into_iter()
                .map(|group| api_group(kinds, group))
                .collect();
            json_response(
                200,
                &json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }),
            )
        }
        ["apis", group] if !kinds.versions(group).is_empty() => {
            let mut body = api_group(kinds, group);
            body["kind"] = "APIGroup".into();
            body["apiVersion"] = "v1".into();
            json_response(200, &body)
        }
        ["api", version] => api_resources(kinds, "", version),
        ["apis", group, version] if kinds.is_built_in(group) && !kinds.versions(group).contains(version) => {
            Status::no_such_resource().into_response()
        }
        ["apis", group, version] => api_resources(kinds, group, version),
        _ => page_not_found(),
    }
}

fn wants_aggregated(accept: &str) -> bool {
    let wanted = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList");
    let mut json_types = media_types(accept).filter(|media_type| media_type.is_json());
    // The first type that can be served wins.
    json_types.find_map(|t| match t.transform() {
        Some(transform) => (transform == wanted).then_some(true),
        None => Some(false),
    }) == Some(true)
}

fn version(minor: u32) -> Value {
    json!({
        "major": "1",
        "minor": minor.to_string(),
        "gitVersion": format!("v1.{minor}.0"),
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.26",
        "compiler": "gc",
        "platform": "linux/amd64",
    })
}

fn api_group(kinds: &Kinds, group: &str) -> Value {
    let versions: Vec<Value> = kinds
        .versions(group)
        .into_iter()
        .map(|version| json!({ "groupVersion": api_version(group, version), "version": version }))
        .collect();
    json!({ "name": group, "preferredVersion": versions.first(), "versions": versions })
}

fn api_resources(kinds: &Kinds, group: &str, version: &str) -> Response {
    if !kinds.versions(group).contains(&version) {
        return page_not_found();
    }
    if kinds.health(group) != GroupHealth::Current {
        return Status::unavailable().into_response();
    }
    let mut resources = Vec::new();
    for kind in kinds.at(group, version) {
        let mut resource = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": kind.verbs,
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = json!(kind.short_names);
        }
        if let Some(category) = category(kind) {
            resource["categories"] = json!([category]);
        }
        resources.push(resource);
        for subresource in &kind.subresources {
            let mut resource = json!({
                "name": format!("{}/{subresource}", kind.plural),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": ["get", "patch", "update"],
            });
            if subresource == "scale" {
                for (field, value) in [("group", "autoscaling"), ("version", "v1"), ("kind", "Scale")] {
                    resource[field] = value.into();
                }
            }
            resources.push(resource);
        }
    }
    let mut body = json!({
        "kind": "APIResourceList",
        "groupVersion": api_version(group, version),
        "resources": resources,
    });
    // The core group is older than the version of its own discovery.
    if !group.is_empty() {
        body["apiVersion"] = "v1".into();
    }
    json_response(200, &body)
}

fn aggregated(kinds: &Kinds, groups: &[&str]) -> Response {
    let items: Vec<Value> = groups.iter().map(|group| aggregated_group(kinds, group)).collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let mut response = json_response(200, &body);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// The name under which kubectl knows the kind together with others.
fn category(kind: &Kind) -> Option<&'static str> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods" | "services" | "replicationcontrollers") => Some("all"),
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets") => Some("all"),
        ("batch", "jobs" | "cronjobs") => Some("all"),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io" | "admissionregistration.k8s.io", _) => {
            Some("api-extensions")
        }
        _ => None,
    }
}

fn aggregated_group(kinds: &Kinds, group: &str) -> Value {
    let health = kinds.health(group);
    let versions: Vec<Value> = kinds
        .versions(group)
        .into_iter()
        .map(|version| {
            let known = kinds.at(group, version).filter(|_| health != GroupHealth::Failing);
            let resources: Vec<Value> = known.map(|kind| aggregated_resource(kind, version)).collect();
            let freshness = if health == GroupHealth::Current {
                "Current"
            } else {
                "Stale"
            };
            let mut item = json!({ "version": version, "freshness": freshness });
            if !resources.is_empty() {
                item["resources"] = resources.into();
            }
            item
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({})
    } else {
        json!({ "name": group })
    };
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(kind: &Kind, version: &str) -> Value {
    // Built-in kinds leave out group and version where they are those of the path.
    let response_kind = match kind.custom {
        true => json!({ "group": kind.group, "version": version, "kind": kind.kind }),
        false => json!({ "group": "", "version": "", "kind": kind.kind }),
    };
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response_kind,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if let Some(category) = category(kind) {
        resource["categories"] = json!([category]);
    }
    if !kind.subresources.is_empty() {
        let subresources = kind.subresources.iter().map(|subresource| {
            let scale = json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" });
            let response_kind = if subresource == "scale" { &scale } else { &response_kind };
            json!({ "subresource": subresource, "responseKind": response_kind, "verbs": ["get", "patch", "update"] })
        });
        resource["subresources"] = subresources.collect();
    }
    resource
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_header_chooses_the_form() {
        assert!(wants_aggregated(AGGREGATED));
        assert!(wants_aggregated(&format!(
            "application/json;as=APIGroupDiscoveryList;v=v9;g=x,{AGGREGATED},application/json"
        )));
        assert!(!wants_aggregated(&format!("application/json,{AGGREGATED}")));
        assert!(!wants_aggregated(""));
    }
}
