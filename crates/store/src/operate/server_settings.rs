//! What `houston doctor` reads: settings of Postgres on which Houston relies, and what waits for an operator.

use crate::error::Result;
use crate::handle::OperatorStore;
use crate::pool::Store;

/// Settings of Postgres, as a connection of Houston's pool has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// The version, as Postgres numbers it: 150004 is 15.4.
    pub version: i32,
    /// The isolation of a transaction that asks for none, such as `read committed`.
    pub isolation: String,
    /// Whether nothing can be written: a standby, or a database that is set so.
    pub is_read_only: bool,
    /// What a crash of the machine may cost.
    pub durability: Durability,
}

/// What a crash of the machine may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing that was committed.
    Full,
    /// What was committed in the last second: `synchronous_commit` is off.
    LosesLastSecond,
    /// The database: `fsync` or `full_page_writes` is off.
    None,
}

/// What waits for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftForOperators {
    /// Deliveries that were given up, at most 10,000.
    pub dead_deliveries: i64,
    /// Webhooks that Houston switched off because their receivers did not answer.
    pub webhooks_off: i64,
    /// Whether there are secrets that HOUSTON_SECRETS_KEY opens.
    pub has_secrets: bool,
}

/// The oldest version with which Houston works.
pub const OLDEST_VERSION: i32 = 150_000;

impl Store {
    /// The settings of Postgres. Needs no tables of Houston.
    pub async fn server_settings(&self) -> Result<ServerSettings> {
        // Not `query!`: it would be one of few reasons to describe system catalogues in `.sqlx`.
        let (version, isolation, is_read_only, is_safe, waits): (i32, _, _, bool, bool) = sqlx::query_as(
            "-- store::server_settings::read
            select current_setting('server_version_num')::integer,
                   current_setting('default_transaction_isolation'),
                   pg_is_in_recovery() or current_setting('default_transaction_read_only')::boolean,
                   current_setting('fsync')::boolean and current_setting('full_page_writes')::boolean,
                   current_setting('synchronous_commit') <> 'off'",
        )
        .fetch_one(&self.pool)
        .await?;
        let durability = match (is_safe, waits) {
            (false, _) => Durability::None,
            (true, false) => Durability::LosesLastSecond,
            (true, true) => Durability::Full,
        };
        Ok(ServerSettings { version, isolation, is_read_only, durability })
    }
}

impl OperatorStore<'_> {
    /// What waits for an operator.
    pub async fn left_for_operators(self) -> Result<LeftForOperators> {
        let row = sqlx::query_as!(
            LeftForOperators,
            r#"-- store::server_settings::left
            select (select count(*) from (select from houston.deliveries where state = 'dead' limit 10000) d) as "dead_deliveries!",
                   (select count(*) from houston.webhooks
                     where not enabled and disabled_because is not null) as "webhooks_off!",
                   exists (select from houston.webhooks where run_id is null)
                       or exists (select from houston.mcp_servers where sealed is not null)
                       or exists (select from houston.tool_sources where sealed is not null) as "has_secrets!""#
        );
        Ok(row.fetch_one(&self.shared.pool).await?)
    }
}
