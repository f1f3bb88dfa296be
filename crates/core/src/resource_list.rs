//! Resource names and lists of quantities by name, with the operations of upstream's `k8s.io/apiserver/pkg/quota/v1/resources.go`
//! (v1.37).
//!
//! A name in one list and not in another is not a zero: each operation says what it does with it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kubequota_quantity::Quantity;

/// The name of something a quota limits: `pods`, `requests.cpu`, `count/deployments.apps`. Cheap to clone; ordered as text.
#[derive(Clone)]
pub struct ResourceName(Repr);

/// Well-known names cost nothing to make or clone; all others are shared.
#[derive(Clone)]
enum Repr {
    Static(&'static str),
    Shared(Arc<str>),
}

impl ResourceName {
    /// A name known when the program is written.
    #[must_use]
    pub const fn from_static(name: &'static str) -> Self {
        ResourceName(Repr::Static(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Static(name) => name,
            Repr::Shared(name) => name,
        }
    }
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        ResourceName(Repr::Shared(Arc::from(name)))
    }
}

impl From<String> for ResourceName {
    fn from(name: String) -> Self {
        ResourceName(Repr::Shared(Arc::from(name)))
    }
}

impl Borrow<str> for ResourceName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for ResourceName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for ResourceName {}

impl PartialOrd for ResourceName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ResourceName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for ResourceName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Quantities by resource name, in the order of the names. Two lists are equal when they have the same names with the same values
/// (upstream's `Equals`); the text of a quantity does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceList(BTreeMap<ResourceName, Quantity>);

impl ResourceList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        ResourceList(BTreeMap::new())
    }

    /// The quantity of `name`, if it is in the list.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    /// Whether `name` is in the list, be it zero.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets `name` to `value`.
    pub fn insert(&mut self, name: ResourceName, value: Quantity) {
        self.0.insert(name, value);
    }

    /// The quantity of `name`, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Quantity> {
        self.0.get_mut(name)
    }

    /// Takes `name` out.
    pub fn remove(&mut self, name: &str) -> Option<Quantity> {
        self.0.remove(name)
    }

    /// Names and quantities, by name.
    pub fn iter(&self) -> btree_map::Iter<'_, ResourceName, Quantity> {
        self.0.iter()
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &ResourceName> {
        self.0.keys()
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no name at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of `limits` that are in both lists and larger here: empty means less than or equal (upstream's `LessThanOrEqual`).
    #[must_use]
    pub fn exceeding(&self, limits: &ResourceList) -> Vec<ResourceName> {
        limits
            .iter()
            .filter(|(name, limit)| self.get(name.as_str()).is_some_and(|value| value > limit))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// For each name of either list the larger value; where they are equal the other's text is taken, as upstream's `Max` does.
    #[must_use]
    pub fn max(&self, other: &ResourceList) -> ResourceList {
        self.merged(
            other,
            |value, other| if value <= other { other.clone() } else { value.clone() },
        )
    }

    /// Raises each name here to the value in `other` where that is larger or the name is missing. An equal value keeps this one's
    /// text (upstream's `maxResourceList` in `k8s.io/component-helpers/resource`).
    pub fn raise_to(&mut self, other: &ResourceList) {
        for (name, value) in other.iter() {
            match self.0.get_mut(name.as_str()) {
                Some(mine) if value <= mine => {}
                Some(mine) => *mine = value.clone(),
                None => self.insert(name.clone(), value.clone()),
            }
        }
    }

    /// The sum for each name of either list.
    #[must_use]
    pub fn add(&self, other: &ResourceList) -> ResourceList {
        self.merged(other, |value, other| value + other)
    }

    /// Adds `other` in place.
    pub fn add_assign(&mut self, other: &ResourceList) {
        for (name, value) in other.iter() {
            match self.0.get_mut(name.as_str()) {
                Some(mine) => *mine += value,
                None => self.insert(name.clone(), value.clone()),
            }
        }
    }

    /// The difference for each name of either list; a name only in `other` becomes its negative.
    #[must_use]
    pub fn subtract(&self, other: &ResourceList) -> ResourceList {
        let mut result = self.clone();
        for (name, value) in other.iter() {
            match result.0.get_mut(name.as_str()) {
                Some(mine) => *mine -= value,
                None => result.insert(name.clone(), -value),
            }
        }
        result
    }

    /// The difference for each name of either list, zero where it would be negative or the name is only in `other` (upstream's
    /// `SubtractWithNonNegativeResult`).
    #[must_use]
    pub fn subtract_non_negative(&self, other: &ResourceList) -> ResourceList {
        let mut result = self.clone();
        for (name, value) in other.iter() {
            match result.0.get_mut(name.as_str()) {
                Some(mine) => *mine -= value,
                None => result.insert(name.clone(), Quantity::zero()),
            }
        }
        for value in result
            .0
            .values_mut()
            .filter(|value| value.is_negative() || value.is_zero())
        {
            *value = Quantity::zero();
        }
        result
    }

    /// Only the names that `keep` says yes to.
    #[must_use]
    pub fn mask(&self, mut keep: impl FnMut(&ResourceName) -> bool) -> ResourceList {
        self.0
            .iter()
            .filter(|(name, _)| keep(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Whether every value is zero; true of an empty list.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.values().all(Quantity::is_zero)
    }

    /// The list without the names whose value is zero.
    #[must_use]
    pub fn without_zeros(&self) -> ResourceList {
        self.0
            .iter()
            .filter(|(_, value)| !value.is_zero())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// The names whose value is below zero (upstream's `IsNegative`).
    #[must_use]
    pub fn negative_names(&self) -> Vec<ResourceName> {
        self.0
            .iter()
            .filter(|(_, value)| value.is_negative())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// The union of names, `join` where both lists have one.
    fn merged(&self, other: &ResourceList, join: impl Fn(&Quantity, &Quantity) -> Quantity) -> ResourceList {
        let mut result = self.clone();
        for (name, value) in other.iter() {
            match result.0.get_mut(name.as_str()) {
                Some(mine) => *mine = join(mine, value),
                None => result.insert(name.clone(), value.clone()),
            }
        }
        result
    }
}

/// Names in both `a` and `b`, sorted and without repetition.
#[must_use]
pub fn intersection(a: &[ResourceName], b: &[ResourceName]) -> Vec<ResourceName> {
    sorted(a.iter().filter(|name| b.contains(name)))
}

/// Names in `a` that are not in `b`, sorted and without repetition.
#[must_use]
pub fn difference(a: &[ResourceName], b: &[ResourceName]) -> Vec<ResourceName> {
    sorted(a.iter().filter(|name| !b.contains(name)))
}

fn sorted<'a>(names: impl Iterator<Item = &'a ResourceName>) -> Vec<ResourceName> {
    let mut result: Vec<ResourceName> = names.cloned().collect();
    result.sort_unstable();
    result.dedup();
    result
}

impl FromIterator<(ResourceName, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (ResourceName, Quantity)>>(pairs: I) -> Self {
        ResourceList(pairs.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a ResourceList {
    type Item = (&'a ResourceName, &'a Quantity);
    type IntoIter = btree_map::Iter<'a, ResourceName, Quantity>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for ResourceList {
    type Item = (ResourceName, Quantity);
    type IntoIter = btree_map::IntoIter<ResourceName, Quantity>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// `a=1,b=2`, as quota messages show a list.
impl fmt::Display for ResourceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a=1 b=2`.
    fn list(text: &str) -> ResourceList {
        let pair = |pair: &str| {
            pair.split_once('=')
                .map(|(name, value)| (name.into(), value.parse().unwrap()))
                .unwrap()
        };
        text.split_whitespace().map(pair).collect()
    }

    fn names(text: &str) -> Vec<ResourceName> {
        text.split_whitespace().map(ResourceName::from).collect()
    }

    /// Of two lists another one; both the values and the text must be as expected.
    fn check(operation: impl Fn(&ResourceList, &ResourceList) -> ResourceList, table: &[(&str, &str, &str)]) {
        for (a, b, expected) in table {
            let result = operation(&list(a), &list(b));
            assert_eq!(result, list(expected), "{a} and {b}");
            assert_eq!(result.to_string(), expected.replace(' ', ","), "{a} and {b}");
        }
    }

    #[test]
    fn names_are_their_text() {
        let (fixed, shared) = (ResourceName::from_static("cpu"), ResourceName::from("cpu".to_owned()));
        assert_eq!(fixed, shared);
        assert_eq!(fixed.cmp(&shared), Ordering::Equal);
        assert!(ResourceName::from("count/pods") < shared);
        let hash = |name: &ResourceName| std::hash::BuildHasher::hash_one(&foldhash::fast::FixedState::default(), name);
        assert_eq!(hash(&fixed), hash(&shared));
        assert_ne!(hash(&fixed), hash(&"memory".into()));
        assert_eq!(format!("{fixed:>5}|{shared:?}"), "  cpu|\"cpu\"");
    }

    #[test]
    fn equality() {
        let table = [
            ("", "", true),
            ("a=1", "a=1", true),
            ("a=1", "a=1000m", true),
            ("a=1Ki b=2", "b=2 a=1024", true),
            ("a=1", "a=2", false),
            ("a=1", "b=1", false),
            ("a=1", "a=1 b=0", false),
            ("a=0", "", false),
        ];
        for (a, b, expected) in table {
            assert_eq!(list(a) == list(b), expected, "{a} and {b}");
            assert_eq!(list(b) == list(a), expected, "{b} and {a}");
        }
    }

    #[test]
    fn exceeding() {
        let table = [
            ("", "", ""),
            ("a=1", "a=1", ""),
            ("a=1", "a=1000m", ""),
            ("a=2", "a=1", "a"),
            ("a=1001m b=2 c=3", "a=1 b=2 c=2", "a c"),
            // Only names of both count.
            ("a=5", "b=1", ""),
            ("b=-1", "a=-2 b=-2", "b"),
            ("", "a=-1", ""),
        ];
        for (a, limits, expected) in table {
            assert_eq!(
                list(a).exceeding(&list(limits)),
                names(expected),
                "{a} against {limits}"
            );
        }
    }

    #[test]
    fn max() {
        check(
            ResourceList::max,
            &[
                ("", "", ""),
                ("a=1", "", "a=1"),
                ("", "a=-1", "a=-1"),
                ("a=1 b=5", "a=2 c=3", "a=2 b=5 c=3"),
                ("a=2", "a=1", "a=2"),
                // Of equal ones the other's text is taken.
                ("a=1Gi", "a=1.5", "a=1Gi"),
                ("a=+5", "a=5", "a=5"),
                ("a=5", "a=+5", "a=+5"),
            ],
        );
    }

    #[test]
    fn raise_to() {
        let raised = |a: &ResourceList, b: &ResourceList| {
            let mut result = a.clone();
            result.raise_to(b);
            result
        };
        check(
            raised,
            &[
                ("", "a=1", "a=1"),
                ("a=1", "", "a=1"),
                ("", "a=-1", "a=-1"),
                ("a=2 b=1", "a=1 b=2", "a=2 b=2"),
                // Of equal ones this one's text stays.
                ("a=+5", "a=5", "a=+5"),
            ],
        );
    }

    #[test]
    fn add() {
        let assigned = |a: &ResourceList, b: &ResourceList| {
            let mut result = a.clone();
            result.add_assign(b);
            result
        };
        let table = [
            ("", "", ""),
            ("a=1", "", "a=1"),
            ("", "a=+5", "a=+5"),
            ("a=100m b=1", "a=900m c=2", "a=1 b=1 c=2"),
            ("a=1Gi", "a=1Gi", "a=2Gi"),
            ("a=1", "a=-1", "a=0"),
            ("a=0", "a=1Ki", "a=1Ki"),
            ("a=1k", "a=1Ki", "a=2024"),
        ];
        check(ResourceList::add, &table);
        check(assigned, &table);
    }

    #[test]
    fn subtract() {
        check(
            ResourceList::subtract,
            &[
                ("", "", ""),
                ("a=3", "a=1", "a=2"),
                ("a=1", "a=3", "a=-2"),
                ("a=1", "b=2", "a=1 b=-2"),
                ("", "a=-1", "a=1"),
                ("a=1", "a=1", "a=0"),
            ],
        );
    }

    #[test]
    fn subtract_non_negative() {
        check(
            ResourceList::subtract_non_negative,
            &[
                ("", "", ""),
                ("a=3", "a=1", "a=2"),
                ("a=1", "a=3", "a=0"),
                ("a=1", "b=2", "a=1 b=0"),
                // A name only in the other list is zero, whatever its sign.
                ("", "a=-1", "a=0"),
                ("a=-1", "", "a=0"),
                ("a=1Gi", "a=1Gi", "a=0"),
            ],
        );
    }

    #[test]
    fn mask() {
        let keep = names("a c x");
        check(
            |a, _| a.mask(|name| keep.contains(name)),
            &[("", "", ""), ("a=1 b=2 c=0", "", "a=1 c=0"), ("b=1", "", "")],
        );
    }

    #[test]
    fn zeros_and_negatives() {
        let table = [
            ("", true, "", ""),
            ("a=0 b=0m", true, "", ""),
            ("a=1 b=0 c=-1n", false, "a=1 c=-1n", "c"),
            ("a=-1 b=-2", false, "a=-1 b=-2", "a b"),
        ];
        for (text, is_zero, without_zeros, negative) in table {
            assert_eq!(list(text).is_zero(), is_zero, "{text}");
            assert_eq!(list(text).without_zeros(), list(without_zeros), "{text}");
            assert_eq!(list(text).negative_names(), names(negative), "{text}");
        }
    }

    #[test]
    fn sets_of_names() {
        let table = [
            ("", "", "", ""),
            ("b a", "a b", "a b", ""),
            ("c a b a", "a x", "a", "b c"),
            ("a a", "", "", "a"),
            ("", "a", "", ""),
            ("b b a a", "b a", "a b", ""),
        ];
        for (a, b, both, only_a) in table {
            assert_eq!(intersection(&names(a), &names(b)), names(both), "{a} and {b}");
            assert_eq!(difference(&names(a), &names(b)), names(only_a), "{a} and {b}");
        }
    }

    #[test]
    fn entries() {
        let mut entries = list("b=2 a=1");
        assert_eq!(entries.names().cloned().collect::<Vec<_>>(), names("a b"));
        assert_eq!(
            (
                entries.len(),
                entries.is_empty(),
                entries.contains("b"),
                entries.contains("c")
            ),
            (2, false, true, false)
        );
        *entries.get_mut("a").unwrap() += Quantity::from(2);
        assert_eq!(entries.remove("b"), Some(Quantity::from(2)));
        assert_eq!(entries.get("b"), None);
        assert_eq!(entries, list("a=3"));
        assert!(list("").is_empty());
    }
}
