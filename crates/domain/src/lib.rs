//! Ids, entities, events and decisions of Houston, free of I/O: the agent loop as a state machine
//! ([`agent::AgentRun`]), stop rules, retry arithmetic, and the [`clock::Clock`] that other crates take as an argument.
//!
//! # Invariants
//! - Nothing here uses a socket, a file, the system clock or system randomness. The two exceptions,
//!   [`clock::SystemClock`] and [`id::Ids`], are passed in as arguments.
//! - Every prefix of the history that a run emits passes [`history::validate`].
//! - A durable [`event::Event`] refers to messages by id; it does not repeat their text.
//!
//! # Deliberately absent
//! Traits for storage or queues (there is one implementation of each), the AG-UI wire format (crate `protocol`), SQL,
//! HTTP.
//!
//! # Add an event
//! 1. Add a variant to [`event::Event`].
//! 2. Render its frames in `api::events::render`.
//! 3. If it ends an iteration, add a line to the test of the stream cursor (`api::events::cursor`).

// The modules below use their macros.
#[macro_use]
mod names;
#[macro_use]
pub mod setting;

pub mod agent;
pub mod agent_settings;
pub mod agentable;
pub mod analysis;
pub mod answering;
pub mod api_key;
pub mod attachment;
pub mod audit;
pub mod autonomy;
pub mod bounded_regex;
pub mod budget;
pub mod capability;
pub mod cell;
pub mod check_in;
pub mod claim;
pub mod client_offer;
pub mod clock;
pub mod code_call;
pub mod compression;
pub mod conversation;
pub mod custom_table;
pub mod date_math;
pub mod death;
pub mod ended;
pub mod erasure;
pub mod error_group;
pub mod error_message;
pub mod event;
pub mod fallback;
pub mod field;
pub mod focus;
pub mod frame;
pub mod guard;
pub mod health;
pub mod history;
pub mod id;
pub mod image;
pub mod inbound_hook;
pub mod inert;
pub mod inner_call;
pub mod intervention;
pub mod issuer;
pub mod jwt;
pub mod knowledge;
pub mod lane_service;
pub mod lane_work;
pub mod local_time;
pub mod masks;
pub mod mcp_server;
pub mod message;
pub mod mode;
pub mod model;
pub mod model_policy;
pub mod nullable;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod overseer;
pub mod owner;
pub mod plan;
pub mod post;
pub mod profile;
pub mod quarantine;
pub mod question;
pub mod rate;
pub mod reach;
pub mod read_mark;
pub mod retry;
pub mod run;
pub mod runtime_state;
pub mod schedule;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod scope;
pub mod sealed;
pub mod session;
pub mod settable;
pub mod shared_state;
pub mod skill;
pub mod snippet;
pub mod statistics;
pub mod step;
pub mod storable;
pub mod submission;
pub mod task;
pub mod team;
pub mod time;
pub mod title;
pub mod todo;
pub mod tool_call;
pub mod tool_result;
pub mod tool_schema;
pub mod tool_source;
pub mod trace;
pub mod transform;
pub mod trigger;
pub mod unread;
mod updatable;
pub mod usage;
pub mod visible;
pub mod webhook;
pub mod why;
pub mod worker;
pub mod workspace;
