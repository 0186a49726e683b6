//! One field of a table, and the check of one value.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, SecondsFormat, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{MAX_ITEM_BYTES, MAX_LIST_ITEMS, MAX_TEXT_BYTES};
use crate::local_time::instant;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// A text of at most [`MAX_TEXT_BYTES`].
    Text,
    /// A number.
    Number,
    /// A whole number of at most 64 bits.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A day: `2026-11-25`.
    Date,
    /// An instant, stored in UTC and to the second: `2026-11-25T09:30:00Z`.
    Datetime,
    /// One of the texts that the field lists.
    Enum,
    /// At most [`MAX_LIST_ITEMS`] texts.
    List,
}

impl FieldType {
    /// All types.
    pub const ALL: [Self; 8] = [
        Self::Text,
        Self::Number,
        Self::Integer,
        Self::Boolean,
        Self::Date,
        Self::Datetime,
        Self::Enum,
        Self::List,
    ];

    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Datetime => "datetime",
            Self::Enum => "enum",
            Self::List => "list",
        }
    }

    /// Whether its values can be added.
    #[must_use]
    pub fn is_number(self) -> bool {
        matches!(self, Self::Number | Self::Integer)
    }

    /// Whether one of its values is less than another.
    #[must_use]
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
    #[must_use]
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
    #[must_use]
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
    ///
    /// # Errors
    /// What is allowed, as a clause.
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
    let local = || {
        let forms = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"];
        let local = forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())?;
        instant(zone?, local)
    };
    let at = DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc)).or_else(local)?;
    is_usual(at.year()).then(|| at.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// `"food", "travel"`
pub(super) fn quoted(texts: &[String]) -> String {
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
