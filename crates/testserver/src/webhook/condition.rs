//! `matchConditions`: expressions in CEL, which a request must meet to be reviewed.
//!
//! They are read and evaluated by the `cel` crate, with the standard functions of the language. What kube-apiserver adds to these (quantities,
//! URLs, more of strings and lists), its `authorizer` and its limit of cost are not there. Types are not checked when a configuration is
//! stored: what turns out to have none, or to be no boolean, is an error of evaluation, which the `failurePolicy` judges.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cel::{Context, Env, Program, Value as CelValue};
use parking_lot::Mutex;
use serde_json::Value;

/// What an expression may speak of.
const VARIABLES: [&str; 3] = ["request", "object", "oldObject"];

/// Expressions that were read before, since every request asks for them: by their text the program, or what is wrong.
#[derive(Default)]
pub(crate) struct Conditions(Mutex<BTreeMap<String, Result<Arc<Program>, String>>>);

impl Conditions {
    fn program(&self, expression: &str) -> Result<Arc<Program>, String> {
        let mut read = self.0.lock();
        if let Some(known) = read.get(expression) {
            return known.clone();
        }
        let program = compile(expression).map(Arc::new);
        read.insert(expression.to_owned(), program.clone());
        program
    }

    /// Whether a review meets all conditions of a webhook. Where one is not met no other matters; otherwise those that can't be evaluated
    /// are told, for its `failurePolicy` to judge.
    pub(super) fn meets(&self, webhook: &Value, review: &Value) -> Result<bool, String> {
        let conditions = conditions(webhook);
        if conditions.is_empty() {
            return Ok(true);
        }
        let context = context(&review["request"]);
        let mut errors: Vec<String> = Vec::new();
        for condition in conditions {
            let expression = condition["expression"].as_str().unwrap_or_default();
            let evaluated = self.program(expression).and_then(|program| {
                let value = program.execute(&context).map_err(|why| why.to_string())?;
                let is_met = match value {
                    CelValue::Bool(is_met) => Some(is_met),
                    _ => None,
                };
                is_met.ok_or_else(|| "it is neither true nor false".to_owned())
            });
            match evaluated {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => {
                    let why = format!("expression '{expression}' resulted in error: {why}");
                    if !errors.contains(&why) {
                        errors.push(why);
                    }
                }
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

/// The conditions of a webhook.
pub(super) fn conditions(webhook: &Value) -> &[Value] {
    webhook["matchConditions"].as_array().map_or(&[], Vec::as_slice)
}

/// What is wrong with an expression before anything is known of the request.
pub(super) fn invalid(expression: &str) -> Option<String> {
    compile(expression).err()
}

fn compile(expression: &str) -> Result<Program, String> {
    let program = Env::stdlib()
        .compile(expression)
        .map_err(|why| format!("compilation failed: {why}"))?;
    if program.references().has_variable("authorizer") {
        return Err("the embedded API server has no authorizer".to_owned());
    }
    Ok(program)
}

/// The request with its objects beside it, as expressions see them.
fn context(request: &Value) -> Context<'static, 'static> {
    let mut context = Context::default();
    for name in VARIABLES {
        let shown = match name {
            "request" => {
                let fields = request.as_object().into_iter().flatten();
                let fields = fields.filter(|(field, _)| !["uid", "object", "oldObject"].contains(&field.as_str()));
                map(fields)
            }
            object => value(&request[object]),
        };
        context.add_variable_from_value(name, shown);
    }
    context
}

/// Numbers that are integers are `int`, whatever their sign.
fn value(json: &Value) -> CelValue {
    match json {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => CelValue::Int(integer),
            (None, float) => CelValue::Float(float.unwrap_or(f64::NAN)),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(value).collect())),
        Value::Object(fields) => map(fields),
    }
}

fn map<'a>(fields: impl IntoIterator<Item = (&'a String, &'a Value)>) -> CelValue {
    let fields = fields.into_iter().map(|(name, field)| (name.clone(), value(field)));
    CelValue::from(fields.collect::<HashMap<String, CelValue>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Updates of pods that change the deadline, and all other requests.
    const DEADLINE: &str = "request.operation != 'UPDATE' || request.resource.resource != 'pods' || \
        (has(request.subResource) && request.subResource != '') || \
        has(object.spec.activeDeadlineSeconds) != has(oldObject.spec.activeDeadlineSeconds) || \
        (has(object.spec.activeDeadlineSeconds) && \
        object.spec.activeDeadlineSeconds != oldObject.spec.activeDeadlineSeconds)";

    fn meets(expressions: &[&str], request: &Value) -> Result<bool, String> {
        let list: Vec<Value> = expressions.iter().map(|text| json!({"expression": text})).collect();
        Conditions::default().meets(&json!({"matchConditions": list}), &json!({"request": request}))
    }

    #[test]
    fn what_expressions_see_and_say() {
        let pod = |deadline: Value| match deadline {
            Value::Null => json!({"spec": {}}),
            deadline => json!({"spec": {"activeDeadlineSeconds": deadline}}),
        };
        let update = |subresource: Option<&str>, new: Value, old: Value| {
            let mut request = json!({"operation": "UPDATE", "resource": {"group": "", "version": "v1", "resource": "pods"},
                "object": pod(new), "oldObject": pod(old)});
            if let Some(subresource) = subresource {
                request["subResource"] = subresource.into();
            }
            request
        };
        let maps =
            json!({"operation": "UPDATE", "resource": {"resource": "configmaps"}, "object": {}, "oldObject": {}});
        let deletion = json!({"operation": "DELETE", "resource": {"resource": "pods"}, "object": null, "oldObject": pod(json!(5))});
        let labelled = json!({"object": {"metadata": {"labels": {"app": "a"}, "name": "n-1"}, "spec": {"n": 5, "neg": -5, "f": 0.5, "l": [1]}},
            "dryRun": true, "uid": "u", "userInfo": {"username": "u", "groups": ["g"]}});
        for (expression, request, expected) in [
            (DEADLINE, &update(None, json!(null), json!(null)), Some(false)),
            (DEADLINE, &update(None, json!(5), json!(null)), Some(true)),
            (DEADLINE, &update(None, json!(null), json!(5)), Some(true)),
            (DEADLINE, &update(None, json!(5), json!(5)), Some(false)),
            (DEADLINE, &update(None, json!(5), json!(6)), Some(true)),
            (DEADLINE, &update(Some("resize"), json!(null), json!(null)), Some(true)),
            (DEADLINE, &update(Some(""), json!(null), json!(null)), Some(false)),
            (DEADLINE, &maps, Some(true)),
            (DEADLINE, &deletion, Some(true)),
            ("object == null && oldObject != null", &deletion, Some(true)),
            ("has(object.spec)", &deletion, None),
            ("object.metadata.labels.exists(k, k == 'app')", &labelled, Some(true)),
            ("object.metadata.name.startsWith('m')", &labelled, Some(false)),
            ("object.metadata.name.matches('^n-[0-9]$')", &labelled, Some(true)),
            (
                "object.metadata.?annotations.?a.orValue('none') == 'none'",
                &labelled,
                Some(true),
            ),
            (
                "object.spec.n + 1 == 6 && object.spec.neg < 0 && object.spec.f < 1.0",
                &labelled,
                Some(true),
            ),
            (
                "size(object.spec.l) == 1 && !(2 in object.spec.l)",
                &labelled,
                Some(true),
            ),
            (
                "request.dryRun && 'g' in request.userInfo.groups",
                &labelled,
                Some(true),
            ),
            (
                "has(request.uid) || has(request.object) || has(request.oldObject)",
                &labelled,
                Some(false),
            ),
            // What is certain is not in doubt for the rest.
            ("object.nothing == 1 || true", &labelled, Some(true)),
            ("object.nothing == 1 && false", &labelled, Some(false)),
            ("object.nothing == 1", &labelled, None),
            ("object.spec.n", &labelled, None),
            ("namespace == 'a'", &labelled, None),
            ("unheard(object)", &labelled, None),
            ("object.", &labelled, None),
        ] {
            assert_eq!(meets(&[expression], request).ok(), expected, "{expression} {request}");
        }
    }

    #[test]
    fn several_conditions() {
        let request = json!({"object": {}});
        let broken = "expression 'object.a' resulted in error: ";
        for (expressions, expected) in [
            (&["true", "true"][..], Ok(true)),
            (&["true", "false"], Ok(false)),
            (&["object.a", "false"], Ok(false)),
            (&["false", "object.a"], Ok(false)),
            (&["true", "object.a"], Err(broken)),
            (&["object.a", "object.a"], Err(broken)),
            (
                &["object.a", "object.b"],
                Err("[expression 'object.a' resulted in error: "),
            ),
            (&[], Ok(true)),
        ] {
            match (meets(expressions, &request), expected) {
                (Ok(met), Ok(expected)) => assert_eq!(met, expected, "{expressions:?}"),
                (Err(why), Err(expected)) => assert!(why.starts_with(expected), "{expressions:?}: {why}"),
                (met, expected) => panic!("{expressions:?}: {met:?} and not {expected:?}"),
            }
        }
    }

    #[test]
    fn what_is_refused_when_it_is_stored() {
        for (expression, is_valid) in [
            (DEADLINE, true),
            ("object.a[0].b == {'a': 1}.a", true),
            ("object.?a.hasValue()", true),
            ("object.", false),
            ("(object", false),
            ("authorizer.requestResource.check('get').allowed()", false),
        ] {
            assert_eq!(invalid(expression).is_none(), is_valid, "{expression}");
        }
    }
}
