//! [`RunStorage`]: what driving a run asks of the store. Tests implement it in memory, with faults that Postgres shows
//! rarely.

use std::collections::HashMap;
use std::time::Duration;

use houston_domain::budget::Spent;
use houston_domain::guard::Grant;
use houston_domain::id::{AgentableId, AttachmentId, ImageId, MessageId, RunId, TenantId, UserId, WriteId};
use houston_domain::intervention::Intervention;
use houston_domain::knowledge::PromptLimits;
use houston_domain::question::Question;
use houston_domain::skill::SkillSource;
use houston_domain::step::Step;
use houston_domain::submission::Submission;
use houston_domain::tool_call::ToolResponse;
use houston_domain::tool_source::SourceSummary;
use houston_store::attachment::{PART_BYTES, StoredAttachment};
use houston_store::claim::Fence;
use houston_store::compression::NewCompression;
use houston_store::context_cache::ContextCache;
use houston_store::cost::Cost;
use houston_store::history::CommittedIntent;
use houston_store::image::StoredImage;
use houston_store::plan::DrivenPlan;
use houston_store::question::UnreadMessages;
use houston_store::record::{FencedTx, Owner, RecordIds, RecordLimits};
use houston_store::run_context::RunContext;
use houston_store::skill::SkillText;
use houston_store::step::Commit;
use houston_store::tool_source::StoredSource;
use houston_store::workspace_file::CommandFiles;
use houston_store::{Error, Result, RunStore};
use houston_tools::Record;
use houston_tools::ask::{SourceText, TextSource};
use serde_json::Value;
use uuid::Uuid;

/// A question to the storage; resolves to its answer.
pub(crate) trait Query<T>: Future<Output = Result<T>> + Send {}

impl<T, F: Future<Output = Result<T>> + Send> Query<T> for F {}

/// What driving a run asks of the store. The methods are those of [`RunStore`] with the same names.
pub(crate) trait RunStorage: Sync {
    type Transaction: RunTransaction;

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
    /// In memory there are none.
    fn tool_source(&self, _tenant: TenantId, _source: &SourceSummary) -> impl Query<Option<StoredSource>> {
        std::future::ready(Ok(None))
    }
    fn open_message(&self, agentable: AgentableId) -> impl Query<Option<MessageId>>;
    fn driven(&self, agentable: AgentableId, run: RunId) -> impl Query<(Option<Value>, Vec<Question>)>;
    /// The plan that the agentable is; `None`: it is none, as always in memory.
    fn driven_plan(&self, _agentable: AgentableId) -> impl Query<Option<DrivenPlan>> {
        std::future::ready(Ok(None))
    }
    fn plan_changes(&self, _agentable: AgentableId) -> impl Query<i64> {
        std::future::ready(Ok(0))
    }
    /// Those of these executors that no worker drives.
    fn idle_executors(&self, _executors: &[AgentableId]) -> impl Query<Vec<AgentableId>> {
        std::future::ready(Ok(Vec::new()))
    }
    fn has_attached_plans(&self, _run: RunId) -> impl Query<bool> {
        std::future::ready(Ok(false))
    }
    /// Ends the runs of these executors.
    fn cancel_executors(&self, _tenant: TenantId, _executors: &[AgentableId]) -> impl Query<()> {
        std::future::ready(Ok(()))
    }
    fn committed_intents(&self, run: RunId) -> impl Query<HashMap<String, CommittedIntent>>;
    fn questions_of(&self, agentable: AgentableId, run: RunId) -> impl Query<Vec<Question>>;
    fn grants(&self, agentable: AgentableId, user: UserId) -> impl Query<Vec<Grant>>;
    fn budget_questions(&self, agentable: AgentableId) -> impl Query<Vec<(RunId, Question)>>;
    fn unread(&self, agentable: AgentableId) -> impl Query<UnreadMessages>;
    fn intervention(&self, run: RunId) -> impl Query<Option<Intervention>>;
    fn acquit_others(&self, agentable: AgentableId) -> impl Query<()>;
    fn cost_of_run(&self, run: RunId) -> impl Query<Cost>;
    fn keep_submission(&self, run: RunId, submission: &Submission) -> impl Query<()>;
    fn spent(&self, agentable: AgentableId, run: RunId) -> impl Query<Spent>;
    /// The text that a call names; `None`: there is none that the agentable may read.
    fn source_text(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        source: &TextSource,
    ) -> impl Query<Option<SourceText>>;
    /// Those of these images that the user has; those of `with_data` with their bytes. In memory there are none.
    fn images(
        &self,
        _tenant: TenantId,
        _user: UserId,
        _ids: &[ImageId],
        _with_data: &[ImageId],
    ) -> impl Query<Vec<StoredImage>> {
        std::future::ready(Ok(Vec::new()))
    }
    /// Those of these images and files that a provider has refused, and why. In memory there are none.
    fn refused_files(&self, _tenant: TenantId, _ids: &[Uuid]) -> impl Query<Vec<(Uuid, String)>> {
        std::future::ready(Ok(Vec::new()))
    }
    /// Remembers that a provider has refused these images and files.
    fn refuse_files(&self, _tenant: TenantId, _ids: &[Uuid], _why: &str) -> impl Query<()> {
        std::future::ready(Ok(()))
    }
    /// Those of these files that the user has. In memory there are none.
    fn attachments(
        &self,
        _tenant: TenantId,
        _user: UserId,
        _ids: &[AttachmentId],
    ) -> impl Query<Vec<StoredAttachment>> {
        std::future::ready(Ok(Vec::new()))
    }
    /// The bytes of a file, about the first `most`; `None`: they cannot be read now.
    fn attachment_bytes(
        &self,
        _tenant: TenantId,
        _file: &StoredAttachment,
        _most: usize,
    ) -> impl Query<Option<Vec<u8>>> {
        std::future::ready(Ok(None))
    }
    /// The state that the agentable shares with front ends. In memory nothing has changed it.
    fn shared_state(&self, _tenant: TenantId, _agentable: AgentableId) -> impl Query<Option<Value>> {
        std::future::ready(Ok(None))
    }
    /// Stores the text of a PDF.
    fn keep_pdf_text(
        &self,
        _tenant: TenantId,
        _id: AttachmentId,
        _text: &str,
        _is_cut: bool,
    ) -> impl Query<()> {
        std::future::ready(Ok(()))
    }
    /// What providers have answered. In memory nothing is kept.
    fn context_cache(&self) -> Option<ContextCache> {
        None
    }
    /// The folder of an agentable's files; `None`: they are rows.
    fn command_files(&self, _tenant: TenantId, _agentable: AgentableId) -> Option<CommandFiles> {
        None
    }
    fn skill_text(&self, owner: &Owner, source: SkillSource, name: &str) -> impl Query<Option<SkillText>>;
    fn request_title(
        &self,
        agentable: AgentableId,
        after_messages: i64,
        patience: Duration,
    ) -> impl Query<bool>;
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

    fn tool_source(&self, tenant: TenantId, source: &SourceSummary) -> impl Query<Option<StoredSource>> {
        RunStore::tool_source(self, tenant, source)
    }

    fn open_message(&self, agentable: AgentableId) -> impl Query<Option<MessageId>> {
        self.open_message_at(agentable, i64::MAX)
    }

    fn driven(&self, agentable: AgentableId, run: RunId) -> impl Query<(Option<Value>, Vec<Question>)> {
        RunStore::driven(self, agentable, run)
    }

    fn driven_plan(&self, agentable: AgentableId) -> impl Query<Option<DrivenPlan>> {
        RunStore::driven_plan(self, agentable)
    }

    fn plan_changes(&self, agentable: AgentableId) -> impl Query<i64> {
        RunStore::plan_changes(self, agentable)
    }

    fn idle_executors(&self, executors: &[AgentableId]) -> impl Query<Vec<AgentableId>> {
        RunStore::idle_executors(self, executors)
    }
    fn has_attached_plans(&self, run: RunId) -> impl Query<bool> {
        RunStore::has_attached_plans(self, run)
    }

    fn cancel_executors(&self, tenant: TenantId, executors: &[AgentableId]) -> impl Query<()> {
        RunStore::cancel_executors(self, tenant, executors)
    }

    fn committed_intents(&self, run: RunId) -> impl Query<HashMap<String, CommittedIntent>> {
        RunStore::committed_intents(self, run)
    }

    fn questions_of(&self, agentable: AgentableId, run: RunId) -> impl Query<Vec<Question>> {
        RunStore::questions_of(self, agentable, run)
    }

    fn grants(&self, agentable: AgentableId, user: UserId) -> impl Query<Vec<Grant>> {
        RunStore::grants(self, agentable, user)
    }

    fn budget_questions(&self, agentable: AgentableId) -> impl Query<Vec<(RunId, Question)>> {
        RunStore::budget_questions(self, agentable)
    }

    fn unread(&self, agentable: AgentableId) -> impl Query<UnreadMessages> {
        RunStore::unread(self, agentable)
    }

    fn acquit_others(&self, agentable: AgentableId) -> impl Query<()> {
        RunStore::acquit_others(self, agentable)
    }

    fn intervention(&self, run: RunId) -> impl Query<Option<Intervention>> {
        RunStore::intervention(self, run)
    }

    fn cost_of_run(&self, run: RunId) -> impl Query<Cost> {
        RunStore::cost_of_run(self, run)
    }

    fn keep_submission(&self, run: RunId, submission: &Submission) -> impl Query<()> {
        RunStore::keep_submission(self, run, submission)
    }

    fn spent(&self, agentable: AgentableId, run: RunId) -> impl Query<Spent> {
        RunStore::spent(self, agentable, run)
    }

    fn source_text(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        source: &TextSource,
    ) -> impl Query<Option<SourceText>> {
        read_source(self, tenant, agentable, source)
    }

    async fn images(
        &self,
        tenant: TenantId,
        user: UserId,
        ids: &[ImageId],
        with_data: &[ImageId],
    ) -> Result<Vec<StoredImage>> {
        self.tenant(tenant).images(user, ids, with_data).await
    }

    async fn refused_files(&self, tenant: TenantId, ids: &[Uuid]) -> Result<Vec<(Uuid, String)>> {
        self.tenant(tenant).refused_files(ids).await
    }

    async fn refuse_files(&self, tenant: TenantId, ids: &[Uuid], why: &str) -> Result<()> {
        self.tenant(tenant).refuse_files(ids, why).await
    }

    async fn attachments(
        &self,
        tenant: TenantId,
        user: UserId,
        ids: &[AttachmentId],
    ) -> Result<Vec<StoredAttachment>> {
        self.tenant(tenant).attachments(user, ids).await
    }

    fn attachment_bytes(
        &self,
        tenant: TenantId,
        file: &StoredAttachment,
        most: usize,
    ) -> impl Query<Option<Vec<u8>>> {
        read_attachment(self, tenant, file, most)
    }

    fn shared_state(&self, tenant: TenantId, agentable: AgentableId) -> impl Query<Option<Value>> {
        RunStore::shared_state(self, tenant, agentable)
    }

    async fn keep_pdf_text(
        &self,
        tenant: TenantId,
        id: AttachmentId,
        text: &str,
        is_cut: bool,
    ) -> Result<()> {
        self.tenant(tenant).keep_pdf_text(id, text, is_cut).await
    }

    fn context_cache(&self) -> Option<ContextCache> {
        Some(Self::context_cache(self))
    }

    fn command_files(&self, tenant: TenantId, agentable: AgentableId) -> Option<CommandFiles> {
        RunStore::command_files(self, tenant, agentable)
    }

    fn skill_text(&self, owner: &Owner, source: SkillSource, name: &str) -> impl Query<Option<SkillText>> {
        RunStore::skill_text(self, owner.tenant, owner.user, source, name)
    }

    fn request_title(
        &self,
        agentable: AgentableId,
        after_messages: i64,
        patience: Duration,
    ) -> impl Query<bool> {
        RunStore::request_title(self, agentable, after_messages, patience)
    }
}

impl RunTransaction for FencedTx {
    fn set_traceparent(&mut self, traceparent: Option<&str>) {
        FencedTx::set_traceparent(self, traceparent);
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

/// The first bytes of a file, at least `most` if it has so many; `None`: it was deleted, or the object store cannot be used.
///
/// # Errors
/// As the methods of the store.
async fn read_attachment(
    store: &RunStore,
    tenant: TenantId,
    file: &StoredAttachment,
    most: usize,
) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(file.bytes.min(most + PART_BYTES));
    for nth in 0..file.bytes.min(most).div_ceil(PART_BYTES) {
        match store.tenant(tenant).attachment_part(file, nth).await {
            Ok(part) => bytes.extend_from_slice(&part),
            Err(error @ (Error::NotFound { .. } | Error::Objects(_) | Error::NoObjects)) => {
                tracing::warn!(%error, id = %file.id, "a file cannot be read for a model");
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// The text of a file or a large result that an agentable may read; `None`: there is none.
///
/// # Errors
/// As the methods of the store.
async fn read_source(
    store: &RunStore,
    tenant: TenantId,
    agentable: AgentableId,
    source: &TextSource,
) -> Result<Option<SourceText>> {
    let read = match source {
        TextSource::Given(text) => Ok(SourceText::new(text.clone(), false)),
        TextSource::File(path) => {
            let file = store.tenant(tenant).file(agentable, path).await;
            file.map(|file| SourceText::new(file.content, file.untrusted))
        }
        TextSource::Result(id) => {
            let result = store.tenant(tenant).tool_result(agentable, *id).await;
            result.map(|result| SourceText::new(result.content, false))
        }
    };
    match read {
        Ok(text) => Ok(Some(text)),
        // A file that cannot be read is none that the agent may read.
        Err(Error::NotFound { .. } | Error::Folder(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
