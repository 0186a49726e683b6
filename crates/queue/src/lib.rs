//! What Houston uses Redis for: **hints** to workers and **deltas** (live text) to open streams.
//!
//! # Invariants
//! - **Both may be lost.** Every fact is in Postgres: the sweep finds the agentable of a lost hint, and the durable
//!   event that ends a text brings what lost deltas had. Redis may be flushed, restarted, stalled or absent.
//! - **Nothing here fails or delays a caller.** [`HintSender::send`] and [`DeltaBus::publish`] return at once;
//!   what cannot be sent is dropped.
//! - **No failure of Redis ends a worker.** Connections are reopened after pauses with jitter; each outage is logged
//!   once. If the apalis worker ends without having been stopped, that is an error, and the process must exit.
//! - A lane holds at most one hint per agentable, ordered by the time a hint was first sent. It is delivered at most
//!   once, to one worker, and only when a run slot is free.
//! - Priority is strict: a lane is read only when those above it are empty. The interactive lane holds at most as many
//!   hints as there are agentables with a waiting user.
//! - Some slots are reserved for the interactive lane ([`HintSettings::background`]), so that users do not wait for
//!   background runs.
//! - All memory is bounded: channels, subscriptions, payloads, lanes (100,000 hints each, then the newest are dropped;
//!   1,024 local hints per lane).
//!
//! # Deliberately absent
//! Retries, delays, schedules, results, acknowledgements and priorities *inside* Redis: those are rows in Postgres.
//! More than one node of a Redis Cluster: all keys are in one slot, since one pop reads all lanes.
//!
//! # Recipes
//! - **Add a lane:** a variant in [`Lane`], its position in [`Lane::ALL`] (the order is the priority), its name in
//!   `as_str`; the compiler then points at the arrays of three. Old workers do not read it: deploy workers first.
//! - **Add a hint kind:** a variant in [`HintKind`]. Old workers drop kinds they do not recognise; the sweep must find the
//!   same work. Change the version only for changes of the format.
//! - **Add a kind of live item:** a variant in [`houston_domain::event::Live`] and its weight in `delta/payload.rs`.
//!   Processes of an older release treat it as a nudge to read Postgres.
//! - **Stream an agentable:** [`DeltaBus::subscribe`], [`Subscription::ready`], *then* read Postgres, then
//!   [`Subscription::recv`]: in this order no committed event is missed. What Postgres has of a run that began in this process
//!   [`DeltaBus::begun`] may have, too.

mod backend;
mod connection;
mod delta;
mod error;
mod health;
mod hint;
mod intake;
mod local;
mod reader;
mod sender;
mod servers;

pub use backend::{HintBackend, run_worker};
pub use connection::{DEFAULT_PREFIX, Redis, RedisServer};
pub use delta::{BegunRun, DeltaBus, Received, Subscription};
pub use error::{Error, Failure};
pub use health::{HintHealth, RedisHealth, RedisState};
pub use hint::{Hint, HintKind, Lane, depths};
pub use intake::{HintSettings, Intake, Slot, Slots};
pub use local::LocalHints;
pub use sender::HintSender;
