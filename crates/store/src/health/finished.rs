//! Deleting tasks that ended long ago, with all their rows.

use std::time::Duration;

use uuid::Uuid;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;

impl RunStore {
    /// Deletes tasks whose latest run ended longer than `after` ago, at most `batch`, with all their rows, in one
    /// transaction. `tasks` are the kinds that do not chat. Notes and learnings are the tasks' results: they move
    /// to the agentable that created the task, or to the user's own. Returns the number of deleted tasks.
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses a statement; then
    /// nothing was deleted.
    pub async fn delete_finished(&self, tasks: &[String], after: Duration, batch: i64) -> Result<usize> {
        let mut tx = self.pool.begin().await?;
        // Under its lock row no message can be posted to a task; a post that waits for the lock then finds no
        // agentable.
        let ids: Vec<Uuid> = sqlx::query_scalar!(
            "-- store::health::finished::lock
            select a.id from houston.agentables a
              join houston.run_locks l on l.agentable_id = a.id
              join houston.runs r on r.id = l.run_id
             where a.kind = any ($1) and a.created_at < now() - make_interval(secs => $2)
               and r.ended_at < now() - make_interval(secs => $2)
               and not l.run_open and l.holder is null
               and not exists (select from houston.agentables c where c.parent_id = a.id)
             order by a.created_at limit $3 for update of l skip locked",
            tasks,
            seconds(after),
            batch
        )
        .fetch_all(&mut *tx)
        .await?;
        if ids.is_empty() {
            return Ok(0);
        }
        sqlx::query!(
            "-- store::health::finished::bequeath
            with heirs as (
                select a.id, coalesce(a.parent_id, (select u.id from houston.agentables u
                                                     where u.user_id = a.user_id and u.made_with_user
                                                     order by u.id limit 1)) as heir
                  from houston.agentables a where a.id = any ($1))
            update houston.knowledge_items n set agentable_id = h.heir from heirs h where n.agentable_id = h.id",
            &ids
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "-- store::health::finished::delete
            with calls as (delete from houston.tool_calls t using houston.runs r
                            where r.agentable_id = any ($1) and t.run_id = r.id),
            model_calls as (delete from houston.model_calls c using houston.runs r
                             where r.agentable_id = any ($1) and c.run_id = r.id),
            session_calls as (delete from houston.model_calls c using houston.sessions s
                               where s.agentable_id = any ($1) and c.run_id = s.id),
            sessions as (delete from houston.sessions where agentable_id = any ($1)),
            session_states as (delete from houston.session_states where agentable_id = any ($1)),
            events as (delete from houston.events where agentable_id = any ($1)),
            messages as (delete from houston.messages where agentable_id = any ($1)),
            history as (delete from houston.history where agentable_id = any ($1)),
            runs as (delete from houston.runs where agentable_id = any ($1)),
            files as (delete from houston.workspace_files where agentable_id = any ($1)),
            locks as (delete from houston.run_locks where agentable_id = any ($1))
            delete from houston.agentables where id = any ($1)",
            &ids
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        if let Some(folders) = &self.folders {
            // Folders that are not removed now are by `tidy_folders`.
            folders.remove_soon(&ids).await;
        }
        Ok(ids.len())
    }
}
