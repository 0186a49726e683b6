//! Runs whose row is open although their agentable's lock refers to another run. No write of Houston's causes this.

use crate::error::Result;
use crate::handle::RunStore;

/// The error code such a run gets.
const CODE: &str = "HEALTH_MONITOR_ZOMBIE";

impl RunStore {
    /// Cancels such runs, at most `batch`. Returns how many.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn cancel_zombies(&self, batch: i64) -> Result<u64> {
        let done = sqlx::query!(
            "-- store::health::zombie::cancel
            with zombie as (
                select r.id
                  from (select id, agentable_id from houston.runs where status in ('queued', 'retrying')
                        union all
                        select id, agentable_id from houston.runs where status = 'running') as r
                  join houston.run_locks l on l.agentable_id = r.agentable_id
                 where l.run_id is distinct from r.id or not l.run_open
                 limit $1 for no key update of l skip locked)
            update houston.runs r
               set status = 'cancelled', held_for = null, ended_at = statement_timestamp(), error_code = $2,
                   error_message = 'no lock knew of this run'
              from zombie z where r.id = z.id and r.status in ('queued', 'retrying', 'running')",
            batch,
            CODE
        )
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected())
    }
}
