//! What is asked of a table: conditions on records, as a model or a client writes them, and numbers over many records, because
//! models are bad at adding.
//!
//! ```json
//! {"category": "food", "amount": {"gte": 10, "lt": 100}, "note": {"contains": "train"}, "paid_on": {"empty": true}}
//! ```

use chrono_tz::Tz;
use serde_json::{Map, Value};

use super::{Fault, Field, FieldType, Fields};

/// Maximum number of conditions of one search.
pub const MAX_CONDITIONS: usize = 20;

/// Maximum number of values of `in`.
const MAX_CHOICES: usize = 100;

names! {
    /// How a value is compared.
    #[derive(Hash)]
    pub enum Test {
        /// It is equal.
        Eq = "eq",
        /// It is not equal, or there is none.
        Ne = "ne",
        /// It is less.
        Lt = "lt",
        /// It is less or equal.
        Lte = "lte",
        /// It is greater.
        Gt = "gt",
        /// It is greater or equal.
        Gte = "gte",
        /// It is a text with this one in it, in capitals or not, or a list with this one among its texts.
        Contains = "contains",
        /// It is one of these.
        In = "in",
        /// There is none; with false, there is one.
        Empty = "empty",
    }
}

/// One condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The name of the field.
    pub field: String,
    /// How it is compared.
    pub test: Test,
    /// With what: as values are stored; for `in` a list, for `empty` a boolean.
    pub value: Value,
}

/// The order of found records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
    /// The name of the field; `None`: the order in which they were added.
    pub field: Option<String>,
    /// Whether the greatest comes first.
    pub descending: bool,
}

impl Order {
    /// Parses `amount` or `-amount`; `None`: the newest record first.
    ///
    /// # Errors
    /// A [`Fault`] when there is no such field, or its values have no order.
    pub fn parse(order: Option<&str>, fields: &Fields) -> Result<Self, Fault> {
        let Some(order) = order.map(str::trim).filter(|order| !order.is_empty()) else {
            return Ok(Self { field: None, descending: true });
        };
        let name = order.strip_prefix('-').unwrap_or(order);
        let field = fields.named(name)?;
        ensure!(field.kind != FieldType::List, Fault::of(name, "is a list, which has no order"));
        Ok(Self { field: Some(name.to_owned()), descending: order.starts_with('-') })
    }
}

/// The conditions of `filter`: for each field a value, or an object of tests.
///
/// # Errors
/// A [`Fault`] for each condition that the field does not allow.
pub fn conditions(
    filter: &Map<String, Value>,
    fields: &Fields,
    zone: Option<Tz>,
) -> Result<Vec<Condition>, Vec<Fault>> {
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    for (name, value) in filter {
        let field = match fields.named(name) {
            Ok(field) => field,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        for wanted in tests(field, value) {
            match wanted.and_then(|(test, value)| Ok((test, operand(field, test, value, zone)?))) {
                Ok((test, value)) => all.push(Condition { field: name.clone(), test, value }),
                Err(reason) => faults.push(Fault::of(name, reason)),
            }
        }
    }
    if all.len() > MAX_CONDITIONS {
        let reason = format!("at most {MAX_CONDITIONS} conditions are allowed, not {}", all.len());
        faults.push(Fault::of("", reason));
    }
    if faults.is_empty() { Ok(all) } else { Err(faults) }
}

/// The tests of one field with their values; an error says which tests there are.
fn tests<'v>(field: &Field, value: &'v Value) -> Vec<Result<(Test, &'v Value), String>> {
    let of_list = field.kind == FieldType::List;
    vec![Ok(match value {
        Value::Object(tests) => {
            let test = |(name, value): (&String, &'v Value)| {
                let names = || Test::ALL.map(Test::as_str).join(", ");
                let unknown = || format!("has no test `{name}`; there are: {}", names());
                Ok((Test::from_name(name).ok_or_else(unknown)?, value))
            };
            return tests.iter().map(test).collect();
        }
        Value::Null => (Test::Empty, &Value::Bool(true)),
        value if of_list && !value.is_array() => (Test::Contains, value),
        value if value.is_array() && !of_list => (Test::In, value),
        value => (Test::Eq, value),
    })]
}

/// The value of a test, as values of the field are stored.
fn operand(field: &Field, test: Test, value: &Value, zone: Option<Tz>) -> Result<Value, String> {
    let (name, kind) = (test.as_str(), field.kind.as_str());
    match test {
        Test::Eq | Test::Ne => field.check(value, zone),
        Test::Lt | Test::Lte | Test::Gt | Test::Gte if field.kind.is_ordered() => field.check(value, zone),
        Test::Lt | Test::Lte | Test::Gt | Test::Gte => {
            Err(format!("has the type {kind}, which has no `{name}`"))
        }
        Test::Contains if matches!(field.kind, FieldType::Text | FieldType::List) => match value {
            Value::String(text) if !text.contains('\0') => Ok(value.clone()),
            _ => Err(format!("`{name}` needs a text")),
        },
        Test::Contains => Err(format!("has the type {kind}, which has no `{name}`")),
        Test::In => match value {
            Value::Array(values) if !values.is_empty() && values.len() <= MAX_CHOICES => values
                .iter()
                .map(|value| field.check(value, zone))
                .collect::<Result<Vec<_>, _>>()
                .map(Value::from),
            _ => Err(format!("`{name}` needs a list of 1 to {MAX_CHOICES} values")),
        },
        Test::Empty if value.is_boolean() => Ok(value.clone()),
        Test::Empty => Err(format!("`{name}` needs true or false")),
    }
}

names! {
    /// What is computed.
    #[derive(Hash)]
    pub enum Function {
        /// How many records there are; with a field, how many have a value.
        Count = "count",
        /// The sum, exact.
        Sum = "sum",
        /// The mean.
        Avg = "avg",
        /// The least value.
        Min = "min",
        /// The greatest value.
        Max = "max",
    }
}

/// A checked computation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// What is computed.
    pub function: Function,
    /// Of which field.
    pub field: Option<String>,
    /// Once for each value of this field.
    pub group_by: Option<String>,
}

impl Aggregate {
    /// Checks that the fields exist and allow it.
    ///
    /// # Errors
    /// A [`Fault`] that says what the function needs.
    pub fn new(
        function: Function,
        field: Option<String>,
        group_by: Option<String>,
        fields: &Fields,
    ) -> Result<Self, Fault> {
        let name = function.as_str();
        let kind = field.as_deref().map(|field| fields.named(field)).transpose()?.map(|field| field.kind);
        let field_name = field.as_deref().unwrap_or_default();
        match (function, kind) {
            (Function::Count, _) => {}
            (_, None) => return Err(Fault::of("", format!("`{name}` needs a field"))),
            (Function::Sum | Function::Avg, Some(kind)) if !kind.is_number() => {
                let reason = format!("has the type {kind}; `{name}` needs a number or an integer");
                return Err(Fault::of(field_name, reason));
            }
            (_, Some(kind)) if !kind.is_ordered() => {
                return Err(Fault::of(field_name, format!("has the type {kind}, which has no `{name}`")));
            }
            _ => {}
        }
        if let Some(group) = &group_by {
            fields.named(group)?;
        }
        Ok(Self { function, field, group_by })
    }
}
