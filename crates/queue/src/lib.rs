//! Everything Houston uses Redis for: **hints** to workers and **deltas** to open streams.
//!
//! # Invariants
//! - **Both are lossy by contract.** Postgres holds every fact; a lost hint is replaced by the sweep, a lost delta
//!   by the durable event that ends its text. Redis may be flushed, restarted, stalled or absent.
//! - **Nothing here fails or delays a caller.** [`HintSender::send`] and [`DeltaBus::publish`] return at once;
//!   what cannot be sent is counted and dropped.
//! - **No failure of Redis ends a worker.** Connections are reopened with jitter; each outage is logged once. A
//!   worker that ends all the same is an error, and the process must exit.
//! - A hint waits at most once per lane for each agentable, in the order in which hints were first sent. It is
//!   delivered at most once, to one worker, and only when a run slot is free.
//! - Priority is strict: a lane is read only when those above it are empty. The interactive lane cannot hold more
//!   hints than there are agentables with a waiting person.
//! - A share of the slots is kept for the interactive lane ([`HintSettings::background`]): however many background
//!   runs are held, a person does not wait for them.
//! - Memory is bounded everywhere: channels, subscriptions, payloads, lanes (100,000 hints each, the last dropped;
//!   1,024 local ones).
//!
//! # Deliberately absent
//! Retries, delays, schedules, results, acknowledgements and priorities *inside* Redis: those are rows in Postgres.
//! Redis Cluster and Sentinel: Houston uses one server at one address.
//!
//! # Recipes
//! - **Add a lane:** a variant in [`Lane`], its position in [`Lane::ALL`] (the order is the priority), its name in
//!   `as_str`; the compiler then points at the arrays of three. Old workers do not read it: deploy them first.
//! - **Add a hint kind:** a variant in [`HintKind`] and its name in `Hint::encode`. Old workers drop what they
//!   do not know; the sweep must find the same work. The version is for changes of shape.
//! - **Add a kind of live item:** a variant in [`houston_domain::event::Live`] and its weight in `delta/payload.rs`.
//!   Processes of an older release read it as a nudge to look into Postgres.
//! - **Stream an agentable:** [`DeltaBus::subscribe`], [`Subscription::ready`], *then* read Postgres, then
//!   [`Subscription::recv`]: nothing committed can fall between.

mod backend;
mod connection;
mod delta;
mod error;
mod health;
mod hint;
mod intake;
mod lanes;
mod local;
mod reader;
mod sender;
mod slot;
mod supervisor;

pub use backend::{HintBackend, HintSettings, NeverFails};
pub use connection::{DEFAULT_PREFIX, Redis};
pub use delta::{BusCounts, DeltaBus, Received, Subscription};
pub use error::{Error, Failure};
pub use health::{RedisHealth, RedisState};
pub use hint::{HINT_VERSION, Hint, HintError, HintKind};
pub use intake::{Intake, IntakeCounts};
pub use lanes::{Lane, depths};
pub use local::{LocalHints, Refused};
pub use sender::{HintSender, SenderCounts};
pub use slot::{SlotLayer, SlotService};
pub use supervisor::run_worker;
