//! What runs took.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// What some runs took.
///
/// ```json
/// {"runs": 3, "model_calls": 7, "input_tokens": 9000, "output_tokens": 400, "cache_read_tokens": 6000, "cost": "0.0123",
///  "unpriced_calls": 0}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Spent {
    /// Runs that have ended.
    pub runs: i64,
    pub model_calls: i64,
    /// Tokens sent, with those that were read from the cache.
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cache_read_tokens: i64,
    /// Cost in US dollars of the calls with a price; null if none has one, which is not 0.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// Model calls whose cost is unknown.
    pub unpriced_calls: i64,
}
