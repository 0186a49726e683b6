//! Ids: newtypes over UUIDv7, so that they sort by creation; shown as `run_<32 hex digits>`.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use rand::{RngCore, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Clock;

/// A text that is not an id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not an id of the form {prefix}_<32 hex digits>")]
pub struct InvalidId {
    /// The text as given.
    pub given: String,
    /// The prefix that was expected.
    pub prefix: String,
}

/// Parses `<prefix>_<uuid>`.
///
/// # Errors
/// [`InvalidId`] when the prefix differs or the rest is no UUID.
pub fn parse_prefixed(prefix: &str, given: &str) -> Result<Uuid, InvalidId> {
    given
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('_'))
        .filter(|rest| rest.len() == 32)
        .and_then(|rest| Uuid::try_parse(rest).ok())
        .ok_or_else(|| InvalidId { given: given.chars().take(80).collect(), prefix: prefix.to_owned() })
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            /// What its text form begins with, before the underscore.
            pub const PREFIX: &str = $prefix;
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self { Self(uuid) }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self { id.0 }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::Display::fmt(self, f) }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> { parse_prefixed($prefix, text).map(Self) }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*

        /// What all of them begin with; no kind of agentable may be called like one.
        pub(crate) const PREFIXES: &[&str] = &[$($prefix),*];
    };
}

ids! {
    /// A customer of this installation; every row a client can reach belongs to one.
    TenantId = "tenant";
    /// An API key (its record, not its secret).
    ApiKeyId = "key";
    /// A person agents work for.
    UserId = "user";
    /// Anything an agent runs for. The API shows it under its kind: `goal_…`, see [`AgentableId::shown`].
    AgentableId = "agentable";
    /// One orchestrator execution.
    RunId = "run";
    /// A thread message.
    MessageId = "msg";
    /// One incarnation of a worker process.
    WorkerId = "worker";
    /// A note.
    NoteId = "note";
    /// Something the agent learnt about its user or goal.
    LearningId = "learning";
    /// Something all agents of a user should know another day.
    MemoryId = "memory";
    /// A rule of a user for all their agents.
    CustomInstructionId = "instruction";
    /// Something put before a user without being asked.
    FeedItemId = "feed_item";
    /// An agent: a named configuration of a tenant's.
    AgentId = "agent";
    /// A team of agents.
    TeamId = "team";
    /// A stretch of an agentable's history.
    SessionId = "session";
    /// What stands for the beginning of a long session.
    CompressionId = "compression";
    /// A long result of a tool, kept beside the history.
    ResultId = "result";
    /// A time at which an agent wants to be woken.
    CheckInId = "check_in";
    /// A request to erase something.
    ErasureId = "erasure";
    /// One logical write of a run, the same over its retries.
    WriteId = "write";
    /// The random half of the fence.
    RunToken = "token";
}

impl AgentableId {
    /// The id as the API shows it: `goal_…`, `task_…`, `user_agent_…`.
    #[must_use]
    pub fn shown(self, kind: &str) -> String {
        format!("{kind}_{}", self.0.simple())
    }
}

/// Makes ids from a clock and a seeded source of randomness.
pub struct Ids {
    clock: Arc<dyn Clock>,
    random: Mutex<StdRng>,
}

impl Ids {
    /// Ids that nobody can guess.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, random: Mutex::new(StdRng::from_os_rng()) }
    }

    /// The same ids each time, for tests.
    #[must_use]
    pub fn seeded(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self { clock, random: Mutex::new(StdRng::seed_from_u64(seed)) }
    }

    /// The next id.
    pub fn next<T: From<Uuid>>(&self) -> T {
        let mut random = [0; 10];
        self.fill(&mut random);
        let millis = u64::try_from(self.clock.now().timestamp_millis()).unwrap_or(0);
        T::from(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// Random bytes from the same source.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }

    /// The clock the ids are dated by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn an_id_survives_its_text_form_and_refuses_another_kind() {
        let id: RunId = Ids::seeded(Arc::new(SystemClock), 7).next();
        assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
        assert!(id.to_string().parse::<MessageId>().is_err());
        assert!("run_12".parse::<RunId>().is_err());
        assert!(format!("run_{}", id.0).parse::<RunId>().is_err(), "one spelling per id");
    }

    #[test]
    fn ids_sort_by_creation_across_milliseconds() {
        let clock = crate::clock::ManualClock::at(chrono::DateTime::UNIX_EPOCH);
        let ids = Ids::seeded(Arc::new(clock.clone()), 1);
        let first: RunId = ids.next();
        clock.advance(chrono::TimeDelta::milliseconds(1));
        assert!(first < ids.next::<RunId>());
    }
}
