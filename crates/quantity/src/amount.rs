//! The value of a quantity: an integer number of nano units.

use std::borrow::Cow;
use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

/// Nano units in one unit.
pub(crate) const NANO: i128 = 1_000_000_000;

/// A number of nano units, exact and of any size.
///
/// Almost every quantity fits 128 bits (1.7 * 10^29 units). `Big` is only for what does not, which makes the derived
/// equality and hash true by value; [`Amount::from`] keeps it so. Borrowing a big value costs nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Amount<'a> {
    Small(i128),
    Big(Cow<'a, BigInt>),
}

impl From<BigInt> for Amount<'static> {
    fn from(value: BigInt) -> Self {
        match i128::try_from(&value) {
            Ok(small) => Amount::Small(small),
            Err(_) => Amount::Big(Cow::Owned(value)),
        }
    }
}

impl<'a> Amount<'a> {
    /// The same amount, borrowed from this one.
    pub(crate) fn borrow(&self) -> Amount<'_> {
        match self {
            Amount::Small(n) => Amount::Small(*n),
            Amount::Big(n) => Amount::Big(Cow::Borrowed(n)),
        }
    }

    fn into_big(self) -> Cow<'a, BigInt> {
        match self {
            Amount::Small(n) => Cow::Owned(BigInt::from(n)),
            Amount::Big(n) => n,
        }
    }

    pub(crate) fn signum(&self) -> i32 {
        match self {
            Amount::Small(n) => n.signum() as i32,
            Amount::Big(n) => match n.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    #[inline]
    pub(crate) fn add(self, rhs: Amount<'_>) -> Amount<'static> {
        if let (Amount::Small(a), Amount::Small(b)) = (&self, &rhs)
            && let Some(sum) = a.checked_add(*b)
        {
            return Amount::Small(sum);
        }
        Amount::from(&*self.into_big() + &*rhs.into_big())
    }

    #[inline]
    pub(crate) fn sub(self, rhs: Amount<'_>) -> Amount<'static> {
        if let (Amount::Small(a), Amount::Small(b)) = (&self, &rhs)
            && let Some(difference) = a.checked_sub(*b)
        {
            return Amount::Small(difference);
        }
        Amount::from(&*self.into_big() - &*rhs.into_big())
    }

    pub(crate) fn mul(self, factor: i64) -> Amount<'static> {
        if let Amount::Small(n) = &self
            && let Some(product) = n.checked_mul(i128::from(factor))
        {
            return Amount::Small(product);
        }
        Amount::from(&*self.into_big() * factor)
    }

    pub(crate) fn neg(self) -> Amount<'static> {
        if let Amount::Small(n) = &self
            && let Some(negated) = n.checked_neg()
        {
            return Amount::Small(negated);
        }
        Amount::from(-&*self.into_big())
    }

    /// This amount rounded away from zero to whole units, or `None` where it is whole already.
    pub(crate) fn ceil(self) -> Option<Amount<'static>> {
        if let Amount::Small(n) = &self {
            let rest = n % NANO;
            if rest == 0 {
                return None;
            }
            if let Some(rounded) = (n - rest).checked_add(rest.signum() * NANO) {
                return Some(Amount::Small(rounded));
            }
        }
        let nano = BigInt::from(NANO);
        let n = self.into_big();
        let rest = &*n % &nano;
        match rest.sign() {
            Sign::NoSign => None,
            Sign::Plus => Some(Amount::from(&*n - rest + nano)),
            Sign::Minus => Some(Amount::from(&*n - rest - nano)),
        }
    }

    /// Whole units, where they fit; rounded away from zero.
    pub(crate) fn units(self) -> Option<i64> {
        let rounded = self.borrow().ceil().unwrap_or(self);
        match rounded {
            Amount::Small(n) => i64::try_from(n / NANO).ok(),
            Amount::Big(_) => None,
        }
    }

    /// The nearest floating point number of units, or an infinity.
    pub(crate) fn to_f64(&self) -> f64 {
        // Standard parsing rounds once, where a conversion and a division would round twice.
        let nanos = match self {
            Amount::Small(n) => format!("{n}e-9"),
            Amount::Big(n) => format!("{n}e-9"),
        };
        nanos.parse().unwrap_or(f64::NAN)
    }
}

impl Ord for Amount<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Amount::Small(a), Amount::Small(b)) => a.cmp(b),
            _ => self.borrow().into_big().cmp(&other.borrow().into_big()),
        }
    }
}

impl PartialOrd for Amount<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn big(text: &str) -> Amount<'static> {
        Amount::from(text.parse::<BigInt>().unwrap())
    }

    #[test]
    fn leaves_and_reenters_128_bits() {
        let max = Amount::Small(i128::MAX);
        let min = Amount::Small(i128::MIN);
        let one = Amount::Small(1);
        let over = max.borrow().add(one.borrow());
        assert_eq!(over, big("170141183460469231731687303715884105728"));
        assert!(matches!(over, Amount::Big(_)));
        assert_eq!(over.borrow().sub(one.borrow()), max);
        assert_eq!(min.borrow().neg(), over);
        assert_eq!(over.borrow().neg(), min);
        assert_eq!(min.borrow().sub(one), big("-170141183460469231731687303715884105729"));
        assert_eq!((over.signum(), over.borrow().neg().signum()), (1, -1));
        assert_eq!(max.borrow().mul(i64::MIN).mul(i64::MIN).signum(), 1);
        assert!(min < max && max < over && over.borrow().neg() < max);
    }

    #[test]
    fn rounds_away_from_zero() {
        let cases: &[(i128, Option<i128>)] = &[
            (0, None),
            (NANO, None),
            (-5 * NANO, None),
            (1, Some(NANO)),
            (-1, Some(-NANO)),
            (NANO + 1, Some(2 * NANO)),
            (-NANO - 1, Some(-2 * NANO)),
        ];
        for (nanos, want) in cases {
            assert_eq!(Amount::Small(*nanos).ceil(), want.map(Amount::Small), "{nanos}");
        }
        assert_eq!(
            Amount::Small(i128::MAX).ceil(),
            Some(big("170141183460469231731687303716000000000"))
        );
        assert_eq!(
            Amount::Small(i128::MIN).ceil(),
            Some(big("-170141183460469231731687303716000000000"))
        );
        assert_eq!(
            big("-900000000000000000000000000000000000000000001").ceil(),
            Some(big("-900000000000000000000000000000000001000000000"))
        );
        assert_eq!(big("900000000000000000000000000000000000000000000").ceil(), None);
    }
}
