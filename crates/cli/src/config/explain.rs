//! Turns errors of figment into one line for a person.

use figment::error::Kind;

use super::ConfigError;

/// The error as a setting, its origin and the reason.
pub(super) fn explain(error: figment::Error) -> ConfigError {
    let key = error.path.join(".");
    let origin = origin_of(&error.metadata, &key);
    let may_be_secret = ["providers", "cells"]
        .iter()
        .any(|secret| key.starts_with(secret) || origin.contains(&format!("{secret}.toml")));
    let unknown = |what: &str, given: &str, allowed: &[&str]| {
        let like =
            nearest(given, allowed).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
        format!("there is no {what} `{given}`; there are: {}{like}", allowed.join(", "))
    };
    let reason = match &error.kind {
        Kind::UnknownField(given, allowed) => unknown("key", given, allowed),
        other if may_be_secret => without_value(other),
        Kind::UnknownVariant(given, allowed) => unknown("value", given, allowed),
        other => other.to_string(),
    };
    let key = if key.is_empty() { "settings".to_owned() } else { key };
    ConfigError::Setting { key, origin, reason }
}

/// The error of a provider's setting, without the value: it may be an API key in the wrong field.
fn without_value(kind: &Kind) -> String {
    match kind {
        Kind::InvalidType(_, expected) => {
            format!("the value (hidden) has the wrong type, expected {expected}")
        }
        Kind::InvalidValue(_, expected) => {
            format!("the value (hidden) is invalid, expected {expected}")
        }
        Kind::UnknownVariant(_, allowed) => {
            format!("the value (hidden) is invalid, allowed are {}", allowed.join(", "))
        }
        Kind::ISizeOutOfRange(_) | Kind::USizeOutOfRange(_) => {
            "the number (hidden) is out of range".to_owned()
        }
        // The TOML parser quotes the line with the error: only its position and the error are kept.
        Kind::Message(message) if message.contains("TOML parse error") => {
            let position = message.lines().next().unwrap_or_default();
            let fault = message.lines().last().unwrap_or_default();
            format!("{position}: {fault} (the line is hidden: it may contain a key)")
        }
        other => other.to_string(),
    }
}

/// The word most similar to `given`, if one differs in at most a third of its letters.
pub(crate) fn nearest<'w>(given: &str, words: &[&'w str]) -> Option<&'w str> {
    let typos = |word: &str| match given.chars().count() {
        3.. if word.starts_with(given) => 1,
        _ => strsim::damerau_levenshtein(&word.to_lowercase(), &given.to_lowercase()),
    };
    let length = given.chars().count();
    // Of two equally similar words, the one of similar length: `agents` for `agent`, not `agent_check_in`.
    let rated = words.iter().map(|&word| (typos(word), word.chars().count().abs_diff(length), word));
    let (typos, _, word) = rated.min_by_key(|(typos, longer, _)| (*typos, *longer))?;
    // One typo in three letters: `foo` is not similar to `google`.
    let longest = length.max(word.chars().count());
    let most = match given.rsplit_once('.') {
        // A file name with the right stem is similar, whatever its extension.
        Some((stem, _)) if word.split_once('.').is_some_and(|(known, _)| known == stem) => usize::MAX,
        _ => longest / 3,
    };
    (typos <= most).then_some(word)
}

/// The file or variable that `key` comes from.
pub(super) fn origin_of(metadata: &Option<figment::Metadata>, key: &str) -> String {
    match metadata {
        Some(metadata) if metadata.name.contains("environment") => variable(key),
        Some(metadata) => metadata.name.to_string(),
        None => "not set".to_owned(),
    }
}

fn variable(key: &str) -> String {
    format!("HOUSTON_{}", key.replace('.', "__").to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_words_are_suggested() {
        let words = ["google", "anthropic", "mixtral-8x7b-32768", "server.toml", "send_message", "agents"];
        for (given, expected) in [
            ("foo", None),
            ("x", None),
            ("", None),
            ("fly", None),
            ("antropic", Some("anthropic")),
            ("Google", Some("google")),
            ("gogle", Some("google")),
            ("agent", Some("agents")),
            ("anthro", Some("anthropic")),
            ("server.yaml", Some("server.toml")),
            ("sendmessage", Some("send_message")),
        ] {
            assert_eq!(nearest(given, &words), expected, "{given}");
        }
    }
}
