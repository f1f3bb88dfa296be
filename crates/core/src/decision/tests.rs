//! Requests against quotas, each judged in one line. What is expected was read in upstream's `CheckRequest`.

use serde_json::{Value, json};

use super::*;
use crate::evaluator::NoLookups;
use crate::evaluators::testing::{now, object, resources};
use crate::evaluators::{ObjectCountEvaluator, PersistentVolumeClaimEvaluator, PodEvaluator, ResourceClaimEvaluator};
use crate::object::Metadata;
use crate::quota::QuotaView;
use crate::quota::{QuotaKey, QuotaSpec, QuotaStatus};
use crate::scope::{Operator, Scope};

/// `a=1 b=2`; nothing at all is a list that is not there.
fn list(text: &str) -> Option<ResourceList> {
    let pairs = resources(text);
    let pair = |(name, value): (&String, &Value)| (name.as_str().into(), value.as_str().unwrap().parse().unwrap());
    (!text.is_empty()).then(|| pairs.as_object().unwrap().iter().map(pair).collect())
}

/// `SCOPE` or `SCOPE OPERATOR a,b`.
fn requirement(text: &str) -> Requirement {
    let mut words = text.split_whitespace();
    let scope = Scope::from(words.next().unwrap());
    match words.next() {
        None => Requirement::listed(scope),
        Some(operator) => Requirement {
            scope,
            operator: Operator::from(operator),
            values: words.flat_map(|values| values.split(',')).map(str::to_owned).collect(),
        },
    }
}

/// `NAME | hard | used`, and behind another `|` what it selects, joined by `&`.
fn quota(text: &str) -> Quota {
    let mut parts = text.split('|').map(str::trim);
    let mut part = || parts.next().unwrap_or_default();
    let key = QuotaKey::new("ns", part());
    let status = QuotaStatus {
        hard: list(part()),
        used: list(part()),
    };
    let selected = part().split('&').filter(|text| !text.is_empty());
    Quota {
        key,
        uid: String::new(),
        resource_version: String::new(),
        spec: QuotaSpec {
            hard: status.hard.clone().unwrap_or_default(),
            selector: Selector::new(selected.map(requirement).collect()),
        },
        status,
        last_charges: None,
        enforced: None,
        problems: Vec::new(),
    }
}

/// `KIND | parts of names | scopes`, with `;` between entries and `&` between scopes.
fn limited(text: &str) -> LimitedResources {
    let entry = |text: &str| {
        let mut parts = text.split('|').map(str::trim);
        let mut part = || parts.next().unwrap_or_default();
        LimitedResource {
            kind: GroupResource::parse(part()),
            match_contains: part().split_whitespace().map(str::to_owned).collect(),
            match_scopes: part()
                .split('&')
                .filter(|text| !text.is_empty())
                .map(requirement)
                .collect(),
        }
    };
    LimitedResources::new(text.split(';').filter(|text| !text.is_empty()).map(entry).collect()).unwrap()
}

/// A pod with one container `c` of these requests.
fn pod(requests: &str) -> Value {
    json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": resources(requests)}}]},
    })
}

fn claim(storage: &str, attributes_class: &str) -> Value {
    json!({
        "metadata": {"name": "v"},
        "spec": {"resources": {"requests": {"storage": storage}}, "volumeAttributesClassName": attributes_class},
    })
}

/// The same as it is stored.
fn stored(mut object: Value) -> Value {
    object["metadata"]["resourceVersion"] = json!("7");
    object
}

/// A request, and what else bears on it.
struct Asked<'a> {
    evaluator: &'a dyn Evaluator,
    operation: Operation,
    subresource: &'a str,
    namespace: &'a str,
    new: Value,
    old: Option<Value>,
    dry_run: bool,
    limited: &'a str,
    lookups: &'a dyn Lookups,
}

impl<'a> Asked<'a> {
    fn create(evaluator: &'a dyn Evaluator, new: Value) -> Self {
        Asked {
            evaluator,
            operation: Operation::Create,
            subresource: "",
            namespace: "ns",
            new,
            old: None,
            dry_run: false,
            limited: "",
            lookups: &NoLookups,
        }
    }

    fn update(evaluator: &'a dyn Evaluator, subresource: &'a str, old: Option<Value>, new: Value) -> Self {
        Asked {
            operation: Operation::Update,
            subresource,
            old,
            ..Asked::create(evaluator, new)
        }
    }

    /// What is charged, as `QUOTA: a=1,b=2; ...`, or why the request is refused, or `unhandled`.
    fn verdict(&self, quotas: &[&str]) -> String {
        let quotas: Vec<Quota> = quotas.iter().map(|text| quota(text)).collect();
        let new = object(self.evaluator, &self.new);
        let old = self.old.as_ref().map(|old| object(self.evaluator, old));
        let review = Review {
            operation: self.operation,
            subresource: self.subresource,
            namespace: self.namespace,
            name: "",
            object: &new,
            old: old.as_ref(),
            dry_run: self.dry_run,
        };
        let context = Context {
            now: now(),
            lookups: self.lookups,
        };
        let judged = match Demand::of(self.evaluator, &review, &context) {
            None => return "unhandled".to_owned(),
            Some(demand) => demand.judge(&quotas.iter().collect::<Vec<_>>(), &limited(self.limited)),
        };
        match judged {
            Ok(raises) => {
                let raise = |raise: &Raise| format!("{}: {}", quotas[raise.quota].key.name, raise.by);
                raises.iter().map(raise).collect::<Vec<_>>().join("; ")
            }
            Err(refusal) => refusal.to_string(),
        }
    }
}

#[test]
fn creations() {
    let pods = PodEvaluator::default();
    let table: [(&str, &[&str], &str); 24] = [
        // Raised are the names that the quota limits; equal is allowed.
        ("cpu=1", &["q | pods=5 | pods=1"], "q: pods=1"),
        (
            "cpu=1",
            &["q | cpu=2 pods=5 services=1 | cpu=1 pods=1"],
            "q: cpu=1,pods=1",
        ),
        (
            "cpu=1",
            &["q | pods=5 | pods=1", "r | cpu=1 | cpu=0"],
            "q: pods=1; r: cpu=1",
        ),
        // Names that are not raised are not compared.
        ("cpu=0", &["q | cpu=1 pods=2 | cpu=5 pods=1"], "q: pods=1"),
        // Nothing of what the quota limits is raised.
        (
            "cpu=1",
            &["q | limits.ephemeral-storage=1 | limits.ephemeral-storage=0"],
            "",
        ),
        // It does not fit.
        (
            "cpu=1",
            &["q | pods=1 | pods=1"],
            "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
        ),
        (
            "cpu=1500m memory=1Gi",
            &["q | cpu=2 memory=1Gi pods=5 | cpu=1 memory=512Mi pods=1"],
            "exceeded quota: q, requested: cpu=1500m,memory=1Gi, used: cpu=1,memory=512Mi, limited: cpu=2,memory=1Gi",
        ),
        (
            "cpu=1",
            &["q | pods=9 | pods=1", "r | pods=0 | pods=0", "s | pods=1 | pods=3"],
            "exceeded quota: r, requested: pods=1, used: pods=0, limited: pods=0",
        ),
        // Quotas that limit nothing of a pod, have no limits yet, or select others.
        ("cpu=1", &["q | services=0 | services=0"], ""),
        ("cpu=1", &["q"], ""),
        ("cpu=1", &["q | pods=0 | pods=0 | Terminating"], ""),
        ("cpu=1", &["q | pods=0 | pods=0 | Terminating & NotTerminating"], ""),
        (
            "cpu=1",
            &["q | pods=5 | pods=0 | NotTerminating & NotBestEffort"],
            "q: pods=1",
        ),
        // A quota that can't be evaluated refuses, be it of no interest otherwise.
        (
            "cpu=1",
            &["q | pods=5 | pods=0 | PriorityClass In"],
            "error matching scopes of quota q, err: scopeSelector for PriorityClass: operator In needs at least one value",
        ),
        (
            "cpu=1",
            &["q | | | Terminating & PriorityClass In"],
            "error matching scopes of quota q, err: scopeSelector for PriorityClass: operator In needs at least one value",
        ),
        ("cpu=1", &["q | pods=5 | pods=0 | VolumeAttributesClass In"], ""),
        // What must be said, then what must be known.
        (
            "cpu=1",
            &["q | memory=1Gi |"],
            "failed quota: q: must specify memory for: c",
        ),
        (
            "cpu=1",
            &["q | cpu=2 pods=5 services=1 | pods=1"],
            "status unknown for quota: q, resources: cpu,pods",
        ),
        ("cpu=1", &["q | pods=5"], "status unknown for quota: q, resources: pods"),
        ("cpu=1", &["q | pods=5 | | Terminating"], ""),
        // Less than nothing, under whatever quota.
        (
            "cpu=-1",
            &["q | pods=5 | pods=0"],
            "quota usage is negative for resource(s): cpu,requests.cpu",
        ),
        (
            "cpu=-1",
            &["q | services=0 | services=0"],
            "quota usage is negative for resource(s): cpu,requests.cpu",
        ),
        (
            "cpu=-1",
            &["q | memory=1Gi | memory=0"],
            "failed quota: q: must specify memory for: c",
        ),
        // Without a quota nothing is looked at.
        ("cpu=-1", &[], ""),
    ];
    for (requests, quotas, expected) in table {
        let mut asked = Asked::create(&pods, pod(requests));
        assert_eq!(asked.verdict(quotas), expected, "{requests} under {quotas:?}");
        // A dry run is judged the same and charges nothing.
        asked.dry_run = true;
        let expected = if expected.starts_with("q: ") { "" } else { expected };
        assert_eq!(asked.verdict(quotas), expected, "{requests} under {quotas:?}, dry run");
    }
}

#[test]
fn updates() {
    let pods = PodEvaluator::default();
    let cpu = "q | cpu=2 pods=9 | cpu=1 pods=1";
    let table: [(Option<Value>, Value, &[&str], &str); 12] = [
        // Growth is charged, and nothing else.
        (Some(stored(pod("cpu=1"))), pod("cpu=1500m"), &[cpu], "q: cpu=500m"),
        (Some(stored(pod("cpu=2"))), pod("cpu=1"), &[cpu], ""),
        (Some(stored(pod("cpu=1"))), pod("cpu=1"), &["q | cpu=0 | cpu=9"], ""),
        (
            Some(stored(pod("cpu=1"))),
            pod("cpu=2500m"),
            &[cpu],
            "exceeded quota: q, requested: cpu=1500m, used: cpu=1, limited: cpu=2",
        ),
        // What was never stored, or could not be counted, is charged in full.
        (Some(pod("cpu=1")), pod("cpu=1"), &[cpu], "q: cpu=1,pods=1"),
        (Some(stored(pod("cpu=x"))), pod("cpu=1"), &[cpu], "q: cpu=1,pods=1"),
        // The old object is needed, once quotas have been looked at.
        (
            None,
            pod("cpu=1"),
            &[cpu],
            "unable to get previous usage since prior version of object was not found",
        ),
        (
            None,
            pod("cpu=1"),
            &["q | services=1 | services=0"],
            "unable to get previous usage since prior version of object was not found",
        ),
        (
            None,
            pod("cpu=1"),
            &["q | pods=1 |"],
            "status unknown for quota: q, resources: pods",
        ),
        (None, pod("cpu=1"), &[], ""),
        // Two refusals that need no growth.
        (
            Some(stored(pod("cpu=1"))),
            pod("cpu=1"),
            &["q | memory=1Gi | memory=0"],
            "failed quota: q: must specify memory for: c",
        ),
        (
            Some(stored(pod("cpu=1"))),
            pod("cpu=1"),
            &["q | pods=1 |"],
            "status unknown for quota: q, resources: pods",
        ),
    ];
    for (old, new, quotas, expected) in table {
        let asked = Asked::update(&pods, "resize", old, new);
        assert_eq!(
            asked.verdict(quotas),
            expected,
            "{:?} to {} under {quotas:?}",
            asked.old,
            asked.new
        );
    }
}

#[test]
fn a_quota_that_did_not_count_the_object_before_gets_all_of_it() {
    let evaluator = PersistentVolumeClaimEvaluator::default();
    let asked = |old, new| Asked::update(&evaluator, "", Some(stored(old)), new);
    let gold = "gold | requests.storage=9 persistentvolumeclaims=9 | requests.storage=0 persistentvolumeclaims=0 | VolumeAttributesClass In gold";
    let all = "all | requests.storage=9 persistentvolumeclaims=9 | requests.storage=2 persistentvolumeclaims=1";
    let table = [
        (
            claim("2", "silver"),
            claim("3", "gold"),
            "gold: persistentvolumeclaims=1,requests.storage=3; all: requests.storage=1",
        ),
        (
            claim("3", "silver"),
            claim("3", "gold"),
            "gold: persistentvolumeclaims=1,requests.storage=3",
        ),
        (
            claim("2", "gold"),
            claim("3", "gold"),
            "gold: requests.storage=1; all: requests.storage=1",
        ),
        (claim("2", "gold"), claim("3", "silver"), "all: requests.storage=1"),
        (claim("3", "gold"), claim("3", "gold"), ""),
    ];
    for (old, new, expected) in table {
        assert_eq!(
            asked(old.clone(), new.clone()).verdict(&[gold, all]),
            expected,
            "{old} to {new}"
        );
    }
}

#[test]
fn a_status_is_charged_and_never_too_large() {
    let evaluator = PersistentVolumeClaimEvaluator::default();
    let mut asked = Asked::update(&evaluator, "status", Some(stored(claim("1", ""))), claim("3", ""));
    let (exceeded, unknown) = (
        "q | requests.storage=1 | requests.storage=1",
        "q | requests.storage=1 |",
    );
    assert_eq!(asked.verdict(&[exceeded]), "q: requests.storage=2");
    assert_eq!(
        asked.verdict(&[unknown]),
        "status unknown for quota: q, resources: requests.storage"
    );
    asked.subresource = "";
    assert_eq!(
        asked.verdict(&[exceeded]),
        "exceeded quota: q, requested: requests.storage=2, used: requests.storage=1, limited: requests.storage=1"
    );
}

#[test]
fn limited_resources() {
    let pods = PodEvaluator::default();
    let uncovered = "insufficient quota to consume: cpu,requests.cpu";
    let table: [(&str, &str, &[&str], &str); 13] = [
        ("cpu=1", "pods | cpu", &[], uncovered),
        ("cpu=1", "pods | nothing", &[], ""),
        (
            "cpu=1",
            "pods | nothing requests.c",
            &[],
            "insufficient quota to consume: requests.cpu",
        ),
        ("cpu=1", "pods | nothing; pods | cpu", &[], uncovered),
        // Of another kind; of nothing.
        ("cpu=1", "services | cpu", &[], ""),
        ("cpu=1", "pods.example.com | cpu", &[], ""),
        ("cpu=0", "pods | cpu", &[], ""),
        // Covered is what an interesting quota tracks.
        (
            "cpu=1",
            "pods | cpu",
            &["q | cpu=1 | cpu=0"],
            "insufficient quota to consume: requests.cpu",
        ),
        (
            "cpu=1",
            "pods | cpu",
            &["q | cpu=1 | cpu=0", "r | requests.cpu=1 | requests.cpu=0"],
            "q: cpu=1; r: requests.cpu=1",
        ),
        (
            "cpu=1",
            "pods | cpu",
            &["q | cpu=1 requests.cpu=1 | cpu=0 requests.cpu=0 | Terminating"],
            uncovered,
        ),
        ("cpu=1", "pods | cpu", &["q"], uncovered),
        // Before whether it fits.
        (
            "cpu=1",
            "pods | cpu",
            &["q | cpu=0 | cpu=0"],
            "insufficient quota to consume: requests.cpu",
        ),
        // Without a quota, too, nothing may be negative.
        (
            "cpu=-1",
            "pods | cpu",
            &[],
            "quota usage is negative for resource(s): cpu,requests.cpu",
        ),
    ];
    for (requests, limited, quotas, expected) in table {
        let asked = Asked {
            limited,
            ..Asked::create(&pods, pod(requests))
        };
        assert_eq!(
            asked.verdict(quotas),
            expected,
            "{requests} with {limited} under {quotas:?}"
        );
    }
    // Who raises nothing needs no cover; what is used already needs it as soon as anything is raised.
    for (old, expected) in [("cpu=1", ""), ("cpu=2", ""), ("cpu=500m", uncovered)] {
        let asked = Asked {
            limited: "pods | cpu",
            ..Asked::update(&pods, "resize", Some(stored(pod(old))), pod("cpu=1"))
        };
        assert_eq!(asked.verdict(&[]), expected, "from {old}");
    }
    // Of the verbs, only those that make or change an object are held to it without a quota.
    let evaluator = PersistentVolumeClaimEvaluator::default();
    for (operation, expected) in [
        (Operation::Update, "insufficient quota to consume: requests.storage"),
        (Operation::Connect, ""),
    ] {
        let asked = Asked {
            operation,
            limited: "persistentvolumeclaims | requests.storage",
            ..Asked::update(&evaluator, "status", Some(stored(claim("1", ""))), claim("3", ""))
        };
        assert_eq!(asked.verdict(&[]), expected, "{operation:?}");
    }
}

#[test]
fn limited_scopes() {
    let pods = PodEvaluator::default();
    let uncovered = "insufficient quota to match these scopes: [{PriorityClass In [hi]}]";
    let hi = "pods | | PriorityClass In hi";
    let table: [(&str, &str, &[&str], &str); 13] = [
        ("hi", hi, &[], uncovered),
        ("lo", hi, &[], ""),
        // They hold whatever the entry's kind.
        ("hi", "services | | PriorityClass In hi", &[], uncovered),
        // Covered by any selector of that scope that matches, be its quota of interest or not.
        ("hi", hi, &["q | pods=9 | pods=0 | PriorityClass In hi,lo"], "q: pods=1"),
        ("hi", hi, &["q | pods=9 | pods=0 | PriorityClass"], "q: pods=1"),
        ("hi", hi, &["q | services=0 | | PriorityClass"], ""),
        ("hi", hi, &["q | | | Terminating & PriorityClass"], ""),
        ("hi", hi, &["q | pods=9 | pods=0"], uncovered),
        ("hi", hi, &["q | pods=9 | pods=0 | NotTerminating"], uncovered),
        ("hi", hi, &["q | pods=9 | pods=0 | PriorityClass In lo"], uncovered),
        (
            "hi",
            "pods | | PriorityClass In hi & Terminating & NotTerminating; pods | | PriorityClass",
            &[],
            "insufficient quota to match these scopes: [{PriorityClass In [hi]} {NotTerminating Exists []} {PriorityClass Exists []}]",
        ),
        (
            "hi",
            "pods | | PriorityClass In hi & NotTerminating",
            &["q | pods=9 | pods=0 | PriorityClass"],
            "insufficient quota to match these scopes: [{NotTerminating Exists []}]",
        ),
        // Names come first.
        (
            "hi",
            "pods | count/ | PriorityClass In hi",
            &[],
            "insufficient quota to consume: count/pods",
        ),
    ];
    for (class, limited, quotas, expected) in table {
        let mut pod = pod("");
        pod["spec"]["priorityClassName"] = json!(class);
        let asked = Asked {
            limited,
            ..Asked::create(&pods, pod)
        };
        assert_eq!(
            asked.verdict(quotas),
            expected,
            "{class} with {limited} under {quotas:?}"
        );
    }
}

#[test]
fn wrong_limits() {
    let entry = |resource: &str, scopes: &[&str]| LimitedResource {
        kind: GroupResource::core(resource),
        match_contains: Vec::new(),
        match_scopes: scopes.iter().map(|text| requirement(text)).collect(),
    };
    let table = [
        (vec![], Ok(true)),
        (vec![entry("pods", &["PriorityClass"])], Ok(false)),
        (
            vec![entry("pods", &[]), entry("", &[])],
            Err("limitedResources[1].resource: is required"),
        ),
        (
            vec![entry("pods", &["Terminating", "PriorityClass In"])],
            Err(
                "limitedResources[0].matchScopes: scopeSelector for PriorityClass: operator In needs at least one value",
            ),
        ),
    ];
    for (entries, expected) in table {
        let result = LimitedResources::new(entries.clone()).map(|limits| {
            assert_eq!(limits.entries(), entries);
            limits.is_empty()
        });
        let result = result.map_err(|error| error.to_string());
        assert_eq!(result, expected.map_err(str::to_owned), "{entries:?}");
    }
}

#[test]
fn what_is_not_examined_or_can_not_be() {
    let quotas = ["q | count/secrets=1 pods=1 | count/secrets=1 pods=1"];
    let secrets = ObjectCountEvaluator::new(GroupResource::core("secrets"));
    let secret = || json!({"metadata": {"name": "s"}});
    assert_eq!(
        Asked::create(&secrets, secret()).verdict(&quotas),
        "exceeded quota: q, requested: count/secrets=1, used: count/secrets=1, limited: count/secrets=1"
    );
    assert_eq!(
        Asked::update(&secrets, "", None, secret()).verdict(&quotas),
        "unhandled"
    );
    let pods = PodEvaluator::default();
    let unreadable = "the object can't be counted: spec.containers[0].resources.requests[cpu]: ";
    let verdict = Asked::create(&pods, pod("cpu=x")).verdict(&quotas);
    assert!(verdict.starts_with(unreadable), "{verdict}");
    // Nor is it looked at where nothing is limited.
    assert_eq!(Asked::create(&pods, pod("cpu=x")).verdict(&[]), "");
    // Only requests that are handled can be refused for what is in them.
    let update = Asked::update(&pods, "", Some(stored(pod("cpu=x"))), pod("cpu=x"));
    assert_eq!(update.verdict(&quotas), "unhandled");
}

/// A quota may hold a value that can't be read: it still limits.
#[test]
fn limits_that_cannot_be_read_refuse() {
    let evaluator = PodEvaluator::default();
    for (hard, expected) in [
        (json!({"pods": "x"}), "status unknown for quota: q, resources: pods"),
        (
            json!({"pods": "x", "cpu": "1", "services": "y"}),
            "status unknown for quota: q, resources: cpu,pods",
        ),
        (json!({"services": "y"}), ""),
        (json!({"services": "y", "cpu": "2"}), "0: cpu=1"),
    ] {
        let used: serde_json::Map<_, _> = hard
            .as_object()
            .unwrap()
            .keys()
            .map(|name| (name.clone(), json!("0")))
            .collect();
        let view: QuotaView = serde_json::from_value(json!({"status": {"hard": hard, "used": used}})).unwrap();
        let metadata = Metadata {
            name: "q".to_owned(),
            ..Metadata::default()
        };
        let quota = view.quota(&metadata);
        let object = object(&evaluator, &pod("cpu=1"));
        let review = Review {
            operation: Operation::Create,
            subresource: "",
            namespace: "ns",
            name: "",
            object: &object,
            old: None,
            dry_run: false,
        };
        let context = Context {
            now: now(),
            lookups: &NoLookups,
        };
        let demand = Demand::of(&evaluator, &review, &context).unwrap();
        let verdict = match demand.judge(&[&quota], &LimitedResources::default()) {
            Ok(raises) => raises
                .iter()
                .map(|raise| format!("{}: {}", raise.quota, raise.by))
                .collect(),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(verdict, expected, "{hard}");
    }
}

/// In the namespace `ns` each claim belongs to a pod that is charged for a device of class `gpu`.
#[derive(Debug)]
struct Owned(ResourceList);

impl Lookups for Owned {
    fn has_device_class(&self, name: &str) -> bool {
        name == "gpu"
    }

    fn extended_resource(&self, _: &str) -> Option<&str> {
        None
    }

    fn is_extended_resource(&self, _: &str) -> bool {
        false
    }

    fn owner_usage(&self, claim: &Metadata) -> Option<&ResourceList> {
        (claim.namespace == "ns").then_some(&self.0)
    }
}

#[test]
fn an_object_that_says_no_namespace_is_in_that_of_the_request() {
    let implied = "requests.deviceclass.resource.kubernetes.io/gpu";
    let owned = Owned(list(&format!("{implied}=1")).unwrap());
    let evaluator = ResourceClaimEvaluator::default();
    let charged = format!("q: {implied}=1");
    for (own, namespace, expected) in [
        ("", "ns", ""),
        ("ns", "other", ""),
        ("ns", "", ""),
        ("", "", &*charged),
        ("other", "ns", &charged),
    ] {
        let asked = Asked {
            namespace,
            lookups: &owned,
            ..Asked::create(
                &evaluator,
                json!({
                    "metadata": {"name": "c", "namespace": own},
                    "spec": {"devices": {"requests": [
                        {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}},
                    ]}},
                }),
            )
        };
        let verdict = asked.verdict(&[&format!("q | {implied}=9 | {implied}=0")]);
        assert_eq!(verdict, expected, "{own:?} asked in {namespace:?}");
    }
}

#[test]
fn a_refusal_names_its_quota_where_it_is_one() {
    let (quota, error) = ("q".to_owned(), Selector::default());
    let table = [
        (
            Refusal::Constraint {
                quota: quota.clone(),
                reason: String::new(),
            },
            Some("q"),
        ),
        (
            Refusal::StatusUnknown {
                quota: quota.clone(),
                names: Vec::new(),
            },
            Some("q"),
        ),
        (
            Refusal::Exceeded {
                quota,
                requested: ResourceList::new(),
                used: ResourceList::new(),
                limited: ResourceList::new(),
            },
            Some("q"),
        ),
        (Refusal::Negative(Vec::new()), None),
        (Refusal::NoPriorVersion, None),
        (Refusal::Uncovered(Vec::new()), None),
        (Refusal::UncoveredScopes(error.requirements().to_vec()), None),
    ];
    for (refusal, expected) in table {
        assert_eq!(refusal.quota(), expected, "{refusal:?}");
    }
}

#[test]
fn messages() {
    let table = [
        (
            "pods",
            "r",
            json!({"name": "n", "generateName": "g-"}),
            "pods \"r\" is forbidden: ",
        ),
        (
            "pods",
            "",
            json!({"name": "n", "generateName": "g-"}),
            "pods \"n\" is forbidden: ",
        ),
        (
            "deployments.apps",
            "",
            json!({"generateName": "g-"}),
            "deployments.apps \"g-\" is forbidden: ",
        ),
        ("pods", "", json!({}), "pods \"Unknown\" is forbidden: "),
        // As Go quotes a text, whatever is in it.
        (
            "pods",
            "a\"\\\u{1}\u{7f}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{200b}\u{ad}\u{e0001}é世",
            json!({}),
            "pods \"a\\\"\\\\\\x01\\x7f\\a\\b\\t\\n\\v\\f\\r\\u200b\\u00ad\\U000e0001é世\" is forbidden: ",
        ),
    ];
    let refusal = Refusal::NoPriorVersion;
    for (kind, name, metadata, expected) in table {
        let object = object(&PodEvaluator::default(), &json!({"metadata": metadata}));
        let review = Review {
            operation: Operation::Create,
            subresource: "",
            namespace: "ns",
            name,
            object: &object,
            old: None,
            dry_run: false,
        };
        assert_eq!(
            review.message(&GroupResource::parse(kind), &refusal),
            format!("{expected}{refusal}")
        );
    }
}
