//! A graceful end with a deadline.
//!
//! [`Drain`] tells every task when to end ([`Drain::signal`]) and knows by name which ones are still busy
//! ([`Drain::guard`]). The first SIGTERM or SIGINT starts it; a second one ends the process at once.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Running,
    Draining,
    Over,
}

#[derive(Debug, Default)]
struct Shared {
    phase: watch::Sender<Phase>,
    /// How many guards of each name are held.
    busy: watch::Sender<BTreeMap<Arc<str>, usize>>,
}

/// The end of a process, announced and awaited; a cheap handle, clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    shared: Arc<Shared>,
}

impl Drain {
    /// A process that runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everyone to end. Doing so again changes nothing.
    pub fn start(&self) {
        self.advance(Phase::Draining);
    }

    /// Whether the end was asked for.
    pub fn is_draining(&self) -> bool {
        *self.shared.phase.borrow() >= Phase::Draining
    }

    /// Resolves once the end was asked for: the place for it is a `select!` beside the work.
    pub fn signal(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.reached(Phase::Draining)
    }

    /// Resolves once [`Drain::wait`] is over, for what must outlive the others, such as the health endpoints.
    pub fn finished(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.reached(Phase::Over)
    }

    /// Marks a task as busy until the guard is dropped. Guards may be taken while draining too.
    pub fn guard(&self, name: impl Into<Arc<str>>) -> DrainGuard {
        let name = name.into();
        self.shared
            .busy
            .send_modify(|busy| *busy.entry(Arc::clone(&name)).or_default() += 1);
        DrainGuard {
            shared: Arc::clone(&self.shared),
            name,
        }
    }

    /// Starts the drain if nobody has, then waits until no guard is held, for at most `grace`.
    ///
    /// # Errors
    /// [`StillRunning`] names the guards that were still held when time was up.
    pub async fn wait(&self, grace: Duration) -> Result<(), StillRunning> {
        self.start();
        let mut busy = self.shared.busy.subscribe();
        // Whether time was up shows in what is left.
        let _ = tokio::time::timeout(grace, busy.wait_for(BTreeMap::is_empty)).await;
        self.advance(Phase::Over);
        let tasks: BTreeMap<_, _> = busy
            .borrow()
            .iter()
            .map(|(name, count)| (name.to_string(), *count))
            .collect();
        if tasks.is_empty() {
            return Ok(());
        }
        Err(StillRunning { grace, tasks })
    }

    fn advance(&self, to: Phase) {
        self.shared.phase.send_if_modified(|phase| {
            let later = to > *phase;
            *phase = to.max(*phase);
            later
        });
    }

    fn reached(&self, wanted: Phase) -> impl Future<Output = ()> + Send + 'static + use<> {
        // The future keeps the channel open: losing every handle is no reason to end.
        let shared = Arc::clone(&self.shared);
        async move {
            let _ = shared.phase.subscribe().wait_for(|phase| *phase >= wanted).await;
        }
    }
}

/// Held by a task for as long as ending would lose its work.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once guards nothing"]
pub struct DrainGuard {
    shared: Arc<Shared>,
    name: Arc<str>,
}

impl Drop for DrainGuard {
    fn drop(&mut self) {
        self.shared.busy.send_modify(|busy| {
            if let Some(count) = busy.get_mut(&self.name) {
                *count -= 1;
                if *count == 0 {
                    busy.remove(&self.name);
                }
            }
        });
    }
}

/// Time was up before every task had ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "still running {}s after the end was asked for: {}; allow more time, or look in the log for what they wait for",
    grace.as_secs_f64(),
    names(tasks)
)]
pub struct StillRunning {
    /// How long was waited.
    pub grace: Duration,
    /// The names of the guards that were held, each with how many there were.
    pub tasks: BTreeMap<String, usize>,
}

fn names(tasks: &BTreeMap<String, usize>) -> String {
    let name = |(name, count): (&String, &usize)| {
        if *count == 1 {
            name.clone()
        } else {
            format!("{name} ({count})")
        }
    };
    tasks.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The operating system refused to hand over its signals.
#[derive(Debug, thiserror::Error)]
#[error("can't listen for {signal}: {source}; without it this process can't end gracefully, so it doesn't start")]
pub struct SignalError {
    signal: &'static str,
    source: std::io::Error,
}

#[derive(Clone, Copy, Debug)]
enum Stop {
    Interrupt,
    #[cfg_attr(not(unix), allow(dead_code))]
    Terminate,
}

impl Stop {
    const fn name(self) -> &'static str {
        match self {
            Stop::Interrupt => "SIGINT",
            Stop::Terminate => "SIGTERM",
        }
    }

    /// What a shell reports for a process that the signal ended: 128 and the signal's number.
    const fn exit_code(self) -> i32 {
        match self {
            Stop::Interrupt => 130,
            Stop::Terminate => 143,
        }
    }

    /// The first signal starts the drain; a second one gives the code to exit with at once.
    fn arrived(self, drain: &Drain, first: &mut bool) -> Option<i32> {
        if std::mem::replace(first, false) {
            tracing::info!(signal = self.name(), "ending; the same signal again ends at once");
            drain.start();
            return None;
        }
        tracing::warn!(signal = self.name(), "a second signal: ending at once");
        Some(self.exit_code())
    }
}

/// Starts `drain` at the first SIGTERM or SIGINT (Ctrl-C). A second one, of either kind, exits with 143 or 130 without
/// waiting for anything. Must be called inside a tokio runtime; once it returns, no signal is missed.
///
/// # Errors
/// [`SignalError`] when the operating system refuses.
pub fn watch_signals(drain: &Drain) -> Result<(), SignalError> {
    let mut signals = Signals::listen()?;
    let drain = drain.clone();
    tokio::spawn(async move {
        let mut first = true;
        while let Some(stop) = signals.next().await {
            if let Some(code) = stop.arrived(&drain, &mut first) {
                std::process::exit(code);
            }
        }
    });
    Ok(())
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> Result<Self, SignalError> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind, stop: Stop| {
            signal(kind).map_err(|source| SignalError {
                signal: stop.name(),
                source,
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt(), Stop::Interrupt)?,
            terminate: listen(SignalKind::terminate(), Stop::Terminate)?,
        })
    }

    async fn next(&mut self) -> Option<Stop> {
        tokio::select! {
            got = self.interrupt.recv() => got.map(|()| Stop::Interrupt),
            got = self.terminate.recv() => got.map(|()| Stop::Terminate),
        }
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn listen() -> Result<Self, SignalError> {
        tokio::signal::windows::ctrl_c()
            .map(Self)
            .map_err(|source| SignalError {
                signal: Stop::Interrupt.name(),
                source,
            })
    }

    async fn next(&mut self) -> Option<Stop> {
        self.0.recv().await.map(|()| Stop::Interrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    const GRACE: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn waits_no_longer_than_needed() {
        let drain = Drain::new();
        let begin = Instant::now();
        let guard = drain.guard("writer");
        let task = tokio::spawn({
            let stop = drain.signal();
            async move {
                stop.await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                drop(guard);
            }
        });
        assert!(!drain.is_draining());
        drain.wait(GRACE).await.unwrap();
        assert_eq!(begin.elapsed(), Duration::from_secs(3));
        assert!(drain.is_draining());
        task.await.unwrap();
        drain.finished().await;
    }

    #[tokio::test(start_paused = true)]
    async fn names_what_is_late() {
        let drain = Drain::new();
        let begin = Instant::now();
        let _held = [drain.guard("sync"), drain.guard("sync"), drain.guard("status writer")];
        drop(drain.guard("done"));
        let late = drain.wait(GRACE).await.unwrap_err();
        assert_eq!(begin.elapsed(), GRACE);
        assert_eq!(
            late.tasks,
            BTreeMap::from([("status writer".to_owned(), 1), ("sync".to_owned(), 2)])
        );
        let text = late.to_string();
        assert!(
            text.starts_with("still running 20s after the end was asked for: status writer, sync (2);"),
            "{text}"
        );
        drain.finished().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_handle_is_no_signal() {
        let signal = Drain::new().signal();
        assert!(tokio::time::timeout(GRACE, signal).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_to_wait_for() {
        let drain = Drain::new();
        let finished = drain.finished();
        drain.start();
        assert!(
            tokio::time::timeout(GRACE, finished).await.is_err(),
            "finished only after wait"
        );
        let begin = Instant::now();
        drain.wait(GRACE).await.unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[test]
    fn the_second_signal_exits() {
        for (then, code) in [(Stop::Interrupt, 130), (Stop::Terminate, 143)] {
            let (drain, mut first) = (Drain::new(), true);
            assert_eq!(Stop::Terminate.arrived(&drain, &mut first), None);
            assert!(drain.is_draining());
            assert_eq!(then.arrived(&drain, &mut first), Some(code));
        }
    }
}
