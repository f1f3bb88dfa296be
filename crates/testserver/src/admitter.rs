//! A hook on creates and changes, standing in for whoever admits objects and charges quotas.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

use crate::TestServer;
use crate::request::RequestInfo;
use crate::status::Status;

/// A create or a change that waits to be admitted.
#[derive(Clone, Debug)]
pub struct Review {
    /// The request.
    pub request: RequestInfo,
    /// The object as it would be stored. Of a create whose name is taken, which the server finds only afterwards: as it was sent.
    pub object: Value,
    /// The object as it is stored; `None` for a create.
    pub old: Option<Value>,
    /// Whether it is a dry run, which must not charge anything.
    pub dry_run: bool,
}

/// What becomes of the request.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The object is stored at once.
    Allow,
    /// The object is stored after a while; the client waits.
    DelayStore(Duration),
    /// The request fails.
    Deny(Status),
}

/// A future that an [`Admitter`] answers with.
pub type DecisionFuture = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Decides on requests that make or change a namespaced object, after the object is known to be valid and before it is stored. A change
/// that meets a newer object meanwhile is worked out and decided on again, as in the real server.
///
/// It may write to the server first, to raise `status.used` of a quota with [`TestServer::modify`] for instance. Any
/// async closure over a server and a [`Review`] is one, for creates.
pub trait Admitter: Send + Sync {
    /// Whether it is to be asked about this request; about creates only, unless it says otherwise.
    fn handles(&self, request: &RequestInfo) -> bool {
        request.verb == "create"
    }

    /// Decides on one request.
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
