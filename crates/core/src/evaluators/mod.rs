//! The evaluators: for each kind the narrow view of its objects and the rules of what they cost, together.
//!
//! A new kind is one file here, one line in [`View`] and one in [`Registry::standard`](crate::Registry::standard). Views are plain serde
//! types: `wire` decodes them from whatever bytes there are. Quantities stay text in them, so that one bad value spoils its own object
//! at most, and says which field it was.

mod object_count;
mod persistent_volume_claim;
mod pod;
mod resource_claim;
mod service;

use std::collections::BTreeMap;

use kubequota_quantity::Quantity;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, Visitor};

pub use object_count::{COUNT_ALIASES, ObjectCountEvaluator};
pub use persistent_volume_claim::{PersistentVolumeClaimEvaluator, PersistentVolumeClaimView};
pub use pod::{PodEvaluator, PodView};
pub use resource_claim::{ResourceClaimEvaluator, ResourceClaimView};
pub use service::{ServiceEvaluator, ServiceView};

use crate::object::FieldError;
use crate::resource_list::{ResourceList, ResourceName};

macro_rules! views {
    ($($(#[$doc:meta])* $kind:ident($view:ty),)*) => {
        /// The few fields of an object that its evaluator looks at, without the metadata.
        #[derive(Clone, Debug, PartialEq)]
        pub enum View {
            $($(#[$doc])* $kind($view),)*
            /// Nothing but metadata matters.
            Counted,
        }

        /// Which [`View`] a kind's objects are read as.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ViewKind {
            $($(#[$doc])* $kind,)*
            /// Nothing but metadata is read.
            Counted,
        }

        impl<'de> DeserializeSeed<'de> for ViewKind {
            type Value = View;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<View, D::Error> {
                match self {
                    $(ViewKind::$kind => Deserialize::deserialize(deserializer).map(View::$kind),)*
                    ViewKind::Counted => Deserialize::deserialize(deserializer).map(|IgnoredAny| View::Counted),
                }
            }
        }
    };
}

views! {
    /// A pod.
    Pod(Box<PodView>),
    /// A service.
    Service(ServiceView),
    /// A persistent volume claim.
    PersistentVolumeClaim(PersistentVolumeClaimView),
    /// A resource claim.
    ResourceClaim(ResourceClaimView),
}

/// A view of another kind than the evaluator's: a mistake of the caller, reported and not a panic.
fn wrong_view(expected: &str) -> FieldError {
    FieldError {
        field: "kind".to_owned(),
        reason: format!("this object was not read as a {expected}"),
    }
}

/// One of something.
fn one() -> Quantity {
    Quantity::from(1)
}

/// A quantity as an object carries it, not yet parsed: a JSON string, or the text of a JSON number. Anything else is kept as
/// what it is, so that its object is read and the field can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuantityText {
    Text(String),
    NoQuantity(&'static str),
}

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = QuantityText;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a quantity such as \"100m\" or 2")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<QuantityText, E> {
                Ok(QuantityText::Text(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<QuantityText, E> {
                Ok(QuantityText::Text(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<QuantityText, E> {
                Ok(QuantityText::Text(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<QuantityText, E> {
                // The decoder may have rounded it; up to 15 digits it has not.
                Ok(match Quantity::deserialize(number.into_deserializer()) {
                    Ok::<_, de::value::Error>(quantity) => QuantityText::Text(quantity.to_string()),
                    Err(_) => QuantityText::NoQuantity("a number of more than 15 digits must be written as a string"),
                })
            }

            fn visit_unit<E: de::Error>(self) -> Result<QuantityText, E> {
                Ok(QuantityText::Text("0".to_owned()))
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<QuantityText, E> {
                Ok(QuantityText::NoQuantity("a boolean is no quantity"))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<QuantityText, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(QuantityText::NoQuantity("a list is no quantity"))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<QuantityText, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(QuantityText::NoQuantity("an object is no quantity"))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// A map of quantities by name, unparsed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(transparent)]
struct ResourceTexts(BTreeMap<String, QuantityText>);

impl ResourceTexts {
    fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The quantity of one name; `at` is the path of the map.
    fn get(&self, name: &str, at: &str) -> Result<Option<Quantity>, FieldError> {
        self.0.get(name).map(|text| text.quantity(at, name)).transpose()
    }

    /// All of them; `at` is the path of the map.
    fn parse(&self, at: impl Fn() -> String) -> Result<ResourceList, FieldError> {
        self.0
            .iter()
            .map(|(name, text)| Ok((resource_name(name), text.quantity(&at(), name)?)))
            .collect()
    }
}

impl QuantityText {
    /// The quantity; `at` and `name` say where it stands.
    pub(crate) fn quantity(&self, at: &str, name: &str) -> Result<Quantity, FieldError> {
        let wrong = |reason: String| FieldError {
            field: format!("{at}[{name}]"),
            reason,
        };
        match self {
            QuantityText::Text(text) => text.trim().parse().map_err(|error| wrong(format!("{error}"))),
            QuantityText::NoQuantity(reason) => Err(wrong((*reason).to_owned())),
        }
    }
}

/// The name, without an allocation for the common ones.
fn resource_name(name: &str) -> ResourceName {
    match name {
        "cpu" => ResourceName::from_static("cpu"),
        "memory" => ResourceName::from_static("memory"),
        "ephemeral-storage" => ResourceName::from_static("ephemeral-storage"),
        other => ResourceName::from(other),
    }
}

/// `requests.` before a name that quotas know as extended: it has a `/` and is not one of Kubernetes' own, or is implied by a device
/// class (upstream's `isExtendedResourceNameForQuota`).
pub(crate) fn is_extended_request(name: &str) -> bool {
    let foreign = || name.contains('/') && !name.contains("kubernetes.io/");
    name.starts_with("requests.") && (foreign() || name.starts_with("requests.deviceclass.resource.kubernetes.io/"))
}

/// What the tests of the evaluators share.
#[cfg(test)]
pub(crate) mod testing {
    use jiff::Timestamp;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::evaluator::{Assessment, Charge, Context, Evaluator, Lookups, NoLookups, Operation, Request};
    use crate::object::{Metadata, Object};

    /// The time at which the tests run.
    pub(crate) fn now() -> Timestamp {
        "2026-06-01T12:00:00Z".parse().unwrap()
    }

    /// `cpu=1 memory=2Gi` as a JSON object.
    pub(crate) fn resources(text: &str) -> Value {
        let pair = |pair: &str| {
            pair.split_once('=')
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .unwrap()
        };
        Value::Object(text.split_whitespace().map(pair).collect::<Map<_, _>>())
    }

    /// Reads an object as `evaluator` wants it.
    pub(crate) fn object(evaluator: &dyn Evaluator, json: &Value) -> Object {
        let metadata: Option<Metadata> = serde_json::from_value(json["metadata"].clone()).unwrap();
        let view = evaluator
            .view_kind()
            .deserialize(json.clone())
            .map_err(|error| FieldError {
                field: "object".to_owned(),
                reason: error.to_string(),
            });
        Object {
            metadata: metadata.unwrap_or_default(),
            view,
        }
    }

    pub(crate) fn assess_with(
        evaluator: &dyn Evaluator,
        json: &Value,
        lookups: &dyn Lookups,
    ) -> Result<Assessment, FieldError> {
        let Object { metadata, view } = object(evaluator, json);
        evaluator.assess(&metadata, &view?, &Context { now: now(), lookups })
    }

    pub(crate) fn assess(evaluator: &dyn Evaluator, json: &Value) -> Result<Assessment, FieldError> {
        assess_with(evaluator, json, &NoLookups)
    }

    pub(crate) fn charge(evaluator: &dyn Evaluator, json: &Value) -> Charge {
        assess(evaluator, json)
            .unwrap_or_else(|error| panic!("{error}: {json}"))
            .charge
    }

    /// What an object uses, as `a=1,b=2`.
    pub(crate) fn usage(evaluator: &dyn Evaluator, json: &Value) -> String {
        charge(evaluator, json).usage.to_string()
    }

    /// Why an object can't be charged.
    pub(crate) fn problem(evaluator: &dyn Evaluator, json: &Value) -> String {
        assess(evaluator, json).unwrap_err().to_string()
    }

    /// Asserts that an evaluator tracks all of `tracked` and none of `others`.
    pub(crate) fn check_tracked(evaluator: &dyn Evaluator, lookups: &dyn Lookups, tracked: &[&str], others: &[&str]) {
        for name in tracked {
            assert!(evaluator.tracks(name, lookups), "{name} is tracked");
        }
        for name in others {
            assert!(!evaluator.tracks(name, lookups), "{name} is not tracked");
        }
    }

    /// Asserts that exactly these pairs of operation and subresource are handled where no object can be read, and that none is ever
    /// handled that is not reviewed.
    pub(crate) fn check_handled(evaluator: &dyn Evaluator, handled: &[(Operation, &str)]) {
        for operation in [
            Operation::Create,
            Operation::Update,
            Operation::Delete,
            Operation::Connect,
        ] {
            for subresource in ["", "status", "resize", "ephemeralcontainers", "binding", "subresource"] {
                let request = Request {
                    operation,
                    subresource,
                    new: None,
                    old: None,
                };
                let expected = handled.contains(&(operation, subresource));
                assert_eq!(evaluator.handles(&request), expected, "{operation:?} {subresource:?}");
                let charge = Charge::default();
                let with_objects = Request {
                    new: matches!(operation, Operation::Create | Operation::Update).then_some(&charge),
                    old: matches!(operation, Operation::Update | Operation::Delete).then_some(&charge),
                    ..request
                };
                let reviewed = evaluator.reviewed().contains(&(operation, subresource));
                assert!(
                    reviewed || !expected && !evaluator.handles(&with_objects),
                    "{with_objects:?}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_as_objects_carry_them() {
        let table = [
            (json!("100m"), Ok("100m")),
            (json!(" 2 "), Ok("2")),
            (json!("1.500"), Ok("1.500")),
            (json!(2), Ok("2")),
            (json!(-2), Ok("-2")),
            (json!(18_446_744_073_709_551_615_u64), Ok("18446744073709551615")),
            (json!(1.5), Ok("1500m")),
            (json!(null), Ok("0")),
            (json!("x"), Err("at[name]: ")),
            (json!(""), Err("at[name]: ")),
            (
                json!(0.123_456_789_012_345_67),
                Err("at[name]: a number of more than 15 digits must be written as a string"),
            ),
            (json!(true), Err("at[name]: a boolean is no quantity")),
            (json!([1, [2]]), Err("at[name]: a list is no quantity")),
            (json!({"a": {"b": 1}}), Err("at[name]: an object is no quantity")),
        ];
        for (json, expected) in table {
            let text: QuantityText = serde_json::from_value(json.clone()).unwrap();
            match (
                text.quantity("at", "name").map(|quantity| quantity.to_string()),
                expected,
            ) {
                (Ok(quantity), Ok(expected)) => assert_eq!(quantity, expected, "{json}"),
                (Err(error), Err(expected)) => assert!(error.to_string().starts_with(expected), "{json}: {error}"),
                (result, _) => panic!("{json}: {result:?}"),
            }
        }
    }

    /// What no JSON holds is a mistake of the decoder.
    #[test]
    fn what_no_quantity_is_read_from() {
        let bytes = de::value::BytesDeserializer::<de::value::Error>::new(b"1");
        assert_eq!(
            QuantityText::deserialize(bytes).unwrap_err().to_string(),
            "invalid type: byte array, expected a quantity such as \"100m\" or 2"
        );
    }

    #[test]
    fn extended_requests() {
        let table = [
            ("requests.example.com/gpu", true),
            ("requests.x/y", true),
            ("requests./", true),
            ("requests.deviceclass.resource.kubernetes.io/c", true),
            ("requests.deviceclass.resource.kubernetes.io/", true),
            ("requests.kubernetes.io/x", false),
            ("requests.node.kubernetes.io/x", false),
            ("requests.cpu", false),
            ("example.com/gpu", false),
            ("deviceclass.resource.kubernetes.io/c", false),
            ("limits.example.com/gpu", false),
        ];
        for (name, expected) in table {
            assert_eq!(is_extended_request(name), expected, "{name}");
        }
    }

    #[test]
    fn counted_objects_are_not_looked_at() {
        assert_eq!(
            ViewKind::Counted
                .deserialize(json!({"spec": [1, 2], "x": null}))
                .unwrap(),
            View::Counted
        );
    }
}
