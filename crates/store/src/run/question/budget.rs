//! The budget questions of an agentable: what people have added to its budgets.

use houston_domain::id::{AgentableId, RunId};
use houston_domain::question::{Question, budget};

use super::question_row;
use crate::error::Result;
use crate::handle::RunStore;

impl RunStore {
    /// The budget questions that Houston has asked for the runs of an agentable, the oldest first, with their runs.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn budget_questions(&self, agentable: AgentableId) -> Result<Vec<(RunId, Question)>> {
        let rows = sqlx::query!(
            "-- store::question::budget::of_agentable
            select run_id, id, kind, subject, text, schema, default_value, expires_at, state, answer, answered_by,
                   created_at, closed_at, approval
              from houston.questions
             where agentable_id = $1 and kind = 'budget' and starts_with(subject, $2) order by id",
            agentable.0,
            budget::PREFIX
        )
        .fetch_all(&self.pool)
        .await?;
        let questions = rows.into_iter().map(|row| (RunId(row.run_id), question_row!(row).into_question()));
        Ok(questions.collect())
    }
}
