//! Rows a tool writes into Houston's own tables, inside the fenced transaction of its step.

use houston_domain::id::{AgentableId, LearningId, NoteId, RunId, RunToken, TenantId};
use houston_domain::tool_call::{Record, ToolErrorCode, ToolResponse};
use sqlx::{PgConnection, Postgres, Transaction};

use crate::claim::Fence;
use crate::error::{Error, Result};
use crate::fairness::Fairness;
use crate::pool::Store;
use crate::step::{Commit, Step, commit};

/// A transaction that holds the lock row: what is recorded in it is committed with the step, or not at all.
#[derive(Debug)]
pub struct FencedTx {
    tx: Transaction<'static, Postgres>,
    fence: Fence,
    fairness: Fairness,
}

/// Whose rows, written by which run.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// The tenant.
    pub tenant: TenantId,
    /// The agentable.
    pub agentable: AgentableId,
    /// The run.
    pub run: RunId,
}

impl Store {
    /// Begins a transaction under the fence.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another worker has taken over.
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
        Ok(FencedTx { tx, fence: *fence, fairness: self.fairness })
    }

    /// Whether the last step committed under this fence was `write`: what a transaction that broke at its
    /// commit left behind.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another worker has taken over.
    pub async fn has_landed(&self, fence: &Fence, write: houston_domain::id::WriteId) -> Result<bool> {
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
    /// What the database says.
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

    /// Lets go of a lock without ending anything: the next claim takes the run over. By the token alone, since a
    /// claim whose answer was lost leaves nothing else. `broke_down`: driving it fails by itself, and counts like the
    /// death of a worker; else nothing is held against it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn abandon(&self, agentable: AgentableId, token: RunToken, broke_down: bool) -> Result<()> {
        sqlx::query!(
            "-- store::record::abandon
            update houston.run_locks
               set holder = null, wake = true, woken_at = clock_timestamp(),
                   died_with = case when $3 then died_with || run_token else died_with end
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
    /// Writes (or reads) the rows of one call and says what the model reads.
    ///
    /// # Errors
    /// What the database says; a row that is not there is a [`ToolResponse::Failure`] for the model.
    pub async fn record(&mut self, owner: Owner, id: uuid::Uuid, record: &Record) -> Result<ToolResponse> {
        match record {
            // Its row is a thread message, committed with the step.
            Record::SendMessage { .. } => Ok(ToolResponse::success("Message sent.")),
            Record::CreateNote { title, content } => {
                create_note(&mut self.tx, owner, NoteId(id), title, content).await
            }
            Record::ListNotes { limit } => list_notes(&mut self.tx, owner, *limit).await,
            Record::AddLearning { content } => {
                add_learning(&mut self.tx, owner, LearningId(id), content).await
            }
            Record::UpdateLearning { id, content } => {
                change_learning(&mut self.tx, owner, *id, Some(content)).await
            }
            Record::RemoveLearning { id } => change_learning(&mut self.tx, owner, *id, None).await,
        }
    }

    /// Commits the step together with what was recorded.
    ///
    /// # Errors
    /// As [`Store::commit`]. Nothing was recorded when the step had landed before.
    pub async fn commit(mut self, step: &Step) -> Result<Commit> {
        let done = commit(&mut self.tx, &self.fence, step, self.fairness).await?;
        match done {
            Commit::Done(_) => self.tx.commit().await?,
            Commit::Landed => self.tx.rollback().await?,
        }
        Ok(done)
    }
}

async fn create_note(
    connection: &mut PgConnection,
    owner: Owner,
    id: NoteId,
    title: &str,
    content: &str,
) -> Result<ToolResponse> {
    sqlx::query!(
        "-- store::record::create_note
        insert into houston.notes (id, tenant_id, agentable_id, run_id, title, content)
        values ($1, $2, $3, $4, $5, $6)",
        id.0,
        owner.tenant.0,
        owner.agentable.0,
        owner.run.0,
        title,
        content
    )
    .execute(connection)
    .await?;
    Ok(ToolResponse::success(format!("Created {id}: {title}")))
}

async fn list_notes(connection: &mut PgConnection, owner: Owner, limit: u32) -> Result<ToolResponse> {
    let notes = sqlx::query!(
        "-- store::record::list_notes
        select id, title, content from houston.notes where agentable_id = $1 order by id desc limit $2",
        owner.agentable.0,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?;
    if notes.is_empty() {
        return Ok(ToolResponse::success("There are no notes yet."));
    }
    let shown: Vec<String> = notes
        .into_iter()
        .map(|note| format!("{}: {}\n{}", NoteId(note.id), note.title, note.content))
        .collect();
    Ok(ToolResponse::success(shown.join("\n\n")))
}

async fn add_learning(
    connection: &mut PgConnection,
    owner: Owner,
    id: LearningId,
    content: &str,
) -> Result<ToolResponse> {
    sqlx::query!(
        "-- store::record::add_learning
        insert into houston.learnings (id, tenant_id, agentable_id, content) values ($1, $2, $3, $4)",
        id.0,
        owner.tenant.0,
        owner.agentable.0,
        content
    )
    .execute(connection)
    .await?;
    Ok(ToolResponse::success(format!("Remembered as {id}.")))
}

/// Corrects a learning, or forgets it when there is no new text.
async fn change_learning(
    connection: &mut PgConnection,
    owner: Owner,
    id: LearningId,
    content: Option<&String>,
) -> Result<ToolResponse> {
    let done = match content {
        Some(content) => {
            sqlx::query!(
                "-- store::record::update_learning
                update houston.learnings set content = $3, updated_at = clock_timestamp()
                 where agentable_id = $1 and id = $2",
                owner.agentable.0,
                id.0,
                content
            )
            .execute(connection)
            .await?
        }
        None => {
            sqlx::query!(
                "-- store::record::remove_learning
                delete from houston.learnings where agentable_id = $1 and id = $2",
                owner.agentable.0,
                id.0
            )
            .execute(connection)
            .await?
        }
    };
    Ok(match (done.rows_affected(), content) {
        (0, _) => ToolResponse::failure(
            ToolErrorCode::NotFound,
            format!("there is no {id}: use an id from <learnings>, or add a new one"),
        ),
        (_, Some(_)) => ToolResponse::success(format!("Corrected {id}.")),
        (_, None) => ToolResponse::success(format!("Forgot {id}.")),
    })
}
