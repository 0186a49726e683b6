//! What tools enable an agent to do, as its prompt says it.

use serde::{Deserialize, Serialize};

/// What a tool enables an agent to do. A tool that says nothing is listed by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Talking with its user.
    Messages,
    /// Keeping notes.
    Notes,
    /// Remembering what it learnt about its aim.
    Learnings,
    /// Remembering what it learnt about its user, and reading what they said of themselves.
    Memory,
    /// Putting something before its user without being asked.
    Feed,
    /// Looking into what was said in earlier sessions.
    History,
    /// Giving work to agents of its own.
    SubAgents,
    /// Waking up at a time it chose.
    Scheduling,
    /// Reading and writing files.
    Files,
    /// Fetching from the web.
    Web,
    /// Running code.
    Code,
    /// Knowing the time.
    Time,
}

impl Capability {
    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Notes => "notes",
            Self::Learnings => "learnings",
            Self::Memory => "memory",
            Self::Feed => "feed",
            Self::History => "history",
            Self::SubAgents => "sub_agents",
            Self::Scheduling => "scheduling",
            Self::Files => "files",
            Self::Web => "web",
            Self::Code => "code",
            Self::Time => "time",
        }
    }

    /// What the model is told.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            Self::Messages => "send messages to your user",
            Self::Notes => "keep notes",
            Self::Learnings => "remember what you learn here",
            Self::Memory => "know and remember your user",
            Self::Feed => "put items into your user's feed",
            Self::History => "look into earlier sessions",
            Self::SubAgents => "give tasks to agents of your own",
            Self::Scheduling => "wake up at times you choose",
            Self::Files => "read and write files of your workspace",
            Self::Web => "fetch from the web",
            Self::Code => "run code",
            Self::Time => "tell the time",
        }
    }
}
