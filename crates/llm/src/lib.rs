//! Calls language models: takes a history and tools, returns a stream of events, for any of the [`PROVIDERS`].
//!
//! A call passes through these layers:
//!
//! ```text
//! parse_choice / detect_all   which models: the configured ones, or those whose keys are set
//! connect                     one provider's model, over HTTP
//! metered                     enters what each call used, however it ended, into the ledger of its request
//! Guards::guard               circuit breaker, immediate retries, latency
//! Fallback                    several models as one; `router` orders them for each request
//! Model::stream / call        a stream of events / one complete answer
//! ```
//!
//! Between a provider's bytes and the [`Event`]s there are only pure functions: `framing` splits the bytes into events,
//! a wire encodes the request and decodes each event, `error` maps failures to one of ten codes. Only `client` uses the
//! network.
//!
//! # Invariants
//! - A stream ends with [`Event::Done`] or with an error. A connection that closes without the protocol's own end mark
//!   is an error, never an answer.
//! - The decoded events do not depend on how the bytes were split.
//! - Every request is valid for its provider, whichever model wrote the history: roles alternate, tool results come
//!   first, reasoning is sent only to the provider that wrote it and never ends a turn, names and ids are legal.
//! - What a provider signed or encrypted is sent back byte for byte, and only to that provider.
//! - Usage has the same meaning for all providers: input includes cached tokens, output includes reasoning, and a part
//!   is never larger than the whole.
//! - Dropping a stream, or the future that creates it, closes the connection and thereby cancels the call.
//! - A call is not repeated once an event was passed on, and no model continues what another has started.
//! - A provider that fails receives fewer calls, not more: retries have a budget, and an open breaker rejects calls.
//! - Credentials appear in no error, log or `Debug` output, in whatever encoding a provider quotes them
//!   ([`redacted_address`]). Settings come from the caller: this crate does not read the environment.
//! - Everything read from a provider is limited in size and time.
//! - Each answer that a provider began is entered into the [`Ledger`] of its request once, also if it was cut off, retried, or
//!   dropped.
//! - Money is decimal. A model without a known price costs `None`, never 0 ([`price`]).
//!
//! # Deliberately absent
//! - Server-side tools: none are requested. Their blocks in an answer are stored and sent back.
//! - A tokenizer: [`tokens`] estimates within a few percent, and the counts that providers report are exact.
//! - Retries across runs: they are stored in Postgres and scheduled by the worker.
//! - HTTP/2, see [`Http::new`].
//!
//! # Add a provider
//! A provider that uses a supported wire is a row in `data/providers.json` ([`Provider`]): address, variables of the key, default
//! model. If its address is more than a base URL, add a variant to [`Address`]. If it rejects something that others
//! accept, or one of its models does, add a row to `data/profiles.json` ([`profile`]), and a field if there is none.
//!
//! # Add a wire
//! 1. Add a folder in `wire/`: `mod.rs` (`encode`, through `wire::conversation::turns`, which makes every history
//!    valid), `stream.rs` (the provider's types, usage converted to ours, and a `Decoder` that detects the end mark).
//! 2. Add a variant to [`Wire`] and a line to each `match` in `protocol.rs` and `wire/mod.rs`; a field to `AllRules`
//!    (`wire/tool_schema.rs`) and its row to `data/schemas.json`; its examples to `fuzzing`, and a target to `fuzz/`.
//! 3. Store what must be sent back as a [`RawBlock`](houston_domain::history::RawBlock), and add a row to
//!    `tests/recordings/round_trips.rs`.
//! 4. List the recordings that use it in `tests/recordings/streams.rs`.

pub mod cache;
mod call;
pub mod capabilities;
mod client;
mod connection;
pub mod context_budget;
pub mod detect;
pub mod doctor;
mod error;
mod framing;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "tests/fuzzing.rs"]
pub mod fuzzing;
pub mod http;
pub mod ledger;
pub mod metered;
pub mod model;
pub mod price;
pub mod profile;
mod protocol;
pub mod provider;
mod reader;
pub mod routing;
mod scrub;
pub mod secret;
pub mod simulated;
pub mod tokens;
mod wire;

pub use call::{Answer, MISMATCH, call, instruction, more_room, read_result, used_up};
pub use capabilities::Capabilities;
pub use connection::{connect, connect_with};
pub use context_budget::ContextBudget;
pub use detect::detect_all;
pub use http::{Http, Timeouts};
pub use ledger::Ledger;
pub use metered::metered;
pub use model::{
    AnswerSchema, Deferred, Description, Event, EventStream, Image, Model, Request, Submitting, Switch,
    SystemPart, Unavailable,
};
pub use price::Price;
pub use profile::Profile;
pub use protocol::Wire;
pub use provider::{Address, AuthStyle, Choice, Lookup, PROVIDERS, Provider, TokenSource, parse_choice};
pub use routing::breaker::{BreakerPolicy, BreakerState};
pub use routing::fallback::Fallback;
pub use routing::guard::{BreakerStatus, Guards};
pub use routing::latency::Latencies;
pub use routing::retry::{RetryBudgetPolicy, RetryPolicy};
pub use routing::router::{Candidate, Need, Rates, Strategy};
pub use scrub::redacted_address;
pub use secret::{Fingerprint, Secret};
pub use simulated::Simulated;

/// What a file of `data/`, or a part of one, has.
#[expect(clippy::expect_used, reason = "the text is part of this program, and a test reads all of it")]
fn of_data<T: serde::Deserialize<'static>>(text: &'static str) -> T {
    serde_json::from_str(text).expect("a file of `data/` has the shape of its type")
}

#[cfg(test)]
mod tests {
    mod exchanges;
    pub(crate) mod recordings;
}
