//! What a scalar of YAML means to kubectl, which reads YAML 1.1 as `go.yaml.in/yaml/v2` has it: `yes` is a boolean, `0777` is octal.

use std::borrow::Cow;

/// A scalar's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Cow<'a, str>),
}

/// The value of a scalar without quotes and without a tag.
pub(super) fn plain(text: Cow<'_, str>) -> Scalar<'_> {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    number(&text).unwrap_or(Scalar::Text(text))
}

/// The value of a scalar under one of YAML's own tags, or under one of somebody else's (which make no difference to it).
pub(super) fn tagged<'a>(tag: Option<&str>, text: Cow<'a, str>) -> Result<Scalar<'a>, String> {
    let shown = text.clone();
    Ok(match (tag, plain(text.clone())) {
        (Some("null"), Scalar::Null) => Scalar::Null,
        (Some("bool"), value @ Scalar::Bool(_))
        | (Some("int"), value @ Scalar::Integer(_))
        | (Some("float"), value @ Scalar::Float(_)) => value,
        // A value that f64 can't hold exactly is rounded, as anywhere in YAML.
        #[allow(clippy::cast_precision_loss)]
        (Some("float"), Scalar::Integer(value)) => Scalar::Float(value as f64),
        (Some(tag @ ("null" | "bool" | "int" | "float")), _) => {
            return Err(format!("{shown:?} can't be read as !!{tag}"));
        }
        _ => Scalar::Text(text),
    })
}

fn number<'a>(text: &str) -> Option<Scalar<'a>> {
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return None;
    }
    let digits = if text.contains('_') {
        Cow::Owned(text.replace('_', ""))
    } else {
        Cow::Borrowed(text)
    };
    if let Some(integer) = integer(&digits) {
        return Some(Scalar::Integer(integer));
    }
    let value: f64 = digits
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && is_float(&digits))?;
    Some(Scalar::Float(value))
}

/// As Go's `ParseInt` and `ParseUint` read with base 0: what fits 64 bits, also in bases 16, 8 and 2.
fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (Some(1), &text[1..]),
        b'-' => (Some(-1), &text[1..]),
        _ => (None, text),
    };
    let prefixed = |prefix: char| {
        digits
            .strip_prefix('0')
            .and_then(|rest| rest.strip_prefix([prefix, prefix.to_ascii_uppercase()]))
    };
    let (base, digits) = match (prefixed('x'), prefixed('o'), prefixed('b')) {
        (Some(hex), _, _) => (16, hex),
        (_, Some(octal), _) => (8, octal),
        (_, _, Some(binary)) => (2, binary),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    // A second sign is no digit.
    let magnitude = u64::from_str_radix(digits, base)
        .ok()
        .filter(|_| !digits.starts_with('+'))?;
    match sign {
        None => Some(i128::from(magnitude)),
        Some(sign) => i64::try_from(i128::from(magnitude) * sign).ok().map(i128::from),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = text
        .split_once(['e', 'E'])
        .map_or((text, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    };
    mantissa_fits && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Scalar<'_> {
        Scalar::Text(Cow::Borrowed(text))
    }

    /// What `sigs.k8s.io/yaml` v1.6.0 makes of each.
    #[test]
    fn as_kubectl_reads_them() {
        use Scalar::{Bool, Float, Integer, Null};
        let table: Vec<(&str, Scalar<'_>)> = vec![
            ("y", Bool(true)),
            ("Y", Bool(true)),
            ("yes", Bool(true)),
            ("Yes", Bool(true)),
            ("YES", Bool(true)),
            ("yEs", text("yEs")),
            ("on", Bool(true)),
            ("oN", text("oN")),
            ("true", Bool(true)),
            ("tRUE", text("tRUE")),
            ("n", Bool(false)),
            ("N", Bool(false)),
            ("no", Bool(false)),
            ("off", Bool(false)),
            ("OFF", Bool(false)),
            ("", Null),
            ("~", Null),
            ("null", Null),
            ("Null", Null),
            ("nULL", text("nULL")),
            ("0", Integer(0)),
            ("-0", Integer(0)),
            ("+5", Integer(5)),
            ("0777", Integer(511)),
            ("0_7", Integer(7)),
            ("0o17", Integer(15)),
            ("0O17", Integer(15)),
            ("0o8", text("0o8")),
            ("0x1F", Integer(31)),
            ("0x_1F", Integer(31)),
            ("-0x1f", Integer(-31)),
            ("0x", text("0x")),
            ("0b11", Integer(3)),
            ("-0b11", Integer(-3)),
            ("+0b1", Integer(1)),
            ("0b12", text("0b12")),
            ("08", Float(8.0)),
            ("0_8", Float(8.0)),
            ("09.5", Float(9.5)),
            ("1_000", Integer(1000)),
            ("1__0", Integer(10)),
            ("_1", text("_1")),
            ("1e3", Float(1000.0)),
            ("1E3", Float(1000.0)),
            ("1_e3", Float(1000.0)),
            ("1e+3", Float(1000.0)),
            ("1e-3", Float(0.001)),
            ("1e", text("1e")),
            ("e3", text("e3")),
            ("1e999", text("1e999")),
            (".5", Float(0.5)),
            (".5_0", Float(0.5)),
            ("-.5", Float(-0.5)),
            ("+.5", Float(0.5)),
            ("1.", Float(1.0)),
            (".", text(".")),
            ("..", text("..")),
            ("+", text("+")),
            ("--1", text("--1")),
            ("+-1", text("+-1")),
            ("1:30", text("1:30")),
            ("190:20:30", text("190:20:30")),
            ("2026-01-01", text("2026-01-01")),
            ("2026-01-01T00:00:00Z", text("2026-01-01T00:00:00Z")),
            ("9223372036854775808", Integer(9_223_372_036_854_775_808)),
            ("18446744073709551615", Integer(18_446_744_073_709_551_615)),
            ("18446744073709551616", Float(18_446_744_073_709_552_000.0)),
            ("-9223372036854775808", Integer(-9_223_372_036_854_775_808)),
            ("-9223372036854775809", Float(-9_223_372_036_854_775_808.0)),
            (".inf", Float(f64::INFINITY)),
            ("-.Inf", Float(f64::NEG_INFINITY)),
            ("inf", text("inf")),
            ("+inf", text("+inf")),
            ("nan", text("nan")),
            ("12 apples", text("12 apples")),
            ("1.5Gi", text("1.5Gi")),
            ("100m", text("100m")),
        ];
        for (written, expected) in table {
            assert_eq!(plain(Cow::Borrowed(written)), expected, "{written:?}");
        }
    }

    #[test]
    fn tags() {
        let table = [
            (Some("str"), "5", Ok(text("5"))),
            (Some("str"), "yes", Ok(text("yes"))),
            (None, "5", Ok(text("5"))),
            (Some("int"), "5", Ok(Scalar::Integer(5))),
            (Some("float"), "0x10", Ok(Scalar::Float(16.0))),
            (Some("bool"), "yes", Ok(Scalar::Bool(true))),
            (Some("null"), "", Ok(Scalar::Null)),
            (Some("int"), "x", Err("\"x\" can't be read as !!int".to_owned())),
        ];
        for (tag, written, expected) in table {
            assert_eq!(tagged(tag, Cow::Borrowed(written)), expected, "{tag:?} {written:?}");
        }
    }
}
