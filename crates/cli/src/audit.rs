//! `kubequota audit`: do the recorded figures agree with the objects?

use std::process::ExitCode;

use comfy_table::{Attribute, Cell, Color, Table};
use jiff::Timestamp;
use kubequota_quantity::Quantity;
use kubequota_report::{Audit, Drift, Files, Problem, Resource, Served};
use kubequota_wire::files;

use crate::input::Input;
use crate::output::{self, Format, OutputError, Screen};

/// Before names, where the mark of wrong ones stands too.
const INDENT: &str = "  ";

const EXAMPLES: &str = "\
Examples:
  # A whole cluster, dumped before; JSON is read faster than YAML
  kubectl get all,pvc,quota,cm,secret -A -o json > cluster.json
  kubequota audit -f cluster.json

  # One namespace, straight from the cluster
  kubectl get all,pvc,quota,cm,secret -n team-a -o json | kubequota audit -f -

  # Only the names that have drifted: their figures differ, or nothing is recorded
  kubequota audit -f cluster.json -o json |
    jq '.quotas[].resources[] | select(.drift and (.drift != \"0\" or .recorded == null))'

  # There are no Widgets in the dump: they count as 0, not as unknown
  kubequota audit -f cluster.json --served Widget.example.com

Exit codes:
  0  what is recorded agrees with the objects
  1  some name has drifted
  2  some of the input can't be used (the rest is computed all the same), there is no quota in it, or the arguments are wrong

Custom resources:
  The resource name of a custom kind is taken from its CustomResourceDefinition, if that is among the files.
  Otherwise it is guessed, by Kubernetes' usual plural: Widget is widgets, Policy policies, Bus buses.";

/// Compare what quotas have recorded with what the objects in files come to.
///
/// For every quota found, each name of its spec.hard is shown with the limit, what its status records as used, what the objects given
/// come to by the rules of Kubernetes v1.37, and the drift: recorded less computed. The files must hold all objects of the quotas'
/// namespaces, or what is missing shows as drift.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples and exit codes: --help")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,

    /// How to print the answer.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,

    /// The time to judge pods by that are being deleted (RFC 3339); the system's by default.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,

    /// A kind that counts as served even without objects, like Widget.example.com or widgets.example.com. Built-in kinds, kinds
    /// with objects, and kinds whose CustomResourceDefinition is among the files count so anyway.
    #[arg(long, value_name = "KIND.GROUP")]
    served: Vec<Served>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<ExitCode, OutputError> {
    let mut objects = Files::new(args.now.unwrap_or_else(Timestamp::now), args.served.clone());
    args.input.read(|file| match file.bytes {
        Ok(bytes) => files::objects(&file.name, &bytes, &mut |found| objects.add(found)),
        Err(error) => objects.problem(Problem::with_file(file.name, error.to_string())),
    });
    let audit = objects.finish();
    output::write(args.output, &audit, || text(&audit, Screen::stdout()))?;
    output::complain(&audit.errors);
    Ok(ExitCode::from(if !audit.errors.is_empty() {
        output::BAD_INPUT
    } else if audit.has_drifted() {
        output::FOUND
    } else {
        0
    }))
}

/// A table, each quota under a heading, and a line that sums up.
pub(crate) fn text(audit: &Audit, screen: Screen) -> String {
    let mut whole = table(audit, screen, usize::MAX);
    if let Some(room) = screen.room(&whole) {
        whole = table(audit, screen, room);
    }
    let mut text = summary(audit);
    if !audit.quotas.is_empty() {
        text.insert_str(0, &format!("{}\n\n", whole.trim_fmt()));
    }
    text + "\n"
}

/// The table, with no more than `room` for the first column: longer names go on in the next line.
fn table(audit: &Audit, screen: Screen, room: usize) -> Table {
    let mut table = screen.table(["RESOURCE", "HARD", "RECORDED", "COMPUTED", "DRIFT"]);
    for quota in &audit.quotas {
        let heading = wrapped(&format!("{}/{}", quota.namespace, quota.name), room, "");
        table.add_row([Cell::new(heading).add_attribute(Attribute::Bold)]);
        for resource in &quota.resources {
            // Wrong rows are marked for those who see no colours, too.
            let mark = if resource.has_drifted() { '!' } else { ' ' };
            let figure = |figure: &Option<Quantity>| figure.as_ref().map_or("-".to_owned(), ToString::to_string);
            let cells = [
                wrapped(&format!("{mark} {}", resource.name), room, INDENT),
                resource.hard.to_string(),
                figure(&resource.recorded),
                figure(&resource.computed),
                drift(resource),
            ];
            table.add_row(cells.map(|cell| {
                let cell = Cell::new(cell);
                if resource.has_drifted() {
                    cell.fg(Color::Red).add_attribute(Attribute::Bold)
                } else {
                    cell
                }
            }));
        }
        // No quota stands there as if all were told.
        let missing = match (quota.left_out, quota.resources.len()) {
            (0, 0) => "(nothing in spec.hard)".to_owned(),
            (0, _) => continue,
            (count, _) => format!("({} left out: unreadable)", counted(count, "name")),
        };
        table.add_row([wrapped(&format!("{INDENT}{missing}"), room, INDENT)]);
    }
    table
}

/// In lines of no more than `room`, those after the first one indented.
fn wrapped(text: &str, room: usize, indent: &str) -> String {
    let mut lines = String::new();
    let mut left = room;
    for character in text.chars() {
        if left == 0 {
            lines.push('\n');
            lines.push_str(indent);
            left = room - indent.len();
        }
        lines.push(character);
        left -= 1;
    }
    lines
}

fn drift(resource: &Resource) -> String {
    match (resource.state(), &resource.drift) {
        (Drift::NotComputed, _) | (_, None) => "unknown".to_owned(),
        (Drift::NotRecorded, _) => "not recorded".to_owned(),
        (_, Some(drift)) if drift.signum() > 0 => format!("+{drift}"),
        (_, Some(drift)) => drift.to_string(),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `3 quotas, 14 names: 1 drifted, 2 not computed`
fn summary(audit: &Audit) -> String {
    let mut findings = Vec::new();
    let mut find = |count: usize, text: String| {
        if count > 0 {
            findings.push(text);
        }
    };
    let drifted = audit.resources().filter(|resource| resource.has_drifted()).count();
    let unknown = audit
        .resources()
        .filter(|resource| resource.state() == Drift::NotComputed)
        .count();
    find(drifted, format!("{drifted} drifted"));
    find(unknown, format!("{unknown} not computed"));
    find(audit.errors.len(), counted(audit.errors.len(), "error"));
    let findings = if findings.is_empty() {
        "no drift".to_owned()
    } else {
        findings.join(", ")
    };
    format!(
        "{}, {}: {findings}",
        counted(audit.quotas.len(), "quota"),
        counted(audit.resources().count(), "name")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Screen = Screen {
        colours: false,
        width: None,
    };

    fn audit(text: &str) -> Audit {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut objects = Files::new(now, Vec::new());
        files::objects("dump.yaml", text.as_bytes(), &mut |found| objects.add(found));
        objects.finish()
    }

    /// A quota with everything that can be found, and the pods for it.
    const MIXED: &str = r#"
apiVersion: v1
kind: ResourceQuota
metadata: {name: compute, namespace: team-a}
spec: {hard: {pods: 10, requests.cpu: "2", requests.memory: 4Gi, limits.cpu: 4, count/gadgets.example.com: 1, services: 5}}
status: {used: {pods: 3, requests.cpu: 750m, requests.memory: 1Gi, services: 0, count/gadgets.example.com: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: team-a}
spec: {containers: [{name: c, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: job, namespace: team-a}
spec: {containers: [{name: c, resources: {requests: {cpu: 0.5}}}]}
"#;

    #[test]
    fn table() {
        insta::assert_snapshot!(text(&audit(MIXED), PLAIN), @r"
        RESOURCE                      HARD   RECORDED   COMPUTED   DRIFT
        team-a/compute
          count/gadgets.example.com   1      1          -          unknown
        ! limits.cpu                  4      -          1          not recorded
        ! pods                        10     3          2          +1
        ! requests.cpu                2      750m       1          -250m
          requests.memory             4Gi    1Gi        1Gi        0
          services                    5      0          0          0

        1 quota, 6 names: 3 drifted, 1 not computed
        ");
    }

    #[test]
    fn nothing_found() {
        insta::assert_snapshot!(text(&audit(""), PLAIN), @"0 quotas, 0 names: 1 error");
        insta::assert_snapshot!(text(&audit("kind: x"), PLAIN), @"0 quotas, 0 names: 2 errors");
    }

    #[test]
    fn names_left_out() {
        let quota = |name: &str, hard: &str| {
            format!(
                "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: {name}}}\nspec: {{hard: {{{hard}}}}}\n---\n"
            )
        };
        let quotas = quota("a", "pods: many") + &quota("b", "pods: many, secrets: x, services: 1") + &quota("c", "");
        insta::assert_snapshot!(text(&audit(&quotas), PLAIN), @r"
        RESOURCE                           HARD   RECORDED   COMPUTED   DRIFT
        default/a
          (1 name left out: unreadable)
        default/b
        ! services                         1      -          0          not recorded
          (2 names left out: unreadable)
        default/c
          (nothing in spec.hard)

        3 quotas, 1 name: 1 drifted, 3 errors
        ");
    }

    #[test]
    fn narrow_terminal() {
        let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\nspec: {hard: {gold.storageclass.storage.k8s.io/persistentvolumeclaims: 10}}\n";
        let text = text(
            &audit(quota),
            Screen {
                colours: false,
                width: Some(80),
            },
        );
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        insta::assert_snapshot!(text, @r"
        RESOURCE                               HARD   RECORDED   COMPUTED   DRIFT
        team/q
        ! gold.storageclass.storage.k8s.io/p   10     -          0          not recorded
          ersistentvolumeclaims

        1 quota, 1 name: 1 drifted
        ");
    }

    #[test]
    fn colours_mark_wrong_rows_only() {
        let text = text(
            &audit(MIXED),
            Screen {
                colours: true,
                width: None,
            },
        );
        for line in text.lines() {
            assert_eq!(line.contains("\u{1b}[38;5;9m"), line.contains('!'), "{line:?}");
        }
    }
}
