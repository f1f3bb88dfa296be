//! The quantity itself: a value, a format and, rarely, kept text.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};
use std::str::FromStr;

use crate::amount::{Amount, NANO};
use crate::format::{Format, with_canonical};
use crate::parse::{self, ParseError, Reason};

/// An exact Kubernetes quantity (`resource.Quantity` of k8s.io/apimachinery v0.37.2).
///
/// The value is an integer number of nano units of any size. Equality, order and hash are by value. Arithmetic is
/// exact and cannot fail; it drops kept text, and its result has the format of the left operand, or that of the right
/// one where the left is zero.
///
/// `max` and `min` return one of their operands, kept text included.
#[derive(Clone)]
pub struct Quantity(Repr);

/// Lists of resources hold many quantities, so the usual one is small and needs no allocation.
#[derive(Clone)]
enum Repr {
    /// A value that fits, and canonical text.
    Plain { nanos: Nanos, format: Format },
    /// Everything else.
    Full(Box<Full>),
}

/// Aligned to 8 bytes, not 16: a quantity takes 24 bytes instead of 32.
#[derive(Clone, Copy)]
#[repr(Rust, packed(8))]
struct Nanos(i128);

#[derive(Clone)]
struct Full {
    amount: Amount<'static>,
    format: Format,
    kept: Option<Box<str>>,
}

impl Quantity {
    #[inline]
    pub(crate) fn plain(nanos: i128, format: Format) -> Quantity {
        Quantity(Repr::Plain {
            nanos: Nanos(nanos),
            format,
        })
    }

    #[inline]
    pub(crate) fn new(amount: Amount<'static>, format: Format, kept: Option<&str>) -> Quantity {
        Quantity(match (amount, kept) {
            (Amount::Small(nanos), None) => return Quantity::plain(nanos, format),
            (amount, kept) => Repr::Full(Box::new(Full {
                amount,
                format,
                kept: kept.map(Box::from),
            })),
        })
    }

    /// Reads a quantity. Nothing is trimmed.
    ///
    /// The text is a sign, digits with an optional point, and a suffix; see the [crate documentation](crate). As
    /// upstream, a missing number is 0 (`-`, `.`, `Ki`, `e3`), but not before `Pi`, `Ei` or an exponent under -9.
    ///
    /// With n integer digits without leading zeros and f fraction digits, a decimal text is kept as written when n is
    /// not 0, n + f is at most 18, the exponent less f is at least -9 and divisible by three, and the digits do not
    /// end in 000. A binary text is kept when it has no fraction digits, the number is not a multiple of 8 and n is at
    /// most 11 (Ki), 8 (Mi), 5 (Gi) or 2 (Ti). All other texts are printed in canonical form.
    ///
    /// # Errors
    ///
    /// Where the text is no quantity, its exponent is outside -1000..=1000 or it is longer than 1000 characters.
    pub fn parse(text: &str) -> Result<Quantity, ParseError> {
        parse::parse(text)
    }

    /// Reads a raw JSON token (a string with its quotes, a number or `null`) exactly as upstream does: surrounding
    /// quotes are stripped, escapes are not decoded (so none is valid), what is between is trimmed; `null` is 0.
    ///
    /// The `Deserialize` implementation sees the decoded value instead.
    ///
    /// # Errors
    ///
    /// As [`Quantity::parse`], and where the token is not UTF-8.
    pub fn from_json(token: impl AsRef<[u8]>) -> Result<Quantity, ParseError> {
        let token = token.as_ref();
        let text = match token {
            b"null" => return Ok(Quantity::zero()),
            [b'"', text @ .., b'"'] => text,
            _ => token,
        };
        match std::str::from_utf8(text) {
            Ok(text) => Quantity::parse(text.trim()),
            Err(_) => {
                let end = text.len().min(parse::MAX_TEXT);
                Err(ParseError::new(&String::from_utf8_lossy(&text[..end]), Reason::NotUtf8))
            }
        }
    }

    /// 0, decimal SI.
    pub fn zero() -> Quantity {
        Quantity::from_units(0)
    }

    /// A whole number of units (objects, cores, bytes), decimal SI.
    pub fn from_units(units: i64) -> Quantity {
        Quantity::new(Amount::Small(i128::from(units) * NANO), Format::DecimalSi, None)
    }

    /// A whole number of units (usually bytes), binary SI.
    pub fn from_binary_units(units: i64) -> Quantity {
        Quantity::new(Amount::Small(i128::from(units) * NANO), Format::BinarySi, None)
    }

    /// How this quantity is written.
    pub fn format(&self) -> Format {
        match &self.0 {
            Repr::Plain { format, .. } => *format,
            Repr::Full(full) => full.format,
        }
    }

    #[inline]
    fn amount(&self) -> Amount<'_> {
        match &self.0 {
            Repr::Plain { nanos, .. } => Amount::Small(nanos.0),
            Repr::Full(full) => full.amount.borrow(),
        }
    }

    /// Whether the value is 0.
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// Whether the value is less than 0.
    pub fn is_negative(&self) -> bool {
        self.signum() < 0
    }

    /// -1, 0 or 1: the sign of the value.
    pub fn signum(&self) -> i32 {
        self.amount().signum()
    }

    /// Rounded away from zero to whole units, as upstream's `RoundUp(0)` does for the storage of a claim. The format
    /// stays; a quantity that is whole already is returned as it is, kept text included.
    #[must_use]
    pub fn ceil(&self) -> Quantity {
        match self.amount().ceil() {
            Some(amount) => Quantity::new(amount, self.format(), None),
            None => self.clone(),
        }
    }

    /// Whole units, rounded away from zero; `None` where they do not fit 64 bits.
    pub fn units(&self) -> Option<i64> {
        self.amount().units()
    }

    /// The nearest floating point number of units, for metrics and ratios; an infinity where it is out of range.
    pub fn to_f64(&self) -> f64 {
        self.amount().to_f64()
    }

    /// The same value and format, without kept text.
    #[must_use]
    pub fn canonical(&self) -> Quantity {
        match &self.0 {
            Repr::Full(full) => Quantity::new(full.amount.clone(), full.format, None),
            Repr::Plain { .. } => self.clone(),
        }
    }

    /// Gives `with` the text that `Display` prints: kept text, or else canonical text. Allocates only for
    /// extraordinarily large values.
    pub fn with_text<R>(&self, with: impl FnOnce(&str) -> R) -> R {
        if let Repr::Full(full) = &self.0
            && let Some(kept) = &full.kept
        {
            return with(kept);
        }
        with_canonical(&self.amount(), self.format(), with)
    }

    /// The format of a sum or difference whose left operand this is.
    fn format_with(&self, right: &Quantity) -> Format {
        if self.is_zero() { right.format() } else { self.format() }
    }
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Quantity, ParseError> {
        Quantity::parse(text)
    }
}

impl From<i64> for Quantity {
    fn from(units: i64) -> Quantity {
        Quantity::from_units(units)
    }
}

impl Default for Quantity {
    fn default() -> Quantity {
        Quantity::zero()
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.pad(text))
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| write!(f, "Quantity({text} {:?})", self.format()))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.amount() == other.amount()
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.amount().hash(state);
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.amount().cmp(&other.amount())
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `+` and `-`, by reference and by value, and their assigning forms.
macro_rules! arithmetic {
    ($Op:ident $op:ident $OpAssign:ident $op_assign:ident) => {
        impl $Op<&Quantity> for &Quantity {
            type Output = Quantity;

            #[inline]
            fn $op(self, right: &Quantity) -> Quantity {
                Quantity::new(self.amount().$op(right.amount()), self.format_with(right), None)
            }
        }

        impl $Op<Quantity> for Quantity {
            type Output = Quantity;

            #[inline]
            fn $op(self, right: Quantity) -> Quantity {
                (&self).$op(&right)
            }
        }

        impl $Op<&Quantity> for Quantity {
            type Output = Quantity;

            #[inline]
            fn $op(self, right: &Quantity) -> Quantity {
                (&self).$op(right)
            }
        }

        impl $Op<Quantity> for &Quantity {
            type Output = Quantity;

            #[inline]
            fn $op(self, right: Quantity) -> Quantity {
                self.$op(&right)
            }
        }

        impl $OpAssign<&Quantity> for Quantity {
            #[inline]
            fn $op_assign(&mut self, right: &Quantity) {
                *self = (&*self).$op(right);
            }
        }

        impl $OpAssign<Quantity> for Quantity {
            #[inline]
            fn $op_assign(&mut self, right: Quantity) {
                *self = (&*self).$op(&right);
            }
        }
    };
}

arithmetic!(Add add AddAssign add_assign);
arithmetic!(Sub sub SubAssign sub_assign);

impl Neg for &Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Quantity::new(self.amount().neg(), self.format(), None)
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        -&self
    }
}

/// Times a count, such as replicas. The format stays.
impl Mul<i64> for &Quantity {
    type Output = Quantity;

    fn mul(self, factor: i64) -> Quantity {
        Quantity::new(self.amount().mul(factor), self.format(), None)
    }
}

/// Times a count, such as replicas. The format stays.
impl Mul<i64> for Quantity {
    type Output = Quantity;

    fn mul(self, factor: i64) -> Quantity {
        &self * factor
    }
}

impl<'a> Sum<&'a Quantity> for Quantity {
    fn sum<I: Iterator<Item = &'a Quantity>>(quantities: I) -> Quantity {
        quantities.fold(Quantity::zero(), |sum, quantity| sum + quantity)
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(quantities: I) -> Quantity {
        quantities.fold(Quantity::zero(), |sum, quantity| sum + quantity)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn is_small_and_can_be_shared() {
        assert_eq!(size_of::<Quantity>(), 24);
        assert_eq!(size_of::<Option<Quantity>>(), 24);
        fn shared<T: Send + Sync + 'static>() {}
        shared::<Quantity>();
    }

    #[test]
    fn only_unusual_text_is_kept() {
        for text in [
            "100m", "1Gi", "500Mi", "2", "1500m", "-4", "0", "12e3", "3E", "7e-3", "1000Ki", "1.5",
        ] {
            assert!(matches!(quantity(text).0, Repr::Plain { .. }), "{text}");
        }
        for text in ["+5", "01", "1.500", "12E3", "5."] {
            assert!(matches!(quantity(text).0, Repr::Full(_)), "{text}");
        }
    }

    #[test]
    fn kept_text_survives_copies_only() {
        let kept = quantity("1.500");
        assert_eq!(kept.clone().to_string(), "1.500");
        assert_eq!(kept.clone().max(quantity("1")).to_string(), "1.500");
        assert_eq!(kept.clone().min(quantity("2")).to_string(), "1.500");
        assert_eq!(kept.canonical().to_string(), "1500m");
        assert_eq!((&kept + Quantity::zero()).to_string(), "1500m");
        assert_eq!((-&kept).to_string(), "-1500m");
        assert_eq!((kept * 1).to_string(), "1500m");
        assert_eq!(quantity("+5").ceil().to_string(), "+5");
        assert_eq!(quantity("+5.500").ceil().to_string(), "6");
    }

    #[test]
    fn signs() {
        let cases: &[(&str, i32)] = &[("0", 0), ("0Ki", 0), ("1n", 1), ("-1n", -1), ("1e40", 1), ("-1e40", -1)];
        for (text, sign) in cases {
            let quantity = quantity(text);
            assert_eq!(
                (quantity.signum(), quantity.is_zero(), quantity.is_negative()),
                (*sign, *sign == 0, *sign < 0),
                "{text}"
            );
        }
    }

    #[test]
    fn other_values_hash_otherwise() {
        let hashes: HashSet<u64> = ["0", "1", "-1", "1n", "1e40", "-1e40"]
            .map(|text| BuildHasherDefault::<DefaultHasher>::new().hash_one(quantity(text)))
            .into();
        assert_eq!(hashes.len(), 6);
    }

    #[test]
    fn sums() {
        let quantities = ["1Ki", "1", "-25"].map(quantity);
        assert_eq!(quantities.iter().sum::<Quantity>(), quantity("1000"));
        assert_eq!(quantities.into_iter().sum::<Quantity>(), quantity("1000"));
    }

    #[test]
    fn whole_units() {
        let cases: &[(&str, Option<i64>)] = &[
            ("0", Some(0)),
            ("1n", Some(1)),
            ("-1n", Some(-1)),
            ("1500m", Some(2)),
            ("-1500m", Some(-2)),
            ("1Ki", Some(1024)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775806.1", Some(i64::MAX)),
            ("9223372036854775807.1", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("1e30", None),
        ];
        for (text, want) in cases {
            assert_eq!(quantity(text).units(), *want, "{text}");
        }
    }

    #[test]
    fn floating_point() {
        let cases: &[(&str, f64)] = &[
            ("0", 0.0),
            ("100m", 0.1),
            ("-1500m", -1.5),
            ("1Gi", 1_073_741_824.0),
            ("1e400", f64::INFINITY),
        ];
        for (text, want) in cases {
            assert_eq!(quantity(text).to_f64(), *want, "{text}");
        }
    }

    #[test]
    fn pads_like_text() {
        assert_eq!(
            format!("{:>6}|{:<6}|", quantity("1Gi"), quantity("+5")),
            "   1Gi|+5    |"
        );
        assert_eq!(format!("{:?}", quantity("1Gi")), "Quantity(1Gi BinarySi)");
    }
}
