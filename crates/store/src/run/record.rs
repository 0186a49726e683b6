//! The transaction of a step in which tools read and write Houston's own tables. What they may do there is in [`RecordTx`].

use std::borrow::Cow;
use std::sync::Arc;

use houston_domain::custom_table::TablePresets;
use houston_domain::id::{AgentableId, RunId, RunToken, TenantId, UserId};
use houston_domain::knowledge::KnowledgeLimits;
use houston_domain::session::SessionArchive;
use sqlx::{PgConnection, Postgres, Transaction};

use crate::claim::Fence;
use crate::error::{Error, Result};
use crate::fairness::Fairness;
use crate::handle::RunStore;
use crate::shared_state::{self, PendingState};
use crate::step::{Commit, alone};
use crate::workspace_file::settle::Folders;
use houston_domain::step::Step;

mod conversations;
mod files;
mod plan;
mod rows;
mod skills;
mod snippets;
mod state;
mod tables;
mod todos;

pub use self::rows::{RecordIds, RecordLimits, RecordTx};

/// A transaction that holds the agentable's lock row. What is written in it is committed with the step, or not at
/// all.
#[derive(Debug)]
pub struct FencedTx {
    tx: Transaction<'static, Postgres>,
    fence: Fence,
    fairness: Fairness,
    /// See [`RecordTx::work_done`].
    work: u64,
    pub(crate) knowledge_limits: KnowledgeLimits,
    pub(crate) table_presets: Arc<TablePresets>,
    pub(crate) session_settings: SessionArchive,
    folders: Option<Folders>,
    /// The tenant of the agentable whose files are to be written or deleted in the folder, if some are.
    changed_files_of: Option<TenantId>,
    /// See [`Self::set_traceparent`].
    traceparent: Option<Box<str>>,
    /// How tool calls changed the state that the agentable shares with front ends.
    pub(crate) states: Vec<PendingState>,
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
    /// [`Error::Fenced`] when another worker has claimed the run, [`Error::Database`] when Postgres cannot be
    /// reached or refuses the statement.
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
            fairness: self.fairness,
            work: 0,
            knowledge_limits: self.knowledge_limits,
            table_presets: Arc::clone(&self.table_presets),
            session_settings: self.archiving.settings,
            folders: self.folders.clone(),
            changed_files_of: None,
            traceparent: None,
            states: Vec::new(),
        })
    }

    /// Whether the last step committed under this fence was `write`; asked after a commit whose outcome is unknown.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another worker has claimed the run, [`Error::Database`] when Postgres cannot be
    /// reached or refuses the statement.
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
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn is_held(&self, fence: &Fence) -> Result<bool> {
        let held = sqlx::query_scalar!(
            r#"-- store::record::is_held
            select true as "held!" from houston.run_locks
             where agentable_id = $1 and epoch = $2 and run_token = $3 and holder is not null"#,
            fence.agentable.0,
            fence.epoch,
            fence.token.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(held.unwrap_or(false))
    }

    /// Releases a lock without ending the run: the next claim takes it over. Only the token is needed, since a
    /// claim whose response was lost leaves nothing else. `broke_down`: driving the run failed by itself, which
    /// counts like the death of a worker.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
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
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

impl FencedTx {
    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    /// Where the tasks and plans that the next tool calls start belong in a trace; `None`: where the run of the calls does.
    pub fn set_traceparent(&mut self, traceparent: Option<&str>) {
        self.traceparent = traceparent.map(Box::from);
    }

    /// The tables of one tool call of `owner`'s run, whose new rows have `ids`.
    pub fn rows(&mut self, owner: Owner, ids: RecordIds, limits: RecordLimits) -> RecordTx<'_> {
        RecordTx { tx: self, owner, ids, limits }
    }

    /// Commits the step together with the rows written in this transaction.
    ///
    /// # Errors
    /// As [`RunStore::commit`]. When the step had been committed before, the transaction is rolled back.
    pub async fn commit(mut self, step: &Step) -> Result<Commit> {
        let mut step = Cow::Borrowed(step);
        if !self.states.is_empty() {
            step.to_mut().events.extend(self.states.iter().map(PendingState::event));
        }
        let done = alone::commit(&mut self.tx, &self.fence, &step, self.fairness).await?;
        if let Commit::Done(done) = &done
            && !self.states.is_empty()
        {
            shared_state::insert(&mut self.tx, self.fence.agentable, &self.states, &done.events).await?;
        }
        match done {
            Commit::Done(_) => self.tx.commit().await?,
            Commit::AlreadyCommitted => self.tx.rollback().await?,
        }
        if let (Some(folders), Some(tenant)) = (self.folders, self.changed_files_of) {
            folders.settle_soon(tenant, self.fence.agentable).await;
        }
        Ok(done)
    }
}
