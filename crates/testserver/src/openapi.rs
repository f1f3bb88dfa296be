//! OpenAPI v3: what `kubectl explain` shows, and where kubectl learns how a kind may be patched.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value, json};

use crate::kinds::{Kind, api_version};
use crate::schema;
use crate::status::{json_response, page_not_found};
use crate::store::Store;

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should \
convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this \
from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Answers a path below `/openapi`.
pub(crate) fn respond(store: &Store, path: &str) -> Response {
    match path.trim_matches('/') {
        "openapi/v3" => json_response(200, &index(store)),
        "openapi/v2" => empty_v2(),
        path => {
            let segments: Vec<&str> = path.split('/').collect();
            let found = match segments.as_slice() {
                ["openapi", "v3", "api", version] => document(store, "", version),
                ["openapi", "v3", "apis", group, version] => document(store, group, version),
                _ => None,
            };
            found.map_or_else(page_not_found, |document| json_response(200, &document))
        }
    }
}

/// An OpenAPI v2 document that describes nothing. kubectl asks for one before it reads a `List`, and leaves unknown kinds to the server.
fn empty_v2() -> Response {
    // A gnostic Document in protobuf: swagger "2.0", info with title and version, no paths.
    const DOCUMENT: &[u8] = b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned\x42\x00";
    let mut response = Response::new(Body::from(DOCUMENT));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(V2_PROTOBUF));
    response
}

/// Which documents there are. Their addresses change with what they hold, so that clients may keep them.
fn index(store: &Store) -> Value {
    let mut paths = Map::new();
    for group in std::iter::once("").chain(store.kinds.groups()) {
        for version in store.kinds.versions(group) {
            let mut hasher = DefaultHasher::new();
            for kind in store.kinds.at(group, version) {
                kind.plural.hash(&mut hasher);
                store
                    .definition(kind)
                    .map(|definition| definition.to_string())
                    .hash(&mut hasher);
            }
            let path = root_path(group, version);
            let url = format!("/openapi/v3{path}?hash={:016X}", hasher.finish());
            paths.insert(path[1..].to_owned(), json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// `/api/v1`, `/apis/apps/v1`.
fn root_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        _ => format!("/apis/{}", api_version(group, version)),
    }
}

/// The document of a group and version; none where it isn't served.
fn document(store: &Store, group: &str, version: &str) -> Option<Value> {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for kind in store.kinds.at(group, version) {
        let name = definition_of(store, kind, version, &mut definitions);
        add_paths(kind, version, &name, &mut paths);
    }
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "unversioned" },
        "paths": paths,
        "components": { "schemas": definitions },
    }))
}

/// Adds what describes a kind, and answers under which name.
fn definition_of(store: &Store, kind: &Kind, version: &str, definitions: &mut Map<String, Value>) -> String {
    if let Some(name) = schema::root(&kind.group, version, &kind.kind) {
        schema::collect(name, definitions);
        return name.to_owned();
    }
    schema::collect(OBJECT_META, definitions);
    let described = store
        .definition(kind)
        .and_then(|definition| schema_of(definition, version));
    let mut described = described.cloned().unwrap_or_else(|| json!({ "type": "object" }));
    if !described["properties"].is_object() {
        described["properties"] = json!({});
    }
    described["properties"]["apiVersion"] = json!({ "description": API_VERSION, "type": "string" });
    described["properties"]["kind"] = json!({ "description": KIND, "type": "string" });
    described["properties"]["metadata"] =
        json!({ "description": METADATA, "allOf": [{ "$ref": format!("#/components/schemas/{OBJECT_META}") }] });
    described["x-kubernetes-group-version-kind"] = json!([group_version_kind(kind, version)]);
    let reversed: Vec<&str> = kind.group.rsplit('.').collect();
    let name = format!("{}.{version}.{}", reversed.join("."), kind.kind);
    definitions.insert(name.clone(), described);
    name
}

/// The schema that a CustomResourceDefinition gives a version.
pub(crate) fn schema_of<'a>(definition: &'a Value, version: &str) -> Option<&'a Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let found = versions.iter().find(|v| v["name"] == version)?;
    let schema = &found["schema"]["openAPIV3Schema"];
    schema.is_object().then_some(schema)
}

fn group_version_kind(kind: &Kind, version: &str) -> Value {
    json!({ "group": kind.group, "version": version, "kind": kind.kind })
}

/// The requests that a kind takes, as far as clients look at them.
fn add_paths(kind: &Kind, version: &str, name: &str, paths: &mut Map<String, Value>) {
    let root = root_path(&kind.group, version);
    let collection = match kind.namespaced {
        true => format!("{root}/namespaces/{{namespace}}/{}", kind.plural),
        false => format!("{root}/{}", kind.plural),
    };
    let body = json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } });
    let parameter = |name: &str, kind: &str| json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } });
    let written = [
        parameter("dryRun", "string"),
        parameter("fieldManager", "string"),
        parameter("fieldValidation", "string"),
    ];
    let operation = |action: &str, parameters: Value, content: Value| {
        let mut operation = json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_version_kind(kind, version),
            "parameters": parameters,
            "responses": { "200": { "description": "OK", "content": { "application/json": body } } },
        });
        if !content.is_null() {
            operation["requestBody"] = json!({ "content": content });
        }
        operation
    };
    let object = json!({ "*/*": body });
    let mut patches = json!({
        "application/apply-patch+yaml": {},
        "application/json-patch+json": {},
        "application/merge-patch+json": {},
    });
    if !kind.custom {
        patches["application/strategic-merge-patch+json"] = json!({});
    }
    let mut patch_parameters = written.to_vec();
    patch_parameters.push(parameter("force", "boolean"));
    paths.insert(
        format!("{collection}/{{name}}"),
        json!({
            "get": operation("get", json!([]), Value::Null),
            "put": operation("put", json!(written), object.clone()),
            "patch": operation("patch", json!(patch_parameters), patches),
            "delete": operation("delete", json!([parameter("dryRun", "string")]), Value::Null),
        }),
    );
    paths.insert(
        collection,
        json!({
            "get": operation("list", json!([]), Value::Null),
            "post": operation("post", json!(written), object),
        }),
    );
}
