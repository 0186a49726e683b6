//! Clock, connections and disk of the database server.

use chrono::{DateTime, Utc};

use crate::error::Result;
use crate::handle::RunStore;

/// Connections of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Connections in use, by any client.
    pub taken: i64,
    /// Maximum number of client connections.
    pub most: i64,
}

impl RunStore {
    /// The database's clock.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn time(&self) -> Result<DateTime<Utc>> {
        let now = sqlx::query_scalar!(
            r#"-- store::health::server::time
            select clock_timestamp() as "now!""#
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(now)
    }

    /// The number of client connections, and their maximum.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn connections(&self) -> Result<Connections> {
        let row = sqlx::query!(
            r#"-- store::health::server::connections
            select (select count(*) from pg_stat_activity where backend_type = 'client backend') as "taken!",
                   current_setting('max_connections')::bigint
                       - current_setting('superuser_reserved_connections')::bigint as "most!""#
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Connections { taken: row.taken, most: row.most })
    }

    /// The bytes of the database on disk, with what is free in its files.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn database_bytes(&self) -> Result<i64> {
        let bytes = sqlx::query_scalar!(
            r#"-- store::health::server::database_bytes
            select pg_database_size(current_database()) as "bytes!""#
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(bytes)
    }
}
