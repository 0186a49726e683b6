//! [`Record`]: a call that reads or writes Houston's own tables.

use std::fmt::{Debug, Display};

use futures_util::future::BoxFuture;
use houston_domain::plan::Document;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::Result;
use houston_store::record::RecordTx;

use crate::input::{Refusal, failed};

/// What the model reads of a call; an error ends the attempt at its step.
pub type RecordFuture<'t> = BoxFuture<'t, Result<ToolResponse>>;

/// A call that reads or writes Houston's own tables, with its arguments: exactly once, together with its result.
pub trait Record: Debug + Send + Sync {
    /// Executes the call in the transaction of its step. If that has to be repeated, it is called again, with the same
    /// ids. A missing row or a full list is a [`ToolResponse::Failure`] for the model, not an error.
    fn apply<'t>(&'t self, tx: RecordTx<'t>) -> RecordFuture<'t>;

    /// Whether [`Self::preview`] has something to say.
    fn has_preview(&self) -> bool;

    /// What the call would change, for the person who decides about it: a unified diff. Nothing that it writes is kept.
    fn preview<'t>(&'t self, tx: RecordTx<'t>) -> BoxFuture<'t, Result<Option<String>>>;

    /// Why a person has to allow the call first, whatever the guards say; `None`: it need not be.
    fn asks(&self) -> Option<String>;

    /// The task that a successful call creates, if it creates one. Its id is that of the row.
    fn task(&self) -> Option<NewTaskInfo<'_>>;
}

/// A task, as streams and hints name it.
#[derive(Debug, Clone, Copy)]
pub struct NewTaskInfo<'r> {
    /// Its kind.
    pub kind: &'r str,
    /// Its title, one line.
    pub title: &'r str,
    /// Set if it is a plan.
    pub plan: Option<NewPlanInfo<'r>>,
}

/// A plan, as streams show it when it is made.
#[derive(Debug, Clone, Copy)]
pub struct NewPlanInfo<'r> {
    /// Its document.
    pub document: &'r Document,
    /// Whether the run that makes it waits for it.
    pub attached: bool,
}

/// Keeps the first `most` rows of a list that was read with one more. Returns whether there were more.
pub(crate) fn keep<T>(rows: &mut Vec<T>, most: u32) -> bool {
    let has_more = rows.len() > most as usize;
    rows.truncate(most as usize);
    has_more
}

/// The refusal for `id`, which does not exist: `lists` shows the ids that do.
pub(crate) fn not_found(id: impl Display, lists: &str) -> Refusal {
    failed(ToolErrorCode::NotFound, format!("there is no {id}: {lists} shows the ids there are"))
}
