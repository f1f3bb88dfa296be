//! Quantities: any text parses or is refused, prints as text that reads back as itself, and obeys arithmetic.
//!
//! The input is up to two texts and a factor, a line each.
#![no_main]

use kubequota_quantity::{Quantity, Reason};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let mut quantity = || lines.next().and_then(read);
    let (a, b) = (quantity(), quantity());
    let factor = lines.next().unwrap_or_default();
    let factor = factor.iter().fold(0_i64, |factor, byte| {
        factor.wrapping_mul(251).wrapping_add(i64::from(*byte))
    });
    for quantity in a.iter().chain(&b) {
        one(quantity, factor);
    }
    if let (Some(a), Some(b)) = (a, b) {
        two(&a, &b);
    }
});

/// The quantity that a line is, as text and as a JSON token.
fn read(line: &[u8]) -> Option<Quantity> {
    let from_json = Quantity::from_json(line);
    let quantity = Quantity::parse(std::str::from_utf8(line).ok()?);
    match (&quantity, &from_json) {
        // A token may be quoted or padded, and `null` is 0; what is a quantity as text is the same as a token.
        (Ok(text), Ok(token)) => assert_eq!(text.to_string(), token.to_string()),
        (Ok(text), Err(error)) => panic!("{text:?} is none as a token: {error}"),
        (Err(_), _) => {}
    }
    quantity.or(from_json).ok()
}

/// The quantity that a text is which was printed; `None` where it lies beyond what is read, as documented.
fn reread(text: &str) -> Option<Quantity> {
    match Quantity::parse(text) {
        Ok(quantity) => Some(quantity),
        Err(error) if matches!(error.reason(), Reason::TooLong | Reason::Exponent) => None,
        Err(error) => panic!("{text} was printed: {error}"),
    }
}

fn one(quantity: &Quantity, factor: i64) {
    let text = quantity.to_string();
    if let Some(again) = reread(&text) {
        assert_eq!((&again, again.to_string()), (quantity, text));
    }
    let canonical = quantity.canonical();
    assert_eq!(&canonical, quantity);
    assert_eq!(canonical.format(), quantity.format());
    assert_eq!(canonical.canonical().to_string(), canonical.to_string());
    if let Some(again) = reread(&canonical.to_string()) {
        assert_eq!((&again, again.to_string()), (&canonical, canonical.to_string()));
    }

    let ceil = quantity.ceil();
    assert_eq!(ceil.ceil().to_string(), ceil.to_string());
    assert_eq!(ceil.units(), quantity.units());
    assert_eq!(ceil.signum(), quantity.signum());
    let less = if quantity.is_negative() {
        quantity - &ceil
    } else {
        &ceil - quantity
    };
    assert!(
        !less.is_negative() && less < Quantity::from(1),
        "{quantity} is rounded to {ceil}"
    );

    let zero = Quantity::zero();
    assert_eq!(&-(-quantity), quantity);
    assert!((quantity - &quantity.clone()).is_zero());
    assert_eq!((quantity + &zero).to_string(), canonical.to_string());
    assert_eq!(&(&zero - quantity), &-quantity);
    assert_eq!(quantity * 2, quantity + quantity);
    if let (Some(more), product) = (factor.checked_add(1), quantity * factor) {
        assert_eq!(&product + quantity, quantity * more);
    }
    assert_eq!(quantity.to_f64() < 0.0, quantity.is_negative());
}

fn two(a: &Quantity, b: &Quantity) {
    let sum = a + b;
    assert_eq!(sum, b + a);
    assert_eq!(&(&sum - b), a);
    assert_eq!(-&sum, -a - b);
    assert_eq!(a - b, -(b - a));
    assert_eq!(sum.format(), if a.is_zero() { b.format() } else { a.format() });
    assert_eq!(a.cmp(b), (a - b).signum().cmp(&0));
    assert_eq!(a.cmp(b), b.cmp(a).reverse());
    let mut assigned = a.clone();
    assigned += b;
    assert_eq!(assigned.to_string(), sum.to_string());
    assigned -= b;
    assert_eq!(assigned.to_string(), (&sum - b).to_string());
    let text = sum.to_string();
    if let Some(again) = reread(&text) {
        // Binary text is capped when it is read, sums are not.
        let is_capped = text.ends_with('i') && sum.units().is_none_or(|units| units == i64::MIN);
        let most = Quantity::from(if sum.is_negative() { -i64::MAX } else { i64::MAX });
        assert_eq!(again, if is_capped { most } else { sum });
    }
}
