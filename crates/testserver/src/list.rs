//! Lists: whole or in pages, at the newest or an earlier revision.

use std::sync::Arc;

use axum::response::Response;
use serde::Serialize;
use serde_json::Value;

use crate::kinds::{Kind, api_version};
use crate::render::{Form, RenderedItems};
use crate::request::RequestInfo;
use crate::selector::{Selector, selectable};
use crate::status::{Status, json_response};
use crate::store::{Key, Store};

const EXPIRED_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can \
start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder \
of the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// The query of a list or watch, checked as upstream checks it.
#[derive(Debug)]
pub(crate) struct ListOptions {
    pub(crate) selector: Selector,
    pub(crate) limit: Option<usize>,
    pub(crate) token: Option<String>,
    /// None where absent; 0 means any.
    pub(crate) revision: Option<u64>,
    pub(crate) exact: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn parse(request: &RequestInfo) -> Result<Self, Status> {
        let text = |name| request.parameter(name).unwrap_or_default();
        let revision = match text("resourceVersion").as_str() {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                let why = format!(
                    "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
                );
                match request.verb.as_str() {
                    "watch" => Status::new(500, "", why),
                    _ => Status::bad_request(format!("invalid resource version: {why}")),
                }
            })?),
        };
        let send_initial_events = match text("sendInitialEvents").as_str() {
            "" => None,
            "true" | "1" => Some(true),
            _ => Some(false),
        };
        let limit = number(request, "limit")?.filter(|&limit| limit > 0);
        let token = Some(text("continue")).filter(|token| !token.is_empty());
        let matching = text("resourceVersionMatch");
        let mut causes = Vec::new();
        let mut forbid = |field: &'static str, why: &str| causes.push((field, format!("Forbidden: {why}")));
        let watch = request.verb == "watch";
        if watch && send_initial_events.is_some() && matching != "NotOlderThan" {
            forbid(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        if !watch && send_initial_events.is_some() {
            forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if !matching.is_empty() {
            if watch && send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                forbid("resourceVersionMatch", why);
            }
            if !watch && revision.is_none() {
                forbid(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            if token.is_some() {
                forbid(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided",
                );
            }
            if !watch && matching == "Exact" && revision == Some(0) {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                forbid("resourceVersionMatch", why);
            }
            if matching != "NotOlderThan" && (watch || matching != "Exact") {
                let supported = if watch {
                    "\"NotOlderThan\""
                } else {
                    "\"Exact\", \"NotOlderThan\", \"\""
                };
                let why = format!("Unsupported value: {matching:?}: supported values: {supported}");
                causes.push(("resourceVersionMatch", why));
            }
        }
        if !causes.is_empty() {
            return Err(invalid_options(&causes));
        }
        if !watch && token.is_some() && revision.is_some_and(|revision| revision != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        // A limit without a match has meant Exact since before there was a match.
        let exact = matching == "Exact" || (matching.is_empty() && limit.is_some());
        Ok(Self {
            selector: Selector::parse(
                &request.namespace,
                &text("labelSelector"),
                &text("fieldSelector"),
                selectable(&request.group, &request.resource),
            )?,
            limit,
            token,
            revision,
            exact: exact && revision.is_some_and(|revision| revision != 0),
            send_initial_events,
        })
    }
}

/// A parameter that has to be a number where it is given.
pub(crate) fn number<T: std::str::FromStr>(request: &RequestInfo, name: &str) -> Result<Option<T>, Status> {
    match request.parameter(name).as_deref() {
        None | Some("") => Ok(None),
        Some(text) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Status::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))),
        },
    }
}

fn invalid_options(causes: &[(&str, String)]) -> Status {
    let causes: Vec<(String, String)> = causes
        .iter()
        .map(|(field, why)| ((*field).to_owned(), why.clone()))
        .collect();
    Status::invalid("ListOptions.meta.k8s.io", "", &causes)
}

/// Where a page ended: the revision of its list (none to go on with the newest), how many items were left, the last key.
struct Token {
    revision: Option<u64>,
    remaining: Option<usize>,
    last: Key,
}

impl Token {
    fn encode(&self) -> String {
        let revision = self.revision.map_or("any".to_owned(), |revision| revision.to_string());
        let remaining = self.remaining.map_or(String::new(), |remaining| remaining.to_string());
        format!("{revision}.{remaining}.{}/{}", self.last.namespace, self.last.name)
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let decoded = || {
            let (revision, rest) = text.split_once('.')?;
            let (remaining, key) = rest.split_once('.')?;
            let (namespace, name) = key.split_once('/')?;
            Some(Self {
                revision: if revision == "any" {
                    None
                } else {
                    Some(revision.parse().ok()?)
                },
                remaining: if remaining.is_empty() {
                    None
                } else {
                    Some(remaining.parse().ok()?)
                },
                last: Key::new(namespace, name),
            })
        };
        decoded()
            .ok_or_else(|| Status::bad_request(format!("invalid continue token: continue key is not valid: {text:?}")))
    }
}

/// The selected objects and what the list says about itself.
pub(crate) struct List {
    pub(crate) items: Vec<Arc<Value>>,
    metadata: ListMetadata,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_item_count: Option<usize>,
}

impl List {
    /// Its metadata as JSON.
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = serde_json::to_value(&self.metadata).unwrap_or_default();
        if let Some(fields) = metadata.as_object_mut() {
            fields.retain(|name, value| name != "continue" || value != "");
        }
        metadata
    }
}

/// Reads a list from the store.
pub(crate) fn read(store: &Store, kind: &Kind, options: &ListOptions) -> Result<List, Status> {
    let resource = kind.resource();
    let current = store.revision();
    let token = options.token.as_deref().map(Token::decode).transpose()?;
    let revision = match (&token, options.revision) {
        (
            Some(Token {
                revision: Some(revision),
                last,
                ..
            }),
            _,
        ) if *revision < store.compacted() => {
            let mut expired = Status::expired(EXPIRED_TOKEN);
            let inconsistent = Token {
                revision: None,
                remaining: None,
                last: last.clone(),
            };
            expired.continue_token = Some(inconsistent.encode());
            return Err(expired);
        }
        (
            Some(Token {
                revision: Some(revision),
                ..
            }),
            _,
        ) => *revision,
        (_, Some(asked)) if asked > current => return Err(Status::revision_too_large(asked, current)),
        (_, Some(asked)) if options.exact && asked < store.compacted() => {
            return Err(Status::expired("The resourceVersion for the provided list is too old."));
        }
        (_, Some(asked)) if options.exact => asked,
        _ => current,
    };
    // The watch cache, which serves resourceVersion=0, takes no notice of a limit.
    let limit = if options.revision == Some(0) && token.is_none() {
        None
    } else {
        options.limit
    };
    let after = token.as_ref().map(|token| &token.last);
    let page = store.page(
        &resource,
        revision,
        after,
        &options.selector,
        limit.unwrap_or(usize::MAX),
    );
    // Known without counting where nothing narrows the list and nothing was written since it was begun.
    let before = match &token {
        Some(token) => token.remaining,
        None if revision == current => Some(store.count(&resource, options.selector.namespace())),
        None => None,
    };
    let remaining = before
        .filter(|_| !options.selector.is_narrowed())
        .map(|before| before.saturating_sub(page.items.len()));
    let remaining = remaining.filter(|_| page.last.is_some());
    let snapshot = token.as_ref().map_or(Some(revision), |token| token.revision);
    let next = page.last.map(|last| {
        Token {
            revision: snapshot,
            remaining,
            last,
        }
        .encode()
    });
    Ok(List {
        items: page.items,
        metadata: ListMetadata {
            resource_version: revision.to_string(),
            // Lists of custom resources say that nothing follows.
            token: next.or_else(|| kind.custom.then(String::new)),
            remaining_item_count: remaining,
        },
    })
}

/// The answer to a list.
pub(crate) fn respond(kind: &Kind, version: &str, form: Form, list: &List) -> Response {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a> {
        kind: &'a str,
        api_version: &'a str,
        metadata: &'a ListMetadata,
        items: RenderedItems<'a, Arc<Value>>,
    }
    let own_version = api_version(&kind.group, version);
    let (name, shown_version) = match form {
        Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
        _ => (kind.list_kind.as_str(), own_version.as_str()),
    };
    let item_form = if form == Form::Whole && !kind.custom {
        Form::Untyped
    } else {
        form
    };
    json_response(
        200,
        &Body {
            kind: name,
            api_version: shown_version,
            metadata: &list.metadata,
            items: RenderedItems {
                items: &list.items,
                api_version: &own_version,
                form: item_form,
            },
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(verb: &str, query: &str) -> Result<ListOptions, Status> {
        ListOptions::parse(&RequestInfo {
            verb: verb.into(),
            query: query.into(),
            ..RequestInfo::default()
        })
    }

    #[test]
    fn combinations_are_checked_as_upstream_checks_them() {
        for query in [
            "resourceVersionMatch=Exact",
            "resourceVersionMatch=Exact&resourceVersion=0",
            "resourceVersionMatch=Newest&resourceVersion=1",
            "sendInitialEvents=true",
        ] {
            assert_eq!(options("list", query).unwrap_err().code, 422, "{query}");
        }
        for query in [
            "sendInitialEvents=true",
            "resourceVersionMatch=NotOlderThan",
            "sendInitialEvents=true&resourceVersionMatch=Exact",
        ] {
            assert_eq!(options("watch", query).unwrap_err().code, 422, "{query}");
        }
        for query in ["limit=x", "resourceVersion=x", "continue=1..a/b&resourceVersion=1"] {
            assert_eq!(options("list", query).unwrap_err().code, 400, "{query}");
        }
        assert!(options("list", "resourceVersion=1&limit=2").unwrap().exact);
        assert!(!options("list", "resourceVersion=1").unwrap().exact);
        assert!(!options("list", "resourceVersion=0&limit=2").unwrap().exact);
        assert!(options("watch", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan").is_ok());
    }

    #[test]
    fn tokens_survive_a_round_trip() {
        let token = Token {
            revision: Some(7),
            remaining: Some(3),
            last: Key::new("a", "x.y/z"),
        };
        let again = Token::decode(&token.encode()).unwrap();
        assert_eq!(
            (again.revision, again.remaining, again.last),
            (Some(7), Some(3), Key::new("a", "x.y/z"))
        );
        for nonsense in ["", "x", "1.2", "1..x", "x..a/b"] {
            assert!(Token::decode(nonsense).is_err(), "{nonsense}");
        }
    }
}
