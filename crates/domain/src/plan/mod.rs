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

mod by_hand;
mod checklist;
mod deadline;
mod document;
mod expression;
mod machine;
mod metered;
mod parse;
mod patch;
mod resolve;
mod schema;
mod state;
#[cfg(test)]
mod tests;

pub use by_hand::{ByHandError, SKIPPED_BY_HAND, repeat, skip};
pub use checklist::{Checklist, Heading, Line, LineStatus, Shown, checklist, ended, listed};
pub use deadline::{deadline, held_up, overdue_tasks, put_off, waits_until};
pub use document::{
    Action, Approval, Document, Join, Limits, MAX_BYTES, MAX_INPUT_BYTES, MAX_STEPS, MAX_TURNS, Offer,
    OnError, PlanVersion, Problem, Retry, SMALL_BYTES, Step, Template, Templates, approval,
};
pub use expression::{ExpressionError, condition, evaluate, render, value};
pub(crate) use expression::{is_plain, names};
pub use machine::Frontier;
pub use metered::{Elsewhere, Evaluation, all_plain, answer as answer_evaluation, evaluate_elsewhere, tried};
pub(crate) use patch::is_inside;
pub use patch::{MAX_REPAIRS, MAX_REPLANS, Patched, patch};
pub use resolve::{MAX_RESULT, kept, resolve, step};
pub use schema::model_schema;
pub(crate) use state::status;
pub use state::{
    Advance, ChangedStep, End, Failure, Given, Listing, PlanChanges, PlanEnd, State, States, Status, advance,
    advance_from, answer, fail, succeed,
};

pub use crate::storable::size;
