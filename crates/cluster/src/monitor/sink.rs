//! What a monitor tells, and whom.

use std::future::Future;

use tokio::sync::mpsc;

use super::status::Failure;
use crate::list::Listed;

/// What a monitor tells.
#[derive(Clone, Debug)]
pub enum Update<T> {
    /// A list begins to arrive. Another list that has not ended is thereby void.
    ListBegan(Listed),
    /// A page of it, the first one too.
    Page(Listed, Vec<T>),
    /// It is complete: what was in none of its pages is gone.
    ListEnded(Listed),
    /// An object is there, new or changed.
    Applied(T),
    /// An object is gone; its metadata carries the revision of the deletion.
    Deleted(T),
    /// Nothing happened up to this revision.
    Bookmark(String),
    /// Something fails. Told once, and again when something else fails.
    Failed(Failure),
    /// Nothing fails any more.
    Recovered,
}

/// Where a monitor's updates go.
pub trait Sink<T>: Send {
    /// Takes an update. The next one comes when this is done.
    fn handle(&mut self, update: Update<T>) -> impl Future<Output = ()> + Send;
}

/// A bounded channel. Should the receiver be gone, updates go nowhere.
impl<T: Send> Sink<T> for mpsc::Sender<Update<T>> {
    async fn handle(&mut self, update: Update<T>) {
        let _ = self.send(update).await;
    }
}

/// Two that follow one watch, each told in this order.
impl<T, A, B> Sink<T> for (A, B)
where
    T: Clone + Send,
    A: Sink<T>,
    B: Sink<T>,
{
    async fn handle(&mut self, update: Update<T>) {
        self.0.handle(update.clone()).await;
        self.1.handle(update).await;
    }
}
