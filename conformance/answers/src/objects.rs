//! What the evaluators say of one object.

use jiff::Timestamp;
use kubequota_core::evaluator::{Evaluator, Operation, Request};
use kubequota_core::inventory::{DeviceClassView, Inventory};
use kubequota_core::registry::KindId;
use kubequota_core::scope::{Requirement, ScopeFacts};
use kubequota_core::{Charge, Context, FieldError, GroupResource, Object, Quota};
use kubequota_wire::json::{Plain, Quotas, Shape};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

use crate::Mistake;
use crate::lists::{Texts, names, show, texts};

/// An object, what is around it, and what to match it with.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    kind: String,
    object: Box<RawValue>,
    /// The same object as protobuf, in hexadecimal.
    #[serde(default)]
    protobuf: Option<String>,
    #[serde(default)]
    old: Option<Box<RawValue>>,
    around: Around,
    /// Names of which some are tracked; they are also what the constraint demands.
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    selectors: Vec<SelectorText>,
    #[serde(default)]
    quotas: Vec<Box<RawValue>>,
}

/// The server's time and the objects beside the one in question.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Around {
    #[serde(deserialize_with = "time")]
    pub(crate) now: Timestamp,
    #[serde(default)]
    pub(crate) device_classes: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(crate) pods: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(crate) claims: Vec<Box<RawValue>>,
}

/// RFC 3339.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// A requirement as quotas and configuration files write it.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SelectorText {
    scope_name: String,
    operator: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    values: Option<Vec<String>>,
}

impl SelectorText {
    pub(crate) fn requirement(&self) -> Requirement {
        Requirement {
            scope: self.scope_name.as_str().into(),
            operator: self.operator.as_str().into(),
            values: self.values.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn of(requirement: &Requirement) -> Self {
        SelectorText {
            scope_name: requirement.scope.to_string(),
            operator: requirement.operator.to_string(),
            values: present(requirement.values.clone()),
        }
    }
}

/// Nothing where there is nothing in it.
pub(crate) fn present<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

#[derive(Serialize)]
pub(crate) struct Answer {
    /// What it uses, or why it can't be counted.
    usage: Result<Texts, String>,
    tracked: Vec<String>,
    /// For each selector whether it matches; `None` where it can't be evaluated.
    scopes: Vec<Option<bool>>,
    /// For each quota whether it counts the object; `None` where its scopes can't be evaluated.
    matches: Vec<Option<bool>>,
    constraint: Option<String>,
    /// The requests that are charged, as `Operation/subresource`.
    handles: Vec<String>,
    /// How the object read from protobuf differs from the object read from JSON.
    protobuf: Option<String>,
}

const OPERATIONS: [(&str, Operation); 4] = [
    ("CREATE", Operation::Create),
    ("UPDATE", Operation::Update),
    ("DELETE", Operation::Delete),
    ("CONNECT", Operation::Connect),
];

pub(crate) fn operation(name: &str) -> Result<Operation, Mistake> {
    let known = OPERATIONS.iter().find(|(known, _)| *known == name);
    Ok(known.ok_or_else(|| Mistake::part("operation")(&name))?.1)
}

/// The kind of this name, which from now on is known.
pub(crate) fn kind(inventory: &mut Inventory, name: &str) -> Result<KindId, Mistake> {
    let id = inventory.registry_mut().ensure(&GroupResource::parse(name));
    id.ok_or_else(|| Mistake::part("kind")(&name))
}

/// A device class is there, as this says.
pub(crate) fn observe_class(inventory: &mut Inventory, text: &RawValue, now: Timestamp) -> Result<(), Mistake> {
    let mistake = Mistake::part("deviceClass");
    let (metadata, view) = Plain::<DeviceClassView>::default()
        .read(text.get())
        .map_err(|error| mistake(&error))?;
    let view = view.map_err(|error| mistake(&error))?;
    inventory.set_device_class(&metadata.name, view.extended_resource(), now);
    Ok(())
}

/// What an object is charged, if it can be read.
pub(crate) fn charge(evaluator: &dyn Evaluator, object: &Object, context: &Context<'_>) -> Result<Charge, FieldError> {
    let view = object.view.as_ref().map_err(Clone::clone)?;
    Ok(evaluator.assess(&object.metadata, view, context)?.charge)
}

const SUBRESOURCES: [&str; 6] = ["", "status", "resize", "ephemeralcontainers", "binding", "scale"];

impl Around {
    pub(crate) fn inventory(&self) -> Result<Inventory, Mistake> {
        let mut inventory = Inventory::new();
        for text in &self.device_classes {
            observe_class(&mut inventory, text, self.now)?;
        }
        for (name, objects) in [("pods", &self.pods), ("resourceclaims.resource.k8s.io", &self.claims)] {
            let id = kind(&mut inventory, name)?;
            for text in objects {
                let object = read(inventory.registry().evaluator(id).as_ref(), text)?;
                inventory.observe(id, &object, self.now);
            }
        }
        Ok(inventory)
    }
}

pub(crate) fn read(evaluator: &dyn Evaluator, text: &RawValue) -> Result<Object, Mistake> {
    let object = evaluator.view_kind().read(text.get());
    object.map_err(|error| Mistake::part("object")(&error))
}

/// How an object read from protobuf differs from what it should be.
fn differs(evaluator: &dyn Evaluator, object: &Object, protobuf: &str) -> Option<String> {
    let byte = |at| {
        protobuf
            .get(at..at + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    let Some(bytes) = (0..protobuf.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>() else {
        return Some("no hexadecimal".to_owned());
    };
    match kubequota_wire::protobuf::object(evaluator.view_kind(), &bytes) {
        Ok(read) => (read != *object).then(|| format!("{read:?} is not {object:?}")),
        Err(error) => Some(error.to_string()),
    }
}

pub(crate) fn quota(text: &RawValue) -> Result<Quota, Mistake> {
    let (_, quota) = Quotas
        .read(text.get())
        .map_err(|error| Mistake::part("quota")(&error))?;
    let quota = quota.map_err(|error| Mistake::part("quota")(&error))?;
    match quota.problems.first() {
        None => Ok(quota),
        Some(problem) => Err(Mistake::part("quota")(problem)),
    }
}

impl Question {
    pub(crate) fn answer(&self) -> Result<Answer, Mistake> {
        let mut inventory = self.around.inventory()?;
        let kind = kind(&mut inventory, &self.kind)?;
        let evaluator = inventory.registry().evaluator(kind).as_ref();
        let lookups = inventory.lookups();
        let context = Context {
            now: self.around.now,
            lookups: &lookups,
        };
        let object = read(evaluator, &self.object)?;
        let charge = |object: &Object| charge(evaluator, object, &context);
        let new = charge(&object);
        let old = self.old.as_ref().map(|old| read(evaluator, old)).transpose()?;
        let old = old.as_ref().and_then(|old| charge(old).ok());
        let no_facts = ScopeFacts::None;
        let facts = new.as_ref().map_or(&no_facts, |charge| &charge.scopes);
        let all = |requirements: &[Requirement]| {
            let each = requirements
                .iter()
                .map(|requirement| requirement.try_matches(facts).ok());
            each.collect::<Option<Vec<bool>>>()
                .map(|each| each.into_iter().all(|one| one))
        };
        let tracks = |name: &str| evaluator.tracks(name, &lookups);
        let quotas = self
            .quotas
            .iter()
            .map(|text| quota(text))
            .collect::<Result<Vec<_>, _>>()?;
        let names = names(&self.names);
        let mut handles = Vec::new();
        for (verb, operation) in OPERATIONS {
            for subresource in SUBRESOURCES {
                let request = Request {
                    operation,
                    subresource,
                    new: new.as_ref().ok(),
                    old: old.as_ref(),
                };
                if evaluator.handles(&request) {
                    handles.push(format!("{verb}/{subresource}"));
                }
            }
        }
        Ok(Answer {
            tracked: show(names.iter().filter(|name| tracks(name.as_str()))),
            scopes: self
                .selectors
                .iter()
                .map(|selector| selector.requirement().try_matches(facts).ok())
                .collect(),
            matches: quotas
                .iter()
                .map(|quota| {
                    let mut hard = quota.status.hard.iter().flat_map(kubequota_core::ResourceList::names);
                    let named = hard.any(|name| tracks(name.as_str()));
                    Some(all(quota.spec.selector.requirements())? && named)
                })
                .collect(),
            constraint: object
                .view
                .as_ref()
                .ok()
                .and_then(|view| evaluator.constraint(view, &names).err()),
            handles,
            protobuf: self
                .protobuf
                .as_deref()
                .and_then(|protobuf| differs(evaluator, &object, protobuf)),
            usage: new
                .as_ref()
                .map(|charge| texts(&charge.usage))
                .map_err(ToString::to_string),
        })
    }
}
