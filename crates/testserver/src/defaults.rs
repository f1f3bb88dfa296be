//! What the real server fills in when an object is written over the wire, for the kinds that quotas count.
//!
//! Tests that put objects in directly get them as they are. Nothing is made out of nothing: where an object has no `spec`, it gets none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubequota_core::Quantity;
use serde_json::{Map, Value, json};

use crate::object;

/// Fills in the defaults of a kind, named as errors name it: `pods`, `deployments.apps`.
pub(crate) fn apply(resource: &str, object: &mut Value) {
    for (path, value) in of_kind(resource) {
        fill(object, path, &value);
    }
    let template = match resource {
        "pods" => "/spec",
        "cronjobs.batch" => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    };
    if let Some(spec) = object
        .pointer_mut(template)
        .filter(|spec| spec["containers"].is_array())
    {
        default_pod_spec(spec, resource);
    }
    match resource {
        "pods" => default_pod(object),
        "secrets" => encode_string_data(object),
        "services" => default_service(object),
        "deployments.apps" if object["spec"]["strategy"]["type"] == "RollingUpdate" => {
            fill(object, "spec.strategy.rollingUpdate", &json!({}));
            fill(object, "spec.strategy.rollingUpdate.maxSurge", &json!("25%"));
            fill(object, "spec.strategy.rollingUpdate.maxUnavailable", &json!("25%"));
        }
        "persistentvolumeclaims" => canonicalize(object, &["/spec/resources/requests", "/spec/resources/limits"]),
        "resourcequotas" => canonicalize(object, &["/spec/hard", "/status/hard", "/status/used"]),
        "persistentvolumes" => canonicalize(object, &["/spec/capacity"]),
        "resourceclaims.resource.k8s.io" => default_devices(&mut object["spec"]),
        "resourceclaimtemplates.resource.k8s.io" => default_devices(&mut object["spec"]["spec"]),
        "customresourcedefinitions.apiextensions.k8s.io" => default_definition(object),
        _ => {}
    }
    drop_empty_metadata(object);
}

/// What kinds have in common: paths as in `spec.ports[].protocol`, and the value where there is none.
fn of_kind(resource: &str) -> Vec<(&'static str, Value)> {
    match resource {
        "namespaces" => vec![("spec", json!({})), ("spec.finalizers", json!(["kubernetes"]))],
        "resourcequotas" | "resourceclaims.resource.k8s.io" => vec![("status", json!({}))],
        "secrets" => vec![("type", json!("Opaque"))],
        "persistentvolumeclaims" => vec![("spec.volumeMode", json!("Filesystem"))],
        "persistentvolumes" => vec![
            ("spec.persistentVolumeReclaimPolicy", json!("Retain")),
            ("spec.volumeMode", json!("Filesystem")),
        ],
        "storageclasses.storage.k8s.io" => vec![
            ("reclaimPolicy", json!("Delete")),
            ("volumeBindingMode", json!("Immediate")),
        ],
        "services" => vec![
            ("spec.type", json!("ClusterIP")),
            ("spec.sessionAffinity", json!("None")),
            ("spec.internalTrafficPolicy", json!("Cluster")),
            ("spec.ipFamilies", json!(["IPv4"])),
            ("spec.ipFamilyPolicy", json!("SingleStack")),
            ("spec.ports[].protocol", json!("TCP")),
            ("status", json!({"loadBalancer": {}})),
        ],
        "deployments.apps" => vec![
            ("spec.replicas", json!(1)),
            ("spec.revisionHistoryLimit", json!(10)),
            ("spec.progressDeadlineSeconds", json!(600)),
            ("spec.strategy", json!({})),
            ("spec.strategy.type", json!("RollingUpdate")),
            ("status", json!({})),
        ],
        "validatingwebhookconfigurations.admissionregistration.k8s.io" => vec![
            ("webhooks[].failurePolicy", json!("Fail")),
            ("webhooks[].matchPolicy", json!("Equivalent")),
            ("webhooks[].namespaceSelector", json!({})),
            ("webhooks[].objectSelector", json!({})),
            ("webhooks[].timeoutSeconds", json!(10)),
            ("webhooks[].rules[].scope", json!("*")),
            ("webhooks[].clientConfig.service.port", json!(443)),
        ],
        "replicasets.apps" => vec![("spec.replicas", json!(1)), ("status", json!({"replicas": 0}))],
        _ => Vec::new(),
    }
}

fn fill(holder: &mut Value, path: &str, default: &Value) {
    match path.split_once('.') {
        None => {
            if let Some(fields) = holder.as_object_mut() {
                let field = fields.entry(path).or_insert(Value::Null);
                if field.is_null() {
                    *field = default.clone();
                }
            }
        }
        Some((head, rest)) => {
            let (name, list) = head.strip_suffix("[]").map_or((head, false), |name| (name, true));
            let Some(inner) = holder.get_mut(name) else { return };
            if list {
                for item in inner.as_array_mut().into_iter().flatten() {
                    fill(item, rest, default);
                }
            } else {
                fill(inner, rest, default);
            }
        }
    }
}

fn default_pod_spec(spec: &mut Value, resource: &str) {
    for (path, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
    ] {
        fill(spec, path, &value);
    }
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            let image = container["image"].as_str().unwrap_or_default();
            let tag = image
                .rsplit('/')
                .next()
                .and_then(|name| name.split_once(':'))
                .map(|(_, tag)| tag);
            let policy = if tag.is_none_or(|tag| tag == "latest") {
                "Always"
            } else {
                "IfNotPresent"
            };
            for (path, value) in [
                ("imagePullPolicy", json!(policy)),
                ("resources", json!({})),
                ("terminationMessagePath", json!("/dev/termination-log")),
                ("terminationMessagePolicy", json!("File")),
                ("ports[].protocol", json!("TCP")),
            ] {
                fill(container, path, &value);
            }
            canonicalize(container, &["/resources/requests", "/resources/limits"]);
            if let Some(fields) = container.as_object_mut() {
                fields.retain(|_, value| !value.as_array().is_some_and(Vec::is_empty));
            }
            if resource == "pods" {
                request_limits(container);
            }
        }
        // Indexing made it where it was missing.
        if spec[list].is_null() {
            object::set_top(spec, list, None);
        }
    }
}

/// What isn't requested but limited is requested up to its limit.
fn request_limits(container: &mut Value) {
    let Some(limits) = container
        .pointer("/resources/limits")
        .and_then(Value::as_object)
        .cloned()
    else {
        return;
    };
    for (name, limit) in limits {
        let missing = container["resources"]["requests"][&name].is_null();
        if missing {
            container["resources"]["requests"][&name] = limit;
        }
    }
}

fn default_pod(pod: &mut Value) {
    if !pod["spec"]["containers"].is_array() {
        return;
    }
    fill(pod, "spec.enableServiceLinks", &json!(true));
    if pod["spec"]["priorityClassName"].is_null() {
        fill(pod, "spec.priority", &json!(0));
        fill(pod, "spec.preemptionPolicy", &json!("PreemptLowerPriority"));
    }
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !tolerations
            .iter()
            .any(|toleration| toleration["key"] == key || toleration["key"].is_null())
        {
            tolerations
                .push(json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300}));
        }
    }
    object::set(pod, "spec", "tolerations", tolerations.into());
    if pod["status"]["qosClass"].is_null() {
        let class = quality_of_service(&pod["spec"]);
        object::set(pod, "status", "qosClass", class.into());
    }
}

fn quality_of_service(spec: &Value) -> &'static str {
    let lists = ["containers", "initContainers"];
    let containers: Vec<&Value> = lists
        .iter()
        .filter_map(|list| spec[list].as_array())
        .flatten()
        .collect();
    let amount = |container: &Value, list: &str, name: &str| container["resources"][list][name].clone();
    let guaranteed = containers.iter().all(|container| {
        ["cpu", "memory"].iter().all(|name| {
            let limit = amount(container, "limits", name);
            !limit.is_null() && limit == amount(container, "requests", name)
        })
    });
    let best_effort = containers.iter().all(|container| {
        ["requests", "limits"].iter().all(|list| {
            ["cpu", "memory"]
                .iter()
                .all(|name| amount(container, list, name).is_null())
        })
    });
    match (best_effort, guaranteed) {
        (true, _) => "BestEffort",
        (_, true) => "Guaranteed",
        _ => "Burstable",
    }
}

/// Quantities are stored in their canonical form. What is none is left for validation to refuse.
fn canonicalize(object: &mut Value, lists: &[&str]) {
    for list in lists {
        for value in object
            .pointer_mut(list)
            .and_then(Value::as_object_mut)
            .into_iter()
            .flat_map(Map::values_mut)
        {
            let text = match &*value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            if let Ok(quantity) = text.parse::<Quantity>() {
                *value = quantity.to_string().into();
            }
        }
    }
}

/// `stringData` is for writing only.
fn encode_string_data(secret: &mut Value) {
    let Some(texts) = secret["stringData"].as_object().cloned() else {
        object::set_top(secret, "stringData", None);
        return;
    };
    object::set_top(secret, "stringData", None);
    for (key, text) in texts {
        object::set(
            secret,
            "data",
            &key,
            base64(text.as_str().unwrap_or_default().as_bytes()).into(),
        );
    }
}

/// Bytes as JSON has them.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes that JSON has as text; none where the text is no base64.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

fn default_service(service: &mut Value) {
    if let Some(address) = service["spec"]["clusterIP"].as_str().map(str::to_owned) {
        fill(service, "spec.clusterIPs", &json!([address]));
    }
    let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        let number = port["port"].clone();
        // What Go leaves empty is 0 on the wire.
        if port["targetPort"] == 0 || port["targetPort"] == "" {
            object::set_top(port, "targetPort", None);
        }
        fill(port, "targetPort", &number);
    }
}

/// A request for devices is for one of them, unless it says otherwise.
fn default_devices(claim: &mut Value) {
    let requests = claim.pointer_mut("/devices/requests").and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            default_device_count(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(default_device_count);
    }
}

fn default_device_count(request: &mut Value) {
    const EXACT: &str = "ExactCount";
    if matches!(request["allocationMode"].as_str(), None | Some("")) {
        object::set_top(request, "allocationMode", Some(EXACT.into()));
    }
    if request["allocationMode"] == EXACT && matches!(request["count"].as_i64(), None | Some(0)) {
        object::set_top(request, "count", Some(1.into()));
    }
}

fn default_definition(definition: &mut Value) {
    fill(definition, "spec.conversion", &json!({"strategy": "None"}));
    let kind = definition["spec"]["names"]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if !kind.is_empty() {
        fill(definition, "spec.names.listKind", &json!(format!("{kind}List")));
        fill(definition, "spec.names.singular", &json!(kind.to_lowercase()));
    }
}

/// Empty maps and lists of metadata are as good as none.
fn drop_empty_metadata(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, value| {
            let may_be_empty = matches!(
                name.as_str(),
                "labels" | "annotations" | "finalizers" | "ownerReferences"
            );
            let empty = value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
            !(may_be_empty && (empty || value.is_null()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(resource: &str, mut object: Value) -> Value {
        apply(resource, &mut object);
        object
    }

    #[test]
    fn a_pod_gets_what_the_real_server_gives_it() {
        let container = |image: &str| json!({"name": "c", "image": image, "resources": {"limits": {"cpu": "0.5"}}});
        let pod = defaulted(
            "pods",
            json!({"spec": {"containers": [container("r:5000/c"), container("c:1")]}}),
        );
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "Always");
        assert_eq!(pod["spec"]["containers"][1]["imagePullPolicy"], "IfNotPresent");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m");
        assert_eq!(pod["status"]["qosClass"], "Burstable");
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
        assert!(pod["spec"].get("initContainers").is_none());
        assert_eq!(
            defaulted("pods", json!({})),
            json!({}),
            "nothing is made out of nothing"
        );
    }

    #[test]
    fn a_port_of_a_service_leads_to_itself() {
        let ports = json!([{"port": 1}, {"port": 2, "targetPort": 0}, {"port": 3, "targetPort": ""}, {"port": 4, "targetPort": "up"}]);
        let service = defaulted("services", json!({"spec": {"ports": ports}}));
        let targets: Vec<&Value> = service["spec"]["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|port| &port["targetPort"])
            .collect();
        assert_eq!(targets, [&json!(1), &json!(2), &json!(3), &json!("up")]);
    }

    #[test]
    fn a_deployment_rolls() {
        let rolls = |surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": "25%"}});
        for (given, expected) in [
            (Value::Null, rolls(json!("25%"))),
            (json!({}), rolls(json!("25%"))),
            (json!({"rollingUpdate": {"maxSurge": 1}}), rolls(json!(1))),
            (json!({"type": "Recreate"}), json!({"type": "Recreate"})),
        ] {
            let deployment = defaulted("deployments.apps", json!({"spec": {"strategy": given}}));
            assert_eq!(deployment["spec"]["strategy"], expected);
        }
    }

    #[test]
    fn given_values_stay() {
        let pod =
            json!({"spec": {"restartPolicy": "Never", "containers": [], "tolerations": [{"operator": "Exists"}]}});
        let pod = defaulted("pods", pod);
        assert_eq!(pod["spec"]["restartPolicy"], "Never");
        assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn requests_for_devices_are_for_one() {
        let given = json!({"allocationMode": "ExactCount", "count": 3});
        let all = json!({"allocationMode": "All"});
        let one = json!({"allocationMode": "ExactCount", "count": 1});
        let requests =
            json!([{"exactly": {}}, {"exactly": given}, {"firstAvailable": [all, {"count": 0}]}, {"name": "n"}]);
        let expected = json!([{"exactly": one}, {"exactly": given}, {"firstAvailable": [all, one]}, {"name": "n"}]);
        let of = |requests: &Value| json!({"spec": {"devices": {"requests": requests}}});
        let claim = defaulted("resourceclaims.resource.k8s.io", of(&requests));
        assert_eq!(claim["spec"], of(&expected)["spec"]);
        let template = defaulted("resourceclaimtemplates.resource.k8s.io", json!({"spec": of(&requests)}));
        assert_eq!(template["spec"], of(&expected));
    }

    #[test]
    fn texts_are_encoded_and_quantities_canonical() {
        let secret = defaulted("secrets", json!({"stringData": {"a": "b", "c": "abc", "d": "ab"}}));
        assert_eq!(
            secret,
            json!({"type": "Opaque", "data": {"a": "Yg==", "c": "YWJj", "d": "YWI="}})
        );
        let quota = defaulted(
            "resourcequotas",
            json!({"spec": {"hard": {"cpu": 2, "memory": "1024Mi", "x": "many"}}}),
        );
        assert_eq!(quota["spec"]["hard"], json!({"cpu": "2", "memory": "1Gi", "x": "many"}));
    }

    #[test]
    fn base64_is_read_as_it_is_written() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\xff\x00\xfe\x01"] {
            assert_eq!(from_base64(&base64(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!(from_base64("a?"), None);
    }

    #[test]
    fn empty_metadata_goes() {
        let object = defaulted(
            "configmaps",
            json!({"metadata": {"name": "c", "labels": {}, "finalizers": []}}),
        );
        assert_eq!(object, json!({"metadata": {"name": "c"}}));
    }
}
