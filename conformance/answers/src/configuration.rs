//! What the configuration file of the admission plugin says.

use kubequota_core::decision::{LimitedResource, LimitedResources};
use kubequota_core::scope::Requirement;
use kubequota_wire::configuration;
use serde::{Deserialize, Serialize};

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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limited {
    api_group: String,
    resource: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_contains: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    match_scopes: Vec<Scope>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Scope {
    scope_name: String,
    operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

impl Question {
    pub(crate) fn answer(&self) -> Answer {
        let read = self.file.as_ref().map(|file| configuration::plugin(file.as_bytes()));
        match read.transpose() {
            Ok(limits) => Answer::Limited(limited(&limits.unwrap_or_default())),
            Err(error) => Answer::Misconfigured(error.to_string()),
        }
    }
}

fn limited(limits: &LimitedResources) -> Vec<Limited> {
    let entry = |entry: &LimitedResource| Limited {
        api_group: entry.kind.group.to_string(),
        resource: entry.kind.resource.to_string(),
        match_contains: entry.match_contains.clone(),
        match_scopes: entry.match_scopes.iter().map(scope).collect(),
    };
    limits.entries().iter().map(entry).collect()
}

fn scope(requirement: &Requirement) -> Scope {
    Scope {
        scope_name: requirement.scope.to_string(),
        operator: requirement.operator.to_string(),
        values: requirement.values.clone(),
    }
}
