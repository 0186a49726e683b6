//! [`RunStorage`]: what driving a run asks of the store. Tests implement it in memory, with faults that Postgres shows
//! rarely.

use std::collections::HashMap;

use houston_domain::budget::Spent;
use houston_domain::id::{AgentableId, RunId, WriteId};
use houston_domain::knowledge::PromptLimits;
use houston_domain::question::Question;
use houston_domain::skill::SkillSource;
use houston_domain::step::Step;
use houston_domain::submission::Submission;
use houston_domain::tool_call::ToolResponse;
use houston_store::claim::Fence;
use houston_store::compression::NewCompression;
use houston_store::history::CommittedIntent;
use houston_store::question::UnreadMessages;
use houston_store::record::{FencedTx, Owner, RecordIds, RecordLimits};
use houston_store::run_context::RunContext;
use houston_store::skill::SkillText;
use houston_store::step::Commit;
use houston_store::{Result, RunStore};
use houston_tools::Record;
use serde_json::Value;

/// A question to the storage; resolves to its answer.
pub(crate) trait Query<T>: Future<Output = Result<T>> + Send {}

impl<T, F: Future<Output = Result<T>> + Send> Query<T> for F {}

/// What driving a run asks of the store. The methods are those of [`RunStore`] with the same names.
pub(crate) trait RunStorage: Sync {
    type Transaction: RunTransaction;

    /// The store itself: what is read and written only there is asked of it ([`Journal::of_postgres`]). In memory there is none.
    ///
    /// [`Journal::of_postgres`]: crate::run::journal::Journal::of_postgres
    fn postgres(&self) -> Option<&RunStore> {
        None
    }

    fn commit(&self, fence: &Fence, step: &Step) -> impl Query<Commit>;
    fn begin(&self, fence: &Fence) -> impl Query<Self::Transaction>;
    fn was_committed(&self, fence: &Fence, write: WriteId) -> impl Query<bool>;
    fn is_held(&self, fence: &Fence) -> impl Query<bool>;

    fn context(
        &self,
        agentable: AgentableId,
        run: RunId,
        notes: i64,
        limits: &PromptLimits,
    ) -> impl Query<RunContext>;
    fn driven(&self, agentable: AgentableId, run: RunId) -> impl Query<(Option<Value>, Vec<Question>)>;
    fn committed_intents(&self, run: RunId) -> impl Query<HashMap<String, CommittedIntent>>;
    fn questions_of(&self, agentable: AgentableId, run: RunId) -> impl Query<Vec<Question>>;
    fn budget_questions(&self, agentable: AgentableId) -> impl Query<Vec<(RunId, Question)>>;
    fn unread(&self, agentable: AgentableId) -> impl Query<UnreadMessages>;
    fn keep_submission(&self, run: RunId, submission: &Submission) -> impl Query<()>;
    fn spent(&self, agentable: AgentableId, run: RunId) -> impl Query<Spent>;
    fn skill_text(&self, owner: &Owner, source: SkillSource, name: &str) -> impl Query<Option<SkillText>>;
}

/// A transaction behind the fence: rows, and the step that they belong to.
pub(crate) trait RunTransaction: Send {
    /// Where the tasks and plans that the next calls start belong in a trace; `None`: where the run does.
    fn set_traceparent(&mut self, traceparent: Option<&str>);
    /// Executes a tool call that reads or writes rows.
    fn record(
        &mut self,
        owner: Owner,
        ids: RecordIds,
        limits: RecordLimits,
        record: &dyn Record,
    ) -> impl Query<ToolResponse>;
    /// What a tool call would change.
    fn preview(
        &mut self,
        owner: Owner,
        ids: RecordIds,
        limits: RecordLimits,
        record: &dyn Record,
    ) -> impl Query<Option<String>>;
    fn compress(&mut self, owner: Owner, compression: &NewCompression) -> impl Query<()>;
    fn commit(self, step: &Step) -> impl Query<Commit>;
}

impl RunStorage for RunStore {
    type Transaction = FencedTx;

    fn postgres(&self) -> Option<&RunStore> {
        Some(self)
    }

    fn commit(&self, fence: &Fence, step: &Step) -> impl Query<Commit> {
        RunStore::commit(self, fence, step)
    }

    fn begin(&self, fence: &Fence) -> impl Query<FencedTx> {
        self.begin_fenced(fence)
    }

    fn was_committed(&self, fence: &Fence, write: WriteId) -> impl Query<bool> {
        RunStore::was_committed(self, fence, write)
    }

    fn is_held(&self, fence: &Fence) -> impl Query<bool> {
        RunStore::is_held(self, fence)
    }

    fn context(
        &self,
        agentable: AgentableId,
        run: RunId,
        notes: i64,
        limits: &PromptLimits,
    ) -> impl Query<RunContext> {
        self.run_context(agentable, run, notes, limits)
    }

    fn driven(&self, agentable: AgentableId, run: RunId) -> impl Query<(Option<Value>, Vec<Question>)> {
        RunStore::driven(self, agentable, run)
    }

    fn committed_intents(&self, run: RunId) -> impl Query<HashMap<String, CommittedIntent>> {
        RunStore::committed_intents(self, run)
    }

    fn questions_of(&self, agentable: AgentableId, run: RunId) -> impl Query<Vec<Question>> {
        RunStore::questions_of(self, agentable, run)
    }

    fn budget_questions(&self, agentable: AgentableId) -> impl Query<Vec<(RunId, Question)>> {
        RunStore::budget_questions(self, agentable)
    }

    fn unread(&self, agentable: AgentableId) -> impl Query<UnreadMessages> {
        RunStore::unread(self, agentable)
    }

    fn keep_submission(&self, run: RunId, submission: &Submission) -> impl Query<()> {
        RunStore::keep_submission(self, run, submission)
    }

    fn spent(&self, agentable: AgentableId, run: RunId) -> impl Query<Spent> {
        RunStore::spent(self, agentable, run)
    }

    fn skill_text(&self, owner: &Owner, source: SkillSource, name: &str) -> impl Query<Option<SkillText>> {
        RunStore::skill_text(self, owner.tenant, owner.user, source, name)
    }
}

impl RunTransaction for FencedTx {
    fn set_traceparent(&mut self, traceparent: Option<&str>) {
        self.traceparent = traceparent.map(str::to_owned);
    }

    async fn record(
        &mut self,
        owner: Owner,
        ids: RecordIds,
        limits: RecordLimits,
        record: &dyn Record,
    ) -> Result<ToolResponse> {
        record.apply(self.rows(owner, ids, limits)).await
    }

    async fn preview(
        &mut self,
        owner: Owner,
        ids: RecordIds,
        limits: RecordLimits,
        record: &dyn Record,
    ) -> Result<Option<String>> {
        record.preview(self.rows(owner, ids, limits)).await
    }

    fn compress(&mut self, owner: Owner, compression: &NewCompression) -> impl Query<()> {
        FencedTx::compress(self, owner, compression)
    }

    fn commit(self, step: &Step) -> impl Query<Commit> {
        FencedTx::commit(self, step)
    }
}
