//! A [`RunStorage`] in memory, with the faults that a database shows rarely.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::DateTime;
use houston_domain::budget::Spent;
use houston_domain::frame::{FrameMark, MessageBlock};
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, QuestionId, RunId, TenantId, UserId, WriteId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::message::Source;
use houston_domain::question::{Question, QuestionState, budget};
use houston_domain::run::RunStatus;
use houston_domain::skill::{SkillSource, SkillSummary};
use houston_domain::step::decision::{Found, decide};
use houston_domain::step::{RunTransition, Step};
use houston_domain::submission::Submission;
use houston_domain::unread::{ReadLimits, Unread};
use houston_faults::ConnectionBroken;
use houston_store::claim::Fence;
use houston_store::history::CommittedIntent;
use houston_store::question::UnreadMessages;
use houston_store::run_context::RunContext;
use houston_store::skill::SkillText;
use houston_store::step::{Commit, CommittedStep};
use houston_store::{Error, Result};
use serde_json::Value;

use super::memory_transaction::{MemoryTransaction, framed};
use crate::run::journal::ending_status;
use crate::run::storage::RunStorage;

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
pub(super) struct Rows {
    /// Whether another worker holds the lock, or the run was released.
    lock_is_lost: bool,
    submission: Option<Submission>,
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
    pub(super) refusals: VecDeque<bool>,
    pub(super) spent: Spent,
    pub(super) questions: Vec<Question>,
    /// What the run's driver remembers.
    state: Option<Value>,
    /// Texts that the run has not read.
    pub(super) unread: Vec<String>,
    /// Skills of the tenant: summaries, and texts by name.
    pub(super) summaries: Vec<SkillSummary>,
    pub(super) skills: BTreeMap<String, String>,
    /// Whether something has arrived that the run has not seen.
    pub(super) is_awake: bool,
    /// The answer that the next question gets at once.
    pub(super) prompt_answer: Option<Value>,
    /// The answer that the oldest question gets just before the next commit.
    pub(super) late_answer: Option<Value>,
    /// How many commits come before that.
    pub(super) until_answer: usize,
    /// How often the questions of the run, and the budget questions, were read.
    pub(super) question_reads: usize,
    pub(super) budget_reads: usize,
    /// The run.
    pub(super) run: Option<RunId>,
    /// How many commits succeed before the later fault.
    until_fault: usize,
    later_fault: Option<Fault>,
}

impl MemoryStorage {
    /// The last entry of `history` began the run.
    pub(crate) fn with_history(history: Vec<Entry>) -> Self {
        let earlier = history.len() - 1;
        Self(Arc::new(Mutex::new(Rows { history, earlier, ..Rows::default() })))
    }

    pub(super) fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next commits fail in this way.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.rows().faults.extend(faults);
    }

    /// An intent that an earlier attempt committed.
    pub(crate) fn add_intent(&self, call: &str, intent: CommittedIntent) {
        self.rows().intents.insert(call.to_owned(), intent);
    }

    /// Lets `count` commits succeed before one fails in this way.
    pub(crate) fn fail_after(&self, count: usize, fault: Fault) {
        let mut rows = self.rows();
        (rows.until_fault, rows.later_fault) = (count, Some(fault));
    }

    /// The call that the run has submitted last.
    pub(crate) fn submission(&self) -> Option<Box<Submission>> {
        self.rows().submission.clone().map(Box::new)
    }

    pub(crate) fn is_released(&self) -> bool {
        self.rows().lock_is_lost
    }

    /// Lets a worker claim the run again.
    pub(crate) fn claim(&self) {
        let mut rows = self.rows();
        rows.lock_is_lost = false;
        rows.is_awake = !rows.unread.is_empty();
    }

    /// The committed steps.
    pub(crate) fn committed(&self) -> Vec<Step> {
        self.rows().committed.clone()
    }

    /// The ids of all steps that were sent, committed or not.
    pub(crate) fn sent(&self) -> Vec<WriteId> {
        self.rows().sent.clone()
    }

    /// The calls with a committed intent.
    pub(crate) fn intents(&self) -> Vec<String> {
        self.rows().intents.keys().cloned().collect()
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

    pub(super) fn try_commit(&self, step: &Step, records: &[String]) -> Result<Commit> {
        let mut rows = self.rows();
        rows.sent.push(step.write);
        if rows.committed.last().is_some_and(|last| last.write == step.write) {
            return Ok(Commit::AlreadyCommitted);
        }
        let fault = rows.faults.pop_front().or_else(|| rows.take_later_fault());
        match fault {
            Some(Fault::BrokenBefore) => return Err(ConnectionBroken.into()),
            Some(Fault::Refused) => return Err(Error::Archived),
            Some(Fault::TakenOver) => rows.lock_is_lost = true,
            Some(Fault::BrokenAfter) | None => {}
        }
        if rows.lock_is_lost {
            return Err(Error::Fenced);
        }
        rows.take_late_answer();
        if rows.supersedes_a_decision(step) {
            return Err(Error::Answered);
        }
        let (read, continued) = rows.apply(step, records);
        match fault {
            Some(Fault::BrokenAfter) => Err(ConnectionBroken.into()),
            _ => Ok(Commit::Done(CommittedStep {
                events: Vec::new(),
                read,
                continued,
                opened: false,
                cancel_seq: None,
                waiting: Vec::new(),
            })),
        }
    }
}

impl Rows {
    fn take_late_answer(&mut self) {
        if let Some(left) = self.until_answer.checked_sub(1) {
            self.until_answer = left;
            return;
        }
        if let Some(answer) = self.late_answer.take()
            && let Some(question) = self.questions.first_mut()
        {
            (question.state, question.answer) = (QuestionState::Answered, Some(answer));
        }
    }

    fn take_later_fault(&mut self) -> Option<Fault> {
        match self.until_fault.checked_sub(1) {
            Some(left) => self.until_fault = left,
            None => return self.later_fault.take(),
        }
        None
    }

    /// Writes the step. Returns what it read, and whether the run continues although it was to end or to wait.
    fn apply(&mut self, step: &Step, records: &[String]) -> (Vec<MessageBlock>, bool) {
        for superseded in step.questions.iter().flat_map(|of| &of.superseded) {
            let question = self.questions.iter_mut().find(|of| of.asked.id == *superseded);
            question.expect("a question").state = QuestionState::Superseded;
        }
        let asked = step.questions.as_ref().map_or(&[][..], |of| &of.asked);
        for question in asked {
            self.questions.push(Question {
                asked: question.clone(),
                state: QuestionState::Open,
                answer: None,
                answered_by: None,
                created_at: DateTime::UNIX_EPOCH,
                closed_at: None,
            });
        }
        self.state = step.state.as_deref().cloned().or(self.state.take());
        let changes = decide(step, self.found(step), ReadLimits { messages: 100, bytes: 1_000 });
        let (read, releases) = (changes.read.clone(), changes.releases());
        self.is_awake = changes.wakes;
        if let (Some(question), false) = (self.questions.last_mut(), asked.is_empty())
            && let Some(answer) = self.prompt_answer.take()
        {
            (question.state, question.answer, self.is_awake) = (QuestionState::Answered, Some(answer), true);
        }
        self.history.extend(step.entries.iter().cloned());
        self.history.extend(framed(step));
        for intent in &step.intents {
            let started = CommittedIntent { cell: intent.cell, response: None, paused: None };
            let before = self.intents.insert(intent.call.clone(), started);
            assert!(before.is_none(), "{} is the key of two rows", intent.call);
        }
        for (call, response) in &step.responses {
            if let Some(intent) = self.intents.get_mut(call) {
                (intent.response, intent.paused) = (Some(response.clone()), None);
            }
        }
        for (call, paused) in &step.pauses {
            if let Some(intent) = self.intents.get_mut(call) {
                intent.paused.clone_from(paused);
            }
        }
        if !read.is_empty() {
            self.unread.clear();
            self.history
                .push(Entry::user(read.iter().map(|block| Block::text(block.text.clone())).collect()));
        }
        self.lock_is_lost = releases;
        self.records.extend(records.iter().cloned());
        self.committed.push(step.clone());
        (read, !releases && !matches!(step.transition, RunTransition::Continue { .. }))
    }

    fn found(&self, step: &Step) -> Found {
        let unread = |(seq, text): (i64, &String)| Unread {
            seq,
            source: Source::User,
            metadata_type: None,
            content: text.clone(),
            is_for_run: true,
        };
        let is_closed = |id: &QuestionId| {
            self.questions.iter().any(|of| of.asked.id == *id && of.state != QuestionState::Open)
        };
        Found {
            is_awake: self.is_awake,
            unread_count: i32::try_from(self.unread.len()).unwrap_or(i32::MAX),
            unread: (1..).zip(&self.unread).map(unread).collect(),
            is_answered: match &step.transition {
                RunTransition::Wait { questions, .. } => questions.iter().any(is_closed),
                _ => false,
            },
            ..Found::default()
        }
    }
}

impl RunStorage for MemoryStorage {
    type Transaction = MemoryTransaction;

    async fn commit(&self, _: &Fence, step: &Step) -> Result<Commit> {
        self.try_commit(step, &[])
    }

    async fn begin_fenced(&self, _: &Fence) -> Result<MemoryTransaction> {
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

    async fn run_context(&self, _: AgentableId, _: RunId, _: i64, _: &PromptLimits) -> Result<RunContext> {
        let history = self.history();
        let run_entries = history.len() - self.rows().earlier;
        let (mark, skills) = (FrameMark::new("1234"), self.rows().summaries.clone());
        Ok(RunContext { mark, history, run_entries, skills, ..RunContext::default() })
    }

    async fn driven(&self, _: AgentableId, _: RunId) -> Result<(Option<Value>, Vec<Question>)> {
        let rows = self.rows();
        Ok((rows.state.clone(), rows.questions.clone()))
    }

    async fn committed_intents(&self, _: RunId) -> Result<HashMap<String, CommittedIntent>> {
        let rows = self.rows();
        Ok(rows.intents.clone())
    }

    async fn questions_of(&self, _: AgentableId, _: RunId) -> Result<Vec<Question>> {
        let mut rows = self.rows();
        rows.question_reads += 1;
        Ok(rows.questions.clone())
    }

    async fn budget_questions(&self, _: AgentableId) -> Result<Vec<(RunId, Question)>> {
        let mut rows = self.rows();
        rows.budget_reads += 1;
        let of_budget = rows.questions.iter().filter(|of| budget::scope(of).is_some());
        Ok(of_budget.map(|question| (rows.run.expect("a run"), question.clone())).collect())
    }

    async fn unread(&self, _: AgentableId) -> Result<UnreadMessages> {
        let count = i32::try_from(self.rows().unread.len()).unwrap_or(i32::MAX);
        Ok(UnreadMessages { count, from_user: count > 0 })
    }

    async fn keep_submission(&self, _: RunId, submission: &Submission) -> Result<()> {
        self.rows().submission = Some(submission.clone());
        Ok(())
    }

    async fn spent(&self, _: AgentableId, _: RunId) -> Result<Spent> {
        Ok(self.rows().spent)
    }

    async fn skill_text(
        &self,
        _: TenantId,
        _: UserId,
        _: SkillSource,
        name: &str,
    ) -> Result<Option<SkillText>> {
        Ok(self.rows().skills.get(name).map(|text| SkillText { text: text.clone(), files: Vec::new() }))
    }
}
