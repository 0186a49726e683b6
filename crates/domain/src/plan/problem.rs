//! What is wrong with a document, and where.

use std::fmt;

/// Something wrong in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer to the value.
    pub pointer: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl Problem {
    pub(super) fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The pointer of the whole document is empty.
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            pointer => write!(f, "{pointer}: {}", self.message),
        }
    }
}

/// A name that does not exist, those that do, and the most similar one.
pub(super) fn unknown(what: &str, given: &str, existing: &[&str]) -> String {
    let given: String = given.chars().take(64).collect();
    let rated = existing.iter().map(|name| (strsim::damerau_levenshtein(&given, name), *name));
    let near =
        rated.min().filter(|(typos, name)| *typos <= name.chars().count().max(given.chars().count()) / 3);
    let like = near.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default();
    let list = if existing.is_empty() { "none".to_owned() } else { existing.join(", ") };
    format!("there is no {what} `{given}`; there are: {list}{like}")
}
