//! Modes: why a run was opened, when nobody's message did.

use serde::{Deserialize, Serialize};

/// What opened a run instead of a message. Nobody waits for its answer: it ends when the model has no more calls,
/// and what it says to nobody is thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The user's feed is due: what happened in all that agents do for them becomes feed items.
    FeedGeneration,
    /// A time has come that the agent chose itself.
    AgentCheckIn,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::FeedGeneration, Self::AgentCheckIn];

    /// The name in the database, in the kinds' files, and of the element a model reads.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FeedGeneration => "feed_generation",
            Self::AgentCheckIn => "agent_check_in",
        }
    }

    /// Parses the name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_one_name_everywhere() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_name(mode.as_str()), Some(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert_eq!(Mode::from_name("message"), None);
    }
}
