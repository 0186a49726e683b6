//! Migrations, what follows them, and the check that tables and functions match the binary.

use std::sync::LazyLock;

use houston_domain::ensure;
use sqlx::migrate::Migrator;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::connections::connect_options_of;
use crate::error::{Error, Result};
use crate::handle::Shared;
use crate::pool::Store;
use crate::row_security;

/// The migrations of this binary, which create the tables. The functions are applied after them. Everything of Houston, also the
/// table of applied migrations, is in a schema of its own: it can share a database with the application that posts to it.
static MIGRATOR: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrator = sqlx::migrate!("../../migrations");
    migrator.create_schema("houston");
    migrator.dangerous_set_table_name("houston.migrations");
    migrator
});

/// Numbers the transactions of rows anew that were restored to another server. It must not run beside workers of an installation
/// whose dump was just restored; beside others it only reads.
const RESTORED: &str = include_str!("restored.sql");

impl Store {
    /// Applies missing migrations, then the functions that differ from those of this binary, then
    /// [row-level security](crate::row_security). After a dump was restored to another server, it also makes positions of events
    /// valid there. Several processes may call it at once. Writes nothing if there is nothing to do.
    ///
    /// # Errors
    /// [`Error::SchemaNewer`] when the database was migrated by a newer Houston, [`Error::Migrate`] when a
    /// migration fails, [`Error::Database`] when Postgres cannot be reached or refuses a statement or a function.
    pub async fn migrate(&self) -> Result<()> {
        match self.check_migrations().await {
            Err(Error::SchemaOlder { .. }) => MIGRATOR.run(&self.sessions).await?,
            other => other?,
        }
        self.apply_functions().await?;
        row_security::apply(&self.sessions).await?;
        // A connection of its own: after an error it would be left within a transaction.
        let mut connection = connect_options_of(&self.sessions).connect().await?;
        sqlx::raw_sql(RESTORED).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}

impl Shared {
    /// Checks that the schema is the one this binary was built for.
    ///
    /// # Errors
    /// [`Error::SchemaOlder`], [`Error::SchemaNewer`] or [`Error::FunctionsDiffer`], each with what to do.
    pub async fn check_schema(&self) -> Result<()> {
        self.check_migrations().await?;
        self.check_functions().await
    }

    async fn check_migrations(&self) -> Result<()> {
        let supported = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0);
        // The table does not exist before the first migration, so the query below cannot be checked at compile
        // time.
        let exists = sqlx::query_scalar!(
            r#"-- store::schema::exists
            select to_regclass('houston.migrations') is not null as "exists!""#
        )
        .fetch_one(&self.pool)
        .await?;
        ensure!(exists, Error::SchemaOlder { missing: MIGRATOR.iter().count() });
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
