//! Statements of which only the effect is wanted, not rows; and ids as their parameters.

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, PgExecutor, Postgres};
use uuid::Uuid;

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

/// Ids as a parameter.
pub(crate) fn uuids<Id: Copy + Into<Uuid>>(ids: &[Id]) -> Vec<Uuid> {
    ids.iter().copied().map(Into::into).collect()
}

/// Executes statements one after the other.
pub(crate) async fn in_turn<const N: usize>(
    connection: &mut PgConnection,
    statements: [Query<'_, Postgres, PgArguments>; N],
) -> Result<()> {
    for statement in statements {
        statement.execute(&mut *connection).await?;
    }
    Ok(())
}
