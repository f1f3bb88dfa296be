//! Bodies in Kubernetes' protobuf (`application/vnd.kubernetes.protobuf`), read into what the same client would have sent as JSON.
//!
//! Clients that come with Kubernetes send built-in kinds this way. They take JSON for an answer, so this server writes no protobuf. What the
//! messages look like stands in `messages.txt`, which `conformance/cmd/protobuf-table` makes from upstream's types.

mod decode;
mod table;

use kubequota_wire::protobuf::{DecodeError, Fields, MEDIA_TYPE, Value as Encoded};
use serde_json::Value;

use self::decode::Decoder;
use self::table::TABLE;

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// A body that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It does not tell what it holds.
    Envelope(String),
    /// It holds something that is not what it says.
    Object {
        api_version: String,
        kind: String,
        why: String,
    },
}

/// Whether a `Content-Type` is protobuf's.
pub(crate) fn is_media_type(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim() == MEDIA_TYPE
}

/// Reads a body as JSON would have it. It is of the kind that it names, or else of the expected one, given as `apiVersion` and kind.
pub(crate) fn read(body: &[u8], expected: (&str, &str)) -> Result<Value, Unreadable> {
    let (api_version, kind, object) = open(body).map_err(Unreadable::Envelope)?;
    let or = |sent: String, expected: &str| if sent.is_empty() { expected.to_owned() } else { sent };
    let (api_version, kind) = (or(api_version, expected.0), or(kind, expected.1));
    let read = match TABLE.message_of(&api_version, &kind) {
        Some(message) => Decoder::new(&TABLE)
            .object(message, object)
            .map_err(|error| error.to_string()),
        None => Err(format!("no kind {kind:?} is registered for version {api_version:?}")),
    };
    match read {
        Ok(mut fields) => {
            fields.insert("apiVersion".to_owned(), api_version.into());
            fields.insert("kind".to_owned(), kind.into());
            Ok(Value::Object(fields))
        }
        Err(why) => Err(Unreadable::Object { api_version, kind, why }),
    }
}

/// The beginning of a body, as errors show it.
pub(crate) fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &body[..body.len().min(SHOWN)];
    let text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    format!("{text}{}", if body.len() > SHOWN { " ..." } else { "" })
}

/// What the envelope (`runtime.Unknown`) says and holds: apiVersion, kind and the object's bytes.
fn open(body: &[u8]) -> Result<(String, String, &[u8]), String> {
    if body.is_empty() {
        return Err("empty data".to_owned());
    }
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")?;
    if envelope.is_empty() {
        return Err("empty body".to_owned());
    }
    unwrap(envelope).map_err(|error| error.to_string())
}

fn unwrap(envelope: &[u8]) -> Result<(String, String, &[u8]), DecodeError> {
    fn bytes(message: &[u8], number: u32) -> Result<&[u8], DecodeError> {
        let value = Fields::new(message).last(number)?;
        value.map_or(Ok(&[][..]), Encoded::bytes)
    }
    let text = |message, number| bytes(message, number).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let type_meta = bytes(envelope, 1)?;
    Ok((text(type_meta, 1)?, text(type_meta, 2)?, bytes(envelope, 2)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");

    #[test]
    fn media_types() {
        assert!(is_media_type("application/vnd.kubernetes.protobuf"));
        assert!(is_media_type(" application/vnd.kubernetes.protobuf ; charset=utf-8"));
        assert!(!is_media_type("application/json"));
        assert!(!is_media_type(""));
    }

    #[test]
    fn a_body_is_of_the_kind_it_names_or_the_expected_one() {
        let named = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Secret\x12\x00";
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}});
        assert_eq!(read(named, CONFIG_MAP), Ok(secret));
        let unnamed = b"k8s\0\x12\x05\x0a\x03\x0a\x01c";
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        assert_eq!(read(unnamed, CONFIG_MAP), Ok(config_map));
    }

    #[test]
    fn what_is_no_envelope_is_told_in_upstreams_words() {
        let table: [(&[u8], &str); 5] = [
            (b"", "empty data"),
            (b"k8s\0", "empty body"),
            (
                b"{}",
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            ),
            (b"k8s\0\x0a", "it ends within a field"),
            (b"k8s\0\x10\x01", "it is not encoded as text or a message"),
        ];
        for (body, why) in table {
            assert_eq!(
                read(body, CONFIG_MAP),
                Err(Unreadable::Envelope(why.to_owned())),
                "{body:?}"
            );
        }
    }

    #[test]
    fn what_is_not_what_it_says_is_told_with_its_kind() {
        let broken = |api_version: &str, kind: &str, why: &str| {
            Err(Unreadable::Object {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                why: why.to_owned(),
            })
        };
        assert_eq!(
            read(b"k8s\0\x12\x01\x0a", CONFIG_MAP),
            broken("v1", "ConfigMap", "it ends within a field")
        );
        assert_eq!(
            read(b"k8s\0\x0a\x06\x12\x04Odd!", CONFIG_MAP),
            broken("v1", "Odd!", r#"no kind "Odd!" is registered for version "v1""#)
        );
    }

    /// Upstream's own encodings of objects in which every field is set; see `conformance/protobuf`.
    #[test]
    fn objects_with_every_field_are_what_upstreams_json_says() {
        for (encoded, text) in [
            (
                &include_bytes!("../../tests/protobuf/pod.pb")[..],
                include_str!("../../tests/protobuf/pod.json"),
            ),
            (
                &include_bytes!("../../tests/protobuf/customresourcedefinition.pb")[..],
                include_str!("../../tests/protobuf/customresourcedefinition.json"),
            ),
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read(encoded, CONFIG_MAP), Ok(expected));
        }
    }

    #[test]
    fn no_bytes_are_too_bad() {
        // Good or bad: that there is an answer, and that what is refused says why.
        let answered = |answer| match answer {
            Ok(_) => {}
            Err(Unreadable::Envelope(why) | Unreadable::Object { why, .. }) => assert!(!why.is_empty()),
        };
        let body = include_bytes!("../../tests/protobuf/pod.pb");
        for end in (0..body.len()).step_by(17) {
            answered(read(&body[..end], CONFIG_MAP));
        }
        let mut random = crate::random::Random::new(7);
        for _ in 0..500 {
            let mut broken = body.to_vec();
            for _ in 0..3 {
                let drawn = random.next() as usize;
                let at = (drawn >> 8) % broken.len();
                broken[at] = drawn as u8;
            }
            answered(read(&broken, CONFIG_MAP));
        }
    }
}
