//! The controller: keeps `status.used` of every ResourceQuota right.
//!
//! It takes the place of kube-controller-manager's `resourcequota-controller` (v1.37). [`kubequota_core::accounts`] decides; here are the
//! hands: monitors feed it (`quotas`, `replenishment`, `kinds`), two queues of quotas hand out work (`queue`), workers carry plans
//! out (`sync`), and timers see to what comes with no event (`resync`, `expiry`). [`start::run`] puts them together.

mod dry_run;
mod expiry;
mod kinds;
mod options;
mod queue;
mod quotas;
mod replenishment;
mod resync;
pub mod start;
mod state;
mod sync;

pub use options::Options;
pub use start::{run, run_and_feed};
