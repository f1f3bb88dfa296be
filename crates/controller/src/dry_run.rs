//! Dry run: what would be written is exported and logged, and nothing is written.

use std::collections::HashMap;

use kubequota_core::accounts::StatusWrite;
use kubequota_core::{Quota, QuotaKey, ResourceList};
use kubequota_shell::metrics::Registry;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::AtomicU64;
use tokio::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    resourcequota: String,
    resource: String,
}

impl Labels {
    fn new(key: &QuotaKey, resource: &str) -> Self {
        let (namespace, resourcequota) = (key.namespace.to_string(), key.name.to_string());
        Labels {
            namespace,
            resourcequota,
            resource: resource.to_owned(),
        }
    }
}

type Values = Family<Labels, Gauge<f64, AtomicU64>>;

/// The exported figures of each quota.
pub(crate) struct DryRun {
    computed: Values,
    recorded: Values,
    /// The names exported for each quota, to take away those that are gone.
    exported: Mutex<HashMap<QuotaKey, ResourceList>>,
    /// Since when the two have differed.
    differing: Mutex<HashMap<QuotaKey, Instant>>,
}

impl DryRun {
    pub(crate) fn new(registry: &Registry) -> Self {
        let (computed, recorded) = (Values::default(), Values::default());
        registry.register(
            "kubequota_dry_run_computed_used",
            "What status.used would be set to, by quota and name",
            computed.clone(),
        );
        registry.register(
            "kubequota_dry_run_recorded_used",
            "What status.used says, by quota and name",
            recorded.clone(),
        );
        DryRun {
            computed,
            recorded,
            exported: Mutex::default(),
            differing: Mutex::default(),
        }
    }

    /// Exports a quota's figures: what would be written, or where nothing would be, what is recorded.
    pub(crate) fn export(&self, quota: &Quota, write: Option<&StatusWrite>) {
        let recorded = quota.status.used.clone().unwrap_or_default();
        let computed = write.map_or_else(|| recorded.clone(), |write| write.used.clone());
        for (name, value) in &computed {
            self.computed
                .get_or_create(&Labels::new(&quota.key, name.as_str()))
                .set(value.to_f64());
        }
        for (name, value) in &recorded {
            self.recorded
                .get_or_create(&Labels::new(&quota.key, name.as_str()))
                .set(value.to_f64());
        }
        let before = self.exported.lock().insert(quota.key.clone(), computed.max(&recorded));
        for name in before.iter().flat_map(ResourceList::names) {
            let labels = Labels::new(&quota.key, name.as_str());
            if !computed.contains(name.as_str()) {
                self.computed.remove(&labels);
            }
            if !recorded.contains(name.as_str()) {
                self.recorded.remove(&labels);
            }
        }
    }

    /// Notes whether a quota's status differs from what would be written, and since when it does.
    pub(crate) fn differs_since(&self, key: &QuotaKey, differs: bool) -> Option<Instant> {
        let mut differing = self.differing.lock();
        if differs {
            Some(*differing.entry(key.clone()).or_insert_with(Instant::now))
        } else {
            differing.remove(key);
            None
        }
    }

    /// Takes a quota's figures away.
    pub(crate) fn gone(&self, key: &QuotaKey) {
        self.differing.lock().remove(key);
        for name in self.exported.lock().remove(key).iter().flat_map(ResourceList::names) {
            let labels = Labels::new(key, name.as_str());
            self.computed.remove(&labels);
            self.recorded.remove(&labels);
        }
    }
}
