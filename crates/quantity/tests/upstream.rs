//! Tricky texts with the answers of k8s.io/apimachinery v0.37.2, checked against its code.

use kubequota_quantity::Format::{BinarySi, DecimalExponent, DecimalSi};
use kubequota_quantity::{Format, Quantity, Reason};

/// Text; as printed; as printed after arithmetic; rounded up to whole units; format.
type Case = (&'static str, &'static str, &'static str, &'static str, Format);

#[rustfmt::skip] // one case a line
const PARSED: &[Case] = &[
    ("0", "0", "0", "0", DecimalSi),
    ("-0", "0", "0", "0", DecimalSi),
    ("+0", "0", "0", "0", DecimalSi),
    ("00", "0", "0", "0", DecimalSi),
    ("0.000", "0", "0", "0", DecimalSi),
    ("-", "0", "0", "0", DecimalSi),
    ("+", "0", "0", "0", DecimalSi),
    (".", "0", "0", "0", DecimalSi),
    ("-.", "0", "0", "0", DecimalSi),
    ("Ki", "0", "0", "0", BinarySi),
    ("Ti", "0", "0", "0", BinarySi),
    ("e3", "0", "0", "0", DecimalExponent),
    ("e+3", "0", "0", "0", DecimalExponent),
    ("E", "0", "0", "0", DecimalSi),
    ("n", "0", "0", "0", DecimalSi),
    (".n", "0", "0", "0", DecimalSi),
    ("e-9", "0", "0", "0", DecimalExponent),
    (".e3", "0", "0", "0", DecimalExponent),
    ("0e-10", "0", "0", "0", DecimalExponent),
    ("0Ei", "0", "0", "0", BinarySi),
    (".0Pi", "0", "0", "0", BinarySi),
    ("-0Pi", "0", "0", "0", BinarySi),
    ("0Ki", "0", "0", "0", BinarySi),
    ("0.0Ki", "0", "0", "0", BinarySi),
    ("2", "2", "2", "2", DecimalSi),
    ("4", "4", "4", "4", DecimalSi),
    ("100m", "100m", "100m", "1", DecimalSi),
    ("1500m", "1500m", "1500m", "2", DecimalSi),
    ("1Gi", "1Gi", "1Gi", "1Gi", BinarySi),
    ("500Mi", "500Mi", "500Mi", "500Mi", BinarySi),
    ("1000", "1k", "1k", "1k", DecimalSi),
    ("1000m", "1", "1", "1", DecimalSi),
    ("1000Ki", "1000Ki", "1000Ki", "1000Ki", BinarySi),
    ("1024", "1024", "1024", "1024", DecimalSi),
    ("1024Ki", "1Mi", "1Mi", "1Mi", BinarySi),
    ("1024Mi", "1Gi", "1Gi", "1Gi", BinarySi),
    ("1023Mi", "1023Mi", "1023Mi", "1023Mi", BinarySi),
    ("1Ki", "1Ki", "1Ki", "1Ki", BinarySi),
    ("8Ki", "8Ki", "8Ki", "8Ki", BinarySi),
    ("+5", "+5", "5", "+5", DecimalSi),
    ("-5", "-5", "-5", "-5", DecimalSi),
    ("01", "01", "1", "01", DecimalSi),
    ("-01", "-01", "-1", "-01", DecimalSi),
    ("5.", "5.", "5", "5.", DecimalSi),
    ("5.k", "5.k", "5k", "5.k", DecimalSi),
    ("5.Ki", "5.Ki", "5Ki", "5.Ki", BinarySi),
    ("0.5", "500m", "500m", "1", DecimalSi),
    (".5", "500m", "500m", "1", DecimalSi),
    ("1.5", "1500m", "1500m", "2", DecimalSi),
    ("1.50", "1500m", "1500m", "2", DecimalSi),
    ("1.500", "1.500", "1500m", "2", DecimalSi),
    ("-1.500", "-1.500", "-1500m", "-2", DecimalSi),
    ("1.5000", "1500m", "1500m", "2", DecimalSi),
    ("1.5000001", "1500000100n", "1500000100n", "2", DecimalSi),
    ("1.500k", "1.500k", "1500", "1.500k", DecimalSi),
    ("1500k", "1500k", "1500k", "1500k", DecimalSi),
    ("0.500", "500m", "500m", "1", DecimalSi),
    ("0.125", "125m", "125m", "1", DecimalSi),
    ("1000.5", "1000500m", "1000500m", "1001", DecimalSi),
    ("12E3", "12E3", "12e3", "12E3", DecimalExponent),
    ("12e3", "12e3", "12e3", "12e3", DecimalExponent),
    ("12e0", "12e0", "12", "12e0", DecimalExponent),
    ("12e03", "12e03", "12e3", "12e03", DecimalExponent),
    ("12e+3", "12e+3", "12e3", "12e+3", DecimalExponent),
    ("12E-3", "12E-3", "12e-3", "1", DecimalExponent),
    ("12e-03", "12e-03", "12e-3", "1", DecimalExponent),
    ("1e4", "10e3", "10e3", "10e3", DecimalExponent),
    ("12e5", "1200e3", "1200e3", "1200e3", DecimalExponent),
    ("1000e3", "1e6", "1e6", "1e6", DecimalExponent),
    ("1200e3", "1200e3", "1200e3", "1200e3", DecimalExponent),
    ("1e-9", "1e-9", "1e-9", "1", DecimalExponent),
    ("1e-10", "1e-9", "1e-9", "1", DecimalExponent),
    ("-1e-10", "-1e-9", "-1e-9", "-1", DecimalExponent),
    ("1e18", "1e18", "1e18", "1e18", DecimalExponent),
    ("1e19", "10e18", "10e18", "10e18", DecimalExponent),
    ("1e21", "1e21", "1e21", "1e21", DecimalExponent),
    ("1E", "1E", "1E", "1E", DecimalSi),
    ("1E3", "1E3", "1e3", "1E3", DecimalExponent),
    ("1E-3", "1E-3", "1e-3", "1", DecimalExponent),
    ("1234E", "1234E", "1234E", "1234E", DecimalSi),
    ("999999E", "999999E", "999999E", "999999E", DecimalSi),
    ("0.1n", "1n", "1n", "1", DecimalSi),
    ("0.9n", "1n", "1n", "1", DecimalSi),
    ("1.1n", "2n", "2n", "1", DecimalSi),
    ("-1.1n", "-2n", "-2n", "-1", DecimalSi),
    ("0.0000000001", "1n", "1n", "1", DecimalSi),
    ("0.0000000005Ki", "512n", "512n", "1", DecimalSi),
    ("0.001Ki", "1024m", "1024m", "2", BinarySi),
    ("-0.001Ki", "-1024m", "-1024m", "-2", BinarySi),
    ("0.0009765625Ki", "1", "1", "1", BinarySi),
    ("0.0009Ki", "921600u", "921600u", "1", DecimalSi),
    ("-0.0009Ki", "-921600u", "-921600u", "-1", DecimalSi),
    ("0.5Ki", "512", "512", "512", BinarySi),
    ("1.5Ki", "1536", "1536", "1536", BinarySi),
    ("1.25Ki", "1280", "1280", "1280", BinarySi),
    ("1.1Ki", "1126400m", "1126400m", "1127", BinarySi),
    ("1.5Gi", "1536Mi", "1536Mi", "1536Mi", BinarySi),
    ("0.1Gi", "107374182400m", "107374182400m", "107374183", BinarySi),
    ("-1.5Gi", "-1536Mi", "-1536Mi", "-1536Mi", BinarySi),
    ("99999999999Ki", "99999999999Ki", "99999999999Ki", "99999999999Ki", BinarySi),
    ("+99999999999Ki", "+99999999999Ki", "99999999999Ki", "+99999999999Ki", BinarySi),
    ("12345678901Ki", "12345678901Ki", "12345678901Ki", "12345678901Ki", BinarySi),
    ("+123456789011Ki", "123456789011Ki", "123456789011Ki", "123456789011Ki", BinarySi),
    ("+12345679Mi", "+12345679Mi", "12345679Mi", "+12345679Mi", BinarySi),
    ("+123456789Mi", "123456789Mi", "123456789Mi", "123456789Mi", BinarySi),
    ("+123Ki", "+123Ki", "123Ki", "+123Ki", BinarySi),
    ("+99999Gi", "+99999Gi", "99999Gi", "+99999Gi", BinarySi),
    ("+100001Gi", "100001Gi", "100001Gi", "100001Gi", BinarySi),
    ("+99Ti", "+99Ti", "99Ti", "+99Ti", BinarySi),
    ("+101Ti", "101Ti", "101Ti", "101Ti", BinarySi),
    ("+1Pi", "1Pi", "1Pi", "1Pi", BinarySi),
    ("-01Pi", "-1Pi", "-1Pi", "-1Pi", BinarySi),
    ("01Pi", "1Pi", "1Pi", "1Pi", BinarySi),
    ("7Ei", "7Ei", "7Ei", "7Ei", BinarySi),
    ("8Ei", "9223372036854775807", "9223372036854775807", "9223372036854775807", BinarySi),
    ("-8Ei", "-9223372036854775807", "-9223372036854775807", "-9223372036854775807", BinarySi),
    ("200000000000Ei", "9223372036854775807", "9223372036854775807", "9223372036854775807", BinarySi),
    ("500000000000Ei", "9223372036854775807", "9223372036854775807", "9223372036854775807", BinarySi),
    ("1000Ei", "9223372036854775807", "9223372036854775807", "9223372036854775807", BinarySi),
    ("9223372036854775807", "9223372036854775807", "9223372036854775807", "9223372036854775807", DecimalSi),
    ("9223372036854775808", "9223372036854775808", "9223372036854775808", "9223372036854775808", DecimalSi),
    ("-9223372036854775809", "-9223372036854775809", "-9223372036854775809", "-9223372036854775809", DecimalSi),
    ("9223372036854775807Ki", "9223372036854775807", "9223372036854775807", "9223372036854775807", BinarySi),
    ("99999999999999999999", "99999999999999999999", "99999999999999999999", "99999999999999999999", DecimalSi),
    ("123456789012345678", "123456789012345678", "123456789012345678", "123456789012345678", DecimalSi),
    ("1234567890123456789", "1234567890123456789", "1234567890123456789", "1234567890123456789", DecimalSi),
    ("0123456789012345678", "0123456789012345678", "123456789012345678", "0123456789012345678", DecimalSi),
    ("+123456789012345678", "+123456789012345678", "123456789012345678", "+123456789012345678", DecimalSi),
    ("+1234567890123456789", "1234567890123456789", "1234567890123456789", "1234567890123456789", DecimalSi),
    ("+12345678901234567.8", "12345678901234567800m", "12345678901234567800m", "12345678901234568", DecimalSi),
    ("+123456789012345.678", "+123456789012345.678", "123456789012345678m", "123456789012346", DecimalSi),
    ("123456789012345.678", "123456789012345.678", "123456789012345678m", "123456789012346", DecimalSi),
    ("1234567890123456.789", "1234567890123456789m", "1234567890123456789m", "1234567890123457", DecimalSi),
    ("0.123456789", "123456789n", "123456789n", "1", DecimalSi),
    ("0.1234567891", "123456790n", "123456790n", "1", DecimalSi),
    ("1.123456789", "1.123456789", "1123456789n", "2", DecimalSi),
    ("+1.123456789", "+1.123456789", "1123456789n", "2", DecimalSi),
    ("1.123456789n", "2n", "2n", "1", DecimalSi),
    ("1.123456u", "1124n", "1124n", "1", DecimalSi),
    ("170141183460469231731687303715.884105727", "170141183460469231731687303715884105727n", "170141183460469231731687303715884105727n", "170141183460469231731687303716", DecimalSi),
    ("170141183460469231731687303715.884105728", "170141183460469231731687303715884105728n", "170141183460469231731687303715884105728n", "170141183460469231731687303716", DecimalSi),
    ("-170141183460469231731687303715.884105728", "-170141183460469231731687303715884105728n", "-170141183460469231731687303715884105728n", "-170141183460469231731687303716", DecimalSi),
    ("340282366920938463463374607431768211456", "340282366920938463463374607431768211456", "340282366920938463463374607431768211456", "340282366920938463463374607431768211456", DecimalSi),
    ("1e30", "1e30", "1e30", "1e30", DecimalExponent),
    ("1e-1", "100e-3", "100e-3", "1", DecimalExponent),
    ("1e-2", "10e-3", "10e-3", "1", DecimalExponent),
    ("10e-1", "1", "1", "1", DecimalExponent),
    ("-1m", "-1m", "-1m", "-1", DecimalSi),
    ("-1n", "-1n", "-1n", "-1", DecimalSi),
    ("1100m", "1100m", "1100m", "2", DecimalSi),
    ("01Gi", "01Gi", "1Gi", "01Gi", BinarySi),
    ("+1Gi", "+1Gi", "1Gi", "+1Gi", BinarySi),
    ("1M", "1M", "1M", "1M", DecimalSi),
    ("1.0M", "1M", "1M", "1M", DecimalSi),
    ("1.001M", "1.001M", "1001k", "1.001M", DecimalSi),
    ("1.0010M", "1001k", "1001k", "1001k", DecimalSi),
    ("100k", "100k", "100k", "100k", DecimalSi),
    ("1000k", "1M", "1M", "1M", DecimalSi),
    ("1000M", "1G", "1G", "1G", DecimalSi),
    ("0.001", "1m", "1m", "1", DecimalSi),
    ("0.0010", "1m", "1m", "1", DecimalSi),
];

#[test]
fn parsed() {
    for (text, printed, canonical, ceil, format) in PARSED {
        let quantity = Quantity::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(quantity.to_string(), *printed, "{text}");
        assert_eq!(quantity.canonical().to_string(), *canonical, "{text} canonical");
        assert_eq!((-(-&quantity)).to_string(), *canonical, "{text} negated twice");
        assert_eq!((&quantity + &Quantity::zero()).to_string(), *canonical, "{text} + 0");
        assert_eq!(quantity.ceil().to_string(), *ceil, "{text} rounded up");
        assert_eq!(quantity.format(), *format, "{text}");
        assert_eq!(
            Quantity::from_json(format!("{text:?}")).unwrap().to_string(),
            *printed,
            "{text} in JSON"
        );
        assert_eq!(
            (&Quantity::from_binary_units(0) + &quantity).format(),
            *format,
            "0Ki + {text}"
        );
    }
}

#[rustfmt::skip]
const REFUSED: &[&str] = &[
    "",
    "1e",
    "1K",
    "1ki",
    "1mi",
    "1KI",
    "1Kii",
    "1i",
    "1Kib",
    "1kB",
    " 1",
    "1 ",
    "1 Gi",
    "1,5",
    "1_000",
    "1e3m",
    "1e3Ki",
    "1m3",
    "1ee3",
    "1e+",
    "1E-",
    "1e+-3",
    "1e3.5",
    "1E3E",
    "--1",
    "+-1",
    "1-1",
    "1+1",
    "1.5.5",
    "..",
    "0x10",
    "NaN",
    "Inf",
    "infinity",
    "abc",
    "e",
    "ee",
    "Pi",
    "Ei",
    "-Ei",
    ".Pi",
    "e-10",
    ".e-10",
    "-e-12",
    "１",
    "1µ",
    "\"1\"",
    "null",
    "1\u{a0}",
    "1e99999999999999999999",
];

#[test]
fn refused() {
    for text in REFUSED {
        assert!(Quantity::parse(text).is_err(), "{text:?}");
    }
}

/// DIFFERS: upstream drops the suffix beyond the largest one, wraps large exponents and has no limit on the text.
#[test]
fn meant_differences() {
    let cases: &[Case] = &[
        ("1000E", "1000E", "1000E", "1000E", DecimalSi),
        ("-2000000E", "-2000000E", "-2000000E", "-2000000E", DecimalSi),
        ("+1000E", "1000E", "1000E", "1000E", DecimalSi),
        ("1000000000000000000000", "1000E", "1000E", "1000E", DecimalSi),
        ("1e1000", "10e999", "10e999", "10e999", DecimalExponent),
        ("1e-1000", "1e-9", "1e-9", "1", DecimalExponent),
    ];
    for (text, printed, canonical, ceil, format) in cases {
        let quantity = Quantity::parse(text).unwrap();
        let got = (
            quantity.to_string(),
            quantity.canonical().to_string(),
            quantity.ceil().to_string(),
        );
        assert_eq!(
            (&*got.0, &*got.1, &*got.2, quantity.format()),
            (*printed, *canonical, *ceil, *format),
            "{text}"
        );
    }

    let mut exbi = Quantity::parse("1Ei").unwrap();
    for _ in 0..10 {
        exbi = &exbi + &exbi;
    }
    assert_eq!(exbi.to_string(), "1024Ei");

    for text in [
        "1e1001",
        "1e-1001",
        "0e4294967296",
        "1e4294967299",
        "1E+0009999999999999999999",
        "e99999",
    ] {
        assert_eq!(Quantity::parse(text).unwrap_err().reason(), Reason::Exponent, "{text}");
    }
    let long = "9".repeat(1000);
    assert_eq!(Quantity::parse(&long).unwrap().to_string(), long);
    assert_eq!(
        Quantity::parse(&(long.clone() + "k")).unwrap_err().reason(),
        Reason::TooLong
    );
    assert_eq!(
        Quantity::parse(&"0".repeat(1001)).unwrap_err().reason(),
        Reason::TooLong
    );
}

/// Texts, their sum, and the first less the others.
#[test]
fn sums_and_differences() {
    let cases: &[(&[&str], &str, Format, &str, Format)] = &[
        (&["1", "1Ki"], "1025", DecimalSi, "-1023", DecimalSi),
        (&["0", "1Ki"], "1Ki", BinarySi, "-1Ki", BinarySi),
        (&["0Ki", "1"], "1", DecimalSi, "-1", DecimalSi),
        (&["1Ki", "0"], "1Ki", BinarySi, "1Ki", BinarySi),
        (&["1Ki", "1m"], "1024001m", BinarySi, "1023999m", BinarySi),
        (&["1Ki", "1000m"], "1025", BinarySi, "1023", BinarySi),
        (&["1Ki", "0.1", "0.9"], "1025", BinarySi, "1023", BinarySi),
        (&["1Ki", "-1Ki"], "0", BinarySi, "2Ki", BinarySi),
        (&["512", "512Ki"], "524800", DecimalSi, "-523776", DecimalSi),
        (&["+5", "0"], "5", DecimalSi, "5", DecimalSi),
        (&["1.500k", "0Ki"], "1500", DecimalSi, "1500", DecimalSi),
        (&["0", "0Ki", "0e3"], "0", DecimalExponent, "0", DecimalExponent),
        (&["1e3", "1k"], "2e3", DecimalExponent, "0", DecimalExponent),
        (&["1Gi", "1G"], "2073741824", BinarySi, "73741824", BinarySi),
        (&["0.5Gi", "512Mi"], "1Gi", BinarySi, "0", BinarySi),
        (&["8Ei", "8Ei"], "18446744073709551614", BinarySi, "0", BinarySi),
        (&["1000m", "1"], "2", DecimalSi, "0", DecimalSi),
        (&["100m", "200m", "700m"], "1", DecimalSi, "-800m", DecimalSi),
        (
            &["9223372036854775807", "1"],
            "9223372036854775808",
            DecimalSi,
            "9223372036854775806",
            DecimalSi,
        ),
        (
            &["1n", "170141183460469231731687303715.884105727"],
            "170141183460469231731687303715884105728n",
            DecimalSi,
            "-170141183460469231731687303715884105726n",
            DecimalSi,
        ),
        (
            &["1e30", "-1e30", "1n"],
            "1n",
            DecimalSi,
            "1999999999999999999999999999999999999999e-9",
            DecimalExponent,
        ),
    ];
    for (texts, sum, sum_format, difference, difference_format) in cases {
        let quantities: Vec<Quantity> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let (mut added, mut subtracted) = (quantities[0].clone(), quantities[0].clone());
        for quantity in &quantities[1..] {
            added += quantity;
            subtracted -= quantity;
        }
        assert_eq!(
            (added.to_string(), added.format()),
            (sum.to_string(), *sum_format),
            "{texts:?}"
        );
        let got = (subtracted.to_string(), subtracted.format());
        assert_eq!(got, (difference.to_string(), *difference_format), "{texts:?}");
    }
}

/// Raw JSON tokens; `None` is refused.
#[test]
fn raw_json() {
    let cases: &[(&str, Option<&str>)] = &[
        ("null", Some("0")),
        (" null", None),
        ("\"null\"", None),
        ("\"\"", None),
        ("\"", None),
        ("\" \"", None),
        ("1", Some("1")),
        ("1 ", Some("1")),
        ("-0", Some("0")),
        ("1.0", Some("1")),
        ("1.500", Some("1.500")),
        ("1.5e3", Some("1500")),
        ("1E3", Some("1E3")),
        ("\"1E3\"", Some("1E3")),
        ("\"\t1Gi \"", Some("1Gi")),
        ("\"\u{2003}1\u{85}\"", Some("1")),
        ("\"1\\t\"", None),
        ("\"\\u0031\"", None),
        ("\"1", None),
        ("1\"", None),
        ("\"\"1\"\"", None),
        ("true", None),
        ("{}", None),
    ];
    for (token, want) in cases {
        let got = Quantity::from_json(token).ok().map(|quantity| quantity.to_string());
        assert_eq!(got.as_deref(), *want, "{token}");
    }
    assert_eq!(Quantity::from_json(b"\"1\xff\"").unwrap_err().reason(), Reason::NotUtf8);
}
