//! Strategic merge patch: a merge patch that knows how the entries of lists are told apart.

use serde_json::{Map, Value};

use crate::schema::Type;
use crate::status::Status;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Applies a patch to an object of a type.
///
/// # Errors
/// 400 where an entry of a merged list lacks its key, or a directive is unknown.
pub(crate) fn merge(object: &mut Value, patch: &Value, of: Type<'_>) -> Result<(), Status> {
    let Some(changes) = patch.as_object() else {
        *object = patch.clone();
        return Ok(());
    };
    match changes
        .get(DIRECTIVE)
        .map(|directive| directive.as_str().unwrap_or_default())
    {
        None | Some("merge") => {}
        Some("replace") => {
            *object = without_directives(patch);
            return Ok(());
        }
        Some("delete") => {
            *object = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(Status::bad_request(format!("Unknown patch type found: {other}"))),
    }
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(fields) = object.as_object_mut() else {
        return Ok(());
    };
    if let Some(kept) = changes.get(RETAIN_KEYS).and_then(Value::as_array) {
        fields.retain(|name, _| kept.iter().any(|kept| kept == name));
    }
    for (name, value) in changes {
        if let Some(list) = name.strip_prefix(DELETE_PRIMITIVES) {
            let deleted = value.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(items) = fields.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !deleted.contains(item));
            }
        }
    }
    for (name, value) in changes.iter().filter(|(name, _)| !name.starts_with('$')) {
        let field = of.field(name);
        match value {
            Value::Null => {
                fields.remove(name);
            }
            Value::Object(_) => merge(fields.entry(name).or_insert(Value::Null), value, field)?,
            Value::Array(changes) if field.merges() => {
                let items = fields.entry(name).or_insert(Value::Null);
                let mut list = items.as_array().cloned().unwrap_or_default();
                merge_list(&mut list, changes, field)?;
                *items = list.into();
            }
            other => {
                fields.insert(name.clone(), without_directives(other));
            }
        }
    }
    for (name, order) in changes {
        let (Some(list), Some(order)) = (name.strip_prefix(SET_ORDER), order.as_array()) else {
            continue;
        };
        if let Some(items) = fields.get_mut(list).and_then(Value::as_array_mut) {
            sort(items, order, of.field(list).merge_key());
        }
    }
    Ok(())
}

fn merge_list(list: &mut Vec<Value>, changes: &[Value], of: Type<'_>) -> Result<(), Status> {
    let Some(key) = of.merge_key() else {
        for change in changes {
            if !list.contains(change) {
                list.push(change.clone());
            }
        }
        return Ok(());
    };
    if changes.iter().any(|change| change[DIRECTIVE] == "replace") {
        let kept = changes.iter().filter(|change| change[DIRECTIVE] != "replace");
        *list = kept.map(without_directives).collect();
        return Ok(());
    }
    for change in changes {
        let wanted = &change[key];
        if wanted.is_null() {
            return Err(Status::bad_request(format!(
                "{change} does not contain declared merge key: {key}"
            )));
        }
        let found = list.iter().position(|item| item[key] == *wanted);
        match found {
            _ if change[DIRECTIVE] == "delete" => list.retain(|item| item[key] != *wanted),
            Some(at) => merge(&mut list[at], change, of.items())?,
            None => {
                let mut item = Value::Null;
                merge(&mut item, change, of.items())?;
                list.push(item);
            }
        }
    }
    Ok(())
}

/// Puts the entries that an order names into that order. The others stay behind the neighbours they had.
fn sort(list: &mut Vec<Value>, order: &[Value], key: Option<&str>) {
    let identity = |item: &Value| key.map_or_else(|| item.clone(), |key| item[key].clone());
    let rank = |item: &Value| order.iter().position(|wanted| identity(wanted) == identity(item));
    let all = std::mem::take(list).into_iter().enumerate();
    let (mut named, others): (Vec<_>, Vec<_>) = all.partition(|(_, item)| rank(item).is_some());
    named.sort_by_key(|(_, item)| rank(item));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some((at, _)), Some((other, _))) = (named.peek(), others.peek()) {
        let next = if other < at { others.next() } else { named.next() };
        list.extend(next.map(|(_, item)| item));
    }
    list.extend(named.chain(others).map(|(_, item)| item));
}

/// The value of a patch without what only steers the merge, and without what is to be removed.
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, value)| !name.starts_with('$') && !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_directives(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(without_directives).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_of_a_pod() {
        let pod = || {
            json!({
                "metadata": {"labels": {"a": "1"}, "finalizers": ["x", "y"]},
                "spec": {
                    "containers": [{"name": "a", "image": "i1", "args": ["1"]}, {"name": "b", "image": "i2"}],
                    "tolerations": [{"key": "t"}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                },
            })
        };
        for (patch, pointer, wanted) in [
            (
                json!({"spec": {"containers": [{"name": "b", "image": "i3"}]}}),
                "/spec/containers",
                json!([{"name": "a", "image": "i1", "args": ["1"]}, {"name": "b", "image": "i3"}]),
            ),
            (
                json!({"spec": {"containers": [{"name": "c", "env": null}]}}),
                "/spec/containers/2",
                json!({"name": "c"}),
            ),
            (
                json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
                "/spec/containers",
                json!([{"name": "b", "image": "i2"}]),
            ),
            (
                json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}),
                "/spec/containers",
                json!([{"name": "z"}]),
            ),
            (
                json!({"spec": {"containers": [{"name": "a", "args": ["2"]}]}}),
                "/spec/containers/0/args",
                json!(["2"]),
            ),
            (
                json!({"spec": {"tolerations": [{"key": "u"}]}}),
                "/spec/tolerations",
                json!([{"key": "u"}]),
            ),
            (
                json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}}),
                "/spec/volumes/0",
                json!({"name": "v", "secret": {}}),
            ),
            (
                json!({"metadata": {"finalizers": ["z"]}}),
                "/metadata/finalizers",
                json!(["x", "y", "z"]),
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}),
                "/metadata/finalizers",
                json!(["y"]),
            ),
            (
                json!({"metadata": {"labels": {"a": null, "b": "2"}}}),
                "/metadata/labels",
                json!({"b": "2"}),
            ),
            (
                json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
                "/metadata/labels",
                json!({"c": "3"}),
            ),
            (
                json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": [{"name": "c"}]}}),
                "/spec/containers",
                json!([{"name": "b", "image": "i2"}, {"name": "c"}, {"name": "a", "image": "i1", "args": ["1"]}]),
            ),
        ] {
            let mut patched = pod();
            merge(&mut patched, &patch, Type::built_in("", "v1", "Pod")).unwrap();
            if pointer != "/spec/containers" || !patch.to_string().contains("Order") {
                assert_eq!(patched.pointer(pointer), Some(&wanted), "{patch}");
                continue;
            }
            let names: Vec<&Value> = patched["spec"]["containers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| &c["name"])
                .collect();
            let place = |name: &str| names.iter().position(|n| *n == name).unwrap();
            assert_eq!(names.len(), 3);
            assert!(place("c") < place("a"), "{names:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for patch in [
            json!({"spec": {"containers": [{"image": "i"}]}}),
            json!({"spec": {"$patch": "nonsense"}}),
        ] {
            let mut pod = json!({"spec": {"containers": []}});
            let refused = merge(&mut pod, &patch, Type::built_in("", "v1", "Pod"));
            assert_eq!(refused.unwrap_err().code, 400, "{patch}");
        }
    }
}
