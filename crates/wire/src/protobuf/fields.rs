//! Protobuf's own encoding: a message is fields, a field a number and a value.

/// Bytes that are no protobuf, or not the message they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The end is missing.
    #[error("it ends within a field")]
    Truncated,
    /// A number of more than 64 bits.
    #[error("it has a number of more than 64 bits")]
    Overlong,
    /// A field that no message can have.
    #[error("it has a field that no message can have (number {number}, wire type {wire_type})")]
    NoField {
        /// Its number.
        number: u64,
        /// How its value would be encoded.
        wire_type: u8,
    },
    /// A field whose value is encoded as another type's.
    #[error("it is not encoded as {0}")]
    Mistyped(&'static str),
    /// Not what Kubernetes wraps objects in.
    #[error("{0}")]
    Envelope(String),
    /// A value that its reader does not take.
    #[error("{0}")]
    Refused(String),
}

/// The value of a field, as far as the encoding tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of any size, as its bits: negative ones take all 64.
    Number(u64),
    /// A number of eight bytes, as its bits: those of an `f64`, say.
    Fixed64(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
    /// Numbers of four bytes and groups, which no message of Kubernetes has.
    Other,
}

impl<'a> Value<'a> {
    /// The number that it has to be.
    ///
    /// # Errors
    /// Anything else.
    pub fn number(self) -> Result<u64, DecodeError> {
        match self {
            Value::Number(number) => Ok(number),
            Value::Bytes(_) | Value::Fixed64(_) | Value::Other => Err(DecodeError::Mistyped("a number")),
        }
    }

    /// The bytes that it has to be.
    ///
    /// # Errors
    /// Anything else.
    pub fn bytes(self) -> Result<&'a [u8], DecodeError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number(_) | Value::Fixed64(_) | Value::Other => Err(DecodeError::Mistyped("text or a message")),
        }
    }
}

/// The fields of a message, in their order, with their numbers. The first error is the last item.
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Those of a message.
    pub fn new(message: &'a [u8]) -> Self {
        Fields(message)
    }

    /// The value of a field that is there once; of several the last one counts.
    ///
    /// # Errors
    /// Bytes that are no message.
    pub fn last(self, wanted: u32) -> Result<Option<Value<'a>>, DecodeError> {
        let mut last = None;
        for field in self {
            let (number, value) = field?;
            if number == wanted {
                last = Some(value);
            }
        }
        Ok(last)
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::Overlong)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length));
        let (taken, rest) = split.ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// A field's number, and how its value is encoded.
    fn key(&mut self) -> Result<(u32, u8), DecodeError> {
        const MOST: u64 = (1 << 29) - 1;
        let key = self.varint()?;
        let (number, wire_type) = (key >> 3, (key & 7) as u8);
        match u32::try_from(number) {
            Ok(small) if (1..=MOST).contains(&number) => Ok((small, wire_type)),
            _ => Err(DecodeError::NoField { number, wire_type }),
        }
    }

    fn value(&mut self, number: u32, wire_type: u8) -> Result<Value<'a>, DecodeError> {
        Ok(match wire_type {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed64(self.fixed64()?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            3 => self.group().map(|()| Value::Other)?,
            5 => self.take(4).map(|_| Value::Other)?,
            _ => {
                let number = u64::from(number);
                return Err(DecodeError::NoField { number, wire_type });
            }
        })
    }

    /// Skips what is left of a group, and the groups in it: by counting, so that no depth is too deep.
    fn group(&mut self) -> Result<(), DecodeError> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.key()? {
                (_, 3) => depth += 1,
                (_, 4) => depth -= 1,
                (number, wire_type) => {
                    self.value(number, wire_type)?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self
            .key()
            .and_then(|(number, wire_type)| Ok((number, self.value(number, wire_type)?)));
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        type Case<'a> = (&'a [u8], &'a [(u32, Value<'a>)], Option<DecodeError>);
        let eleven = [0xff; 11];
        let table: &[Case<'_>] = &[
            (b"", &[], None),
            (b"\x08\x05", &[(1, Value::Number(5))], None),
            (b"\x08\xac\x02", &[(1, Value::Number(300))], None),
            // Minus one.
            (
                b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                &[(2, Value::Number(u64::MAX))],
                None,
            ),
            (
                b"\x1a\x02ab\x1a\x00",
                &[(3, Value::Bytes(b"ab")), (3, Value::Bytes(b""))],
                None,
            ),
            (b"\xa2\x06\x01a", &[(100, Value::Bytes(b"a"))], None),
            (
                b"\x0912345678\x0d1234\x08\x00",
                &[
                    (1, Value::Fixed64(u64::from_le_bytes(*b"12345678"))),
                    (1, Value::Other),
                    (1, Value::Number(0)),
                ],
                None,
            ),
            // A group with a number, a text and another group in it.
            (
                b"\x0b\x08\x01\x12\x01a\x1b\x1c\x0c\x10\x01",
                &[(1, Value::Other), (2, Value::Number(1))],
                None,
            ),
            (b"\x08\x05\x08", &[(1, Value::Number(5))], Some(DecodeError::Truncated)),
            (b"\x08\x80", &[], Some(DecodeError::Truncated)),
            (b"\x0a\x03ab", &[], Some(DecodeError::Truncated)),
            (
                b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                &[],
                Some(DecodeError::Truncated),
            ),
            (b"\x091234567", &[], Some(DecodeError::Truncated)),
            (b"\x0d123", &[], Some(DecodeError::Truncated)),
            (b"\x0b\x0b\x0c", &[], Some(DecodeError::Truncated)),
            (&eleven, &[], Some(DecodeError::Overlong)),
            (
                b"\x00\x00",
                &[],
                Some(DecodeError::NoField {
                    number: 0,
                    wire_type: 0,
                }),
            ),
            (
                b"\x0c",
                &[],
                Some(DecodeError::NoField {
                    number: 1,
                    wire_type: 4,
                }),
            ),
            (
                b"\x0e",
                &[],
                Some(DecodeError::NoField {
                    number: 1,
                    wire_type: 6,
                }),
            ),
            (
                b"\x80\x80\x80\x80\x10\x00",
                &[],
                Some(DecodeError::NoField {
                    number: 1 << 29,
                    wire_type: 0,
                }),
            ),
        ];
        for (bytes, expected, error) in table {
            let (mut fields, mut failed) = (Vec::new(), None);
            for field in Fields::new(bytes) {
                assert_eq!(failed, None, "an error is the last item: {bytes:?}");
                match field {
                    Ok(field) => fields.push(field),
                    Err(error) => failed = Some(error),
                }
            }
            assert_eq!((fields.as_slice(), &failed), (*expected, error), "{bytes:?}");
        }
    }

    #[test]
    fn the_last_of_several() {
        let fields = || Fields::new(b"\x0a\x01a\x10\x07\x0a\x01b");
        assert_eq!(fields().last(1), Ok(Some(Value::Bytes(b"b"))));
        assert_eq!(fields().last(2), Ok(Some(Value::Number(7))));
        assert_eq!(fields().last(3), Ok(None));
        assert_eq!(Fields::new(b"\x08").last(1), Err(DecodeError::Truncated));
    }

    #[test]
    fn deep_groups() {
        let deep = [vec![0x0b; 1_000_000], vec![0x0c; 1_000_000]].concat();
        assert_eq!(Fields::new(&deep).count(), 1);
    }
}
