//! When an agent makes plans.

use serde::{Deserialize, Serialize};

/// When an agent that may make plans makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Planning {
    /// When it wants to.
    #[default]
    Offer,
    /// For each message: a run begins with a plan.
    Force,
}

impl Planning {
    pub(super) fn is_offer(&self) -> bool {
        *self == Self::Offer
    }
}
