//! The protocol of one agentable, model-checked: every order of events, up to so many faults of each kind.
//!
//! `cargo nextest run -p houston-harness --test protocol --no-capture` prints what was visited and found.
//!
//! # What is modelled
//!
//! What the code does today, file by file; whoever changes one changes the other.
//!
//! | here | there |
//! |---|---|
//! | `database.rs` | `migrations/*_post_message.sql`, `*_claim_run.sql`; `store/src/{run,sweep,lease,record}.rs` |
//! | `step.rs` | `migrations/*_commit_step.sql`, `store/src/step.rs` |
//! | `worker.rs` | `engine/src/{drive,turn,tool_call,release,commit}.rs`, `domain/src/agent/mod.rs` |
//! | `action.rs`, `protocol.rs` | who may act when, and what it does: `worker/src/{worker,sweep,reaper,lease}.rs`, clients, time, faults |
//!
//! * Messages: posted at any moment; their hint is lost (flush), doubled, late, or finds the lock taken.
//! * The lock: claim, epoch, holder; a lease that runs out under a living worker, comes back, or is reaped; a
//!   worker that goes on as a zombie, reads what its successor wrote, and writes; a claim whose answer is lost.
//! * Steps: each kind, with what each reads, ends and lets go; the instant of release; a commit that landed
//!   although its sender saw an error, sent again under the same write id.
//! * Tools: two of one turn side by side; effect, checkable, idempotent; responses one by one; what is done
//!   stays done after a crash, what is missing goes by its class, all results in one entry.
//! * Cancels at any moment, heard at any moment; the model's failure, now and for good; the wait for a retry;
//!   messages given up after too many deaths, of which those of the living are taken back; hand-over; a crash or a breakdown at every point.
//!
//! # What is not
//!
//! * More than one agentable (they share no row but a worker's), sessions, and the events' positions.
//! * The random token beside the epoch: a failover that loses a committed epoch. Time: a lease may run out at
//!   any moment, and a worker's own deadline (`trusted`) is never trusted to stop it.
//! * A process that starts again before its old row was reaped: to the others it is one more worker.
//! * Runs that are about to be given up and driven one at a time; their wait for a worker that may live; the last
//!   net of too many claims.
//! * Tools that are rows of Houston's: effect and results are one commit, like an answer. A `read` is repeated as
//!   an `idempotent` call is. Of a `checkable` one, asking and executing are one moment: nothing here says that
//!   a zombie and its successor could not both ask, then both execute.
//! * Compression, archives, the watchdog and other limits: they end a run as a failure does.
//!
//! # How liveness is shown
//!
//! See `rest.rs`: as properties of states, since `eventually` misses circles.
//!
//! # Recipe: a new rule
//!
//! Model what the code does, add a property that says what a user would miss, add a scenario in which it could
//! be missed with the witnesses that prove it was tried, and a field in `rules.rs` that takes the rule away: the
//! variant without it must be found broken in `variant.rs`.

#[cfg(test)]
mod action;
#[cfg(test)]
mod database;
#[cfg(test)]
mod history;
#[cfg(test)]
mod property;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod rest;
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
mod witness;
#[cfg(test)]
mod worker;
#[cfg(test)]
mod world;
