//! A monitor: one resource, listed and then watched, for ever.
//!
//! It is a state machine over three states:
//!
//! - **Listing**: everything, at the version of the resource that last worked; should that one break (a conversion
//!   webhook that fails, a version that is no longer served), the others are tried before it counts as a failure.
//! - **Watching** from a revision. A watch that ends, breaks or falls silent is taken up at the last revision, without
//!   a list. Only where the server no longer keeps that revision (410), or says what can't be read, everything is
//!   listed again.
//! - **Backing off**, with the numbers of client-go's reflector, and slower where a permission is missing.
//!
//! Everything is handed to a [`Sink`] in order, one thing after the other, and the sink is waited for: a slow sink
//! slows the stream.

mod sink;
mod status;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kubequota_core::Revision;
use kubequota_wire::WatchEvent;
use kubequota_wire::json::Shape;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use crate::backoff::{Backoff, Random};
use crate::client::Cluster;
use crate::error::{ApiError, Call};
use crate::list::{Listed, PAGE_SIZE, Page};
use crate::resource::{ApiResource, Versions};
use crate::watch::WatchOptions;

pub use sink::{Sink, Update};
pub use status::{Failure, MonitorState, MonitorStatus};

/// How a monitor goes about it.
#[derive(Clone, Debug)]
pub struct MonitorOptions {
    /// Objects in a page.
    pub page_size: u32,
    /// The least and the longest time after which the server shall end a watch.
    pub watch_lasts: (Duration, Duration),
    /// A watch on which nothing came for so long is renewed.
    pub idle: Duration,
    /// The longest event that is taken, in bytes.
    pub longest_event: usize,
    /// The delays after failures.
    pub backoff: Backoff,
    /// The delays while a permission is missing.
    pub forbidden_backoff: Backoff,
    /// Makes the random parts repeatable.
    pub seed: Option<u64>,
}

impl Default for MonitorOptions {
    fn default() -> Self {
        let WatchOptions { idle, longest, .. } = WatchOptions::default();
        MonitorOptions {
            page_size: PAGE_SIZE,
            watch_lasts: (Duration::from_secs(300), Duration::from_secs(600)),
            idle,
            longest_event: longest,
            backoff: Backoff::default(),
            // A server that has just started refuses everything until it knows its roles: the first tries come soon.
            forbidden_backoff: Backoff::new(Duration::from_millis(800), Duration::from_secs(60)),
            seed: None,
        }
    }
}

/// Lists and watches one resource.
#[derive(Debug)]
pub struct Monitor<S> {
    cluster: Cluster,
    versions: Vec<ApiResource>,
    /// The index of the version in use.
    current: usize,
    namespace: Option<String>,
    shape: S,
    options: MonitorOptions,
    random: Random,
    /// Watches in a row that fell silent, or that the server failed to start.
    barren: u32,
    /// Lists and watches in a row that the server no longer kept the revisions for.
    expired: u32,
    /// What fails now is in the log; that something did, so that its end is news.
    logged: bool,
    end_is_news: bool,
    status: watch::Sender<MonitorStatus>,
}

/// A monitor at work. Dropping it stops the work.
#[derive(Debug)]
pub struct MonitorHandle {
    task: JoinHandle<Infallible>,
    status: watch::Receiver<MonitorStatus>,
}

impl MonitorHandle {
    /// How the monitor is.
    #[must_use]
    pub fn status(&self) -> MonitorStatus {
        self.status.borrow().clone()
    }

    /// Notices of every change of that.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<MonitorStatus> {
        self.status.clone()
    }
}

impl Drop for MonitorHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What to do next.
#[derive(Debug)]
enum Step {
    List,
    /// From this revision on.
    Watch(String),
}

/// Why a step is over.
#[derive(Debug)]
enum End {
    /// As it should.
    Well,
    /// Not as it should, but as it happens: wait a little, and tell nobody.
    Soon,
    /// It failed.
    Failed(ApiError),
}

/// A watch is up when something came on it or it has lasted so long; one that ends before that is not renewed at once.
const VERY_SHORT: Duration = Duration::from_secs(1);

/// No wait that a server asks for is longer than this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(120);

/// After so many watches in a row that said nothing everything is listed again: a server whose store was set back says
/// nothing before it has come to the revision asked for.
const BARREN_SILENT: u32 = 2;

/// After so many watches in a row that the server failed to start everything is listed again, which may show another
/// version to work.
const BARREN_FAILED: u32 = 4;

/// A monitor that finds no server for so long, where others do, says so itself.
const ALONE: Duration = Duration::from_secs(10);

/// So many lists and watches in a row that expire are a failure.
const TOO_OFTEN_EXPIRED: u32 = 3;

impl<S: Shape + Send + Sync + 'static> Monitor<S>
where
    S::Output: Send + 'static,
{
    /// A monitor of a resource in one namespace, or everywhere.
    #[must_use]
    pub fn new(
        cluster: Cluster,
        versions: &Versions,
        namespace: Option<&str>,
        shape: S,
        options: MonitorOptions,
    ) -> Self {
        let status = MonitorStatus {
            resource: versions.id().clone(),
            version: versions.preferred.clone(),
            state: MonitorState::Listing,
            synced: false,
            failure: None,
            lists: 0,
            watches: 0,
        };
        Monitor {
            cluster,
            versions: versions.iter().cloned().collect(),
            current: 0,
            namespace: namespace.map(str::to_owned),
            shape,
            random: Random::new(options.seed),
            options,
            barren: 0,
            expired: 0,
            logged: false,
            end_is_news: false,
            status: watch::Sender::new(status),
        }
    }

    /// How the monitor is, now and later.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<MonitorStatus> {
        self.status.subscribe()
    }

    /// Does the work in a task of its own.
    #[must_use]
    pub fn spawn(self, sink: impl Sink<S::Output> + 'static) -> MonitorHandle {
        let status = self.status();
        MonitorHandle {
            task: tokio::spawn(self.run(sink)),
            status,
        }
    }

    /// Does the work, until it is dropped.
    pub async fn run(mut self, mut sink: impl Sink<S::Output>) -> Infallible {
        let mut step = Step::List;
        loop {
            let (next, end) = match step {
                Step::List => self.list(&mut sink).await,
                Step::Watch(revision) => self.watch(revision, &mut sink).await,
            };
            let delay = match end {
                End::Well => None,
                End::Soon => Some(self.options.backoff.next(&mut self.random)),
                End::Failed(error) => {
                    let delay = self.delay_after(&error);
                    self.fail(error, matches!(next, Step::List), &mut sink).await;
                    Some(delay)
                }
            };
            if let Some(delay) = delay {
                self.enter(MonitorState::BackingOff);
                sleep(delay).await;
            }
            step = next;
        }
    }

    /// Lists at the version in use, else at the others.
    async fn list(&mut self, sink: &mut impl Sink<S::Output>) -> (Step, End) {
        self.enter(MonitorState::Listing);
        let mut first_error = None;
        let others = (0..self.versions.len()).filter(|index| *index != self.current);
        for index in std::iter::once(self.current).chain(others).collect::<Vec<_>>() {
            match self.list_at(index, sink).await {
                Ok(listed) => {
                    self.take_version(index);
                    return (Step::Watch(listed.revision), End::Well);
                }
                // It took longer than the server keeps old revisions.
                Err(error) if error.is_expired() => return self.start_over(error),
                Err(error) => {
                    let broken = is_version_broken(&error);
                    debug!(resource = %self.versions[index], "{error}");
                    first_error.get_or_insert(error);
                    if !broken {
                        break;
                    }
                }
            }
        }
        (Step::List, first_error.map_or(End::Soon, End::Failed))
    }

    async fn list_at(&self, index: usize, sink: &mut impl Sink<S::Output>) -> Result<Listed, ApiError> {
        let list = self
            .cluster
            .list(&self.versions[index], self.namespace.as_deref(), self.shape);
        let mut list = list.page_size(self.options.page_size);
        let Page { listed, objects } = list.fetch().await?;
        sink.handle(Update::ListBegan(listed.clone())).await;
        sink.handle(Update::Page(listed.clone(), objects)).await;
        while let Some(page) = list.next().await? {
            sink.handle(Update::Page(page.listed, page.objects)).await;
        }
        sink.handle(Update::ListEnded(listed.clone())).await;
        Ok(listed)
    }

    /// A list has ended at this version.
    fn take_version(&mut self, index: usize) {
        if index != self.current {
            let (from, to) = (&self.versions[self.current], &self.versions[index]);
            warn!(resource = %from.id, "{from} can't be listed: {to} is used instead");
            self.current = index;
        }
        self.barren = 0;
        let version = self.versions[index].clone();
        self.status.send_modify(|status| {
            status.synced = true;
            status.lists += 1;
            status.version = version;
            if let Some(failure) = &mut status.failure {
                failure.lost = false;
            }
        });
    }

    /// Watches once.
    async fn watch(&mut self, revision: String, sink: &mut impl Sink<S::Output>) -> (Step, End) {
        let resource = self.versions[self.current].clone();
        let (least, most) = self.options.watch_lasts;
        let options = WatchOptions {
            lasting: self.random.between(least, most),
            idle: self.options.idle,
            longest: self.options.longest_event,
        };
        let watch = self
            .cluster
            .watch(&resource, self.namespace.as_deref(), self.shape, &revision, &options)
            .await;
        let mut watch = match watch {
            Ok(watch) => watch,
            Err(error) => return self.not_started(revision, error),
        };
        self.enter(MonitorState::Watching);
        self.status.send_modify(|status| status.watches += 1);

        let mut place = Place { revision, events: 0 };
        // A head alone proves nothing: a proxy may send it before it finds its server gone.
        let mut is_up = false;
        loop {
            let next = if is_up {
                watch.next().await
            } else if let Ok(next) = timeout(VERY_SHORT, watch.next()).await {
                next
            } else {
                is_up = true;
                self.cluster.answered();
                self.recover(sink).await;
                continue;
            };
            let event = match next {
                Ok(Some(event)) => event,
                Ok(None) => return (Step::Watch(place.revision), if is_up { End::Well } else { End::Soon }),
                Err(error) => return self.broken(place, is_up, error),
            };
            if let Err(told) = place.advance::<S>(&event) {
                let call = Box::new(Call::on("watch", &resource, self.namespace.as_deref()));
                let known = place.revision;
                return (Step::List, End::Failed(ApiError::WentBack { call, known, told }));
            }
            (self.barren, self.expired) = (0, 0);
            if !is_up {
                is_up = true;
                self.cluster.answered();
                self.recover(sink).await;
            }
            match event {
                WatchEvent::Applied(object) => sink.handle(Update::Applied(object)).await,
                WatchEvent::Deleted(object) => sink.handle(Update::Deleted(object)).await,
                WatchEvent::Bookmark { resource_version, .. } => sink.handle(Update::Bookmark(resource_version)).await,
                // That has come as an error.
                WatchEvent::Error(_) => {}
            }
        }
    }

    /// A watch that was begun and is over before its time.
    fn broken(&mut self, place: Place, is_up: bool, error: ApiError) -> (Step, End) {
        match &error {
            ApiError::Silent { .. } if place.events == 0 => self.silent(place.revision, &error),
            ApiError::Unreachable { .. } if !is_up => {
                self.cluster.broke_off(&error);
                self.not_started(place.revision, error)
            }
            ApiError::Silent { .. } | ApiError::Unreachable { .. } => {
                debug!("the watch is taken up again at {}: {error}", place.revision);
                (Step::Watch(place.revision), End::Well)
            }
            _ => self.start_over(error),
        }
    }

    /// A watch that the server, or the network, did not let begin.
    fn not_started(&mut self, revision: String, error: ApiError) -> (Step, End) {
        let resume = match &error {
            ApiError::Unreachable { .. } | ApiError::Timeout { .. } | ApiError::Credentials { .. } => true,
            ApiError::Status { status, .. } => match status.code {
                429 if error.is_initializing() => {
                    self.barren += 1;
                    self.barren < BARREN_FAILED
                }
                401 | 403 | 429 => true,
                500.. => {
                    self.barren += 1;
                    self.barren < BARREN_FAILED
                }
                _ => false,
            },
            _ => false,
        };
        if resume {
            (Step::Watch(revision), End::Failed(error))
        } else {
            self.start_over(error)
        }
    }

    /// A watch on which nothing came at all.
    fn silent(&mut self, revision: String, error: &ApiError) -> (Step, End) {
        self.barren += 1;
        if self.barren < BARREN_SILENT {
            debug!("the watch is taken up again at {revision}: {error}");
            return (Step::Watch(revision), End::Well);
        }
        info!("everything is listed again: {error}");
        self.barren = 0;
        (Step::List, End::Soon)
    }

    /// A list or watch that the server refused to go on with: everything is listed again.
    fn start_over(&mut self, error: ApiError) -> (Step, End) {
        if !error.is_expired() {
            return (Step::List, End::Failed(error));
        }
        // It happens; but not every time. The server answers, so that the first list need not wait, however long it was away before.
        self.expired += 1;
        debug!(resource = %self.versions[self.current], "everything is listed again: {error}");
        let end = match self.expired {
            1 => End::Well,
            times if times < TOO_OFTEN_EXPIRED => End::Soon,
            _ => End::Failed(error),
        };
        (Step::List, end)
    }

    fn delay_after(&mut self, error: &ApiError) -> Duration {
        let backoff = if error.is_forbidden() {
            &mut self.options.forbidden_backoff
        } else {
            &mut self.options.backoff
        };
        let delay = backoff.next(&mut self.random);
        error
            .retry_after()
            .map_or(delay, |wanted| delay.max(wanted.min(LONGEST_RETRY_AFTER)))
    }

    fn enter(&self, state: MonitorState) {
        self.status
            .send_if_modified(|status| std::mem::replace(&mut status.state, state) != state);
    }

    /// Tells of a failure, if that is news. In the log it is news the second time: a server that restarts gives one of each kind.
    async fn fail(&mut self, error: ApiError, lost: bool, sink: &mut impl Sink<S::Output>) {
        let before = self.status.borrow().failure.clone();
        let lost = lost || before.as_ref().is_some_and(|before| before.lost);
        if let Some(before) = &before
            && before.lost == lost
            && before.error.is_like(&error)
        {
            // That no server is there is told once for all, unless the others find one.
            let is_told = matches!(error, ApiError::Unreachable { .. })
                && (self.cluster.is_told(&error) || before.since.elapsed() < ALONE);
            if self.logged || is_told {
                debug!(resource = %self.versions[self.current], "{error}");
            } else {
                warn!(resource = %self.versions[self.current], "{error}");
                (self.logged, self.end_is_news) = (true, true);
            }
            return;
        }
        debug!(resource = %self.versions[self.current], "{error}");
        self.logged = false;
        let since = before.map_or_else(Instant::now, |before| before.since);
        let failure = Failure {
            error: Arc::new(error),
            since,
            lost,
        };
        self.status.send_modify(|status| status.failure = Some(failure.clone()));
        sink.handle(Update::Failed(failure)).await;
    }

    async fn recover(&mut self, sink: &mut impl Sink<S::Output>) {
        if self.status.borrow().failure.is_none() {
            return;
        }
        self.status.send_modify(|status| status.failure = None);
        if std::mem::take(&mut self.end_is_news) {
            info!(resource = %self.versions[self.current], "listed and watched again");
        }
        sink.handle(Update::Recovered).await;
    }
}

/// How far a watch has come.
struct Place {
    revision: String,
    events: u64,
}

impl Place {
    /// Goes on to the revision of an event. An error is a bookmark of an older revision than one that is known.
    fn advance<S: Shape>(&mut self, event: &WatchEvent<S::Output>) -> Result<(), String> {
        self.events += 1;
        let revision = match event {
            WatchEvent::Applied(object) | WatchEvent::Deleted(object) => &S::metadata(object).resource_version,
            WatchEvent::Bookmark { resource_version, .. } => resource_version,
            WatchEvent::Error(_) => return Ok(()),
        };
        let is_older = match (Revision::parse(revision), Revision::parse(&self.revision)) {
            (Some(told), Some(known)) => told < known,
            _ => revision.is_empty(),
        };
        match event {
            WatchEvent::Bookmark { .. } if is_older => Err(revision.clone()),
            // Some servers leave a deleted object its last revision.
            _ if is_older => Ok(()),
            _ => {
                self.revision.clone_from(revision);
                Ok(())
            }
        }
    }
}

/// Whether the error may be one of this version alone: a conversion that fails, a version that is not served any more,
/// or an answer that can't be read.
fn is_version_broken(error: &ApiError) -> bool {
    match error {
        ApiError::Status { status, .. } => matches!(status.code, 404 | 405 | 406 | 500..),
        ApiError::Decode { .. } => true,
        _ => false,
    }
}
