//! Tables: the columns that `kubectl get` shows of each kind. They are upstream's, or those of a CustomResourceDefinition.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::jsonpath::JsonPath;
use crate::kinds::Kind;
use crate::object::{is_deleting, meta};
use crate::request::RequestInfo;
use crate::status::Status;
use crate::store::Store;

const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

/// What a row says of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
}

/// Where the cells of a row come from.
enum Cells {
    BuiltIn(fn(&Value, Timestamp) -> Vec<Value>),
    Custom(Vec<JsonPath>),
}

/// Prints the objects of one kind.
pub(crate) struct Printer {
    columns: Vec<Column>,
    cells: Cells,
    include: Include,
}

impl Printer {
    /// The printer of a kind's version, for a request.
    pub(crate) fn new(store: &Store, kind: &Kind, request: &RequestInfo) -> Result<Self, Status> {
        let include = match request.parameter("includeObject").as_deref() {
            None | Some("" | "Metadata") => Include::Metadata,
            Some("None") => Include::Nothing,
            Some("Object") => Include::Object,
            Some(other) => {
                return Err(Status::bad_request(format!(
                    "unrecognized includeObject value: {other:?}"
                )));
            }
        };
        let (columns, cells) = if kind.custom {
            custom(store.definition(kind).map(AsRef::as_ref), &request.version)
        } else {
            let (columns, cells) = built_in(&kind.resource().to_string());
            (
                columns.iter().map(|text| Column::parse(text)).collect(),
                Cells::BuiltIn(cells),
            )
        };
        Ok(Self {
            columns,
            cells,
            include,
        })
    }

    /// The table of some objects; `metadata` is that of their list.
    pub(crate) fn table<'a>(
        &self,
        objects: impl Iterator<Item = &'a Value>,
        metadata: &Value,
        now: Timestamp,
        with_columns: bool,
    ) -> Value {
        let rows: Vec<Value> = objects.map(|object| self.row(object, now)).collect();
        let columns = with_columns.then(|| self.columns.iter().map(Column::to_json).collect::<Vec<_>>());
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    fn row(&self, object: &Value, now: Timestamp) -> Value {
        let cells = match &self.cells {
            Cells::BuiltIn(cells) => cells(object, now),
            Cells::Custom(paths) => {
                let name = std::iter::once(meta(object, "name").into());
                let others = paths.iter().zip(&self.columns[1..]);
                name.chain(others.map(|(path, column)| custom_cell(&column.kind, path.find(object), now)))
                    .collect()
            }
        };
        let mut row = Map::from_iter([("cells".to_owned(), cells.into())]);
        if object["kind"] == "Pod" && object["apiVersion"] == "v1" {
            let ended = match text(object, "/status/phase") {
                "Succeeded" => Some(("Succeeded", "The pod has completed successfully.")),
                "Failed" => Some(("Failed", "The pod failed.")),
                _ => None,
            };
            if let Some((reason, message)) = ended {
                let condition = json!({ "type": "Completed", "status": "True", "reason": reason, "message": message });
                row.insert("conditions".to_owned(), json!([condition]));
            }
        }
        let shown = match self.include {
            Include::Nothing => Value::Null,
            Include::Object => object.clone(),
            Include::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }),
        };
        row.insert("object".to_owned(), shown);
        row.into()
    }
}

impl Column {
    /// Reads `NAME[:TYPE][+]`; a plus keeps the column for `-o wide`.
    fn parse(text: &str) -> Self {
        let (text, priority) = text.strip_suffix('+').map_or((text, 0), |text| (text, 1));
        let (name, kind) = text.split_once(':').unwrap_or((text, "string"));
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: if name == "Name" {
                "name".to_owned()
            } else {
                String::new()
            },
            description: String::new(),
            priority,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// The columns of a custom kind: its name and what its definition adds, or else its age.
fn custom(definition: Option<&Value>, version: &str) -> (Vec<Column>, Cells) {
    let versions = definition.and_then(|definition| definition["spec"]["versions"].as_array());
    let version = versions.into_iter().flatten().find(|v| v["name"] == version);
    let age = json!([{ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }]);
    let added = version
        .map(|version| &version["additionalPrinterColumns"])
        .filter(|added| added.is_array());
    let (mut columns, mut paths) = (vec![Column::parse("Name")], Vec::new());
    for added in added.unwrap_or(&age).as_array().into_iter().flatten() {
        let field = |name: &str| added[name].as_str().unwrap_or_default().to_owned();
        let path = field("jsonPath");
        let description = match field("description") {
            empty if empty.is_empty() => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description,
        };
        columns.push(Column {
            name: field("name"),
            kind: field("type"),
            format: field("format"),
            description,
            priority: added["priority"].as_i64().unwrap_or(0),
        });
        paths.push(JsonPath::parse(&path));
    }
    (columns, Cells::Custom(paths))
}

fn custom_cell(kind: &str, value: Option<&Value>, now: Timestamp) -> Value {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Value::Null;
    };
    match (kind, value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => value.clone(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) if number.is_f64() => (number.as_f64().unwrap_or_default() as i64).into(),
        ("integer", Value::Number(_)) => value.clone(),
        ("date", Value::String(time)) => time.parse().map_or("<invalid>".into(), |time| since(time, now).into()),
        _ => Value::Null,
    }
}

type BuiltIn = (&'static [&'static str], fn(&Value, Timestamp) -> Vec<Value>);

fn built_in(resource: &str) -> BuiltIn {
    match resource {
        "pods" => (
            &[
                "Name",
                "Ready",
                "Status",
                "Restarts",
                "Age",
                "IP+",
                "Node+",
                "Nominated Node+",
                "Readiness Gates+",
            ],
            pod,
        ),
        "services" => (
            &[
                "Name",
                "Type",
                "Cluster-IP",
                "External-IP",
                "Port(s)",
                "Age",
                "Selector+",
            ],
            service,
        ),
        "persistentvolumeclaims" => (
            &[
                "Name",
                "Status",
                "Volume",
                "Capacity",
                "Access Modes",
                "StorageClass",
                "VolumeAttributesClass",
                "Age",
                "VolumeMode+",
            ],
            claim,
        ),
        "configmaps" => (&["Name", "Data", "Age"], |o, now| {
            let entries = count(o, "/data") + count(o, "/binaryData");
            vec![name(o), entries.into(), age(o, now)]
        }),
        "secrets" => (&["Name", "Type", "Data", "Age"], |o, now| {
            vec![name(o), text(o, "/type").into(), count(o, "/data").into(), age(o, now)]
        }),
        "resourcequotas" => (&["Name", "Request", "Limit", "Age"], quota),
        "namespaces" => (&["Name", "Status", "Age"], |o, now| {
            vec![name(o), text(o, "/status/phase").into(), age(o, now)]
        }),
        "endpoints" => (&["Name", "Endpoints", "Age"], |o, now| {
            vec![name(o), endpoints(o).into(), age(o, now)]
        }),
        "events" => (
            &[
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "Subobject+",
                "Source+",
                "Message",
                "First Seen+",
                "Count+",
                "Name+",
            ],
            event,
        ),
        "deployments.apps" => (
            &[
                "Name",
                "Ready",
                "Up-to-date",
                "Available",
                "Age",
                "Containers+",
                "Images+",
                "Selector+",
            ],
            |o, now| {
                let ready = format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas"));
                let mut cells = vec![name(o), ready.into()];
                cells.extend(
                    ["updatedReplicas", "availableReplicas"].map(|f| o["status"][f].as_i64().unwrap_or(0).into()),
                );
                cells.push(age(o, now));
                with_template(cells, o, Some(""))
            },
        ),
        "replicasets.apps" => (REPLICATED, |o, now| replicated(o, now, Some(NONE))),
        "replicationcontrollers" => (REPLICATED, |o, now| {
            let mut cells = replicated(o, now, None);
            cells.push(labels(&o["spec"]["selector"]).into());
            cells
        }),
        "statefulsets.apps" => (&["Name", "Ready", "Age", "Containers+", "Images+"], |o, now| {
            let ready = format!("{}/{}", number(o, "/status/readyReplicas"), number(o, "/spec/replicas"));
            with_template(vec![name(o), ready.into(), age(o, now)], o, None)
        }),
        "daemonsets.apps" => (
            &[
                "Name",
                "Desired:integer",
                "Current:integer",
                "Ready:integer",
                "Up-to-date:integer",
                "Available:integer",
                "Node Selector",
                "Age",
                "Containers+",
                "Images+",
                "Selector+",
            ],
            |o, now| {
                let fields = [
                    "desiredNumberScheduled",
                    "currentNumberScheduled",
                    "numberReady",
                    "updatedNumberScheduled",
                    "numberAvailable",
                ];
                let mut cells = vec![name(o)];
                cells.extend(fields.map(|field| o["status"][field].as_i64().unwrap_or(0).into()));
                cells.push(labels(&o["spec"]["template"]["spec"]["nodeSelector"]).into());
                cells.push(age(o, now));
                with_template(cells, o, Some(NONE))
            },
        ),
        "jobs.batch" => (
            &[
                "Name",
                "Status",
                "Completions",
                "Duration",
                "Age",
                "Containers+",
                "Images+",
                "Selector+",
            ],
            job,
        ),
        "cronjobs.batch" => (
            &[
                "Name",
                "Schedule",
                "Timezone",
                "Suspend:boolean",
                "Active:integer",
                "Last Schedule",
                "Age",
                "Containers+",
                "Images+",
                "Selector+",
            ],
            cron_job,
        ),
        "resourceclaims.resource.k8s.io" => (&["Name", "State", "Age"], |o, now| {
            vec![name(o), resource_claim_state(o).into(), age(o, now)]
        }),
        "leases.coordination.k8s.io" => (&["Name", "Holder", "Age"], |o, now| {
            vec![name(o), text(o, "/spec/holderIdentity").into(), age(o, now)]
        }),
        "ingresses.networking.k8s.io" => (&["Name", "Class", "Hosts", "Address", "Ports", "Age"], ingress),
        "priorityclasses.scheduling.k8s.io" => (
            &[
                "Name",
                "Value:integer",
                "Global-Default:boolean",
                "Age",
                "PreemptionPolicy",
            ],
            |o, now| {
                let default = o["globalDefault"].as_bool().unwrap_or(false);
                vec![
                    name(o),
                    number(o, "/value").into(),
                    default.into(),
                    age(o, now),
                    text(o, "/preemptionPolicy").into(),
                ]
            },
        ),
        "validatingwebhookconfigurations.admissionregistration.k8s.io" => (&["Name", "Webhooks", "Age"], |o, now| {
            let webhooks = o["webhooks"].as_array().map_or(0, Vec::len);
            vec![name(o), webhooks.into(), age(o, now)]
        }),
        "apiservices.apiregistration.k8s.io" => (&["Name", "Service", "Available", "Age"], |o, now| {
            let service = match &o["spec"]["service"] {
                Value::Object(service) => {
                    let part = |name: &str| service.get(name).and_then(Value::as_str).unwrap_or_default();
                    format!("{}/{}", part("namespace"), part("name"))
                }
                _ => "Local".to_owned(),
            };
            vec![
                name(o),
                service.into(),
                condition(o, "Available").unwrap_or("Unknown").into(),
                age(o, now),
            ]
        }),
        "serviceaccounts" | "resourceclaimtemplates.resource.k8s.io" | "deviceclasses.resource.k8s.io" => {
            (&["Name", "Age"], |o, now| vec![name(o), age(o, now)])
        }
        _ => (&["Name", "Created At:date"], |o, _| {
            vec![name(o), meta(o, "creationTimestamp").into()]
        }),
    }
}

const REPLICATED: &[&str] = &[
    "Name",
    "Desired:integer",
    "Current:integer",
    "Ready:integer",
    "Age",
    "Containers+",
    "Images+",
    "Selector+",
];

fn replicated(o: &Value, now: Timestamp, selector: Option<&str>) -> Vec<Value> {
    let fields = ["/spec/replicas", "/status/replicas", "/status/readyReplicas"];
    let mut cells = vec![name(o)];
    cells.extend(fields.map(|field| number(o, field).into()));
    cells.push(age(o, now));
    with_template(cells, o, selector)
}

/// Adds what the pods of a template run, and the selector, shown as given where it is empty.
fn with_template(mut cells: Vec<Value>, o: &Value, empty_selector: Option<&str>) -> Vec<Value> {
    cells.extend(containers(&o["spec"]["template"]["spec"]));
    if let Some(empty) = empty_selector {
        let selector = label_selector(&o["spec"]["selector"]);
        cells.push(if selector.is_empty() {
            empty.into()
        } else {
            selector.into()
        });
    }
    cells
}

/// Names and images of a pod's containers.
fn containers(spec: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let parts: Vec<&str> = items(spec, "/containers")
            .map(|c| c[field].as_str().unwrap_or_default())
            .collect();
        parts.join(",").into()
    })
}

fn pod(o: &Value, now: Timestamp) -> Vec<Value> {
    let init: Vec<&Value> = items(o, "/spec/initContainers").collect();
    let is_sidecar = |name: &Value| {
        init.iter()
            .any(|c| c["name"] == *name && c["restartPolicy"] == "Always")
    };
    let sidecars = init.iter().filter(|c| c["restartPolicy"] == "Always").count();
    let total = count(o, "/spec/containers") + sidecars as i64;
    let mut reason = text(o, "/status/phase").to_owned();
    if !text(o, "/status/reason").is_empty() {
        reason = text(o, "/status/reason").to_owned();
    }
    if items(o, "/status/conditions").any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".to_owned();
    }
    let (mut ready, mut initializing) = (0, false);
    let mut restarts = Restarts::default();
    let mut sidecar_restarts = Restarts::default();
    for (at, container) in items(o, "/status/initContainerStatuses").enumerate() {
        let sidecar = is_sidecar(&container["name"]);
        restarts.add(container);
        if sidecar {
            sidecar_restarts.add(container);
        }
        let terminated = &container["state"]["terminated"];
        if terminated["exitCode"] == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            ready += i64::from(container["ready"] == true);
            continue;
        }
        let waiting = text(container, "/state/waiting/reason");
        reason = if terminated.is_object() {
            format!("Init:{}", ended_because(terminated))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{at}/{}", init.len())
        };
        initializing = true;
        break;
    }
    if !initializing || condition(o, "Initialized") == Some("True") {
        restarts = sidecar_restarts;
        let (mut running, mut failed) = (false, None);
        for container in items(o, "/status/containerStatuses").rev() {
            restarts.add(container);
            let (waiting, terminated) = (
                text(container, "/state/waiting/reason"),
                &container["state"]["terminated"],
            );
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if terminated.is_object() {
                reason = ended_because(terminated);
                if terminated["exitCode"] != 0 {
                    failed = Some(reason.clone());
                }
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" {
            match failed {
                _ if running && condition(o, "Ready") == Some("True") => reason = "Running".to_owned(),
                Some(failed) => reason = failed,
                None if running => reason = "NotReady".to_owned(),
                None => {}
            }
        }
    }
    if is_deleting(o) {
        if text(o, "/status/reason") == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(text(o, "/status/phase"), "Succeeded" | "Failed") {
            reason = "Terminating".to_owned();
        }
    }
    let or_none = |value: &str| {
        if value.is_empty() {
            NONE.into()
        } else {
            Value::from(value)
        }
    };
    let gates: Vec<&Value> = items(o, "/spec/readinessGates").collect();
    let open = gates
        .iter()
        .filter(|g| condition(o, g["conditionType"].as_str().unwrap_or_default()) == Some("True"));
    let gates = match gates.len() {
        0 => NONE.to_owned(),
        all => format!("{}/{all}", open.count()),
    };
    vec![
        name(o),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.show(now).into(),
        age(o, now),
        or_none(text(o, "/status/podIPs/0/ip")),
        or_none(text(o, "/spec/nodeName")),
        or_none(text(o, "/status/nominatedNodeName")),
        gates.into(),
    ]
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container["restartCount"].as_i64().unwrap_or(0);
        let finished = text(container, "/lastState/terminated/finishedAt").parse().ok();
        self.last = self.last.max(finished);
    }

    fn show(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => format!("{} ({} ago)", self.count, since(last, now)),
            _ => self.count.to_string(),
        }
    }
}

fn ended_because(terminated: &Value) -> String {
    let (reason, signal) = (text(terminated, "/reason"), number(terminated, "/signal"));
    match (reason, signal) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn service(o: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = items(o, "/spec/ports")
        .map(|port| {
            let node_port = match number(port, "/nodePort") {
                0 => String::new(),
                node_port => format!(":{node_port}"),
            };
            format!("{}{node_port}/{}", number(port, "/port"), text(port, "/protocol"))
        })
        .collect();
    let kind = text(o, "/spec/type");
    let mut external: Vec<&str> = items(o, "/spec/externalIPs").filter_map(Value::as_str).collect();
    let balancers = load_balancers(o);
    if kind == "LoadBalancer" {
        external.splice(0..0, balancers.iter().map(String::as_str));
    }
    let external = match (kind, external.is_empty()) {
        ("ExternalName", _) => text(o, "/spec/externalName").to_owned(),
        ("ClusterIP" | "NodePort", true) => NONE.to_owned(),
        ("LoadBalancer", true) => "<pending>".to_owned(),
        ("ClusterIP" | "NodePort" | "LoadBalancer", false) => external.join(","),
        _ => "<unknown>".to_owned(),
    };
    let address = text(o, "/spec/clusterIPs/0");
    vec![
        name(o),
        kind.into(),
        if address.is_empty() {
            NONE.into()
        } else {
            address.into()
        },
        external.into(),
        if ports.is_empty() {
            NONE.into()
        } else {
            ports.join(",").into()
        },
        age(o, now),
        labels(&o["spec"]["selector"]).into(),
    ]
}

/// The addresses of load balancers, in order and once each.
fn load_balancers(o: &Value) -> Vec<String> {
    let shown = items(o, "/status/loadBalancer/ingress").map(|entry| match text(entry, "/ip") {
        "" => text(entry, "/hostname").to_owned(),
        ip => ip.to_owned(),
    });
    let mut shown: Vec<String> = shown.filter(|address| !address.is_empty()).collect();
    shown.sort();
    shown.dedup();
    shown
}

fn claim(o: &Value, now: Timestamp) -> Vec<Value> {
    let phase = if is_deleting(o) {
        "Terminating"
    } else {
        text(o, "/status/phase")
    };
    let volume = text(o, "/spec/volumeName");
    let (mut capacity, mut modes) = ("", String::new());
    if !volume.is_empty() {
        capacity = text(o, "/status/capacity/storage");
        let has = |mode: &str| items(o, "/status/accessModes").any(|m| m == mode);
        let known = [
            ("ReadWriteOnce", "RWO"),
            ("ReadOnlyMany", "ROX"),
            ("ReadWriteMany", "RWX"),
            ("ReadWriteOncePod", "RWOP"),
        ];
        let short: Vec<&str> = known
            .iter()
            .filter(|(mode, _)| has(mode))
            .map(|(_, short)| *short)
            .collect();
        modes = short.join(",");
    }
    let annotated = o["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    let class = annotated.unwrap_or(text(o, "/spec/storageClassName"));
    let or_unset = |value: &str| {
        if value.is_empty() {
            UNSET.into()
        } else {
            Value::from(value)
        }
    };
    vec![
        name(o),
        phase.into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class.into(),
        or_unset(text(o, "/spec/volumeAttributesClassName")),
        age(o, now),
        or_unset(text(o, "/spec/volumeMode")),
    ]
}

fn quota(o: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in o["status"]["hard"].as_object().into_iter().flatten() {
        let used = match &o["status"]["used"][resource] {
            Value::Null => "0".to_owned(),
            used => plain(used),
        };
        let shown = format!("{resource}: {used}/{}", plain(hard));
        if resource.starts_with("limits.") {
            limits.push(shown);
        } else {
            requests.push(shown);
        }
    }
    requests.sort();
    limits.sort();
    vec![
        name(o),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(o, now),
    ]
}

fn event(o: &Value, now: Timestamp) -> Vec<Value> {
    let first = match text(o, "/firstTimestamp") {
        "" => ago(text(o, "/eventTime"), now),
        first => ago(first, now),
    };
    let (mut last, mut times) = (ago(text(o, "/lastTimestamp"), now), number(o, "/count"));
    if text(o, "/lastTimestamp").is_empty() {
        last.clone_from(&first);
    }
    if o["series"].is_object() {
        last = ago(text(o, "/series/lastObservedTime"), now);
        times = number(o, "/series/count");
    } else if times == 0 {
        times = 1;
    }
    let kind = text(o, "/involvedObject/kind").to_lowercase();
    let target = match text(o, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |path: &str, other: &str| match text(o, path) {
        "" => text(o, other).to_owned(),
        found => found.to_owned(),
    };
    let source = [
        either("/source/component", "/reportingComponent"),
        either("/source/host", "/reportingInstance"),
    ];
    let source: Vec<String> = source.into_iter().filter(|part| !part.is_empty()).collect();
    vec![
        last.into(),
        text(o, "/type").into(),
        text(o, "/reason").into(),
        target.into(),
        text(o, "/involvedObject/fieldPath").into(),
        source.join(", ").into(),
        text(o, "/message").trim().into(),
        first.into(),
        times.into(),
        name(o),
    ]
}

fn endpoints(o: &Value) -> String {
    let mut all = Vec::new();
    for subset in items(o, "/subsets") {
        let addresses: Vec<&str> = items(subset, "/addresses")
            .map(|address| text(address, "/ip"))
            .collect();
        if count(subset, "/ports") == 0 {
            all.extend(addresses.iter().map(|&address| address.to_owned()));
        }
        for port in items(subset, "/ports") {
            all.extend(
                addresses
                    .iter()
                    .map(|address| format!("{address}:{}", number(port, "/port"))),
            );
        }
    }
    shortened(&all, NONE)
}

/// The first three of a list, and how many more there are.
fn shortened(all: &[String], empty: &str) -> String {
    match all.len() {
        0 => empty.to_owned(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}

fn job(o: &Value, now: Timestamp) -> Vec<Value> {
    let (succeeded, parallelism) = (number(o, "/status/succeeded"), number(o, "/spec/parallelism"));
    let completions = match o["spec"]["completions"].as_i64() {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let time = |field: &str| o["status"][field].as_str().and_then(|time| time.parse().ok());
    let duration = time("startTime").map_or(String::new(), |start| {
        since(start, time("completionTime").unwrap_or(now))
    });
    let has = |kind: &str| condition(o, kind) == Some("True");
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if is_deleting(o) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let cells = vec![name(o), status.into(), completions.into(), duration.into(), age(o, now)];
    with_template(cells, o, Some(NONE))
}

fn cron_job(o: &Value, now: Timestamp) -> Vec<Value> {
    let last = match text(o, "/status/lastScheduleTime") {
        "" => NONE.to_owned(),
        last => ago(last, now),
    };
    let zone = o["spec"]["timeZone"].as_str().unwrap_or(NONE);
    let suspend = match o["spec"]["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let mut cells = vec![
        name(o),
        text(o, "/spec/schedule").into(),
        zone.into(),
        suspend.into(),
        count(o, "/status/active").into(),
        last.into(),
        age(o, now),
    ];
    let job = &o["spec"]["jobTemplate"]["spec"];
    cells.extend(containers(&job["template"]["spec"]));
    let selector = label_selector(&job["selector"]);
    cells.push(if selector.is_empty() {
        NONE.into()
    } else {
        selector.into()
    });
    cells
}

fn ingress(o: &Value, now: Timestamp) -> Vec<Value> {
    let hosts = items(o, "/spec/rules").map(|rule| text(rule, "/host").to_owned());
    let hosts: Vec<String> = hosts.filter(|host| !host.is_empty()).collect();
    let ports = if count(o, "/spec/tls") == 0 { "80" } else { "80, 443" };
    vec![
        name(o),
        o["spec"]["ingressClassName"].as_str().unwrap_or(NONE).into(),
        shortened(&hosts, "*").into(),
        load_balancers(o).join(",").into(),
        ports.into(),
        age(o, now),
    ]
}

fn resource_claim_state(o: &Value) -> &'static str {
    let allocated = !o["status"]["allocation"].is_null();
    match (
        is_deleting(o),
        allocated,
        allocated && count(o, "/status/reservedFor") > 0,
    ) {
        (true, false, _) => "deleted",
        (false, false, _) => "pending",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
    }
}

fn name(o: &Value) -> Value {
    meta(o, "name").into()
}

fn age(o: &Value, now: Timestamp) -> Value {
    ago(meta(o, "creationTimestamp"), now).into()
}

fn ago(time: &str, now: Timestamp) -> String {
    time.parse().map_or("<unknown>".to_owned(), |time| since(time, now))
}

/// How long something lasted, as upstream's `HumanDuration` shows it.
fn since(from: Timestamp, now: Timestamp) -> String {
    let duration: SignedDuration = now.duration_since(from);
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match seconds.cmp(&0) {
        Ordering::Less if seconds < -1 => return "<invalid>".to_owned(),
        Ordering::Less => return "0s".to_owned(),
        _ => {}
    }
    match hours {
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        0..8 => two(hours, "h", minutes % 60, "m"),
        8..48 => format!("{hours}h"),
        48..192 => two(hours / 24, "d", hours % 24, "h"),
        192..17_520 => format!("{}d", hours / 24),
        17_520..70_080 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        _ => format!("{}y", hours / 24 / 365),
    }
}

fn text<'a>(o: &'a Value, path: &str) -> &'a str {
    o.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn number(o: &Value, path: &str) -> i64 {
    o.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

/// A value as it is shown: a text without its quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn count(o: &Value, path: &str) -> i64 {
    let length = match o.pointer(path) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    };
    length as i64
}

fn items<'a>(o: &'a Value, path: &str) -> impl DoubleEndedIterator<Item = &'a Value> + use<'a> {
    o.pointer(path)
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice)
        .iter()
}

fn condition<'a>(o: &'a Value, kind: &str) -> Option<&'a str> {
    items(o, "/status/conditions").find(|c| c["type"] == kind)?["status"].as_str()
}

/// `a=b,c=d`, or `<none>`.
fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let mut pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={}", plain(value))).collect();
    pairs.sort();
    if pairs.is_empty() {
        NONE.to_owned()
    } else {
        pairs.join(",")
    }
}

/// A label selector as text, empty where it selects everything.
fn label_selector(selector: &Value) -> String {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts: Vec<String> = equal.map(|(key, value)| format!("{key}={}", plain(value))).collect();
    for expression in items(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let values: Vec<&str> = items(expression, "/values").filter_map(Value::as_str).collect();
        parts.push(match text(expression, "/operator") {
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            operator => format!("{key} {} ({})", operator.to_lowercase(), values.join(",")),
        });
    }
    parts.sort();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T00:00:00Z".parse().unwrap()
    }

    fn row(resource: &str, object: &Value) -> Vec<Value> {
        let (columns, cells) = built_in(resource);
        let cells = cells(object, now());
        assert_eq!(columns.len(), cells.len(), "{resource}");
        cells
    }

    #[test]
    fn every_kind_has_a_cell_for_each_column() {
        for kind in crate::kinds::Kinds::built_in().all() {
            let cells = row(&kind.resource().to_string(), &json!({"metadata": {"name": "x"}}));
            assert!(cells.contains(&json!("x")), "{kind:?}");
        }
    }

    #[test]
    fn durations_are_upstreams() {
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 61, "3h1m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (8 * 86400, "8d"),
            (2 * 365 * 86400, "2y"),
            (2 * 365 * 86400 + 86400, "2y1d"),
            (9 * 365 * 86400, "9y"),
        ] {
            let from = now() - SignedDuration::from_secs(seconds);
            assert_eq!(since(from, now()), shown, "{seconds}");
        }
    }

    #[test]
    fn pods_show_what_they_do() {
        let status = |status: Value| {
            let pod = json!({
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
                "status": status,
            });
            let cells = row("pods", &pod);
            format!("{} {} {}", plain(&cells[1]), plain(&cells[2]), plain(&cells[3]))
        };
        for (given, shown) in [
            (json!({"phase": "Pending"}), "0/3 Pending 0"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "0/3 Evicted 0"),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
                "0/3 SchedulingGated 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 2, "state": {"running": {}}}]}),
                "0/3 Init:0/2 2",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3}}}]}),
                "0/3 Init:ExitCode:3 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "a", "ready": true, "state": {"running": {}}, "restartCount": 1, "lastState": {"terminated": {"finishedAt": "2026-01-01T23:59:00Z"}}},
                    {"name": "b", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 4}]}),
                "1/3 CrashLoopBackOff 5 (60s ago)",
            ),
            (
                json!({"phase": "Succeeded", "containerStatuses": [{"name": "a", "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}]}),
                "0/3 Completed 0",
            ),
        ] {
            assert_eq!(status(given.clone()), shown, "{given}");
        }
    }

    #[test]
    fn quotas_show_requests_and_limits() {
        let quota = json!({"metadata": {"name": "q"}, "status": {
            "hard": {"pods": "2", "limits.cpu": "4", "cpu": "1"},
            "used": {"pods": "1", "limits.cpu": "500m"},
        }});
        let cells = row("resourcequotas", &quota);
        assert_eq!(cells[1..3], [json!("cpu: 0/1, pods: 1/2"), json!("limits.cpu: 500m/4")]);
    }

    #[test]
    fn selectors_and_services_as_text() {
        let selector = json!({"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "c", "operator": "DoesNotExist"}]});
        assert_eq!(label_selector(&selector), "!c,a in (x,y),b=1");
        let service = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"],
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}]}});
        assert_eq!(
            row("services", &service)[3..5],
            [json!("<pending>"), json!("80:30001/TCP")]
        );
    }

    #[test]
    fn custom_columns_keep_their_types() {
        for (kind, value, shown) in [
            ("string", json!({"a": 1}), json!("{\"a\":1}")),
            ("string", json!(5), json!("5")),
            ("integer", json!(5.0), json!(5)),
            ("integer", json!("5"), Value::Null),
            ("boolean", json!(true), json!(true)),
            ("date", json!("2026-01-01T23:59:00Z"), json!("60s")),
            ("date", json!("yesterday"), json!("<invalid>")),
        ] {
            assert_eq!(custom_cell(kind, Some(&value), now()), shown, "{kind} {value}");
        }
    }
}
