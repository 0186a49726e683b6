//! Models: a history and tools in, a stream of events out, whatever provider stands behind it.
//!
//! [`parse_choice`] or [`detect_all`] says which models, [`connect`] makes each, [`Guards::guard`] puts it behind a
//! breaker and [`Retrying`], [`Fallback`] makes one of several, in the order [`router`] finds for each request, and
//! [`Model::stream`] asks it, or [`call()`] for an answer in one piece. Between a provider's bytes and the [`Event`]s
//! stand only functions free of I/O: a wire encodes the request and decodes the data of each stream event, `framing` finds
//! the events in the bytes, `error` turns what went wrong into one of ten codes, and `client` alone touches the network.
//!
//! # Invariants
//! - A stream ends with [`Event::Done`] or with an error. A connection that ends without the wire's own end mark
//!   is an error, never an answer.
//! - What is decoded does not depend on how the bytes were cut.
//! - Every request is one the provider can accept, whichever model wrote the history: turns alternate, results
//!   come first, reasoning goes back only to who wrote it and never ends a turn, names and ids are legal.
//! - What a provider signed or encrypted goes back as it came, byte for byte, and to that provider alone.
//! - Usage means the same everywhere: input includes what a cache served, output includes reasoning, a part is
//!   never more than the whole.
//! - Dropping a stream, or the future that makes it, closes the connection: that is cancellation.
//! - Nothing is repeated once an event reached the caller, and nobody else ends what one model has begun.
//! - A provider that fails is sent fewer calls, not more: retries have a budget, and a breaker ends them all.
//! - A credential is in no error, no log and no `Debug`, in whatever form a provider quotes it ([`shown_address`]).
//!   Values come from the caller: nothing here reads the environment.
//! - Nothing a provider sends is read without a bound, in size and in time.
//! - Money is decimal; a model whose price nobody knows costs `None`, never 0 ([`price`]).
//!
//! # Deliberately absent
//! - Tools on the provider's side: none is asked for. What they leave in an answer is kept and goes back.
//! - A tokenizer: [`tokens`] estimates within a few percent, and what providers report is exact.
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
//! 3. What must go back: keep it as a [`RawBlock`](houston_domain::history::RawBlock), and add a row to
//!    `recordings/round_trips.rs`.
//! 4. In `recordings/streams.rs`, say which recordings speak it.

mod answer;
pub mod breaker;
pub mod budget;
mod call;
mod client;
pub mod context_budget;
pub mod detect;
mod error;
#[cfg(test)]
mod exchanges;
pub mod fallback;
mod framing;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod http;
pub mod limits;
pub mod model;
pub mod pace;
pub mod price;
pub mod provider;
#[cfg(test)]
mod recordings;
pub mod retry;
pub mod router;
mod schema;
mod scrub;
pub mod secret;
mod shorten;
pub mod simulated;
pub mod tokens;
pub mod unavailable;
mod window;
pub mod wire;

pub use breaker::{BreakerPolicy, BreakerState};
pub use budget::BudgetPolicy;
pub use call::{Answer, call};
pub use context_budget::ContextBudget;
pub use detect::{detect, detect_all};
pub use fallback::Fallback;
pub use guard::{BreakerStatus, Guards};
pub use http::{Http, Timeouts};
pub use limits::Capabilities;
pub use model::{AnswerSchema, Description, Event, EventStream, Model, Request, Switch, SystemPart};
pub use pace::Paces;
pub use price::Price;
pub use provider::{
    Address, AuthStyle, Choice, Lookup, PROVIDERS, Provider, TokenSource, connect, connect_with, parse_choice,
};
pub use retry::{RetryPolicy, Retrying};
pub use router::{Candidate, Need, Rates, Strategy, estimate_cost};
pub use scrub::shown_address;
pub use secret::{Fingerprint, Secret};
pub use simulated::Simulated;
pub use unavailable::Unavailable;
pub use wire::{Dialect, Wire};
