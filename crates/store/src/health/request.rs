//! What is remembered of requests, and for how long.

use std::time::Duration;

use super::seconds;
use crate::error::Result;
use crate::pool::Store;

impl Store {
    /// Forgets idempotency keys older than `after`, the oldest first, `batch` at most: a request that is sent again
    /// under one of them is a new one. What they made stays. Returns how many there were.
    ///
    /// # Errors
    /// What the database says.
    pub async fn forget_keys(&self, after: Duration, batch: i64) -> Result<u64> {
        // By place: a join might read the whole table instead of its oldest rows.
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
