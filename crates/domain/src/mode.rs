//! Modes: what started a run that no message started.

use serde::{Deserialize, Serialize};

/// What started a run instead of a message. Such a run expects no reply: it ends when the model asks for no more tools,
/// and text without `send_message` counts as thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The user's feed is due: the agent writes feed items about what happened in all agentables of the user.
    FeedGeneration,
    /// A check-in is due: a time that the agent chose itself.
    AgentCheckIn,
    /// A trigger has fired: a time, a word or an event that was chosen before.
    Trigger,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::FeedGeneration, Self::AgentCheckIn, Self::Trigger];

    /// The name in the database, in `jobs/agents/*.toml`, and of the XML element that the model reads.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FeedGeneration => "feed_generation",
            Self::AgentCheckIn => "agent_check_in",
            Self::Trigger => "trigger",
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
    fn modes_have_one_name() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_name(mode.as_str()), Some(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert_eq!(Mode::from_name("message"), None);
    }
}
