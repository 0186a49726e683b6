//! Arguments of tools: how they are parsed and checked, with errors that tell the model how to correct the call.

use std::fmt::Display;

use houston_domain::ensure;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::{Error, FolderError};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Invalid arguments. The model reads the text and can correct the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidInput(pub String);

impl From<InvalidInput> for ToolResponse {
    fn from(invalid: InvalidInput) -> Self {
        Self::failure(ToolErrorCode::ValidationError, invalid.0)
    }
}

/// Parses the arguments as `T`, which should refuse unknown fields.
///
/// # Errors
/// [`InvalidInput`] with the tool, the error and what is allowed.
pub fn read<T: DeserializeOwned>(tool: &str, input: &Value) -> Result<T, InvalidInput> {
    serde_json::from_value(input.clone()).map_err(|error| InvalidInput(format!("{tool}: {error}")))
}

/// Why a call is not carried out.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The arguments are wrong, and why. A plan puts the name of the tool before the reason; a call in a transaction does
    /// not.
    Invalid(String),
    /// With this response.
    Answer(ToolResponse),
    /// The store failed: that ends the attempt at the step.
    Store(Error),
}

impl From<Error> for Refusal {
    /// What the model can do something about is a response. When there is the maximum number, it may delete one and try again.
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Full { .. } | Error::TooLarge { .. } | Error::Folder(FolderError::TooMany) => {
                ToolErrorCode::RateLimited
            }
            Error::Exists { .. } | Error::Folder(FolderError::Obstacle(_)) => ToolErrorCode::ValidationError,
            Error::Folder(FolderError::Busy | FolderError::Io(_)) => ToolErrorCode::IoError,
            _ => return Self::Store(error),
        };
        failed(code, error.to_string())
    }
}

/// A refusal of arguments: what is wrong, and what is allowed.
pub(crate) fn invalid(reason: impl Display) -> Refusal {
    Refusal::Invalid(reason.to_string())
}

/// A refusal with this response, which may say what to do instead.
pub(crate) fn failed(code: ToolErrorCode, text: impl Into<String>) -> Refusal {
    Refusal::Answer(ToolResponse::failure(code, text))
}

/// Checks a text, if there is one: it must not be blank and may have at most `max` bytes.
pub(crate) fn text<'v>(field: &str, value: impl Into<Option<&'v str>>, max: usize) -> Result<(), Refusal> {
    let Some(value) = value.into() else { return Ok(()) };
    ensure!(!value.trim().is_empty(), invalid(format!("`{field}` must not be empty")));
    match value.len() {
        length if length > max => {
            Err(invalid(format!("`{field}` has {length} bytes; at most {max} are allowed")))
        }
        _ => Ok(()),
    }
}

/// Checks a text, if there is one, that must be one line of at most `max` characters.
pub(crate) fn line<'v>(field: &str, value: impl Into<Option<&'v str>>, max: usize) -> Result<(), Refusal> {
    let Some(value) = value.into() else { return Ok(()) };
    text(field, value, usize::MAX)?;
    let length = value.chars().count();
    ensure!(length <= max, invalid(format!("`{field}` has {length} characters; at most {max} are allowed")));
    if value.contains(['\n', '\r']) {
        return Err(invalid(format!("`{field}` has several lines; only one is allowed")));
    }
    Ok(())
}

/// Checks a number of items from 1 to `max`; `default` if it is absent.
pub(crate) fn limit(limit: Option<u32>, default: u32, max: u32) -> Result<u32, Refusal> {
    let limit = limit.unwrap_or(default);
    ensure!((1..=max).contains(&limit), invalid(format!("`limit` is {limit}, but must be from 1 to {max}")));
    Ok(limit)
}
