//! Why the health monitor wants a run to end; read by the engine, which ends it.

use houston_domain::id::RunId;
use houston_domain::intervention::Intervention;

use crate::error::Result;
use crate::handle::RunStore;

impl RunStore {
    /// Why `run` is to end; `None` when the health monitor does not want it to.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn intervention(&self, run: RunId) -> Result<Option<Intervention>> {
        let reason = sqlx::query_scalar!(
            "-- store::health::intervention::get
            select cancel_reason from houston.runs where id = $1",
            run.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(reason.flatten().and_then(|reason| Intervention::from_name(&reason)))
    }
}
