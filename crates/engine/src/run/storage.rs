//! [`RunStorage`]: what driving a run asks of the store. Tests implement it in memory, with faults that Postgres shows
//! rarely.

use std::collections::HashMap;

use houston_domain::budget::Spent;
use houston_domain::id::{AgentableId, RunId, TenantId, UserId, WriteId};
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

/// Declares [`RunStorage`] from methods that [`RunStore`] has with the same names and arguments.
macro_rules! run_storage {
    ($(fn $name:ident(&self, $($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        /// What driving a run asks of the store. The methods are those of [`RunStore`] with the same names.
        pub(crate) trait RunStorage: Sync {
            type Transaction: RunTransaction;

            /// The store itself: what is read and written only there is asked of it ([`Journal::of_postgres`]). In memory there
            /// is none.
            ///
            /// [`Journal::of_postgres`]: crate::run::journal::Journal::of_postgres
            fn postgres(&self) -> Option<&RunStore> {
                None
            }

            fn begin_fenced(&self, fence: &Fence) -> impl Query<Self::Transaction>;
            $(fn $name(&self, $($argument: $kind),*) -> impl Query<$answer>;)*
        }

        impl RunStorage for RunStore {
            type Transaction = FencedTx;

            fn postgres(&self) -> Option<&RunStore> {
                Some(self)
            }

            fn begin_fenced(&self, fence: &Fence) -> impl Query<FencedTx> {
                RunStore::begin_fenced(self, fence)
            }

            $(fn $name(&self, $($argument: $kind),*) -> impl Query<$answer> {
                RunStore::$name(self, $($argument),*)
            })*
        }
    };
}

run_storage! {
    fn commit(&self, fence: &Fence, step: &Step) -> Commit;
    fn was_committed(&self, fence: &Fence, write: WriteId) -> bool;
    fn is_held(&self, fence: &Fence) -> bool;
    fn run_context(&self, agentable: AgentableId, run: RunId, notes: i64, limits: &PromptLimits) -> RunContext;
    fn driven(&self, agentable: AgentableId, run: RunId) -> (Option<Value>, Vec<Question>);
    fn committed_intents(&self, run: RunId) -> HashMap<String, CommittedIntent>;
    fn questions_of(&self, agentable: AgentableId, run: RunId) -> Vec<Question>;
    fn budget_questions(&self, agentable: AgentableId) -> Vec<(RunId, Question)>;
    fn unread(&self, agentable: AgentableId) -> UnreadMessages;
    fn keep_submission(&self, run: RunId, submission: &Submission) -> ();
    fn spent(&self, agentable: AgentableId, run: RunId) -> Spent;
    fn skill_text(&self, tenant: TenantId, user: UserId, source: SkillSource, name: &str) -> Option<SkillText>;
}

/// For whom a tool call reads or writes rows, the ids of those that it adds, and their limits.
#[derive(Clone, Copy)]
pub(crate) struct RecordOf {
    pub(crate) owner: Owner,
    pub(crate) ids: RecordIds,
    pub(crate) limits: RecordLimits,
}

/// A transaction behind the fence: rows, and the step that they belong to.
pub(crate) trait RunTransaction: Send {
    /// Where the tasks and plans that the next calls start belong in a trace; `None`: where the run does.
    fn set_traceparent(&mut self, traceparent: Option<&str>);
    /// Executes a tool call that reads or writes rows.
    fn record(&mut self, of: RecordOf, record: &dyn Record) -> impl Query<ToolResponse>;
    /// What a tool call would change.
    fn preview(&mut self, of: RecordOf, record: &dyn Record) -> impl Query<Option<String>>;
    fn compress(&mut self, owner: Owner, compression: &NewCompression) -> impl Query<()>;
    fn commit(self, step: &Step) -> impl Query<Commit>;
}

impl RunTransaction for FencedTx {
    fn set_traceparent(&mut self, traceparent: Option<&str>) {
        self.traceparent = traceparent.map(str::to_owned);
    }

    async fn record(&mut self, of: RecordOf, record: &dyn Record) -> Result<ToolResponse> {
        record.apply(self.rows(of.owner, of.ids, of.limits)).await
    }

    async fn preview(&mut self, of: RecordOf, record: &dyn Record) -> Result<Option<String>> {
        record.preview(self.rows(of.owner, of.ids, of.limits)).await
    }

    fn compress(&mut self, owner: Owner, compression: &NewCompression) -> impl Query<()> {
        FencedTx::compress(self, owner, compression)
    }

    fn commit(self, step: &Step) -> impl Query<Commit> {
        FencedTx::commit(self, step)
    }
}
