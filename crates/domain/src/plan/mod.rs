//! Plans: a graph of steps as data, what may be in it, and what happens next.
//!
//! [`Document::parse`] checks a document and returns every problem with a JSON pointer. [`advance`] is the state machine: it
//! takes the document and the states of its steps, and says which steps start, which settle, and how the plan ends.
//!
//! # Invariants
//! - No step starts before what it depends on has settled, and none starts more often than its retries allow.
//! - Expressions have fuel, and their sources and outputs have limits. Those that could grow without bound all the same are
//!   evaluated where they can be stopped: [`evaluate_elsewhere`].
//! - A settled step never changes again.
//!
//! # Deliberately absent
//! Rows, calls of tools and models, and clocks: the caller stores what changed, executes what starts, and passes the time.

mod approval;
mod by_hand;
mod changes;
mod checklist;
mod deadline;
mod document;
mod ended;
mod expression;
mod graph;
mod insert;
mod limits;
mod listed;
mod machine;
mod metered;
mod parse;
mod patch;
mod plain;
mod problem;
mod resolve;
mod retry;
mod schema;
mod scope;
mod state;
mod template;
#[cfg(test)]
mod tests;

pub use approval::{Approval, approval};
pub use by_hand::{ByHandError, SKIPPED_BY_HAND, repeat, skip};
pub use changes::{ChangedStep, Listing, NewExecutor, PlanChanges, PlanEnd};
pub use checklist::{Checklist, Delta, Heading, Line, LineStatus, checklist, delta};
pub use deadline::{deadline, held_up, overdue_tasks, put_off};
pub use document::{Action, Document, Join, MAX_BYTES, MAX_STEPS, MAX_TURNS, Offer, OnError, Retry, Step};
pub use ended::ended;
pub(crate) use expression::names;
pub use expression::{ExpressionError, condition, evaluate, render, value};
pub use limits::Limits;
pub use listed::listed;
pub use metered::{Elsewhere, Evaluation, all_plain, answer as answer_evaluation, evaluate_elsewhere, tried};
pub use patch::{MAX_REPAIRS, MAX_REPLANS, Patched, patch};
pub(crate) use plain::is_plain;
pub use problem::Problem;
pub use resolve::{Resolved, resolve, step};
pub use retry::{Attempt, fail, fail_attempt};
pub use schema::{model_schema, request_schema};
pub use scope::MAX_RESULT;
pub use state::{
    Advance, End, Failure, Given, State, States, Status, UnknownStatus, advance, answer, succeed,
};
pub use template::{Template, Templates};
