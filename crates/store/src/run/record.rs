//! The transaction of a step in which tools read and write Houston's own tables, and [`RecordTx`]: the rows that a tool call
//! may read and write in it. Tools decide what happens and what the model reads; here is only what Postgres holds.

mod knowledge;

use std::borrow::Cow;
use std::sync::Arc;

use houston_domain::check_in::CheckInLimits;
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, CheckInId, MessageId, ResultId, RunId, RunToken, TenantId, UserId};
use houston_domain::knowledge::KnowledgeKind;
use houston_domain::plan::States;
use houston_domain::reach::ReachLimits;
use houston_domain::shared_state::StateChange;
use houston_domain::step::Step;
use houston_domain::task::TaskLimits;
use serde_json::Value;
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use crate::check_in;
use crate::claim::Fence;
use crate::error::{Error, Result};
use crate::handle::{RunStore, Settings, Shared};
use crate::knowledge::Knowledge;
use crate::plan::{
    NewPlan, PlanChange, PlanRefusal, PlanRow, PlanStep, StoredPlan, change, find, insert_plan, plans_of,
    steps_of,
};
use crate::shared_state;
use crate::statement::Statement as _;
use crate::step::{Commit, alone};
use crate::system_message::lock_at_once;
use crate::tool_result::{self, StoredResult};

/// A transaction that holds the agentable's lock row. What is written in it is committed with the step, or not at
/// all.
#[derive(Debug)]
pub struct FencedTx {
    tx: Transaction<'static, Postgres>,
    fence: Fence,
    pub(crate) shared: Arc<Shared>,
    /// See [`RecordTx::work_done`].
    work: u64,
    /// The tenant of the agentable whose files are to be written or deleted in the folder, if some are.
    changed_files_of: Option<TenantId>,
    /// Where the tasks and plans that the next tool calls start belong in a trace; `None`: where the run of the calls does.
    pub traceparent: Option<String>,
    /// How tool calls changed the state that the agentable shares with front ends, until the step is committed with the events.
    states: Vec<StateChange>,
}

/// The ids that rows written by a run carry.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// The tenant of the agentable.
    pub tenant: TenantId,
    /// The user of the agentable.
    pub user: UserId,
    /// The agentable.
    pub agentable: AgentableId,
    /// The run that writes them.
    pub run: RunId,
    /// Whether its session has read what strangers wrote: the rows are marked.
    pub untrusted: bool,
}

impl RunStore {
    /// Begins a transaction under the fence.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another worker has claimed the run.
    pub async fn begin_fenced(&self, fence: &Fence) -> Result<FencedTx> {
        let mut tx = self.pool.begin().await?;
        sqlx::query!(
            "-- store::record::fence
            select epoch from houston.run_locks
             where agentable_id = $1 and epoch = $2 and run_token = $3 and holder is not null for no key update",
            fence.agentable.0,
            fence.epoch,
            fence.token.0
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::Fenced)?;
        Ok(FencedTx {
            tx,
            fence: *fence,
            shared: Arc::clone(&self.shared),
            work: 0,
            changed_files_of: None,
            traceparent: None,
            states: Vec::new(),
        })
    }

    /// Whether the last step committed under this fence was `write`; asked after a commit whose outcome is unknown.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another worker has claimed the run.
    pub async fn was_committed(&self, fence: &Fence, write: houston_domain::id::WriteId) -> Result<bool> {
        let landed = sqlx::query_scalar!(
            r#"-- store::record::has_landed
            select last_write_id is not distinct from $4 as "landed!" from houston.run_locks
             where agentable_id = $1 and epoch = $2 and run_token = $3"#,
            fence.agentable.0,
            fence.epoch,
            fence.token.0,
            write.0
        )
        .fetch_optional(&self.pool)
        .await?;
        landed.ok_or(Error::Fenced)
    }

    /// Whether the lock is still held under this fence.
    pub async fn is_held(&self, fence: &Fence) -> Result<bool> {
        let held = sqlx::query_scalar!(
            r#"-- store::record::is_held
            select true as "held!" from houston.run_locks
             where agentable_id = $1 and epoch = $2 and run_token = $3 and holder is not null"#,
            fence.agentable.0,
            fence.epoch,
            fence.token.0
        );
        Ok(held.fetch_optional(&self.pool).await?.unwrap_or(false))
    }

    /// Releases a lock without ending the run: the next claim takes it over. Only the token is needed, since a
    /// claim whose response was lost leaves nothing else. `broke_down`: driving the run failed by itself, which
    /// counts like the death of a worker.
    pub async fn abandon(&self, agentable: AgentableId, token: RunToken, broke_down: bool) -> Result<()> {
        sqlx::query!(
            "-- store::record::abandon
            update houston.run_locks
               set holder = null, wake = true, woken_at = statement_timestamp(),
                   -- Enough to give the run up; while its context cannot be read, it is claimed again and again.
                   died_with = case when $3 and cardinality(died_with) < 32 then died_with || run_token
                                    else died_with end
             where agentable_id = $1 and run_token = $2 and holder is not null",
            agentable.0,
            token.0,
            broke_down
        )
        .run(&self.pool)
        .await
    }
}

impl FencedTx {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    /// The tables of one tool call of `owner`'s run, whose new rows have `ids`.
    pub fn rows(&mut self, owner: Owner, ids: RecordIds, limits: RecordLimits) -> RecordTx<'_> {
        let settings = Arc::clone(&self.shared.settings);
        RecordTx { tx: self, owner, ids, limits, settings }
    }

    /// Commits the step together with the rows written in this transaction.
    ///
    /// # Errors
    /// As [`RunStore::commit`]. When the step had been committed before, the transaction is rolled back.
    pub async fn commit(mut self, step: &Step) -> Result<Commit> {
        let mut step = Cow::Borrowed(step);
        if !self.states.is_empty() {
            let changed =
                |of: &StateChange| Event::StateChanged { delta: of.delta.clone(), between_runs: false };
            step.to_mut().events.extend(self.states.iter().map(changed));
        }
        let done = alone::commit(&mut self.tx, &self.fence, &step, self.shared.fairness).await?;
        if let Commit::Done(done) = &done
            && !self.states.is_empty()
        {
            shared_state::insert(&mut self.tx, self.fence.agentable, &self.states, &done.events).await?;
        }
        match done {
            Commit::Done(_) => self.tx.commit().await?,
            Commit::AlreadyCommitted => self.tx.rollback().await?,
        }
        if let (Some(folders), Some(tenant)) = (&self.shared.folders, self.changed_files_of) {
            folders.settle_soon(tenant, self.fence.agentable).await;
        }
        Ok(done)
    }
}

// [`RecordTx`]: the rows that a tool call may read and write. Tools decide what happens and what the model reads; here
// is only what Postgres holds.

/// The tables of one tool call, in the fenced transaction of its step: what it writes is committed with the step, or not
/// at all. It sees the rows of its own agentable and user only.
#[derive(Debug)]
pub struct RecordTx<'t> {
    pub(crate) tx: &'t mut FencedTx,
    pub(crate) owner: Owner,
    /// The ids of what the call creates.
    pub ids: RecordIds,
    /// Limits from the settings.
    pub limits: RecordLimits,
    /// The settings of the store.
    pub settings: Arc<Settings>,
}

/// The ids of what a tool call may create. They are the same when its transaction is repeated.
#[derive(Debug, Clone, Copy)]
pub struct RecordIds {
    /// A row: a note, a check-in, a task, …
    pub row: Uuid,
    /// The first run of a task.
    pub run: RunId,
    /// The first message of a task.
    pub message: MessageId,
}

impl RecordIds {
    /// The ids of `count` rows, rising, the first of which is [`Self::row`]. They have its shard.
    pub fn rows(self, count: usize) -> impl Iterator<Item = Uuid> {
        /// Bits of the shard, at the end.
        const SHARD_BITS: u32 = 16;
        let first = self.row.as_u128();
        (0..count as u128).map(move |nth| Uuid::from_u128(first.wrapping_add(nth << SHARD_BITS)))
    }
}

/// Limits from the settings.
#[derive(Debug, Clone, Copy)]
pub struct RecordLimits {
    /// Of tasks.
    pub tasks: TaskLimits,
    /// Of what it posts to other conversations.
    pub reach: ReachLimits,
    /// Of check-ins.
    pub check_ins: CheckInLimits,
    /// Approximate length of a page of a large result, in bytes.
    pub page_bytes: usize,
}

impl RecordTx<'_> {
    /// Work that the calls of this step have done so far, in a unit that only the tools that count it give a meaning.
    pub fn work_done(&self) -> u64 {
        self.tx.work
    }

    /// Counts work of this call.
    pub fn add_work(&mut self, work: u64) {
        self.tx.work = self.tx.work.saturating_add(work);
    }

    /// What agents know, for the run: that of its user and its agentable.
    pub fn knowledge(&mut self) -> Knowledge<'_> {
        let Owner { tenant, user, agentable, run, untrusted } = self.owner;
        let (author, limits) = (Some((agentable, run)), self.settings.knowledge_limits);
        Knowledge { connection: self.tx.connection(), tenant, user: Some(user), author, limits, untrusted }
    }

    /// Creates an item with [`RecordIds::row`] as its id.
    ///
    /// # Errors
    /// [`Error::Full`] when there is the maximum number; nothing was written, and the transaction goes on.
    pub async fn create_item(
        &mut self,
        kind: KnowledgeKind,
        title: Option<&str>,
        content: &str,
    ) -> Result<()> {
        let (id, mut knowledge) = (self.ids.row, self.knowledge());
        let of = (kind, knowledge.owner_of(kind).unwrap_or_default());
        knowledge.create_item(of, id, (title, content), None).await
    }

    /// A large result; `None`: there is none with this id that the agentable may read.
    pub async fn large_result(&mut self, id: ResultId) -> Result<Option<StoredResult>> {
        tool_result::find(self.tx.connection(), self.owner.tenant, self.owner.agentable, id).await
    }

    /// Cancels a pending check-in of the agentable. Returns whether it existed.
    pub async fn cancel_check_in(&mut self, id: CheckInId) -> Result<bool> {
        check_in::delete(self.tx.connection(), self.owner.tenant, Some(self.owner.agentable), id).await
    }
}

/// The errors of all methods: [`Error::Database`] when Postgres cannot be reached or refuses the
/// statement. None of them sees a plan of another agentable.
impl RecordTx<'_> {
    /// Makes a plan that works for the agentable of the run.
    pub async fn create_plan(&mut self, plan: &NewPlan<'_>) -> Result<()> {
        let Owner { tenant, agentable, run, untrusted, .. } = self.owner;
        let traceparent = self.tx.traceparent.clone();
        let plan = NewPlan { traceparent: traceparent.as_deref(), ..plan.clone() };
        let row = PlanRow {
            parent_run: Some(run.0),
            untrusted: Some(untrusted),
            ..PlanRow::new(tenant, agentable, &plan)
        };
        insert_plan(self.tx.connection(), row).await
    }

    /// The plans of the agentable, newest first.
    pub async fn plans(&mut self, limit: i64) -> Result<Vec<StoredPlan>> {
        plans_of(self.tx.connection(), self.owner.tenant, self.owner.agentable, (None, limit)).await
    }

    /// A plan of the agentable; `None`: it has none with this id.
    pub async fn plan(&mut self, id: AgentableId) -> Result<Option<StoredPlan>> {
        let found = find(self.tx.connection(), self.owner.tenant, id).await?;
        Ok(found.filter(|plan| plan.parent == self.owner.agentable))
    }

    /// The steps of a plan that have begun or settled.
    pub async fn plan_steps(&mut self, id: AgentableId) -> Result<Vec<PlanStep>> {
        let steps = steps_of(self.tx.connection(), self.owner.tenant, &[id]).await?;
        Ok(steps.into_iter().map(|(_, step)| step).collect())
    }

    /// Replaces the document of a plan that [`Self::plan`] has returned, as
    /// [`TenantStore::change_plan`](crate::TenantStore::change_plan) does. The caller's transaction holds the lock of the plan's
    /// agentable, which is taken after that of the plan elsewhere. So it does not wait for the plan: if that is locked, the error
    /// is transient, and the step is repeated.
    pub async fn change_plan<E>(
        &mut self,
        id: AgentableId,
        version: i32,
        rule: impl FnOnce(&Value, &States) -> std::result::Result<PlanChange, E>,
    ) -> Result<std::result::Result<(), PlanRefusal<E>>> {
        lock_at_once(self.tx.connection(), id).await?;
        change(self.tx.connection(), self.owner.tenant, (id, version), rule).await
    }
}

impl RecordTx<'_> {
    /// The state now; `None`: nothing has changed it.
    pub async fn shared_state(&mut self) -> Result<Option<Value>> {
        if let Some(change) = self.tx.states.last() {
            return Ok(Some(change.state.clone()));
        }
        shared_state::read(self.tx.connection(), self.owner.tenant, self.owner.agentable, i64::MAX).await
    }

    /// Changes the state. Its event and its row are committed with the step.
    pub fn change_shared_state(&mut self, change: StateChange) {
        self.tx.states.push(change);
    }
}
