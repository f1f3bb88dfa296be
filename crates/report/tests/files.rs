//! Audits of small inputs: what counts, what is not computed, what is a problem.

#![allow(clippy::unwrap_used, clippy::panic)]

use kubequota_report::{Audit, Files};
use kubequota_wire::files;

fn audit_with(text: &str, served: &[&str]) -> Audit {
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    let mut objects = Files::new(now, served.iter().map(|text| text.parse().unwrap()).collect());
    files::objects("f", text.as_bytes(), &mut |found| objects.add(found));
    objects.finish()
}

fn audit(text: &str) -> Audit {
    audit_with(text, &[])
}

/// Every computed figure as `NAMESPACE/QUOTA NAME=COMPUTED`, `?` where there is none.
fn computed(audit: &Audit) -> Vec<String> {
    let lines = audit.quotas.iter().flat_map(|quota| {
        quota.resources.iter().map(move |resource| {
            let computed = resource.computed.as_ref().map_or("?".to_owned(), ToString::to_string);
            format!("{}/{} {}={computed}", quota.namespace, quota.name, resource.name)
        })
    });
    lines.collect()
}

fn errors(audit: &Audit) -> Vec<String> {
    audit.errors.iter().map(ToString::to_string).collect()
}

/// A quota `q` of namespace `team` over these names.
fn quota(names: &str) -> String {
    let hard: Vec<String> = names.split(' ').map(|name| format!("{name}: 9")).collect();
    format!(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q, namespace: team}}\nspec: {{hard: {{{}}}}}\n---\n",
        hard.join(", ")
    )
}

fn object(api_version: &str, kind: &str, metadata: &str, rest: &str) -> String {
    format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{{metadata}}}\n{rest}\n---\n")
}

fn pod(metadata: &str, requests: &str) -> String {
    object(
        "v1",
        "Pod",
        metadata,
        &format!("spec: {{containers: [{{name: c, resources: {{requests: {{{requests}}}}}}}]}}"),
    )
}

#[test]
fn quantities_as_numbers() {
    let text = quota("requests.cpu requests.memory")
        + &pod("name: a, namespace: team", "cpu: 1, memory: 1e3")
        + &pod("name: b, namespace: team", "cpu: 0.5, memory: 0777")
        + &pod("name: c, namespace: team", "cpu: '2', memory: 1_000")
        + &pod("name: d, namespace: team", "cpu: null, memory: 1.5Gi");
    let audit = audit(&text);
    assert_eq!(errors(&audit), Vec::<String>::new());
    assert_eq!(
        computed(&audit),
        ["team/q requests.cpu=3500m", "team/q requests.memory=1610615247"]
    );
}

#[test]
fn namespaces() {
    let quota_of_default = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: d}\nspec: {hard: {pods: 9, count/widgets.example.com: 9}}\n---\n";
    let text = quota_of_default.to_owned()
        + &quota("pods")
        + &pod("name: a", "")
        + &pod("name: a, namespace: team", "")
        + &object("example.com/v1", "Widget", "name: w", "")
        // From a server, and without a namespace: it has none.
        + &object("example.com/v1", "Widget", "name: x, uid: 1b4e28ba-2fa1-11d2-883f-0016d3cca427", "");
    let audit = audit(&text);
    assert_eq!(errors(&audit), Vec::<String>::new());
    assert_eq!(
        computed(&audit),
        [
            "default/d count/widgets.example.com=1",
            "default/d pods=1",
            "team/q pods=1"
        ]
    );
}

#[test]
fn what_is_served() {
    let names = "count/cronjobs.batch count/gadgets.example.com count/feet.example.com count/events count/nodes count/workloads.scheduling.k8s.io resourcequotas example.com/x";
    let definition = |kind: &str, plural: &str, scope: &str| {
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &format!("name: {plural}.example.com"),
            &format!("spec: {{group: example.com, scope: {scope}, names: {{kind: {kind}, plural: {plural}}}}}"),
        )
    };
    let foot = object("example.com/v1", "Foot", "name: left, namespace: team", "");
    let all = |gadgets: &str, feet: &str| {
        let mut lines = vec![
            "team/q count/cronjobs.batch=0".to_owned(),
            "team/q count/events=?".to_owned(),
            format!("team/q count/feet.example.com={feet}"),
            format!("team/q count/gadgets.example.com={gadgets}"),
            "team/q count/nodes=?".to_owned(),
            "team/q count/workloads.scheduling.k8s.io=?".to_owned(),
            "team/q example.com/x=?".to_owned(),
            "team/q resourcequotas=1".to_owned(),
        ];
        lines.sort();
        lines
    };
    let quota = quota(names);
    assert_eq!(computed(&audit(&quota)), all("?", "?"));
    assert_eq!(
        computed(&audit_with(&quota, &["Gadget.example.com", "feet.example.com"])),
        all("0", "0")
    );
    // A definition after the objects settles the plural, without objects that the kind is served.
    assert_eq!(
        computed(&audit(&(quota.clone() + &foot))),
        all("?", "?"),
        "the guess is foots"
    );
    assert_eq!(
        computed(&audit(
            &(quota.clone() + &foot + &definition("Foot", "feet", "Namespaced"))
        )),
        all("?", "1")
    );
    assert_eq!(
        computed(&audit(
            &(quota.clone() + &definition("Gadget", "gadgets", "Namespaced"))
        )),
        all("0", "?")
    );
    assert_eq!(
        computed(&audit(&(quota + &definition("Gadget", "gadgets", "Cluster")))),
        all("?", "?")
    );
}

#[test]
fn unreadable_objects_freeze_what_their_kind_feeds_in_their_namespace() {
    let quotas = quota("pods requests.cpu services") + &quota("pods").replace("namespace: team", "namespace: other");
    let text = quotas + &pod("name: a, namespace: team", "cpu: 12 apples") + &pod("name: b, namespace: team", "cpu: 1");
    let found = audit(&text);
    assert_eq!(
        computed(&found),
        [
            "other/q pods=0",
            "team/q pods=?",
            "team/q requests.cpu=?",
            "team/q services=0"
        ]
    );
    let [error] = &errors(&found)[..] else {
        panic!("{:?}", found.errors)
    };
    assert!(
        error.starts_with("f, document 3, Pod team/a: spec.containers[0].resources.requests[cpu]: "),
        "file, document, object and field: {error}"
    );
    assert!(
        error.ends_with(" (so what pods use in team is not computed)"),
        "{error}"
    );
}

#[test]
fn problems() {
    let table = [
        (
            object("v1", "Pod", "name: a, namespace: team", "spec: {containers: {name: c}}"),
            "f, document 2, Pod team/a: spec.containers: invalid type: map, expected a sequence (so what pods use in team is not computed)",
        ),
        (
            object(
                "v1",
                "Pod",
                "name: a, namespace: team, deletionGracePeriodSeconds: soon",
                "",
            ),
            "f, document 2, Pod team/a: metadata.deletionGracePeriodSeconds: invalid type: string \"soon\", expected i64 (so what pods use in team is not computed)",
        ),
        (
            object("v1", "Pod", "name: a, namespace: team", "spec: {}\nspec: {}"),
            "f, document 2, Pod team/a: spec: this key is there twice (so what pods use in team is not computed)",
        ),
        (
            object("v1", "ConfigMap", "name: a, namespace: team", "data: {a: b, a: c}"),
            "f, document 2, ConfigMap team/a: data.a: this key is there twice",
        ),
        (
            object("example.com/v1", "Widget", "name: a", "a: .inf"),
            "f, document 2, Widget a: a: inf is no number that JSON has",
        ),
        (
            object("v1", "Pod", "namespace: team", ""),
            "f, document 2, Pod: metadata.name: missing",
        ),
        (
            object("v1", "Pod", "name: 5", ""),
            "f, document 2, Pod: metadata.name: invalid type: integer `5`, expected a string",
        ),
        (
            object(
                "v1",
                "ResourceQuota",
                "name: b",
                "spec: {hard: {pods: many}}\nstatus: {used: 5}",
            ),
            "f, document 2, ResourceQuota default/b: status.used: invalid type: integer `5`, expected a map",
        ),
        (
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "name: a",
                "spec: {group: example.com}",
            ),
            "f, document 2, CustomResourceDefinition a: spec: missing field `names`",
        ),
    ];
    for (text, expected) in table {
        let found = audit(&(quota("services") + &text));
        assert_eq!(errors(&found), [expected], "{text}");
        assert_eq!(computed(&found), ["team/q services=0"], "{text}");
    }
}

#[test]
fn quotas_with_mistakes() {
    let text = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\n\
                spec: {hard: {pods: many, services: 1, configmaps: 1}}\nstatus: {used: {services: x, configmaps: 0}}\n---\n\
                apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: r, namespace: team}\n\
                spec: {hard: {pods: 1}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}]}}\n";
    let found = audit(text);
    let errors = errors(&found);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors[0].starts_with("f, document 1, ResourceQuota team/q: spec.hard[pods]: "),
        "{errors:?}"
    );
    assert!(
        errors[1].starts_with("f, document 1, ResourceQuota team/q: status.used[services]: "),
        "{errors:?}"
    );
    assert!(
        errors[2].starts_with("f, document 2, ResourceQuota team/r: spec.scopeSelector: "),
        "{errors:?}"
    );
    assert_eq!(
        computed(&found),
        ["team/q configmaps=0", "team/q services=0", "team/r pods=?"]
    );
    assert!(
        !found.has_drifted(),
        "a figure that can't be read is no drift: {found:?}"
    );
}

#[test]
fn no_quota() {
    for text in [
        String::new(),
        pod("name: a", ""),
        "apiVersion: v1\nkind: List\nitems: []\n".to_owned(),
        object("example.com/v1", "ResourceQuota", "name: a", ""),
    ] {
        let errors = errors(&audit(&text));
        assert!(
            errors.len() == 1 && errors[0].starts_with("no ResourceQuota in the input: "),
            "{text}: {errors:?}"
        );
    }
    let errors = errors(&audit(&object("v1", "Pod", "name: 5", "")));
    assert!(
        errors.len() == 2 && errors[0].starts_with("no ResourceQuota in the input: "),
        "{errors:?}"
    );
    // One that can't be read is there all the same.
    for text in [
        object("v1", "ResourceQuota", "name: 5", ""),
        object("v1", "ResourceQuota", "name: q", "status: 5"),
    ] {
        let errors: Vec<String> = audit(&text).errors.iter().map(ToString::to_string).collect();
        assert!(
            errors.len() == 1 && errors[0].contains(" ResourceQuota"),
            "{text}: {errors:?}"
        );
    }
}

#[test]
fn names_left_out() {
    let text = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\n\
                spec: {hard: {pods: many, services: few, configmaps: 1}}\nstatus: {hard: {pods: many}, used: {configmaps: x}}\n";
    let found = audit(text);
    assert_eq!(found.quotas[0].left_out, 2);
    assert_eq!(computed(&found), ["default/q configmaps=0"]);
}

#[test]
fn duplicates() {
    let text = quota("requests.cpu")
        + &pod("name: a, namespace: team, uid: one", "cpu: 1")
        + &pod("name: a, namespace: team, uid: two", "cpu: 2")
        + &pod("name: a, namespace: other", "cpu: 4")
        + &object("v1", "Service", "name: a, namespace: team", "")
        + &pod("generateName: g-, namespace: team", "cpu: 8")
        + &pod("generateName: g-, namespace: team", "cpu: 16");
    let found = audit(&text);
    assert_eq!(
        errors(&found),
        ["f, document 3, Pod team/a: it is there more than once; this one counts, not the one before"]
    );
    assert_eq!(computed(&found), ["team/q requests.cpu=26"]);
}

#[test]
fn drift() {
    let text = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\n\
                spec: {hard: {pods: 9, services: 9, configmaps: 9, secrets: 9, requests.memory: 1Gi, example.com/x: 1}}\n\
                status: {used: {pods: 3, services: 0, configmaps: '00', requests.memory: 1Gi, example.com/x: 1}}\n---\n"
        .to_owned()
        + &pod("name: a, namespace: team", "memory: 1536Mi");
    let found = audit(&text);
    let drift: Vec<(String, Option<String>, bool)> = found.quotas[0]
        .resources
        .iter()
        .map(|resource| {
            (
                resource.name.to_string(),
                resource.drift.as_ref().map(ToString::to_string),
                resource.has_drifted(),
            )
        })
        .collect();
    let expected = [
        ("configmaps", Some("0"), false),
        ("example.com/x", None, false),
        ("pods", Some("2"), true),
        ("requests.memory", Some("-512Mi"), true),
        // The controller would have written it.
        ("secrets", Some("0"), true),
        ("services", Some("0"), false),
    ];
    assert_eq!(
        drift,
        expected.map(|(name, drift, drifted)| (name.to_owned(), drift.map(str::to_owned), drifted))
    );
}

#[test]
fn devices_in_any_order() {
    let quota = quota("requests.example.com/gpu gpu.deviceclass.resource.k8s.io/devices");
    let claim = object(
        "resource.k8s.io/v1",
        "ResourceClaim",
        "name: c, namespace: team",
        "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]}}",
    );
    let class = object(
        "resource.k8s.io/v1",
        "DeviceClass",
        "name: gpu",
        "spec: {extendedResourceName: example.com/gpu}",
    );
    let expected = [
        "team/q gpu.deviceclass.resource.k8s.io/devices=2",
        "team/q requests.example.com/gpu=2",
    ];
    for parts in [
        [&quota, &claim, &class],
        [&class, &claim, &quota],
        [&claim, &class, &quota],
    ] {
        assert_eq!(computed(&audit(&parts.map(String::as_str).concat())), expected);
    }
}

#[test]
fn a_pod_past_its_grace_uses_nothing() {
    let leaving = |deleted: &str| {
        pod(
            &format!("name: a, namespace: team, deletionTimestamp: {deleted}, deletionGracePeriodSeconds: 30"),
            "",
        )
    };
    // Now is 00:01:00.
    for (deleted, expected) in [("2026-01-01T00:00:29Z", "pods=0"), ("2026-01-01T00:00:30Z", "pods=1")] {
        assert_eq!(
            computed(&audit(&(quota("pods") + &leaving(deleted)))),
            [format!("team/q {expected}")],
            "{deleted}"
        );
    }
}

#[test]
fn json_shape() {
    let text = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\n\
                spec: {hard: {pods: 9, example.com/x: 1}}\nstatus: {used: {pods: 3}}\n---\n- 1\n"
        .to_owned()
        + "---\n"
        + &object("v1", "Pod", "name: 5", "");
    assert_eq!(
        serde_json::to_value(audit(&text)).unwrap(),
        serde_json::json!({
            "quotas": [{"namespace": "team", "name": "q", "resources": [
                {"name": "example.com/x", "hard": "1"},
                {"name": "pods", "hard": "9", "recorded": "3", "computed": "0", "drift": "3"},
            ]}],
            "errors": [
                {"file": "f", "document": 2, "reason": "this is a list, not an object"},
                {"file": "f", "document": 3, "object": "Pod", "field": "metadata.name", "reason": "invalid type: integer `5`, expected a string"},
            ],
        })
    );
}
