//! Costs as clients see them: decimals as text, in US dollars.

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// What model calls cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// What is known of it; null when nothing is, which is not 0.
    #[serde(default)]
    cost: Option<Decimal>,
    /// Model calls whose cost nobody knows.
    #[serde(default)]
    unpriced_calls: i32,
}

impl From<houston_store::cost::Cost> for Cost {
    fn from(cost: houston_store::cost::Cost) -> Self {
        Self { cost: cost.known.map(|known| known.normalize()), unpriced_calls: cost.unpriced_calls }
    }
}
