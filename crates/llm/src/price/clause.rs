//! Conditions on model names.

use regex_lite::Regex;
use serde::{Deserialize, Deserializer};

/// A condition on a name, e.g. `{"starts_with": "gpt-5"}`. All but `regex` ignore case.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Clause {
    Equals(Box<str>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
    #[serde(deserialize_with = "pattern")]
    Regex(Regex),
    Not(Box<Clause>),
    Or(Vec<Clause>),
    And(Vec<Clause>),
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(deserializer)?;
    Regex::new(&text).map_err(serde::de::Error::custom)
}

impl Clause {
    /// Whether the condition is true for `name`.
    pub(crate) fn is_match(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        let same = |text: &str| text.to_lowercase();
        match self {
            Self::Equals(text) => lower == same(text),
            Self::StartsWith(text) => lower.starts_with(&same(text)),
            Self::EndsWith(text) => lower.ends_with(&same(text)),
            Self::Contains(text) => lower.contains(&same(text)),
            Self::Regex(pattern) => pattern.is_match(name),
            Self::Not(clause) => !clause.is_match(name),
            Self::Or(clauses) => clauses.iter().any(|clause| clause.is_match(name)),
            Self::And(clauses) => clauses.iter().all(|clause| clause.is_match(name)),
        }
    }

    /// Collects the literal names in the condition.
    pub(crate) fn names<'c>(&'c self, found: &mut Vec<&'c str>) {
        match self {
            Self::Equals(name) => found.push(name),
            Self::Or(clauses) => clauses.iter().for_each(|clause| clause.names(found)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(clause: &str, name: &str) -> bool {
        serde_json::from_str::<Clause>(clause).unwrap().is_match(name)
    }

    #[test]
    fn clauses_match_names() {
        assert!(holds(r#"{"equals": "GPT-5"}"#, "gpt-5"));
        assert!(!holds(r#"{"equals": "gpt-5"}"#, "gpt-5-mini"));
        assert!(holds(r#"{"starts_with": "gpt"}"#, "GPT-5"));
        assert!(holds(r#"{"ends_with": "mini"}"#, "gpt-5-mini"));
        assert!(holds(r#"{"contains": "5"}"#, "gpt-5-mini"));
        assert!(holds(r#"{"regex": "^claude-\\d{8}$"}"#, "claude-20260101"));
        assert!(!holds(r#"{"regex": "^claude-\\d{8}$"}"#, "claude-2026"));
        assert!(!holds(r#"{"and": [{"contains": "a"}, {"not": {"contains": "b"}}]}"#, "ab"));
        assert!(holds(r#"{"or": [{"equals": "a"}, {"equals": "b"}]}"#, "b"));
    }
}
