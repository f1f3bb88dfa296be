//! What an update may change of a pod's spec. Most of it stays as it was created; upstream's rules for tolerations and scheduling gates, of
//! which some changes are allowed, are left out: any are.

use serde_json::Value;

/// What upstream says may change, in its words.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                          `spec.tolerations` (only additions to existing tolerations),\
                          `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What validation has against a change of a pod's spec, as fields and texts.
pub(crate) fn forbidden(current: &Value, wanted: &Value) -> Vec<(String, String)> {
    let cause = |field: &str, why: String| vec![(format!("spec{field}"), why)];
    for list in ["containers", "initContainers"] {
        if length(&current[list]) != length(&wanted[list]) {
            let why = "Forbidden: pod updates may not add or remove containers".to_owned();
            return cause(&format!(".{list}"), why);
        }
    }
    let deadline = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    let mut causes = match (deadline(current), deadline(wanted)) {
        (Some(before), Some(after)) if after > before => {
            let why = format!("Invalid value: {after}: must be less than or equal to previous value");
            return cause(".activeDeadlineSeconds", why);
        }
        (Some(_), None) => cause(
            ".activeDeadlineSeconds",
            "Invalid value: null: must not update from a positive integer to nil value".to_owned(),
        ),
        _ => Vec::new(),
    };
    let grace = |spec: &Value| spec["terminationGracePeriodSeconds"].as_i64();
    let mut lasts = lasting(wanted);
    if grace(current).is_some_and(|before| before < 0) && grace(wanted) == Some(1) {
        lasts["terminationGracePeriodSeconds"] = current["terminationGracePeriodSeconds"].clone();
    }
    if lasting(current) != lasts {
        // Upstream shows what differs, in Go's terms.
        let why = format!("Forbidden: pod updates may not change fields other than {CHANGEABLE}\n");
        causes.extend(cause("", why));
    }
    causes
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

/// A pod's spec without what may change, and without what is empty.
fn lasting(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            remove(container, &["image"]);
        }
    }
    remove(&mut spec, &["activeDeadlineSeconds", "tolerations", "schedulingGates"]);
    drop_empty(&mut spec);
    spec
}

fn remove(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|name, _| !fields.contains(&name.as_str()));
    }
}

/// Null, or a list or map without anything in it, is the same to Go as none.
fn drop_empty(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|_, value| !is_empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_change_and_what_may_not() {
        let pod = |change: fn(&mut Value)| {
            let mut spec = json!({
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                "activeDeadlineSeconds": 10, "terminationGracePeriodSeconds": 30, "volumes": [],
            });
            change(&mut spec);
            spec
        };
        type Case<'a> = (fn(&mut Value), &'a [&'a str]);
        let table: [Case<'_>; 10] = [
            (|_| {}, &[]),
            (|spec| spec["containers"][0]["image"] = json!("j"), &[]),
            (|spec| spec["activeDeadlineSeconds"] = json!(5), &[]),
            (|spec| spec["tolerations"] = json!([{"operator": "Exists"}]), &[]),
            (|spec| spec["volumes"] = Value::Null, &[]),
            (
                |spec| spec["activeDeadlineSeconds"] = json!(11),
                &["spec.activeDeadlineSeconds"],
            ),
            (
                |spec| spec["activeDeadlineSeconds"] = Value::Null,
                &["spec.activeDeadlineSeconds"],
            ),
            (|spec| spec["containers"] = json!([]), &["spec.containers"]),
            (
                |spec| spec["containers"][0]["resources"]["requests"]["cpu"] = json!("2"),
                &["spec"],
            ),
            (|spec| spec["terminationGracePeriodSeconds"] = json!(1), &["spec"]),
        ];
        for (at, (change, expected)) in table.into_iter().enumerate() {
            let causes = forbidden(&pod(|_| {}), &pod(change));
            let fields: Vec<&str> = causes.iter().map(|(field, _)| field.as_str()).collect();
            assert_eq!(fields, expected, "{at}");
        }
        let negative = pod(|spec| spec["terminationGracePeriodSeconds"] = json!(-1));
        let of_one = pod(|spec| spec["terminationGracePeriodSeconds"] = json!(1));
        assert!(forbidden(&negative, &of_one).is_empty());
        assert!(!forbidden(&of_one, &negative).is_empty());
    }
}
