//! [`Fields`]: the description of a table, which checks its records.

use std::fmt;

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::field::quoted;
use super::{Field, FieldType, MAX_DESCRIPTION_BYTES, MAX_ITEM_BYTES, MAX_OPTIONS, TableLimits, check_name};

/// The fields of a table, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(Vec<Field>);

/// What is wrong with a field, or with a value of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The name of the field; empty: the fault concerns the whole record or table.
    pub field: String,
    /// What is wrong and what is allowed, as a clause.
    pub reason: String,
}

/// Which part of a record is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it: a field that is not given has no value.
    Whole,
    /// What changes: null removes a value.
    Changes,
}

impl Fault {
    pub(super) fn of(field: &str, reason: impl Into<String>) -> Self {
        Self { field: field.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "`{}` {}", self.field, self.reason)
        }
    }
}

/// The faults, one after the other.
#[must_use]
pub fn texts(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Fields {
    /// The description of a new table.
    ///
    /// # Errors
    /// A [`Fault`] for each field that is wrong: its name, a name that exists already, a missing list of values.
    pub fn new(fields: Vec<Field>, limits: &TableLimits) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let max = usize::try_from(limits.max_fields).unwrap_or(usize::MAX);
        if fields.is_empty() || fields.len() > max {
            let count = fields.len();
            faults.push(Fault::of("", format!("a table has 1 to {max} fields, not {count}")));
        }
        for (nth, field) in fields.iter().enumerate() {
            let mut add = |reason: String| faults.push(Fault::of(&field.name, reason));
            if let Err(reason) = check_name(&field.name) {
                faults.push(Fault::of("", format!("the field {reason}")));
                continue;
            }
            if fields[..nth].iter().any(|other| other.name == field.name) {
                add("is there twice".to_owned());
            }
            let is_enum = field.kind == FieldType::Enum;
            if is_enum && !(1..=MAX_OPTIONS).contains(&field.options.len()) {
                add(format!("needs `enum`: a list of 1 to {MAX_OPTIONS} allowed values"));
            }
            if !is_enum && !field.options.is_empty() {
                add(format!(
                    "has `enum`, which only a field of the type `enum` has, not `{}`",
                    field.kind.as_str()
                ));
            }
            let is_bad =
                |text: &String| text.trim().is_empty() || text.len() > MAX_ITEM_BYTES || text.contains('\0');
            if field.options.iter().any(is_bad) {
                add(format!("has an allowed value that is empty or longer than {MAX_ITEM_BYTES} bytes"));
            }
            if field.description.len() > MAX_DESCRIPTION_BYTES || field.description.contains('\0') {
                add(format!("has a description of more than {MAX_DESCRIPTION_BYTES} bytes"));
            }
        }
        if faults.is_empty() { Ok(Self(fields)) } else { Err(faults) }
    }

    /// These fields and `more` behind them, for a table with `records` records, which have no value of the new ones.
    ///
    /// # Errors
    /// As [`Self::new`]; also when a new field is required although there are records.
    pub fn extended(&self, more: Vec<Field>, records: i64, limits: &TableLimits) -> Result<Self, Vec<Fault>> {
        if more.is_empty() {
            return Err(vec![Fault::of("", "give at least one field")]);
        }
        let is_refused = |field: &&Field| field.required && records > 0;
        let refused = more.iter().filter(is_refused).map(|field| {
            Fault::of(&field.name, format!("cannot be required: {records} records have no value of it"))
        });
        let mut faults: Vec<Fault> = refused.collect();
        match Self::new(self.0.iter().cloned().chain(more).collect(), limits) {
            Ok(fields) if faults.is_empty() => Ok(fields),
            done => {
                faults.extend(done.err().unwrap_or_default());
                Err(faults)
            }
        }
    }

    /// The fields, in their order.
    #[must_use]
    pub fn all(&self) -> &[Field] {
        &self.0
    }

    /// The field with this name.
    ///
    /// # Errors
    /// The names there are.
    pub fn named(&self, name: &str) -> Result<&Field, Fault> {
        self.0.iter().find(|field| field.name == name).ok_or_else(|| {
            let names: Vec<String> = self.0.iter().map(|field| format!("`{}`", field.name)).collect();
            let name: String = name.chars().take(60).collect();
            Fault::of(&name, format!("is no field of this table; its fields: {}", names.join(", ")))
        })
    }

    /// The values as they are stored, checked for tools and for requests alike. With [`Part::Changes`], null means a
    /// value that is removed. A time without an offset is one of `zone`.
    ///
    /// # Errors
    /// A [`Fault`] for each value that is wrong and each that is missing.
    pub fn check(
        &self,
        values: &Map<String, Value>,
        zone: Option<Tz>,
        part: Part,
    ) -> Result<Map<String, Value>, Vec<Fault>> {
        let (mut stored, mut faults) = (Map::new(), Vec::new());
        for (name, value) in values {
            match self.named(name) {
                Err(fault) => faults.push(fault),
                Ok(field) if value.is_null() => match part {
                    Part::Changes if field.required => {
                        faults.push(Fault::of(name, format!("is required: give {}", field.allowed())));
                    }
                    Part::Changes => drop(stored.insert(name.clone(), Value::Null)),
                    Part::Whole => {}
                },
                Ok(field) => match field.check(value, zone) {
                    Ok(value) => drop(stored.insert(name.clone(), value)),
                    Err(reason) => faults.push(Fault::of(name, reason)),
                },
            }
        }
        let is_missing = |field: &&Field| {
            part == Part::Whole && field.required && values.get(&field.name).is_none_or(Value::is_null)
        };
        faults.extend(
            self.0
                .iter()
                .filter(is_missing)
                .map(|field| Fault::of(&field.name, format!("is required: give {}", field.allowed()))),
        );
        if faults.is_empty() && stored.is_empty() {
            let names: Vec<String> = self.0.iter().map(|field| field.name.clone()).collect();
            faults.push(Fault::of("", format!("give a value for at least one of {}", quoted(&names))));
        }
        if faults.is_empty() { Ok(stored) } else { Err(faults) }
    }

    /// The JSON Schema of a record.
    #[must_use]
    pub fn schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.0.iter().map(|field| (field.name.clone(), field.schema())).collect();
        let required: Vec<&str> =
            self.0.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}
