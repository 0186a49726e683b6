//! The words and decisions of Houston, free of I/O: ids, entities, events, the agent loop as a state machine,
//! stop rules, retry arithmetic, and the clock everything else is handed.
//!
//! # Invariants
//! - Nothing here touches a socket, a file, the machine's time or its randomness; [`clock::SystemClock`] and
//!   [`id::Ids`] are the two doors, and both are passed in.
//! - Every prefix of the history a run emits passes [`history::validate`].
//! - A durable [`event::Event`] names rows; it never repeats their text.
//!
//! # Deliberately absent
//! Traits for storage or queues (there is one of each), AG-UI (the wire format lives in `api`), SQL, HTTP.
//!
//! # Add an event
//! A variant in [`event::Event`], its frames in `api::events::render`, and, when it ends an iteration, a line in the
//! stream cursor's test.

pub mod agent;
pub mod agent_settings;
pub mod agentable;
pub mod autonomy;
pub mod capability;
pub mod check_in;
pub mod clock;
pub mod compression;
pub mod conversation;
pub mod error_message;
pub mod event;
pub mod frame;
pub mod health;
pub mod history;
pub mod id;
pub mod intervention;
pub mod knowledge;
pub mod local_time;
pub mod message;
pub mod mode;
pub mod model;
pub mod retry;
pub mod run;
pub mod schedule;
pub mod session;
pub mod runtime_state;
pub mod statistics;
pub mod storable;
pub mod task;
pub mod team;
pub mod title;
pub mod tool_call;
pub mod tool_result;
