//! Capabilities: what tools enable an agent to do, as its prompt describes it.

use serde::{Deserialize, Serialize};

/// What a tool enables an agent to do. A tool without a capability is listed by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Talking with its user.
    Messages,
    /// Writing notes.
    Notes,
    /// Remembering what it learned about its goal.
    Learnings,
    /// Remembering what it learned about its user, and reading their profile.
    Memory,
    /// Putting items into its user's feed.
    Feed,
    /// Searching earlier sessions.
    History,
    /// Reading the other conversations of its user, and posting to them.
    Conversations,
    /// Creating tasks for other agents.
    SubAgents,
    /// Waking up at a time it chose.
    Scheduling,
    /// Reading and writing files.
    Files,
    /// Fetching web pages.
    Web,
    /// Running code.
    Code,
    /// Keeping code for later.
    Snippets,
    /// Calculating with numbers and units.
    Calculation,
    /// Reading skills.
    Skills,
    /// Reading the current time.
    Time,
    /// Keeping the todos of its user.
    Todos,
    /// Keeping records in tables of its user.
    Tables,
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
            Self::Conversations => "conversations",
            Self::SubAgents => "sub_agents",
            Self::Scheduling => "scheduling",
            Self::Files => "files",
            Self::Web => "web",
            Self::Code => "code",
            Self::Snippets => "snippets",
            Self::Calculation => "calculation",
            Self::Skills => "skills",
            Self::Time => "time",
            Self::Todos => "todos",
            Self::Tables => "tables",
        }
    }

    /// The phrase in the prompt, after "you can".
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Messages => "send messages to your user",
            Self::Notes => "keep notes",
            Self::Learnings => "remember what you learn here",
            Self::Memory => "know and remember your user",
            Self::Feed => "put items into your user's feed",
            Self::History => "look into earlier sessions",
            Self::Conversations => {
                "look into your user's other conversations, begin new ones and post to their agents"
            }
            Self::SubAgents => "give tasks to agents of your own",
            Self::Scheduling => "wake up at times you choose",
            Self::Files => "read and write files of your workspace",
            Self::Web => "fetch from the web",
            Self::Code => "run code",
            Self::Snippets => "keep code for later and run it",
            Self::Calculation => "do arithmetic with units",
            Self::Skills => "follow skills, instructions for kinds of tasks",
            Self::Time => "tell the time",
            Self::Todos => "keep your user's todos",
            Self::Tables => "keep records in tables, search and add them up",
        }
    }
}
