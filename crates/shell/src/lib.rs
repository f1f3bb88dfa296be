//! What every long-running kubequota process needs around its work, and nothing about quotas' rules:
//!
//! - [`health`]: readiness that names what is still pending, and liveness by heartbeat;
//! - [`metrics`]: Prometheus metrics, under Kubernetes' usual names where there is one;
//! - [`server`]: the bounded HTTP server that shows both, on a bounded [`listener`] as any other server;
//! - [`drain`]: signals, and a graceful end with a deadline;
//! - [`logs`]: structured logs, as text or JSON.
//!
//! ```no_run
//! use std::time::Duration;
//! use kubequota_shell::{drain, logs, Drain, Endpoints, LogFormat, Metrics, Server, ServerOptions};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! logs::init(LogFormat::Text, None, true)?;
//! let drain = Drain::new();
//! drain::watch_signals(&drain)?;
//!
//! let endpoints = Endpoints::new(Metrics::new("0.1.0").registry.clone(), drain.clone());
//! let synced = endpoints.readiness.register("quotas synced");
//! let heartbeat = endpoints.liveness.heartbeat("main loop", Duration::from_secs(60));
//! let server = Server::bind(ServerOptions::default()).await?;
//! let serving = tokio::spawn(server.run(endpoints));
//!
//! let worker = drain.guard("worker");
//! let stop = drain.signal();
//! tokio::spawn(async move {
//!     synced.ready();
//!     heartbeat.beat(tokio::time::Instant::now());
//!     stop.await;
//!     drop(worker);
//! });
//!
//! drain.signal().await;
//! drain.wait(Duration::from_secs(20)).await?;
//! serving.await?;
//! # Ok(())
//! # }
//! ```

pub mod drain;
pub mod health;
pub mod listener;
pub mod logs;
pub mod metrics;
pub mod server;

pub use drain::{Drain, DrainGuard, SignalError, StillRunning};
pub use health::{Check, Condition, Heartbeat, Liveness, Readiness, ReadyGate, Report};
pub use listener::{Listener, ServerError};
pub use logs::{LogError, LogFormat, OncePer};
pub use metrics::{AdmissionMetrics, AdmissionVerdict, Metrics, Registry};
pub use server::{Endpoints, Server, ServerOptions};

/// What every part of one process shares. A cheap handle.
#[derive(Clone, Debug)]
pub struct Shell {
    /// Where figures go.
    pub metrics: Metrics,
    /// Where a part says that it is ready, and for what it waits.
    pub readiness: Readiness,
    /// Where it shows that it lives.
    pub liveness: Liveness,
    /// When to end, and who is still busy then.
    pub drain: Drain,
}

impl Shell {
    /// The shell of a process of this version, with no gates and no heartbeats yet.
    #[must_use]
    pub fn new(version: &str) -> Self {
        Shell {
            metrics: Metrics::new(version),
            readiness: Readiness::new(),
            liveness: Liveness::new(),
            drain: Drain::new(),
        }
    }
}
