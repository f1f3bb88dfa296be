//! What the tools answer, pure: objects in, findings out. Reading files or clusters and printing are done by the caller.
//!
//! [`audit`] compares what quotas have recorded with what their objects come to; [`files`] feeds it from files, where kinds have yet
//! to be told apart with the help of [`kinds`].

pub mod audit;
pub mod files;
pub mod kinds;
mod problem;

pub use audit::{Audit, Auditor, Drift, QuotaAudit, Resource};
pub use files::Files;
pub use kinds::Served;
pub use problem::Problem;
