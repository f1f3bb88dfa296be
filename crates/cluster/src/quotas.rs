//! Quotas by namespace, as the watch shows them and as one's own writes left them.
//!
//! A write is answered before the watch shows it, so its result is taken in at once: whoever reads the cache next does not judge by what
//! was true before. Nothing here ever goes back to an older revision.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use kubequota_core::object::Revision;
use kubequota_core::{FieldError, Metadata, Quota, QuotaKey, ResourceList};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::monitor::{Sink, Update};

/// A quota as it is known.
#[derive(Clone, Debug)]
pub struct Known {
    /// The quota, or why it can't be read.
    pub quota: Result<Arc<Quota>, FieldError>,
    /// What is known of it is what an own write left: nobody has changed it since, as far as the watch has shown.
    pub own_write: bool,
    revision: Option<Revision>,
}

impl Known {
    /// Whether the other limits the same names.
    fn limits_as(&self, other: &Known) -> bool {
        match (&self.quota, &other.quota) {
            (Ok(a), Ok(b)) => {
                let (in_force_a, in_force_b) = (a.status.hard.iter(), b.status.hard.iter());
                a.spec.hard.names().eq(b.spec.hard.names())
                    && in_force_a
                        .flat_map(ResourceList::names)
                        .eq(in_force_b.flat_map(ResourceList::names))
                    && a.problems == b.problems
            }
            (a, b) => a.is_err() && b.is_err(),
        }
    }
}

type Read = (Metadata, Result<Quota, FieldError>);

/// All quotas of a cluster.
#[derive(Debug)]
pub struct QuotaCache {
    quotas: RwLock<Quotas>,
    limits_changed: watch::Sender<u64>,
    synced: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Quotas {
    by_namespace: HashMap<Arc<str>, BTreeMap<Arc<str>, Known>>,
    /// The newest revision that the watch has shown: what is unknown and not newer is gone.
    position: Option<Revision>,
    /// Grows whenever a quota comes, goes, or limits other names.
    limits: u64,
}

impl Default for QuotaCache {
    fn default() -> Self {
        QuotaCache {
            quotas: RwLock::default(),
            limits_changed: watch::Sender::new(0),
            synced: watch::Sender::new(false),
        }
    }
}

impl QuotaCache {
    /// An empty cache, to be fed by a monitor of resourcequotas through [`QuotaCache::sink`].
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Whether a list of all quotas has been taken in.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Tells when [`QuotaCache::is_synced`] changes.
    #[must_use]
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Tells when a quota has come or gone, or limits other names than before.
    #[must_use]
    pub fn limits_changes(&self) -> watch::Receiver<u64> {
        self.limits_changed.subscribe()
    }

    /// The quotas of a namespace, by name.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<(QuotaKey, Known)> {
        let quotas = self.quotas.read();
        let Some((namespace, known)) = quotas.by_namespace.get_key_value(namespace) else {
            return Vec::new();
        };
        let key = |name: &Arc<str>| QuotaKey {
            namespace: namespace.clone(),
            name: name.clone(),
        };
        known.iter().map(|(name, known)| (key(name), known.clone())).collect()
    }

    /// Calls with every quota that can be read.
    pub fn for_each(&self, mut look: impl FnMut(&Quota)) {
        let quotas = self.quotas.read();
        let all = quotas.by_namespace.values().flat_map(BTreeMap::values);
        for quota in all.filter_map(|known| known.quota.as_ref().ok()) {
            look(quota);
        }
    }

    /// An own write has landed and left this.
    pub fn landed(&self, quota: Quota) {
        self.change(|quotas| {
            let key = quota.key.clone();
            let known = Known {
                revision: Revision::parse(&quota.resource_version),
                quota: Ok(Arc::new(quota)),
                own_write: true,
            };
            quotas.see(&key, known);
        });
    }

    /// A consistent list of the quotas of one namespace, of this revision.
    pub fn listed(&self, namespace: &str, revision: &str, listed: Vec<Read>) {
        let revision = Revision::parse(revision);
        let names: HashSet<String> = listed.iter().map(|(metadata, _)| metadata.name.clone()).collect();
        self.change(|quotas| {
            for read in listed {
                quotas.see_read(read);
            }
            quotas.forget(revision, |key| {
                &*key.namespace == namespace && !names.contains(&*key.name)
            });
        });
    }

    /// What feeds the cache from a monitor.
    #[must_use]
    pub fn sink(self: &Arc<Self>) -> QuotaCacheSink {
        QuotaCacheSink {
            cache: self.clone(),
            seen: HashSet::new(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Quotas)) {
        let limits = {
            let mut quotas = self.quotas.write();
            change(&mut quotas);
            quotas.limits
        };
        self.limits_changed.send_if_modified(|told| {
            // Another change may have told of this one already.
            let is_news = *told < limits;
            *told = limits.max(*told);
            is_news
        });
    }
}

impl Quotas {
    fn see_read(&mut self, (metadata, quota): Read) {
        let known = Known {
            quota: quota.map(Arc::new),
            own_write: false,
            revision: Revision::parse(&metadata.resource_version),
        };
        self.see(&key(&metadata), known);
    }

    /// Takes in what is newer than what is known.
    fn see(&mut self, key: &QuotaKey, known: Known) {
        let names = self.by_namespace.entry(key.namespace.clone()).or_default();
        let is_news = match names.get(&key.name) {
            // Revisions that can't be compared are taken in the order they come.
            Some(old) => known.revision.is_none() || known.revision > old.revision,
            // The answer to a write may come after the watch has shown the deletion that followed it.
            None => !known.own_write || known.revision.is_none() || known.revision > self.position,
        };
        if is_news {
            let old = names.get(&key.name);
            self.limits += u64::from(old.is_none_or(|old| !old.limits_as(&known)));
            names.insert(key.name.clone(), known);
        } else if names.is_empty() {
            self.by_namespace.remove(&key.namespace);
        }
    }

    /// Forgets those of these that are not newer than `revision`.
    fn forget(&mut self, revision: Option<Revision>, gone: impl Fn(&QuotaKey) -> bool) {
        let mut changed = false;
        self.by_namespace.retain(|namespace, names| {
            names.retain(|name, known| {
                let key = QuotaKey {
                    namespace: namespace.clone(),
                    name: name.clone(),
                };
                let newer = known.revision.is_some() && known.revision > revision;
                let kept = newer || !gone(&key);
                changed |= !kept;
                kept
            });
            !names.is_empty()
        });
        self.limits += u64::from(changed);
    }

    fn forget_one(&mut self, key: &QuotaKey, revision: Option<Revision>) {
        let Some(names) = self.by_namespace.get_mut(&key.namespace) else {
            return;
        };
        let newer = |known: &Known| known.revision.is_some() && known.revision > revision;
        if names.get(&key.name).is_none_or(newer) {
            return;
        }
        names.remove(&key.name);
        if names.is_empty() {
            self.by_namespace.remove(&key.namespace);
        }
        self.limits += 1;
    }

    fn advance(&mut self, revision: &str) -> Option<Revision> {
        let revision = Revision::parse(revision);
        self.position = self.position.max(revision);
        revision
    }
}

fn key(metadata: &Metadata) -> QuotaKey {
    QuotaKey::new(&metadata.namespace, &metadata.name)
}

/// Feeds a [`QuotaCache`].
#[derive(Debug)]
pub struct QuotaCacheSink {
    cache: Arc<QuotaCache>,
    /// The quotas that the list under way has shown.
    seen: HashSet<QuotaKey>,
}

impl Sink<Read> for QuotaCacheSink {
    async fn handle(&mut self, update: Update<Read>) {
        match update {
            Update::ListBegan(_) => self.seen.clear(),
            Update::Page(_, page) => {
                self.seen.extend(page.iter().map(|(metadata, _)| key(metadata)));
                self.cache
                    .change(|quotas| page.into_iter().for_each(|read| quotas.see_read(read)));
            }
            Update::ListEnded(listed) => {
                let seen = std::mem::take(&mut self.seen);
                self.cache.change(|quotas| {
                    let revision = quotas.advance(&listed.revision);
                    quotas.forget(revision, |key| !seen.contains(key));
                });
                self.cache.synced.send_replace(true);
            }
            Update::Applied(read) => self.cache.change(|quotas| {
                quotas.advance(&read.0.resource_version);
                quotas.see_read(read);
            }),
            Update::Deleted((metadata, _)) => self.cache.change(|quotas| {
                let revision = quotas.advance(&metadata.resource_version);
                let gone = key(&metadata);
                quotas.forget_one(&gone, revision);
            }),
            Update::Bookmark(revision) => {
                self.cache.quotas.write().advance(&revision);
            }
            // What is known stays good: every write is guarded by its revision.
            Update::Failed(_) | Update::Recovered => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use kubequota_wire::json::{Quotas as QuotaShape, Shape as _};
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::list::Listed;

    fn read(name: &str, revision: &str) -> Read {
        let object = json!({"metadata": {"namespace": "a", "name": name, "resourceVersion": revision}});
        QuotaShape.read(object.to_string().as_str()).unwrap()
    }

    fn own(name: &str, revision: &str) -> Quota {
        read(name, revision).1.unwrap()
    }

    fn listed(revision: &str) -> Listed {
        Listed {
            revision: revision.to_owned(),
            sent_at: Instant::now(),
        }
    }

    /// What is known: name, revision, and `!` where it is an own write.
    fn known(cache: &QuotaCache) -> String {
        let known = cache.in_namespace("a").into_iter().map(|(key, known)| {
            let own = if known.own_write { "!" } else { "" };
            format!("{}{}{own}", key.name, known.quota.unwrap().resource_version)
        });
        known.collect::<Vec<_>>().join(" ")
    }

    async fn start(revision: &str, quotas: &[Read]) -> (Arc<QuotaCache>, QuotaCacheSink) {
        let cache = QuotaCache::new();
        let mut sink = cache.sink();
        for update in [
            Update::ListBegan(listed(revision)),
            Update::Page(listed(revision), quotas.to_vec()),
        ] {
            sink.handle(update).await;
        }
        assert!(!cache.is_synced());
        sink.handle(Update::ListEnded(listed(revision))).await;
        assert!(cache.is_synced());
        (cache, sink)
    }

    #[tokio::test]
    async fn a_list_and_events() {
        let (cache, mut sink) = start("5", &[read("q", "3"), read("r", "4")]).await;
        assert_eq!(known(&cache), "q3 r4");
        sink.handle(Update::Applied(read("q", "7"))).await;
        assert_eq!(known(&cache), "q7 r4");
        sink.handle(Update::Applied(read("q", "6"))).await;
        sink.handle(Update::Deleted(read("s", "8"))).await;
        assert_eq!(known(&cache), "q7 r4", "nothing new came");
        sink.handle(Update::Deleted(read("r", "9"))).await;
        assert_eq!(known(&cache), "q7");
        let mut names = Vec::new();
        cache.for_each(|quota| names.push(quota.key.to_string()));
        assert_eq!(names, ["a/q"]);
        // A relist forgets what it does not show, and nothing that is newer.
        cache.landed(own("new", "20"));
        sink.handle(Update::ListBegan(listed("12"))).await;
        sink.handle(Update::ListEnded(listed("12"))).await;
        assert_eq!(known(&cache), "new20!");
    }

    #[tokio::test]
    async fn own_writes_are_known_at_once_and_never_brought_back() {
        let (cache, mut sink) = start("5", &[read("q", "3")]).await;
        cache.landed(own("q", "8"));
        assert_eq!(known(&cache), "q8!");
        // The watch shows it, and older changes before it.
        sink.handle(Update::Applied(read("q", "7"))).await;
        sink.handle(Update::Applied(read("q", "8"))).await;
        assert_eq!(known(&cache), "q8!");
        sink.handle(Update::Applied(read("q", "9"))).await;
        cache.landed(own("q", "8"));
        assert_eq!(known(&cache), "q9");
        sink.handle(Update::Deleted(read("q", "11"))).await;
        cache.landed(own("q", "10"));
        assert_eq!(known(&cache), "", "the quota was deleted after that write");
        cache.landed(own("q", "12"));
        assert_eq!(known(&cache), "q12!");
        sink.handle(Update::Deleted(read("q", "11"))).await;
        assert_eq!(known(&cache), "q12!", "another quota of that name");
    }

    #[tokio::test]
    async fn a_list_of_one_namespace() {
        let (cache, _sink) = start("5", &[read("q", "3"), read("r", "4")]).await;
        cache.landed(own("r", "9"));
        cache.landed(own("s", "10"));
        cache.listed("a", "9", vec![read("q", "6"), read("r", "7")]);
        assert_eq!(known(&cache), "q6 r9! s10!");
        cache.listed("a", "11", Vec::new());
        assert_eq!(known(&cache), "");
        cache.listed("other", "12", Vec::new());
    }

    #[tokio::test]
    async fn changes_of_what_is_limited() {
        let (cache, mut sink) = start("5", &[read("q", "3")]).await;
        let mut changes = cache.limits_changes();
        let quota = |name: &str, revision: &str, spec: &str, in_force: &str| {
            let list = |names: &str| {
                names
                    .split_whitespace()
                    .map(|name| (name.to_owned(), json!("1")))
                    .collect::<serde_json::Map<_, _>>()
            };
            let object = json!({
                "metadata": {"namespace": "a", "name": name, "resourceVersion": revision},
                "spec": {"hard": list(spec)}, "status": {"hard": list(in_force), "used": {"pods": revision}},
            });
            QuotaShape.read(object.to_string().as_str()).unwrap()
        };
        for (update, told) in [
            (Update::Applied(quota("q", "6", "pods", "")), true),
            (Update::Applied(quota("q", "7", "pods", "pods")), true),
            (Update::Applied(quota("q", "8", "pods", "pods")), false),
            (Update::Applied(quota("q", "9", "services", "pods")), true),
            (Update::Applied(quota("q", "10", "services", "services")), true),
            (Update::Applied(quota("r", "11", "services", "services")), true),
            (Update::Applied(quota("q", "9", "pods", "pods")), false),
            (Update::Deleted(quota("s", "12", "", "")), false),
            (Update::Deleted(quota("q", "13", "", "")), true),
            (Update::ListBegan(listed("14")), false),
            (
                Update::Page(listed("14"), vec![quota("r", "11", "services", "services")]),
                false,
            ),
            (Update::ListEnded(listed("14")), false),
            (Update::ListBegan(listed("15")), false),
            (Update::ListEnded(listed("15")), true),
        ] {
            let what = format!("{update:?}");
            sink.handle(update).await;
            assert_eq!(changes.has_changed().unwrap(), told, "{what}");
            changes.mark_unchanged();
        }
    }

    #[tokio::test]
    async fn a_quota_that_can_not_be_read_is_known_as_such() {
        let object = json!({"metadata": {"namespace": "a", "name": "q", "resourceVersion": "6"}, "spec": 5});
        let unreadable = QuotaShape.read(object.to_string().as_str()).unwrap();
        let (cache, _sink) = start("7", &[unreadable]).await;
        let error = cache.in_namespace("a").remove(0).1.quota.unwrap_err();
        assert_eq!(error.field, "spec");
    }
}
