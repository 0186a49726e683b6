//! The wire format between Houston and its clients: requests and responses, problem codes, AG-UI events, server-sent
//! events, and the schemas of all of them for the OpenAPI document.
//!
//! The API writes these types; the command line, the harness and the tests read them.
//!
//! ```json
//! {"id": "goal_0190…", "user_id": "user_0190…", "title": "A trip to Rome", "status": "working", "run_id": "run_0190…", …}
//! ```
//!
//! # Invariants
//! - Every type that is written can also be read: each derives `Serialize` and `Deserialize`, but for
//!   [`field::FieldsResponse`], which is made of constants, and what only clients of OpenAI read ([`openai`]).
//! - Clients can read newer servers: unknown fields of responses, unknown events, facts and problem codes are accepted.
//! - No I/O and no HTTP framework: bytes in, values out.
//! - Times are RFC 3339 in UTC with milliseconds ([`time::Time`]); costs are decimals as strings, in US dollars.
//!
//! # Deliberately absent
//! - Decisions: which event is rendered as which frame, and which key may access what, is decided by the API.
//! - The decoder of providers' streams: the one in `houston_llm` lends events out of its buffer, never resumes, has
//!   other limits, and ignores ids and `retry`.
//! - A client: the command line has one, and the harness another that counts bytes.
//!
//! # Add an event
//! 1. Add a variant to [`agui::Event`], or to [`agui::Fact`] for a `CUSTOM` event of Houston, with an example in
//!    its docs.
//! 2. Add a line to the test that reads back what is written.
//! 3. Render it in `api::events::render`.
//!
//! # Add a request or a response
//! 1. Add a type to the file of its noun; what the store returns has its type in `houston-domain`. `CreateX` and
//!    `UpdateX` refuse unknown fields, `XResponse` does not. Each derives `ToSchema`, as types of the domain do, which the
//!    document describes with the same feature.
//! 2. Name it among the `endpoints!` of its file.
//! 3. Run `cargo test --workspace --features houston-api/openapi --test openapi`: it rewrites the OpenAPI document, and
//!    fails if the document has changed. `cargo xtask check` runs it too.
//!
//! # Add a problem code
//! Add a line to [`problem::ProblemCode`]: meaning, name, status. `ApiError` in the API decides when it is used.

pub mod a2a;
pub mod agent;
pub mod agentable;
pub mod agui;
pub mod ai_sdk;
pub mod attachment;
pub mod check_in;
pub mod client_token;
pub mod cloud_event;
pub mod conversation;
pub mod error_group;
pub mod feed;
pub mod field;
pub mod guard;
pub mod health;
pub mod inbound_hook;
pub mod key;
pub mod kind;
pub mod knowledge;
pub mod mcp;
pub mod mcp_server;
pub mod message;
pub mod model;
pub mod openai;
pub mod overview;
pub mod page;
pub mod plan;
pub mod problem;
pub mod question;
pub mod queue;
pub mod read_mark;
pub mod run;
pub mod run_list;
pub mod session;
pub mod skill;
pub mod sse;
pub mod table;
pub mod team;
pub mod tool_source;
pub mod trigger;
pub mod usage;
pub mod user;
pub mod webhook;
pub mod why;
pub mod worker;

#[cfg(feature = "openapi")]
pub use houston_domain::schema;
pub use houston_domain::{owner, time};
