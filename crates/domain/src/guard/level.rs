//! Levels: what a tool needs, and what a layer permits.

use serde::{Deserialize, Serialize};

/// What a tool needs and what a layer permits, in ascending order: a tool passes where the layer's level is at least
/// the tool's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing.
    None,
    /// Reading.
    Read,
    /// Changing data.
    #[default]
    Write,
    /// Executing programs.
    Execute,
    /// Changing how the installation works.
    Admin,
}

impl Level {
    /// All levels, in ascending order.
    pub const ALL: [Self; 5] = [Self::None, Self::Read, Self::Write, Self::Execute, Self::Admin];

    /// The name in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Admin => "admin",
        }
    }
}
