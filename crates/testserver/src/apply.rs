//! Server-side apply: who owns which field, and what becomes of an object when one of them applies another configuration.
//!
//! Owners are kept from an object's first apply on. What was there before belongs to `before-first-apply`, as in the real
//! server of an object that had no `managedFields`; later writes by other means are noted too.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::object::set_meta;
use crate::schema::{List, Type};
use crate::status::Status;

const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// What marks an entry of a list as owned itself, beside its fields.
const ITSELF: &str = ".";
/// Metadata that the server alone sets, which nobody owns.
const SERVERS_METADATA: [&str; 9] = [
    "f:name",
    "f:namespace",
    "f:uid",
    "f:resourceVersion",
    "f:generation",
    "f:creationTimestamp",
    "f:deletionTimestamp",
    "f:managedFields",
    "f:selfLink",
];

/// A field, as the steps of FieldsV1 that lead to it: `f:spec`, `k:{"name":"a"}`, `v:"x"`.
type Path = Vec<String>;
type Fields = BTreeSet<Path>;

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manager<'a> {
    pub(crate) name: &'a str,
    pub(crate) api_version: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    /// RFC 3339.
    pub(crate) time: &'a str,
}

/// One owner of fields.
#[derive(Clone, Debug, PartialEq)]
struct Owner {
    manager: String,
    applies: bool,
    api_version: String,
    subresource: String,
    time: String,
    fields: Fields,
}

impl Owner {
    /// How conflicts name it.
    fn shown(&self) -> String {
        let mut shown = format!("\"{}\"", self.manager);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource \"{}\"", self.subresource));
        }
        if !self.applies {
            shown.push_str(&format!(" using {} at {}", self.api_version, self.time));
        }
        shown
    }
}

/// The object after a manager has applied a configuration; without a current one it is made.
///
/// # Errors
/// 409 where another manager owns a field that the configuration sets to another value, unless `force` takes it over.
pub(crate) fn apply(
    current: Option<&Value>,
    configuration: &Value,
    of: Type<'_>,
    manager: Manager<'_>,
    force: bool,
) -> Result<Value, Status> {
    let wanted = fields_of(configuration, of);
    let empty = Value::Object(Map::new());
    let live = current.unwrap_or(&empty);
    let mut owners = owners_of(live);
    if owners.is_empty() && current.is_some() {
        owners.push(Owner {
            manager: BEFORE_FIRST_APPLY.to_owned(),
            applies: false,
            api_version: manager.api_version.to_owned(),
            subresource: String::new(),
            time: manager.time.to_owned(),
            fields: fields_of(live, of),
        });
    }
    let is_own =
        |owner: &Owner| owner.applies && owner.manager == manager.name && owner.subresource == manager.subresource;
    let differs = |path: &Path| {
        path.last().is_none_or(|step| step != ITSELF) && find(live, path, of) != find(configuration, path, of)
    };
    let mut conflicts = Vec::new();
    for owner in owners.iter_mut().filter(|owner| !is_own(owner)) {
        let disputed: Fields = owner
            .fields
            .intersection(&wanted)
            .filter(|path| differs(path))
            .cloned()
            .collect();
        if force {
            owner.fields.retain(|path| !disputed.contains(path));
        } else {
            let whom = owner.shown();
            conflicts.extend(disputed.into_iter().map(|path| (whom.clone(), shown(&path))));
        }
    }
    if !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    let mut merged = live.clone();
    merge(&mut merged, configuration, of);
    let before = owners
        .iter()
        .find(|owner| is_own(owner))
        .map(|owner| owner.fields.clone());
    for path in before.iter().flatten().filter(|path| !wanted.contains(*path)) {
        let others = owners.iter().filter(|owner| !is_own(owner));
        let mut kept = others.flat_map(|owner| &owner.fields).chain(&wanted);
        // An entry of a list, or an empty object, stays as long as anybody owns something inside of it.
        let inside = path.strip_suffix(&[ITSELF.to_owned()]).unwrap_or(path);
        if !kept.any(|other| other.starts_with(inside)) {
            remove(&mut merged, inside, of);
        }
    }
    match owners.iter_mut().find(|owner| is_own(owner)) {
        Some(own) if own.fields == wanted && own.api_version == manager.api_version => {}
        Some(own) => {
            own.fields = wanted;
            own.api_version = manager.api_version.to_owned();
            own.time = manager.time.to_owned();
        }
        None => owners.push(Owner {
            manager: manager.name.to_owned(),
            applies: true,
            api_version: manager.api_version.to_owned(),
            subresource: manager.subresource.to_owned(),
            time: manager.time.to_owned(),
            fields: wanted,
        }),
    }
    set_owners(&mut merged, &owners);
    Ok(merged)
}

/// Notes what a write by other means than apply changed, on an object whose owners are kept.
pub(crate) fn track(current: &Value, wanted: &mut Value, of: Type<'_>, manager: Manager<'_>) {
    let mut owners = owners_of(current);
    if owners.is_empty() {
        set_meta(wanted, "managedFields", Value::Null);
        return;
    }
    // A write of the object leaves its status alone, and the other way round.
    let concerns = |path: &Path| (path[0] == "f:status") == (manager.subresource == "status");
    let fields = fields_of(wanted, of);
    let changed: Fields = fields
        .iter()
        .filter(|path| concerns(path) && find(current, path, of) != find(wanted, path, of))
        .cloned()
        .collect();
    for owner in &mut owners {
        owner
            .fields
            .retain(|path| !concerns(path) || (fields.contains(path) && !changed.contains(path)));
    }
    if !changed.is_empty() {
        let is_own = |owner: &&mut Owner| {
            !owner.applies && owner.manager == manager.name && owner.subresource == manager.subresource
        };
        match owners.iter_mut().find(is_own) {
            Some(own) => {
                own.fields.extend(changed);
                own.time = manager.time.to_owned();
            }
            None => owners.push(Owner {
                manager: manager.name.to_owned(),
                applies: false,
                api_version: manager.api_version.to_owned(),
                subresource: manager.subresource.to_owned(),
                time: manager.time.to_owned(),
                fields: changed,
            }),
        }
    }
    set_owners(wanted, &owners);
}

fn conflict(conflicts: &[(String, String)]) -> Status {
    let message = match conflicts {
        [(whom, field)] => format!("Apply failed with 1 conflict: conflict with {whom}: {field}"),
        many => {
            let mut lines = Vec::new();
            let mut last = "";
            for (whom, field) in many {
                if whom != last {
                    lines.push(format!("conflicts with {whom}:"));
                    last = whom;
                }
                lines.push(format!("- {field}"));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|(whom, field)| {
            json!({ "reason": "FieldManagerConflict", "message": format!("conflict with {whom}"), "field": field })
        })
        .collect();
    let mut status = Status::new(409, "Conflict", message);
    status.details = json!({ "causes": causes });
    status
}

/// `.spec.containers[name="a"].image`
fn shown(path: &[String]) -> String {
    let steps = path
        .iter()
        .filter(|step| *step != ITSELF)
        .map(|step| match step.split_once(':') {
            Some(("f", name)) => format!(".{name}"),
            Some(("k", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("[{}]", keys.join(","))
            }
            Some(("v", value)) => format!("[={value}]"),
            _ => step.clone(),
        });
    steps.collect()
}

/// The fields that an object sets. Type and server-set metadata belong to nobody.
fn fields_of(object: &Value, of: Type<'_>) -> Fields {
    let mut fields = Fields::new();
    add_fields(object, of, &mut Path::new(), &mut fields);
    fields.retain(|path| match path.as_slice() {
        [] => false,
        [top] => !matches!(top.as_str(), "f:apiVersion" | "f:kind" | "f:metadata"),
        [top, field, ..] => top != "f:metadata" || !SERVERS_METADATA.contains(&field.as_str()),
    });
    fields
}

fn add_fields(value: &Value, of: Type<'_>, at: &mut Path, fields: &mut Fields) {
    match value {
        Value::Object(entries) if !entries.is_empty() && !of.is_atomic() => {
            for (name, value) in entries {
                at.push(format!("f:{name}"));
                add_fields(value, field_type(of, at, name), at, fields);
                at.pop();
            }
        }
        Value::Array(items) if !items.is_empty() && of.list() != List::Atomic => {
            for item in items {
                at.push(step_of(item, of));
                if let List::Map(_) = of.list() {
                    at.push(ITSELF.to_owned());
                    fields.insert(at.clone());
                    at.pop();
                    add_fields(item, of.items(), at, fields);
                } else {
                    fields.insert(at.clone());
                }
                at.pop();
            }
        }
        _ => {
            fields.insert(at.clone());
        }
    }
}

/// The type of a field; metadata is known where the schema leaves it open, as those of custom kinds do.
fn field_type<'a>(of: Type<'a>, at: &[String], name: &str) -> Type<'a> {
    match at {
        [_] if name == "metadata" => Type::metadata(),
        _ => of.field(name),
    }
}

/// The step to an entry of a list that is no single value.
fn step_of(item: &Value, of: Type<'_>) -> String {
    match of.list() {
        List::Map(keys) => {
            let value = |key: &str| match &item[key] {
                Value::Null => of.items().default_of(key),
                value => Some(value.clone()),
            };
            let keys = keys.into_iter().filter_map(|key| Some((key.to_owned(), value(key)?)));
            format!("k:{}", Value::Object(keys.collect()))
        }
        _ => format!("v:{item}"),
    }
}

/// The value at a path.
fn find<'a>(object: &'a Value, path: &[String], of: Type<'_>) -> Option<&'a Value> {
    let (mut value, mut of) = (object, of);
    for (depth, step) in path.iter().enumerate() {
        if step == ITSELF {
            continue;
        }
        if let Some(name) = step.strip_prefix("f:") {
            of = field_type(of, &path[..=depth], name);
            value = value.get(name)?;
        } else {
            value = value.as_array()?.iter().find(|item| step_of(item, of) == *step)?;
            of = of.items();
        }
    }
    Some(value)
}

fn remove(object: &mut Value, path: &[String], of: Type<'_>) {
    let Some((last, before)) = path.split_last() else {
        return;
    };
    let (mut value, mut of) = (object, of);
    for (depth, step) in before.iter().enumerate() {
        let inner = if let Some(name) = step.strip_prefix("f:") {
            of = field_type(of, &path[..=depth], name);
            value.get_mut(name)
        } else {
            let list = of;
            of = of.items();
            value
                .as_array_mut()
                .and_then(|items| items.iter_mut().find(|item| step_of(item, list) == *step))
        };
        let Some(inner) = inner else { return };
        value = inner;
    }
    if let Some(name) = last.strip_prefix("f:") {
        if let Some(fields) = value.as_object_mut() {
            fields.remove(name);
        }
    } else if let Some(items) = value.as_array_mut() {
        items.retain(|item| step_of(item, of) != *last);
    }
}

/// Sets what a configuration sets.
fn merge(object: &mut Value, configuration: &Value, of: Type<'_>) {
    merge_at(object, configuration, of, &mut Path::new());
}

fn merge_at(object: &mut Value, configuration: &Value, of: Type<'_>, at: &mut Path) {
    match (object, configuration) {
        (Value::Object(fields), Value::Object(wanted)) if !of.is_atomic() => {
            for (name, value) in wanted {
                at.push(format!("f:{name}"));
                let inner = field_type(of, at, name);
                match fields.get_mut(name) {
                    Some(field) => merge_at(field, value, inner, at),
                    None => {
                        fields.insert(name.clone(), value.clone());
                    }
                }
                at.pop();
            }
        }
        (Value::Array(items), Value::Array(wanted)) if of.list() != List::Atomic => {
            for value in wanted {
                let step = step_of(value, of);
                match items.iter_mut().find(|item| step_of(item, of) == step) {
                    Some(item) => {
                        at.push(step);
                        merge_at(item, value, of.items(), at);
                        at.pop();
                    }
                    None => items.push(value.clone()),
                }
            }
        }
        (object, configuration) => *object = configuration.clone(),
    }
}

fn owners_of(object: &Value) -> Vec<Owner> {
    let entries = object["metadata"]["managedFields"].as_array();
    let owner = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let mut fields = Fields::new();
        read_fields(&entry["fieldsV1"], &mut Path::new(), &mut fields);
        Owner {
            manager: text("manager"),
            applies: entry["operation"] == "Apply",
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields,
        }
    };
    entries.into_iter().flatten().map(owner).collect()
}

fn set_owners(object: &mut Value, owners: &[Owner]) {
    let entries: Vec<Value> = owners
        .iter()
        .filter(|owner| !owner.fields.is_empty())
        .map(|owner| {
            let mut entry = json!({
                "manager": owner.manager,
                "operation": if owner.applies { "Apply" } else { "Update" },
                "apiVersion": owner.api_version,
                "time": owner.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": written(&owner.fields),
            });
            if !owner.subresource.is_empty() {
                entry["subresource"] = owner.subresource.as_str().into();
            }
            entry
        })
        .collect();
    set_meta(object, "managedFields", entries.into());
}

fn read_fields(tree: &Value, at: &mut Path, fields: &mut Fields) {
    match tree.as_object() {
        Some(steps) if !steps.is_empty() => {
            for (step, inner) in steps {
                at.push(step.clone());
                read_fields(inner, at, fields);
                at.pop();
            }
        }
        _ if at.is_empty() => {}
        _ => {
            fields.insert(at.clone());
        }
    }
}

fn written(fields: &Fields) -> Value {
    let mut tree = Value::Object(Map::new());
    for path in fields {
        let mut node = &mut tree;
        for step in path {
            node = &mut node[step.as_str()];
            if node.is_null() {
                *node = Value::Object(Map::new());
            }
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Type<'static> {
        Type::built_in("apps", "v1", "Deployment")
    }

    fn by(name: &str) -> Manager<'_> {
        Manager {
            name,
            api_version: "apps/v1",
            subresource: "",
            time: "2026-01-01T00:00:00Z",
        }
    }

    fn configuration(replicas: i64, images: &[(&str, &str)]) -> Value {
        let containers: Vec<Value> = images
            .iter()
            .map(|(name, image)| json!({"name": name, "image": image}))
            .collect();
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"l": "1"}},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
        })
    }

    fn managers(object: &Value) -> Vec<&str> {
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        entries.iter().map(|entry| entry["manager"].as_str().unwrap()).collect()
    }

    #[test]
    fn the_first_apply_makes_the_object() {
        let made = apply(None, &configuration(1, &[("a", "i")]), deployment(), by("me"), false).unwrap();
        assert_eq!(made["spec"]["replicas"], 1);
        assert_eq!(
            made["metadata"]["managedFields"],
            json!([{
                "manager": "me", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:l": {}}},
                    "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                        "k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}},
                    }}}},
                },
            }])
        );
    }

    #[test]
    fn what_is_no_longer_applied_goes() {
        let made = apply(
            None,
            &configuration(1, &[("a", "i"), ("b", "j")]),
            deployment(),
            by("me"),
            false,
        )
        .unwrap();
        let mut less = configuration(1, &[("b", "j")]);
        less["metadata"].as_object_mut().unwrap().remove("labels");
        let after = apply(Some(&made), &less, deployment(), by("me"), false).unwrap();
        assert_eq!(
            after["spec"]["template"]["spec"]["containers"],
            json!([{"name": "b", "image": "j"}])
        );
        assert_eq!(after["metadata"]["labels"], json!({}));
    }

    #[test]
    fn what_others_own_stays_and_conflicts() {
        let made = apply(None, &configuration(1, &[("a", "i")]), deployment(), by("me"), false).unwrap();
        let other = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}});
        let refused = apply(Some(&made), &other, deployment(), by("you"), false).unwrap_err();
        assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
        assert_eq!(
            refused.message,
            r#"Apply failed with 1 conflict: conflict with "me": .spec.replicas"#
        );
        let forced = apply(Some(&made), &other, deployment(), by("you"), true).unwrap();
        assert_eq!(forced["spec"]["replicas"], 3);
        assert_eq!(managers(&forced), ["me", "you"]);
        // What was taken over is no longer removed with the first manager's configuration.
        let gone = json!({"metadata": {"name": "d"}});
        let after = apply(Some(&forced), &gone, deployment(), by("me"), false).unwrap();
        assert_eq!(after["spec"]["replicas"], 3);
        assert_eq!(managers(&after), ["you"]);
        // The same value is shared without a conflict.
        let shared = apply(
            Some(&made),
            &json!({"spec": {"replicas": 1}}),
            deployment(),
            by("you"),
            false,
        )
        .unwrap();
        assert_eq!(managers(&shared), ["me", "you"]);
    }

    #[test]
    fn objects_that_were_never_applied_have_an_owner() {
        let current = configuration(1, &[("a", "i")]);
        let refused = apply(
            Some(&current),
            &configuration(2, &[("a", "k")]),
            deployment(),
            by("me"),
            false,
        )
        .unwrap_err();
        assert_eq!(
            refused.message,
            "Apply failed with 2 conflicts: conflicts with \"before-first-apply\" using apps/v1 at 2026-01-01T00:00:00Z:\n\
             - .spec.replicas\n\
             - .spec.template.spec.containers[name=\"a\"].image"
        );
        assert_eq!(refused.details["causes"][0]["field"], ".spec.replicas");
    }

    #[test]
    fn other_writes_take_what_they_change() {
        let made = apply(None, &configuration(1, &[("a", "i")]), deployment(), by("me"), false).unwrap();
        let mut wanted = made.clone();
        wanted["spec"]["replicas"] = 5.into();
        track(&made, &mut wanted, deployment(), by("scaler"));
        assert_eq!(managers(&wanted), ["me", "scaler"]);
        let refused = apply(
            Some(&wanted),
            &configuration(1, &[("a", "i")]),
            deployment(),
            by("me"),
            false,
        )
        .unwrap_err();
        assert!(refused.message.contains("\"scaler\""), "{}", refused.message);
        let mut plain = json!({"spec": 1});
        track(&json!({"spec": 0}), &mut plain, deployment(), by("x"));
        assert!(
            plain["metadata"]["managedFields"].is_null(),
            "owners are kept from the first apply on"
        );
    }
}
