//! MCP servers as tools: programs and addresses that the operator names speak the Model Context Protocol, over stdio or
//! HTTP, and their tools become tools of agents. Tenants and users name servers over HTTP, too ([`own`]).
//!
//! ```text
//! jobs/mcp.toml ─┐
//! mcp_pins.json ─┴→ Pool::new → Pool::tools() → Registry::add → Offer            (no process is started)
//!                     the first call of a tool → Server::call → Connection        (the process is started, or a session)
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | [`settings`] | [`McpSettings`]: what `jobs/mcp.toml` says |
//! | [`catalogue`] | servers that work with Houston, as `houston mcp add` writes them |
//! | [`listed`] | [`Listed`]: a tool as a server lists it: cleaned, checked, with its pin |
//! | [`pins`] | [`Pins`]: the tools that a person has approved |
//! | [`trust`] | effect class and facts of a tool: a pure function |
//! | [`server`] | [`Server`]: starts its process or session when it is needed, pauses after failures, stops it when idle |
//! | [`pool`] | [`Pool`]: the servers of a process, and their tools, under names that models accept |
//! | [`own`] | [`own::OwnPool`]: servers of tenants and users, over HTTP |
//! | `oauth` | logins at such servers, and the renewal of tokens |
//!
//! # Invariants
//! - A process is started from the operator's file only, never from what a tenant, a page or a model says. It gets `PATH`,
//!   a `HOME` of its own, and the variables that its settings name; nothing else of the environment.
//! - Every process is the leader of a process group. The group is killed when the connection ends, for whatever reason,
//!   and when Houston's runtime ends. A process of a killed Houston reads the end of its input.
//! - A model reads the definition of a tool that a person approved, with the name, the description and the schema of that
//!   time. A tool whose definition has changed since, or that was not approved, is not called.
//! - What a server says of its own tools lowers nothing, unless the operator trusts its hints.
//! - A server is reached over HTTP through the guarded client of `houston-web`: on the public internet, or at an address
//!   that the operator calls private. Its secrets are the values of variables, in headers that no log has; they follow no
//!   redirect, and leave over https unless the address is private.
//! - A server of the operator is shared by all tenants. It does not learn for whom it is called.
//! - A server of a tenant or a user is reached over HTTP only, with the headers of its owner, in one session per user; its
//!   owner's connections have a limit of their own, and its start holds up no other. Its tenant reads why it fails, without
//!   its secrets; the log does not have the words of its server.
//! - A token is sent to the address that it was got for, and renewed by one process at a time: a refresh token works once.
//! - A call ends: with an answer, at its time-out, which covers a start, too, when its process ends, or when the answer is
//!   too large. An error says that it may have happened unless it was not sent.
//! - A server that answers nothing after a call timed out is started again. A start is ended by no caller.
//! - A question of a server (2026-07-28) is a question of the run, and nothing is held open for it: the call is sent again
//!   with the answer, once. A task that a call has begun is committed with the call before it is asked for, and is cancelled
//!   with its run.
//! - All that a server answers was written by others, and its tools are marked accordingly.
//! - `rmcp` is used in `connection` and `http`, and its types in `answer`, `asked`, `call`, `listed` and `server`;
//!   nowhere else in Houston.
//!
//! # Deliberately absent
//! - `Discover` without the operator's word (`protocol` in mcp.toml): programs built on rmcp before version 3 exit when they
//!   are probed. Sampling and roots: a server must not spend our tokens. A question in the middle of a call, from a server
//!   with a handshake, is declined: its connection cannot be stored until a person answers.
//! - `reqwest` below rmcp: a request would go around the guarded client.
//! - A stream for what a server says by itself over HTTP: it would hold a connection per worker. Its tools are listed again
//!   from time to time, and at the start of each session. A stream that breaks is not resumed: the call has failed.
//! - OAuth for servers of the operator: their keys are in the environment. OAuth with client secrets that a person registers.
//! - Retries: an answer that is missing may mean that it happened. The run decides.
//!
//! # Add a server
//! `houston mcp add <name>` for one of `jobs/catalogue.toml`, `houston mcp add <address>` for one over HTTP, or a table in
//! `mcp.toml` and `houston mcp approve <name>`.
//! A server for everybody is an entry in `jobs/catalogue.toml`.

mod answer;
mod asked;
mod call;
pub mod catalogue;
mod connection;
mod error;
mod http;
pub mod listed;
mod mended;
mod oauth;
pub mod own;
mod owner;
pub mod pins;
pub mod pool;
mod process;
mod schema;
pub mod server;
pub mod settings;
mod surroundings;
mod text;
mod tool;
pub mod trust;

pub use catalogue::Catalogue;
pub use error::{CallError, StartError};
pub use listed::Listed;
pub use pins::{Pin, Pins};
pub use pool::Pool;
pub use server::Server;
pub use settings::{McpSettings, Protocol, ServerSettings, ToolOverride, Trust};
pub use surroundings::Surroundings;
