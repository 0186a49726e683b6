//! The SQL functions: one file each in `migrations/functions`, embedded in the binary.
//!
//! Tables keep their rows, so they change by migrations, each of which is applied once. Functions keep nothing, so only
//! their latest text is stored, and [`Store::migrate`](crate::Store::migrate) applies the files that differ from what the database has. The
//! table `houston.functions` has the hash of each applied file.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::error::{Error, Result};
use crate::handle::Shared;
use crate::statement::Statement as _;

/// Name and SQL text of each file, ordered by name. Written by `build.rs`.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/functions.rs"));

static FUNCTIONS: LazyLock<Vec<FunctionFile>> = LazyLock::new(|| {
    FILES.iter().map(|&(name, sql)| FunctionFile { name, sql, sha256: Sha256::digest(sql).into() }).collect()
});

/// SQLSTATE of a `create or replace function` that changes the result type or the names of arguments.
const CANNOT_REPLACE: &str = "42P13";

/// A file of `migrations/functions`.
struct FunctionFile {
    /// The name of its functions, which is also its file name without `.sql`.
    name: &'static str,
    sql: &'static str,
    sha256: [u8; 32],
}

/// A function in the database.
#[derive(PartialEq, sqlx::FromRow)]
struct DatabaseFunction {
    name: String,
    /// Name and types of the arguments, as `drop function` takes them.
    signature: String,
    /// The position of its row in `pg_proc`, which changes with each `create or replace`.
    version: String,
}

/// How the database differs from the files.
struct Differences {
    /// Files that were not applied, or not in this version.
    outdated: Vec<&'static FunctionFile>,
    /// Names of applied files that this binary does not have.
    removed: Vec<String>,
}

impl Shared {
    /// Checks that the functions are those of this binary.
    pub(crate) async fn check_functions(&self) -> Result<()> {
        let differences = Differences::read(&mut *self.pool.acquire().await?).await?;
        let names: Vec<String> = differences.outdated.iter().map(|file| file.name.to_owned()).collect();
        if names.is_empty() { Ok(()) } else { Err(Error::FunctionsDiffer { names }) }
    }

    /// Applies the files that differ, and drops functions without a file. Writes nothing if nothing differs.
    pub(crate) async fn apply_functions(&self) -> Result<()> {
        if Differences::read(&mut *self.pool.acquire().await?).await?.is_empty() {
            return Ok(());
        }
        let mut tx = self.pool.begin().await?;
        // The files are applied in any order, so a body may use a function that does not exist yet. `likeness` uses one of
        // pg_trgm, which may be installed in any schema. Another process that migrates may take longer than a query usually
        // may.
        let settings = "-- store::functions::prepare
                        set local check_function_bodies = off;
                        select set_config('search_path', extnamespace::regnamespace::text, true) from pg_extension
                         where extname = 'pg_trgm';
                        set local lock_timeout = '60s';
                        set local statement_timeout = '60s'";
        sqlx::raw_sql(settings).execute(&mut *tx).await?;
        // Locks 1 and 2 are those of claims.
        sqlx::raw_sql("-- store::functions::lock\nselect pg_advisory_xact_lock(3, 0)")
            .execute(&mut *tx)
            .await?;
        let differences = Differences::read(&mut tx).await?;
        let before = DatabaseFunction::all(&mut tx).await?;
        for file in &differences.outdated {
            let replaced: Vec<_> = before.iter().filter(|function| function.name == file.name).collect();
            file.apply(&mut tx, &replaced).await?;
        }
        for function in DatabaseFunction::all(&mut tx).await? {
            // A file with another signature does not replace the old function, but creates a second one.
            if differences.concern(&function.name) && before.contains(&function) {
                function.drop_from(&mut tx).await?;
            }
        }
        differences.record(&mut tx).await?;
        Ok(tx.commit().await?)
    }
}

impl FunctionFile {
    /// Applies the file; `replaced` are the functions of its name.
    async fn apply(&self, connection: &mut PgConnection, replaced: &[&DatabaseFunction]) -> Result<()> {
        if replaced.is_empty() {
            sqlx::raw_sql(self.sql).execute(connection).await?;
            return Ok(());
        }
        let mut savepoint = connection.begin().await?;
        let applied = sqlx::raw_sql(self.sql).execute(&mut *savepoint).await.map_err(Error::from);
        match applied {
            Ok(_) => savepoint.commit().await?,
            Err(error) if error.sqlstate().as_deref() == Some(CANNOT_REPLACE) => {
                savepoint.rollback().await?;
                for function in replaced {
                    function.drop_from(&mut *connection).await?;
                }
                sqlx::raw_sql(self.sql).execute(connection).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl DatabaseFunction {
    /// All functions of the schema, without those of extensions.
    async fn all(connection: &mut PgConnection) -> Result<Vec<Self>> {
        // Not `query!`: it would be the only reason to describe system catalogues in `.sqlx`.
        let all = sqlx::query_as(
            "-- store::functions::all
            select p.proname::text as name, p.oid::regprocedure::text as signature, p.ctid::text as version
              from pg_proc p
             where p.pronamespace = 'houston'::regnamespace and p.prokind = 'f'
               and not exists (select from pg_depend d
                                where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')",
        );
        Ok(all.fetch_all(connection).await?)
    }

    async fn drop_from(&self, connection: &mut PgConnection) -> Result<()> {
        // `signature` is quoted by Postgres (regprocedure).
        let drop = format!("-- store::functions::drop\ndrop function {}", self.signature);
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(connection).await?;
        Ok(())
    }
}

impl Differences {
    async fn read(connection: &mut PgConnection) -> Result<Self> {
        // Not `query!`, like the other queries of this table here: they work before a migration is described in
        // `.sqlx`.
        let applied: Vec<(String, Vec<u8>)> =
            sqlx::query_as("-- store::functions::applied\nselect name, sha256 from houston.functions")
                .fetch_all(connection)
                .await?;
        let is_applied = |file: &&FunctionFile| {
            applied.iter().any(|(name, sha256)| *name == file.name && *sha256 == file.sha256)
        };
        let outdated = FUNCTIONS.iter().filter(|file| !is_applied(file)).collect();
        let removed = applied
            .iter()
            .map(|(name, _)| name.clone())
            .filter(|name| !FUNCTIONS.iter().any(|file| file.name == name))
            .collect();
        Ok(Self { outdated, removed })
    }

    fn is_empty(&self) -> bool {
        self.outdated.is_empty() && self.removed.is_empty()
    }

    /// Whether functions of this name are to be replaced or dropped.
    fn concern(&self, name: &str) -> bool {
        self.outdated.iter().any(|file| file.name == name)
            || self.removed.iter().any(|removed| removed == name)
    }

    /// Stores what was applied and removed.
    async fn record(&self, connection: &mut PgConnection) -> Result<()> {
        let names: Vec<&str> = self.outdated.iter().map(|file| file.name).collect();
        let hashes: Vec<&[u8]> = self.outdated.iter().map(|file| file.sha256.as_slice()).collect();
        sqlx::query(
            "-- store::functions::record
            with removed as (delete from houston.functions where name = any ($3))
            insert into houston.functions (name, sha256) select * from unnest($1::text[], $2::bytea[])
            on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at",
        )
        .bind(names)
        .bind(hashes)
        .bind(&self.removed)
        .run(connection)
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_embedded_in_order() {
        assert!(FILES.is_sorted());
        let file = FILES.iter().find(|(file, _)| *file == "post_message");
        assert!(file.unwrap().1.contains("create or replace function houston.post_message("));
    }
}
