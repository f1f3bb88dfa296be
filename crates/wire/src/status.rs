//! The `Status` object that a server answers when a request fails.

use serde::Deserialize;

/// A Kubernetes `Status` (`meta/v1`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// One word of what went wrong, as in `Conflict` or `Expired`.
    pub reason: String,
    /// What went wrong, for people.
    pub message: String,
    /// More, for programs.
    pub details: Option<StatusDetails>,
}

/// The `details` of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusDetails {
    /// Each field that was refused, and why.
    pub causes: Vec<StatusCause>,
    /// After how many seconds to try again; zero where the server did not say.
    pub retry_after_seconds: u32,
}

/// One cause of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// The path of a field, as in `status.used[pods]`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}
