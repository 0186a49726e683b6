//! Patterns of models: `provider/model`, in which `*` stands for any characters.

use serde::{Deserialize, Deserializer};

/// A pattern. `*` alone fits every model. That of the model is compared with the whole name and with what follows its last
/// slash, since gateways put the publisher before it; case is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    provider: String,
    model: String,
}

impl Pattern {
    /// Parses a pattern; `None` when it has no slash and is not `*`.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let (provider, model) = if text == "*" { ("*", "*") } else { text.split_once('/')? };
        let is_empty = provider.is_empty() || model.is_empty();
        (!is_empty).then(|| Self { provider: provider.to_lowercase(), model: model.to_lowercase() })
    }

    /// Whether it fits a model, whose name is in lower case.
    pub(crate) fn is_match(&self, provider: &str, model: &str) -> bool {
        let published = model.rsplit('/').next().unwrap_or(model);
        is_match(&self.provider, provider)
            && (is_match(&self.model, model) || is_match(&self.model, published))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not `provider/model`")))
    }
}

fn is_match(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        // The first place is the best one: what follows has the most room.
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text, expected) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5-mini", false),
            ("gpt-5*", "gpt-5", true),
            ("*-pro", "gpt-5-pro", true),
            ("*-pro", "gpt-5-pro-2025", false),
            ("*claude-*-5*", "us.claude-opus-5-5", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
        let fits = |pattern: &str| Pattern::new(pattern).unwrap().is_match("github", "openai/gpt-5-mini");
        assert!(fits("*") && fits("github/gpt-5*") && fits("GitHub/OpenAI/*") && !fits("openai/gpt-5*"));
        assert!(Pattern::new("gpt-5").is_none() && Pattern::new("/x").is_none());
    }
}
