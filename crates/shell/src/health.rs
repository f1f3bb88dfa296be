//! Named readiness and liveness.
//!
//! A process is ready once every gate registered with its [`Readiness`] is, so that a probe that fails says what it
//! waits for. Details come and go beside the gates: a degraded one is shown without making the process unready.
//! Liveness fails only when a [`Heartbeat`] is older than it may be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// How one named check stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All is well.
    Ok,
    /// Something is wrong and worth showing, but the process can do its work.
    Degraded(String),
    /// The process can't do its work yet, or no longer; the reason why.
    Failed(String),
}

/// One named check of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is checked, in a few words: `quotas synced`.
    pub name: String,
    /// How it stands.
    pub condition: Condition,
}

/// All checks of one probe, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The checks, in the order in which they are shown.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether no check failed.
    pub fn passed(&self) -> bool {
        !self
            .checks
            .iter()
            .any(|check| matches!(check.condition, Condition::Failed(_)))
    }

    /// The report with one more check at its end.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, condition: Condition) -> Self {
        self.checks.push(Check {
            name: name.into(),
            condition,
        });
        self
    }

    /// `ok`, or a line for each failed check; degraded ones follow in both cases.
    pub fn brief(&self) -> String {
        let mut lines = Vec::new();
        if self.passed() {
            lines.push("ok".to_owned());
        }
        for check in &self.checks {
            if let Condition::Failed(reason) = &check.condition {
                lines.push(one_line(&format!("{}: {reason}", check.name)));
            }
        }
        for check in &self.checks {
            if let Condition::Degraded(reason) = &check.condition {
                lines.push(one_line(&format!("{}: degraded: {reason}", check.name)));
            }
        }
        lines.join("\n")
    }

    /// Every check on its own line in the form of Kubernetes' `?verbose`; `probe` names the endpoint in the last line.
    pub fn verbose(&self, probe: &str) -> String {
        let mut out = String::new();
        for Check { name, condition } in &self.checks {
            let line = match condition {
                Condition::Ok => format!("[+]{name} ok"),
                Condition::Degraded(reason) => format!("[!]{name} degraded: {reason}"),
                Condition::Failed(reason) => format!("[-]{name} failed: {reason}"),
            };
            out.push_str(&one_line(&line));
            out.push('\n');
        }
        let verdict = if self.passed() { "passed" } else { "failed" };
        // Writing to a String can't fail.
        let _ = writeln!(out, "{probe} check {verdict}");
        out
    }
}

/// Reasons often quote errors of others; a line feed in one must not look like another check.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[derive(Debug, Default)]
struct State {
    gates: BTreeMap<u64, Check>,
    next_gate: u64,
    details: BTreeMap<String, Condition>,
}

impl State {
    fn passed(&self) -> bool {
        let gates = self.gates.values().map(|check| &check.condition);
        !gates
            .chain(self.details.values())
            .any(|condition| matches!(condition, Condition::Failed(_)))
    }
}

/// What must come true before a process is ready; a cheap handle, clones share one state.
///
/// ```
/// # use kubequota_shell::Readiness;
/// let readiness = Readiness::default();
/// let synced = readiness.register("quotas synced");
/// assert_eq!(readiness.report().brief(), "quotas synced: pending");
/// synced.ready();
/// readiness.degraded("frozen names", "requests.cpu in team-a: pod web-1 can't be read");
/// assert!(readiness.is_ready());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    state: Arc<watch::Sender<State>>,
}

impl Readiness {
    /// An empty set: ready until something is registered. Register all gates before serving.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a gate that is pending until its handle says otherwise.
    pub fn register(&self, name: impl Into<String>) -> ReadyGate {
        let check = Check {
            name: name.into(),
            condition: Condition::Failed("pending".to_owned()),
        };
        let mut id = 0;
        self.state.send_modify(|state| {
            id = state.next_gate;
            state.next_gate += 1;
            state.gates.insert(id, check);
        });
        ReadyGate {
            state: Arc::clone(&self.state),
            id,
        }
    }

    /// Shows trouble that doesn't keep the process from its work. The same name again replaces the reason.
    pub fn degraded(&self, name: impl Into<String>, reason: impl Into<String>) {
        self.set_detail(name.into(), Condition::Degraded(reason.into()));
    }

    /// Shows trouble that makes the process unready until [`Readiness::clear`] or [`Readiness::degraded`] is called
    /// for the same name.
    pub fn blocking(&self, name: impl Into<String>, reason: impl Into<String>) {
        self.set_detail(name.into(), Condition::Failed(reason.into()));
    }

    /// Takes a detail back; nothing happens if there is none of this name.
    pub fn clear(&self, name: &str) {
        self.state
            .send_if_modified(|state| state.details.remove(name).is_some());
    }

    /// All gates in the order of their registration, then all details by name.
    pub fn report(&self) -> Report {
        let state = self.state.borrow();
        let details = state.details.iter().map(|(name, condition)| Check {
            name: name.clone(),
            condition: condition.clone(),
        });
        Report {
            checks: state.gates.values().cloned().chain(details).collect(),
        }
    }

    /// Whether nothing is pending.
    pub fn is_ready(&self) -> bool {
        self.state.borrow().passed()
    }

    /// Waits until nothing is pending.
    pub async fn wait_ready(&self) {
        // The sender lives in `self`, so the channel can't be closed.
        let _ = self.state.subscribe().wait_for(State::passed).await;
    }

    fn set_detail(&self, name: String, condition: Condition) {
        self.state.send_if_modified(|state| {
            if state.details.get(&name) == Some(&condition) {
                return false;
            }
            state.details.insert(name, condition);
            true
        });
    }
}

/// One gate of a [`Readiness`].
///
/// A gate dropped while ready stays ready. A gate dropped before that never opens: the task that would have opened it
/// has ended, and hiding that would call a process ready that isn't. [`ReadyGate::remove`] takes a gate away.
#[derive(Debug)]
pub struct ReadyGate {
    state: Arc<watch::Sender<State>>,
    id: u64,
}

impl ReadyGate {
    /// Opens the gate.
    pub fn ready(&self) {
        self.set(Condition::Ok);
    }

    /// Closes the gate, or says anew why it is closed.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Condition::Failed(reason.into()));
    }

    /// Takes the gate out of the set: what it stood for is no longer needed.
    pub fn remove(self) {
        self.state
            .send_if_modified(|state| state.gates.remove(&self.id).is_some());
    }

    fn set(&self, condition: Condition) {
        self.state
            .send_if_modified(|state| match state.gates.get_mut(&self.id) {
                Some(check) if check.condition != condition => {
                    check.condition = condition;
                    true
                }
                _ => false,
            });
    }
}

impl Drop for ReadyGate {
    fn drop(&mut self) {
        self.state
            .send_if_modified(|state| match state.gates.get_mut(&self.id) {
                Some(Check {
                    condition: Condition::Failed(reason),
                    ..
                }) => {
                    reason.push_str(" (its task has ended)");
                    true
                }
                _ => false,
            });
    }
}

/// The heartbeats of a process; a cheap handle, clones share one state. Alive while none is registered.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    beats: Arc<Mutex<Vec<Heartbeat>>>,
}

impl Liveness {
    /// No heartbeats yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a loop that must call [`Heartbeat::beat`] at least once in every `deadline`, from now on. It stays
    /// registered when the handle is dropped: a loop that has ended is not alive.
    pub fn heartbeat(&self, name: impl Into<Arc<str>>, deadline: Duration) -> Heartbeat {
        let heartbeat = Heartbeat {
            name: name.into(),
            deadline,
            last: Arc::new(Mutex::new(Instant::now())),
        };
        self.beats.lock().push(heartbeat.clone());
        heartbeat
    }

    /// Every heartbeat, in the order of registration.
    pub fn report(&self, now: Instant) -> Report {
        let checks = self.beats.lock().iter().map(|beat| beat.check(now)).collect();
        Report { checks }
    }
}

/// The heartbeat of one loop; clones beat the same heart.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    name: Arc<str>,
    deadline: Duration,
    last: Arc<Mutex<Instant>>,
}

impl Heartbeat {
    /// Says that the loop came round at `now`. An older time than the last one is ignored.
    pub fn beat(&self, now: Instant) {
        let mut last = self.last.lock();
        *last = now.max(*last);
    }

    /// Whether the last beat is older than the deadline.
    pub fn is_stale(&self, now: Instant) -> bool {
        self.age(now) > self.deadline
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.last.lock())
    }

    fn check(&self, now: Instant) -> Check {
        let condition = if self.is_stale(now) {
            let (age, deadline) = (self.age(now).as_secs(), self.deadline.as_secs_f64());
            Condition::Failed(format!("no progress for {age}s, at most {deadline}s allowed"))
        } else {
            Condition::Ok
        };
        Check {
            name: self.name.to_string(),
            condition,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_and_verbose_forms() {
        use Condition::{Degraded, Failed, Ok};
        let report = Report::default;
        let table = [
            (report(), true, "ok", "readyz check passed\n"),
            (
                report().with("quotas synced", Ok),
                true,
                "ok",
                "[+]quotas synced ok\nreadyz check passed\n",
            ),
            (
                report().with("a", Ok).with("frozen names", Degraded("cpu".into())),
                true,
                "ok\nfrozen names: degraded: cpu",
                "[+]a ok\n[!]frozen names degraded: cpu\nreadyz check passed\n",
            ),
            (
                report()
                    .with("d", Degraded("slow".into()))
                    .with("monitor pods", Failed("403".into()))
                    .with("b", Ok),
                false,
                "monitor pods: 403\nd: degraded: slow",
                "[!]d degraded: slow\n[-]monitor pods failed: 403\n[+]b ok\nreadyz check failed\n",
            ),
            (
                report().with("a", Failed("x\n[+]b ok\r".into())),
                false,
                "a: x [+]b ok ",
                "[-]a failed: x [+]b ok \nreadyz check failed\n",
            ),
        ];
        for (report, passed, brief, verbose) in table {
            assert_eq!(report.passed(), passed, "{report:?}");
            assert_eq!(report.brief(), brief);
            assert_eq!(report.verbose("readyz"), verbose);
        }
    }

    #[test]
    fn gates_open_close_and_leave() {
        let readiness = Readiness::new();
        assert!(readiness.is_ready());
        let (quotas, pods) = (readiness.register("quotas synced"), readiness.register("monitor pods"));
        assert_eq!(
            readiness.report().brief(),
            "quotas synced: pending\nmonitor pods: pending"
        );
        quotas.ready();
        pods.not_ready("forbidden");
        assert_eq!(readiness.report().brief(), "monitor pods: forbidden");
        pods.remove();
        assert_eq!(readiness.report().brief(), "ok");
        quotas.not_ready("watch broke");
        assert_eq!(readiness.clone().report().brief(), "quotas synced: watch broke");
    }

    #[test]
    fn only_a_gate_that_was_ready_may_be_dropped() {
        let readiness = Readiness::new();
        let gate = readiness.register("a");
        gate.ready();
        drop(gate);
        assert!(readiness.is_ready());
        drop(readiness.register("b"));
        assert_eq!(readiness.report().brief(), "b: pending (its task has ended)");
    }

    #[test]
    fn details_come_and_go() {
        let readiness = Readiness::new();
        readiness.degraded("frozen names", "cpu");
        assert_eq!(readiness.report().brief(), "ok\nfrozen names: degraded: cpu");
        readiness.blocking("frozen names", "all");
        assert_eq!(readiness.report().brief(), "frozen names: all");
        readiness.clear("frozen names");
        readiness.clear("frozen names");
        assert_eq!(readiness.report(), Report::default());
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_the_last_gate() {
        let readiness = Readiness::new();
        let (a, b) = (readiness.register("a"), readiness.register("b"));
        let waiting = tokio::spawn({
            let readiness = readiness.clone();
            async move { readiness.wait_ready().await }
        });
        a.ready();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        b.ready();
        waiting.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_heart_that_stops_is_noticed() {
        let liveness = Liveness::new();
        assert!(liveness.report(Instant::now()).passed());
        let heartbeat = liveness.heartbeat("main loop", Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(liveness.report(Instant::now()).passed());
        tokio::time::advance(Duration::from_secs(1)).await;
        let report = liveness.report(Instant::now());
        assert_eq!(report.brief(), "main loop: no progress for 31s, at most 30s allowed");

        heartbeat.beat(Instant::now());
        assert!(liveness.report(Instant::now()).passed());
        heartbeat.beat(Instant::now() - Duration::from_secs(31));
        assert!(!heartbeat.is_stale(Instant::now()), "an older beat takes nothing back");

        drop(heartbeat);
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(
            !liveness.report(Instant::now()).passed(),
            "a loop that has ended is not alive"
        );
    }
}
