//! How the runs of the last day ended, hour by hour.

use chrono::{DateTime, Utc};
use houston_domain::id::TenantId;
use rust_decimal::Decimal;

use crate::error::Result;
use crate::handle::{ApiStore, Shared, TenantStore};

/// How many ended runs are counted at most: the latest.
pub const MOST: i64 = 100_000;

/// The runs that ended in one hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedInHour {
    /// When the hour begins.
    pub hour: DateTime<Utc>,
    /// Runs whose agent had finished.
    pub finished: i64,
    /// Runs that failed.
    pub failed: i64,
    /// Runs that were given up.
    pub dead_lettered: i64,
    /// Runs that were cancelled.
    pub cancelled: i64,
    /// Runs that a limit ended.
    pub stopped: i64,
}

/// The runs that ended within a day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// The hours in which any ended, the oldest first.
    pub hours: Vec<EndedInHour>,
    /// The cost of those that ended within the last hour, in US dollars.
    pub cost_of_hour: Decimal,
    /// Whether there were more than were counted.
    pub is_capped: bool,
}

impl Shared {
    /// Of a tenant, or of all. Without row-level security, under which the statement could not count the runs of others that it
    /// reads. It names the tenant.
    async fn ended_runs(&self, tenant: Option<TenantId>) -> Result<Ended> {
        let rows = sqlx::query!(
            r#"-- store::ended::by_hour
            with ended as materialized (
                select r.tenant_id, r.ended_at, r.status, r.cost from houston.runs r
                 where r.ended_at > now() - interval '24 hours' order by r.ended_at desc limit $2)
            select date_trunc('hour', e.ended_at) as "hour!",
                   count(*) filter (where e.status in ('completed', 'message_sent')) as "finished!",
                   count(*) filter (where e.status = 'failed') as "failed!",
                   count(*) filter (where e.status = 'dead_lettered') as "dead_lettered!",
                   count(*) filter (where e.status = 'cancelled') as "cancelled!",
                   count(*) as "ended!",
                   coalesce(sum(e.cost) filter (where e.ended_at > now() - interval '1 hour'), 0) as "cost!",
                   (select count(*) from ended) as "read!"
              from ended e where $1::uuid is null or e.tenant_id = $1
             group by 1 order by 1"#,
            tenant.map(|tenant| tenant.0),
            MOST
        )
        .fetch_all(&self.pool)
        .await?;
        let mut ended = Ended::default();
        for row in rows {
            ended.cost_of_hour += row.cost;
            ended.is_capped |= row.read >= MOST;
            let stopped = row.ended - row.finished - row.failed - row.dead_lettered - row.cancelled;
            ended.hours.push(EndedInHour {
                hour: row.hour,
                finished: row.finished,
                failed: row.failed,
                dead_lettered: row.dead_lettered,
                cancelled: row.cancelled,
                stopped,
            });
        }
        Ok(ended)
    }
}

impl TenantStore<'_> {
    /// The runs of the tenant that ended within a day.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn ended(self) -> Result<Ended> {
        self.shared.ended_runs(Some(self.tenant)).await
    }
}

impl ApiStore {
    /// The runs of all tenants that ended within a day: for a caller who operates the installation.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn ended(&self) -> Result<Ended> {
        self.shared.ended_runs(None).await
    }
}
