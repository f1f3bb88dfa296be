//! Operations on lists of quantities by name, as in upstream's `pkg/quota/v1/resources.go`.

use std::collections::BTreeMap;

use kubequota_core::resource_list::{difference, intersection};
use kubequota_core::{Quantity, ResourceList, ResourceName};
use serde::{Deserialize, Serialize};

/// Two lists, and two lists of names.
#[derive(Deserialize)]
pub(crate) struct Question {
    a: Texts,
    b: Texts,
    names: Vec<String>,
    others: Vec<String>,
}

/// Every operation on them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    equals: bool,
    /// Names in which `a` exceeds `b`.
    exceeding: Vec<String>,
    max: Texts,
    add: Texts,
    /// The same, in place.
    add_assigned: Texts,
    subtract: Texts,
    subtract_non_negative: Texts,
    mask: Texts,
    names: Vec<String>,
    intersection: Vec<String>,
    difference: Vec<String>,
    is_zero: bool,
    without_zeros: Texts,
    negative: Vec<String>,
    /// `a` as messages print it.
    printed: String,
}

/// A list of quantities as text.
pub(crate) type Texts = BTreeMap<String, Text>;

/// A quantity as text; one that can't be read is a mistake of the one who asks.
#[derive(Clone, PartialEq)]
pub(crate) struct Text(Quantity);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Quantity::parse(&text).map(Text).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

pub(crate) fn list(texts: &Texts) -> ResourceList {
    texts
        .iter()
        .map(|(name, text)| (ResourceName::from(name.as_str()), text.0.clone()))
        .collect()
}

pub(crate) fn texts(list: &ResourceList) -> Texts {
    list.iter()
        .map(|(name, quantity)| (name.to_string(), Text(quantity.clone())))
        .collect()
}

pub(crate) fn names(texts: &[String]) -> Vec<ResourceName> {
    texts.iter().map(|text| ResourceName::from(text.as_str())).collect()
}

pub(crate) fn show<'a>(names: impl IntoIterator<Item = &'a ResourceName>) -> Vec<String> {
    names.into_iter().map(ToString::to_string).collect()
}

impl Question {
    pub(crate) fn answer(&self) -> Answer {
        let (a, b) = (list(&self.a), list(&self.b));
        let (own, others) = (names(&self.names), names(&self.others));
        let mut sum = a.clone();
        sum.add_assign(&b);
        Answer {
            equals: a == b,
            exceeding: show(&a.exceeding(&b)),
            max: texts(&a.max(&b)),
            add: texts(&a.add(&b)),
            add_assigned: texts(&sum),
            subtract: texts(&a.subtract(&b)),
            subtract_non_negative: texts(&a.subtract_non_negative(&b)),
            mask: texts(&a.mask(|name| own.contains(name))),
            names: show(a.names()),
            intersection: show(&intersection(&own, &others)),
            difference: show(&difference(&own, &others)),
            is_zero: a.is_zero(),
            without_zeros: texts(&a.without_zeros()),
            negative: show(&a.negative_names()),
            printed: a.to_string(),
        }
    }
}
