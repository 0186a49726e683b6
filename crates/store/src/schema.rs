//! Migrations, and the check that the schema matches the binary.

use sqlx::migrate::Migrator;

use crate::error::{Error, Result};
use crate::pool::Store;

/// The migrations of this binary.
pub static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

impl Store {
    /// Applies missing migrations. Several processes may call it at once.
    ///
    /// # Errors
    /// [`Error::SchemaNewer`] when the database was migrated by a newer Houston, [`Error::Migrate`] when a
    /// migration fails, [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn migrate(&self) -> Result<()> {
        match self.check_schema().await {
            Err(Error::SchemaOlder { .. }) => MIGRATOR.run(&self.pool).await?,
            other => other?,
        }
        let migrations = MIGRATOR.iter().map(|migration| migration.sql.as_str());
        let weakened = houston_faults::mutation::weakened(migrations)
            .map_err(|error| sqlx::Error::Configuration(error.into()))?;
        if let Some(function) = weakened {
            sqlx::raw_sql(sqlx::AssertSqlSafe(function)).execute(&self.pool).await?;
        }
        Ok(())
    }

    /// Checks that the schema is the one this binary was built for.
    ///
    /// # Errors
    /// [`Error::SchemaOlder`] or [`Error::SchemaNewer`], each with what to do; [`Error::Database`] when Postgres
    /// cannot be reached or refuses the statement.
    pub async fn check_schema(&self) -> Result<()> {
        let supported = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
        // The table does not exist before the first migration, so the query below cannot be checked at compile
        // time.
        let exists = sqlx::query_scalar!(
            r#"-- store::schema::exists
            select to_regclass('houston.migrations') is not null as "exists!""#
        )
        .fetch_one(&self.pool)
        .await?;
        if !exists {
            return Err(Error::SchemaOlder { missing: MIGRATOR.iter().count() });
        }
        let applied: Vec<i64> = sqlx::query_scalar(
            "-- store::schema::applied\nselect version from houston.migrations where success order by version",
        )
        .fetch_all(&self.pool)
        .await?;
        if let Some(&found) = applied.iter().max().filter(|found| **found > supported) {
            return Err(Error::SchemaNewer { found, supported });
        }
        let missing = MIGRATOR.iter().filter(|migration| !applied.contains(&migration.version)).count();
        if missing > 0 { Err(Error::SchemaOlder { missing }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use houston_faults::mutation::{Mutation, weakened_by};

    use super::*;

    #[test]
    fn mutations_still_fit_the_latest_commit_step() {
        for mutation in [Mutation::Fence, Mutation::RowLock] {
            let migrations = MIGRATOR.iter().map(|migration| migration.sql.as_str());
            let function = weakened_by(mutation, migrations).unwrap();
            assert!(function.starts_with("create or replace function houston.commit_step("));
        }
    }
}
