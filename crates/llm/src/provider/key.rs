//! Where a key comes from.

use std::fs::File;
use std::io::Read as _;

use houston_domain::model::{ModelError, ModelErrorCode};

use super::{Choice, Lookup, Provider};
use crate::secret::Secret;

/// Longest file taken for a key, in bytes: a signed token has some thousands.
const LONGEST: u64 = 64 << 10;

/// The first key found: the choice's own, the variable it names, then those of the row. Beside each variable,
/// `<VARIABLE>_FILE` may name a file that holds the key, as Docker's secrets do.
///
/// # Errors
/// `PROVIDER_NOT_CONFIGURED` when a file that was named cannot be read.
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

/// Why there is none: where it was looked for, and what to do.
pub(super) fn missing(row: &Provider, choice: &Choice) -> ModelError {
    let variables: Vec<&str> = variables(row, choice).collect();
    let first = variables.first().copied().unwrap_or_default();
    let mut places: Vec<String> =
        variables.iter().flat_map(|name| [(*name).to_owned(), format!("{name}_FILE")]).collect();
    places.push(format!("providers.{}.key in jobs/providers.toml", row.name));
    if !row.key_hint.is_empty() {
        places.push(row.key_hint.to_owned());
    }
    not_configured(format!(
        "{} needs a key: set {first} (or choose another model with HOUSTON_MODEL=provider/model). Looked for in: {}",
        row.name,
        places.join(", ")
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
        not_configured(format!("{}: {name} names `{}`, which holds no key: {why}", row.name, path.trim()))
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
