//! The sweep: what somebody must look at, read from the facts. Whatever a lost hint forgot is found here.

use houston_domain::id::AgentableId;
use uuid::Uuid;

use crate::error::Result;
use crate::pool::Store;

/// An agentable that waits for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Which one.
    pub agentable: AgentableId,
    /// Its kind, which says how urgent it is.
    pub kind: String,
}

impl Store {
    /// Agentables with something unread, a due retry or a dead holder, in id order after `after`, `limit` at
    /// most (a page that is full wants another).
    ///
    /// # Errors
    /// What the database says.
    pub async fn due(&self, after: Option<AgentableId>, limit: i64) -> Result<Vec<Due>> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let rows = sqlx::query!(
            r#"-- store::sweep::due
            with waiting as (
                select l.agentable_id from houston.run_locks l
                 where l.wake and l.run_open and l.agentable_id > $1
                   and (l.holder is null or not exists (
                           select from houston.workers w
                            where w.id = l.holder and w.alive_until > clock_timestamp()))
                   and (l.next_attempt_at is null or l.next_attempt_at <= clock_timestamp())
                 order by l.agentable_id limit $2),
            orphaned as (
                select r.agentable_id from houston.runs r
                 where r.status = 'running' and r.agentable_id > $1
                   and not exists (select from houston.workers w
                                    where w.id = r.worker_id and w.alive_until > clock_timestamp())
                 limit $2)
            select a.id as "id!", a.kind as "kind!" from houston.agentables a
             where a.id in (select agentable_id from waiting union select agentable_id from orphaned)
             order by a.id limit $2"#,
            after,
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| Due { agentable: AgentableId(row.id), kind: row.kind }).collect())
    }
}
