//! What only upstream's unit tests ask: requests without an object, the sum over the objects that were listed, and quantities by their
//! value and format apart.

use std::fmt;

use kubequota_core::evaluator::{Evaluator, Request};
use kubequota_core::inventory::Inventory;
use kubequota_core::resource_list::ResourceList;
use kubequota_core::scope::Selector;
use kubequota_core::{Context, Quantity};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Mistake;
use crate::lists::{Texts, names, texts};
use crate::objects::{Around, SelectorText, charge, kind, operation, read};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Question {
    /// Whether admission charges a request.
    Handles {
        kind: String,
        operation: String,
        subresource: String,
        object: Option<Box<RawValue>>,
        old: Option<Box<RawValue>>,
        around: Around,
    },
    /// What these objects use together, of those that all selectors match; the names are there at zero whatever is used.
    Total {
        kind: String,
        objects: Vec<Box<RawValue>>,
        selectors: Vec<SelectorText>,
        names: Vec<String>,
        around: Around,
    },
    /// What a text means.
    Text(String),
    /// What a JSON token means.
    Token(String),
    /// What a quantity is, and what comes of it together with another one and a factor.
    Quantity { a: Value, b: Value, factor: i64 },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Handles(bool),
    /// The sum, or why it can't be had.
    Total(Result<Texts, String>),
    /// `None` where it means nothing.
    Text(Option<Read>),
    Quantity(Box<Properties>),
}

/// A quantity without kept text: its value as a whole number times a power of ten, `1234e-3`, and its format.
#[derive(Deserialize, Serialize)]
pub(crate) struct Value {
    amount: String,
    format: String,
}

/// A quantity that was read.
#[derive(Serialize)]
pub(crate) struct Read {
    value: Value,
    /// As it is printed.
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Properties {
    text: String,
    sign: i32,
    rounded_up: Value,
    is_whole: bool,
    units: Option<i64>,
    float: Option<f64>,
    negated: Value,
    product: Value,
    compare: i32,
    sum: Value,
    difference: Value,
}

/// A quantity of any value in the format of another one. A sum has the format of its left side, unless that is zero.
fn in_format(value: &Quantity, format: &Quantity) -> Quantity {
    let mut sum = format + value;
    let mut offset = format.clone();
    if sum.is_zero() {
        sum += format;
        offset += format;
    }
    sum - offset
}

impl Value {
    fn read(&self) -> Result<Quantity, Mistake> {
        let amount = Quantity::parse(&self.amount).map_err(|error| Mistake::part("amount")(&error))?;
        let format = match self.format.as_str() {
            "DecimalSi" => Quantity::from_units(1),
            "BinarySi" => Quantity::from_binary_units(1),
            "DecimalExponent" => power_of_ten()?,
            other => return Err(Mistake::part("format")(&other)),
        };
        Ok(in_format(&amount, &format))
    }

    fn of(quantity: &Quantity) -> Result<Self, Mistake> {
        Ok(Value {
            amount: in_format(quantity, &power_of_ten()?).to_string(),
            format: format!("{:?}", quantity.format()),
        })
    }
}

/// One, written with an exponent.
fn power_of_ten() -> Result<Quantity, Mistake> {
    Quantity::parse("1e0").map_err(|error| Mistake::part("amount")(&error))
}

fn read_quantity(parsed: Result<Quantity, impl fmt::Display>) -> Result<Answer, Mistake> {
    let Ok(quantity) = parsed else {
        return Ok(Answer::Text(None));
    };
    Ok(Answer::Text(Some(Read {
        value: Value::of(&quantity)?,
        text: quantity.to_string(),
    })))
}

fn properties(a: &Quantity, b: &Quantity, factor: i64) -> Result<Properties, Mistake> {
    let rounded_up = a.ceil();
    Ok(Properties {
        text: a.to_string(),
        sign: a.signum(),
        is_whole: rounded_up == *a,
        rounded_up: Value::of(&rounded_up)?,
        units: a.units(),
        float: Some(a.to_f64()).filter(|float| float.is_finite()),
        negated: Value::of(&-a)?,
        product: Value::of(&(a * factor))?,
        compare: a.cmp(b) as i32,
        sum: Value::of(&(a + b))?,
        difference: Value::of(&(a - b))?,
    })
}

impl Question {
    pub(crate) fn answer(&self) -> Result<Answer, Mistake> {
        match self {
            Question::Handles {
                kind,
                operation,
                subresource,
                object,
                old,
                around,
            } => {
                let operation = self::operation(operation)?;
                with_evaluator(kind, around, |evaluator, context| {
                    let charge = |text: &Option<Box<RawValue>>| {
                        let object = text.as_ref().map(|text| read(evaluator, text)).transpose()?;
                        Ok::<_, Mistake>(object.and_then(|object| charge(evaluator, &object, context).ok()))
                    };
                    let (new, old) = (charge(object)?, charge(old)?);
                    Ok(Answer::Handles(evaluator.handles(&Request {
                        operation,
                        subresource,
                        new: new.as_ref(),
                        old: old.as_ref(),
                    })))
                })
            }
            Question::Total {
                kind,
                objects,
                selectors,
                names: zeros,
                around,
            } => with_evaluator(kind, around, |evaluator, context| {
                let selector = Selector::new(selectors.iter().map(SelectorText::requirement).collect());
                let mut total: ResourceList = names(zeros).into_iter().map(|name| (name, Quantity::zero())).collect();
                for text in objects {
                    match charge(evaluator, &read(evaluator, text)?, context) {
                        Ok(charge) if selector.matches(&charge.scopes) => total.add_assign(&charge.usage),
                        Ok(_) => {}
                        Err(error) => return Ok(Answer::Total(Err(error.to_string()))),
                    }
                }
                Ok(Answer::Total(Ok(texts(&total))))
            }),
            Question::Text(text) => read_quantity(Quantity::parse(text)),
            Question::Token(token) => read_quantity(Quantity::from_json(token)),
            Question::Quantity { a, b, factor } => {
                let properties = properties(&a.read()?, &b.read()?, *factor)?;
                Ok(Answer::Quantity(Box::new(properties)))
            }
        }
    }
}

fn with_evaluator<T>(
    kind: &str,
    around: &Around,
    ask: impl FnOnce(&dyn Evaluator, &Context<'_>) -> Result<T, Mistake>,
) -> Result<T, Mistake> {
    let mut inventory: Inventory = around.inventory()?;
    let id = self::kind(&mut inventory, kind)?;
    let lookups = inventory.lookups();
    let context = Context {
        now: around.now,
        lookups: &lookups,
    };
    ask(inventory.registry().evaluator(id).as_ref(), &context)
}
