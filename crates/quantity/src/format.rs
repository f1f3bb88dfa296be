//! Canonical text: no fraction, and the largest suffix that leaves an integer.

use num_bigint::BigInt;

use crate::amount::{Amount, NANO};

/// How a quantity is written; parsing remembers it, arithmetic passes it on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Powers of 1000: `500m`, `2`, `12M`.
    #[default]
    DecimalSi,
    /// Powers of 1024: `12Mi`. Shown as decimal SI where it is under 1024 units in magnitude or not whole.
    BinarySi,
    /// A decimal exponent that is a multiple of three: `12e6`.
    DecimalExponent,
}

/// Suffixes of 10^-9, 10^-6 and so on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The same as exponents.
const EXPONENT: [&str; 10] = ["e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"];
/// Suffixes of 1024^0, 1024^1 and so on.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Enough for a sign, the 20 digits of a 64 bit number and the suffix.
const SHORT: usize = 24;

/// Gives `with` the canonical text of `amount`. The text lives on the stack in all but extraordinary cases.
pub(crate) fn with_canonical<R>(amount: &Amount<'_>, format: Format, with: impl FnOnce(&str) -> R) -> R {
    match amount {
        Amount::Small(0) => with("0"),
        Amount::Small(nanos) => match small(*nanos, format, &mut [0; SHORT]) {
            Some(text) => with(text),
            None => with(&large(&BigInt::from(*nanos), format)),
        },
        Amount::Big(nanos) => with(&large(nanos, format)),
    }
}

/// Canonical text where what is left without the suffix's zeros fits 64 bits: no big division, no allocation.
fn small(nanos: i128, format: Format, buffer: &mut [u8; SHORT]) -> Option<&str> {
    const NANO_U128: u128 = NANO.unsigned_abs();
    let negative = nanos.is_negative();
    let magnitude = nanos.unsigned_abs();

    // Thousands taken out so far, counted from nano.
    let (mut number, mut thousands) = match u64::try_from(magnitude) {
        Ok(number) => (number, 0usize),
        Err(_) if magnitude.is_multiple_of(NANO_U128) => (u64::try_from(magnitude / NANO_U128).ok()?, 3),
        Err(_) => return None,
    };

    if format == Format::BinarySi {
        let whole = match thousands {
            0 if number.is_multiple_of(1_000_000_000) => number / 1_000_000_000,
            0 => 0, // not whole: shown as decimal SI, as everything under 1024
            _ => number,
        };
        if whole >= 1024 {
            // 64 bits hold less than 1024^7, so there is a suffix.
            let kibis = whole.trailing_zeros() / 10;
            return Some(short(buffer, negative, whole >> (10 * kibis), BINARY[kibis as usize]));
        }
    }

    // Most quantities are whole: try the three steps to units at once. 64 bits of units hold less than 1000^7, so
    // decimal SI never runs out of suffixes here.
    if thousands == 0 && number.is_multiple_of(1_000_000_000) {
        number /= 1_000_000_000;
        thousands = 3;
    }
    while number.is_multiple_of(1000) {
        number /= 1000;
        thousands += 1;
    }
    Some(match format {
        Format::DecimalExponent => short(buffer, negative, number, EXPONENT[thousands]),
        Format::DecimalSi | Format::BinarySi => short(buffer, negative, number, DECIMAL[thousands]),
    })
}

/// Canonical text of any amount but zero.
fn large(nanos: &BigInt, format: Format) -> String {
    if format == Format::BinarySi {
        let nano = BigInt::from(NANO);
        let units = nanos / &nano;
        let exact = &units * &nano == *nanos;
        if exact && units.magnitude() >= &1024u32.into() {
            let kibis = (units.trailing_zeros().unwrap_or(0) / 10).min(BINARY.len() as u64 - 1);
            return format!("{}{}", units >> (10 * kibis), BINARY[kibis as usize]);
        }
    }
    // Dividing by 1000 is dropping three zeros of the text.
    let mut text = nanos.to_string();
    let zeros = text.len() - text.trim_end_matches('0').len();
    let mut thousands = zeros / 3;
    if format != Format::DecimalExponent {
        thousands = thousands.min(DECIMAL.len() - 1);
    }
    text.truncate(text.len() - 3 * thousands);
    match format {
        Format::DecimalExponent if thousands != 3 => format!("{text}e{}", 3 * thousands as i64 - 9),
        _ => text + DECIMAL[thousands],
    }
}

/// Writes a short text, at the end of the buffer.
#[inline]
fn short<'a>(buffer: &'a mut [u8; SHORT], negative: bool, mut number: u64, suffix: &str) -> &'a str {
    let mut start = SHORT - suffix.len();
    buffer[start..].copy_from_slice(suffix.as_bytes());
    loop {
        start -= 1;
        buffer[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    if negative {
        start -= 1;
        buffer[start] = b'-';
    }
    // Only ASCII was written.
    std::str::from_utf8(&buffer[start..]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(amount: &Amount<'_>, format: Format) -> String {
        with_canonical(amount, format, str::to_owned)
    }

    #[test]
    fn small_and_large_agree() {
        let mut nanos: i128 = 1;
        let mut steps = [7_i128, 10, 8, 125, 1000, 1024].iter().cycle();
        while let Some(next) = steps.next().and_then(|step| nanos.checked_mul(*step)) {
            for value in [nanos, -nanos, nanos + 1, nanos - NANO, nanos * NANO % i128::MAX] {
                for format in [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent] {
                    if value != 0
                        && let Some(text) = small(value, format, &mut [0; SHORT])
                    {
                        assert_eq!(text, large(&BigInt::from(value), format), "{value} {format:?}");
                    }
                }
            }
            nanos = if next > i128::MAX / 1024 / NANO { break } else { next };
        }
    }

    #[test]
    fn beyond_the_largest_suffix() {
        let units = |text: &str| Amount::from(text.parse::<BigInt>().unwrap() * NANO);
        let cases: &[(&str, Format, &str)] = &[
            ("1000000000000000000", Format::DecimalSi, "1E"),
            ("1000000000000000000000", Format::DecimalSi, "1000E"),
            (
                "-1000000000000000000000000000000000000000000000",
                Format::DecimalSi,
                "-1000000000000000000000000000E",
            ),
            ("1000000000000000000000", Format::DecimalExponent, "1e21"),
            ("1000000000000000000000", Format::BinarySi, "953674316406250Mi"), // 2^21 * 5^21
            ("1180591620717411303424", Format::BinarySi, "1024Ei"),
            ("1208925819614629174706176", Format::BinarySi, "1048576Ei"),
            ("-1180591620717411303424", Format::BinarySi, "-1024Ei"),
        ];
        for (value, format, want) in cases {
            assert_eq!(canonical(&units(value), *format), *want);
        }
    }
}
