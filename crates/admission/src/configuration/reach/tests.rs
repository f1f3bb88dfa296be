use kubequota_cluster::ApiResource;
use kubequota_core::decision::LimitedResource;
use kubequota_core::scope::{Requirement, Scope};
use serde_json::json;

use super::*;

const OWN: &str = "kubequota-system";

fn limited(namespaces: &str, names: &str) -> Limited {
    Limited {
        namespaces: namespaces.split_whitespace().map(str::to_owned).collect(),
        names: names.split_whitespace().map(ResourceName::from).collect(),
    }
}

/// Entries as `KIND PART` or `KIND @SCOPE`.
fn by_file(entries: &[&str]) -> LimitedResources {
    let entry = |text: &&str| {
        let (kind, limits) = text.split_once(' ').unwrap();
        let scope = limits
            .strip_prefix('@')
            .map(|scope| Requirement::listed(Scope::from(scope)));
        let part = Some(limits.to_owned()).filter(|_| scope.is_none());
        LimitedResource {
            kind: GroupResource::parse(kind),
            match_contains: part.into_iter().collect(),
            match_scopes: scope.into_iter().collect(),
        }
    };
    LimitedResources::new(entries.iter().map(entry).collect()).unwrap()
}

/// The namespaces and requests: `b a: services CREATE, services UPDATE`.
fn shown(reach: &Reach) -> String {
    let mut namespaces = Vec::new();
    let mut requests = Vec::new();
    for part in reach {
        match part {
            Part::EveryNamespace => namespaces.push("*".to_owned()),
            Part::Namespace(name) => namespaces.push(name.clone()),
            Part::Request {
                group,
                resource,
                operation,
            } => {
                let separator = if group.is_empty() { "" } else { "." };
                requests.push(format!("{resource}{separator}{group} {operation}"));
            }
            Part::Authority(_) => {}
        }
    }
    format!("{}: {}", namespaces.join(" "), requests.join(", "))
}

#[test]
fn what_has_to_be_reviewed() {
    let pods = "pods CREATE, pods UPDATE, pods/resize UPDATE";
    let claims = "persistentvolumeclaims CREATE, persistentvolumeclaims UPDATE, persistentvolumeclaims/status UPDATE";
    let devices = "resourceclaims.resource.k8s.io CREATE, resourceclaims.resource.k8s.io UPDATE";
    let versions = VersionsRead::of(None);
    let table: [(&str, &str, &[&str], String); 17] = [
        ("", "", &[], ": ".to_owned()),
        ("b a", "pods", &[], format!("a b: {pods}")),
        ("a kubequota-system", "limits.cpu", &[], format!("a: {pods}")),
        ("kubequota-system", "limits.cpu", &[], format!(": {pods}")),
        (
            "a",
            "services.nodeports",
            &[],
            "a: services CREATE, services UPDATE".to_owned(),
        ),
        (
            "a",
            "gold.storageclass.storage.k8s.io/requests.storage",
            &[],
            format!("a: {claims}"),
        ),
        (
            "a",
            "x.deviceclass.resource.k8s.io/devices",
            &[],
            format!("a: {devices}"),
        ),
        // Some device class may be behind it.
        ("a", "requests.example.com/gpu", &[], format!("a: {pods}, {devices}")),
        (
            "a",
            "secrets count/configmaps",
            &[],
            "a: configmaps CREATE, secrets CREATE".to_owned(),
        ),
        ("a", "count/pods", &[], format!("a: {pods}")),
        (
            "a",
            "count/deployments.apps",
            &[],
            "a: deployments.apps CREATE".to_owned(),
        ),
        (
            "a",
            "nonsense count/events count/*.apps count/x.a/b count/",
            &[],
            "a: ".to_owned(),
        ),
        (
            "a",
            "secrets",
            &["services loadbalancers"],
            "*: secrets CREATE, services CREATE, services UPDATE".to_owned(),
        ),
        (
            "",
            "",
            &["widgets.example.com count/"],
            "*: widgets.example.com CREATE".to_owned(),
        ),
        // Scopes hold for whatever objects have them.
        ("", "", &["services @PriorityClass"], format!("*: {pods}")),
        (
            "",
            "",
            &["services @VolumeAttributesClass", "services @Nonsense"],
            format!("*: {claims}"),
        ),
        ("", "", &["events x", "* y"], "*: ".to_owned()),
    ];
    for (namespaces, names, entries, expected) in table {
        let reach = limited(namespaces, names).reach(&by_file(entries), &versions, OWN);
        assert_eq!(shown(&reach), expected, "{namespaces:?} {names:?} {entries:?}");
    }
}

#[test]
fn more_namespaces_than_an_object_holds() {
    let named = |count: usize| Limited {
        namespaces: (0..count).map(|number| number.to_string()).collect(),
        names: BTreeSet::new(),
    };
    let reach = |count| named(count).reach(&LimitedResources::default(), &VersionsRead::of(None), OWN);
    assert_eq!(reach(MOST_NAMESPACES).len(), MOST_NAMESPACES);
    assert_eq!(shown(&reach(MOST_NAMESPACES + 1)), "*: ");
}

/// What a server serves of resource claims.
fn discovery(versions: &[&str]) -> Discovery {
    let version =
        |version: &&str| ApiResource::new("resource.k8s.io", version, "resourceclaims", "ResourceClaim", true);
    let mut all = versions.iter().map(version);
    let mut found = Discovery::default();
    for kind in ["pods", "services", "persistentvolumeclaims"] {
        let resource = ApiResource::new("", "v1", kind, "", true);
        found.resources.insert(resource.id.clone(), resource.into());
    }
    if let Some(preferred) = all.next() {
        let mut versions = kubequota_cluster::Versions::from(preferred);
        versions.others.extend(all);
        found.resources.insert(versions.id().clone(), versions);
    }
    found
}

#[test]
fn versions_at_which_objects_are_read() {
    let mut failed = discovery(&[]);
    failed.failed_groups.insert("resource.k8s.io".into(), "away".to_owned());
    let table = [
        (None, Some("v1")),
        (Some(discovery(&["v1", "v1beta2"])), Some("v1")),
        (Some(discovery(&["v1beta2", "v1beta1"])), Some("v1beta2")),
        (Some(discovery(&[])), None),
        (Some(failed), Some("v1")),
    ];
    for (discovery, expected) in table {
        let versions = VersionsRead::of(discovery.as_ref());
        let named = limited("a", "count/resourceclaims.resource.k8s.io count/jobs.batch");
        let reach = named.reach(&LimitedResources::default(), &versions, OWN);
        let address = Address::url("https://a").unwrap();
        let frame = Frame {
            address: &address,
            own_namespace: OWN,
            versions: &versions,
            number: 1,
        };
        let webhooks = frame.webhooks(&reach);
        let rules: Vec<String> = webhooks[0]
            .rules
            .iter()
            .flatten()
            .map(|rule| {
                format!(
                    "{:?} {:?}",
                    rule.resources.as_ref().unwrap(),
                    rule.api_versions.as_ref().unwrap()
                )
            })
            .collect();
        let claims = expected.map(|version| format!("[\"resourceclaims\"] [{version:?}]"));
        let counted = Some("[\"jobs\"] [\"*\"]".to_owned());
        assert_eq!(
            rules,
            [counted, claims].into_iter().flatten().collect::<Vec<_>>(),
            "{discovery:?}"
        );
    }
}

fn webhooks(reach: &Reach) -> Vec<ValidatingWebhook> {
    let address = Address::service("kubequota-system/kubequota-webhook:443").unwrap();
    let frame = Frame {
        address: &address,
        own_namespace: OWN,
        versions: &VersionsRead::of(None),
        number: 7,
    };
    frame.webhooks(reach)
}

#[test]
fn the_webhooks_as_they_are_written() {
    let names = "pods services requests.storage secrets configmaps count/jobs.batch";
    let mut reach = limited("b a", names).reach(&LimitedResources::default(), &VersionsRead::of(None), OWN);
    let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    reach.extend(authorities(&format!("# mine\n{pem}")));
    let rule = |group: &str, version: &str, operations: &[&str], resources: &[&str]| {
        json!({
            "apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources,
            "scope": "Namespaced",
        })
    };
    let webhook = |name: &str, policy: &str, rules: &[serde_json::Value]| {
        json!({
            "name": name, "failurePolicy": policy, "rules": rules,
            "admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent", "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 10, "objectSelector": {},
            "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]},
            ]},
            "clientConfig": {
                "service": {"namespace": OWN, "name": "kubequota-webhook", "path": "/admission", "port": 443},
                "caBundle": k8s_openapi::ByteString(pem.as_bytes().to_vec()),
            },
        })
    };
    let refusing = [
        rule("", "*", &["CREATE"], &["configmaps", "secrets"]),
        rule(
            "",
            "v1",
            &["CREATE", "UPDATE"],
            &["persistentvolumeclaims", "pods", "services"],
        ),
        rule("", "v1", &["UPDATE"], &["pods/resize"]),
        rule("batch", "*", &["CREATE"], &["jobs"]),
    ];
    let mut expected = [
        webhook("quota.kubequota.dev", "Fail", &refusing),
        webhook(
            "claim-status.quota.kubequota.dev",
            "Ignore",
            &[rule("", "v1", &["UPDATE"], &["persistentvolumeclaims/status"])],
        ),
        webhook(
            "probe.quota.kubequota.dev",
            "Ignore",
            &[rule("", "v1", &["CREATE"], &["configmaps"])],
        ),
    ];
    expected[0]["matchConditions"] = json!([{"name": POD_UPDATES.0, "expression": POD_UPDATES.1}]);
    let probe = &mut expected[2];
    probe["clientConfig"]["service"]["path"] = "/admission/probe/7".into();
    probe["namespaceSelector"]["matchExpressions"][0]["values"] = json!([OWN]);
    probe["objectSelector"] = json!({"matchLabels": {"quota.kubequota.dev/probe": "true"}});
    probe["sideEffects"] = "None".into();
    probe["timeoutSeconds"] = 2.into();
    assert_eq!(json!(webhooks(&reach)), json!(expected));
}

#[test]
fn rules_have_a_number() {
    let reach = limited("a", "pods").reach(&LimitedResources::default(), &VersionsRead::of(None), OWN);
    let mut webhooks = webhooks(&reach);
    assert_eq!(number_of(&webhooks), 7);
    assert_eq!(number_of(&webhooks[..1]), 0);
    for (url, number) in [("https://a:8443/admission/probe/12", 12), ("https://a/b", 0), ("", 0)] {
        let probe = webhooks.last_mut().unwrap();
        probe.client_config.service = None;
        probe.client_config.url = Some(url.to_owned());
        assert_eq!(number_of(&webhooks), number, "{url}");
    }
}

#[test]
fn webhooks_say_what_they_reach() {
    let versions = VersionsRead::of(None);
    let nothing = LimitedResources::default();
    for (namespaces, names, by_file) in [
        ("a b", "pods requests.storage count/jobs.batch", nothing.clone()),
        ("a", "pods", by_file(&["services loadbalancers"])),
    ] {
        let reach = limited(namespaces, names).reach(&by_file, &versions, OWN);
        assert_eq!(reach_of(&webhooks(&reach)), reach);
    }
    // Without namespaces, or without anything in them, there is none but the one for probes.
    for (namespaces, names) in [("", "pods"), (OWN, "pods"), ("a", "nonsense"), ("", "")] {
        let reach = limited(namespaces, names).reach(&nothing, &versions, OWN);
        let names_of: Vec<String> = webhooks(&reach).into_iter().map(|webhook| webhook.name).collect();
        assert_eq!(names_of, [PROBE_WEBHOOK], "{namespaces:?} {names:?}");
    }
    // The widest is not narrowed by what it holds besides, and its own namespace is never named.
    let mut reach = limited("a", "secrets").reach(&by_file(&["services x"]), &versions, OWN);
    reach.insert(Part::Namespace(OWN.to_owned()));
    let selector = json!(webhooks(&reach)[0].namespace_selector);
    assert_eq!(
        selector["matchExpressions"],
        json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [OWN]}])
    );
}
