//! A hook on creates, standing in for whoever admits objects and charges quotas.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

use crate::TestServer;
use crate::request::RequestInfo;
use crate::status::Status;

/// A create that waits to be admitted.
#[derive(Clone, Debug)]
pub struct Review {
    /// The request.
    pub request: RequestInfo,
    /// The object as it was sent.
    pub object: Value,
    /// Whether it is a dry run, which must not charge anything.
    pub dry_run: bool,
}

/// What becomes of the create.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The object is stored at once.
    Allow,
    /// The object is stored after a while; the client waits.
    DelayStore(Duration),
    /// The create fails.
    Deny(Status),
}

/// A future that an [`Admitter`] answers with.
pub type DecisionFuture = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Decides on the creates of namespaced objects, before they are stored.
///
/// It may write to the server first, to raise `status.used` of a quota with [`TestServer::modify`] for instance. Any
/// async closure over a server and a [`Review`] is one.
pub trait Admitter: Send + Sync {
    /// Decides on one create.
    fn before_store(&self, server: TestServer, review: Review) -> DecisionFuture;
}

impl<F, R> Admitter for F
where
    F: Fn(TestServer, Review) -> R + Send + Sync,
    R: Future<Output = Decision> + Send + 'static,
{
    fn before_store(&self, server: TestServer, review: Review) -> DecisionFuture {
        Box::pin(self(server, review))
    }
}
