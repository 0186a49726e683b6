//! Numbers over many records: models are bad at adding.

use serde::{Deserialize, Serialize};

use super::{Fault, Fields};

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// How many records there are; with a field, how many have a value.
    Count,
    /// The sum, exact.
    Sum,
    /// The mean.
    Avg,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
}

impl Function {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// A checked computation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// What is computed.
    pub function: Function,
    /// Of which field.
    pub field: Option<String>,
    /// Once for each value of this field.
    pub group_by: Option<String>,
}

impl Aggregate {
    /// Checks that the fields exist and allow it.
    ///
    /// # Errors
    /// A [`Fault`] that says what the function needs.
    pub fn new(
        function: Function,
        field: Option<String>,
        group_by: Option<String>,
        fields: &Fields,
    ) -> Result<Self, Fault> {
        let name = function.as_str();
        let kind = field.as_deref().map(|field| fields.named(field)).transpose()?.map(|field| field.kind);
        let field_name = field.as_deref().unwrap_or_default();
        match (function, kind) {
            (Function::Count, _) => {}
            (_, None) => return Err(Fault::of("", format!("`{name}` needs a field"))),
            (Function::Sum | Function::Avg, Some(kind)) if !kind.is_number() => {
                let reason = format!("has the type {}; `{name}` needs a number or an integer", kind.as_str());
                return Err(Fault::of(field_name, reason));
            }
            (_, Some(kind)) if !kind.is_ordered() => {
                return Err(Fault::of(
                    field_name,
                    format!("has the type {}, which has no `{name}`", kind.as_str()),
                ));
            }
            _ => {}
        }
        if let Some(group) = &group_by {
            fields.named(group)?;
        }
        Ok(Self { function, field, group_by })
    }
}
