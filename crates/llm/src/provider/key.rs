//! Finds the API key of a provider.

use std::fs::File;
use std::io::Read as _;

use houston_domain::model::{ModelError, ModelErrorCode};

use super::{Choice, Lookup, Provider};
use crate::secret::Secret;

/// Longest key file read, in bytes: a signed token has a few thousand.
const LONGEST: u64 = 64 << 10;

/// Finds the first key: the one in `choice`, the variable it names, then the variables of the row. For each variable,
/// `<VARIABLE>_FILE` may contain the path of a file with the key, as with Docker secrets.
///
/// # Errors
/// `PROVIDER_NOT_CONFIGURED` when a key file cannot be read or is empty.
pub(super) fn find(
    row: &Provider,
    choice: &Choice,
    lookup: Lookup<'_>,
) -> Result<Option<Secret>, ModelError> {
    if let Some(key) = choice.key.as_ref().filter(|key| !key.is_empty()) {
        return Ok(Some(key.clone()));
    }
    for variable in variables(row, choice) {
        if let Some(key) = in_variable(row, variable, lookup)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// The error for a missing key: what to set, and where it was looked for.
pub(super) fn missing(row: &Provider, choice: &Choice) -> ModelError {
    let variables: Vec<&str> = variables(row, choice).collect();
    let first = variables.first().copied().unwrap_or_default();
    let mut sources: Vec<String> =
        variables.iter().flat_map(|name| [(*name).to_owned(), format!("{name}_FILE")]).collect();
    sources.push(format!("providers.{}.key in jobs/providers.toml", row.name));
    if !row.key_hint.is_empty() {
        sources.push(row.key_hint.to_owned());
    }
    not_configured(format!(
        "{} needs a key: set {first} (or choose another model with HOUSTON_MODEL=provider/model). Looked in: {}",
        row.name,
        sources.join(", ")
    ))
}

fn variables<'a>(row: &Provider, choice: &'a Choice) -> impl Iterator<Item = &'a str> {
    choice.key_variable.as_deref().into_iter().chain(row.key_variables.iter().copied())
}

fn in_variable(row: &Provider, variable: &str, lookup: Lookup<'_>) -> Result<Option<Secret>, ModelError> {
    if let Some(key) = lookup(variable).map(|key| Secret::new(&key)).filter(|key| !key.is_empty()) {
        return Ok(Some(key));
    }
    let name = format!("{variable}_FILE");
    let Some(path) = lookup(&name).filter(|path| !path.trim().is_empty()) else { return Ok(None) };
    let refuse = |why: &dyn std::fmt::Display| {
        not_configured(format!(
            "{}: {name} names `{}`, which contains no usable key: {why}",
            row.name,
            path.trim()
        ))
    };
    let mut text = String::new();
    let read = File::open(path.trim()).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    read.map_err(|error| refuse(&error))?;
    let key = Secret::new(&text);
    if key.is_empty() { Err(refuse(&"it is empty")) } else { Ok(Some(key)) }
}

pub(super) fn not_configured(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorCode::ProviderNotConfigured, message)
}
