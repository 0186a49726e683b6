//! Rulings: the three words that settings decide with.

use serde::{Deserialize, Serialize};

/// What a rule or a profile says of a call. The order is the strictness: the strictest one decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The call is carried out.
    Allow,
    /// A person is asked.
    Ask,
    /// The call is refused.
    Deny,
}

impl Ruling {
    /// The name in settings and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}
