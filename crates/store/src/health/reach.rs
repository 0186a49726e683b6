//! Deleting what counted against the limits of agents that reach other conversations.

use std::time::Duration;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;

impl RunStore {
    /// Deletes what was noted of messages that agents posted and of conversations that they made, longer than `after` ago, at
    /// most `batch` of each. What an open run has posted or made stays, and so does a message that an open run reads: they
    /// count until it ends. The messages and conversations themselves stay. Returns how many were deleted.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn delete_reach_counts(&self, after: Duration, batch: i64) -> Result<(u64, u64)> {
        let posted = sqlx::query!(
            "-- store::health::reach::forget_posted
            delete from houston.agent_messages
             where message_id = any (array(
                   select p.message_id from houston.agent_messages p
                     left join houston.runs r on r.id = p.from_run
                     left join houston.messages m on m.id = p.message_id and m.tenant_id = p.tenant_id
                     left join houston.runs reader on reader.id = m.run_id
                    where p.created_at < now() - make_interval(secs => $1)
                      and (r.id is null or r.ended_at is not null)
                      and (reader.id is null or reader.ended_at is not null)
                    order by p.created_at limit $2))",
            seconds(after),
            batch
        )
        .execute(&self.pool)
        .await?;
        let made = sqlx::query!(
            "-- store::health::reach::forget_made
            delete from houston.made_conversations
             where agentable_id = any (array(
                   select p.agentable_id from houston.made_conversations p
                     left join houston.runs r on r.id = p.from_run
                    where p.created_at < now() - make_interval(secs => $1)
                      and (r.id is null or r.ended_at is not null)
                    order by p.created_at limit $2))",
            seconds(after),
            batch
        )
        .execute(&self.pool)
        .await?;
        Ok((posted.rows_affected(), made.rows_affected()))
    }
}
