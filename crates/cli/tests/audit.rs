//! `kubequota audit` as a user runs it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Exit code, standard output, standard error.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn kubequota(args: &[&str], stdin: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubequota"))
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A run that reads no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A new folder with these files in it.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    for (file, text) in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn audit(paths: &[&Path]) -> Run {
    let paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    kubequota(
        &[&["audit", "--now", "2026-01-01T00:00:00Z", "-f"], &paths[..]].concat(),
        "",
    )
}

const QUOTA: &str =
    "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\nspec: {hard: {pods: 5, services: 2}}\n";
const RECORDED: &str = "status: {used: {pods: 1, services: 0}}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: team}\n";
const OTHER_POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: team}\n";

#[test]
fn examples_have_no_drift() {
    let run = kubequota(&["audit", "-f", "examples/"], "");
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(run.stdout);
}

#[test]
fn drift_exits_with_1() {
    let quota = format!("{QUOTA}{RECORDED}");
    let root = folder(
        "drift",
        &[("quota.yaml", &quota), ("pods.yaml", &format!("{POD}---\n{OTHER_POD}"))],
    );
    let run = audit(&[&root]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    insta::assert_snapshot!(run.stdout);
}

#[test]
fn json_and_yaml() {
    let text = format!("{QUOTA}{RECORDED}---\n{POD}---\n{OTHER_POD}---\nnothing\n");
    let json = kubequota(&["audit", "-o", "json", "-f", "-"], &text);
    assert_eq!(
        (json.code, json.stderr.as_str()),
        (Some(2), "stdin, document 4: this is text, not an object\n")
    );
    insta::assert_snapshot!("json", json.stdout);
    let yaml = kubequota(&["audit", "-o", "yaml", "-f", "-"], &text);
    assert_eq!(yaml.code, Some(2));
    insta::assert_snapshot!("yaml", yaml.stdout);
}

#[test]
fn bad_input_exits_with_2_and_the_rest_is_computed() {
    let quota = format!("{QUOTA}{RECORDED}");
    let root = folder(
        "bad",
        &[
            ("quota.yaml", &quota),
            ("pod.yaml", &format!("{POD}---\nkind: [\n---\n{OTHER_POD}")),
        ],
    );
    let run = audit(&[&root, &root.join("absent.yaml")]);
    assert_eq!(run.code, Some(2));
    assert!(
        run.stdout.contains("! pods       5      1          2          -1\n"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.ends_with("1 quota, 2 names: 1 drifted, 2 errors\n"),
        "{}",
        run.stdout
    );
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(
        lines[0].contains("pod.yaml, document 2: line 5, column 7: "),
        "{lines:?}"
    );
    assert!(lines[1].contains("absent.yaml: ") && lines.len() == 2, "{lines:?}");
}

#[test]
fn folders_and_files() {
    let quota = format!("{QUOTA}{RECORDED}");
    let files = [
        ("b/deep/quota.yml", &*quota),
        (
            "a.json",
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"team"}}"#,
        ),
        ("notes.txt", OTHER_POD),
    ];
    let root = folder("folders", &files);
    assert_eq!(audit(&[&root]).code, Some(0), "other files in folders are passed over");
    assert_eq!(
        audit(&[&root, &root.join("notes.txt")]).code,
        Some(1),
        "a named file is read whatever it is called"
    );
    assert_eq!(
        audit(&[&root, &root.join("a.json"), &root]).code,
        Some(0),
        "a file is read once"
    );
}

#[test]
fn standard_input() {
    let text = format!("{QUOTA}{RECORDED}---\n{POD}");
    let run = kubequota(&["audit", "-f", "-"], &text);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

/// A dump that failed must not pass as one without drift.
#[test]
fn no_quota_exits_with_2() {
    let root = folder(
        "no-quota",
        &[("empty/notes.txt", ""), ("empty.yaml", ""), ("pod.yaml", POD)],
    );
    let reason = "no ResourceQuota in the input: ";
    for path in ["empty", "empty.yaml", "pod.yaml"] {
        let run = audit(&[&root.join(path)]);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (Some(2), "0 quotas, 0 names: 1 error\n"),
            "{path}"
        );
        assert!(run.stderr.starts_with(reason), "{path}: {}", run.stderr);
    }
    for (format, errors) in [
        ("json", "\"errors\": [\n    {\n      \"reason\": \""),
        ("yaml", "errors:\n- reason: \""),
    ] {
        let run = kubequota(&["audit", "-o", format, "-f", "-"], "");
        assert_eq!(run.code, Some(2), "{format}");
        assert!(run.stderr.starts_with(reason), "{format}: {}", run.stderr);
        assert!(
            run.stdout.contains(&format!("{errors}{reason}")),
            "{format}: {}",
            run.stdout
        );
    }
}

#[test]
fn of_many_problems_the_first_are_told() {
    let text = |copies: usize| format!("{QUOTA}{RECORDED}") + &format!("---\n{POD}").repeat(copies + 1);
    let lines = |run: &Run| run.stderr.lines().map(str::to_owned).collect::<Vec<_>>();
    let few = kubequota(&["audit", "-f", "-"], &text(20));
    assert_eq!((few.code, lines(&few).len()), (Some(2), 20));
    let many = kubequota(&["audit", "-o", "json", "-f", "-"], &text(50));
    let lines = lines(&many);
    assert_eq!(
        (lines.len(), lines[20].as_str()),
        (21, "and 30 more (-o json and -o yaml list them all)")
    );
    assert_eq!(many.stdout.matches("\"reason\"").count(), 50);
}

/// They are one after the other what a user can type: they parse, and each file read was written by one before.
#[test]
fn examples_in_the_help() {
    let help = kubequota(&["audit", "--help"], "").stdout;
    let quota = format!("{QUOTA}{RECORDED}---\n{POD}");
    let mut files = vec!["-".to_owned()];
    let mut examples = 0;
    for line in help.split_once("Examples:").unwrap().1.lines() {
        if let Some((_, file)) = line.split_once(" > ") {
            assert!(!file.contains('/'), "the folder may not exist: {line}");
            files.push(file.to_owned());
        }
        let Some((_, command)) = line.split_once("kubequota audit ") else {
            continue;
        };
        let command = command.split(" |").next().unwrap();
        let args: Vec<&str> = command
            .split_whitespace()
            .map(|word| {
                if files.iter().any(|file| file == word) {
                    "-"
                } else {
                    word
                }
            })
            .collect();
        let run = kubequota(&[&["audit"], &args[..]].concat(), &quota);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{line}");
        examples += 1;
    }
    assert_eq!(examples, 4, "{help}");
}

#[test]
fn arguments() {
    let how = "write it as KIND.GROUP or RESOURCE.GROUP";
    let table: [(&[&str], i32, &str, &str); 10] = [
        (&["--version"], 0, concat!("kubequota ", env!("CARGO_PKG_VERSION")), ""),
        (&["audit", "--help"], 0, "Exit codes:", ""),
        (&["audit", "--frobnicate"], 2, "", "--frobnicate"),
        (&["audit"], 2, "", "--filename <PATH>..."),
        (
            &["audit", "-f", "examples", "--now", "yesterday"],
            2,
            "",
            "--now <TIME>",
        ),
        (&["audit", "-f", "examples", "-o", "xml"], 2, "", "table, json, yaml"),
        (&["audit", "-f", "examples", "--served", "foo"], 2, "", how),
        (&["audit", "-f", "examples", "--served", ""], 2, "", "--served"),
        (&["audit", "-f", "examples", "--served", ".x.io"], 2, "", how),
        (&["audit", "-f", "examples", "--served", "pods"], 0, "no drift", ""),
    ];
    for (args, code, stdout, stderr) in table {
        let run = kubequota(args, "");
        assert_eq!(run.code, Some(code), "{args:?}");
        assert!(
            run.stdout.contains(stdout) && run.stderr.contains(stderr),
            "{args:?}: {}{}",
            run.stdout,
            run.stderr
        );
    }
}

#[test]
fn nobody_reads_the_answer() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubequota"))
        .args(["audit", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child
        .stdin
        .take()
        .unwrap()
        .write_all(format!("{QUOTA}{RECORDED}---\n{POD}").as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}
