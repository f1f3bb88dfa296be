//! What admission says of a sequence of requests, each judged on what those before it left.

use kubequota_core::decision::{Demand, LimitedResource, LimitedResources, Review};
use kubequota_core::{Context, GroupResource, Quota};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Mistake;
use crate::lists::{Texts, texts};
use crate::objects::{Around, SelectorText, kind, operation, present, quota, read};

/// A namespace's quotas, what may only be used under a quota, and requests.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    #[serde(default)]
    quotas: Vec<Box<RawValue>>,
    #[serde(default)]
    limited: Vec<Limited>,
    #[serde(default)]
    requests: Vec<Asked>,
    around: Around,
}

/// An entry of `limitedResources`.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limited {
    #[serde(default)]
    api_group: String,
    resource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    match_contains: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    match_scopes: Option<Vec<SelectorText>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    kind: String,
    operation: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    object: Box<RawValue>,
    #[serde(default)]
    old: Option<Box<RawValue>>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Answer {
    /// What may only be used under a quota can't be understood.
    Misconfigured(String),
    Verdicts(Vec<Verdict>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    /// The whole message.
    Refused(String),
    /// What each quota records afterwards.
    Allowed(Vec<Texts>),
}

impl Question {
    pub(crate) fn answer(&self) -> Result<Answer, Mistake> {
        let limited = LimitedResources::new(self.limited.iter().map(Limited::read).collect());
        let limited = match limited {
            Ok(limited) => limited,
            Err(error) => return Ok(Answer::Misconfigured(error.to_string())),
        };
        let mut inventory = self.around.inventory()?;
        let mut quotas = self
            .quotas
            .iter()
            .map(|text| quota(text))
            .collect::<Result<Vec<_>, _>>()?;
        let mut verdicts = Vec::new();
        for asked in &self.requests {
            let id = kind(&mut inventory, &asked.kind)?;
            let evaluator = inventory.registry().evaluator(id).as_ref();
            let lookups = inventory.lookups();
            let object = read(evaluator, &asked.object)?;
            let old = asked.old.as_ref().map(|old| read(evaluator, old)).transpose()?;
            let review = Review {
                operation: operation(&asked.operation)?,
                subresource: &asked.subresource,
                namespace: &asked.namespace,
                name: &asked.name,
                object: &object,
                old: old.as_ref(),
                dry_run: asked.dry_run,
            };
            let context = Context {
                now: self.around.now,
                lookups: &lookups,
            };
            let judged = Demand::of(evaluator, &review, &context).map_or(Ok(Vec::new()), |demand| {
                demand.judge(&quotas.iter().collect::<Vec<_>>(), &limited)
            });
            verdicts.push(match judged {
                Err(refusal) => Verdict::Refused(review.message(evaluator.group_resource(), &refusal)),
                Ok(raises) => {
                    for raise in raises {
                        quotas[raise.quota].raise(&raise.by);
                    }
                    Verdict::Allowed(quotas.iter().map(used).collect())
                }
            });
        }
        Ok(Answer::Verdicts(verdicts))
    }
}

fn used(quota: &Quota) -> Texts {
    quota.status.used.as_ref().map(texts).unwrap_or_default()
}

impl Limited {
    fn read(&self) -> LimitedResource {
        LimitedResource {
            kind: GroupResource::new(&self.api_group, &self.resource),
            match_contains: self.match_contains.clone().unwrap_or_default(),
            match_scopes: self
                .match_scopes
                .iter()
                .flatten()
                .map(SelectorText::requirement)
                .collect(),
        }
    }
    pub(crate) fn of(entry: &LimitedResource) -> Self {
        Limited {
            api_group: entry.kind.group.to_string(),
            resource: entry.kind.resource.to_string(),
            match_contains: present(entry.match_contains.clone()),
            match_scopes: present(entry.match_scopes.iter().map(SelectorText::of).collect()),
        }
    }
}
