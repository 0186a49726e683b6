//! Ids: newtypes over UUIDv7, so they sort by creation time. Their text form is `run_<32 hex digits>`.
//!
//! # Shards
//! The last 16 bits of an id, its last four hex digits, are its [`Shard`]: those of a user are a hash of the tenant and
//! the external id (see [`Shard::of_external_id`]), or random. Everything that belongs to a user has the shard of the
//! user: agentables, runs, messages, notes, sessions and the rest ([`Ids::beside`]). So any id of a user's thing names
//! the Postgres that has it, without a directory. `houston.id_beside` is the same for ids that are made in SQL.
//!
//! The ids of tenants, API keys, agents, teams and workers, and the ids of writes and tokens, have random bits there:
//! nothing is found by them.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use sha2::{Digest, Sha256};
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

        as_text!($name);

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> { crate::schema::id($prefix).into() }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
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
    /// A question that a run asks a person.
    QuestionId = "question";
    /// A lasting yes for a tool.
    GrantId = "grant";
    /// A todo of a user.
    TodoId = "todo";
    /// A custom table of a user.
    TableId = "table";
    /// A record of a custom table.
    RecordId = "record";
    /// A check-in: a time at which an agent asks to be woken.
    CheckInId = "check_in";
    /// An image that a user posted.
    ImageId = "image";
    /// A webhook: a subscription to events, delivered to an address of the tenant.
    WebhookId = "webhook";
    /// One event for one webhook.
    DeliveryId = "delivery";
    /// An inbound hook: an address at which another program posts messages to an agentable.
    InboundHookId = "hook";
    /// A trigger: messages to an agentable at a time, at a word or at an event.
    TriggerId = "trigger";
    /// A file that a user posted for messages.
    AttachmentId = "att";
    /// A request to erase a user or an agentable.
    ErasureId = "erasure";
    /// A record of the audit log.
    AuditId = "audit";
    /// One logical write of a run: all retries of the write have the same id.
    WriteId = "write";
    /// The random half of the fence.
    RunToken = "token";
}

/// The part of all users that an id belongs to: one of 65,536. Its text form has four hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(pub u16);

/// The shard of a user, or of anything that belongs to a user.
pub fn shard(id: impl Into<Uuid>) -> Shard {
    let [.., high, low] = id.into().into_bytes();
    Shard(u16::from_be_bytes([high, low]))
}

impl Shard {
    /// The shard of a new user with this external id: of two requests that create the same user at once, both look in the
    /// same place.
    pub fn of_external_id(tenant: TenantId, external_id: &str) -> Self {
        Self::hash(tenant, b"external id", external_id)
    }

    /// The shard of a new user without an external id, if the request has an idempotency key: a repetition finds the key.
    pub fn of_idempotency_key(tenant: TenantId, key: &str) -> Self {
        Self::hash(tenant, b"idempotency key", key)
    }

    fn hash(tenant: TenantId, what: &[u8], text: &str) -> Self {
        let digest = Sha256::new().chain_update(tenant.0).chain_update(what).chain_update(text).finalize();
        Self(u16::from_be_bytes([digest[0], digest[1]]))
    }

    /// `id` with this shard.
    pub(crate) fn mark(self, id: Uuid) -> Uuid {
        let mut bytes = id.into_bytes();
        bytes[14..].copy_from_slice(&self.0.to_be_bytes());
        Uuid::from_bytes(bytes)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A process: what the ids of all its workers have in common, since a process that serves several cells has one in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u64);

impl ProcessId {
    /// A process of its own for `id`: of another kind of id, or of the first worker of a process.
    pub fn of(id: Uuid) -> Self {
        Self(id.as_u64_pair().1)
    }
}

impl WorkerId {
    /// The process of this worker.
    pub fn process(self) -> ProcessId {
        ProcessId::of(self.0)
    }

    /// The id as one of `process`.
    #[must_use]
    pub fn in_process(self, process: ProcessId) -> Self {
        Self(Uuid::from_u64_pair(self.0.as_u64_pair().0, process.0))
    }
}

impl RunId {
    /// The run that opens when this one ends with messages that it has not read: its id is known before it is open, so that a
    /// message can name the run that will answer it.
    #[must_use]
    pub fn successor(self) -> Self {
        self.stepped(u32::wrapping_add)
    }

    /// The run whose [`Self::successor`] this is, if there is such a run.
    #[must_use]
    pub fn predecessor(self) -> Self {
        self.stepped(u32::wrapping_sub)
    }

    /// Steps the last random bits before the shard.
    fn stepped(self, step: fn(u32, u32) -> u32) -> Self {
        let mut bytes = self.0.into_bytes();
        let [.., a, b, c, d, _, _] = bytes;
        bytes[10..14].copy_from_slice(&step(u32::from_be_bytes([a, b, c, d]), 1).to_be_bytes());
        Self(Uuid::from_bytes(bytes))
    }

    /// The run that answers a message at `seq` of which this run was open when it was posted; `cancel_seq`: the position at which its
    /// cancellation was requested, if it was.
    #[must_use]
    pub fn answering(self, seq: i64, cancel_seq: Option<i64>) -> Self {
        if cancel_seq.is_some_and(|cancelled| seq > cancelled) { self.successor() } else { self }
    }
}

impl AgentableId {
    /// The id as the API writes it, with the kind as prefix: `goal_…`, `task_…`, `user_agent_…`.
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
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, random: Mutex::new(rand::make_rng()) }
    }

    /// A generator that returns the same ids each time, for tests.
    pub fn seeded(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self { clock, random: Mutex::new(StdRng::seed_from_u64(seed)) }
    }

    /// The next id, in a random shard: of a user without a name, or of a thing that belongs to no user.
    pub fn next<T: From<Uuid>>(&self) -> T {
        T::from(self.uuid())
    }

    /// The next id in a shard: of a user.
    pub fn next_in<T: From<Uuid>>(&self, shard: Shard) -> T {
        T::from(shard.mark(self.uuid()))
    }

    /// The next id in the shard of `other`: of a thing that belongs to the user or the agentable `other`.
    pub fn beside<T: From<Uuid>>(&self, other: impl Into<Uuid>) -> T {
        self.next_in(shard(other))
    }

    fn uuid(&self) -> Uuid {
        let mut random = [0; 10];
        self.fill(&mut random);
        let millis = u64::try_from(self.clock.now().timestamp_millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// Fills `bytes` with random bytes from the same source.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }

    /// The clock whose time the ids contain.
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
    use proptest::prelude::*;

    use super::*;
    use crate::clock::{ManualClock, SystemClock};

    #[test]
    fn run_after_a_run_is_known_and_of_the_same_shard() {
        for random in [0_u128, 7 << 16, u128::from(u32::MAX) << 16] {
            let run = RunId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_00ab | random));
            let next = run.successor();
            assert_ne!(next, run);
            assert_eq!((next.predecessor(), shard(next)), (run, shard(run)));
            assert_eq!(next.0.get_version_num(), 7);
            assert_eq!(run.answering(7, None), run);
            assert_eq!((run.answering(7, Some(7)), run.answering(8, Some(7))), (run, next));
        }
    }

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
        let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
        let ids = Ids::seeded(Arc::new(clock.clone()), 1);
        let first: RunId = ids.next();
        clock.advance(chrono::TimeDelta::milliseconds(1));
        assert!(first < ids.next::<RunId>());
    }

    #[test]
    fn the_shard_of_an_external_id_never_changes() {
        let tenant = TenantId(Uuid::from_u128(7));
        assert_eq!(Shard::of_external_id(tenant, "ada").to_string(), "462c");
        assert_eq!(Shard::of_idempotency_key(tenant, "ada").to_string(), "29d7");
    }

    proptest! {
        #[test]
        fn ids_made_beside_an_id_have_its_shard(seed: u64, other: u128, millis in 0..1_i64 << 47) {
            let at = chrono::DateTime::from_timestamp_millis(millis).unwrap_or_default();
            let ids = Ids::seeded(Arc::new(ManualClock::at(at)), seed);
            let other = UserId(Uuid::from_u128(other));
            let goal: AgentableId = ids.beside(other);
            let run: RunId = ids.beside(goal);
            prop_assert_eq!(shard(run), shard(other));
            prop_assert_eq!(shard(run.to_string().parse::<RunId>().unwrap()), shard(other));
            prop_assert!(run.to_string().ends_with(&shard(other).to_string()));
            prop_assert_eq!(run.0.get_version_num(), 7);
            prop_assert_ne!(run.0, goal.0);
        }

        #[test]
        fn a_shard_keeps_the_time_of_an_id(seed: u64, marked: u16, millis in 0..1_i64 << 40) {
            let clock = ManualClock::at(chrono::DateTime::from_timestamp_millis(millis).unwrap_or_default());
            let ids = Ids::seeded(Arc::new(clock.clone()), seed);
            let first: RunId = ids.next_in(Shard(marked));
            clock.advance(chrono::TimeDelta::milliseconds(1));
            prop_assert!(first < ids.next_in::<RunId>(Shard(!marked)));
        }

        #[test]
        fn the_same_external_id_has_the_same_shard(seed: u64, tenant: u128, external_id: String) {
            let ids = Ids::seeded(Arc::new(SystemClock), seed);
            let tenant = TenantId(Uuid::from_u128(tenant));
            let place = Shard::of_external_id(tenant, &external_id);
            prop_assert_eq!(place, Shard::of_external_id(tenant, &external_id));
            prop_assert_eq!(shard(ids.next_in::<UserId>(place)), place);
        }
    }
}
