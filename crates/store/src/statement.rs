//! Statements of which only the effect is wanted, not rows.

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgExecutor, Postgres};

use crate::error::{Error, Result};

/// A statement of which only the effect is wanted.
pub(crate) trait Statement {
    /// Executes it, whatever it finds.
    async fn run(self, executor: impl PgExecutor<'_>) -> Result<()>;

    /// Executes it.
    ///
    /// # Errors
    /// `missing` when there was no row for it.
    async fn run_or(self, executor: impl PgExecutor<'_>, missing: Error) -> Result<()>;
}

impl Statement for Query<'_, Postgres, PgArguments> {
    async fn run(self, executor: impl PgExecutor<'_>) -> Result<()> {
        self.execute(executor).await?;
        Ok(())
    }

    async fn run_or(self, executor: impl PgExecutor<'_>, missing: Error) -> Result<()> {
        if self.execute(executor).await?.rows_affected() == 0 { Err(missing) } else { Ok(()) }
    }
}
