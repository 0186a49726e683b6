//! [`Fields`]: the description of a table, which checks its records; one [`Field`] of it checks one value.

use chrono::{DateTime, Datelike, NaiveDate, SecondsFormat, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    MAX_DESCRIPTION_BYTES, MAX_ITEM_BYTES, MAX_LIST_ITEMS, MAX_OPTIONS, MAX_TEXT_BYTES, TableLimits,
};
use crate::local_time::{instant, parse_local};
use crate::names::is_plain_name;

/// The fields of a table, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(Vec<Field>);

/// What is wrong with a field, or with a value of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", if .field.is_empty() { String::new() } else { format!("`{}` ", .field) })]
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

/// The faults, one after the other.
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
                add(format!("has `enum`, which only a field of the type `enum` has, not `{}`", field.kind));
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
        ensure!(!more.is_empty(), vec![Fault::of("", "give at least one field")]);
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
        let required =
            |field: &Field| Fault::of(&field.name, format!("is required: give {}", field.allowed()));
        let (mut stored, mut faults) = (Map::new(), Vec::new());
        for (name, value) in values {
            match self.named(name) {
                Err(fault) => faults.push(fault),
                Ok(field) if value.is_null() => match part {
                    Part::Changes if field.required => faults.push(required(field)),
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
        faults.extend(self.0.iter().filter(is_missing).map(required));
        if faults.is_empty() && stored.is_empty() {
            let names: Vec<String> = self.0.iter().map(|field| field.name.clone()).collect();
            faults.push(Fault::of("", format!("give a value for at least one of {}", quoted(&names))));
        }
        if faults.is_empty() { Ok(stored) } else { Err(faults) }
    }

    /// The JSON Schema of a record.
    pub fn schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.0.iter().map(|field| (field.name.clone(), field.schema())).collect();
        let required: Vec<&str> =
            self.0.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

names! {
    /// What a field holds.
    #[derive(Hash)]
    pub enum FieldType {
        /// A text of at most [`MAX_TEXT_BYTES`].
        Text = "text",
        /// A number.
        Number = "number",
        /// A whole number of at most 64 bits.
        Integer = "integer",
        /// `true` or `false`.
        Boolean = "boolean",
        /// A day: `2026-11-25`.
        Date = "date",
        /// An instant, stored in UTC and to the second: `2026-11-25T09:30:00Z`.
        Datetime = "datetime",
        /// One of the texts that the field lists.
        Enum = "enum",
        /// At most [`MAX_LIST_ITEMS`] texts.
        List = "list",
    }
}

impl FieldType {
    /// Whether its values can be added.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Number | Self::Integer)
    }

    /// Whether one of its values is less than another.
    pub fn is_ordered(self) -> bool {
        !matches!(self, Self::Boolean | Self::List)
    }
}

/// One field of a table.
///
/// ```json
/// {"name": "category", "type": "enum", "required": true, "enum": ["food", "travel"], "description": "What it was for."}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Its name in records: small letters, digits and `_`.
    pub name: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub kind: FieldType,
    /// Whether each record must have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// The allowed values of an enum.
    #[serde(rename = "enum", default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What it means.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl Field {
    /// What values it allows, as a clause that ends an error.
    pub fn allowed(&self) -> String {
        match self.kind {
            FieldType::Text => format!("a text of at most {MAX_TEXT_BYTES} bytes"),
            FieldType::Number => "a number, without quotes or unit".to_owned(),
            FieldType::Integer => "a whole number, without quotes or unit".to_owned(),
            FieldType::Boolean => "true or false".to_owned(),
            FieldType::Date => "a day, as 2026-11-25".to_owned(),
            FieldType::Datetime => {
                "a time, as 2026-11-25T09:30 (the user's local time) or 2026-11-25T09:30:00Z".to_owned()
            }
            FieldType::Enum => format!("one of {}", quoted(&self.options)),
            FieldType::List => {
                format!("a list of at most {MAX_LIST_ITEMS} texts of at most {MAX_ITEM_BYTES} bytes each")
            }
        }
    }

    /// The JSON Schema of its values.
    pub fn schema(&self) -> Value {
        let mut schema = match self.kind {
            FieldType::Text => json!({"type": "string"}),
            FieldType::Number => json!({"type": "number"}),
            FieldType::Integer => json!({"type": "integer"}),
            FieldType::Boolean => json!({"type": "boolean"}),
            FieldType::Date => json!({"type": "string", "format": "date"}),
            FieldType::Datetime => json!({"type": "string", "format": "date-time"}),
            FieldType::Enum => json!({"type": "string", "enum": self.options}),
            FieldType::List => json!({"type": "array", "items": {"type": "string"}}),
        };
        if !self.description.is_empty() {
            schema["description"] = Value::from(self.description.as_str());
        }
        schema
    }

    /// The value as it is stored. A time without an offset is one of `zone`; without a zone it is refused.
    pub fn check(&self, value: &Value, zone: Option<Tz>) -> Result<Value, String> {
        let stored = match (self.kind, value) {
            (FieldType::Text, Value::String(text)) if is_storable(text, MAX_TEXT_BYTES) => {
                Some(value.clone())
            }
            (FieldType::Number, Value::Number(_)) | (FieldType::Boolean, Value::Bool(_)) => {
                Some(value.clone())
            }
            (FieldType::Integer, Value::Number(_)) => integer(value).map(Value::from),
            (FieldType::Date, Value::String(text)) => day(text).map(Value::from),
            (FieldType::Datetime, Value::String(text)) => time(text, zone).map(Value::from),
            (FieldType::Enum, Value::String(text)) => {
                let same = |option: &&String| option.to_lowercase() == text.trim().to_lowercase();
                self.options.iter().find(same).map(|option| Value::from(option.as_str()))
            }
            (FieldType::List, Value::Array(items)) => {
                let is_allowed =
                    |item: &Value| item.as_str().is_some_and(|text| is_storable(text, MAX_ITEM_BYTES));
                (items.len() <= MAX_LIST_ITEMS && items.iter().all(is_allowed)).then(|| value.clone())
            }
            _ => None,
        };
        stored.ok_or_else(|| format!("must be {}, not {}", self.allowed(), shortened(value)))
    }
}

fn is_storable(text: &str, max: usize) -> bool {
    text.len() <= max && !text.contains('\0')
}

fn integer(value: &Value) -> Option<i64> {
    /// Above it, not each whole number is a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64);
    value.as_i64().or_else(|| value.as_f64().filter(|_| !value.is_u64()).and_then(whole))
}

/// Years whose dates have ten characters, so that their order is that of the texts.
fn is_usual(year: i32) -> bool {
    (0..=9999).contains(&year)
}

fn day(text: &str) -> Option<String> {
    let day = NaiveDate::parse_from_str(text.trim(), "%Y-%m-%d").ok()?;
    is_usual(day.year()).then(|| day.format("%Y-%m-%d").to_string())
}

fn time(text: &str, zone: Option<Tz>) -> Option<String> {
    let text = text.trim();
    let local = || instant(zone?, parse_local(text)?);
    let at = DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc)).or_else(local)?;
    is_usual(at.year()).then(|| at.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// `"food", "travel"`
fn quoted(texts: &[String]) -> String {
    texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ")
}

/// The beginning of a value, as JSON.
fn shortened(value: &Value) -> String {
    const CHARS: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Maximum length of a name, in characters.
pub const MAX_NAME_CHARS: usize = 40;

/// Checks the name of a table or a field: small letters, digits and `_`, the first a letter.
///
/// # Errors
/// What is allowed, and a name like the given one that is.
pub fn check_name(name: &str) -> Result<(), String> {
    if is_plain_name(name, b"_", MAX_NAME_CHARS) {
        return Ok(());
    }
    let rule = format!(
        "`{name:.60}` is no name: write 1 to {MAX_NAME_CHARS} small letters, digits and `_`, the first a letter"
    );
    Err(match like(name) {
        Some(like) => format!("{rule}, such as `{like}`"),
        None => rule,
    })
}

/// An allowed name like the given one.
fn like(name: &str) -> Option<String> {
    let mut like = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        let is_repeated = c == '_' && (like.is_empty() || like.ends_with('_'));
        if like.len() < MAX_NAME_CHARS && !is_repeated && !(like.is_empty() && c.is_ascii_digit()) {
            like.push(c);
        }
    }
    let like = like.trim_end_matches('_');
    (!like.is_empty()).then(|| like.to_owned())
}
