//! What runs remember of model calls that are answered later ([`Submission`]). Only runs that submit any read or write it: it is no
//! part of their steps. One that is left after its answer has another iteration than the run, and counts as none.

use houston_domain::id::RunId;
use houston_domain::submission::Submission;
use sqlx::types::Json;

use crate::error::{Error, Result};
use crate::handle::RunStore;

impl RunStore {
    /// The call that a run has submitted last.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn submission(&self, run: RunId) -> Result<Option<Submission>> {
        let found = sqlx::query_scalar!(
            r#"-- store::submission::find
            select submission as "submission: Json<Submission>" from houston.runs where id = $1"#,
            run.0
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(Error::from)?;
        Ok(found.flatten().map(|Json(submission)| submission))
    }

    /// Remembers the call that a run has submitted.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn keep_submission(&self, run: RunId, submission: &Submission) -> Result<()> {
        sqlx::query!(
            "-- store::submission::keep
            update houston.runs set submission = $2 where id = $1",
            run.0,
            Json(submission) as _
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
