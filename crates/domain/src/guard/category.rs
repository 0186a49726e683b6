//! Categories of tools.

use serde::{Deserialize, Serialize};

/// What a tool deals with. A layer lists the categories that it permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Houston's own: messages, tasks, check-ins, the time.
    Agent,
    /// Notes, learnings, memories, the profile, the feed, earlier sessions.
    Memory,
    /// Reading files and folders.
    FileRead,
    /// Creating and changing files.
    FileWrite,
    /// Deleting files and folders.
    FileDelete,
    /// Running code in the sandbox.
    CodeExecute,
    /// Reading from the network.
    NetworkRead,
    /// Changing something over the network.
    NetworkWrite,
    /// Commands of the system.
    System,
    /// Tools of MCP servers and of programs that embed Houston, unless they state another one.
    #[default]
    Custom,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 10] = [
        Self::Agent,
        Self::Memory,
        Self::FileRead,
        Self::FileWrite,
        Self::FileDelete,
        Self::CodeExecute,
        Self::NetworkRead,
        Self::NetworkWrite,
        Self::System,
        Self::Custom,
    ];

    /// The name in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Memory => "memory",
            Self::FileRead => "file_read",
            Self::FileWrite => "file_write",
            Self::FileDelete => "file_delete",
            Self::CodeExecute => "code_execute",
            Self::NetworkRead => "network_read",
            Self::NetworkWrite => "network_write",
            Self::System => "system",
            Self::Custom => "custom",
        }
    }
}
