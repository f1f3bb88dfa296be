use std::sync::atomic::{AtomicUsize, Ordering};

use http::Response;
use kubequota_core::Object;
use kubequota_core::evaluators::ViewKind;
use kubequota_core::inventory::DeviceClassView;
use kubequota_testserver::{Action, Fault, Kind, Status, TestServer, WatchMode};
use kubequota_wire::json::{MetadataOnly, Plain, Quotas};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::testing::{cluster, pod, pods, quota, stub_of};

/// A monitor of which every update is taken as a line of text.
struct Run {
    handle: MonitorHandle,
    updates: mpsc::Receiver<Update<Object>>,
}

impl Run {
    fn start(cluster: Cluster, versions: &Versions) -> Self {
        let options = MonitorOptions {
            page_size: 2,
            seed: Some(1),
            ..MonitorOptions::default()
        };
        // Room for one update: the monitor never runs ahead of the test.
        let (sender, updates) = mpsc::channel(1);
        Run {
            handle: Monitor::new(cluster, versions, None, ViewKind::Pod, options).spawn(sender),
            updates,
        }
    }

    fn pods(server: &TestServer) -> Self {
        Run::start(cluster(server), &pods().into())
    }

    async fn next(&mut self) -> String {
        let update = timeout(Duration::from_secs(7200), self.updates.recv())
            .await
            .expect("an update")
            .unwrap();
        match update {
            Update::ListBegan(listed) => format!("began {}", listed.revision),
            Update::Page(_, objects) => {
                let names: Vec<String> = objects.into_iter().map(|object| object.metadata.name).collect();
                format!("page {}", names.join(" "))
            }
            Update::ListEnded(listed) => format!("ended {}", listed.revision),
            Update::Applied(object) => format!("applied {}", object.metadata.name),
            Update::Deleted(object) => format!("deleted {}", object.metadata.name),
            Update::Bookmark(revision) => format!("bookmark {revision}"),
            Update::Failed(Failure { error, lost, .. }) => {
                format!("failed{}: {error}", if lost { ", lost" } else { "" })
            }
            Update::Recovered => "recovered".to_owned(),
        }
    }

    /// What comes up to the next line that begins so, bookmarks left out.
    async fn until(&mut self, beginning: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.next().await;
            let found = line.starts_with(beginning);
            if found || !line.starts_with("bookmark") {
                lines.push(line);
            }
            if found {
                return lines;
            }
        }
    }

    /// Takes what comes for so long, bookmarks left out.
    async fn during(&mut self, duration: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        let _ = timeout(duration, async {
            loop {
                lines.push(self.next().await);
            }
        })
        .await;
        lines.retain(|line| !line.starts_with("bookmark"));
        lines
    }
}

fn server() -> TestServer {
    let server = TestServer::new();
    for name in ["p", "q", "r"] {
        server.create(pod("a", name)).unwrap();
    }
    server
}

/// A monitor that has listed the three pods of [`server`].
async fn synced(server: &TestServer) -> Run {
    let mut run = Run::pods(server);
    let revision = server.revision();
    let expected = [
        format!("began {revision}"),
        "page p q".to_owned(),
        "page r".to_owned(),
        format!("ended {revision}"),
    ];
    assert_eq!(run.until("ended").await, expected);
    // Lets the watch begin.
    run.until("bookmark").await;
    run
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn one_list_then_watches_for_ever() {
    let server = server();
    let mut run = synced(&server).await;
    server.delete("pods", "a", "q").unwrap();
    assert_eq!(run.next().await, "deleted q");
    assert_eq!(run.during(60 * MINUTE).await, [""; 0]);
    server.create(pod("a", "s")).unwrap();
    assert_eq!(run.until("applied").await, ["applied s"]);

    assert_eq!(server.request_count("list", "pods"), 2, "two pages of one list");
    let watches: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.verb == "watch")
        .collect();
    assert!((6..=13).contains(&watches.len()), "{}", watches.len());
    for watch in &watches {
        let seconds: u64 = watch.parameter("timeoutSeconds").unwrap().parse().unwrap();
        assert!((300..=600).contains(&seconds), "{seconds}");
    }
    let last = watches.last().unwrap().parameter("resourceVersion").unwrap();
    assert_eq!(
        last,
        (server.revision() - 1).to_string(),
        "taken up where the last one ended"
    );
    let status = run.handle.status();
    assert!(status.synced && status.failure.is_none() && status.state == MonitorState::Watching);
    assert_eq!(
        (status.lists, status.watches as usize, status.to_string().as_str()),
        (1, watches.len(), "pods: ok")
    );
}

#[tokio::test(start_paused = true)]
async fn watches_that_break_or_fall_silent_are_taken_up_without_a_list() {
    let server = server();
    let mut run = synced(&server).await;
    for (name, mode) in [
        ("s", WatchMode::Dropped),
        ("t", WatchMode::Ended),
        ("u", WatchMode::Silent),
    ] {
        server.set_watches("pods", mode);
        server.create(pod("a", name)).unwrap();
        assert_eq!(run.until("applied").await, [format!("applied {name}")]);
    }
    assert_eq!(server.request_count("list", "pods"), 2);
    assert_eq!(server.request_count("watch", "pods"), 4);
}

#[tokio::test(start_paused = true)]
async fn watches_that_stay_silent_lead_to_a_list() {
    let server = server();
    let mut run = synced(&server).await;
    server.set_watches("pods", WatchMode::Silent);
    server.fault(Fault::new(Action::SilentWatch).verb("watch").first(2));
    server.create(pod("a", "s")).unwrap();
    assert_eq!(run.until("ended").await[1..3], ["page p q", "page r s"]);
    assert_eq!(run.handle.status().lists, 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_revision_leads_to_a_list_and_is_no_failure() {
    let server = server();
    let mut run = synced(&server).await;
    let start = Instant::now();
    server.set_watches("pods", WatchMode::Expired);
    server.create(pod("a", "s")).unwrap();
    assert_eq!(run.until("ended").await[1..3], ["page p q", "page r s"]);
    assert_eq!(start.elapsed(), Duration::ZERO);
    server.create(pod("a", "t")).unwrap();
    assert_eq!(run.until("applied").await, ["applied t"]);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_always_expired_is_told_in_the_end() {
    let server = server();
    server.fault(Fault::new(Action::Expired).verb("watch"));
    let mut run = Run::pods(&server);
    let lines = run.until("failed").await;
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("ended")).count(),
        3,
        "{lines:?}"
    );
    assert!(
        lines
            .last()
            .unwrap()
            .starts_with("failed, lost: could not watch pods: 410 Expired"),
        "{lines:?}"
    );
    server.clear_faults();
    run.until("recovered").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_rest_expires_is_begun_again_and_a_slow_sink_slows_it() {
    let server = server();
    for name in ["s", "t"] {
        server.create(pod("a", name)).unwrap();
    }
    let mut run = Run::pods(&server);
    assert_eq!(run.next().await, format!("began {}", server.revision()));
    // The third page is asked for when there is room for the second.
    tokio::time::sleep(MINUTE).await;
    assert_eq!(server.request_count("list", "pods"), 2);
    server.delete("pods", "a", "p").unwrap();
    server.compact();
    let revision = server.revision();
    let expected = [
        "page p q".to_owned(),
        "page r s".to_owned(),
        format!("began {revision}"),
        "page q r".to_owned(),
        "page s t".to_owned(),
        format!("ended {revision}"),
    ];
    assert_eq!(run.until("ended").await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_told_once_and_tried_again_for_ever() {
    let server = server();
    let fault = server.fault(Fault::new(Action::InternalError).verb("list"));
    let mut run = Run::pods(&server);
    assert_eq!(
        run.next().await,
        "failed, lost: could not list pods: 500 InternalError: Internal error occurred: scripted fault"
    );
    let status = run.handle.status();
    assert!(!status.synced && status.state == MonitorState::BackingOff);
    assert_eq!(run.during(30 * MINUTE).await, [""; 0], "once");
    let tries = server.request_count("list", "pods");
    // 0.8, 1.6, 3.2, ..., 30 seconds, each up to twice as long.
    assert!((35..=65).contains(&tries), "{tries}");

    server.clear_fault(fault);
    server.fault(Fault::new(Action::Unavailable).verb("list").once());
    assert!(
        run.next().await.starts_with("failed, lost: could not list pods: 503"),
        "another failure is news"
    );
    assert!(run.until("ended").await.len() == 4);
    assert_eq!(run.next().await, "recovered");
    assert!(run.handle.status().failure.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_a_while_needs_no_list() {
    let server = server();
    let mut run = synced(&server).await;
    server.down();
    assert!(
        run.next()
            .await
            .starts_with("failed: could not watch pods: no answer from the server")
    );
    assert_eq!(run.during(10 * MINUTE).await, [""; 0]);
    server.up();
    server.create(pod("a", "s")).unwrap();
    assert_eq!(run.until("applied").await, ["recovered", "applied s"]);
    assert_eq!(server.request_count("list", "pods"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_without_its_history_is_listed_at_once() {
    let server = server();
    let mut run = synced(&server).await;
    server.down();
    run.until("failed").await;
    run.during(10 * MINUTE).await;
    server.fault(Fault::new(Action::Expired).verb("watch").once());
    server.up();
    // The wait that was on when it came back has to end, and there is none after it.
    let watches = server.request_count("watch", "pods");
    while server.request_count("watch", "pods") == watches {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let start = Instant::now();
    assert_eq!(run.until("ended").await.len(), 4);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_no_watch_is_listed_again() {
    let server = server();
    server.fault(Fault::new(Action::Unavailable).verb("watch").first(4));
    let mut run = Run::pods(&server);
    let lines = run.until("recovered").await;
    let failed: Vec<_> = lines.iter().filter(|line| line.starts_with("failed")).collect();
    assert_eq!(failed.len(), 2, "not lost at first, then lost: {failed:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("ended")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_named_once_and_asked_for_slowly() {
    for (verb, beginning) in [
        ("list", "failed, lost: may not list pods: grant verb list"),
        ("watch", "failed: may not watch pods: grant verb watch"),
    ] {
        let server = server();
        let fault = server.fault(Fault::new(Action::Forbidden).verb(verb));
        let mut run = Run::pods(&server);
        let lines = run.until("failed").await;
        assert!(lines.last().unwrap().starts_with(beginning), "{lines:?}");
        assert_eq!(run.during(60 * MINUTE).await, [""; 0], "once");
        let tries = server.request_count(verb, "pods");
        assert!((30..=65).contains(&tries), "{tries}");
        server.clear_fault(fault);
        let start = Instant::now();
        run.until("recovered").await;
        assert!(start.elapsed() <= 2 * MINUTE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_is_left_alone_as_long_as_it_wants() {
    let server = server();
    server.fault(Fault::new(Action::TooManyRequests(45)).verb("list").once());
    let start = Instant::now();
    let mut run = Run::pods(&server);
    assert!(
        run.next()
            .await
            .starts_with("failed, lost: could not list pods: the server has too much to do")
    );
    run.until("ended").await;
    assert_eq!(start.elapsed().as_secs(), 45);
}

fn widgets() -> (TestServer, Versions) {
    let server = TestServer::new();
    server.add_kind(Kind::new("example.com", "v2", "Widget", "widgets").version("v1"));
    for name in ["p", "q"] {
        let metadata = json!({"namespace": "a", "name": name});
        server
            .create(json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": metadata}))
            .unwrap();
    }
    let at = |version| ApiResource::new("example.com", version, "widgets", "Widget", true);
    (
        server,
        Versions {
            preferred: at("v2"),
            others: vec![at("v1")],
        },
    )
}

#[tokio::test(start_paused = true)]
async fn a_version_that_breaks_is_replaced_by_another() {
    for action in [Action::InternalError, Action::NotFound] {
        let (server, versions) = widgets();
        let broken = |version| {
            Fault::new(action.clone())
                .resource("widgets.example.com")
                .version(version)
        };
        let v2 = server.fault(broken("v2"));
        let mut run = Run::start(cluster(&server), &versions);
        assert_eq!(run.until("ended").await.len(), 3, "no failure");
        run.until("bookmark").await;
        assert_eq!(run.handle.status().version.to_string(), "widgets.v1.example.com");
        assert_eq!(server.watches()[0].version, "v1");

        // It stays at that version until that breaks.
        server.clear_fault(v2);
        server.set_watches("widgets.example.com", WatchMode::Expired);
        run.until("ended").await;
        assert_eq!(run.handle.status().version.to_string(), "widgets.v1.example.com");
        server.fault(broken("v1"));
        server.set_watches("widgets.example.com", WatchMode::Expired);
        run.until("ended").await;
        assert_eq!(run.handle.status().version.to_string(), "widgets.v2.example.com");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_can_not_read_any_more_is_replaced() {
    let (server, versions) = widgets();
    let mut run = Run::start(cluster(&server), &versions);
    run.until("bookmark").await;
    // As kube-apiserver does where it has started anew and a conversion fails: a watch of its cache, and a list of what is stored.
    let message = "storage is (re)initializing: failed to read one or more widgets from the storage";
    let initializing = Status::new(429, "TooManyRequests", message);
    server.fault(Fault::new(Action::Answer(initializing)).version("v2").verb("watch"));
    server.fault(Fault::new(Action::InternalError).version("v2").verb("list"));
    server.set_watches("widgets.example.com", WatchMode::Dropped);
    let lines = run.until("recovered").await;
    assert!(
        lines[0].starts_with("failed: could not watch widgets (example.com): the server does not serve it yet"),
        "{lines:?}"
    );
    assert_eq!(run.handle.status().version.to_string(), "widgets.v1.example.com");
}

#[tokio::test(start_paused = true)]
async fn only_where_every_version_is_broken_it_fails() {
    let (server, versions) = widgets();
    server.fault(Fault::new(Action::InternalError).version("v2").verb("list").first(2));
    server.fault(Fault::new(Action::NotFound).version("v1").verb("list").once());
    let mut run = Run::start(cluster(&server), &versions);
    assert!(
        run.next()
            .await
            .starts_with("failed, lost: could not list widgets (example.com): 500"),
        "the preferred version's error"
    );
    assert_eq!(run.until("ended").await.len(), 3);
    assert_eq!(run.handle.status().version.to_string(), "widgets.v1.example.com");
    assert_eq!(run.next().await, "recovered");

    // A permission is missing at every version alike.
    let (server, versions) = widgets();
    server.fault(Fault::new(Action::Forbidden).verb("list").once());
    let mut run = Run::start(cluster(&server), &versions);
    run.until("failed").await;
    assert_eq!(server.request_count("list", "widgets.example.com"), 1);
}

/// A server with a pod at revision 7, whose first watch says `first`.
fn saying(first: &'static str) -> Cluster {
    let watches = Arc::new(AtomicUsize::new(0));
    stub_of(move |path| {
        let text = if !path.contains("watch=true") {
            r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"p","resourceVersion":"5"}}]}"#
        } else if watches.fetch_add(1, Ordering::SeqCst) == 0 {
            return Response::new(format!("{first}\n"));
        } else {
            "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"8\"}}}\n"
        };
        Response::new(text.to_owned())
    })
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_says_what_can_not_be_lead_to_a_list() {
    let table = [
        (
            r#"{"type":"ADDED","object":{"metadata":{"name":1}}}"#,
            "has no metadata that can be read",
        ),
        (
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3"}}}"#,
            "went back from revision 7 to 3",
        ),
        (
            r#"{"type":"ERROR","object":{"code":500,"reason":"Internal","message":"conversion"}}"#,
            "500 Internal: conversion",
        ),
        ("garbage", "can't be read as a watch event"),
    ];
    for (first, expected) in table {
        let start = Instant::now();
        let mut run = Run::start(saying(first), &pods().into());
        assert_eq!(run.until("ended").await, ["began 7", "page p", "ended 7"]);
        let line = run.next().await;
        assert!(
            line.starts_with("failed, lost: could not watch pods: ") && line.contains(expected),
            "{line}"
        );
        assert_eq!(
            run.until("recovered").await,
            ["began 7", "page p", "ended 7", "recovered"]
        );
        assert!((800..1600).contains(&start.elapsed().as_millis()));
        assert_eq!(run.next().await, "bookmark 8");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_ends_at_once_is_not_renewed_in_a_loop() {
    let watches = Arc::new(AtomicUsize::new(0));
    let count = watches.clone();
    let cluster = stub_of(move |path| {
        let is_watch = path.contains("watch=true");
        count.fetch_add(usize::from(is_watch), Ordering::SeqCst);
        Response::new(
            if is_watch {
                ""
            } else {
                r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#
            }
            .to_owned(),
        )
    });
    let mut run = Run::start(cluster, &pods().into());
    run.until("ended").await;
    assert_eq!(run.during(10 * MINUTE).await, [""; 0]);
    let watches = watches.load(Ordering::SeqCst);
    assert!((10..=30).contains(&watches), "{watches}");
}

#[tokio::test(start_paused = true)]
async fn other_shapes() {
    let server = TestServer::new();
    server.create(quota("a", "q", &json!({"pods": "3"}))).unwrap();
    let (sender, mut updates) = mpsc::channel(8);
    let quotas = ApiResource::resource_quotas().into();
    let _quotas = Monitor::new(cluster(&server), &quotas, None, Quotas, MonitorOptions::default()).spawn(sender);
    while let Some(update) = updates.recv().await {
        if let Update::Page(_, quotas) = update {
            assert_eq!(quotas[0].1.as_ref().unwrap().key.to_string(), "a/q");
            break;
        }
    }
    let (sender, mut updates) = mpsc::channel(8);
    let definitions = ApiResource::custom_resource_definitions().into();
    let _definitions = Monitor::new(
        cluster(&server),
        &definitions,
        None,
        MetadataOnly,
        MonitorOptions::default(),
    )
    .spawn(sender);
    assert!(matches!(updates.recv().await, Some(Update::ListBegan(_))));
    let (sender, _updates) = mpsc::channel(8);
    let classes = ApiResource::new("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false).into();
    let shape = Plain::<DeviceClassView>::default();
    let _classes = Monitor::new(cluster(&server), &classes, None, shape, MonitorOptions::default()).spawn(sender);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_handle_ends_the_watch() {
    let server = server();
    let run = synced(&server).await;
    assert_eq!(server.watches().len(), 1);
    drop(run);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.watches().len(), 0);
}
