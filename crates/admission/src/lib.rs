//! Enforcement: refuses what would exceed a quota, in place of kube-apiserver's built-in ResourceQuota plugin, as a validating webhook.
//!
//! [`kubequota_core::decision`] judges; here is what it takes to ask it. A review comes in over HTTPS ([`serve`], with the certificates of
//! [`certificates`]) and is read ([`handler`]). The [`engine`] makes a case of it (`case`) and lets it wait for its namespace's next batch
//! (`batch`), which plans (`plan`), charges and answers. [`configuration`] has the API server send reviews, `device_classes` follows what
//! claims depend on, and [`start`] puts all of it together. docs/architecture.md has the whole way.

mod batch;
mod case;
pub mod certificates;
pub mod configuration;
mod device_classes;
pub mod engine;
pub mod handler;
mod last_charges;
mod plan;
pub mod serve;
pub mod start;
