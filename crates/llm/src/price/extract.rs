//! Reads what a call used out of a provider's own answer by the package's description of it, whatever its shape. For
//! tests alone: production reads it with the wires' decoders, and is compared with this.

use std::str::FromStr;

use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::Value;

use crate::price::clause::Clause;
use crate::price::table::table;
use crate::price::unit::{Counts, PriceError};

/// How one flavour of a provider's API says what was used.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Extractor {
    pub(crate) flavour: Box<str>,
    root: Vec<Place>,
    model: Vec<Place>,
    counts: Vec<Count>,
}

#[derive(Debug, Clone, Deserialize)]
struct Count {
    path: Vec<Place>,
    /// Which unit is counted; several paths to one are added up.
    unit: Box<str>,
    #[serde(default)]
    required: bool,
}

/// One step down into an answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Place {
    Key(Box<str>),
    /// The first item of a list whose `field` is right.
    Item {
        field: Box<str>,
        #[serde(rename = "match")]
        matches: Clause,
    },
}

/// What a provider's answer says of its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extracted {
    /// The model that answered, if it is named.
    pub(crate) model: Option<String>,
    /// What it used.
    pub(crate) counts: Counts,
}

/// Why an answer says nothing of its use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExtractError {
    /// The table knows no such provider.
    #[error("nothing is known of the answers of a provider called `{0}`")]
    UnknownProvider(String),
    /// The provider has no such flavour.
    #[error("{provider} has no API flavour `{flavour}`; known: {known}")]
    UnknownFlavour {
        /// Of which provider.
        provider: String,
        /// What was asked for.
        flavour: String,
        /// What there is, separated by commas.
        known: String,
    },
    /// Something that must be there is not, or is no count.
    #[error("the answer has no count at `{0}`")]
    Missing(String),
    /// A count that cannot be.
    #[error("the count at `{0}` is no number from 0 up")]
    Invalid(String),
    /// Counts that cannot be added.
    #[error(transparent)]
    Counts(#[from] PriceError),
}

/// Reads what a call used out of the provider's own answer, a whole one as JSON. `flavour` says which of the
/// provider's APIs it came from: `default`, `chat`, `responses`, …
///
/// # Errors
/// An [`ExtractError`] when the provider or its flavour is unknown, or the answer says nothing of its use.
pub(crate) fn extract(provider: &str, flavour: &str, body: &Value) -> Result<Extracted, ExtractError> {
    let found =
        table().provider(provider).ok_or_else(|| ExtractError::UnknownProvider(provider.to_owned()))?;
    let extractors = &found.models().extractors;
    let Some(extractor) = extractors.iter().find(|extractor| &*extractor.flavour == flavour) else {
        let known: Vec<&str> = extractors.iter().map(|extractor| &*extractor.flavour).collect();
        let (provider, flavour) = (found.id().to_owned(), flavour.to_owned());
        return Err(ExtractError::UnknownFlavour { provider, flavour, known: known.join(", ") });
    };
    extractor.extract(body)
}

impl Extractor {
    /// Reads `body`, a whole answer as JSON.
    pub(crate) fn extract(&self, body: &Value) -> Result<Extracted, ExtractError> {
        let model = at(&self.model, body).and_then(Value::as_str).map(str::to_owned);
        let root = at(&self.root, body).filter(|root| root.is_object());
        let root = root.ok_or_else(|| ExtractError::Missing(shown(&self.root)))?;
        let mut counts = Counts::default();
        for count in &self.counts {
            match at(&count.path, root) {
                Some(Value::Number(number)) => {
                    let invalid = || ExtractError::Invalid(self.shown(count));
                    counts.add(&count.unit, decimal(number).ok_or_else(invalid)?)?;
                }
                Some(Value::Bool(_)) => return Err(ExtractError::Invalid(self.shown(count))),
                _ if count.required => return Err(ExtractError::Missing(self.shown(count))),
                _ => {}
            }
        }
        if counts.is_empty() && !self.counts.is_empty() {
            return Err(ExtractError::Missing(shown(&self.root)));
        }
        Ok(Extracted { model, counts })
    }

    fn shown(&self, count: &Count) -> String {
        format!("{}.{}", shown(&self.root), shown(&count.path))
    }
}

/// A number of an answer that may be a count, to the last digit that was written.
fn decimal(number: &serde_json::Number) -> Option<Decimal> {
    let text = number.to_string();
    let decimal = Decimal::from_str(&text).or_else(|_| Decimal::from_scientific(&text)).ok()?;
    (!decimal.is_sign_negative() || decimal.is_zero()).then_some(decimal)
}

fn at<'v>(path: &[Place], value: &'v Value) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, place| match place {
        Place::Key(key) => value.as_object()?.get(&**key),
        Place::Item { field, matches } => value.as_array()?.iter().find(|item| {
            item.get(&**field)
                .and_then(Value::as_str)
                .is_some_and(|text| !text.is_empty() && matches.holds(text))
        }),
    })
}

fn shown(path: &[Place]) -> String {
    let steps = path.iter().map(|place| match place {
        Place::Key(key) => &**key,
        Place::Item { field, .. } => &**field,
    });
    steps.collect::<Vec<_>>().join(".")
}
