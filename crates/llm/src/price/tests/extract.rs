//! Reads the usage from a provider's answer by the package's description of the API. For tests only: production code
//! uses the decoders of the wires, and is compared with this.

use std::str::FromStr;

use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::Value;

use crate::price::Counts;
use crate::price::table::{Clause, table};

/// Where one flavour of a provider's API reports usage.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Extractor {
    pub(crate) flavour: Box<str>,
    root: Vec<PathStep>,
    model: Vec<PathStep>,
    counts: Vec<Count>,
}

#[derive(Debug, Clone, Deserialize)]
struct Count {
    path: Vec<PathStep>,
    /// Unit being counted; counts of several paths with the same unit are added.
    unit: Box<str>,
    #[serde(default)]
    required: bool,
}

/// One step of a path into an answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum PathStep {
    Key(Box<str>),
    /// The first item of an array whose `field` matches.
    Item {
        field: Box<str>,
        #[serde(rename = "match")]
        matches: Clause,
    },
}

/// Usage read from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extracted {
    /// The model that answered, if the answer names it.
    pub(crate) model: Option<String>,
    /// Counts by unit.
    pub(crate) counts: Counts,
}

/// Why usage cannot be read from an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExtractError {
    /// The price list has no such provider.
    #[error("the price list has no provider `{0}`")]
    UnknownProvider(String),
    /// The provider has no such API flavour.
    #[error("{provider} has no API flavour `{flavour}`; known: {known}")]
    UnknownFlavour {
        /// The provider's id.
        provider: String,
        /// The requested flavour.
        flavour: String,
        /// The available flavours, separated by commas.
        known: String,
    },
    /// A required count is missing or not a number.
    #[error("the answer has no count at `{0}`")]
    Missing(String),
    /// A negative or non-numeric count.
    #[error("the count at `{0}` is not a number of at least 0")]
    Invalid(String),
}

/// Reads the usage from a complete answer. `flavour` is the API of the provider that sent it: `default`, `chat`,
/// `responses`, …
///
/// # Errors
/// An [`ExtractError`] when the provider or flavour is unknown, or the answer has no usage.
pub(crate) fn extract(provider: &str, flavour: &str, body: &Value) -> Result<Extracted, ExtractError> {
    let found =
        table().provider(provider).ok_or_else(|| ExtractError::UnknownProvider(provider.to_owned()))?;
    let extractors = &found.models().extractors;
    let Some(extractor) = extractors.iter().find(|extractor| &*extractor.flavour == flavour) else {
        let known: Vec<&str> = extractors.iter().map(|extractor| &*extractor.flavour).collect();
        let (provider, flavour) = (found.id.to_string(), flavour.to_owned());
        return Err(ExtractError::UnknownFlavour { provider, flavour, known: known.join(", ") });
    };
    extractor.extract(body)
}

impl Extractor {
    /// Reads the usage from a complete answer.
    pub(crate) fn extract(&self, body: &Value) -> Result<Extracted, ExtractError> {
        let model = at(&self.model, body).and_then(Value::as_str).map(str::to_owned);
        let root = at(&self.root, body).filter(|root| root.is_object());
        let root = root.ok_or_else(|| ExtractError::Missing(display_path(&self.root)))?;
        let mut counts = Counts::default();
        for count in &self.counts {
            match at(&count.path, root) {
                Some(Value::Number(number)) => {
                    let invalid = || ExtractError::Invalid(self.display_path(count));
                    *counts.entry(count.unit.clone()).or_default() += decimal(number).ok_or_else(invalid)?;
                }
                Some(Value::Bool(_)) => return Err(ExtractError::Invalid(self.display_path(count))),
                _ if count.required => return Err(ExtractError::Missing(self.display_path(count))),
                _ => {}
            }
        }
        if counts.is_empty() && !self.counts.is_empty() {
            return Err(ExtractError::Missing(display_path(&self.root)));
        }
        Ok(Extracted { model, counts })
    }

    fn display_path(&self, count: &Count) -> String {
        format!("{}.{}", display_path(&self.root), display_path(&count.path))
    }
}

/// Converts a count exactly; `None` for negative numbers.
fn decimal(number: &serde_json::Number) -> Option<Decimal> {
    let text = number.to_string();
    let decimal = Decimal::from_str(&text).or_else(|_| Decimal::from_scientific(&text)).ok()?;
    (!decimal.is_sign_negative() || decimal.is_zero()).then_some(decimal)
}

fn at<'v>(path: &[PathStep], value: &'v Value) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        PathStep::Key(key) => value.as_object()?.get(&**key),
        PathStep::Item { field, matches } => value.as_array()?.iter().find(|item| {
            item.get(&**field)
                .and_then(Value::as_str)
                .is_some_and(|text| !text.is_empty() && matches.is_match(text))
        }),
    })
}

fn display_path(path: &[PathStep]) -> String {
    let steps = path.iter().map(|step| match step {
        PathStep::Key(key) => &**key,
        PathStep::Item { field, .. } => &**field,
    });
    steps.collect::<Vec<_>>().join(".")
}
