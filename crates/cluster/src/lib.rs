//! Everything that talks to a kube-apiserver, and nothing that knows a rule of quotas.
//!
//! A [`Cluster`] is a cheap handle on one server: its calls carry a deadline, wait for the client's own rate limit, are
//! never retried behind the caller's back, and tell the server's time by the way ([`ServerClock`]). On it stand
//! [`discovery`], single [`get`]s, consistent [`list`]s, [`watch`]es from a revision, the [`monitor`] that lists and
//! watches one resource for ever, the only [`writer`] of a quota's status, and whole [`object`]s that are one's own.
//!
//! Lists and watches are decoded by `kubequota-wire` from bytes, so that one bad object can't fail a page; kube-rs
//! gives configuration, credentials, TLS and HTTP.
//!
//! ```
//! use std::time::Duration;
//!
//! use kubequota_cluster::{ApiResource, ClientOptions, Cluster, Monitor, MonitorOptions};
//! use kubequota_cluster::{StatusWriter, Update, WriteOutcome};
//! use kubequota_core::accounts::StatusWrite;
//! use kubequota_core::{QuotaKey, ResourceList};
//! use kubequota_testserver::TestServer;
//! use kubequota_wire::json::Quotas;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::new();
//! let metadata = json!({"namespace": "a", "name": "q"});
//! let spec = json!({"hard": {"pods": "3"}});
//! server.create(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}))?;
//! // A real server: Cluster::connect(&options, |_host| tower::layer::util::Identity::new()).await?
//! let cluster = Cluster::from_client(kube::Client::new(server.router(), "default"), &ClientOptions::default());
//!
//! let (sender, mut updates) = tokio::sync::mpsc::channel(16);
//! let quotas = ApiResource::resource_quotas().into();
//! let monitor = Monitor::new(cluster.clone(), &quotas, None, Quotas, MonitorOptions::default()).spawn(sender);
//! let mut found = Vec::new();
//! while let Some(update) = updates.recv().await {
//!     match update {
//!         Update::Page(_, quotas) => found.extend(quotas.into_iter().filter_map(|(_, quota)| quota.ok())),
//!         Update::ListEnded(_) => break,
//!         _ => {}
//!     }
//! }
//! assert!(monitor.status().synced);
//!
//! let hard = found[0].spec.hard.clone();
//! let write = StatusWrite {
//!     quota: QuotaKey::new("a", "q"),
//!     resource_version: found[0].resource_version.clone(),
//!     used: hard.iter().map(|(name, _)| (name.clone(), 0.into())).collect::<ResourceList>(),
//!     hard,
//!     gone_from_hard: Vec::new(),
//!     gone_from_used: Vec::new(),
//!     last_charges: None,
//! };
//! let outcome = StatusWriter::new(cluster).write(&write, Duration::from_secs(10)).await;
//! assert!(matches!(outcome, WriteOutcome::Landed { .. }));
//! # Ok(())
//! # }
//! ```

pub mod backoff;
pub mod client;
pub mod clock;
pub mod discovery;
pub mod error;
pub mod get;
mod limit;
mod lines;
pub mod list;
pub mod monitor;
pub mod object;
pub mod quotas;
mod reach;
pub mod resource;
#[cfg(test)]
mod testing;
pub mod watch;
pub mod writer;

pub use client::{ClientOptions, Cluster, ConnectError};
pub use clock::ServerClock;
pub use discovery::{Discovery, Served};
pub use error::{ApiError, Call};
pub use list::{List, Listed, Page};
pub use monitor::{Failure, Monitor, MonitorHandle, MonitorOptions, MonitorState, MonitorStatus, Sink, Update};
pub use quotas::{Known, QuotaCache};
pub use resource::{ApiResource, Versions};
pub use watch::{Watch, WatchOptions};
pub use writer::{StatusWriter, WriteOutcome};
