//! Lists, watch events and single objects in JSON.

use kubequota_core::FieldError;
use serde::Deserialize;
use serde::de::DeserializeSeed;
use serde_json::value::RawValue;
use serde_path_to_error::Track;

use crate::answer::{ListMetadata, ListPage, WatchEvent, WireError};
use crate::shape::Encoded;
pub use crate::shape::{MetadataOnly, Plain, Quotas, Shape};
use crate::status::Status;

/// JSON text.
impl<'a> Encoded<'a> for &'a str {
    fn decode<S: DeserializeSeed<'a> + Copy>(self, seed: S) -> Result<S::Value, FieldError> {
        decode(seed, self)
    }

    fn outline<T: Deserialize<'a>>(self) -> Result<T, String> {
        serde_json::from_str(self).map_err(|error| error.to_string())
    }

    fn plain<T: Deserialize<'a>>(self, expected: &'static str) -> Result<T, WireError> {
        serde_json::from_str(self).map_err(|source| WireError::Malformed { expected, source })
    }
}

/// Decodes, and says which field it was where that fails. Following the path costs time, so it is done only then.
pub(crate) fn decode<'a, S: DeserializeSeed<'a> + Copy>(seed: S, text: &'a str) -> Result<S::Value, FieldError> {
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
    let list: List<'_> = serde_json::from_slice(body).map_err(|source| WireError::Malformed {
        expected: "a list",
        source,
    })?;
    let items = list.items.unwrap_or_default();
    ListPage::read(shape, list.metadata, items.into_iter().map(RawValue::get))
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
    let event: Event<'_> = serde_json::from_slice(line).map_err(|source| WireError::Malformed {
        expected: "a watch event",
        source,
    })?;
    WatchEvent::read(shape, &event.r#type, event.object.get())
}

/// Reads a `Status`; `None` where the body is something else.
#[must_use]
pub fn status(body: &[u8]) -> Option<Status> {
    serde_json::from_slice(body)
        .ok()
        .filter(|status: &Status| status.code != 0)
}
