//! From text to a quantity.

use num_bigint::{BigInt, BigUint};

use crate::amount::{Amount, NANO};
use crate::format::{Format, with_canonical};
use crate::quantity::Quantity;

/// The longest text that is read, in bytes (a valid quantity is ASCII).
pub const MAX_TEXT: usize = 1000;

/// The largest decimal exponent in magnitude.
pub const MAX_EXPONENT: i32 = 1000;

/// How much of a refused text an error shows, in characters.
const SHOWN: usize = 60;

/// The largest magnitude a binary SI text stands for, in nano units; more is capped.
const BINARY_MAX: i128 = i64::MAX as i128 * NANO;

/// Text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a quantity: {reason}; a quantity is a number with an optional suffix (n u m k M G T P E, \
     Ki Mi Gi Ti Pi Ei, or e and an exponent), such as 500m, 2 or 1.5Gi"
)]
pub struct ParseError {
    text: String,
    reason: Reason,
}

/// What is wrong with a text that is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// There is no text.
    #[error("it is empty")]
    Empty,
    /// The text is longer than [`MAX_TEXT`].
    #[error("it is longer than {MAX_TEXT} characters")]
    TooLong,
    /// What follows the number is no suffix.
    #[error("what follows the number is not a suffix")]
    Suffix,
    /// The exponent is outside -[`MAX_EXPONENT`]..=[`MAX_EXPONENT`].
    #[error("its exponent is outside -{MAX_EXPONENT}..{MAX_EXPONENT}")]
    Exponent,
    /// There are no digits before a suffix that needs them.
    #[error("it has no digits")]
    NoDigits,
    /// The token is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
}

impl ParseError {
    #[cold]
    pub(crate) fn new(text: &str, reason: Reason) -> ParseError {
        let text = match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text.to_owned(),
        };
        ParseError { text, reason }
    }

    /// What is wrong.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

/// The number a text begins with, without its sign.
#[derive(Clone, Copy)]
struct Number<'a> {
    /// Integer digits, without leading zeros.
    integer: &'a [u8],
    /// Fraction digits.
    fraction: &'a [u8],
    /// Those digits together as a number, where they are 19 at most (and so fit).
    mantissa: u64,
}

/// The number is to be multiplied by 2^`power` in binary SI, else by 10^`power`.
#[derive(Clone, Copy)]
struct Suffix {
    format: Format,
    power: i32,
}

pub(crate) fn parse(text: &str) -> Result<Quantity, ParseError> {
    if text.len() > MAX_TEXT {
        return Err(ParseError::new(text, Reason::TooLong));
    }
    let (negative, unsigned) = match text.as_bytes() {
        [] => return Err(ParseError::new(text, Reason::Empty)),
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mut rest = unsigned;
    while let [b'0', after @ ..] = rest {
        rest = after;
    }
    let zeros = unsigned.len() - rest.len();
    let mut mantissa = 0;
    let integer = take_digits(&mut rest, &mut mantissa);
    let mut fraction = &rest[..0];
    if let [b'.', after @ ..] = rest {
        rest = after;
        fraction = take_digits(&mut rest, &mut mantissa);
    }
    let number = Number {
        integer,
        fraction,
        mantissa,
    };
    let suffix = match Suffix::parse(rest) {
        Ok(suffix) => suffix,
        Err(reason) => return Err(ParseError::new(text, reason)),
    };

    // Most texts are as canonical text could be: no plus, no leading zeros, no point. Kept text would be the same then.
    let plain = text.len() == usize::from(negative) + integer.len() + rest.len();
    if plain
        && !integer.is_empty()
        && suffix.format != Format::DecimalExponent
        && let Some(nanos) = small_magnitude(&number, suffix)
        && (suffix.format != Format::BinarySi || nanos <= BINARY_MAX)
    {
        return Ok(Quantity::plain(if negative { -nanos } else { nanos }, suffix.format));
    }

    // Upstream reads most numbers by a fast path that takes a missing number for 0, and the rest by one that does not.
    let fast = if suffix.format == Format::BinarySi {
        suffix.power < 50
    } else {
        suffix.power >= -9
    };
    if zeros + integer.len() + fraction.len() == 0 && !fast {
        return Err(ParseError::new(text, Reason::NoDigits));
    }
    Ok(unusual(text, negative, &number, suffix))
}

/// Takes the digits at the front of `text`, and appends them to `number`. That wraps beyond 19 digits.
#[inline]
fn take_digits<'a>(text: &mut &'a [u8], number: &mut u64) -> &'a [u8] {
    let all = *text;
    while let [digit @ b'0'..=b'9', after @ ..] = *text {
        *number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        *text = after;
    }
    &all[..all.len() - text.len()]
}

/// The quantity of any valid text. Apart, so that the common path stays small.
#[inline(never)]
fn unusual(text: &str, negative: bool, number: &Number<'_>, suffix: Suffix) -> Quantity {
    let magnitude = match small_magnitude(number, suffix) {
        Some(nanos) => Amount::Small(nanos),
        None => large_magnitude(number, suffix),
    };
    let (magnitude, format) = match (magnitude, suffix.format) {
        // Upstream: "this avoids rounding and hopefully confusion, too".
        (Amount::Small(nanos @ 1..NANO), Format::BinarySi) => (Amount::Small(nanos), Format::DecimalSi),
        (Amount::Small(nanos), Format::BinarySi) => (Amount::Small(nanos.min(BINARY_MAX)), Format::BinarySi),
        (Amount::Big(_), Format::BinarySi) => (Amount::Small(BINARY_MAX), Format::BinarySi),
        other => other,
    };
    let amount = if negative { magnitude.neg() } else { magnitude };
    if is_kept(number, suffix) {
        // Kept text is usually canonical text all the same.
        let canonical = with_canonical(&amount, format, |canonical| canonical == text);
        return Quantity::new(amount, format, (!canonical).then_some(text));
    }
    Quantity::new(amount, format, None)
}

impl Suffix {
    #[inline]
    fn parse(text: &[u8]) -> Result<Suffix, Reason> {
        let decimal = |power| {
            Ok(Suffix {
                format: Format::DecimalSi,
                power,
            })
        };
        let binary = |power| {
            Ok(Suffix {
                format: Format::BinarySi,
                power,
            })
        };
        match text {
            [] => decimal(0),
            [b'n'] => decimal(-9),
            [b'u'] => decimal(-6),
            [b'm'] => decimal(-3),
            [b'k'] => decimal(3),
            [b'M'] => decimal(6),
            [b'G'] => decimal(9),
            [b'T'] => decimal(12),
            [b'P'] => decimal(15),
            [b'E'] => decimal(18),
            [b'K', b'i'] => binary(10),
            [b'M', b'i'] => binary(20),
            [b'G', b'i'] => binary(30),
            [b'T', b'i'] => binary(40),
            [b'P', b'i'] => binary(50),
            [b'E', b'i'] => binary(60),
            [b'e' | b'E', exponent @ ..] => Suffix::exponent(exponent),
            _ => Err(Reason::Suffix),
        }
    }

    fn exponent(text: &[u8]) -> Result<Suffix, Reason> {
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Reason::Suffix);
        }
        let mut power = 0;
        for digit in digits {
            power = power * 10 + i32::from(digit - b'0');
            if power > MAX_EXPONENT {
                return Err(Reason::Exponent);
            }
        }
        Ok(Suffix {
            format: Format::DecimalExponent,
            power: if negative { -power } else { power },
        })
    }

    /// The powers of ten and of two it stands for.
    #[inline]
    fn ten_and_two(self) -> (i32, u32) {
        match self.format {
            Format::BinarySi => (0, self.power.unsigned_abs()),
            Format::DecimalSi | Format::DecimalExponent => (self.power, 0),
        }
    }
}

/// The magnitude in nano units, where no step leaves 128 bits and nothing is to be rounded.
#[inline]
fn small_magnitude(number: &Number<'_>, suffix: Suffix) -> Option<i128> {
    if number.integer.len() + number.fraction.len() > 19 {
        return None;
    }
    let (ten, two) = suffix.ten_and_two();
    let ten = usize::try_from(9 + ten - number.fraction.len() as i32).ok()?;
    // Two 64 bit factors cannot leave 128 bits; the larger powers are rare.
    let magnitude = match POWERS_OF_TEN.get(ten) {
        Some(power) => u128::from(number.mantissa) * u128::from(*power),
        None => 10u128
            .checked_pow(ten as u32)?
            .checked_mul(u128::from(number.mantissa))?,
    };
    (magnitude.leading_zeros() > two).then_some((magnitude << two) as i128)
}

const POWERS_OF_TEN: [u64; 20] = {
    let mut powers = [1; 20];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = 10 * powers[i - 1];
        i += 1;
    }
    powers
};

/// The magnitude in nano units; what is finer is rounded up. The limits on text and exponent bound the work.
#[cold]
fn large_magnitude(number: &Number<'_>, suffix: Suffix) -> Amount<'static> {
    let (ten, two) = suffix.ten_and_two();
    let digits = [number.integer, number.fraction].concat();
    let mantissa = BigUint::parse_bytes(&digits, 10).unwrap_or_default() << two;
    let power = 9 + ten - number.fraction.len() as i32;
    let ten = BigUint::from(10u32).pow(power.unsigned_abs());
    let nanos = if power >= 0 {
        mantissa * ten
    } else {
        (mantissa + &ten - 1u32) / ten
    };
    Amount::from(BigInt::from(nanos))
}

/// Whether upstream prints this text as it is written, rather than in canonical form.
fn is_kept(number: &Number<'_>, suffix: Suffix) -> bool {
    let (integer, fraction) = (number.integer.len(), number.fraction.len());
    match suffix.format {
        Format::BinarySi => {
            let most = match suffix.power {
                10 => 11,
                20 => 8,
                30 => 5,
                40 => 2,
                _ => 0,
            };
            fraction == 0 && integer <= most && !number.mantissa.is_multiple_of(8)
        }
        Format::DecimalSi | Format::DecimalExponent => {
            let exponent = suffix.power - fraction as i32;
            integer > 0
                && integer + fraction <= 18
                && exponent >= -9
                && exponent % 3 == 0
                && !number.mantissa.is_multiple_of(1000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_text_and_the_reason() {
        let long = "1".repeat(2000);
        let cases: &[(&str, Reason, &str)] = &[
            ("", Reason::Empty, r#""" is not a quantity: it is empty; "#),
            (
                "1K",
                Reason::Suffix,
                r#""1K" is not a quantity: what follows the number is not a suffix; "#,
            ),
            (
                "1e5000",
                Reason::Exponent,
                r#""1e5000" is not a quantity: its exponent is outside -1000..1000; "#,
            ),
            ("Ei", Reason::NoDigits, r#""Ei" is not a quantity: it has no digits; "#),
            (
                &long,
                Reason::TooLong,
                "11111...\" is not a quantity: it is longer than 1000 characters; ",
            ),
        ];
        for (text, reason, part) in cases {
            let error = parse(text).unwrap_err();
            assert_eq!(error.reason(), *reason, "{text}");
            let message = error.to_string();
            assert!(message.contains(part), "{message}");
            assert!(message.ends_with("such as 500m, 2 or 1.5Gi"), "{message}");
            assert!(message.len() < 320, "{message}");
        }
        assert!(parse(&"é".repeat(400)).unwrap_err().to_string().contains("é...\""));
    }

    #[test]
    fn the_common_path_agrees_with_the_other() {
        for text in [
            "100m",
            "1Gi",
            "500Mi",
            "2",
            "-4",
            "1000",
            "1E",
            "2Ti",
            "9223372036854775807",
            "123456789n",
            "8Pi",
        ] {
            let common = parse(text).unwrap();
            // A point takes the other path; the value is the same.
            let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
            let pointed = parse(&format!("{}.{}", &text[..end], &text[end..])).unwrap();
            assert_eq!(
                (&common, common.to_string()),
                (&pointed, pointed.canonical().to_string()),
                "{text}"
            );
            assert_eq!(common.format(), pointed.format(), "{text}");
        }
    }

    #[test]
    fn the_worst_text_takes_bounded_time() {
        let digits = "9".repeat(994);
        for text in [
            format!("{digits}e1000"),
            format!("0.{digits}"),
            format!(".{}Ei", "9".repeat(990)),
            format!("{digits}e-1000"),
        ] {
            let quantity = parse(&text).unwrap();
            assert_eq!(quantity.canonical(), quantity);
            assert!(quantity.to_string().len() < 2100);
        }
    }
}
