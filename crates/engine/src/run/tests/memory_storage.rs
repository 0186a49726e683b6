//! A [`RunStorage`] in memory, with the faults that a database shows rarely.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use houston_domain::agent::budget::Spent;
use houston_domain::frame::FrameMark;
use houston_domain::history::Entry;
use houston_domain::id::{AgentableId, MessageId, RunId, WriteId};
use houston_domain::intervention::Intervention;
use houston_domain::knowledge::PromptLimits;
use houston_domain::run::RunStatus;
use houston_domain::step::{RunTransition, Step};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_faults::ConnectionBroken;
use houston_store::claim::Fence;
use houston_store::compression::NewCompression;
use houston_store::cost::Cost;
use houston_store::history::CommittedIntent;
use houston_store::record::{Owner, RecordIds, RecordLimits};
use houston_store::run_context::RunContext;
use houston_store::step::{Commit, CommittedStep};
use houston_store::{Error, Result};
use houston_tools::Record;

use crate::run::journal::ending_status;
use crate::run::storage::{RunStorage, RunTransaction};

/// What happens to a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The connection breaks before the step arrives.
    BrokenBefore,
    /// The step is committed, and the connection breaks before the response.
    BrokenAfter,
    /// Another worker has claimed the run.
    TakenOver,
    /// The database refuses the statement.
    Refused,
}

/// The rows of one run. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct MemoryStorage(Arc<Mutex<Rows>>);

#[derive(Default)]
struct Rows {
    /// Whether another worker holds the lock, or the run was released.
    lock_is_lost: bool,
    history: Vec<Entry>,
    /// How many of its first entries belong to earlier runs.
    earlier: usize,
    committed: Vec<Step>,
    intents: HashMap<String, CommittedIntent>,
    records: Vec<String>,
    /// What happens to the next commits of steps that were not committed yet. If none is left, they succeed.
    faults: VecDeque<Fault>,
    /// The steps that arrived or were lost on the way.
    sent: Vec<WriteId>,
    /// Whether the next records are refused. If none is left, they succeed.
    refusals: VecDeque<bool>,
    spent: Spent,
}

impl MemoryStorage {
    /// The last entry of `history` began the run.
    pub(crate) fn with_history(history: Vec<Entry>) -> Self {
        let earlier = history.len() - 1;
        Self(Arc::new(Mutex::new(Rows { history, earlier, ..Rows::default() })))
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next commits fail in this way.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.rows().faults.extend(faults);
    }

    /// For the next records, whether they are refused.
    pub(crate) fn refuse_records(&self, refused: impl IntoIterator<Item = bool>) {
        self.rows().refusals.extend(refused);
    }

    pub(crate) fn set_spent(&self, spent: Spent) {
        self.rows().spent = spent;
    }

    /// An intent that an earlier attempt committed.
    pub(crate) fn add_intent(&self, call: &str, intent: CommittedIntent) {
        self.rows().intents.insert(call.to_owned(), intent);
    }

    /// The committed steps.
    pub(crate) fn committed(&self) -> Vec<Step> {
        self.rows().committed.clone()
    }

    /// The ids of all steps that were sent, committed or not.
    pub(crate) fn sent(&self) -> Vec<WriteId> {
        self.rows().sent.clone()
    }

    /// The committed records.
    pub(crate) fn records(&self) -> Vec<String> {
        self.rows().records.clone()
    }

    /// The history as committed.
    pub(crate) fn history(&self) -> Vec<Entry> {
        self.rows().history.clone()
    }

    /// The status that the run ended with, if it has.
    pub(crate) fn ended(&self) -> Option<RunStatus> {
        self.rows().committed.last().and_then(|step| ending_status(&step.transition))
    }

    fn try_commit(&self, step: &Step, records: &[String]) -> Result<Commit> {
        let mut rows = self.rows();
        rows.sent.push(step.write);
        if rows.committed.last().is_some_and(|last| last.write == step.write) {
            return Ok(Commit::AlreadyCommitted);
        }
        let fault = rows.faults.pop_front();
        match fault {
            Some(Fault::BrokenBefore) => return Err(ConnectionBroken.into()),
            Some(Fault::Refused) => return Err(Error::Archived),
            Some(Fault::TakenOver) => rows.lock_is_lost = true,
            Some(Fault::BrokenAfter) | None => {}
        }
        if rows.lock_is_lost {
            return Err(Error::Fenced);
        }
        rows.apply(step, records);
        match fault {
            Some(Fault::BrokenAfter) => Err(ConnectionBroken.into()),
            _ => Ok(Commit::Done(CommittedStep {
                events: Vec::new(),
                read: Vec::new(),
                continued: false,
                opened: false,
                cancel_seq: None,
                waiting: Vec::new(),
            })),
        }
    }
}

impl Rows {
    fn apply(&mut self, step: &Step, records: &[String]) {
        self.history.extend(step.entries.iter().cloned());
        for intent in &step.intents {
            self.intents.insert(intent.call.clone(), CommittedIntent { cell: intent.cell, response: None });
        }
        for (call, response) in &step.responses {
            if let Some(intent) = self.intents.get_mut(call) {
                intent.response = Some(response.clone());
            }
        }
        self.lock_is_lost = !matches!(step.transition, RunTransition::Continue { .. });
        self.records.extend(records.iter().cloned());
        self.committed.push(step.clone());
    }
}

/// A transaction of [`MemoryStorage`].
pub(crate) struct MemoryTransaction {
    storage: MemoryStorage,
    records: Vec<String>,
}

impl RunStorage for MemoryStorage {
    type Transaction = MemoryTransaction;

    async fn commit(&self, _: &Fence, step: &Step) -> Result<Commit> {
        self.try_commit(step, &[])
    }

    async fn begin(&self, _: &Fence) -> Result<MemoryTransaction> {
        if self.rows().lock_is_lost {
            return Err(Error::Fenced);
        }
        Ok(MemoryTransaction { storage: self.clone(), records: Vec::new() })
    }

    async fn was_committed(&self, _: &Fence, write: WriteId) -> Result<bool> {
        Ok(self.rows().committed.last().is_some_and(|last| last.write == write))
    }

    async fn is_held(&self, _: &Fence) -> Result<bool> {
        Ok(!self.rows().lock_is_lost)
    }

    async fn context(&self, _: AgentableId, _: RunId, _: i64, _: &PromptLimits) -> Result<RunContext> {
        let history = self.history();
        let run_entries = history.len() - self.rows().earlier;
        Ok(RunContext { mark: FrameMark::new("1234"), history, run_entries, ..RunContext::default() })
    }

    async fn open_message(&self, _: AgentableId) -> Result<Option<MessageId>> {
        Ok(None)
    }

    async fn committed_intents(&self, _: RunId) -> Result<HashMap<String, CommittedIntent>> {
        let rows = self.rows();
        let intents = rows.intents.iter().map(|(call, CommittedIntent { cell, response })| {
            (call.clone(), CommittedIntent { cell: *cell, response: response.clone() })
        });
        Ok(intents.collect())
    }

    async fn intervention(&self, _: RunId) -> Result<Option<Intervention>> {
        Ok(None)
    }

    async fn cost_of_run(&self, _: RunId) -> Result<Cost> {
        Ok(Cost::NOTHING)
    }

    async fn spent(&self, _: AgentableId, _: RunId) -> Result<Spent> {
        Ok(self.rows().spent)
    }

    async fn request_title(&self, _: AgentableId, _: i64, _: Duration) -> Result<bool> {
        Ok(false)
    }
}

impl RunTransaction for MemoryTransaction {
    async fn record(
        &mut self,
        _: Owner,
        _: RecordIds,
        _: RecordLimits,
        record: &dyn Record,
    ) -> Result<ToolResponse> {
        if self.storage.rows().refusals.pop_front().unwrap_or(false) {
            return Ok(ToolResponse::failure(ToolErrorCode::RateLimited, "too many"));
        }
        self.records.push(format!("{record:?}"));
        Ok(ToolResponse::success("Written."))
    }

    async fn compress(&mut self, _: Owner, _: &NewCompression) -> Result<()> {
        Ok(())
    }

    async fn commit(self, step: &Step) -> Result<Commit> {
        self.storage.try_commit(step, &self.records)
    }
}
