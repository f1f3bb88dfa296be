//! How a monitor is.

use std::fmt;
use std::sync::Arc;

use kubequota_core::GroupResource;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::resource::ApiResource;

/// What fails about a monitor.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub error: Arc<ApiError>,
    /// Since when something is.
    pub since: Instant,
    /// Events may have been missed: what is known is not to be relied on until a list has ended. Otherwise it is only
    /// growing old: the watch will be taken up where it ended.
    pub lost: bool,
}

/// What a monitor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorState {
    /// A list is under way.
    Listing,
    /// A watch is under way.
    Watching,
    /// It waits before it tries again.
    BackingOff,
}

/// How a monitor is.
#[derive(Clone, Debug)]
pub struct MonitorStatus {
    /// What it is about.
    pub resource: GroupResource,
    /// The version in use: the one that last could be listed, at first the preferred one.
    pub version: ApiResource,
    /// What it is doing.
    pub state: MonitorState,
    /// A complete list has been handed over at some time.
    pub synced: bool,
    /// What fails now.
    pub failure: Option<Failure>,
    /// How many lists have ended.
    pub lists: u64,
    /// How many watches have been started.
    pub watches: u64,
}

/// One line for readiness and status pages.
impl fmt::Display for MonitorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.resource)?;
        match &self.failure {
            Some(failure) => write!(f, "{}", failure.error),
            None if self.synced => f.write_str("ok"),
            None => f.write_str("not listed yet"),
        }
    }
}
