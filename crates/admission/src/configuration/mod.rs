//! The ValidatingWebhookConfiguration: which requests the API server has reviewed, kept as quotas need it.
//!
//! - [`address`](Address): where the API server finds the webhook;
//! - `reach`, pure: from the names that quotas and limits use to the requests that must be reviewed, and from these to
//!   webhooks and back;
//! - `linger`, pure: what is no longer needed stays a while;
//! - [`keep`]: writes what is to be written, and notices what others do;
//! - `proof`: says on quotas that are new that they are enforced, once that has been seen.
//!
//! # Break-glass
//! Deleting the configuration turns enforcement off, until someone turns it on again: kubequota remembers in a ConfigMap
//! ([`RECORD`], in its own namespace) that it has made it, and does not make it again while that ConfigMap is there.
//!
//! ```text
//! kubectl delete validatingwebhookconfiguration kubequota             # off
//! kubectl -n kubequota-system delete configmap kubequota-webhook      # on again
//! ```
//!
//! Since it is remembered in the cluster, it holds over restarts and for all replicas. In a namespace that is being
//! deleted nothing can be remembered, so an uninstallation is not undone by the last replica.

mod address;
mod linger;
mod proof;
mod reach;
#[cfg(test)]
mod tests;
mod upkeep;

use std::path::Path;
use std::sync::Arc;

use kubequota_cluster::{Cluster, QuotaCache};
use kubequota_core::decision::LimitedResources;
use kubequota_shell::Readiness;
use tokio::sync::watch;

use crate::certificates::Current;

pub use address::{Address, AddressError};
pub use reach::{CLAIM_STATUS_WEBHOOK, PROBE_WEBHOOK, WEBHOOK};
pub use upkeep::keep;

/// The ConfigMap that remembers that the configuration was made.
pub const RECORD: &str = "kubequota-webhook";

/// Where a pod finds the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// How the configuration is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--manage-webhook`: otherwise somebody else keeps the configuration, and nothing is read or written here.
    pub manage: bool,
    /// The name of the configuration.
    pub name: String,
    /// Where the API server finds the webhook.
    pub address: Address,
    /// kubequota's own namespace: nothing in it is ever reviewed, and [`RECORD`] is kept there.
    pub namespace: String,
}

impl Options {
    /// The usual: a configuration that is kept, named `kubequota`, in [`own_namespace`].
    #[must_use]
    pub fn new(address: Address) -> Self {
        Options {
            manage: true,
            name: "kubequota".to_owned(),
            address,
            namespace: own_namespace(),
        }
    }
}

/// The namespace of this pod; outside of pods `kubequota-system`.
#[must_use]
pub fn own_namespace() -> String {
    namespace_in(Path::new(NAMESPACE_FILE))
}

fn namespace_in(file: &Path) -> String {
    let told = std::fs::read_to_string(file).unwrap_or_default();
    match told.trim() {
        "" => "kubequota-system".to_owned(),
        name => name.to_owned(),
    }
}

/// What the configuration follows.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The server.
    pub cluster: Cluster,
    /// The quotas, fed by a monitor.
    pub quotas: Arc<QuotaCache>,
    /// What may only be used under a quota.
    pub limited: LimitedResources,
    /// What callers should trust: [`Certificates::changes`](crate::certificates::Certificates::changes).
    pub certificates: watch::Receiver<Current>,
    /// Where it is shown that enforcement is off, or that the configuration can't be kept.
    pub readiness: Readiness,
}
