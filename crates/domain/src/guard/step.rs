//! The steps of a decision.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The steps of a decision, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The tool exists.
    Tool,
    /// The agent's reply always passes.
    Reply,
    /// The tool's definition is the approved one.
    Pin,
    /// The model has said what the call is for.
    Intent,
    /// The tool is not switched off.
    Denied,
    /// The tool is excepted from the next two steps.
    Allowed,
    /// The layer's level is at least the tool's.
    Level,
    /// The layer permits the tool's category.
    Category,
    /// Paths are within the workspace and among the layer's.
    Path,
    /// Paths that may hold secrets.
    Sensitive,
    /// Hosts are among the layer's.
    Host,
    /// The layer's rules.
    Rule,
    /// What the layer says of the risk.
    Profile,
    /// The number of calls in the last minute.
    Rate,
    /// The tool asks a person each time.
    EachTime,
    /// How far the agent goes without asking.
    Autonomy,
    /// Who has read private data asks before opening an address that the user did not write: it can carry the data away.
    Address,
    /// Who has read what strangers wrote and private data sends nothing out without a yes.
    RuleOfTwo,
    /// The lasting yes of a person.
    Grant,
    /// Whether a person takes part.
    Unattended,
}

impl Step {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Reply => "reply",
            Self::Pin => "pin",
            Self::Intent => "intent",
            Self::Denied => "denied",
            Self::Allowed => "allowed",
            Self::Level => "level",
            Self::Category => "category",
            Self::Path => "path",
            Self::Sensitive => "sensitive",
            Self::Host => "host",
            Self::Rule => "rule",
            Self::Profile => "profile",
            Self::Rate => "rate",
            Self::EachTime => "each_time",
            Self::Autonomy => "autonomy",
            Self::Address => "address",
            Self::RuleOfTwo => "rule_of_two",
            Self::Grant => "grant",
            Self::Unattended => "unattended",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
