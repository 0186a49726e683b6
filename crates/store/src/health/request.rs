//! Deleting idempotency keys that are too old.

use std::time::Duration;

use super::seconds;
use crate::error::Result;
use crate::handle::RunStore;

impl RunStore {
    /// Deletes idempotency keys older than `after`, the oldest first, at most `batch`. A request repeated under one
    /// of them counts as new. What the requests created stays. Returns the number of deleted keys.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn delete_idempotency_keys(&self, after: Duration, batch: i64) -> Result<u64> {
        // By `ctid`: a join might read the whole table instead of its oldest rows.
        let done = sqlx::query!(
            "-- store::health::request::forget_keys
            delete from houston.idempotency_keys
             where ctid = any (array(
                   select ctid from houston.idempotency_keys
                    where created_at < now() - make_interval(secs => $1)
                    order by created_at limit $2 for update skip locked))",
            seconds(after),
            batch
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }
}
