//! What a server answers, whatever its encoding: pages of lists and events of watches.

use serde::Deserialize;

use crate::protobuf::DecodeError;
use crate::shape::{Encoded, Shape};
use crate::status::Status;

/// Bytes that are not what a server should send. Objects inside that can't be read are no such error.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Not JSON, or not of the expected outline.
    #[error("the server's answer can't be read as {expected}: {source}")]
    Malformed {
        /// What was expected.
        expected: &'static str,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// Not Kubernetes' protobuf, or not of the expected outline.
    #[error("the server's answer can't be read as {expected} in protobuf: {source}")]
    MalformedProtobuf {
        /// What was expected.
        expected: &'static str,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// An object without even a name.
    #[error("an object in the server's answer has no metadata that can be read: {0}")]
    Nameless(String),
    /// A kind of watch event that Kubernetes does not have.
    #[error("unknown type of watch event {0:?}")]
    UnknownEvent(String),
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPage<T> {
    /// The revision that the whole list stands for.
    pub resource_version: String,
    /// The token of the next page; `None` on the last.
    pub next: Option<String>,
    /// How many objects are left after this page, where the server says so.
    pub remaining: Option<u64>,
    /// The objects.
    pub items: Vec<T>,
}

impl<T> ListPage<T> {
    /// The page with this metadata and these objects.
    pub(crate) fn read<'a, S, E>(
        shape: S,
        metadata: ListMetadata,
        items: impl IntoIterator<Item = E>,
    ) -> Result<Self, WireError>
    where
        S: Shape<Output = T>,
        E: Encoded<'a>,
    {
        Ok(ListPage {
            resource_version: metadata.resource_version,
            next: Some(metadata.r#continue).filter(|token| !token.is_empty()),
            remaining: metadata.remaining_item_count,
            items: items
                .into_iter()
                .map(|item| shape.read(item))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// The `metadata` of a list.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListMetadata {
    resource_version: String,
    r#continue: String,
    remaining_item_count: Option<u64>,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent<T> {
    /// An object is there, new or changed.
    Applied(T),
    /// An object is gone; its metadata carries the revision of the deletion.
    Deleted(T),
    /// Nothing happened up to this revision.
    Bookmark {
        /// The revision.
        resource_version: String,
        /// This ends the initial events of a streaming list.
        initial_events_end: bool,
    },
    /// The watch has failed.
    Error(Status),
}

impl<T> WatchEvent<T> {
    /// The event of this type, with its object.
    pub(crate) fn read<'a, S>(shape: S, r#type: &str, object: impl Encoded<'a>) -> Result<Self, WireError>
    where
        S: Shape<Output = T>,
    {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Bookmark {
            metadata: BookmarkMetadata,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct BookmarkMetadata {
            resource_version: String,
            annotations: BookmarkAnnotations,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct BookmarkAnnotations {
            #[serde(rename = "k8s.io/initial-events-end")]
            initial_events_end: Option<String>,
        }
        Ok(match r#type {
            "ADDED" | "MODIFIED" => WatchEvent::Applied(shape.read(object)?),
            "DELETED" => WatchEvent::Deleted(shape.read(object)?),
            "BOOKMARK" => {
                let Bookmark { metadata } = object.plain("a bookmark")?;
                WatchEvent::Bookmark {
                    resource_version: metadata.resource_version,
                    initial_events_end: metadata.annotations.initial_events_end.as_deref() == Some("true"),
                }
            }
            "ERROR" => WatchEvent::Error(object.plain("a status")?),
            other => return Err(WireError::UnknownEvent(other.to_owned())),
        })
    }
}
