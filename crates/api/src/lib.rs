//! HTTP: REST, problem+json and gap-free event streams.
//!
//! Everything a client can do is here: make users and goals, say what agents should know of them, post messages, read what became of them, cancel runs,
//! watch runs as they happen, and copy, write down and empty conversations. It writes facts to Postgres and rings workers; it never drives a run.
//!
//! # Invariants
//! - A message is committed before it is acknowledged; hints and live events come after, and may be lost.
//! - Every query is by tenant. What is not the caller's does not exist: 404.
//! - Every refusal is `application/problem+json` with a stable `code`: one [`ApiError`], rendered in one place. What is
//!   no HTTP/1.1, or has too long a head, is refused by hyper before that: 400, 414 or 431 without a body.
//! - A stream has no gap and no duplicate, wherever it is cut and resumed: the `id` of each frame says exactly
//!   where the client stands. It ends cleanly only after the last event of the last run; otherwise it is aborted.
//! - A stream that was accepted is never failed with a status. A disconnect cancels nothing.
//! - Nothing waits for Redis, and nothing waits for Postgres without a deadline.
//! - What takes longer than some ms to compute is not computed on the runtime's threads.
//! - What was erased is found by nobody from the 202 on, whatever is still to be deleted.
//! - Nothing is unbounded, and what is too much is told so:
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | body of a request | `server.max_body_bytes`, 1 MiB, within 30 s | 413 `body_too_large`, 408 `body_missing` |
//! | nesting of JSON | 128 | 400 `invalid_json` |
//! | message | 256 KiB of UTF-8 | 413 `message_too_large` |
//! | metadata of a message, posted or imported | 16 KiB as JSON | 422 `invalid_request` |
//! | message of an agent that is imported | 1 MiB of UTF-8 | 422 `invalid_request` |
//! | title of a goal, note or feed item, name of a user | 200 characters | 422 `invalid_request` |
//! | description of a goal | 32 KiB | 422 `invalid_request` |
//! | note, feed item | 64 KiB | 422 `invalid_request` |
//! | learning, memory, custom instruction | 2,000 bytes | 422 `invalid_request` |
//! | list of a profile, entry of it | `knowledge.max_profile_entries`, 50; 500 bytes | 422 `invalid_request` |
//! | notes, learnings of an agentable | `knowledge.max_notes`, 1,000; `max_learnings`, 500 | 409 `full` |
//! | memories, custom instructions, feed items of a user | `knowledge.max_memories`, 1,000; `max_custom_instructions`, 50; `max_feed_items`, 10,000 | 409 `full` |
//! | name of an agent or team; its description | 100 characters; 2,000 bytes | 422 `invalid_request` |
//! | role, guidelines of an agent | 6,000 characters each | 422 `invalid_request` |
//! | limits of an agent | those of its kind | 422 `invalid_request` |
//! | agents, teams of a tenant | `teams.limits.agents_per_tenant`, 1,000; `teams_per_tenant`, 200 | 409 `full` |
//! | agents, rules of a team; a pattern | `teams.limits.agents_per_team`, 20; `rules_per_team`, 50; 500 characters, `teams.rules.regex_bytes` (128 KiB) as a compiled regular expression | 422 `invalid_request` |
//! | external id | 255 characters | 422 `invalid_request` |
//! | `Idempotency-Key` | 255 visible ASCII characters | 422 `invalid_idempotency_key` |
//! | conversation that is exported, imported, forked | `server.conversation.max_bytes`, 32 MiB | 413 `too_large`, `body_too_large` |
//! | conversations in memory at once | `server.conversation.max_bytes_at_once`, 64 MiB; of one tenant half | waits for 10 s, then 503 `too_many_documents`, `Retry-After` |
//! | reading an export | within 120 s | the connection is closed |
//! | statistics | of the latest 1,000 runs and 10,000 messages (`server.conversation`) | `more` says so |
//! | page of a list | 20 items, of a thread `server.thread_messages`, 50; 100 at most | 422 `invalid_request` |
//! | part of a long result | 256 KiB | 422 `invalid_request` |
//! | unread messages of one user | `orchestrator.fairness.max_pending`, 10,000 | 429 `too_many_pending`, `Retry-After` |
//! | answering a request | `server.request_timeout_s`, 10 s from when its body is there; `conversation.timeout_s`, 60 s, for exports, imports and forks | 503 `timed_out`, `Retry-After`: what was asked for may have happened |
//! | computing on a thread that serves others | some ms: more is done on threads of its own, 4 at once (`offload`) | it waits its turn |
//! | connections | `server.clients.max_connections`, 20,000, and 200 fewer than open files; from one address 1,000 | closed |
//! | unknown keys | 60 wrong ones of an address in a minute; 1,000 waiting to be looked up, all in one query | 429 `too_many_keys`, `Retry-After`, without a query |
//! | a revoked key | requests and streams: `server.key_cache_s`, 5 s | 401; the stream is aborted |
//! | waiting for a database connection | 2 s | 503 `unavailable`, `Retry-After` |
//! | open streams | `server.max_streams`, 10,000; `max_streams_per_tenant`, 5,000 | 429 `too_many_streams`; who resumes is cut off and comes again |
//! | live items a stream has not taken | 256 or 1 MiB (`houston_queue`), 64 while it reads | the stream is aborted, or reads Postgres |
//! | streams that read Postgres at once | 8; 500 events a page | they take turns |
//! | remembered keys, right and wrong ones; places | 10,000 each; 50,000 | they are looked up anew |
//!
//! # Deliberately absent
//! TLS and HTTP/2 (a proxy's work), CORS, rates of requests with a valid key (what waits is bounded instead), sessions of any kind: a client's position is the client's.
//! Traits for the store or the queue. Retries of what a client asked: it has its idempotency key.
//!
//! # Add an endpoint
//! One file `<resource>/<verb>.rs` with its body type, its handler and a comment that names method and path; the
//! handler takes a `Caller` before everything that reads the body, and has a `#[utoipa::path]` with path, parameters,
//! body and answers; one line in `router` (`routes!`); the shapes clients see are types of `houston_protocol`; a test of
//! each refusal in `tests/it`. The test of `openapi` writes `openapi.json` anew: commit it. A new way to refuse is a
//! variant of [`ApiError`] with its `ProblemCode`.
//!
//! # Add an event
//! Its frames in `events::render`, its effect on open text in `events::cursor`, a line in the script of the
//! cursor's property test.

mod agentable_path;
mod agentables;
mod agents;
mod auth;
mod body;
mod check_ins;
mod compressions;
mod config;
mod connection;
mod conversation;
mod deadline;
mod documents;
mod envelope;
mod erasures;
mod error;
mod events;
mod explain;
mod feed;
mod health;
mod history;
mod idempotency;
mod insight;
mod keys;
mod knowledge;
mod log_throttle;
mod messages;
mod offload;
mod openapi;
mod page;
mod peers;
mod problem;
mod profile;
mod query;
mod router;
mod runs;
mod serve;
mod sessions;
mod state;
mod teams;
mod users;

pub use agents::sources::{AgentSources, ProviderName, ReadFiles};
pub use body::parse;
pub use config::{ClientsConfig, Config, ConversationConfig};
pub use error::ApiError;
pub use explain::{Explain, ExplainError, ExplainTopic};
pub use router::router;
pub use serve::serve;
pub use state::State;
