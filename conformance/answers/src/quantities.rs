//! Quantities: what texts mean, how they are printed, and their arithmetic.

use kubequota_core::Quantity;
use serde::{Deserialize, Serialize};

/// Two texts, a JSON token, a factor and a number.
#[derive(Deserialize)]
pub(crate) struct Question {
    a: String,
    b: String,
    json: String,
    factor: i64,
    number: i64,
}

/// What follows from them; `None` where a text is no quantity.
#[derive(Serialize)]
pub(crate) struct Answer {
    a: Option<Value>,
    b: Option<Value>,
    json: Option<Value>,
    together: Option<Together>,
    /// The number as units, as bytes, and as thousandths.
    whole: Value,
    binary: Value,
    milli: Value,
}

/// What a quantity says of itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value {
    text: String,
    canonical: String,
    format: String,
    sign: i32,
    rounded_up: String,
    /// Whole units, thousandths and billionths of units, where they fit 64 bits and are not negative.
    units: Option<i64>,
    milli: Option<i64>,
    nano: Option<i64>,
    float: Option<f64>,
    negated: String,
    multiplied: String,
    /// With the number.
    compared: i32,
}

/// What two quantities make.
#[derive(Serialize)]
struct Together {
    compare: i32,
    sum: String,
    difference: String,
}

impl Question {
    pub(crate) fn answer(&self) -> Answer {
        let (a, b) = (Quantity::parse(&self.a).ok(), Quantity::parse(&self.b).ok());
        let json = Quantity::from_json(&self.json).ok();
        let number = Quantity::from_units(self.number);
        let milli = Quantity::parse("1m").map_or_else(|_| Quantity::zero(), |milli| milli * self.number);
        let whole = |quantity: &Quantity| quantity.units().filter(|_| !quantity.is_negative());
        let value = |quantity: &Quantity| Value {
            text: quantity.to_string(),
            canonical: quantity.canonical().to_string(),
            format: format!("{:?}", quantity.format()),
            sign: quantity.signum(),
            rounded_up: quantity.ceil().to_string(),
            units: whole(quantity),
            milli: whole(&(quantity * 1_000)),
            nano: whole(&(quantity * 1_000_000_000)),
            float: Some(quantity.to_f64()).filter(|float| float.is_finite()),
            negated: (-quantity).to_string(),
            multiplied: (quantity * self.factor).to_string(),
            compared: quantity.cmp(&number) as i32,
        };
        Answer {
            whole: value(&number),
            binary: value(&Quantity::from_binary_units(self.number)),
            milli: value(&milli),
            together: a.as_ref().zip(b.as_ref()).map(|(a, b)| Together {
                compare: a.cmp(b) as i32,
                sum: (a + b).to_string(),
                difference: (a - b).to_string(),
            }),
            a: a.as_ref().map(value),
            b: b.as_ref().map(value),
            json: json.as_ref().map(value),
        }
    }
}
