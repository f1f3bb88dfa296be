//! What the configuration file of the admission plugin says.

use kubequota_wire::configuration;
use serde::{Deserialize, Serialize};

use crate::admission::Limited;

/// A file; `None` where there is none.
#[derive(Deserialize)]
pub(crate) struct Question {
    file: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Answer {
    Limited(Vec<Limited>),
    /// It can't be read.
    Misconfigured(String),
}

impl Question {
    pub(crate) fn answer(&self) -> Answer {
        let read = self.file.as_ref().map(|file| configuration::plugin(file.as_bytes()));
        match read.transpose() {
            Ok(limits) => Answer::Limited(limits.unwrap_or_default().entries().iter().map(Limited::of).collect()),
            Err(error) => Answer::Misconfigured(error.to_string()),
        }
    }
}
