//! The body of a request to the webhook, on to its verdict over a few quotas.
#![no_main]

use jiff::Timestamp;
use kubequota_core::decision::{Demand, LimitedResources, Review as Asked};
use kubequota_core::evaluator::Context;
use kubequota_core::inventory::Inventory;
use kubequota_core::Quota;
use kubequota_wire::json::{Quotas, Shape};
use kubequota_wire::review::{Answer, Refused, Review};
use libfuzzer_sys::fuzz_target;

const QUOTAS: [&str; 3] = [
    r#"{"metadata":{"namespace":"a","name":"all"},"status":{
        "hard":{"pods":"5","requests.cpu":"2","limits.memory":"1Gi","count/configmaps":"3","services.nodeports":"1",
                "requests.storage":"10Gi","persistentvolumeclaims":"2","count/deployments.apps":"1"},
        "used":{"pods":"4","requests.cpu":"1","limits.memory":"1Mi","count/configmaps":"3","services.nodeports":"0",
                "requests.storage":"9Gi","persistentvolumeclaims":"1","count/deployments.apps":"0"}}}"#,
    r#"{"metadata":{"namespace":"a","name":"some"},"spec":{"scopes":["NotBestEffort"]},
        "status":{"hard":{"pods":"1","memory":"5"},"used":{"pods":"0"}}}"#,
    r#"{"metadata":{"namespace":"a","name":"odd"},"spec":{"scopeSelector":{"matchExpressions":[
        {"scopeName":"PriorityClass","operator":"In","values":["high"]}]}},
        "status":{"hard":{"requests.example.com/gpu":"x","pods":"9"},"used":{"pods":"9"}}}"#,
];

fuzz_target!(|body: &[u8]| {
    let review = match Review::read(body) {
        Ok(review) => review,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut inventory = Inventory::new();
    let Some(id) = inventory.registry_mut().ensure(&review.kind) else {
        return;
    };
    let evaluator = inventory.registry().evaluator(id);
    let read = |text: Option<&str>| evaluator.view_kind().read(text?).ok();
    let Some(object) = read(review.object) else { return };
    let old = read(review.old_object);
    let quotas: Vec<Quota> = QUOTAS.iter().map(|quota| Quotas.read(*quota).unwrap().1.unwrap()).collect();
    let asked = Asked {
        operation: review.operation,
        subresource: &review.subresource,
        namespace: &review.namespace,
        name: &review.name,
        object: &object,
        old: old.as_ref(),
        dry_run: review.dry_run,
    };
    let context = Context {
        now: Timestamp::UNIX_EPOCH,
        lookups: &inventory.lookups(),
    };
    let Some(demand) = Demand::of(evaluator.as_ref(), &asked, &context) else {
        return;
    };
    let quotas: Vec<&Quota> = quotas.iter().collect();
    let refusal = match demand.judge(&quotas, &LimitedResources::default()) {
        Ok(raises) => {
            assert!(raises.iter().all(|raise| !raise.by.is_empty() && raise.by.negative_names().is_empty()));
            None
        }
        Err(refusal) => Some(Refused {
            code: 403,
            reason: "Forbidden",
            message: asked.message(&review.kind, &refusal),
            name: asked.display_name().to_owned(),
            kind: review.kind.clone(),
            retry_after_seconds: 0,
        }),
    };
    let answer = Answer {
        refusal,
        ..Answer::default()
    };
    let answer: serde_json::Value = serde_json::from_slice(&answer.body(&review.uid)).unwrap();
    assert_eq!(answer["response"]["uid"], review.uid);
});
