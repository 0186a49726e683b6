//! Lenient deserialization of values that servers send in other forms than their protocol defines: a number as a
//! string, negative or too large, `null` or a number in place of a string. They are read as missing, so that one
//! strange value does not lose an answer.
//!
//! `#[serde(borrow)]` at one field lets serde borrow all references of its struct.

use houston_domain::storable::storable_value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::scrub::shortened;

/// Largest count accepted: no model call has as many tokens, and sums of such counts do not overflow.
const LARGEST_COUNT: u64 = 1 << 40;

/// A count or index; `None` when the value is not a number from 0 to [`LARGEST_COUNT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl Count {
    /// The count, or 0.
    pub(crate) fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }

    /// A later report of this count. It only grows: a later 0 says that the server does not know.
    pub(crate) fn updated(self, later: Self) -> Self {
        if later.or_zero() == 0 { self.or(later) } else { later }
    }

    /// This count, or `other` when it is missing.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get().trim_matches(['"', ' ']);
        let whole = json.parse::<u64>().ok().or_else(|| truncated(json.parse().ok()?));
        Ok(Self(whole.filter(|count| *count <= LARGEST_COUNT)))
    }
}

/// The integer part of a number; `None` below zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
fn truncated(number: f64) -> Option<u64> {
    (number >= 0.0).then_some(number as u64)
}

/// A string; a number as it is written; anything else as `None`.
#[derive(Default)]
pub(crate) struct Text(pub(crate) Option<String>);

impl Text {
    /// Without white space around it; empty if it is missing.
    pub(crate) fn trimmed(&self) -> &str {
        self.0.as_deref().unwrap_or_default().trim()
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        Ok(Self(match json.as_bytes().first() {
            Some(b'"') => Some(serde_json::from_str(json).map_err(serde::de::Error::custom)?),
            Some(b'0'..=b'9' | b'-') => Some(json.to_owned()),
            _ => None,
        }))
    }
}

/// A value of the expected type, anything else as the default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lenient<T>(pub(crate) T);

impl<'de, T: Default + DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(json.get()).unwrap_or_default()))
    }
}

/// Deserializes `null` as the default.
pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// One object, a list of objects, or nothing. Elements of a list that are no objects are left out.
pub(crate) struct Pieces<T>(pub(crate) Vec<T>);

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Pieces<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        let listed: Vec<&RawValue> = match json.get().as_bytes().first() {
            Some(b'[') => serde_json::from_str(json.get()).map_err(serde::de::Error::custom)?,
            _ => vec![json],
        };
        let objects = listed.into_iter().map(RawValue::get).filter(|one| one.starts_with('{'));
        let objects = objects.map(|one| serde_json::from_str(one).map_err(serde::de::Error::custom));
        objects.collect::<Result<_, _>>().map(Self)
    }
}

/// Whether an `error` field reports an error: some servers send `null`, `""`, `{}` or `false` with every answer.
pub(crate) fn is_error(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| !matches!(value.get().trim(), "null" | "\"\"" | "{}" | "[]" | "false"))
}

/// Arguments of a tool call as JSON text: most servers send them inside a string, a few send the object itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments(pub(crate) String);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        Ok(Self(match json.as_bytes().first() {
            Some(b'"') => serde_json::from_str(json).map_err(serde::de::Error::custom)?,
            Some(b'n') => String::new(),
            _ => json.to_owned(),
        }))
    }
}

/// The function of a tool call, or a piece of it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Function {
    pub(crate) name: Text,
    pub(crate) arguments: Arguments,
}

/// Longest piece of malformed arguments that is stored, in characters: enough for the model to see its mistake.
const LONGEST_MALFORMED: usize = 400;

/// The arguments of the call `id`. What is not a JSON object is added to `malformed`, and the call has none.
pub(crate) fn input_of(id: &str, json: &str, malformed: &mut Vec<(String, String)>) -> Value {
    parse_arguments(json).unwrap_or_else(|sent| {
        malformed.push((id.to_owned(), sent));
        Value::Object(Map::new())
    })
}

/// Parses the arguments of a call. Blank text and `null` mean no arguments.
///
/// # Errors
/// The text, shortened, when it is not a JSON object.
pub(crate) fn parse_arguments(json: &str) -> Result<Value, String> {
    let json = json.trim();
    if json.is_empty() || json == "null" {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(json) {
        Ok(mut value @ Value::Object(_)) => {
            storable_value(&mut value);
            Ok(value)
        }
        _ => Err(shortened(json, LONGEST_MALFORMED)),
    }
}
