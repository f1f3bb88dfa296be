//! From a message to the JSON that Go's encoder makes of what the message is read into.

use std::borrow::Cow;

use jiff::Timestamp;
use kubequota_core::Quantity;
use kubequota_wire::protobuf::{DecodeError, Fields, Value as Encoded};
use serde_json::{Map, Number, Value, json};

use super::table::{Field, MessageId, Table, Type};
use crate::clock::rfc3339;
use crate::defaults::base64;

/// So deep messages may nest. Schemas of custom resources are the only ones that hold themselves.
const DEEPEST: usize = 128;

/// Go's zero time, year 1, in seconds; JSON has null for it.
const ZERO_TIME: i64 = -62_135_596_800;

/// Reads messages by a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder<'t> {
    table: &'t Table,
    depth: usize,
}

/// A value as JSON has it, and whether Go counts it as empty, for fields that are left out then.
struct Read {
    value: Value,
    empty: bool,
}

impl Read {
    fn new(value: impl Into<Value>, empty: bool) -> Self {
        Self {
            value: value.into(),
            empty,
        }
    }

    /// What isn't there at all.
    fn nothing() -> Self {
        Self::new(Value::Null, true)
    }

    /// A value that no field leaves out.
    fn kept(value: impl Into<Value>) -> Self {
        Self::new(value, false)
    }
}

fn refused(why: impl Into<String>) -> DecodeError {
    DecodeError::Refused(why.into())
}

impl<'t> Decoder<'t> {
    pub(super) fn new(table: &'t Table) -> Self {
        Self { table, depth: 0 }
    }

    /// The fields of a message that JSON has.
    pub(super) fn object(self, message: MessageId, bytes: &[u8]) -> Result<Map<String, Value>, DecodeError> {
        let inner = self.deeper()?;
        let fields = self.table.fields(message);
        let mut found = vec![Vec::new(); fields.len()];
        for field in Fields::new(bytes) {
            let (number, value) = field?;
            // Newer clients may send fields that this server does not know.
            if let Some(at) = fields.iter().position(|field| field.number == number) {
                found[at].push(value);
            }
        }
        let mut object = Map::new();
        for (
            Field {
                name, omit_empty, of, ..
            },
            values,
        ) in fields.iter().zip(&found)
        {
            let Read { value, empty } = inner.read(of, values)?;
            match (name, value) {
                (_, _) if *omit_empty && empty => {}
                (Some(name), value) => {
                    object.insert(name.clone(), value);
                }
                (None, Value::Object(inlined)) => object.extend(inlined),
                (None, _) => {}
            }
        }
        Ok(object)
    }

    fn deeper(self) -> Result<Self, DecodeError> {
        if self.depth == DEEPEST {
            return Err(refused(format!("it nests more than {DEEPEST} deep")));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    /// The value of a field. As protobuf has it, of several values of what is no list the last one counts, and several messages are one.
    fn read(self, of: &Type, values: &[Encoded<'_>]) -> Result<Read, DecodeError> {
        let number = || values.last().map_or(Ok(0), |value| value.number());
        Ok(match of {
            Type::Text => {
                let text = text(last_bytes(values)?.unwrap_or_default());
                Read::new(text.as_str(), text.is_empty())
            }
            Type::Bytes => match last_bytes(values)? {
                Some(bytes) => Read::new(base64(bytes), bytes.is_empty()),
                None => Read::nothing(),
            },
            // Negative numbers have all 64 bits; a type of 32 takes the lower ones.
            Type::Int32 => integer(i64::from(number()? as i32)),
            Type::Int64 => integer(number()? as i64),
            Type::Boolean => {
                let yes = number()? != 0;
                Read::new(yes, !yes)
            }
            Type::Double => double(values)?,
            Type::Quantity => quantity(values)?,
            Type::IntOrString => int_or_string(&message(values)?)?,
            Type::Time => time(&message(values)?, rfc3339)?,
            Type::MicroTime => time(&message(values)?, |time| {
                time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
            })?,
            Type::Json => match last_bytes_of(&message(values)?, 1)? {
                Some(text) => Read::kept(
                    serde_json::from_slice::<Value>(text)
                        .map_err(|error| refused(format!("it holds no JSON: {error}")))?,
                ),
                None => Read::kept(Value::Null),
            },
            Type::SchemaOrBool(schema) => self.schema_or_bool(*schema, &message(values)?)?,
            Type::SchemaOrList(schema) => self.schema_or_list(*schema, &message(values)?)?,
            Type::SchemaOrNames(schema) => self.schema_or_names(*schema, &message(values)?)?,
            Type::Message(id) => Read::kept(self.object(*id, &message(values)?)?),
            Type::Optional(_) if values.is_empty() => Read::nothing(),
            Type::Optional(of) => Read::kept(self.read(of, values)?.value),
            Type::List(_) | Type::Map(_) if values.is_empty() => Read::nothing(),
            Type::List(of) => {
                let items = values.iter().map(|value| Ok(self.read(of, &[*value])?.value));
                Read::kept(items.collect::<Result<Vec<_>, DecodeError>>()?)
            }
            Type::Map(of) => {
                let entries = values.iter().map(|entry| self.entry(of, entry.bytes()?));
                Read::kept(entries.collect::<Result<Map<_, _>, DecodeError>>()?)
            }
        })
    }

    /// A key and its value. One that is missing is empty.
    fn entry(self, of: &Type, entry: &[u8]) -> Result<(String, Value), DecodeError> {
        let key = text(last_bytes_of(entry, 1)?.unwrap_or_default());
        let value = Fields::new(entry).last(2)?;
        let value = match (of, value) {
            (Type::Bytes, None) => Some(Encoded::Bytes(&[])),
            (_, value) => value,
        };
        Ok((key, self.read(of, value.as_slice())?.value))
    }

    fn schema_or_bool(self, schema: MessageId, bytes: &[u8]) -> Result<Read, DecodeError> {
        Ok(match last_bytes_of(bytes, 2)? {
            Some(bytes) => Read::kept(self.object(schema, bytes)?),
            None => Read::kept(Fields::new(bytes).last(1)?.map_or(Ok(0), Encoded::number)? != 0),
        })
    }

    fn schema_or_list(self, schema: MessageId, bytes: &[u8]) -> Result<Read, DecodeError> {
        let several = self.read(&Type::List(Box::new(Type::Message(schema))), &all_of(bytes, 2)?)?;
        self.schema_or(schema, bytes, several)
    }

    fn schema_or_names(self, schema: MessageId, bytes: &[u8]) -> Result<Read, DecodeError> {
        let names = self.read(&Type::List(Box::new(Type::Text)), &all_of(bytes, 2)?)?;
        self.schema_or(schema, bytes, names)
    }

    /// A list where there is one, or else a schema, or null.
    fn schema_or(self, schema: MessageId, bytes: &[u8], list: Read) -> Result<Read, DecodeError> {
        Ok(match last_bytes_of(bytes, 1)? {
            Some(bytes) if list.empty => Read::kept(self.object(schema, bytes)?),
            _ => Read::kept(list.value),
        })
    }
}

/// Go writes no text that is not UTF-8 either.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn last_bytes<'a>(values: &[Encoded<'a>]) -> Result<Option<&'a [u8]>, DecodeError> {
    values.last().map(|value| value.bytes()).transpose()
}

fn last_bytes_of(message: &[u8], number: u32) -> Result<Option<&[u8]>, DecodeError> {
    Fields::new(message).last(number)?.map(Encoded::bytes).transpose()
}

fn all_of(message: &[u8], wanted: u32) -> Result<Vec<Encoded<'_>>, DecodeError> {
    let wanted = |field: &Result<(u32, _), _>| field.as_ref().map_or(true, |(number, _)| *number == wanted);
    let values = Fields::new(message).filter(wanted);
    values.map(|field| field.map(|(_, value)| value)).collect()
}

/// The bytes of a message; where it is absent it has no fields.
fn message<'a>(values: &[Encoded<'a>]) -> Result<Cow<'a, [u8]>, DecodeError> {
    Ok(match values {
        [] => Cow::Borrowed(&[]),
        [one] => Cow::Borrowed(one.bytes()?),
        several => Cow::Owned(
            several
                .iter()
                .map(|value| value.bytes())
                .collect::<Result<Vec<_>, _>>()?
                .concat(),
        ),
    })
}

fn integer(number: i64) -> Read {
    Read::new(number, number == 0)
}

/// Whole numbers are written without a fraction.
fn double(values: &[Encoded<'_>]) -> Result<Read, DecodeError> {
    const WHOLE: f64 = 1e15;
    let number = match values.last() {
        None => 0.0,
        Some(Encoded::Fixed64(bits)) => f64::from_bits(*bits),
        Some(_) => return Err(DecodeError::Mistyped("a number of eight bytes")),
    };
    let value = if number.fract() == 0.0 && number.abs() < WHOLE {
        Number::from(number as i64)
    } else {
        Number::from_f64(number).ok_or_else(|| refused(format!("JSON has no number {number}")))?
    };
    Ok(Read::new(value, number == 0.0))
}

fn quantity(values: &[Encoded<'_>]) -> Result<Read, DecodeError> {
    if values.is_empty() {
        return Ok(Read::kept("0"));
    }
    let text = text(last_bytes_of(&message(values)?, 1)?.unwrap_or_default());
    match text.parse::<Quantity>() {
        Ok(_) => Ok(Read::kept(text)),
        Err(error) => Err(refused(format!("{text:?} is no quantity: {error}"))),
    }
}

fn int_or_string(bytes: &[u8]) -> Result<Read, DecodeError> {
    let number = |number| Fields::new(bytes).last(number)?.map_or(Ok(0), Encoded::number);
    match number(1)? {
        0 => Ok(Read::kept(i64::from(number(2)? as i32))),
        1 => Ok(Read::kept(text(last_bytes_of(bytes, 3)?.unwrap_or_default()))),
        other => Err(refused(format!("{other} is neither of int and string"))),
    }
}

/// Seconds and nanoseconds since 1970. A message without any is no time, which an encoder writes for one that isn't set.
fn time(bytes: &[u8], format: impl FnOnce(Timestamp) -> String) -> Result<Read, DecodeError> {
    let number = |number| Fields::new(bytes).last(number)?.map_or(Ok(0), Encoded::number);
    let (seconds, nanos) = (number(1)? as i64, number(2)? as i32);
    if bytes.is_empty() || seconds == ZERO_TIME {
        return Ok(Read::new(Value::Null, true));
    }
    let time =
        Timestamp::new(seconds, nanos).map_err(|error| refused(format!("it has a time that is none: {error}")))?;
    Ok(Read::kept(json!(format(time))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of one field, read by a table.
    fn read(of: &str, bytes: &[u8]) -> Result<Value, String> {
        let text = format!(
            "kind v1 A a\nmessage a\n1 x {of}\nmessage b\n1 y text\n2 z ?int32\nmessage c\n1 c ?*c\n2 l ?[]text\n\
             message apiextensions.v1.JSONSchemaProps\n1 id ?text\n"
        );
        let table = Table::parse(&text).unwrap();
        let message = table.message_of("v1", "A").unwrap();
        let object = Decoder::new(&table).object(message, bytes);
        object.map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn values() {
        let minus_one = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let table: Vec<(&str, &[u8], Value)> = vec![
            // Absent: empty, or left out.
            ("text", b"", json!({"x": ""})),
            ("?text", b"", json!({})),
            ("?text", b"\x0a\x00", json!({})),
            ("*text", b"", json!({"x": null})),
            ("?*text", b"", json!({})),
            ("?*text", b"\x0a\x00", json!({"x": ""})),
            ("bool", b"", json!({"x": false})),
            ("?*bool", b"\x08\x00", json!({"x": false})),
            ("?bool", b"\x08\x00", json!({})),
            ("int64", b"", json!({"x": 0})),
            ("?int64", b"\x08\x00", json!({})),
            ("b", b"", json!({"x": {"y": ""}})),
            ("?*b", b"", json!({})),
            ("?*b", b"\x0a\x00", json!({"x": {"y": ""}})),
            ("[]text", b"", json!({"x": null})),
            ("?[]text", b"", json!({})),
            ("{}text", b"", json!({"x": null})),
            ("quantity", b"", json!({"x": "0"})),
            ("time", b"", json!({"x": null})),
            ("?time", b"\x0a\x00", json!({})),
            ("json", b"", json!({"x": null})),
            ("bytes", b"", json!({"x": null})),
            ("bytes", b"\x0a\x00", json!({"x": ""})),
            ("?bytes", b"\x0a\x00", json!({})),
            ("float64", b"", json!({"x": 0})),
            ("int-or-string", b"", json!({"x": 0})),
            // There.
            ("text", b"\x0a\x01a\x0a\x01b", json!({"x": "b"})),
            ("text", b"\x0a\x01\xff", json!({"x": "\u{fffd}"})),
            ("bytes", b"\x0a\x03abc", json!({"x": "YWJj"})),
            ("int32", minus_one, json!({"x": -1})),
            ("int64", minus_one, json!({"x": -1})),
            ("int32", b"\x08\x80\x80\x80\x80\x10", json!({"x": 0})),
            ("float64", b"\x09\x00\x00\x00\x00\x00\x00\xf8\x3f", json!({"x": 1.5})),
            ("float64", b"\x09\x00\x00\x00\x00\x00\x00\x00\x40", json!({"x": 2})),
            ("quantity", b"\x0a\x05\x0a\x03500", json!({"x": "500"})),
            ("int-or-string", b"\x0a\x04\x08\x00\x10\x50", json!({"x": 80})),
            ("int-or-string", b"\x0a\x06\x08\x01\x1a\x02up", json!({"x": "up"})),
            (
                "time",
                b"\x0a\x04\x08\x01\x10\x05",
                json!({"x": "1970-01-01T00:00:01Z"}),
            ),
            (
                "micro-time",
                b"\x0a\x06\x08\x01\x10\xb8\xea\x01",
                json!({"x": "1970-01-01T00:00:01.000030Z"}),
            ),
            ("json", b"\x0a\x09\x0a\x07{\"a\":1}", json!({"x": {"a": 1}})),
            (
                "b",
                b"\x0a\x03\x0a\x01q\x0a\x02\x10\x07",
                json!({"x": {"y": "q", "z": 7}}),
            ),
            ("b", b"\x0a\x02\x78\x01", json!({"x": {"y": ""}})),
            ("[]text", b"\x0a\x01a\x0a\x00", json!({"x": ["a", ""]})),
            ("[]b", b"\x0a\x00", json!({"x": [{"y": ""}]})),
            (
                "{}text",
                b"\x0a\x06\x0a\x01k\x12\x01v\x0a\x03\x0a\x01e",
                json!({"x": {"k": "v", "e": ""}}),
            ),
            ("{}bytes", b"\x0a\x03\x0a\x01k", json!({"x": {"k": ""}})),
            ("?*schema-or-bool", b"\x0a\x02\x08\x01", json!({"x": true})),
            ("?*schema-or-bool", b"\x0a\x00", json!({"x": false})),
            (
                "?*schema-or-bool",
                b"\x0a\x05\x12\x03\x0a\x01i",
                json!({"x": {"id": "i"}}),
            ),
            (
                "?*schema-or-list",
                b"\x0a\x05\x0a\x03\x0a\x01i",
                json!({"x": {"id": "i"}}),
            ),
            ("?*schema-or-list", b"\x0a\x02\x12\x00", json!({"x": [{}]})),
            ("?*schema-or-list", b"\x0a\x00", json!({"x": null})),
            ("schema-or-names", b"\x0a\x03\x12\x01n", json!({"x": ["n"]})),
        ];
        for (of, bytes, expected) in table {
            assert_eq!(read(of, bytes), Ok(expected), "{of} {bytes:?}");
        }
    }

    #[test]
    fn what_is_not_what_it_should_be() {
        let table: [(&str, &[u8]); 14] = [
            ("text", b"\x08\x01"),
            ("int32", b"\x0a\x00"),
            ("float64", b"\x08\x01"),
            ("float64", b"\x09\x00\x00\x00\x00\x00\x00\xf8\x7f"),
            ("b", b"\x08\x01"),
            ("b", b"\x0a\x01\x0a"),
            ("quantity", b"\x0a\x00"),
            ("quantity", b"\x0a\x04\x0a\x02xy"),
            ("int-or-string", b"\x0a\x02\x08\x02"),
            ("time", b"\x0a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
            ("json", b"\x0a\x03\x0a\x01{"),
            ("[]text", b"\x08\x01"),
            ("{}text", b"\x0a\x02\x08\x01"),
            ("*schema-or-list", b"\x0a\x02\x10\x01"),
        ];
        for (of, bytes) in table {
            assert!(read(of, bytes).is_err(), "{of} {bytes:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| {
            let mut bytes = Vec::new();
            for _ in 0..depth {
                let mut outer = vec![0x0a];
                let mut length = bytes.len();
                while length > 0x7f {
                    outer.push((length & 0x7f) as u8 | 0x80);
                    length >>= 7;
                }
                outer.push(length as u8);
                outer.extend(bytes);
                bytes = outer;
            }
            bytes
        };
        assert!(read("c", &nested(DEEPEST - 1)).is_ok());
        assert_eq!(
            read("c", &nested(DEEPEST)),
            Err("it nests more than 128 deep".to_owned())
        );
        assert!(read("c", &nested(20_000)).is_err());
    }
}
