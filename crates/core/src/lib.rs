//! The rules of Kubernetes ResourceQuota (v1.37), pure.
//!
//! What an object costs, which quotas it counts in, what a namespace uses, and what a quota's `status` should say. Nothing here does I/O,
//! waits, or looks at a clock: time and lookups are arguments, so every rule can be tested with a table and driven by a model.
//!
//! How data flows: an object's narrow view ([`evaluators::View`]) is charged by its [`Evaluator`]; the [`Charge`] goes into the [`ledger`],
//! which keeps one charge per object and running sums per quota; [`pending`] knows what admission has raised and no watch has shown
//! yet; [`accounts`] joins the two and says what to write, when to list, and when to wait. [`decision`] judges a request against the quotas
//! of its namespace, from the same charges. [`usage`] recounts from charges and is the
//! ledger's oracle; the tools that read files use it alone.

pub mod accounts;
pub mod decision;
pub mod evaluator;
pub mod evaluators;
pub mod inventory;
pub mod ledger;
pub mod object;
pub mod pending;
pub mod quota;
pub mod registry;
pub mod resource_list;
pub mod scope;
pub mod usage;

pub use evaluator::{Assessment, Charge, Context, Evaluator, GroupResource};
pub use kubequota_quantity::Quantity;
pub use object::{FieldError, Metadata, Object, ObjectId, Revision};
pub use quota::{Quota, QuotaKey};
pub use registry::Registry;
pub use resource_list::{ResourceList, ResourceName};
