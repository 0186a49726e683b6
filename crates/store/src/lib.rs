//! Storage: every durable fact of Houston is a row in Postgres, and this crate is the only one that reads or writes
//! them.
//!
//! # Who may do what
//! A [`Store`] opens the database and makes handles, each with the methods of one kind of caller:
//!
//! | handle | for | made by |
//! |---|---|---|
//! | [`RunStore`] | engine and worker: claims, steps behind the fence, sweeps, health | [`Store::runs`] |
//! | [`TenantStore`] | a request of a tenant; its methods take no tenant, they use the handle's | [`ApiStore::tenant`], [`Store::tenant`], [`RunStore::tenant`] |
//! | [`ApiStore`] | what the API needs without a tenant: keys, readiness, positions of streams | [`Store::api`] |
//! | [`OperatorStore`] | commands of the operator, over all tenants | [`Store::operator`] |
//!
//! The API has an [`ApiStore`] only. So it can neither claim nor commit, and a query of a request without a tenant does
//! not compile: a [`TenantStore`] is made for the [`Principal`](api_key::Principal) of a key that was read from
//! Postgres or that an [`OperatorStore`] has made for a command, or for a link to a question ([`approval_links`]) or an inbound hook ([`inbound_hook`]) that was. A test compares the queries that a [`TenantStore`] reaches with this: each has a condition on `tenant_id`.
//! Should one lack it, [`row_security`] still hides the rows of other tenants: the field `pool` of a [`TenantStore`] begins
//! transactions that Postgres restricts to the tenant.
//! All handles share connections and batches; making one allocates nothing.
//!
//! # Wings
//! One folder for each purpose. Callers name the noun (`houston_store::claim::Fence`), not its wing.
//!
//! | wing | has | for |
//! |---|---|---|
//! | `run` | claims, steps, tools' rows, leases, sweeps; messages, events, history, tasks, costs | engine, worker; api reads and posts, and asks for cancels |
//! | `session` | closed sessions, their summaries and search; titles | engine, worker; api reads |
//! | `knowledge` | knowledge items (notes, learnings, memories, custom instructions, feed items), profiles, snippets; todos; custom tables and their records; images, attachments; files of workspaces | api; runs through [`record::RecordTx`] |
//! | `tenant` | keys, users, agents, teams, agentables; creating and erasing them | api, cli; worker erases |
//! | `conversation` | documents: export, import, reset | api, cli |
//! | `delivery` | webhooks and their deliveries, push notifications of tasks, replays, inbound hooks | worker reads events and sends; api changes and lists |
//! | `schedule` | check-ins, feeds and triggers | worker starts them; api and runs set them |
//! | `health` | what the health monitor looks at and repairs | worker; api reads the results |
//! | `operate` | what operators look at and change: the work in the lanes, workers, the runs of a tenant, their errors and costs; the audit log | api, cli |
//!
//! Beside the wings: the handles, the pool with its settings, the schema, batches, errors.
//!
//! # How a run uses it
//! 1. [`TenantStore::post_message`] stores a message and opens a run. In a process with a worker it may claim the run too
//!    ([`direct_start`]).
//! 2. [`RunStore::claim`] takes the lock and returns a [`claim::Fence`], and what the run starts from if that can be read
//!    before the claim; otherwise [`RunStore::run_context`] reads it.
//! 3. [`RunStore::commit`] writes each [`Step`](houston_domain::step::Step) behind the fence. A tool that writes Houston's own tables does so in
//!    a [`record::FencedTx`] from [`RunStore::begin_fenced`], which is committed together with the step.
//! 4. The last step ([`RunTransition::Complete`](houston_domain::step::RunTransition::Complete), …) ends the run and releases the lock.
//!
//! [`RunStore::due`] finds runs whose hint was lost, [`RunStore::reap`] and [`RunStore::orphans`] those of dead workers.
//!
//! # Errors
//! Every query can fail with [`Error::Database`], and what names a row with [`Error::NotFound`] if the tenant has no such
//! row: functions say only what else can happen. [`Error::is_transient`] says whether the same call may succeed a moment
//! later; the writes of a run may be repeated, because each carries a write id.
//!
//! # Invariants
//! - Every write of a run goes through [`RunStore::commit`] (or a [`record::FencedTx`]): it first locks the
//!   agentable's row in `run_locks` by epoch and token, and changes nothing when the caller's claim has been
//!   superseded (a zombie).
//! - Posts, new plans, claims and steps are written in batches: a statement writes what was submitted while the one before it ran,
//!   waits for no lock, and leaves out what does not fit. What it leaves out is written alone, and so is every item of a
//!   batch that fails: no item suffers from another. The contexts of runs and the events of streams are read in batches
//!   as well. Each kind of batch has connections of its own, which are not in the pool.
//! - Positions (`seq`, `position`) are handed out under that row's lock, so they have no gaps and no reader can
//!   overtake a slow writer. Across agentables, [`event::EventPosition`] is a snapshot of transactions.
//! - What follows from another row is not stored again: events from messages and runs
//!   ([`houston_domain::event::derived`]), the text of an entry from a message. Read the history through the view
//!   `entries`, and streams through [`TenantStore::events_after`].
//! - A transaction that gives an agentable a reason to run also sets `wake`; the sweep reads nothing else. A lost
//!   hint costs seconds.
//! - Leases are compared with the database's clock only.
//! - At most [`Fairness::max_running`] runs of one user are held at once, over all workers: each in a slot of its own, and a
//!   claim tries the numbers that are free ([`houston_domain::claim`]). It waits for no other claim. Runs over that limit
//!   stay awake: the step that ends one of the user's runs returns them ([`step::CommittedStep::waiting`]), and the sweep
//!   finds them too.
//! - Waiting work is found by the index `run_locks_awake (user_id, due_at) where wake`, held runs by `runs_held
//!   (held_for, slot)`; neither query reads anything else, however many rows there are.
//! - A session is closed under its agentable's row lock, while no run is held, by moving `session_position`;
//!   entries belong to a session by their position. The sweep for quiet sessions reads the index
//!   `session_states_due`, which holds only candidates.
//! - A run that waits has no holder and no slot, and its agentable is not awake. What gives it a reason to go on sets
//!   `wake` under the lock row, and clears `next_attempt_at`, which was the time until which it waited. The step that waits
//!   checks both, and the questions it waits for, under the same row.
//! - No transaction stays open across a model or tool call.
//!
//! # The order of locks
//! A transaction that locks rows of several kinds, or several rows of one, takes them in this order; rows of one kind by id. So no
//! two wait for each other. One that already holds a later one does not wait for an earlier one: it takes it `nowait` or with
//! `skip locked`, and is repeated.
//! - `run_locks` of agentables: the lowest first (the executor, the plan, the agentable that the plan works for), then what
//!   belongs to the run (`runs`, `questions`, `plans`, `plan_steps`).
//! - `webhooks`, `open_deliveries`, `deliveries`; `replays` after `webhooks`.
//! - `agents`, `teams`, `team_agents`.
//!
//! # Deliberately absent
//! A trait in front of Postgres (there is one implementation), an ORM, queries built from strings, caches.
//!
//! # Add a table
//! 1. A migration `migrations/<time>_<what>.sql`: tables and indexes (one-way; expand, then contract). `<time>` is later than
//!    that of all others, `YYYYMMDDhhmmss`. One that was in a release is never edited.
//! 2. A file named after the noun, in the wing of its purpose, with an `impl` of the handle whose callers need it.
//! 3. A `tenant_id` column. [`Store::migrate`] gives each table with this column its policy; one without it is decided about in
//!    `row_security.sql` and the test `row_security.rs`.
//!
//! # Add a query
//! A method of the handle, in the file of its noun. The text of its `query!` begins with the comment
//! `-- store::<noun>::<function>`, a name of its own, which identifies it in `pg_stat_statements` and in the plan tests. In a
//! [`TenantStore`] each table that it reads is restricted by `tenant_id = $1`. A computed column that is never null is named
//! `"name!"`. `cargo xtask prepare` then refreshes `.sqlx`, without which nothing compiles: after each change of a query or a
//! column.
//!
//! # Add a column
//! As `details` of todos, in four files:
//! 1. A migration with a default, because processes of the previous release write rows during an upgrade. A text that may be
//!    missing is `not null default ''`; empty says that there is none.
//! 2. `domain/src/<noun>.rs`: a field of its types, which of todos are also what requests and responses have (those of other
//!    nouns are in `houston_protocol::<noun>`), and, if it may be changed, of `FIELDS` there or in `updatable.rs`. A line has a
//!    maximum of characters, a longer text one of bytes.
//! 3. The queries of the noun here: those that insert, list, find and change, the text that a search reads, and `writes`, which
//!    marks what strangers wrote.
//! 4. The tool that reads and writes it, in `tools/src/builtin/`.
//!
//! Besides, a test in `tools/tests/it` and in `api/tests/it`, and what is generated: `cargo xtask prepare`,
//! `UPDATE_SNAPSHOTS=1 cargo xtask test -p tools definitions`, and
//! `cargo test --workspace --features houston-api/openapi --test openapi`.
//!
//! # Let a tool use rows
//! A method of [`record::RecordTx`] with the tenant and owner of its run, or of [`Knowledge`]. It returns rows or a typed refusal; what the model
//! reads is the tool's. A further kind of knowledge needs none: it is a row of `knowledge_items`, and its names, owner and
//! limit are in `houston_domain::knowledge`.
//!
//! # Change a function
//! Edit its file `migrations/functions/<name>.sql`, which begins with a comment that says what the function does. The
//! file is compiled into the binary, and [`Store::migrate`] applies it if it differs from what the database has, after
//! the migrations; a function whose file was deleted is dropped. During an upgrade, processes of the previous release
//! call the new function: keep its arguments and its result compatible.

mod batcher;
pub mod connections;
pub mod conversation;
mod delivery;
mod error;
mod functions;
mod handle;
pub mod health;
mod knowledge;
mod operate;
pub mod pool;
mod primary;
pub mod row_security;
pub mod run;
mod schedule;
mod schema;
pub mod session;
mod settings;
mod statement;
mod tenant;
mod timeline;

pub use connections::{Purpose, Sizes};
pub use error::{Error, Result};
pub use handle::{ApiStore, OperatorStore, RunStore, Settings, TenantStore};
pub use houston_folder::Error as FolderError;
pub use houston_objects::Error as ObjectsError;
pub use knowledge::Knowledge;
pub use pool::{Config, Store};
pub use settings::{Archiving, Fairness};

// Callers name the noun, not its wing.
pub use delivery::{fan_out, inbound_hook, outbox, replay, task_push, webhook};
pub use knowledge::{
    attachment, custom_record, custom_table, excerpt, image, knowledge_item, snippet, todo, workspace_file,
};
pub use operate::{
    audit, cell_move, ended, lane_work, moves, paused_lane, run_error, run_list, run_retry, server_settings,
    usage, worker_list,
};
pub use run::tool_result;
pub use run::{
    cancel, claim, compression, context_cache, cost, direct_start, event, history, lease, listen, message,
    plan, question, rate, reach, record, run_context, shared_state, step, sweep, task,
};
pub(crate) use run::{system_message, task_report};
pub use schedule::{check_in, feed, trigger, trigger_firing, trigger_reader};
pub use session::{session_search, session_summary, title};
pub(crate) use tenant::bound;
pub use tenant::{
    agent, agentable, answer, api_key, approval_links, client_offer, client_thread, client_token, copies,
    creation, directory, erasure, grants, guards, idempotency, mcp_account, mcp_server, owner, read_mark,
    serving, skill, stats, team, tool_source, user,
};
