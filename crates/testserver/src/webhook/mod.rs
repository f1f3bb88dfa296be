//! Validating admission webhooks, called as kube-apiserver v1.37 calls them (`k8s.io/apiserver/pkg/admission/plugin/webhook`).
//!
//! Every ValidatingWebhookConfiguration that is stored is obeyed at once, those of the first name first. What is left out: reviews of version
//! `v1beta1`, mutating webhooks, and some functions of `matchConditions` ([`condition`]). A webhook that is named by a Service is found only
//! where a test serves it; any other needs a `caBundle`, because the machine's own authorities are not asked.

mod call;
mod condition;
mod matching;

pub(crate) use call::authority_of;
pub(crate) use condition::Conditions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Router;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::TestServer;
use crate::defaults;
use crate::kinds::{GroupResource, Kind, api_version};
use crate::object::set_top;
use crate::status::Status;
use crate::store::Store;

/// Where the configurations are stored.
const CONFIGURATIONS: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

/// The group of the kinds that no webhook is asked about: else a bad one could not be repaired.
const EXEMPT_GROUP: &str = "admissionregistration.k8s.io";

/// A webhook has no more conditions than this.
const MOST_CONDITIONS: usize = 64;

/// The webhooks that tests serve in this process, by host and port.
pub(crate) type Served = BTreeMap<String, Router>;

/// What a webhook is asked about.
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(crate) operation: &'static str,
    pub(crate) resource: GroupResource,
    pub(crate) version: String,
    /// The other versions at which the resource is served.
    pub(crate) other_versions: Vec<String>,
    pub(crate) subresource: String,
    /// `apiVersion` group, version and kind of the object: those of a Scale differ from the resource's.
    pub(crate) kind: (String, String, String),
    /// Of a Namespace its own name; empty for other objects outside of namespaces.
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// None of a deletion.
    pub(crate) object: Option<Value>,
    /// None of a create.
    pub(crate) old: Option<Value>,
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
}

impl Attributes {
    fn is_namespace(&self) -> bool {
        self.resource == GroupResource::new("", "namespaces")
    }
}

/// What went wrong with one webhook.
#[derive(Debug)]
enum Refusal {
    /// It said no.
    Denied(Status),
    /// It could not be asked, which its `failurePolicy` judges.
    Failed(String),
}

/// Whether webhooks may have to be asked about a resource at all.
pub(crate) fn concerns(store: &Store, resource: &GroupResource) -> bool {
    resource.group != EXEMPT_GROUP && store.count(&GroupResource::parse(CONFIGURATIONS), "") > 0
}

/// What validation has against the conditions of a configuration: their number, names and expressions. A test that serves the kind itself
/// keeps what it likes.
pub(crate) fn invalid(kind: &Kind, object: &Value) -> Vec<(String, String)> {
    if kind.custom || kind.resource() != GroupResource::parse(CONFIGURATIONS) {
        return Vec::new();
    }
    let webhooks = object["webhooks"].as_array().into_iter().flatten().enumerate();
    let mut causes = Vec::new();
    for (at, webhook) in webhooks {
        let field = format!("webhooks[{at}].matchConditions");
        let conditions = condition::conditions(webhook);
        if conditions.len() > MOST_CONDITIONS {
            let why = format!(
                "Too many: {}: must have at most {MOST_CONDITIONS} items",
                conditions.len()
            );
            causes.push((field.clone(), why));
        }
        let mut names = BTreeSet::new();
        for (at, condition) in conditions.iter().enumerate() {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            let (name, expression) = (text("name"), text("expression").trim());
            let mut wrong = |part: &str, why: String| causes.push((format!("{field}[{at}].{part}"), why));
            if expression.is_empty() {
                wrong("expression", "Required value".to_owned());
            } else if let Some(why) = condition::invalid(expression) {
                wrong("expression", format!("Invalid value: {expression:?}: {why}"));
            }
            if name.is_empty() {
                wrong("name", "Required value".to_owned());
            } else if !names.insert(name) {
                wrong("name", format!("Duplicate value: {name:?}"));
            }
        }
    }
    causes
}

/// Asks all webhooks that the request concerns, at once. What they say beside their verdict is added to `warnings`.
pub(crate) async fn validate(
    server: &TestServer,
    attributes: &Attributes,
    warnings: &Mutex<Vec<String>>,
) -> Result<(), Status> {
    let mut asked = FuturesUnordered::new();
    for webhook in webhooks(server) {
        if let Some(version) = matching::version_to_ask(server, &webhook, attributes)? {
            let uid = server.store().new_uid();
            let review = review(server, &uid, &version, attributes);
            match server.conditions().meets(&webhook, &review) {
                Ok(true) => asked.push(ask(server, webhook, uid, review, attributes, warnings)),
                Ok(false) => {}
                Err(_) if webhook["failurePolicy"] == "Ignore" => {}
                Err(why) => return Err(Status::denied(&attributes.resource, &attributes.name, why)),
            }
        }
    }
    // Of several refusals the first to arrive is told.
    let mut told = Ok(());
    while let Some(answer) = asked.next().await {
        told = told.and(answer);
    }
    told
}

/// All webhooks, with the defaults that a configuration which a test has put in lacks.
fn webhooks(server: &TestServer) -> Vec<Value> {
    let mut webhooks = Vec::new();
    for mut configuration in server.list(CONFIGURATIONS, "") {
        defaults::apply(CONFIGURATIONS, &mut configuration);
        if let Value::Array(list) = configuration["webhooks"].take() {
            webhooks.extend(list);
        }
    }
    webhooks
}

async fn ask(
    server: &TestServer,
    webhook: Value,
    uid: String,
    review: Value,
    attributes: &Attributes,
    warnings: &Mutex<Vec<String>>,
) -> Result<(), Status> {
    let name = webhook["name"].as_str().unwrap_or_default();
    match ask_one(server, &webhook, &uid, &review, attributes, warnings).await {
        Ok(()) => Ok(()),
        Err(Refusal::Denied(status)) => Err(status),
        Err(Refusal::Failed(_)) if webhook["failurePolicy"] == "Ignore" => Ok(()),
        Err(Refusal::Failed(why)) => {
            let why = format!("failed calling webhook {name:?}: {why}");
            let mut status = Status::internal(&why);
            status.details = json!({ "causes": [{ "message": why }] });
            Err(status)
        }
    }
}

async fn ask_one(
    server: &TestServer,
    webhook: &Value,
    uid: &str,
    review: &Value,
    attributes: &Attributes,
    warnings: &Mutex<Vec<String>>,
) -> Result<(), Refusal> {
    let name = webhook["name"].as_str().unwrap_or_default();
    if attributes.dry_run && !matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")) {
        return Err(match &webhook["sideEffects"] {
            Value::Null => Refusal::Failed("Webhook SideEffects is nil".to_owned()),
            _ => Refusal::Denied(Status::bad_request(format!(
                "admission webhook {name:?} does not support dry run"
            ))),
        });
    }
    let versions = webhook["admissionReviewVersions"].as_array();
    if !versions.into_iter().flatten().any(|known| known == "v1") {
        return Err(Refusal::Failed(
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1)"
                .to_owned(),
        ));
    }
    let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(10);
    let target = call::Target::of(&webhook["clientConfig"])
        .map_err(|why| Refusal::Failed(format!("could not get REST client: {why}")))?;
    let url = format!("{}?timeout={seconds}s", target.url);
    let answer = tokio::time::timeout(Duration::from_secs(seconds), call::post(server, &target, &url, review)).await;
    let answer = answer
        .unwrap_or_else(|_| Err(call::at(&url, "context deadline exceeded")))
        .map_err(|why| Refusal::Failed(format!("failed to call webhook: {why}")))?;
    let response =
        verified(&answer, uid).map_err(|why| Refusal::Failed(format!("received invalid webhook response: {why}")))?;
    for warning in response["warnings"].as_array().into_iter().flatten() {
        let warning = warning.as_str().unwrap_or_default();
        let mut warnings = warnings.lock();
        if !warnings.iter().any(|known| known == warning) {
            warnings.push(warning.to_owned());
        }
    }
    if response["allowed"] == true {
        return Ok(());
    }
    Err(Refusal::Denied(denied(name, &response["status"])))
}

/// The AdmissionReview that asks, its objects at a version.
fn review(server: &TestServer, uid: &str, version: &str, attributes: &Attributes) -> Value {
    let resource = |version: &str| {
        json!({
            "group": attributes.resource.group, "version": version, "resource": attributes.resource.plural,
        })
    };
    let (group, own_version, kind) = &attributes.kind;
    // A Scale is one whatever version of its resource is asked for.
    let kind_version = if own_version == &attributes.version {
        version
    } else {
        own_version
    };
    let gvk = |version: &str| json!({ "group": group, "version": version, "kind": kind });
    let object = |object: &Option<Value>| {
        let mut object = object.clone().unwrap_or_default();
        set_top(&mut object, "apiVersion", Some(api_version(group, kind_version).into()));
        object
    };
    let mut request = json!({
        "uid": uid,
        "kind": gvk(kind_version),
        "resource": resource(version),
        "requestKind": gvk(own_version),
        "requestResource": resource(&attributes.version),
        "operation": attributes.operation,
        "userInfo": { "username": server.user(), "groups": ["system:masters", "system:authenticated"] },
        "object": object(&attributes.object),
        "oldObject": object(&attributes.old),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    });
    for (field, text) in [
        ("name", &attributes.name),
        ("namespace", &attributes.namespace),
        ("subResource", &attributes.subresource),
        ("requestSubResource", &attributes.subresource),
    ] {
        if !text.is_empty() {
            request[field] = text.as_str().into();
        }
    }
    json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request })
}

/// The response of an answer, once it is known to be one to this question.
fn verified<'a>(answer: &'a Value, uid: &str) -> Result<&'a Value, String> {
    let response = &answer["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    if text(&response["uid"]) != uid {
        return Err(format!(
            "expected response.uid={uid:?}, got {:?}",
            text(&response["uid"])
        ));
    }
    let (version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if (version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        // A version without a group, and one that is missing, as Go prints them.
        let version = if version.contains('/') {
            version.to_owned()
        } else {
            format!("/{version}")
        };
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        ));
    }
    if !text(&response["patch"]).is_empty() {
        return Err("validating webhook may not return response.patch".to_owned());
    }
    if !response["patchType"].is_null() {
        return Err("validating webhook may not return response.patchType".to_owned());
    }
    Ok(response)
}

/// What the client is told of a refusal (`ToStatusErr`).
fn denied(name: &str, status: &Value) -> Status {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let why = match (text("message"), text("reason")) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let mut told = Status::new(
        code.unwrap_or(0).max(400),
        text("reason"),
        format!("admission webhook {name:?} denied the request{why}"),
    );
    told.details = status["details"].clone();
    told
}

#[cfg(test)]
mod tests;
