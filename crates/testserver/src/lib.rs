//! An in-memory Kubernetes API server in this process, for tests that need no cluster: wire-true where controllers look,
//! and with faults on demand. For tests and demos, never for production.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::api::{Api, ListParams};
//! use kubequota_testserver::{Action, Fault, TestServer};
//! use serde_json::json;
//!
//! let server = TestServer::new();
//! server.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}))?;
//! server.fault(Fault::new(Action::Unavailable).verb("list").resource("pods").once());
//!
//! let pods: Api<Pod> = Api::all(kube::Client::new(server.router(), "default"));
//! assert!(pods.list(&ListParams::default()).await.is_err());
//! assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 1);
//! assert_eq!(server.request_count("list", "pods"), 2);
//! # Ok(())
//! # }
//! ```

mod admitter;
mod apply;
mod clock;
mod defaults;
mod discovery;
mod faults;
mod handlers;
mod jsonpath;
mod kinds;
mod list;
mod listen;
mod names;
mod object;
mod openapi;
mod patch;
mod pod_update;
mod protobuf;
mod quota_plugin;
mod random;
mod render;
mod request;
mod schema;
mod selector;
mod server;
mod status;
mod store;
mod strategic;
mod subresource;
mod table;
mod unknown;
mod watch;
mod webhook;

pub use admitter::{Admitter, Decision, DecisionFuture, Review};
pub use faults::{Action, Fault, FaultId};
pub use kinds::{GroupHealth, GroupResource, Kind};
pub use listen::Listening;
pub use quota_plugin::QuotaPlugin;
pub use request::RequestInfo;
pub use server::{Builder, TestServer};
pub use status::Status;
pub use watch::WatchMode;
