//! What a document says it is.

use serde::{Deserialize, Deserializer, Serialize};

/// What the documents call themselves.
pub const FORMAT: &str = "houston.conversation";

/// The name of the format: no other can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub struct Format;

impl From<Format> for &'static str {
    fn from(_: Format) -> Self {
        FORMAT
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = String::deserialize(deserializer)?;
        if given == FORMAT {
            return Ok(Self);
        }
        let given: String = given.chars().take(80).collect();
        Err(serde::de::Error::custom(format!("`{given}` is another format; only `{FORMAT}` can be imported")))
    }
}

/// The version of the format: what a document may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "u32")]
pub enum Version {
    /// No sessions, compressions or results; `closed_entries` instead.
    One,
    /// All there is.
    Two,
}

impl Version {
    /// The one that is written.
    pub const WRITTEN: Self = Self::Two;
}

impl From<Version> for u32 {
    fn from(version: Version) -> Self {
        match version {
            Version::One => 1,
            Version::Two => 2,
        }
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            given => {
                let told = format!("version {given} is not known here; versions 1 and 2 can be imported");
                Err(serde::de::Error::custom(told))
            }
        }
    }
}
