//! [`ConfigError`]: what is wrong with the settings. [`Error`]: what is wrong with one value, as a line for a person: its key,
//! its origin, and what is allowed.

use std::fmt::Display;
use std::path::Path;

use serde::de::{Expected, Unexpected};

use super::layers::Origin;

/// Sections whose values may be secrets: an API key in the wrong field, an address with a password.
const SECRET: [&str; 2] = ["providers", "cells"];

/// What is wrong with the settings, for a person: the key and its origin or the file, and what is allowed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ConfigError(String);

/// The result of reading settings.
pub(crate) type Result<T, E = ConfigError> = std::result::Result<T, E>;

impl ConfigError {
    pub(super) fn new(text: impl ToString) -> Self {
        Self(text.to_string())
    }

    /// Of a key or value of `jobs/*.toml` or of the environment, as `orchestrator.limits.max_iterations`.
    pub(super) fn setting(key: &str, origin: &str, reason: impl Display) -> Self {
        Self::new(format!("{key} ({origin}): {reason}"))
    }

    /// Of a file, or of a folder with skills.
    pub(super) fn file(path: &Path, reason: impl Display) -> Self {
        Self::new(format!("{}: {reason}", path.display()))
    }

    /// Of a file or folder that looks like a setting, but is never read. `like`: `; did you mean …?` with the most similar name,
    /// or empty.
    pub(super) fn unknown_file(path: &Path, allowed: &str, like: &str) -> Self {
        Self::file(path, format!("not a file of settings; allowed are: {allowed}{like}"))
    }

    /// Of a folder that cannot be read.
    pub(super) fn folder(path: &Path, error: impl Display) -> Self {
        let help = "--jobs (HOUSTON_JOBS) takes a folder with files like orchestrator.toml";
        Self::file(path, format!("{error}; {help}"))
    }
}

/// What is wrong with a value.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.reason)]
pub(super) struct Error(Box<Fault>);

#[derive(Debug)]
struct Fault {
    /// The key, from its last part to its first.
    parts: Vec<String>,
    origin: Option<Origin>,
    reason: String,
    /// The reason without the value.
    hidden: String,
}

impl Error {
    fn new(reason: String, hidden: String) -> Self {
        Self(Box::new(Fault { parts: Vec::new(), origin: None, reason, hidden }))
    }

    /// The parser quotes the line with the error: if it may be secret, only its position and the error are kept.
    pub(super) fn of_file(error: &toml::de::Error, origin: Origin) -> Self {
        let reason = error.to_string();
        let position = reason.lines().next().unwrap_or_default();
        let fault = match error.message() {
            // The one type that a value can lack; the message has the number.
            message if message.starts_with("invalid type") => "the number is too large",
            message => message,
        };
        let hidden = format!("{position}: {fault} (the line is hidden: it may contain a key)");
        let mut error = Self::new(reason, hidden);
        error.0.origin = Some(origin);
        error
    }

    /// The same error, of a value that is at `part` of a table or list.
    pub(super) fn within(mut self, part: &str, origin: &Origin) -> Self {
        self.0.parts.push(part.to_owned());
        self.0.origin.get_or_insert_with(|| origin.clone());
        self
    }
}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        let message = message.to_string();
        Self::new(message.clone(), message)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(
            format!("invalid type: found {}, expected {expected}", text_of(found)),
            format!("the value (hidden) has the wrong type, expected {expected}"),
        )
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(
            format!("invalid value {}, expected {expected}", text_of(found)),
            format!("the value (hidden) is invalid, expected {expected}"),
        )
    }

    fn unknown_variant(variant: &str, allowed: &'static [&'static str]) -> Self {
        let hidden = format!("the value (hidden) is invalid, allowed are {}", allowed.join(", "));
        Self::new(unknown("value", variant, allowed), hidden)
    }

    fn unknown_field(field: &str, allowed: &'static [&'static str]) -> Self {
        Self::custom(unknown("key", field, allowed))
    }
}

fn text_of(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("bool {value}"),
        Unexpected::Unsigned(value) => format!("unsigned int `{value}`"),
        Unexpected::Signed(value) => format!("signed int `{value}`"),
        Unexpected::Float(value) => format!("float `{value}`"),
        other => other.to_string(),
    }
}

impl From<Error> for ConfigError {
    fn from(Error(fault): Error) -> Self {
        let Fault { mut parts, origin, reason, hidden } = *fault;
        parts.reverse();
        let key = parts.join(".");
        let origin = origin.map_or_else(|| "not set".to_owned(), |origin| origin.of(&key));
        let is_secret = SECRET
            .iter()
            .any(|section| key.starts_with(section) || origin.contains(&format!("{section}.toml")));
        let key = if key.is_empty() { "settings".to_owned() } else { key };
        Self::setting(&key, &origin, if is_secret { hidden } else { reason })
    }
}

/// That there is no such thing, and which there are.
pub(super) fn unknown(what: &str, given: &str, allowed: &[&str]) -> String {
    format!("there is no {what} `{given}`; there are: {}{}", allowed.join(", "), like(given, allowed))
}

/// `; did you mean …?` with the most similar word, or empty.
pub(crate) fn like(given: &str, words: &[&str]) -> String {
    nearest(given, words).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

/// The word most similar to `given`, if one differs in at most a third of its letters.
fn nearest<'w>(given: &str, words: &[&'w str]) -> Option<&'w str> {
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
