//! The format name and the version of a conversation document.

use serde::{Deserialize, Deserializer, Serialize};

/// The value of the `format` field of every document.
pub const FORMAT: &str = "houston.conversation";

/// The format name. Deserialization fails for any other name than [`FORMAT`].
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
        Err(serde::de::Error::custom(format!("unknown format `{given}`: only `{FORMAT}` can be imported")))
    }
}

/// The version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "u32")]
pub enum Version {
    /// No sessions, compressions, results or questions; `closed_entries` instead.
    One,
    /// The current version, with all fields.
    Two,
}

impl Version {
    /// The version that exports write.
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
                let detail = format!("unknown version {given}: versions 1 and 2 can be imported");
                Err(serde::de::Error::custom(detail))
            }
        }
    }
}
