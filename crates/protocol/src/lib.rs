//! What crosses the wire between Houston and its clients: requests and responses, problem codes, AG-UI events,
//! server-sent events; and the schemas of all of them for the OpenAPI document.
//!
//! The API writes these types, and the command line, the harness and the tests read them: one type for one thing.
//!
//! # Invariants
//! - A type that is written here can be read here: each derives `Serialize` and `Deserialize`.
//! - Reading is open to newer servers: unknown fields of responses, unknown events, facts and problem codes are accepted.
//! - No I/O, no HTTP framework: bytes in, values out.
//! - Times are RFC 3339 in UTC with milliseconds ([`time::Time`]); costs are decimals as strings, in US dollars.
//!
//! # Deliberately absent
//! - Decisions: which event becomes which frame is the API's work, which key opens which door too.
//! - The decoder of providers' streams: `houston_llm` lends events out of its buffer, is never resumed, and has other
//!   limits. Ids and `retry` mean nothing there.
//! - A client: the command line has one, the harness another that counts bytes.
//!
//! # Add an event
//! A variant of [`agui::Event`] (or, of a fact of Houston's own, of [`agui::Fact`]) with an example in its
//! documentation, and a line in the test that reads back what is written. The API makes it in `events::render`.
//!
//! # Add a request or a response
//! A type in the file of its noun: `CreateX` and `UpdateX` refuse unknown fields, `XResponse` does not; each derives
//! `ToSchema`, with `value_type` from [`schema`] for types of the domain. The API's handler names it in its
//! `#[utoipa::path]`; `cargo test -p houston-api` writes the document anew and says so.
//!
//! # Add a problem code
//! A line in [`problem::ProblemCode`]: name, status, meaning. The API's `ApiError` says when it is used.

pub mod agent;
pub mod agentable;
pub mod agui;
pub mod check_in;
pub mod conversation;
pub mod erasure;
pub mod feed;
pub mod health;
pub mod knowledge;
pub mod message;
pub mod owner;
pub mod page;
pub mod problem;
mod problem_code;
pub mod run;
pub mod schema;
pub mod session;
pub mod sse;
pub mod team;
pub mod time;
pub mod user;
