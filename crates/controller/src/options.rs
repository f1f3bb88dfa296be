//! What the controller can be told, under the names of kube-controller-manager's flags.

use std::time::Duration;

/// The controller's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--concurrent-resource-quota-syncs`: so many workers for each queue.
    pub concurrent_syncs: usize,
    /// `--resource-quota-sync-period`: everything is recounted this often; zero turns that off.
    pub sync_period: Duration,
    /// `--admission-grace`: an admitted create is stored within this time of its charge, or never.
    pub admission_grace: Duration,
    /// Where kubequota's webhook enforces: how long new limits wait for its word that it is asked for them, before they are put into force
    /// without.
    pub enforcement_patience: Option<Duration>,
    /// Kinds are discovered anew this often, beside when CustomResourceDefinitions or APIServices change.
    pub discovery_period: Duration,
    /// How long one status write may take.
    pub write_timeout: Duration,
    /// `--dry-run`: compute and export, write nothing.
    pub dry_run: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            concurrent_syncs: 5,
            sync_period: Duration::from_secs(300),
            admission_grace: Duration::from_secs(10),
            enforcement_patience: None,
            discovery_period: Duration::from_secs(30),
            write_timeout: Duration::from_secs(10),
            dry_run: false,
        }
    }
}
