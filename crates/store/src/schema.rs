//! Migrations, and the check that binary and schema belong together.

use sqlx::migrate::Migrator;

use crate::error::{Error, Result};
use crate::pool::Store;

/// All migrations of this binary.
pub static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

impl Store {
    /// Applies what is missing; several processes may try at once.
    ///
    /// # Errors
    /// [`Error::SchemaNewer`], or what the database says.
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

    /// Whether the schema is the one this binary was built for.
    ///
    /// # Errors
    /// [`Error::SchemaOlder`] or [`Error::SchemaNewer`], each naming the fix.
    pub async fn check_schema(&self) -> Result<()> {
        let known = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
        // The table is not there before the first migration, so this text cannot be a checked one.
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
        if let Some(&found) = applied.iter().max().filter(|found| **found > known) {
            return Err(Error::SchemaNewer { found, known });
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
