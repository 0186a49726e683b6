//! How the runs of the last day ended, hour by hour.

use houston_domain::ended::EndedInHour;
use houston_domain::id::TenantId;
use rust_decimal::Decimal;

use crate::error::Result;
use crate::handle::{ApiStore, Shared, TenantStore};

/// How many ended runs are counted at most: the latest.
pub const MOST: i64 = 100_000;

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
            select l.hour as "hour!", l.status as "status!", l.is_own as "is_own!", count(*) as "runs!",
                   coalesce(sum(l.cost) filter (where l.is_new), 0) as "cost!"
              -- Hours in UTC. Unlike those of `date_trunc`, they are found without a time zone.
              from (select date_bin('1 hour', r.ended_at, 'epoch') as hour, r.status, r.cost,
                           $1::uuid is null or r.tenant_id = $1 as is_own,
                           r.ended_at > now() - interval '1 hour' as is_new
                      from houston.runs r
                     where r.ended_at > now() - interval '24 hours' order by r.ended_at desc limit $2) as l
             group by l.hour, l.status, l.is_own order by l.hour"#,
            tenant.map(|tenant| tenant.0),
            MOST
        )
        .fetch_all(&self.pool)
        .await?;
        let read: i64 = rows.iter().map(|row| row.runs).sum();
        let mut ended = Ended::default();
        for row in rows.into_iter().filter(|row| row.is_own) {
            ended.is_capped = read >= MOST;
            ended.cost_of_hour += row.cost;
            let hour = match ended.hours.pop_if(|last| *last.hour == row.hour) {
                Some(hour) => hour,
                None => EndedInHour { hour: row.hour.into(), ..EndedInHour::default() },
            };
            ended.hours.push(hour.with(&row.status, row.runs));
        }
        Ok(ended)
    }
}

impl TenantStore<'_> {
    /// The runs of the tenant that ended within a day.
    pub async fn ended(self) -> Result<Ended> {
        self.shared.ended_runs(Some(self.tenant)).await
    }
}

impl ApiStore {
    /// The runs of all tenants that ended within a day: for a caller who operates the installation.
    pub async fn ended(&self) -> Result<Ended> {
        self.shared.ended_runs(None).await
    }
}
