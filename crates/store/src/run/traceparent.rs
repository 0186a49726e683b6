//! Where runs belong in traces.

use std::collections::HashMap;

use houston_domain::id::RunId;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::RunStore;

impl RunStore {
    /// The `traceparent` of each of these runs that has one.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn traceparents(&self, runs: &[RunId]) -> Result<HashMap<RunId, String>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let rows = sqlx::query!(
            r#"-- store::traceparent::of_runs
            select id, traceparent as "traceparent!" from houston.runs where id = any ($1) and traceparent is not null"#,
            &ids
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (RunId(row.id), row.traceparent)).collect())
    }
}
