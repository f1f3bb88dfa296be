//! Enforcement: refuses what would exceed a quota, in place of kube-apiserver's built-in ResourceQuota plugin, as a validating webhook.
//!
//! `serve` takes reviews over HTTPS with the certificates of `certificates`; `configuration` has the API server send them.

mod batch;
mod case;
pub mod certificates;
pub mod configuration;
mod device_classes;
pub mod engine;
pub mod handler;
mod plan;
pub mod serve;
pub mod start;
