//! Lists, watch events and single objects in JSON.

use std::fmt;
use std::marker::PhantomData;

use kubequota_core::evaluators::{View, ViewKind};
use kubequota_core::quota::QuotaView;
use kubequota_core::{FieldError, Metadata, Object, Quota};
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::value::RawValue;
use serde_path_to_error::Track;

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
    /// An object without even a name.
    #[error("an object in the server's answer has no metadata that can be read: {0}")]
    Nameless(serde_json::Error),
    /// A kind of watch event that Kubernetes does not have.
    #[error("unknown type of watch event {0:?}")]
    UnknownEvent(String),
}

/// What to read an object as.
pub trait Shape: Copy {
    /// The result.
    type Output;

    /// Reads one object.
    ///
    /// # Errors
    /// Only where not even metadata can be read.
    fn read(self, text: &str) -> Result<Self::Output, WireError>;

    /// The metadata of what was read.
    fn metadata(output: &Self::Output) -> &Metadata;

    /// Whether metadata is all that is read, so that a server need not send more.
    fn metadata_only(self) -> bool {
        false
    }
}

/// Objects of a kind that is charged.
impl Shape for ViewKind {
    type Output = Object;

    fn read(self, text: &str) -> Result<Object, WireError> {
        let (metadata, surprise) = metadata(text)?;
        let view = match surprise {
            // To be counted, a name is enough.
            _ if self == ViewKind::Counted => Ok(View::Counted),
            Some(error) => Err(error),
            None => located(self, text),
        };
        Ok(Object { metadata, view })
    }

    fn metadata(output: &Object) -> &Metadata {
        &output.metadata
    }

    fn metadata_only(self) -> bool {
        self == ViewKind::Counted
    }
}

/// Metadata alone, of any kind.
#[derive(Clone, Copy, Debug)]
pub struct MetadataOnly;

impl Shape for MetadataOnly {
    type Output = Metadata;

    fn read(self, text: &str) -> Result<Metadata, WireError> {
        Ok(metadata(text)?.0)
    }

    fn metadata(output: &Metadata) -> &Metadata {
        output
    }

    fn metadata_only(self) -> bool {
        true
    }
}

/// ResourceQuotas.
#[derive(Clone, Copy, Debug)]
pub struct Quotas;

impl Shape for Quotas {
    type Output = (Metadata, Result<Quota, FieldError>);

    fn read(self, text: &str) -> Result<Self::Output, WireError> {
        let (metadata, view) = Plain::<QuotaView>::default().read(text)?;
        let quota = view.map(|view| view.quota(&metadata));
        Ok((metadata, quota))
    }

    fn metadata(output: &Self::Output) -> &Metadata {
        &output.0
    }
}

/// Objects of a plain serde type, with their metadata.
pub struct Plain<T>(PhantomData<fn() -> T>);

impl<T> Default for Plain<T> {
    fn default() -> Self {
        Plain(PhantomData)
    }
}

impl<T> Clone for Plain<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Plain<T> {}

impl<T> fmt::Debug for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

impl<T: DeserializeOwned> Shape for Plain<T> {
    type Output = (Metadata, Result<T, FieldError>);

    fn read(self, text: &str) -> Result<Self::Output, WireError> {
        Ok((metadata(text)?.0, located(PhantomData, text)))
    }

    fn metadata(output: &Self::Output) -> &Metadata {
        &output.0
    }
}

/// Decodes, and says which field it was where that fails. Following the path costs time, so it is done only then.
pub(crate) fn located<'a, S: DeserializeSeed<'a> + Copy>(seed: S, text: &'a str) -> Result<S::Value, FieldError> {
    seed.deserialize(&mut serde_json::Deserializer::from_str(text))
        .or_else(|_| {
            let (mut json, mut track) = (serde_json::Deserializer::from_str(text), Track::new());
            seed.deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track))
                .map_err(|error| {
                    let path = track.path().to_string();
                    FieldError {
                        field: if path == "." { "object".to_owned() } else { path },
                        reason: message(&error),
                    }
                })
        })
}

/// The parser says at which line and column, which mean nothing to the reader of a log line: only what it says is kept.
pub(crate) fn message(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some(at) = text.rfind(" at line ") {
        text.truncate(at);
    }
    text
}

/// Which field of the metadata can't be read.
pub(crate) fn surprise(text: &str) -> Option<FieldError> {
    located(PhantomData::<WithMetadata>, text).err()
}

#[derive(Deserialize)]
struct WithMetadata {
    #[serde(default)]
    metadata: Metadata,
}

/// The metadata of an object; an object whose metadata has surprises still has a name and a uid, and the first surprise is told.
fn metadata(text: &str) -> Result<(Metadata, Option<FieldError>), WireError> {
    #[derive(Deserialize)]
    struct Outline {
        metadata: Named,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        name: String,
        #[serde(default)]
        namespace: String,
        #[serde(default)]
        uid: String,
        #[serde(default)]
        resource_version: String,
    }
    let surprise = match located(PhantomData::<WithMetadata>, text) {
        Ok(object) => return Ok((object.metadata, None)),
        Err(error) => error,
    };
    let Named {
        name,
        namespace,
        uid,
        resource_version,
    } = serde_json::from_str::<Outline>(text)
        .map_err(WireError::Nameless)?
        .metadata;
    Ok((
        Metadata {
            name,
            namespace,
            uid,
            resource_version,
            ..Metadata::default()
        },
        Some(surprise),
    ))
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

/// Reads a page of a list.
///
/// # Errors
/// What is no list, or has an object without a name. Other unreadable objects are in the page, as unreadable.
pub fn list_page<S: Shape>(shape: S, body: &[u8]) -> Result<ListPage<S::Output>, WireError> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(default)]
        metadata: ListMetadata,
        #[serde(borrow, default)]
        items: Option<Vec<&'a RawValue>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct ListMetadata {
        resource_version: String,
        r#continue: String,
        remaining_item_count: Option<u64>,
    }
    let list: List<'_> = serde_json::from_slice(body).map_err(|source| WireError::Malformed {
        expected: "a list",
        source,
    })?;
    let items = list
        .items
        .unwrap_or_default()
        .into_iter()
        .map(|item| shape.read(item.get()))
        .collect::<Result<_, _>>()?;
    Ok(ListPage {
        resource_version: list.metadata.resource_version,
        next: Some(list.metadata.r#continue).filter(|token| !token.is_empty()),
        remaining: list.metadata.remaining_item_count,
        items,
    })
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

/// Reads one line of a watch.
///
/// # Errors
/// What is no event, or has an object without a name. Other unreadable objects come as such.
pub fn watch_event<S: Shape>(shape: S, line: &[u8]) -> Result<WatchEvent<S::Output>, WireError> {
    #[derive(Deserialize)]
    struct Event<'a> {
        r#type: String,
        #[serde(borrow)]
        object: &'a RawValue,
    }
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
    let malformed = |source| WireError::Malformed {
        expected: "a watch event",
        source,
    };
    let event: Event<'_> = serde_json::from_slice(line).map_err(malformed)?;
    let object = event.object.get();
    Ok(match event.r#type.as_str() {
        "ADDED" | "MODIFIED" => WatchEvent::Applied(shape.read(object)?),
        "DELETED" => WatchEvent::Deleted(shape.read(object)?),
        "BOOKMARK" => {
            let Bookmark { metadata } = serde_json::from_str(object).map_err(malformed)?;
            WatchEvent::Bookmark {
                resource_version: metadata.resource_version,
                initial_events_end: metadata.annotations.initial_events_end.as_deref() == Some("true"),
            }
        }
        "ERROR" => WatchEvent::Error(serde_json::from_str(object).map_err(malformed)?),
        other => return Err(WireError::UnknownEvent(other.to_owned())),
    })
}

/// Reads a `Status`; `None` where the body is something else.
#[must_use]
pub fn status(body: &[u8]) -> Option<Status> {
    serde_json::from_slice(body)
        .ok()
        .filter(|status: &Status| status.code != 0)
}
