//! A serde deserializer of messages: what reads an object's JSON reads its protobuf.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use kubequota_core::FieldError;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use smallvec::SmallVec;

use super::fields::{DecodeError, Fields, Value};
use super::schema::{Schema, Type};

/// What to do with a message that breaks off, or goes on with what is no protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// It can't be read.
    Strict,
    /// The fields before that are read.
    Lenient,
}

/// Why a message can't be read, and the path of the field that it fails at: empty where that is the message itself.
#[derive(Debug)]
pub(super) struct Failure {
    path: String,
    pub(super) reason: DecodeError,
}

impl Failure {
    /// The same from further out, where the path goes on from `step`.
    fn within(mut self, step: fmt::Arguments<'_>) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') {
            ""
        } else {
            "."
        };
        self.path = format!("{step}{separator}{}", self.path);
        self
    }
}

impl From<DecodeError> for Failure {
    fn from(reason: DecodeError) -> Self {
        Failure {
            path: String::new(),
            reason,
        }
    }
}

impl From<Failure> for FieldError {
    fn from(Failure { path, reason }: Failure) -> Self {
        FieldError {
            field: if path.is_empty() { "object".to_owned() } else { path },
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for Failure {}

impl serde::de::Error for Failure {
    fn custom<T: fmt::Display>(message: T) -> Self {
        DecodeError::Refused(message.to_string()).into()
    }
}

/// The values of one field, or one value of a list or map.
///
/// As protobuf has it, of several values of what is no list the last one counts, several messages are one, and a field that is there without
/// a value (an entry of a map, say) has its type's default.
#[derive(Clone, Copy)]
pub(super) struct Read<'v, 'a> {
    r#type: Type,
    values: &'v [Found<'a>],
    strictness: Strictness,
}

/// A value and which field of its schema it belongs to.
type Found<'a> = (u8, Value<'a>);

impl<'v, 'a> Read<'v, 'a> {
    fn bytes(self) -> Result<&'a [u8], DecodeError> {
        self.values.last().map_or(Ok(&[][..]), |(_, value)| value.bytes())
    }

    fn number(self) -> Result<u64, DecodeError> {
        self.values.last().map_or(Ok(0), |(_, value)| value.number())
    }
}

/// Deserializes a message.
pub(super) fn message<'a, S: DeserializeSeed<'a>>(
    seed: S,
    schema: &'static Schema,
    bytes: &'a [u8],
    strictness: Strictness,
) -> Result<S::Value, Failure> {
    seed.deserialize(Read {
        r#type: Type::Message(schema),
        values: &[(0, Value::Bytes(bytes))],
        strictness,
    })
}

impl<'a> Deserializer<'a> for Read<'_, 'a> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.r#type {
            Type::Text => visit_text(text(self.bytes()?), visitor),
            Type::Bytes => visitor.visit_borrowed_bytes(self.bytes()?),
            Type::Integer => visitor.visit_i64(self.number()?.cast_signed()),
            Type::Boolean => visitor.visit_bool(self.number()? != 0),
            Type::Quantity => match Fields::new(self.bytes()?).last(1)? {
                None => visitor.visit_borrowed_str("0"),
                Some(value) => visit_text(text(value.bytes()?), visitor),
            },
            Type::Time => match self.bytes()? {
                // The time that is not set.
                [] => visitor.visit_unit(),
                bytes => visitor.visit_string(time(bytes)?),
            },
            Type::Message(schema) => visitor.visit_map(Message::new(schema, self)?),
            Type::List(r#type) => visitor.visit_seq(Items {
                r#type: *r#type,
                values: self.values,
                taken: 0,
                strictness: self.strictness,
            }),
            Type::Map(r#type) => visitor.visit_map(Entries::new(*r#type, self)?),
        }
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.r#type {
            Type::Time if self.bytes()?.is_empty() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

fn visit_text<'a, V: Visitor<'a>>(text: Cow<'a, str>, visitor: V) -> Result<V::Value, Failure> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

/// Go's texts need not be UTF-8. Where they are not, its JSON has a replacement character for each byte.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

/// The text that JSON has for a time: only the seconds count, as in Kubernetes' own decoder.
fn time(message: &[u8]) -> Result<String, DecodeError> {
    let seconds = Fields::new(message)
        .last(1)?
        .map_or(Ok(0), Value::number)?
        .cast_signed();
    Ok(Timestamp::from_second(seconds).map_or_else(
        // No RFC 3339 either, which then is for the reader to tell.
        |_| format!("{seconds} seconds after 1970"),
        |time| time.to_string(),
    ))
}

/// A message as a map from the names of its fields.
struct Message<'a> {
    schema: &'static Schema,
    /// The values of known fields, those of one field together.
    values: SmallVec<[Found<'a>; 8]>,
    next: usize,
    strictness: Strictness,
}

impl<'a> Message<'a> {
    fn new(schema: &'static Schema, read: Read<'_, 'a>) -> Result<Self, DecodeError> {
        let mut values = SmallVec::new();
        for (_, message) in read.values {
            for field in Fields::new(message.bytes()?) {
                match field {
                    Ok((number, value)) => {
                        let known = schema.0.iter().zip(0_u8..).find(|((known, _, _), _)| *known == number);
                        if let Some((_, index)) = known {
                            values.push((index, value));
                        }
                    }
                    Err(_) if read.strictness == Strictness::Lenient => break,
                    Err(error) => return Err(error),
                }
            }
        }
        // Kubernetes writes fields in the order of their numbers; whoever does not is read all the same.
        if !values.is_sorted_by_key(|(index, _)| *index) {
            values.sort_by_key(|(index, _)| *index);
        }
        Ok(Message {
            schema,
            values,
            next: 0,
            strictness: read.strictness,
        })
    }
}

impl<'a> MapAccess<'a> for Message<'a> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        let next = self
            .values
            .get(self.next)
            .and_then(|(index, _)| self.schema.0.get(usize::from(*index)));
        next.map(|(_, name, _)| seed.deserialize(BorrowedStrDeserializer::new(name)))
            .transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let rest = self.values.get(self.next..).unwrap_or_default();
        let mut fields = rest.chunk_by(|(a, _), (b, _)| a == b);
        let field = fields.next().unwrap_or_default();
        self.next += field.len();
        let index = field.first().map_or(0, |(index, _)| usize::from(*index));
        let Some((_, name, r#type)) = self.schema.0.get(index) else {
            return Err(DecodeError::Truncated.into());
        };
        seed.deserialize(Read {
            r#type: *r#type,
            values: field,
            strictness: self.strictness,
        })
        .map_err(|failure| failure.within(format_args!("{name}")))
    }
}

/// The values of a list, one after the other.
struct Items<'v, 'a> {
    r#type: Type,
    values: &'v [Found<'a>],
    /// How many there were before.
    taken: usize,
    strictness: Strictness,
}

impl<'a> SeqAccess<'a> for Items<'_, 'a> {
    type Error = Failure;

    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, Failure> {
        let Some((value, rest)) = self.values.split_first() else {
            return Ok(None);
        };
        self.values = rest;
        let index = self.taken;
        self.taken += 1;
        let read = Read {
            r#type: self.r#type,
            values: std::slice::from_ref(value),
            strictness: self.strictness,
        };
        seed.deserialize(read)
            .map(Some)
            .map_err(|failure| failure.within(format_args!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

/// The entries of a map, by their keys; of several with the same key the last one counts.
struct Entries<'a> {
    r#type: Type,
    entries: std::iter::Peekable<std::vec::IntoIter<(Cow<'a, str>, &'a [u8])>>,
    /// The entry whose key was read last.
    entry: (Cow<'a, str>, &'a [u8]),
    strictness: Strictness,
}

impl<'a> Entries<'a> {
    fn new(r#type: Type, read: Read<'_, 'a>) -> Result<Self, DecodeError> {
        let mut entries = Vec::with_capacity(read.values.len());
        for (_, entry) in read.values {
            let entry = entry.bytes()?;
            let key = Fields::new(entry).last(1)?.map_or(Ok(&[][..]), Value::bytes)?;
            entries.push((text(key), entry));
        }
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Ok(Entries {
            r#type,
            entries: entries.into_iter().peekable(),
            entry: (Cow::Borrowed(""), &[]),
            strictness: read.strictness,
        })
    }
}

impl<'a> MapAccess<'a> for Entries<'a> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        while let Some(entry) = self.entries.next() {
            if self.entries.peek().is_some_and(|(next, _)| *next == entry.0) {
                continue;
            }
            self.entry = entry;
            return match &self.entry.0 {
                Cow::Borrowed(key) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
                Cow::Owned(key) => seed.deserialize(key.as_str().into_deserializer()).map(Some),
            };
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let (key, entry) = &self.entry;
        let value = Fields::new(entry).last(2)?.map(|value| [(0, value)]);
        seed.deserialize(Read {
            r#type: self.r#type,
            values: value.as_ref().map_or(&[], <[_; 1]>::as_slice),
            strictness: self.strictness,
        })
        .map_err(|failure| failure.within(format_args!("{key}")))
    }
}
