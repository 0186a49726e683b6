//! What is wanted of a model's answers: how it chooses its words ([`Sampling`]), and their form ([`Output`]). Settings of a kind,
//! an agent and a message; the more specific one counts, field by field.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::setting::{WrongSetting, require};

/// The most characters of the name of a form: what all providers accept.
pub const MAX_NAME_CHARS: usize = 64;
/// The most bytes of the schema of a result, as JSON.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024;
/// The most texts that end an answer: what all providers accept.
pub const MAX_STOPS: usize = 4;
/// The most bytes of such a text.
pub const MAX_STOP_BYTES: usize = 200;
/// The highest temperature: what the provider with the widest range accepts.
pub const MAX_TEMPERATURE: f64 = 2.0;

names! {
    /// How much a model thinks before it answers.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Effort {
        /// Not at all.
        None = "none",
        /// As little as it can.
        Minimal = "minimal",
        /// Little.
        Low = "low",
        /// Somewhat.
        Medium = "medium",
        /// Much.
        High = "high",
        /// As much as it can.
        Max = "max",
    }
}

/// How a model chooses its words. What is left out stays as the provider has it.
///
/// ```toml
/// [sampling]
/// temperature = 0.2
/// effort = "low"
/// stop = ["END"]
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// How freely it chooses, from 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The share of the likeliest words it chooses from, above 0, at most 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// How much it thinks before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Texts that end the answer, at most four.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

impl Sampling {
    /// Whether all is left to the provider.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// These settings, and those of `general` where they say nothing.
    pub fn over(&self, general: &Self) -> Self {
        Self {
            temperature: self.temperature.or(general.temperature),
            top_p: self.top_p.or(general.top_p),
            effort: self.effort.or(general.effort),
            stop: if self.stop.is_empty() { general.stop.clone() } else { self.stop.clone() },
        }
    }

    /// Checks the ranges. Pointers are from these settings.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is wrong.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let is_allowed = self.temperature.is_none_or(|value| (0.0..=MAX_TEMPERATURE).contains(&value));
        require(is_allowed, "/temperature", "must be from 0 to 2")?;
        let reason = "must be above 0 and at most 1";
        require(self.top_p.is_none_or(|value| value > 0.0 && value <= 1.0), "/top_p", reason)?;
        let reason = format_args!("at most {MAX_STOPS} texts are allowed");
        require(self.stop.len() <= MAX_STOPS, "/stop", reason)?;
        let is_wrong = |text: &String| text.is_empty() || text.len() > MAX_STOP_BYTES || text.contains('\0');
        let reason = format_args!("must have 1 to {MAX_STOP_BYTES} bytes, without U+0000");
        let wrong = self.stop.iter().position(is_wrong);
        wrong.map_or(Ok(()), |nth| Err(WrongSetting::new(format!("/stop/{nth}"), reason.to_string())))
    }
}

/// The form of an answer: one JSON value that fits a schema.
///
/// ```json
/// {"name": "trip", "schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Its name, for providers that want one.
    #[serde(default = "Output::usual_name")]
    pub name: String,
    /// The JSON Schema of an object.
    pub schema: Arc<Value>,
    /// Whether a provider that can is to guarantee it. It is checked in any case.
    #[serde(default = "Output::is_usually_strict", skip_serializing_if = "is_true")]
    pub strict: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_true(value: &bool) -> bool {
    *value
}

impl Output {
    fn usual_name() -> String {
        "answer".to_owned()
    }

    fn is_usually_strict() -> bool {
        true
    }

    /// A value that fits this schema.
    pub fn of(schema: Value) -> Self {
        Self { name: Self::usual_name(), schema: Arc::new(schema), strict: true }
    }

    /// Any JSON object.
    pub fn any_object() -> Self {
        Self::of(json!({"type": "object"}))
    }

    /// Checks its name and its schema. Pointers are from the output.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is wrong.
    pub fn check(&self) -> Result<(), WrongSetting> {
        require(is_name(&self.name), "/name", name_rule())?;
        // Providers accept nothing else at the top.
        let may_be_object =
            self.schema.is_object() && self.schema.get("type").is_none_or(|kind| kind == "object");
        require(may_be_object, "/schema", "must be the JSON Schema of an object")?;
        let bytes = serde_json::to_vec(&self.schema).map_or(usize::MAX, |json| json.len());
        let reason = format_args!("has {bytes} bytes as JSON; at most {MAX_SCHEMA_BYTES} are allowed");
        require(bytes <= MAX_SCHEMA_BYTES, "/schema", reason)?;
        Ok(())
    }
}

/// Whether all providers accept it as the name of a tool or a form.
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'-');
    (1..=MAX_NAME_CHARS).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// What [`is_name`] allows, for people.
pub(crate) fn name_rule() -> String {
    format!("must have 1 to {MAX_NAME_CHARS} of the characters A-Z, a-z, 0-9, `_` and `-`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: Value) -> Sampling {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn specific_settings_count_field_by_field() {
        let kind = of(json!({"temperature": 0.2, "effort": "low", "stop": ["END"]}));
        let message = of(json!({"temperature": 1, "top_p": 0.5}));
        let both = of(json!({"temperature": 1.0, "top_p": 0.5, "effort": "low", "stop": ["END"]}));
        assert_eq!(message.over(&kind), both);
        assert_eq!(of(json!({})).over(&kind), kind);
        assert!(of(json!({})).is_empty() && !kind.is_empty());
    }

    #[test]
    fn wrong_settings_are_refused_with_their_place() {
        let wrong = |json| of(json).check().err().map(|wrong| wrong.pointer);
        assert_eq!(
            wrong(json!({"temperature": 2, "top_p": 1, "stop": ["a", "b", "c", "d"], "effort": "max"})),
            None
        );
        for (json, place) in [
            (json!({"temperature": 2.1}), "/temperature"),
            (json!({"temperature": -0.1}), "/temperature"),
            (json!({"top_p": 0}), "/top_p"),
            (json!({"top_p": 1.01}), "/top_p"),
            (json!({"stop": ["a", ""]}), "/stop/1"),
            (json!({"stop": ["a\u{0}"]}), "/stop/0"),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "/stop"),
        ] {
            assert_eq!(wrong(json).unwrap(), place);
        }
        assert!(serde_json::from_value::<Sampling>(json!({"temprature": 1})).is_err());
    }

    #[test]
    fn form_has_a_usual_name_and_is_strict() {
        let output: Output = serde_json::from_value(json!({"schema": {"type": "object"}})).unwrap();
        assert_eq!(output, Output::any_object());
        assert_eq!(
            serde_json::to_value(&output).unwrap(),
            json!({"name": "answer", "schema": {"type": "object"}})
        );
    }
}
