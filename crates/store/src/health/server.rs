//! The database server itself.

use chrono::{DateTime, Utc};

use crate::error::Result;
use crate::pool::Store;

/// Connections of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Taken by clients, whoever they are.
    pub taken: i64,
    /// What clients may take.
    pub most: i64,
}

impl Store {
    /// The database's clock.
    ///
    /// # Errors
    /// What the database says.
    pub async fn time(&self) -> Result<DateTime<Utc>> {
        let now = sqlx::query_scalar!(
            r#"-- store::health::server::time
            select clock_timestamp() as "now!""#
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(now)
    }

    /// How many connections clients have, and may have.
    ///
    /// # Errors
    /// What the database says.
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
}
