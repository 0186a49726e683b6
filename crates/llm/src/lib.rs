//! Models: a history and tools in, a stream of events out, whatever provider stands behind it.
//!
//! [`parse_choice`] or [`detect()`] says which model, [`connect`] makes it, [`Guards::guard`] puts it behind a
//! breaker and [`Retrying`], and [`Model::stream`] asks it. Between a provider's bytes and the [`Event`]s stand only functions free of I/O: a
//! wire encodes the request and decodes the data of each stream event, `framing` finds the events in the bytes,
//! `error` turns what went wrong into one of ten codes, and `client` alone touches the network.
//!
//! # Invariants
//! - A stream ends with [`Event::Done`] or with an error. A connection that ends without the wire's own end mark
//!   is an error, never an answer.
//! - What is decoded does not depend on how the bytes were cut.
//! - Every request is one the provider can accept, whichever model wrote the history: turns alternate, results
//!   come first, reasoning goes back only to who wrote it and never ends a turn, names and ids are legal.
//! - Reasoning that a provider signed goes back as it came, value by value.
//! - Usage means the same everywhere: input includes what a cache served, output includes reasoning, a part is
//!   never more than the whole.
//! - Dropping a stream, or the future that makes it, closes the connection: that is cancellation.
//! - Nothing is repeated once an event reached the caller.
//! - A provider that fails is sent fewer calls, not more: retries have a budget, and a breaker ends them all.
//! - A key is in no error, no log and no `Debug`. Values come from the caller: nothing here reads the
//!   environment.
//! - Nothing a provider sends is read without a bound, in size and in time.
//!
//! # Deliberately absent
//! - Responses and Gemini (they come as further folders of [`wire`]), fallback and routing between models, and
//!   prices.
//! - Retries across runs: they wait in Postgres.
//! - Sampling parameters, reasoning budgets and images: several current models refuse the first two.
//! - HTTP/2, see [`Http::new`].
//!
//! # Add a provider
//! One that speaks a known wire is a row in [`provider::PROVIDERS`]: its address, the variables of its key, a
//! model. If its address is more than a base URL, add a variant to [`Address`]; if it refuses something the others accept, add a field to [`wire::Dialect`] and say there who
//! refuses what.
//!
//! # Add a wire
//! 1. A folder in `wire/`: `request.rs` (`encode`, through `wire::conversation::turns` so that every history is
//!    legal), `response.rs` (the shapes, and usage in our terms), `stream.rs` (a `Decoder` that knows its end
//!    mark).
//! 2. A variant of [`Wire`], and its line in each `match` of `wire/mod.rs`; in `fuzzing` its examples, and a target
//!    in `fuzz/`.
//! 3. Reasoning that must go back: `wire::reasoning::wrap` it, unless its blocks name themselves.
//! 4. In `recordings/streams.rs`, take its recordings out of the list of those not built.

mod answer;
pub mod breaker;
pub mod budget;
mod client;
pub mod detect;
mod error;
mod framing;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod http;
pub mod model;
mod ndjson;
pub mod provider;
#[cfg(test)]
mod recordings;
pub mod retry;
pub mod secret;
pub mod simulated;
mod sse;
mod turn;
pub mod unavailable;
mod window;
pub mod wire;

pub use breaker::{BreakerPolicy, BreakerState};
pub use budget::BudgetPolicy;
pub use detect::detect;
pub use guard::{BreakerStatus, Guards};
pub use http::{Http, Timeouts};
pub use model::{Description, Event, EventStream, Model, Request, SystemPart};
pub use provider::{Address, AuthStyle, Choice, Lookup, PROVIDERS, Provider, connect, parse_choice};
pub use retry::{RetryPolicy, Retrying};
pub use secret::Secret;
pub use simulated::Simulated;
pub use unavailable::Unavailable;
pub use wire::{Dialect, Wire};
