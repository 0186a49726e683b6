//! The names of cells, by which moves of shards refer to them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ShardRange;
use crate::id::Shard;

/// Maximum length of a name.
const MAX_CHARS: usize = 40;

/// The name of a cell. It never changes: moves refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CellName {
    /// The shards with which the cell began, whatever was moved since.
    Shards(ShardRange),
    /// That of a cell that began without shards: a letter, then letters, digits and dashes.
    Added(String),
}

impl CellName {
    /// The shards with which the cell began.
    #[must_use]
    pub fn shards(&self) -> Option<ShardRange> {
        match self {
            Self::Shards(shards) => Some(*shards),
            Self::Added(_) => None,
        }
    }

    /// Whether the cell began with this shard.
    #[must_use]
    pub fn begins_with(&self, shard: Shard) -> bool {
        self.shards().is_some_and(|shards| shards.has(shard))
    }
}

impl From<ShardRange> for CellName {
    fn from(shards: ShardRange) -> Self {
        Self::Shards(shards)
    }
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards(shards) => shards.fmt(f),
            Self::Added(name) => f.write_str(name),
        }
    }
}

/// A text that is no name of a cell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name of a cell: it is a range of shards, like 8000-ffff, or up to 40 lower-case letters, digits and dashes, of \
     which the first is a letter"
)]
pub struct InvalidName(String);

impl FromStr for CellName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if let Ok(shards) = text.parse() {
            return Ok(Self::Shards(shards));
        }
        let is_name = text.len() <= MAX_CHARS
            && text.starts_with(|letter: char| letter.is_ascii_lowercase())
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if is_name {
            Ok(Self::Added(text.to_owned()))
        } else {
            Err(InvalidName(text.chars().take(80).collect()))
        }
    }
}

impl Serialize for CellName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CellName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
