//! What must hold for every quantity.

#![allow(clippy::unwrap_used)] // helpers of tests, too

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use kubequota_quantity::{Format, Quantity};
use num_bigint::BigInt;
use proptest::prelude::*;

/// Valid texts, near the edges of every rule: 64 and 128 bits, the cap, kept text.
fn text() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        "[+-]?[0-9]{1,4}(\\.[0-9]{0,4})?",
        "[+-]?[0-9]{1,25}(\\.[0-9]{0,15})?",
        "[+-]?0{0,3}[1-9]0{0,25}",
        (0u32..120).prop_map(|power| (1u128 << power).to_string()),
    ];
    let suffix = prop_oneof!["[numkMGTPE]?", "[KMGTPE]i", "[eE][+-]?0?[0-9]{1,2}"];
    (number, suffix).prop_map(|(number, suffix)| number + &suffix)
}

fn quantity() -> impl Strategy<Value = Quantity> {
    text().prop_map(|text| text.parse().unwrap())
}

/// The value in nano units, computed from the canonical text alone.
fn nanos(quantity: &Quantity) -> BigInt {
    let text = quantity.canonical().to_string();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '-')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: BigInt = number.parse().unwrap();
    let power = match suffix {
        "n" => 0,
        "u" => 3,
        "m" => 6,
        "" => 9,
        "k" => 12,
        "M" => 15,
        "G" => 18,
        "T" => 21,
        "P" => 24,
        "E" => 27,
        "Ki" => return (number * 1_000_000_000) << 10,
        "Mi" => return (number * 1_000_000_000) << 20,
        "Gi" => return (number * 1_000_000_000) << 30,
        "Ti" => return (number * 1_000_000_000) << 40,
        "Pi" => return (number * 1_000_000_000) << 50,
        "Ei" => return (number * 1_000_000_000) << 60,
        exponent => (exponent[1..].parse::<i32>().unwrap() + 9) as u32,
    };
    number * BigInt::from(10).pow(power)
}

fn hash(quantity: &Quantity) -> u64 {
    let mut hasher = DefaultHasher::new();
    quantity.hash(&mut hasher);
    hasher.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = Quantity::parse(&text);
        let _ = Quantity::from_json(&text);
    }

    #[test]
    fn no_text_of_the_right_letters_panics(text in "[-+.0-9eEinumkKMGTP]{0,30}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert_eq!(nanos(&quantity).sign(), BigInt::from(quantity.signum()).sign());
        }
    }

    #[test]
    fn printed_text_reads_back(quantity in quantity()) {
        let read: Quantity = quantity.to_string().parse().unwrap();
        prop_assert_eq!(&read, &quantity);
        prop_assert_eq!(read.to_string(), quantity.to_string());
        let canonical = quantity.canonical();
        prop_assert_eq!(&canonical, &quantity);
        prop_assert_eq!(canonical.to_string().parse::<Quantity>().unwrap().to_string(), canonical.to_string());
    }

    #[test]
    fn arithmetic_is_exact(a in quantity(), b in quantity(), factor: i64) {
        prop_assert_eq!(nanos(&(&a + &b)), nanos(&a) + nanos(&b));
        prop_assert_eq!(nanos(&(&a - &b)), nanos(&a) - nanos(&b));
        prop_assert_eq!(nanos(&-&a), -nanos(&a));
        prop_assert_eq!(nanos(&(&a * factor)), nanos(&a) * factor);
        prop_assert_eq!(&(&(&a + &b) - &b), &a);
        prop_assert_eq!(&a + &b, &b + &a);
        prop_assert_eq!([&a, &b].into_iter().sum::<Quantity>(), &a + &b);
        let expected = if a.is_zero() { b.format() } else { a.format() };
        prop_assert_eq!((&a + &b).format(), expected);
        prop_assert_eq!((&a - &b).format(), expected);
        prop_assert_eq!((-&a).format(), a.format());
    }

    #[test]
    fn order_and_hash_are_by_value(a in quantity(), b in quantity()) {
        prop_assert_eq!(a.cmp(&b), nanos(&a).cmp(&nanos(&b)));
        prop_assert_eq!(a == b, nanos(&a) == nanos(&b));
        let same = &(&a + &b) - &b;
        prop_assert_eq!(hash(&same), hash(&a));
    }

    #[test]
    fn rounding_is_away_from_zero_and_by_less_than_one(a in quantity()) {
        let (exact, rounded, one) = (nanos(&a), nanos(&a.ceil()), BigInt::from(1_000_000_000));
        prop_assert_eq!(&rounded % &one, BigInt::ZERO);
        prop_assert!(rounded.magnitude() >= exact.magnitude());
        prop_assert!((&rounded - &exact).magnitude() < one.magnitude());
        prop_assert_eq!(a.ceil().format(), a.format());
        prop_assert_eq!(a.units(), i64::try_from(rounded / one).ok());
        if a == a.ceil() {
            prop_assert_eq!(a.to_string(), a.ceil().to_string());
        }
    }

    #[test]
    fn whole_units(units: i64) {
        let (decimal, binary) = (Quantity::from(units), Quantity::from_binary_units(units));
        prop_assert_eq!(decimal.units(), Some(units));
        prop_assert_eq!(&decimal, &binary);
        prop_assert_eq!((decimal.format(), binary.format()), (Format::DecimalSi, Format::BinarySi));
        prop_assert_eq!(decimal.to_f64(), units as f64);
    }
}
