//! Rows that a tool writes into Houston's own tables, in the fenced transaction of its step.

use houston_domain::id::{AgentableId, LearningId, NoteId, RunId, RunToken, TenantId, UserId};
use houston_domain::knowledge::{KnowledgeKind, KnowledgeLimits};
use houston_domain::session::SessionArchive;
use houston_domain::tool_call::{Record, ToolErrorCode, ToolResponse};
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use crate::check_in;
use crate::claim::Fence;
use crate::error::{Error, Result};
use crate::fairness::Fairness;
use crate::handle::RunStore;
use crate::knowledge_item::{self, KnowledgeChange, NewKnowledgeItem};
use crate::session_search;
use crate::step::{Commit, alone};
use crate::tool_result;
use houston_domain::step::Step;

mod knowledge;

/// A transaction that holds the agentable's lock row. What is written in it is committed with the step, or not at
/// all.
#[derive(Debug)]
pub struct FencedTx {
    tx: Transaction<'static, Postgres>,
    fence: Fence,
    fairness: Fairness,
    pub(crate) knowledge_limits: KnowledgeLimits,
    session_settings: SessionArchive,
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
            knowledge_limits: self.knowledge_limits,
            session_settings: self.archiving.settings,
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

    /// Writes or reads the rows of one tool call. Returns the tool's response for the model.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement. A missing row or a full list
    /// is a [`ToolResponse::Failure`] for the model, not an error.
    pub async fn record(&mut self, owner: Owner, id: uuid::Uuid, record: &Record) -> Result<ToolResponse> {
        match record {
            // The row is a thread message, committed with the step.
            Record::SendMessage { .. } => Ok(ToolResponse::success("Message sent.")),
            Record::CreateNote { title, content } => {
                create_note(&mut self.tx, owner, NoteId(id), (title, content), &self.knowledge_limits).await
            }
            Record::AddLearning { content } => {
                add_learning(&mut self.tx, owner, LearningId(id), content, &self.knowledge_limits).await
            }
            Record::UpdateLearning { id, content } => {
                let within = Some(owner.agentable.0);
                let change = KnowledgeChange { content: Some(content), ..KnowledgeChange::default() };
                let changed =
                    knowledge_item::change(&mut self.tx, owner.tenant, within, learning(*id), change).await?;
                Ok(if changed.is_some() {
                    ToolResponse::success(format!("Corrected {id}."))
                } else {
                    no_learning(*id)
                })
            }
            Record::RemoveLearning { id } => {
                let within = Some(owner.agentable.0);
                let gone = knowledge_item::delete(&mut self.tx, owner.tenant, within, learning(*id)).await?;
                Ok(if gone { ToolResponse::success(format!("Forgot {id}.")) } else { no_learning(*id) })
            }
            Record::SessionHistory(query) => {
                session_search::answer(&mut self.tx, owner, query, &self.session_settings).await
            }
            Record::ReadResult { id, query, max_bytes } => {
                tool_result::read(&mut self.tx, owner, *id, query, *max_bytes).await
            }
            Record::Knowledge(knowledge) => {
                knowledge::work(&mut self.tx, owner, id, knowledge, &self.knowledge_limits).await
            }
            Record::ListCheckIns => check_in::list_for_model(&mut self.tx, owner).await,
            Record::CancelCheckIn { id } => check_in::cancel(&mut self.tx, owner, *id).await,
            // Created by the engine, which knows the limits: see `create_task` and `schedule_check_in`.
            Record::CreateTask(_) | Record::ScheduleCheckIn(_) => {
                Ok(ToolResponse::failure(ToolErrorCode::Unknown, "this tool cannot be used here"))
            }
        }
    }

    /// Commits the step together with the rows written in this transaction.
    ///
    /// # Errors
    /// As [`RunStore::commit`]. When the step had been committed before, the transaction is rolled back.
    pub async fn commit(mut self, step: &Step) -> Result<Commit> {
        let done = alone::commit(&mut self.tx, &self.fence, step, self.fairness).await?;
        match done {
            Commit::Done(_) => self.tx.commit().await?,
            Commit::AlreadyCommitted => self.tx.rollback().await?,
        }
        Ok(done)
    }
}

fn learning(id: LearningId) -> (KnowledgeKind, Uuid) {
    (KnowledgeKind::Learning, id.0)
}

/// A note or learning of the agentable.
fn new_item<'a>(
    owner: Owner,
    (kind, id): (KnowledgeKind, Uuid),
    title: Option<&'a str>,
    content: &'a str,
) -> NewKnowledgeItem<'a> {
    let author = Some((owner.agentable, owner.run));
    NewKnowledgeItem { id, kind, owner: owner.agentable.0, author, title, content, created_at: None }
}

async fn create_note(
    connection: &mut PgConnection,
    owner: Owner,
    id: NoteId,
    (title, content): (&str, &str),
    limits: &KnowledgeLimits,
) -> Result<ToolResponse> {
    let note = new_item(owner, (KnowledgeKind::Note, id.0), Some(title), content);
    inserted(knowledge_item::insert(connection, owner.tenant, &note, limits).await, || {
        format!("Created {id}: {title}")
    })
}

async fn add_learning(
    connection: &mut PgConnection,
    owner: Owner,
    id: LearningId,
    content: &str,
    limits: &KnowledgeLimits,
) -> Result<ToolResponse> {
    let learning = new_item(owner, (KnowledgeKind::Learning, id.0), None, content);
    inserted(knowledge_item::insert(connection, owner.tenant, &learning, limits).await, || {
        format!("Remembered as {id}.")
    })
}

/// The tool's response for an insert. When the owner's list is full, nothing was written.
fn inserted(done: Result<()>, text: impl FnOnce() -> String) -> Result<ToolResponse> {
    match done {
        Ok(()) => Ok(ToolResponse::success(text())),
        Err(error @ Error::Full { .. }) => Ok(full(&error)),
        Err(error) => Err(error),
    }
}

fn full(error: &Error) -> ToolResponse {
    ToolResponse::failure(ToolErrorCode::RateLimited, error.to_string())
}

fn no_learning(id: LearningId) -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::NotFound,
        format!("there is no {id}: use an id from <learnings> or list_learnings, or add a new one"),
    )
}
