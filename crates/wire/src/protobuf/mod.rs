//! Lists, watch events and single objects in Kubernetes' protobuf (`application/vnd.kubernetes.protobuf`).
//!
//! A body is four magic bytes and an envelope (`runtime.Unknown`), which says of which kind the object, or the list of objects, within is. A
//! watch is a stream of frames, each with the length of an event before it; the objects of events have envelopes again.
//!
//! The messages are read by the numbers in `schema`, and handed to the same serde types that read JSON, field by field: so what
//! comes out is the same. Kubernetes' code leaves fields out where JSON has null, and writes its empty texts and zeros, which mean the same
//! to the views. The encoding itself is small enough to be read here (`fields`).

mod de;
mod fields;
mod schema;

use std::marker::PhantomData;

use kubequota_core::FieldError;
use serde::Deserialize;
use serde::de::DeserializeSeed;

use self::de::{Failure, Strictness};
pub use self::fields::{DecodeError, Fields, Value};
use crate::answer::{ListMetadata, ListPage, WatchEvent, WireError};
use crate::shape::Encoded;
pub use crate::shape::{MetadataOnly, Plain, Quotas, Shape};
use crate::status::Status;

/// The media type of bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The bytes of one object, and what is known of their kind.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    api_version: &'a str,
    kind: &'a str,
    bytes: &'a [u8],
}

impl<'a> Encoded<'a> for Message<'a> {
    fn decode<S: DeserializeSeed<'a> + Copy>(self, seed: S) -> Result<S::Value, FieldError> {
        let Some(schema) = schema::of_kind(self.api_version, self.kind) else {
            return Err(FieldError {
                field: "kind".to_owned(),
                reason: format!(
                    "of {} {} only the metadata can be read from protobuf; ask for JSON",
                    self.api_version, self.kind
                ),
            });
        };
        Ok(de::message(seed, schema, self.bytes, Strictness::Strict)?)
    }

    fn decode_common<S: DeserializeSeed<'a> + Copy>(self, seed: S) -> Result<S::Value, FieldError> {
        Ok(de::message(seed, &schema::OBJECT, self.bytes, Strictness::Strict)?)
    }

    fn outline<T: Deserialize<'a>>(self) -> Result<T, String> {
        de::message(PhantomData, &schema::OBJECT, self.bytes, Strictness::Lenient).map_err(|error| error.to_string())
    }

    fn plain<T: Deserialize<'a>>(self, expected: &'static str) -> Result<T, WireError> {
        let schema = schema::of_kind(self.api_version, self.kind).unwrap_or(&schema::OBJECT);
        de::message(PhantomData, schema, self.bytes, Strictness::Strict).map_err(malformed(expected))
    }
}

/// What `runtime.Unknown` says.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow)]
    type_meta: TypeMeta<'a>,
    #[serde(borrow)]
    raw: &'a [u8],
    content_encoding: String,
    content_type: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TypeMeta<'a> {
    #[serde(borrow)]
    api_version: &'a str,
    #[serde(borrow)]
    kind: &'a str,
}

/// What is in an envelope.
fn open<'a>(body: &'a [u8], expected: &'static str) -> Result<Message<'a>, WireError> {
    let wrong = |reason: String| malformed(expected)(DecodeError::Envelope(reason));
    let Some(envelope) = body.strip_prefix(MAGIC) else {
        return Err(wrong("it does not begin with the bytes k8s and 0".to_owned()));
    };
    let Envelope {
        type_meta: TypeMeta { api_version, kind },
        raw,
        content_encoding,
        content_type,
    } = de::message(PhantomData, &schema::ENVELOPE, envelope, Strictness::Strict).map_err(malformed(expected))?;
    if !content_encoding.is_empty() || !(content_type.is_empty() || content_type == MEDIA_TYPE) {
        return Err(wrong(format!(
            "it holds {content_type:?}, encoded as {content_encoding:?}, not protobuf"
        )));
    }
    if kind.is_empty() {
        return Err(wrong("it does not say of which kind it is".to_owned()));
    }
    Ok(Message {
        api_version,
        kind,
        bytes: raw,
    })
}

fn malformed<E: Into<Failure>>(expected: &'static str) -> impl FnOnce(E) -> WireError {
    move |failure| WireError::MalformedProtobuf {
        expected,
        source: failure.into().reason,
    }
}

/// Reads one object, as the body of an answer.
///
/// # Errors
/// What is no object, or has no name. Other unreadable objects come as such.
pub fn object<S: Shape>(shape: S, body: &[u8]) -> Result<S::Output, WireError> {
    shape.read(open(body, "an object")?)
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
        items: Vec<&'a [u8]>,
    }
    const EXPECTED: &str = "a list";
    let list = open(body, EXPECTED)?;
    // The items do not say what they are. Those of a `List` are of many kinds, and no server has such a list.
    let Some(kind) = list.kind.strip_suffix("List").filter(|kind| !kind.is_empty()) else {
        return Err(malformed(EXPECTED)(DecodeError::Envelope(format!(
            "{} is no list of one kind",
            list.kind
        ))));
    };
    let List { metadata, items } =
        de::message(PhantomData, &schema::LIST, list.bytes, Strictness::Strict).map_err(malformed(EXPECTED))?;
    ListPage::read(
        shape,
        metadata,
        items.into_iter().map(|bytes| Message { kind, bytes, ..list }),
    )
}

/// Reads one frame of a watch, without its length; see [`first_frame`].
///
/// # Errors
/// What is no event, or has an object without a name. Other unreadable objects come as such.
pub fn watch_event<S: Shape>(shape: S, frame: &[u8]) -> Result<WatchEvent<S::Output>, WireError> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        r#type: &'a str,
        #[serde(borrow)]
        object: RawExtension<'a>,
    }
    #[derive(Deserialize)]
    struct RawExtension<'a> {
        #[serde(borrow)]
        raw: &'a [u8],
    }
    const EXPECTED: &str = "a watch event";
    let event: Event<'_> =
        de::message(PhantomData, &schema::WATCH_EVENT, frame, Strictness::Strict).map_err(malformed(EXPECTED))?;
    WatchEvent::read(shape, event.r#type, open(event.object.raw, EXPECTED)?)
}

/// The first frame of what has come of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What is in it, for [`watch_event`].
    pub event: &'a [u8],
    /// What follows it.
    pub rest: &'a [u8],
}

/// Takes the first frame off what has come of a watch; `None` while it is not complete.
///
/// # Errors
/// A frame of more than `limit` bytes.
pub fn first_frame(received: &[u8], limit: usize) -> Result<Option<Frame<'_>>, WireError> {
    let Some((length, rest)) = received.split_first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(length) if length <= limit => Ok(rest.split_at_checked(length).map(|(event, rest)| Frame { event, rest })),
        _ => Err(malformed("a watch event")(DecodeError::Envelope(format!(
            "a frame of {length} bytes is longer than the limit of {limit}"
        )))),
    }
}

/// Reads a `Status`; `None` where the body is something else.
#[must_use]
pub fn status(body: &[u8]) -> Option<Status> {
    let message = open(body, "a status").ok().filter(|message| message.kind == "Status")?;
    message
        .plain("a status")
        .ok()
        .filter(|status: &Status| status.code != 0)
}
