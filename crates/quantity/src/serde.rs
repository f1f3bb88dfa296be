//! Quantities in JSON and YAML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::quantity::Quantity;

/// Always a string: the text that `Display` prints.
impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

/// From a string (trimmed), a number, or null, which is 0.
///
/// Upstream reads the raw token, as [`Quantity::from_json`] does; here the decoder has already read it. So an escape in
/// a string is decoded, where upstream refuses it, and a number is taken by its value: `1E3` prints as `1k`, not as
/// `1E3`. A number with a fraction or exponent of more than 15 digits is refused, as a decoder may have rounded it.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl QuantityVisitor {
    fn parse<E: Error>(text: &str) -> Result<Quantity, E> {
        Quantity::parse(text.trim()).map_err(E::custom)
    }
}

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as \"500m\", 2 or \"1.5Gi\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Self::parse(text)
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_units(units))
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<Quantity, E> {
        Self::parse(&units.to_string())
    }

    fn visit_i128<E: Error>(self, units: i128) -> Result<Quantity, E> {
        Self::parse(&units.to_string())
    }

    fn visit_u128<E: Error>(self, units: u128) -> Result<Quantity, E> {
        Self::parse(&units.to_string())
    }

    fn visit_f64<E: Error>(self, units: f64) -> Result<Quantity, E> {
        // Rust prints the shortest decimal that reads back as the same number. Up to 15 digits it is what was written.
        let text = units.to_string();
        let digits = text.trim_start_matches(['-', '0', '.']).trim_end_matches('0');
        if !units.is_finite() || digits.bytes().filter(u8::is_ascii_digit).count() > 15 {
            return Err(E::invalid_value(
                Unexpected::Float(units),
                &"a number of 15 digits at most; write it as a string",
            ));
        }
        Self::parse(&text)
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::zero())
    }

    fn visit_none<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::zero())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::de::{Deserialize, IntoDeserializer};

    use crate::Quantity;

    fn printed(json: &str) -> Option<String> {
        serde_json::from_str::<Quantity>(json)
            .ok()
            .map(|quantity| quantity.to_string())
    }

    #[test]
    fn writes_what_is_displayed() {
        for (text, json) in [
            ("1.500", "\"1.500\""),
            ("1.5", "\"1500m\""),
            ("0", "\"0\""),
            ("1024Mi", "\"1Gi\""),
        ] {
            assert_eq!(serde_json::to_string(&Quantity::parse(text).unwrap()).unwrap(), json);
        }
    }

    #[test]
    fn reads_strings_numbers_and_null() {
        let cases: &[(&str, Option<&str>)] = &[
            ("\"1Gi\"", Some("1Gi")),
            ("\" 1.500\\t\"", Some("1.500")),
            ("\"\\u0031\"", Some("1")),
            ("\"\"", None),
            ("\"1K\"", None),
            ("null", Some("0")),
            ("0", Some("0")),
            ("-0", Some("0")),
            ("1000", Some("1k")),
            ("-5", Some("-5")),
            ("18446744073709551615", Some("18446744073709551615")),
            ("1.5", Some("1500m")),
            ("-0.25", Some("-250m")),
            ("1E3", Some("1k")),
            ("1e-300", Some("1n")),
            ("123456789012.345", Some("123456789012.345")),
            ("0.12345678901234567", None),
            ("18446744073709551617", None),
            ("true", None),
            ("[]", None),
        ];
        for (json, want) in cases {
            assert_eq!(printed(json).as_deref(), *want, "{json}");
        }
    }

    /// Decoders other than JSON's know integers of 128 bits.
    #[test]
    fn reads_wide_integers() {
        fn read<'de>(number: impl IntoDeserializer<'de>) -> Quantity {
            Quantity::deserialize(number.into_deserializer()).unwrap()
        }
        assert_eq!(read(i128::MIN).to_string(), i128::MIN.to_string());
        assert_eq!(read(u128::MAX).to_string(), u128::MAX.to_string());
    }

    #[test]
    fn refusals_say_what_is_expected() {
        let error = serde_json::from_str::<Quantity>("true").unwrap_err().to_string();
        assert!(
            error.contains("expected a quantity such as \"500m\", 2 or \"1.5Gi\""),
            "{error}"
        );
    }

    #[test]
    fn null_in_a_map_is_present() {
        let list: BTreeMap<String, Quantity> = serde_json::from_str(r#"{"pods": null}"#).unwrap();
        assert!(list["pods"].is_zero());
    }
}
