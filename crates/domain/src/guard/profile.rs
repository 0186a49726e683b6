//! Profiles: what a layer says of each risk.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Risk, Ruling};

/// A profile with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    /// Asks only before something is destroyed.
    Permissive,
    /// Asks before something is sent out, executed or destroyed.
    Balanced,
    /// Asks before everything but reading; executes and destroys nothing.
    Strict,
}

impl ProfileName {
    /// What it says of each risk.
    #[must_use]
    pub fn table(self) -> ProfileTable {
        let [read, write, external, exec, destructive] = match self {
            Self::Permissive => [Ruling::Allow, Ruling::Allow, Ruling::Allow, Ruling::Allow, Ruling::Ask],
            Self::Balanced => [Ruling::Allow, Ruling::Allow, Ruling::Ask, Ruling::Ask, Ruling::Ask],
            Self::Strict => [Ruling::Allow, Ruling::Ask, Ruling::Ask, Ruling::Deny, Ruling::Deny],
        }
        .map(Some);
        ProfileTable { read, write, external, exec, destructive }
    }
}

/// What a layer says of each risk; nothing of those left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileTable {
    /// Of calls that only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Ruling>,
    /// Of calls that change data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Ruling>,
    /// Of calls that send something out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<Ruling>,
    /// Of calls that execute a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<Ruling>,
    /// Of calls that destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<Ruling>,
}

impl ProfileTable {
    /// What it says of `risk`.
    #[must_use]
    pub fn get(&self, risk: Risk) -> Option<Ruling> {
        match risk {
            Risk::Read => self.read,
            Risk::Write => self.write,
            Risk::External => self.external,
            Risk::Exec => self.exec,
            Risk::Destructive => self.destructive,
        }
    }
}

/// The key `profile`: a name or a table.
///
/// ```toml
/// profile = "balanced"
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Profile {
    /// `permissive`, `balanced` or `strict`.
    Named(ProfileName),
    /// One ruling for each risk.
    Table(ProfileTable),
}

impl Profile {
    /// What it says of each risk.
    #[must_use]
    pub fn table(self) -> ProfileTable {
        match self {
            Self::Named(name) => name.table(),
            Self::Table(table) => table,
        }
    }
}

/// Not derived: the error of an untagged enum does not say what is allowed.
impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Profile;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "`permissive`, `balanced`, `strict`, or a table of `read`, `write`, `external`, `exec` and \
                     `destructive`",
                )
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Profile, E> {
                ProfileName::deserialize(serde::de::value::StrDeserializer::new(name)).map(Profile::Named)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Profile, A::Error> {
                ProfileTable::deserialize(MapAccessDeserializer::new(map)).map(Profile::Table)
            }
        }

        deserializer.deserialize_any(NameOrTable)
    }
}
