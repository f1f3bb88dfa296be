//! Watches: the events after a revision, as lines of JSON.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::TestServer;
use crate::kinds::{GroupResource, Kind, api_version};
use crate::list::{ListOptions, number};
use crate::object;
use crate::render::{Form, Rendered};
use crate::request::RequestInfo;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{Event, Store};
use crate::table::Printer;

/// How often a watch that asked for bookmarks gets one.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// How long a watch lasts that didn't say.
const DEFAULT_TIMEOUT_SECONDS: u64 = 1800;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What becomes of a running watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// It works.
    #[default]
    Live,
    /// It stays open and nothing is sent any more, no bookmark either, as on a half-open connection.
    Silent,
    /// The connection breaks.
    Dropped,
    /// It ends in good order after what is still to be sent, as when its time is over.
    Ended,
    /// It gets an error event with code 410 and ends.
    Expired,
}

/// The running watches.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    next: u64,
    active: BTreeMap<u64, (RequestInfo, WatchMode)>,
    /// Raised whenever the test wants bookmarks to be sent.
    bookmarks: u64,
}

impl Watchers {
    fn register(&mut self, request: RequestInfo, mode: WatchMode) -> u64 {
        self.next += 1;
        self.active.insert(self.next, (request, mode));
        self.next
    }

    fn mode(&self, id: u64) -> WatchMode {
        self.active.get(&id).map_or(WatchMode::Dropped, |(_, mode)| *mode)
    }

    pub(crate) fn requests(&self) -> Vec<RequestInfo> {
        self.active.values().map(|(request, _)| request.clone()).collect()
    }

    pub(crate) fn ask_for_bookmarks(&mut self) {
        self.bookmarks += 1;
    }

    /// Sets the mode of the running watches of a resource, or of all.
    pub(crate) fn set_mode(&mut self, resource: Option<&GroupResource>, mode: WatchMode) {
        for (request, current) in self.active.values_mut() {
            if resource.is_none_or(|resource| resource.group == request.group && resource.plural == request.resource) {
                *current = mode;
            }
        }
    }
}

/// What the faults have in store for a watch from its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchFault {
    pub(crate) silent: bool,
    pub(crate) lag: Duration,
}

struct Watch {
    server: TestServer,
    id: u64,
    resource: GroupResource,
    kind: String,
    api_version: String,
    form: Form,
    /// Prints the events' objects, where tables are wanted.
    printer: Option<Printer>,
    /// Whether a table has told its columns; the others leave them out.
    columns_told: bool,
    selector: Selector,
    /// All events up to this revision were sent.
    position: u64,
    /// What is sent first.
    initial: Vec<u8>,
    wants_bookmarks: bool,
    bookmarks_seen: u64,
    next_bookmark: Instant,
    deadline: Instant,
    lag: Duration,
    changed: watch::Receiver<()>,
    done: bool,
}

/// Answers a watch.
pub(crate) fn respond(
    server: &TestServer,
    kind: &Kind,
    request: &RequestInfo,
    form: Form,
    fault: WatchFault,
) -> Result<Response, Status> {
    let options = ListOptions::parse(request)?;
    let seconds = number(request, "timeoutSeconds")?
        .filter(|&seconds| seconds > 0)
        .unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    let now = Instant::now();
    let mut store = server.store();
    let current = store.revision();
    if let Some(asked) = options
        .revision
        .filter(|&asked| asked > current && options.send_initial_events == Some(true))
    {
        return Err(Status::revision_too_large(asked, current));
    }
    let printer = match form {
        Form::Table => Some(Printer::new(&store, kind, request)?),
        _ => None,
    };
    let mode = if fault.silent {
        WatchMode::Silent
    } else {
        WatchMode::Live
    };
    let mut watch = Watch {
        server: server.clone(),
        id: store.watchers.register(request.clone(), mode),
        resource: kind.resource(),
        kind: kind.kind.clone(),
        api_version: api_version(&kind.group, &request.version),
        form,
        printer,
        columns_told: false,
        selector: options.selector,
        position: current,
        initial: Vec::new(),
        wants_bookmarks: matches!(request.parameter("allowWatchBookmarks").as_deref(), Some("true" | "1")),
        bookmarks_seen: store.watchers.bookmarks,
        next_bookmark: now + BOOKMARK_INTERVAL,
        deadline: now + Duration::from_secs(seconds),
        lag: fault.lag,
        changed: store.subscribe(),
        done: false,
    };
    let from_now = matches!(options.revision, None | Some(0));
    match options.send_initial_events {
        Some(true) => watch.prepare_initial_events(&store, true),
        None if from_now => watch.prepare_initial_events(&store, false),
        Some(false) if from_now => {}
        _ => match options.revision.unwrap_or(current) {
            old if old < store.compacted() => {
                watch.initial = error_line(&too_old(old, store.compacted()));
                store
                    .watchers
                    .active
                    .insert(watch.id, (request.clone(), WatchMode::Ended));
            }
            revision => watch.position = revision,
        },
    }
    drop(store);
    let lines = stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|chunk| (chunk, watch))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn too_old(asked: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {asked} ({oldest})"))
}

fn error_line(status: &Status) -> Vec<u8> {
    line(&json!({ "type": "ERROR", "object": status.to_json() }))
}

fn line(event: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    line
}

impl Watch {
    /// Lets the watch begin with the current objects; `bookmark` closes them with the mark of a streamed list.
    fn prepare_initial_events(&mut self, store: &Store, bookmark: bool) {
        let page = store.page(&self.resource, store.revision(), None, &self.selector, usize::MAX);
        for object in &page.items {
            let line = self.event_line(store.clock.now(), "ADDED", object);
            self.initial.extend(line);
        }
        if bookmark && self.wants_bookmarks {
            let line = self.bookmark_line(store.clock.now(), true);
            self.initial.extend(line);
        }
    }

    fn event_line(&mut self, now: Timestamp, event_type: &str, object: &Value) -> Vec<u8> {
        if let Some(printer) = &self.printer {
            let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
            let table = printer.table(std::iter::once(object), &metadata, now, !self.columns_told);
            self.columns_told = true;
            return line(&json!({ "type": event_type, "object": table }));
        }

        #[derive(Serialize)]
        struct Line<'a> {
            r#type: &'a str,
            object: Rendered<'a>,
        }
        let object = Rendered {
            object,
            api_version: &self.api_version,
            form: self.form,
        };
        line(&Line {
            r#type: event_type,
            object,
        })
    }

    fn bookmark_line(&mut self, now: Timestamp, ends_initial_events: bool) -> Vec<u8> {
        let mut metadata = json!({ "resourceVersion": self.position.to_string() });
        if ends_initial_events {
            metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        let object = json!({ "apiVersion": self.api_version, "kind": self.kind, "metadata": metadata });
        self.event_line(now, "BOOKMARK", &object)
    }

    /// What a write looks like through the selector, if it can be seen at all.
    fn line_of(&mut self, now: Timestamp, event: &Event) -> Option<Vec<u8>> {
        if event.resource != self.resource {
            return None;
        }
        let selects = |object: &Arc<Value>| self.selector.matches(&event.key.namespace, &event.key.name, object);
        let before = event.previous.as_ref().is_some_and(selects);
        let after = !event.deleted && selects(&event.object);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.event_line(now, "ADDED", &event.object)),
            (true, true) => Some(self.event_line(now, "MODIFIED", &event.object)),
            (true, false) if event.deleted => Some(self.event_line(now, "DELETED", &event.object)),
            // It left the selection: its last selected state, at the revision of the write.
            (true, false) => {
                let previous = event.previous.as_ref()?;
                Some(self.event_line(now, "DELETED", &object::at_revision(previous, event.revision)))
            }
        }
    }

    /// The next bytes; none at the end of the watch.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.done {
                return None;
            }
            let (chunk, wake_at) = match self.collect() {
                Ok(collected) => collected,
                Err(error) => return Some(Err(error)),
            };
            if !chunk.is_empty() {
                return Some(Ok(chunk.into()));
            }
            if self.done {
                return None;
            }
            tokio::select! {
                // The store, which holds the sender, lives as long as this watch.
                _ = self.changed.changed() => {}
                () = sleep_until(wake_at) => {}
            }
        }
    }

    /// What is to be sent now, and when to look again if nothing changes before.
    fn collect(&mut self) -> io::Result<(Vec<u8>, Option<Instant>)> {
        let now = Instant::now();
        let server = self.server.clone();
        let store = server.store();
        let mode = store.watchers.mode(self.id);
        match mode {
            WatchMode::Live | WatchMode::Ended => {}
            WatchMode::Silent => return Ok((Vec::new(), None)),
            WatchMode::Dropped => {
                self.done = true;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            WatchMode::Expired => {
                self.done = true;
                return Ok((error_line(&too_old(self.position, store.revision())), None));
            }
        }
        let mut chunk = std::mem::take(&mut self.initial);
        if !store.reaches(self.position) {
            self.done = true;
            chunk.extend(error_line(&too_old(self.position, store.compacted())));
            return Ok((chunk, None));
        }
        let mut due = None;
        for event in store.events_after(self.position) {
            if event.at + self.lag > now {
                due = Some(event.at + self.lag);
                break;
            }
            chunk.extend(self.line_of(store.clock.now(), event).unwrap_or_default());
            self.position = event.revision;
        }
        if mode == WatchMode::Ended || now >= self.deadline {
            self.done = true;
            return Ok((chunk, None));
        }
        if self.wants_bookmarks && (self.bookmarks_seen != store.watchers.bookmarks || now >= self.next_bookmark) {
            if now >= self.next_bookmark {
                self.next_bookmark = now + BOOKMARK_INTERVAL;
            }
            self.bookmarks_seen = store.watchers.bookmarks;
            chunk.extend(self.bookmark_line(store.clock.now(), false));
        }
        let next_bookmark = self.wants_bookmarks.then_some(self.next_bookmark);
        let wake_at = [due, next_bookmark, Some(self.deadline)].into_iter().flatten().min();
        Ok((chunk, wake_at))
    }
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.server.store().watchers.active.remove(&self.id);
    }
}
