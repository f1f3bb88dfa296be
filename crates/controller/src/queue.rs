//! A work queue of quotas, with the habits of client-go's: a key is queued once, and in one worker's hands at a time; what is added
//! meanwhile is handed out again when that worker is done.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kubequota_core::QuotaKey;
use kubequota_shell::metrics::{Work, Workqueue};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A queue; clones share it.
#[derive(Clone)]
pub(crate) struct Queue(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    changed: Notify,
    metrics: Workqueue,
}

#[derive(Default)]
struct State {
    order: VecDeque<QuotaKey>,
    /// Keys to be handed out, with the moment they were added; those in a worker's hands are here but not in `order`.
    waiting: HashMap<QuotaKey, Instant>,
    processing: HashSet<QuotaKey>,
    /// Keys to be added later, and the moment for each.
    later: BTreeSet<(Instant, QuotaKey)>,
    moments: HashMap<QuotaKey, Instant>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(metrics: Workqueue) -> Self {
        Queue(Arc::new(Inner {
            state: Mutex::default(),
            changed: Notify::new(),
            metrics,
        }))
    }

    /// Hands `key` out as soon as a worker is free.
    pub(crate) fn add(&self, key: QuotaKey) {
        let mut state = self.0.state.lock();
        state.add(key, Instant::now(), &self.0.metrics);
        drop(state);
        self.0.changed.notify_one();
    }

    /// Adds `key` at that moment. Of several moments the earliest counts.
    pub(crate) fn add_at(&self, key: QuotaKey, at: Instant) {
        let mut state = self.0.state.lock();
        if state.moments.get(&key).is_some_and(|earlier| *earlier <= at) {
            return;
        }
        if let Some(later) = state.moments.insert(key.clone(), at) {
            state.later.remove(&(later, key.clone()));
        }
        state.later.insert((at, key));
        drop(state);
        self.0.changed.notify_one();
    }

    /// Notes that what is added next is a retry.
    pub(crate) fn retried(&self) {
        self.0.metrics.retried();
    }

    /// The next key, when there is one; `None` once the queue is closed and empty.
    pub(crate) async fn get(&self) -> Option<Item> {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            // From here on a change is not missed, though nothing waits for it yet.
            changed.as_mut().enable();
            let next_moment = {
                let mut state = self.0.state.lock();
                let now = Instant::now();
                state.add_due(now, &self.0.metrics);
                if let Some(key) = state.order.pop_front() {
                    let added = state.waiting.remove(&key).unwrap_or(now);
                    state.processing.insert(key.clone());
                    let work = self.0.metrics.taken(now - added, state.order.len());
                    let more = !state.order.is_empty();
                    drop(state);
                    if more {
                        self.0.changed.notify_one();
                    }
                    return Some(Item {
                        key,
                        queue: self.clone(),
                        _work: work,
                    });
                }
                if state.closed {
                    drop(state);
                    self.0.changed.notify_one();
                    return None;
                }
                state.later.first().map(|(at, _)| *at)
            };
            match next_moment {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// No more is handed out than is queued now.
    pub(crate) fn close(&self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        state.later.clear();
        state.moments.clear();
        drop(state);
        self.0.changed.notify_one();
    }
}

impl State {
    fn add(&mut self, key: QuotaKey, now: Instant, metrics: &Workqueue) {
        if self.closed || self.waiting.contains_key(&key) {
            return;
        }
        self.waiting.insert(key.clone(), now);
        if !self.processing.contains(&key) {
            self.order.push_back(key);
        }
        metrics.added(self.order.len());
    }

    fn add_due(&mut self, now: Instant, metrics: &Workqueue) {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.later.pop_first() {
                self.moments.remove(&key);
                self.add(key, now, metrics);
            }
        }
    }
}

/// A key in a worker's hands, until it is dropped.
pub(crate) struct Item {
    pub(crate) key: QuotaKey,
    queue: Queue,
    /// Measures how long the work takes.
    _work: Work,
}

impl Drop for Item {
    fn drop(&mut self) {
        let mut state = self.queue.0.state.lock();
        state.processing.remove(&self.key);
        if state.waiting.contains_key(&self.key) {
            state.order.push_back(self.key.clone());
            drop(state);
            self.queue.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn queue() -> Queue {
        Queue::new(kubequota_shell::Metrics::new("test").workqueue.queue("test"))
    }

    fn key(name: &str) -> QuotaKey {
        QuotaKey::new("ns", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_handed_out_once_and_again_if_added_meanwhile() {
        let queue = queue();
        queue.add(key("a"));
        queue.add(key("a"));
        queue.add(key("b"));
        let a = queue.get().await.unwrap();
        assert_eq!(a.key, key("a"));
        queue.add(key("a"));
        assert_eq!(queue.get().await.unwrap().key, key("b"));
        assert!(
            tokio::time::timeout(Duration::from_secs(60), queue.get())
                .await
                .is_err(),
            "a is in a worker's hands"
        );
        drop(a);
        assert_eq!(queue.get().await.unwrap().key, key("a"));
        assert!(
            tokio::time::timeout(Duration::from_secs(60), queue.get())
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_comes_at_its_earliest_moment() {
        let queue = queue();
        let start = Instant::now();
        queue.add_at(key("a"), start + Duration::from_secs(9));
        queue.add_at(key("a"), start + Duration::from_secs(3));
        queue.add_at(key("a"), start + Duration::from_secs(5));
        assert_eq!(queue.get().await.unwrap().key, key("a"));
        assert_eq!(start.elapsed(), Duration::from_secs(3));
        assert!(
            tokio::time::timeout(Duration::from_secs(60), queue.get())
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_hands_out_what_it_has() {
        let queue = queue();
        queue.add(key("a"));
        queue.add_at(key("b"), Instant::now() + Duration::from_secs(1));
        queue.close();
        queue.add(key("c"));
        assert_eq!(queue.get().await.unwrap().key, key("a"));
        assert!(queue.get().await.is_none());
        assert!(queue.get().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_is_woken() {
        let queue = queue();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.get().await.unwrap().key.clone() })
            })
            .collect();
        tokio::task::yield_now().await;
        for name in ["a", "b", "c"] {
            queue.add(key(name));
        }
        let mut got: Vec<String> = Vec::new();
        for worker in workers {
            got.push(worker.await.unwrap().to_string());
        }
        got.sort_unstable();
        assert_eq!(got, ["ns/a", "ns/b", "ns/c"]);
    }
}
