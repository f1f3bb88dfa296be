//! Quotas as the watch shows them.

use std::collections::HashSet;

use kubequota_cluster::monitor::{Failure, Sink, Update};
use kubequota_core::accounts::Sighting;
use kubequota_core::{FieldError, Metadata, Quota, QuotaKey};
use kubequota_shell::ReadyGate;

use crate::state::Shared;

/// Takes what the monitor of resourcequotas tells.
pub(crate) struct QuotaSink {
    state: Shared,
    ready: ReadyGate,
    /// The quotas that the list under way has shown.
    seen: HashSet<QuotaKey>,
}

type Read = (Metadata, Result<Quota, FieldError>);

impl QuotaSink {
    pub(crate) fn new(state: Shared) -> Self {
        let ready = state.readiness.register("quotas listed");
        QuotaSink {
            state,
            ready,
            seen: HashSet::new(),
        }
    }

    fn see(&self, (metadata, quota): Read, sighting: Sighting) {
        match quota {
            Ok(quota) => self
                .state
                .update(|accounts, now, _| accounts.quota_seen(quota, sighting, now)),
            Err(error) => self.state.trouble(
                &format!("quota {}", metadata.display_name()),
                &format!("can't be read, nothing is written to it: {error}"),
            ),
        }
    }

    fn gone(&self, key: &QuotaKey) {
        self.state.update(|accounts, _, _| accounts.quota_gone(key));
        self.state.succeeded(key);
        self.state.settled(key);
        if let Some(dry_run) = &self.state.dry_run {
            dry_run.gone(key);
        }
    }
}

fn key(metadata: &Metadata) -> QuotaKey {
    QuotaKey::new(&metadata.namespace, &metadata.name)
}

impl Sink<Read> for QuotaSink {
    async fn handle(&mut self, update: Update<Read>) {
        match update {
            Update::ListBegan(_) => self.seen.clear(),
            Update::Page(_, quotas) => {
                for read in quotas {
                    self.seen.insert(key(&read.0));
                    self.see(read, Sighting::Listed);
                }
            }
            Update::ListEnded(_) => {
                let known = self
                    .state
                    .read(|accounts| accounts.quotas().map(|quota| quota.key.clone()).collect::<Vec<_>>());
                for gone in known.iter().filter(|key| !self.seen.contains(*key)) {
                    self.gone(gone);
                }
                self.seen = HashSet::new();
                self.ready.ready();
                self.state.readiness.clear(WATCH);
                self.state.quotas_listed.notify_one();
            }
            Update::Applied(read) => self.see(read, Sighting::Event),
            Update::Deleted((metadata, _)) => self.gone(&key(&metadata)),
            Update::Bookmark(_) => {}
            Update::Failed(Failure { error, .. }) => self.state.readiness.degraded(WATCH, error.to_string()),
            Update::Recovered => self.state.readiness.clear(WATCH),
        }
    }
}

const WATCH: &str = "quotas watched";
