//! Ids: newtypes over UUIDv7, so they sort by creation time. Their text form is `run_<32 hex digits>`.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use rand::{RngCore, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Clock;

/// A text that is not an id of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not an id of the form {prefix}_<32 hex digits>")]
pub struct InvalidId {
    /// The given text, shortened to 80 characters.
    pub given: String,
    /// The prefix that was expected.
    pub prefix: String,
}

/// Parses `<prefix>_<32 hex digits>`.
///
/// # Errors
/// [`InvalidId`] when the prefix differs, or the rest is not 32 hex digits.
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
            /// The prefix of its text form, before the underscore.
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

        /// The prefixes of all ids; no kind of agentable may have one of these names.
        pub(crate) const PREFIXES: &[&str] = &[$($prefix),*];
    };
}

ids! {
    /// A tenant: an organisation. Every row a client can access belongs to one.
    TenantId = "tenant";
    /// An API key (the row, not the secret).
    ApiKeyId = "key";
    /// A user: a person that agents work for.
    UserId = "user";
    /// An agentable. The API uses its kind as prefix, as in `goal_…`: see [`AgentableId::public_id`].
    AgentableId = "agentable";
    /// A run.
    RunId = "run";
    /// A thread message.
    MessageId = "msg";
    /// A worker: one start of a worker process.
    WorkerId = "worker";
    /// A note.
    NoteId = "note";
    /// A learning: something an agent learned about its goal.
    LearningId = "learning";
    /// A memory: something all agents of a user should remember.
    MemoryId = "memory";
    /// A custom instruction: a rule of a user for all their agents.
    CustomInstructionId = "instruction";
    /// A feed item.
    FeedItemId = "feed_item";
    /// An agent: a named configuration of a tenant.
    AgentId = "agent";
    /// A team of agents.
    TeamId = "team";
    /// A session: a stretch of an agentable's history.
    SessionId = "session";
    /// A compression: a summary that replaces the beginning of a session.
    CompressionId = "compression";
    /// A large tool result, stored beside the history.
    ResultId = "result";
    /// A check-in: a time at which an agent asks to be woken.
    CheckInId = "check_in";
    /// A request to erase a user or an agentable.
    ErasureId = "erasure";
    /// One logical write of a run: all retries of the write have the same id.
    WriteId = "write";
    /// The random half of the fence.
    RunToken = "token";
}

impl AgentableId {
    /// The id as the API writes it, with the kind as prefix: `goal_…`, `task_…`, `user_agent_…`.
    #[must_use]
    pub fn public_id(self, kind: &str) -> String {
        format!("{kind}_{}", self.0.simple())
    }
}

/// Generates ids from a clock and a source of randomness.
pub struct Ids {
    clock: Arc<dyn Clock>,
    random: Mutex<StdRng>,
}

impl Ids {
    /// A generator that is seeded by the operating system: its ids cannot be guessed.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, random: Mutex::new(StdRng::from_os_rng()) }
    }

    /// A generator that returns the same ids each time, for tests.
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

    /// Fills `bytes` with random bytes from the same source.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }

    /// The clock whose time the ids contain.
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
    fn ids_round_trip_and_reject_other_prefixes() {
        let id: RunId = Ids::seeded(Arc::new(SystemClock), 7).next();
        assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
        assert!(id.to_string().parse::<MessageId>().is_err());
        assert!("run_12".parse::<RunId>().is_err());
        assert!(format!("run_{}", id.0).parse::<RunId>().is_err(), "each id has exactly one spelling");
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
