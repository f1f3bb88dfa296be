//! Protobuf messages that are well formed as far as lengths go, so that what is changed in an input is not lost on those.

/// A field that holds text or a message.
pub fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 8);
    varint(&mut bytes, u64::from(number) << 3 | 2);
    varint(&mut bytes, value.len() as u64);
    bytes.extend(value);
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The body of an answer with this object.
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [&b"k8s\0"[..], &field(1, &type_meta), &field(2, message)].concat()
}

/// Makes a message. Of each byte the upper six bits are a field's number, and the lower two what follows:
/// 0, a number: the next byte, from 128 on an extreme one; 1, a message: its fields, up to 3; 2, text: up to a zero byte.
pub fn make(steps: &[u8]) -> Vec<u8> {
    let mut steps = steps.iter().copied();
    let mut outer = Vec::new();
    let mut message = Vec::new();
    while let Some(step) = steps.next() {
        let number = u32::from(step >> 2);
        match step & 3 {
            0 => {
                varint(&mut message, u64::from(number) << 3);
                varint(&mut message, steps.next().map_or(0, extreme));
            }
            1 => outer.push((number, std::mem::take(&mut message))),
            2 => {
                let text: Vec<u8> = steps.by_ref().take_while(|byte| *byte != 0).collect();
                message.extend(field(number, &text));
            }
            _ => close(&mut outer, &mut message),
        }
    }
    while !outer.is_empty() {
        close(&mut outer, &mut message);
    }
    message
}

fn close(outer: &mut Vec<(u32, Vec<u8>)>, message: &mut Vec<u8>) {
    if let Some((number, mut before)) = outer.pop() {
        before.extend(field(number, message));
        *message = before;
    }
}

fn extreme(byte: u8) -> u64 {
    match byte {
        0..0x80 => u64::from(byte),
        0x80..0xc0 => 1 << (byte & 0x3f),
        _ => u64::MAX - u64::from(byte & 0x3f),
    }
}
