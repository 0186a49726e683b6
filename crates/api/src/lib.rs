//! HTTP: REST, problem+json and gap-free event streams.
//!
//! Everything a client can do is here: make users and goals, post messages, read what became of them, cancel runs,
//! and watch runs as they happen. It writes facts to Postgres and rings workers; it never drives a run.
//!
//! # Invariants
//! - A message is committed before it is acknowledged; hints and live events come after, and may be lost.
//! - Every query is by tenant. What is not the caller's does not exist: 404.
//! - Every refusal is `application/problem+json` with a stable `code`: one [`ApiError`], rendered in one place.
//! - A stream has no gap and no duplicate, wherever it is cut and resumed: the `id` of each frame says exactly
//!   where the client stands. It ends cleanly only after the last event of the last run; otherwise it is aborted.
//! - A stream that was accepted is never failed with a status. A disconnect cancels nothing.
//! - Nothing waits for Redis.
//!
//! # Deliberately absent
//! TLS and HTTP/2 (a proxy's work), CORS, rate limits, sessions of any kind: a client's position is the client's.
//! Traits for the store or the queue. Retries of what a client asked: it has its idempotency key.
//!
//! # Add an endpoint
//! One file `<resource>/<verb>.rs` with its body type, its handler and a comment that names method and path; the
//! handler takes a `Caller` before everything that reads the body; one line in `router`; the shape clients see is
//! the resource's `Shown` in its `mod.rs`; a test of each refusal in `tests/it`. A new way to refuse is a variant of
//! [`ApiError`] with its code and status.
//!
//! # Add an event
//! Its frames in `events::render`, its effect on open text in `events::cursor`, a line in the script of the
//! cursor's property test.

mod agentables;
mod auth;
mod body;
mod config;
mod connection;
mod envelope;
mod error;
mod events;
mod goals;
mod health;
mod history;
mod idempotency;
mod messages;
mod page;
mod place;
mod problem;
mod query;
mod rfc3339;
mod router;
mod runs;
mod serve;
mod state;
mod users;

pub use config::Config;
pub use error::{ApiError, Fault};
pub use router::router;
pub use serve::serve;
pub use state::State;
