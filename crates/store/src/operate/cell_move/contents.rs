//! Whose a database is, which `houston cell add` must know before it writes to it.

use houston_domain::cell::CellName;
use houston_domain::id::TenantId;
use uuid::Uuid;

use crate::error::Result;
use crate::pool::Store;

/// What a database has, as far as it says whose it is. Without any of it, it is empty or has only tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// Its tenants. Each cell of an installation has copies of the same ones.
    pub tenants: Vec<TenantId>,
    /// Whether it has users.
    pub has_users: bool,
    /// The names of the cell when users were moved to it.
    pub names: Vec<CellName>,
}

impl Store {
    /// What the database has. It may have no tables yet, or those of an older or a newer release.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses a statement.
    pub async fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        if self.has_table("houston.tenants").await? {
            let tenants: Vec<Uuid> =
                sqlx::query_scalar("-- store::cell_move::contents::tenants\nselect id from houston.tenants")
                    .fetch_all(&self.pool)
                    .await?;
            contents.tenants = tenants.into_iter().map(TenantId).collect();
        }
        if self.has_table("houston.users").await? {
            contents.has_users = sqlx::query_scalar(
                "-- store::cell_move::contents::has_users\nselect exists (select from houston.users)",
            )
            .fetch_one(&self.pool)
            .await?;
        }
        if self.has_table("houston.moved_shards").await? {
            // A release before had no column `is_here`.
            let names: Vec<String> = sqlx::query_scalar(
                "-- store::cell_move::contents::names
                select distinct cell from houston.moved_shards m where (to_jsonb(m)->>'is_here')::boolean order by cell",
            )
            .fetch_all(&self.pool)
            .await?;
            contents.names = names.iter().filter_map(|name| name.parse().ok()).collect();
        }
        Ok(contents)
    }

    /// The same text for two addresses of one database, and another one for each other database: its name, and when its server
    /// was started. The identifier of a server would not do, since copies of its files have the same one.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn identity(&self) -> Result<String> {
        let identity = sqlx::query_scalar(
            "-- store::cell_move::contents::identity
            select concat_ws(' ', extract(epoch from pg_postmaster_start_time())::text, current_database()::text)",
        );
        Ok(identity.fetch_one(&self.pool).await?)
    }

    async fn has_table(&self, name: &str) -> Result<bool> {
        let has = sqlx::query_scalar(
            "-- store::cell_move::contents::has_table\nselect to_regclass($1) is not null",
        );
        Ok(has.bind(name).fetch_one(&self.pool).await?)
    }
}
