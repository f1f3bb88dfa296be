//! What the demo shows, step by step. Each step does something and prints what the server then says; none knows a figure beforehand.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kubequota_cluster::ApiError;
use kubequota_quantity::Quantity;
use kubequota_report::Files;
use kubequota_testserver::{Action, Fault, WatchMode};
use kubequota_wire::files;
use serde_json::{Value, json};

use super::cluster::Demo;
use super::manifests;
use super::page::{Page, Style, WIDTH};
use super::{DemoError, manifests::FILES};
use crate::audit;
use crate::output::Screen;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/team-a/deployments/web";
const TEAM_A_PODS: &str = "/api/v1/namespaces/team-a/pods";
const WIDGETS: &str = "widgets.example.com";

/// So many pods the deployment is to have: more than its quota has room for.
const REPLICAS: usize = 6;

/// Tells all of it.
pub(super) async fn tell(demo: &Demo, page: &mut Page) -> Result<(), DemoError> {
    page.say(
        Style::Plain,
        0,
        &format!(
            "An API server at {}, without the built-in quota plugin, and kubequota, controller and admission webhook: all in this process.",
            demo.url()
        ),
    );
    let examples = manifests::objects()?;
    let (first, rest) = examples.into_iter().partition::<Vec<_>, _>(is_first);
    quotas_can_be_used(demo, page, &first).await?;
    they_fill(demo, page, &rest).await?;
    let refused = a_deployment_grows(demo, page).await?;
    a_deletion(demo, page).await?;
    a_pod_finishes(demo, page, &rest, refused).await?;
    a_kind_breaks(demo, page).await?;
    summary(demo, page).await
}

/// What must be there before the objects that quotas count.
fn is_first(object: &Value) -> bool {
    matches!(
        object["kind"].as_str(),
        Some("Namespace" | "CustomResourceDefinition" | "PriorityClass" | "ResourceQuota")
    )
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn millis(duration: Duration) -> String {
    match duration.as_millis() {
        0 => "less than 1 ms".to_owned(),
        millis @ 1..10_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

/// The figures of a list in a quota, by name.
fn figures(list: &Value) -> BTreeMap<String, Quantity> {
    let pairs = list.as_object().into_iter().flatten();
    pairs
        .filter_map(|(name, value)| Some((name.clone(), Quantity::parse(value.as_str()?).ok()?)))
        .collect()
}

impl Demo {
    async fn quotas(&self) -> Result<Vec<Value>, DemoError> {
        let list = self.get("/api/v1/resourcequotas").await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    async fn used(&self, namespace: &str, quota: &str) -> Result<BTreeMap<String, Quantity>, DemoError> {
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{quota}");
        Ok(figures(&self.get(&path).await?["status"]["used"]))
    }

    /// The URL at which the server asks about what quotas limit, as its configuration has it.
    async fn webhook(&self) -> Result<String, DemoError> {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kubequota";
        let configuration = self.get(path).await?;
        Ok(text(&configuration, "/webhooks/0/clientConfig/url").to_owned())
    }

    /// Waits until `used` of a quota is something else than `before`, and says what and how long that took.
    async fn until_changed(
        &self,
        namespace: &str,
        quota: &str,
        before: &BTreeMap<String, Quantity>,
    ) -> Result<(BTreeMap<String, Quantity>, Duration), DemoError> {
        let what = format!("the change of what {namespace}/{quota} records as used");
        self.until(&what, async |demo| {
            let used = demo.used(namespace, quota).await?;
            Ok((used != *before).then_some(used))
        })
        .await
    }
}

impl Page {
    /// The names whose figures differ.
    fn changes(&mut self, before: &BTreeMap<String, Quantity>, after: &BTreeMap<String, Quantity>) {
        for (name, new) in after {
            if let Some(old) = before.get(name).filter(|old| *old != new) {
                self.line(vec![
                    (Style::Plain, format!("  {name:<16} ")),
                    (Style::Good, format!("{old} -> {new}")),
                ]);
            }
        }
    }
}

async fn quotas_can_be_used(demo: &Demo, page: &mut Page, first: &[Value]) -> Result<(), DemoError> {
    page.heading("1. Two teams get their quotas");
    page.progress("applying namespaces, definitions and quotas");
    for object in first {
        demo.create(object).await?;
    }
    page.progress("waiting until every quota is counted and enforced");
    let ((quotas, names), took) = demo
        .until("that every quota can be used", async |demo| {
            let quotas = demo.quotas().await?;
            let (mut ready, mut names) = (true, 0);
            for quota in &quotas {
                let (hard, used) = (figures(&quota["spec"]["hard"]), figures(&quota["status"]["used"]));
                ready &= hard.keys().eq(used.keys());
                names += hard.len();
            }
            Ok((ready && !quotas.is_empty()).then_some((quotas.len(), names)))
        })
        .await?;
    page.say(
        Style::Plain,
        0,
        &format!(
            "{quotas} quotas over {names} names from {} files of examples/. All of them were counted and in force {} after the last was \
             made: kubequota has told the server to ask its webhook, {}, about what they limit.",
            FILES.len(),
            millis(took),
            demo.webhook().await?
        ),
    );
    Ok(())
}

async fn they_fill(demo: &Demo, page: &mut Page, objects: &[Value]) -> Result<(), DemoError> {
    page.heading("2. Their objects come, each of them admitted and charged before it is stored");
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    for object in objects {
        page.progress(&format!("creating {} {}", text(object, "/kind"), name(object)));
        demo.create(object).await?;
        *made.entry(text(object, "/kind")).or_default() += 1;
    }
    let made: Vec<String> = made.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    page.say(Style::Plain, 0, &format!("{}.", made.join(", ")));
    // What kubelets would say; of pods that have ended it comes later.
    for pod in objects.iter().filter(|object| object["kind"] == "Pod") {
        if text(pod, "/status/phase") == "Running" {
            demo.merge(&pod_status(pod), &json!({"status": pod["status"]})).await?;
        }
    }
    for quota in demo.quotas().await? {
        let title = format!("{}/{}", text(&quota, "/metadata/namespace"), name(&quota));
        page.say(Style::Heading, 0, &title);
        bars(page, &quota);
    }
    Ok(())
}

fn pod_status(pod: &Value) -> String {
    let namespace = text(pod, "/metadata/namespace");
    format!("/api/v1/namespaces/{namespace}/pods/{}/status", name(pod))
}

fn bars(page: &mut Page, quota: &Value) {
    let used = figures(&quota["status"]["used"]);
    for (name, hard) in figures(&quota["status"]["hard"]) {
        if let Some(used) = used.get(&name) {
            page.bar(&name, used, &hard);
        }
    }
}

async fn a_deployment_grows(demo: &Demo, page: &mut Page) -> Result<usize, DemoError> {
    page.heading("3. A deployment grows until its quota is full");
    let deployment = demo.merge(DEPLOYMENT, &json!({"spec": {"replicas": REPLICAS}})).await?;
    page.say(
        Style::Plain,
        0,
        &format!(
            "team-a's Deployment web now wants {} pods. No deployment controller runs here: the demo makes them itself, from its template.",
            deployment["spec"]["replicas"]
        ),
    );
    let (missing, refusal) = make_pods(demo, page, &deployment).await?;
    let Some(refusal) = refusal else {
        return Err(DemoError::Unexpected(
            "every pod was admitted, and the quota should have been too small".to_owned(),
        ));
    };
    page.say(Style::Bad, 0, &format!("Refused, {}:", refusal.0));
    page.say(Style::Bad, 2, &refusal.1);
    let path = "/api/v1/namespaces/team-a/resourcequotas/compute";
    bars(page, &demo.get(path).await?);
    Ok(missing)
}

/// Makes the pods that a deployment lacks, until one is refused; says how many are missing still, and the refusal: its code and text.
async fn make_pods(
    demo: &Demo,
    page: &mut Page,
    deployment: &Value,
) -> Result<(usize, Option<(String, String)>), DemoError> {
    let template = &deployment["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    metadata["generateName"] = format!("{}-", name(deployment)).into();
    metadata["namespace"] = deployment["metadata"]["namespace"].clone();
    metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": name(deployment),
        "uid": deployment["metadata"]["uid"], "controller": true}]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
    let listed = demo.get(&format!("{TEAM_A_PODS}?labelSelector=app%3Dweb")).await?;
    let there = listed["items"].as_array().map_or(0, Vec::len);
    let wanted = usize::try_from(deployment["spec"]["replicas"].as_u64().unwrap_or(0)).unwrap_or(0);
    for left in (1..=wanted.saturating_sub(there)).rev() {
        page.progress(&format!("{left} pods are missing"));
        let before = demo.used("team-a", "compute").await?;
        match demo.create(&pod).await {
            Ok(pod) => {
                let after = demo.used("team-a", "compute").await?;
                let (cpu, now) = (before.get("requests.cpu"), after.get("requests.cpu"));
                let shown = |cpu: Option<&Quantity>| cpu.map_or("?".to_owned(), ToString::to_string);
                page.line(vec![
                    (Style::Plain, format!("  {:<16} ", name(&pod))),
                    (Style::Good, "created".to_owned()),
                    (
                        Style::Plain,
                        format!("   requests.cpu {} -> {}", shown(cpu), shown(now)),
                    ),
                ]);
            }
            Err(DemoError::Api(ApiError::Status { status, .. })) if status.code == 403 => {
                let refusal = (format!("{} {}", status.code, status.reason), status.message.clone());
                return Ok((left, Some(refusal)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((0, None))
}

async fn a_deletion(demo: &Demo, page: &mut Page) -> Result<(), DemoError> {
    page.heading("4. A deletion gives its share back");
    let pods = demo.get(&format!("{TEAM_A_PODS}?labelSelector=app%3Dweb")).await?;
    let Some(pod) = pods["items"].as_array().and_then(|pods| pods.first()) else {
        return Err(DemoError::Unexpected("team-a has no pod of web to delete".to_owned()));
    };
    let before = demo.used("team-a", "compute").await?;
    demo.delete(&format!("{TEAM_A_PODS}/{}", name(pod))).await?;
    let (after, took) = demo.until_changed("team-a", "compute", &before).await?;
    page.say(
        Style::Plain,
        0,
        &format!(
            "Pod {} is deleted. {} after the server's answer, team-a/compute says:",
            name(pod),
            sentence(&millis(took))
        ),
    );
    page.changes(&before, &after);
    Ok(())
}

/// With a capital letter.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

async fn a_pod_finishes(demo: &Demo, page: &mut Page, examples: &[Value], refused: usize) -> Result<(), DemoError> {
    page.heading("5. A pod finishes, and the deployment goes on");
    let finished = |object: &&Value| object["kind"] == "Pod" && text(object, "/status/phase") == "Succeeded";
    let Some(pod) = examples.iter().find(finished) else {
        return Err(DemoError::Examples("no pod in them has finished".to_owned()));
    };
    let before = demo.used("team-a", "compute").await?;
    demo.merge(&pod_status(pod), &json!({"status": pod["status"]})).await?;
    let (after, took) = demo.until_changed("team-a", "compute", &before).await?;
    page.say(
        Style::Plain,
        0,
        &format!(
            "Pod {} is {}. {} later:",
            name(pod),
            text(pod, "/status/phase"),
            sentence(&millis(took))
        ),
    );
    page.changes(&before, &after);
    let deployment = demo.get(DEPLOYMENT).await?;
    page.say(
        Style::Plain,
        0,
        &format!("Now web gets what it lacked: {refused} refused before, and one for the pod that was deleted."),
    );
    match make_pods(demo, page, &deployment).await? {
        (0, None) => Ok(()),
        (_, refusal) => {
            let (code, text) = refusal.unwrap_or_default();
            Err(DemoError::Unexpected(format!(
                "a pod that should fit was refused: {code}: {text}"
            )))
        }
    }
}

async fn a_kind_breaks(demo: &Demo, page: &mut Page) -> Result<(), DemoError> {
    page.heading("6. A custom resource breaks, and harms nobody");
    let fault = demo
        .server
        .fault(Fault::new(Action::InternalError).verb("list").resource(WIDGETS));
    demo.server.set_watches(WIDGETS, WatchMode::Expired);
    page.progress("waiting until the controller notices");
    let (told, _) = demo
        .until("that the controller says what is broken", async |demo| {
            let report = demo.readiness.report().brief();
            Ok(report.lines().find(|line| line.contains(WIDGETS)).map(str::to_owned))
        })
        .await?;
    page.say(
        Style::Plain,
        0,
        &format!(
            "From now on every list of {WIDGETS} fails, as with a broken conversion webhook. The controller says:"
        ),
    );
    for line in shortened(&told, 4) {
        page.say(Style::Faint, 2, &line);
    }
    let count = format!("count/{WIDGETS}");
    let before = demo.used("team-b", "objects").await?;
    demo.delete("/apis/example.com/v1/namespaces/team-b/widgets/left")
        .await?;
    demo.delete("/api/v1/namespaces/team-b/secrets/registry").await?;
    let (after, took) = demo.until_changed("team-b", "objects", &before).await?;
    page.say(
        Style::Plain,
        0,
        &format!(
            "A widget and a secret are deleted. {} later team-b/objects says:",
            sentence(&millis(took))
        ),
    );
    page.changes(&before, &after);
    let (old, new) = (before.get(&count), after.get(&count));
    match (old, new) {
        (Some(old), Some(new)) if old == new => page.line(vec![
            (Style::Plain, format!("  {count:<25} ")),
            (
                Style::Faint,
                format!("stays {new} until its objects can be listed again"),
            ),
        ]),
        _ => {
            let why = format!("{count} should have kept its figure: {old:?} became {new:?}");
            return Err(DemoError::Unexpected(why));
        }
    }
    demo.server.clear_fault(fault);
    page.progress("the list works again; the controller tries it now and then");
    let (mended, took) = demo.until_changed("team-b", "objects", &after).await?;
    page.say(
        Style::Plain,
        0,
        &format!("It is mended. {} later:", sentence(&millis(took))),
    );
    page.changes(&after, &mended);
    Ok(())
}

/// The first so many lines.
fn shortened(text: &str, most: usize) -> Vec<String> {
    let mut lines = super::page::wrapped(text, WIDTH - 2);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            last.push_str(" ...");
        }
    }
    lines
}

/// All objects are read back and recounted, as `kubequota audit` does it.
async fn summary(demo: &Demo, page: &mut Page) -> Result<(), DemoError> {
    page.heading("7. In the end: all objects, read back and recounted by `kubequota audit`");
    page.progress("reading everything back");
    let mut objects = Files::new(Timestamp::now(), Vec::new());
    for path in [
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/api/v1/resourcequotas",
        "/api/v1/pods",
        "/api/v1/services",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/configmaps",
        "/api/v1/secrets",
        "/apis/apps/v1/deployments",
        "/apis/batch/v1/jobs",
        "/apis/batch/v1/cronjobs",
        "/apis/example.com/v1/widgets",
    ] {
        let list = demo.get(path).await?.to_string();
        files::objects(path, list.as_bytes(), &mut |found| objects.add(found));
    }
    let audit = objects.finish();
    let screen = Screen {
        colours: false,
        width: u16::try_from(WIDTH).ok(),
    };
    page.verbatim(&audit::text(&audit, screen));
    let (requests, writes) = demo.kubequotas_requests();
    page.say(
        Style::Faint,
        0,
        &format!("kubequota sent {requests} requests, {writes} of them writes of a quota's status."),
    );
    if audit.has_drifted() || !audit.errors.is_empty() {
        let problems: Vec<String> = audit.errors.iter().map(ToString::to_string).collect();
        let why = format!(
            "what is recorded does not agree with the objects {}",
            problems.join("; ")
        );
        return Err(DemoError::Unexpected(why));
    }
    Ok(())
}
