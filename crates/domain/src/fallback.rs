//! Fallbacks of tools: which tool Houston calls in the place of one that failed, and with which arguments.
//!
//! A fallback is called once, and the fallback of a fallback is not: so two tools may name each other.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::tool_call::{EffectClass, ToolErrorCode, ToolResponse};

/// The fallback of one tool.
///
/// ```toml
/// fallback = "search_wiki"
/// fallback = { tool = "fetch_page", on = ["TIMEOUT"], input = { url = "/link" } }
/// fallback = { tool = "list_orders", own = true }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// The tool that is called instead. An agent that may not call it has no fallback.
    pub tool: String,
    /// Whether that is a tool of tenants' own, or a snippet of a user: these come and go after the settings were read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// The codes of the failures after which it is called.
    #[serde(default = "outside_failed")]
    pub on: Vec<ToolErrorCode>,
    /// Its arguments, by name: a text that begins with `/` is a JSON pointer into the arguments of the first call, and one that
    /// points to nothing leaves the argument out; every other value is used as it is. `None`: the arguments of the first call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<BTreeMap<String, Value>>,
}

/// What is outside of Houston has failed: the codes after which a fallback is called unless it names others.
const OUTSIDE_FAILED: [ToolErrorCode; 4] =
    [ToolErrorCode::IoError, ToolErrorCode::Timeout, ToolErrorCode::RateLimited, ToolErrorCode::ConfigError];

/// Whether a failure leaves open if the call has happened.
fn may_have_happened(code: ToolErrorCode) -> bool {
    matches!(code, ToolErrorCode::IoError | ToolErrorCode::Timeout | ToolErrorCode::Unknown)
}

impl Fallback {
    /// Whether Houston calls the fallback after this response of a tool of class `effect`. Not if the call may have happened,
    /// unless the tool only reads.
    pub fn follows(&self, effect: EffectClass, response: &ToolResponse) -> bool {
        let ToolResponse::Failure { code, .. } = response else { return false };
        self.on.contains(code) && (effect == EffectClass::Read || !may_have_happened(*code))
    }

    /// The arguments of the fallback, by those of the call that failed.
    pub fn arguments(&self, first: &Value) -> Value {
        let Some(input) = &self.input else { return first.clone() };
        let argument = |(name, value): (&String, &Value)| {
            let value = match value.as_str().filter(|text| text.starts_with('/')) {
                Some(pointer) => first.pointer(pointer)?.clone(),
                None => value.clone(),
            };
            Some((name.clone(), value))
        };
        Value::Object(input.iter().filter_map(argument).collect())
    }
}

/// The settings of `jobs/tools.toml`, by the name of a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fallbacks(BTreeMap<String, ToolFailure>);

/// What happens when a tool fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolFailure {
    /// As [`Fallback::own`], for the tool that fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    own: bool,
    #[serde(deserialize_with = "name_or_table")]
    fallback: Fallback,
}

impl Fallbacks {
    /// The fallback of a tool, if it has one.
    pub fn of(&self, tool: &str) -> Option<&Fallback> {
        self.0.get(tool).map(|settings| &settings.fallback)
    }

    /// The names of tools that must exist when the settings are read, each with the key of its setting.
    pub fn checked_tools(&self) -> impl Iterator<Item = (String, &str)> {
        self.0.iter().flat_map(|(tool, settings)| {
            let fallback = &settings.fallback;
            let first = (!settings.own).then(|| (tool.clone(), tool.as_str()));
            let second = (!fallback.own).then(|| (format!("{tool}.fallback"), fallback.tool.as_str()));
            [first, second].into_iter().flatten()
        })
    }

    /// The tools with a fallback, and the fallbacks.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Fallback)> {
        self.0.iter().map(|(tool, settings)| (tool.as_str(), &settings.fallback))
    }

    /// The key of a setting that cannot work, and why, for a person: a fallback names its own tool, or no failure.
    pub fn mistake(&self) -> Option<(String, String)> {
        self.iter().find_map(|(tool, fallback)| {
            let reason = if fallback.tool == tool {
                "a tool cannot be its own fallback: name another one"
            } else if fallback.on.is_empty() {
                "`on` must list at least one code, or be left out"
            } else {
                return None;
            };
            Some((format!("{tool}.fallback"), reason.to_owned()))
        })
    }
}

fn outside_failed() -> Vec<ToolErrorCode> {
    OUTSIDE_FAILED.to_vec()
}

fn name_or_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fallback, D::Error> {
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Fallback;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a tool, or a table with `tool`, and `own`, `on` and `input` if needed")
        }

        fn visit_str<E: Error>(self, tool: &str) -> Result<Fallback, E> {
            Ok(Fallback { tool: tool.to_owned(), own: false, on: outside_failed(), input: None })
        }

        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Fallback, A::Error> {
            Fallback::deserialize(MapAccessDeserializer::new(table))
        }
    }
    deserializer.deserialize_any(Reader)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Fallbacks, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn fallback_is_a_name_or_a_table() {
        let read = read("[a]\nfallback = 'b'\n[c]\nfallback = { tool = 'a', on = ['NOT_FOUND'] }").unwrap();
        assert_eq!(read.of("a").unwrap().on, OUTSIDE_FAILED);
        assert_eq!(read.of("c").unwrap().on, [ToolErrorCode::NotFound]);
        assert!(read.of("b").is_none() && read.mistake().is_none());
    }

    #[test]
    fn mistakes_say_what_is_allowed() {
        for (text, part) in [
            ("[a]\nfallback = 3", "the name of a tool, or a table"),
            ("[a]\nfallback = { tool = 'b', on = ['BROKEN'] }", "RATE_LIMITED"),
            ("[a]\nfallback = { tol = 'b' }", "`tool`"),
            ("[a]\nfalback = 'b'", "`fallback`"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for text in ["[a]\nfallback = 'a'", "[a]\nfallback = { tool = 'b', on = [] }"] {
            assert_eq!(read(text).unwrap().mistake().unwrap().0, "a.fallback", "{text}");
        }
    }

    #[test]
    fn only_what_reads_has_a_fallback_when_it_may_have_happened() {
        let mut fallback = read("[a]\nfallback = 'b'").unwrap().of("a").unwrap().clone();
        fallback.on.push(ToolErrorCode::Unknown);
        let failed = |code| ToolResponse::failure(code, "no");
        for (code, reads, acts) in [
            (ToolErrorCode::IoError, true, false),
            (ToolErrorCode::Timeout, true, false),
            (ToolErrorCode::Unknown, true, false),
            (ToolErrorCode::RateLimited, true, true),
            (ToolErrorCode::ConfigError, true, true),
            (ToolErrorCode::NotFound, false, false),
        ] {
            assert_eq!(fallback.follows(EffectClass::Read, &failed(code)), reads, "{code:?}");
            for effect in [EffectClass::Idempotent, EffectClass::Checkable, EffectClass::Effect] {
                assert_eq!(fallback.follows(effect, &failed(code)), acts, "{effect:?} {code:?}");
            }
        }
        assert!(!fallback.follows(EffectClass::Read, &ToolResponse::success("yes")));
        assert!(!fallback.follows(EffectClass::Effect, &ToolResponse::outcome_unknown()));
    }

    #[test]
    fn arguments_are_those_of_the_call_or_mapped() {
        let first = json!({"query": "kyoto", "options": {"limit": 3}});
        let plain = read("[a]\nfallback = 'b'").unwrap();
        assert_eq!(plain.of("a").unwrap().arguments(&first), first);
        let mapped = "[a.fallback]\ntool = 'b'\n\
                      input = { q = '/query', n = '/options/limit', page = '/page', kind = 'web', deep = true }";
        let mapped = read(mapped).unwrap();
        let expected = json!({"q": "kyoto", "n": 3, "kind": "web", "deep": true});
        assert_eq!(mapped.of("a").unwrap().arguments(&first), expected);
    }
}
