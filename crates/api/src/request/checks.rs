//! Checks of single values in requests, and the words for values that are not allowed.

use houston_domain::ensure;
use houston_domain::storable::{MAX_LEVELS, is_shallow, is_storable};
use serde_json::{Map, Value};

use crate::error::{ApiError, Result};

const UNSTORABLE: &str = "the character U+0000 cannot be stored";

/// Checks that Postgres can store `text`: it stores every character except U+0000.
pub(crate) fn check_text(pointer: &str, text: &str) -> Result<()> {
    ensure!(!text.contains('\0'), ApiError::field(pointer, UNSTORABLE));
    Ok(())
}

/// Checks a length in bytes.
pub(crate) fn check_size(pointer: &str, bytes: usize, max_bytes: usize) -> Result<()> {
    if bytes > max_bytes {
        return Err(ApiError::field(pointer, format!("has {bytes} bytes; at most {max_bytes} are allowed")));
    }
    Ok(())
}

/// Checks that Postgres can store `text`, and its length in bytes.
pub(crate) fn check_bytes(pointer: &str, text: &str, max_bytes: usize) -> Result<()> {
    check_text(pointer, text)?;
    check_size(pointer, text.len(), max_bytes)
}

/// Checks a short text, which must not be blank.
pub(crate) fn check_line(pointer: &str, text: &str, max_chars: usize) -> Result<()> {
    check_text(pointer, text)?;
    ensure!(!text.trim().is_empty(), ApiError::field(pointer, "must not be empty"));
    if text.chars().count() > max_chars {
        return Err(ApiError::field(pointer, format!("must have at most {max_chars} characters")));
    }
    Ok(())
}

/// Checks a short text of one line, which must not be blank.
pub(crate) fn check_one_line(pointer: &str, text: &str, max_chars: usize) -> Result<()> {
    check_line(pointer, text, max_chars)?;
    if text.contains(['\n', '\r']) { Err(ApiError::field(pointer, "must be one line")) } else { Ok(()) }
}

/// Checks that Postgres can store all strings in `value`, and that it can be read again.
pub(crate) fn check_storable_value(pointer: &str, value: &Value) -> Result<()> {
    if !is_shallow(value, MAX_LEVELS) {
        let reason = format!("must have at most {MAX_LEVELS} lists and objects in each other");
        return Err(ApiError::field(pointer, reason));
    }
    if is_storable(value) { Ok(()) } else { Err(ApiError::field(pointer, UNSTORABLE)) }
}

/// Checks that Postgres can store all strings in `object`, names included.
pub(crate) fn check_storable(pointer: &str, object: &Map<String, Value>) -> Result<()> {
    object.iter().try_for_each(|(name, value)| {
        check_text(pointer, name)?;
        check_storable_value(pointer, value)
    })
}

/// The first 80 characters of a client's value, for error messages.
pub(crate) fn truncated(given: &str) -> String {
    given.chars().take(80).collect()
}

/// `; did you mean …?` with the allowed name most similar to `given`; empty if none is similar.
pub(crate) fn suggestion(given: &str, allowed: &[&str]) -> String {
    /// Minimum Jaro-Winkler similarity, from 0 to 1.
    const MIN_SIMILARITY: f64 = 0.7;
    // Comparing takes time proportional to both lengths.
    let given = truncated(given);
    let rated = allowed.iter().map(|&name| (strsim::jaro_winkler(name, &given), name));
    rated
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}
