//! The HTTP API: REST, `application/problem+json` errors and event streams without gaps.
//!
//! Clients create users and goals, manage what agents know, post messages, read their status, cancel runs, watch runs
//! as they happen, and export, import, fork and reset conversations. The crate writes to Postgres and sends hints to
//! workers; it never drives a run. Entry points: [`State`], then [`serve()`] or [`router()`].
//!
//! # Invariants
//! - A message is committed before it is acknowledged; hints and live events are sent afterwards and may be lost.
//! - Every query is restricted to the caller's tenant: the rows of tenants are behind a `TenantStore`, which only
//!   authentication can make (`caller`, `state::keys`), and who has the database itself (`local`). Resources of other tenants
//!   are 404.
//! - Every endpoint states what it needs of the key (`request::access`): a scope, and whose resource its path names. What is not
//!   the caller's is 404; a missing scope is 403. A test tries every operation of the document with every scope.
//! - Every error response is `application/problem+json` with a stable `code`: an [`ApiError`], rendered by `envelope`.
//!   Only requests that are not HTTP/1.1 or have too long a head are refused earlier, by hyper: 400, 414 or 431 without
//!   a body.
//! - A stream has no gaps and no duplicates, wherever it is interrupted and resumed: the `id` of each frame is the
//!   exact position of the client. It ends cleanly only after the last event of the last run; otherwise it is aborted.
//! - An accepted stream never fails with a status. A disconnect cancels nothing.
//! - Nothing waits for Redis, and nothing waits for Postgres without a deadline.
//! - Computations of more than a few ms do not run on the runtime's threads.
//! - Erased resources are 404 from the 202 on, even while their rows are still being deleted.
//! - Everything has a limit, and exceeding it is reported:
//!
//! | what | limit | beyond it |
//! |---|---|---|
//! | body of a request | `server.max_body_bytes`, 1 MiB, within 30 s | 413 `body_too_large`, 408 `body_missing`; 400 `broken_body` if it is not framed as HTTP says |
//! | nesting of JSON | 128 | 400 `invalid_json` |
//! | message | 256 KiB of UTF-8 | 413 `message_too_large` |
//! | images of a message; one image; those of a user | `server.images.max_per_message`, 4; 3,750,000 bytes, 8,000 pixels on a side; `max_bytes_of_user`, 256 MiB | 422 `invalid_request`; 409 `full` |
//! | body of a message with images | 5 MB for each image that it may have, besides `server.max_body_bytes`; bodies beyond that need a `Content-Length` | 413 `body_too_large` |
//! | a request of an OpenAI client that waits for the end of a run | `server.wait_s`, 600 s | the response as it is; a chat completion 503 `timed_out` |
//! | tools' arguments and results that one response repeats | 2 MiB | later ones are left out |
//! | a file for messages; those of one message; of a user | 20,000,000 bytes within `server.attachments.upload_timeout_s`; `max_per_message`, 8; `max_bytes_of_user`, 1 GiB | 413 `body_too_large`, 408 `body_missing`; 422 `invalid_request`; 409 `full` |
//! | files that are being posted, in memory at once | `server.attachments.max_bytes_at_once`, 64 MiB; half of that per tenant | waits for 10 s, then 503 `too_many_documents`, `Retry-After` |
//! | metadata of a message, posted or imported | 16 KiB as JSON | 422 `invalid_request` |
//! | message of an agent that is imported | 1 MiB of UTF-8 | 422 `invalid_request` |
//! | tools of a client for a run; its context | 64, 64 KiB as JSON; 32 items, 32 KiB | 422 `invalid_request` |
//! | thread id of a client | 200 characters | 422 `invalid_request` |
//! | answers in one request of an AG-UI or AI SDK client | 100 | 422 `invalid_request` |
//! | title of a goal, note or feed item, name of a user | 200 characters | 422 `invalid_request` |
//! | description of a goal | 32 KiB | 422 `invalid_request` |
//! | note, feed item | 64 KiB | 422 `invalid_request` |
//! | learning, memory, custom instruction | 2,000 bytes | 422 `invalid_request` |
//! | list of a profile, entry of it | `knowledge.max_profile_entries`, 50; 500 bytes | 422 `invalid_request` |
//! | notes, learnings of an agentable | `knowledge.max_notes`, 1,000; `max_learnings`, 500 | 409 `full` |
//! | files of an agentable, written by its agent | `knowledge.files.max_files`, 1,000; `max_bytes`, 16 MiB; 1 MiB each | the tool refuses; an import 422 `invalid_request` |
//! | texts of a todo | as `GET /v1/fields/todo` says | 422 `invalid_request` |
//! | todos of a user | `knowledge.max_todos`, 1,000 | 409 `full` |
//! | custom tables of a user; their fields | `knowledge.tables.max_tables`, 50; `max_fields`, 40 | 409 `full`; 422 `invalid_request` |
//! | records of a custom table | `knowledge.tables.max_records`, 10,000; 16 KiB each, 4 MiB together; 100 in one request | 409 `full`, 413 `too_large`, 422 `invalid_request` |
//! | memories, custom instructions, feed items of a user | `knowledge.max_memories`, 1,000; `max_custom_instructions`, 50; `max_feed_items`, 10,000 | 409 `full` |
//! | snippets of a user, written by its agents | `knowledge.max_snippets`, 200; 40,000 characters each | the tool refuses |
//! | name of an agent or team; its description | 100 characters; 2,000 bytes | 422 `invalid_request` |
//! | role, guidelines of an agent | 6,000 characters each | 422 `invalid_request` |
//! | limits of an agent | those of its kind | 422 `invalid_request` |
//! | agents, teams of a tenant | `teams.limits.agents_per_tenant`, 1,000; `teams_per_tenant`, 200 | 409 `full` |
//! | agents, rules of a team; a pattern | `teams.limits.agents_per_team`, 20; `rules_per_team`, 50; 500 characters, `teams.rules.regex_bytes` (128 KiB) as a compiled regular expression | 422 `invalid_request` |
//! | tool sources of a tenant; a document, its secrets | 50; 256 KiB, 20 of 8 KiB each | 409 `full`; 422 `invalid_request` |
//! | MCP servers of a tenant; of a user; headers of one | 20 each; 20 of 8 KiB each | 409 `full`; 422 `invalid_request` |
//! | listing the tools of an MCP server | 8 s | 502 `mcp_server_failed` |
//! | a login at an MCP server | 10 minutes, one of each account | 404 on the page |
//! | approved definitions of an MCP server | 512 KiB of JSON | 422 `invalid_request` |
//! | links of a question | 20 | 409 `full` |
//! | skills of a tenant; of a user | `knowledge.skills.max_of_tenant`, 100; `max_of_user`, 50 | 409 `full` |
//! | a skill; its files | 256 KiB; 50 of 128 KiB, together 512 KiB | 422 `invalid_request` |
//! | client token | 1 to 1,440 minutes, 60 by default; 1 to 100 agentables or all of one user | 422 `invalid_request` |
//! | JWT | 8 KiB; 8 audiences; RS256, ES256, EdDSA; ends at `exp`, `nbf` may be 60 s ahead | 401 `unauthorized` |
//! | public keys of an issuer | 64 KiB within 5 s; read once an hour, for an unknown `kid` once a minute; used for a day while the issuer is down | the old ones are used; without any, 503 `unavailable`, `Retry-After` |
//! | external id | 255 characters | 422 `invalid_request` |
//! | `Idempotency-Key` | 255 printable ASCII characters | 422 `invalid_idempotency_key` |
//! | exported, imported or forked conversation | `server.conversation.max_bytes`, 32 MiB | 413 `too_large`, `body_too_large` |
//! | conversations, and long bodies or fetched images of messages, in memory at once | `server.conversation.max_bytes_at_once`, 64 MiB; half of that per tenant | waits for 10 s, then 503 `too_many_documents`, `Retry-After` |
//! | reading an export | within 120 s | the connection is closed |
//! | statistics | over the latest 1,000 runs and 10,000 messages (`server.conversation`) | `more` is true |
//! | page of a list | 20 items by default (`server.thread_messages`, 50, for a thread), at most 100 | 422 `invalid_request` |
//! | part of a long result | 256 KiB | 422 `invalid_request` |
//! | requests of a user that start work | `rates.requests`, 20 a minute; `rates.keys` for each API key, off | 429 `rate_limited`, `Retry-After` |
//! | tokens of a user's runs | `rates.tokens`, 30,000 a minute | new runs wait (`houston.rate.limited`), or 429 `rate_limited` |
//! | unread messages of one user | `orchestrator.fairness.max_pending`, 10,000 | 429 `too_many_pending`, `Retry-After` |
//! | waiting of an A2A client for its task; of an MCP client for a run | 50 s | the task, or the run, as it is |
//! | texts of a task; a message as an MCP client reads it | 4 MiB, 5,000 events; 16,000 characters | `truncated` |
//! | tasks on a page of A2A | 20 by default, at most 50 | `INVALID_PARAMS` beyond 100 |
//! | answering a request | `server.request_timeout_s`, 10 s from the end of its body; `conversation.timeout_s`, 60 s, for exports, imports and forks | 503 `timed_out`, `Retry-After`: a change may have been made |
//! | computing on the runtime's threads | a few ms; longer work runs on blocking threads, 4 at once (`offload`) | it waits |
//! | connections | `server.clients.max_connections`, 20,000, and 200 fewer than the limit on open files; 1,000 per address | closed |
//! | unknown keys, wrong approval links | 60 wrong keys per address and minute; 1,000 waiting to be looked up, all in one query | 429 `too_many_keys`, `Retry-After`, without a query |
//! | use of a key that was revoked or has expired, for requests and streams | `server.key_cache_s`, 5 s | 401; the stream is aborted |
//! | waiting for a database connection | 2 s | 503 `unavailable`, `Retry-After` |
//! | runs that a page of all runs reads; runs of a bulk request; those that a dry run counts | 20,000; 100; 10,000 | `next_cursor` |
//! | failed runs in groups of errors; groups | the latest 10,000; 200 | `capped` |
//! | ended runs whose cost is summed; users, agents, models | the latest 20,000; 50 of each | `capped` |
//! | waiting agentables and ended runs that are counted; workers in a list | 20,000 and 100,000; 1,000 | `capped` |
//! | old events, history and model calls | `health_monitor.retention`, for ever | they are deleted; 410 `event_log_expired` |
//! | records of the audit log | `health_monitor.requests.audit_s`, 90 days | they are deleted |
//! | waiting for a run (`?wait=`) | 60 s; counts as an open stream | the run as it is then |
//! | answer with an `ETag` | 1 MiB of JSON | it has none |
//! | threads, messages of a thread that are counted as unread | the newest 200, 100 | `has_more`; older ones are not counted |
//! | open streams | `server.max_streams`, 10,000; `max_streams_per_tenant`, 5,000 | 429 `too_many_streams`; a client that resumes is disconnected and reconnects |
//! | triggers of a user; firings of one | 100, 50 words or 20 patterns each; `triggers.per_hour`, 60, and 3 that cause each other | 409 `full`; it is refused and counted |
//! | webhooks; inbound hooks | 100 per tenant, 20 patterns each; 20 per agentable | 409 `full` |
//! | what is posted to an inbound hook | 64 KiB within 30 s, signed at most 5 minutes ago; wrong signatures count as wrong keys | 413 `body_too_large`, 401 `invalid_signature` |
//! | pages of new events waiting for a stream of all events | 64; it resumes over at most 10,000,000 transactions | the stream is aborted; 422 `invalid_request` |
//! | live items waiting for a stream | 256 or 1 MiB (`houston_queue`); 64 while it reads Postgres | the stream is aborted; it reads Postgres once more |
//! | streams that read Postgres at once | 8; 500 events per page | they wait |
//! | cached valid keys, invalid keys; agentables | 10,000 each; 50,000 | the cache is cleared |
//!
//! # Rooms
//! Each uses only those below it, and those to its right:
//!
//! ```text
//!  serve, local, cells, router connections; commands of the operator; the cells of an installation; all routes
//!  mcp, envelope, etag         MCP as a server, which calls the routes; what is around every answer
//!  dialects                    AG-UI, AI SDK, OpenAI, A2A: a thread in the words of a client
//!  events                      event streams
//!  resources                   one file a resource
//!  request                     what handlers take: caller, path, query, body, keys, rates; how endpoints are declared
//!  state                       what the process holds: settings, caches, limits, open streams
//!  caller, error, wiring       who sends a request; the errors; what the process that wires the crate provides
//!  admission, deadline         places and time limits of requests
//! ```
//!
//! # Deliberately absent
//! TLS and HTTP/2 (left to a proxy), server-side
//! client sessions (clients keep their stream position), traits for the store or the queue, retries of client requests
//! (clients retry with an idempotency key).
//!
//! # Add an endpoint
//! In the file of its resource, `resources/<resource>.rs`: among its `endpoints!`, whose grammar is in `request/endpoint.rs`,
//! method, path, what it needs of the key (`request::access`), parameters, body and responses; its handler, which takes a
//! `Ctx` (the process, and the caller) before anything that reads the body. `USER` does not look whether the user exists: a
//! query that begins with `houston.users`, or `ctx.store().user(id)`, makes an unknown one a 404. The `ENDPOINTS` of a new
//! file are named in `router`.
//!
//! Besides: a type that the store returns in `houston_domain::<noun>`, one that the handler makes in
//! `houston_protocol::<noun>`; queries in `houston_store` ("Add a query" there); and a test of what it answers and of each
//! error in `tests/it`. A new error is a variant of [`ApiError`] with its `ProblemCode`. At the end
//! `cargo test --workspace --features houston-api/openapi --test openapi`, which rewrites `openapi.json`: commit it.
//!
//! # Add an event
//! Its frames in `events::render`, its effect on open text in `events::cursor`, and a line in the script of the
//! cursor's property test.

mod admission;
mod caller;
mod cells;
mod deadline;
mod dialects;
mod envelope;
mod error;
mod etag;
mod events;
mod local;
mod mcp;
mod metrics;
#[cfg(feature = "openapi")]
pub mod openapi;
mod request;
mod resources;
mod router;
mod serve;
mod state;
mod wiring;

pub use error::ApiError;
pub use local::{Local, LocalError};
pub use metrics::{Scrape, serve_metrics};
pub use request::body::parse;
pub use router::{router, undocumented_paths};
pub use serve::{serve, serve_with};
pub use state::State;
pub use state::config::{ClientsConfig, Config, ConversationConfig};
pub use state::cors::{CorsConfig, InvalidOrigin, Origin};
pub use state::peers::carry_client;
pub use wiring::{
    AgentSources, BegunForeignLogin, Explain, ExplainError, ExplainTopic, ForeignServer, ForeignServers,
    ModelCatalogue, ProviderName, ReadFiles, RefusedSetting, ReturnedLogin,
};
