//! A model of the run protocol of one agentable, checked exhaustively: every order of events, with a limited number of
//! faults of each kind.
//!
//! `cargo nextest run -p houston-verify --test protocol --no-capture` prints the visited states and violations.
//!
//! # What is modelled
//!
//! The current code, file by file. A change on one side needs the same change on the other.
//!
//! | model | code |
//! |---|---|
//! | `database.rs` | `migrations/functions/post_message.sql`; `domain/src/claim.rs`; `store/src/{run/claim,run,run/sweep,run/lease,run/record,run/question}.rs` |
//! | `step.rs` | `domain/src/step/decision.rs`, `store/src/run/step` |
//! | `worker.rs` | `engine/src/drive.rs`, `engine/src/run/{driver,tool_runner,journal}`, `domain/src/agent/mod.rs` |
//! | `action.rs`, `protocol.rs` | which actions are possible and what they do: `worker/src/{worker,sweep,reaper,lease}.rs`, clients, time, faults |
//!
//! * Messages: posted at any time; their hint is lost (flush), duplicated, late, or finds the lock taken.
//! * The lock: claim, epoch, holder; a lease that expires while its worker lives, is renewed again, or is reaped; a zombie
//!   worker that reads what its successor wrote, and tries to write; a claim whose response is lost.
//! * Steps: each kind, with the messages it reads, the run it ends and the lock it releases; a message at the moment of
//!   release; a commit that was applied although its sender saw an error, and is sent again with the same write id.
//! * Tools: two of one turn in parallel; effect, checkable, idempotent; responses committed one by one; after a crash,
//!   committed responses are kept and missing ones are handled by effect class; all results in one entry.
//! * Cancels at any time, noticed at any time; temporary and permanent failures of the model; the wait for a retry;
//!   messages given up after too many deaths, where deaths of workers that turn out to live do not count; hand-over; a
//!   crash or breakdown at every point.
//!
//! * Runs that wait: for an answer, which may arrive before the run waits, or until a time; woken by either, by a message or
//!   by a cancel, at any moment.
//!
//! * Batches of several agentables' steps and claims: a model of their own, in `batches.rs`.
//!
//! # What is not modelled
//!
//! * More than one agentable in the model of a run (they share no rows except a worker's), sessions, and event positions.
//! * The random token beside the epoch, which is for a failover that loses a committed epoch. Time: a lease may expire at
//!   any moment, and a worker's own deadline (`trusted`) is not relied on to stop it.
//! * A process that restarts before its old row was reaped: to the others it is one more worker.
//! * Which run is given up (property tests in `domain/src/death` show that); its wait for a worker that may live; the
//!   limit on the number of claims.
//! * Tools that write Houston's own rows: effect and results are one commit, like an answer. A `read` is repeated like an
//!   `idempotent` call. For a `checkable` call, check and execution are one action: the model does not exclude that a
//!   zombie and its successor both check, then both execute.
//! * Compression, closing of sessions, the watchdog and other limits: they end a run like a failure.
//!
//! # How liveness is checked
//!
//! See `liveness.rs`: as properties of states, since stateright's `eventually` misses cycles.
//!
//! # Recipe: a new rule
//!
//! Model what the code does; add a property for what a user would notice; add a scenario that could violate it, with the
//! observations that prove it was tried; add a field in `rules.rs` that removes the rule: `variant.rs` must find that the
//! protocol without it violates the property.

#[cfg(test)]
mod action;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod database;
#[cfg(test)]
mod history;
#[cfg(test)]
mod liveness;
#[cfg(test)]
mod observation;
#[cfg(test)]
mod property;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod step;
#[cfg(test)]
mod table;
#[cfg(test)]
mod variant;
#[cfg(test)]
mod worker;
#[cfg(test)]
mod world;
