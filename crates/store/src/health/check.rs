//! Results of health checks: the last result of each, since when its status has not changed, and when it did.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::health::{Check, HealthChange, HealthStatus, NOT_MADE};
use houston_domain::why::HealthFacts;

use crate::error::Result;
use crate::handle::{ApiStore, RunStore};

/// How many changes of one check are kept, besides that none older than 90 days is.
const CHANGES_KEPT: i64 = 200;

/// The stored results of all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Sorted by id. A check whose result is too old is red.
    pub checks: Vec<Check>,
    /// When the latest result was stored.
    pub checked_at: Option<DateTime<Utc>>,
    /// Whether a result is recent: there is a health monitor, in a worker or in `houston monitor`.
    pub is_monitored: bool,
}

impl Health {
    /// What it says about why an agentable does not go on. A check that could not be made says nothing about it.
    pub fn facts(self) -> HealthFacts {
        if !self.is_monitored {
            return HealthFacts { silent_since: self.checked_at, ..HealthFacts::default() };
        }
        let found = |check: &Check| check.status != HealthStatus::Ok && !check.detail.starts_with(NOT_MADE);
        let failing = self.checks.into_iter().filter(found).collect();
        HealthFacts { failing, ..HealthFacts::default() }
    }
}

impl RunStore {
    /// Stores the results of checks that were just made, and sets since when each status holds. A result is valid for
    /// `lasting`. Results of checks that no release makes any more are deleted after a day. Where the status is another
    /// than before, that is noted ([`health_changes`](ApiStore::health_changes)), and the oldest notes are deleted.
    pub async fn record_checks(&self, found: &mut [Check], lasting: Duration) -> Result<()> {
        let ids: Vec<&str> = found.iter().map(|check| check.id.as_str()).collect();
        let statuses: Vec<&str> = found.iter().map(|check| check.status.as_str()).collect();
        let details: Vec<&str> = found.iter().map(|check| check.detail.as_str()).collect();
        // Sorted by id, so that two monitors cannot deadlock.
        let since = sqlx::query!(
            r#"-- store::health::check::record
            with gone as (
                delete from houston.health_checks
                 where stale_at < now() - interval '1 day' and id <> all ($1)),
            stored as (
                insert into houston.health_checks as h (id, status, detail, since, checked_at, stale_at)
                select f.id, f.status, f.detail, now(), now(), now() + make_interval(secs => $4)
                  from unnest($1::text[], $2::text[], $3::text[]) as f (id, status, detail) order by f.id
                on conflict (id) do update
                   set status = excluded.status, detail = excluded.detail, checked_at = excluded.checked_at,
                       stale_at = excluded.stale_at,
                       since = case when h.status = excluded.status then h.since else excluded.since end
                returning id, status, detail, since, checked_at),
            noted as (
                insert into houston.health_changes (check_id, at, status, detail)
                select s.id, s.since, s.status, s.detail from stored s where s.since = s.checked_at
                on conflict do nothing),
            old as (
                delete from houston.health_changes c using stored s
                 where s.since = s.checked_at and c.check_id = s.id
                   and (c.at < now() - interval '90 days'
                        or c.at < (select k.at from houston.health_changes k where k.check_id = s.id
                                    order by k.at desc offset $5 limit 1)))
            select id as "id!", since as "since!" from stored"#,
            &ids as &[&str],
            &statuses as &[&str],
            &details as &[&str],
            lasting.as_secs_f64(),
            CHANGES_KEPT - 1
        )
        .fetch_all(&self.pool)
        .await?;
        for check in found {
            check.since =
                since.iter().find(|row| row.id == check.id).map(|row| row.since).unwrap_or_default();
        }
        Ok(())
    }
}

impl ApiStore {
    /// The stored results. A result that is too old counts as red, and says so; if others are recent, it is left out, because then
    /// no release makes that check any more.
    pub async fn health(&self) -> Result<Health> {
        let rows = sqlx::query!(
            r#"-- store::health::check::list
            select id, status, detail, since, checked_at, stale_at, stale_at <= clock_timestamp() as "stale!"
              from houston.health_checks order by id"#
        )
        .fetch_all(&self.pool)
        .await?;
        let checked_at = rows.iter().map(|row| row.checked_at).max();
        let is_monitored = rows.iter().any(|row| !row.stale);
        let made = rows.into_iter().filter(|row| !row.stale || !is_monitored);
        let checks = made.map(|row| {
            if row.stale {
                let at = row.checked_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
                let detail = format!(
                    "not checked since {at}, when it was {}: no worker has ticked for three periods, is one running?",
                    row.status
                );
                return Check { id: row.id, status: HealthStatus::Red, detail, since: row.stale_at };
            }
            let status = HealthStatus::from_name(&row.status).unwrap_or(HealthStatus::Red);
            Check { id: row.id, status, detail: row.detail, since: row.since }
        });
        Ok(Health { checks: checks.collect(), checked_at, is_monitored })
    }
}

/// Where a page of changes begins: after the change of this check at this time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    /// When that change was.
    pub at: DateTime<Utc>,
    /// Its check.
    pub check: String,
    /// Whether a change of the same check at the same time is on the page: it is of another cell, which comes after.
    pub is_inclusive: bool,
}

impl ApiStore {
    /// The newest changes, of one check or of all; those `after` a change are older.
    pub async fn health_changes(
        &self,
        check: Option<&str>,
        after: Option<&After>,
        limit: i64,
    ) -> Result<Vec<HealthChange>> {
        // The table is small, and so it is sorted when it is read.
        let changes = sqlx::query!(
            r#"-- store::health::history::list
            select check_id, at, status, detail from houston.health_changes
             where ($1::text is null or check_id = $1)
               and ($2::timestamptz is null or (at, check_id collate "C") < ($2, $3::text)
                    or ($4::boolean and at = $2 and check_id = $3))
             order by at desc, check_id collate "C" desc limit $5"#,
            check,
            after.map(|after| after.at),
            after.map(|after| after.check.as_str()),
            after.is_some_and(|after| after.is_inclusive),
            limit
        )
        .map(|row| HealthChange {
            check: row.check_id,
            cell: None,
            status: HealthStatus::from_name(&row.status).unwrap_or(HealthStatus::Red),
            at: row.at.into(),
            detail: Some(row.detail),
        });
        Ok(changes.fetch_all(&self.pool).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_that_could_not_be_made_explains_nothing() {
        let check = |id: &str, detail: &str| Check {
            id: id.to_owned(),
            status: HealthStatus::Red,
            detail: detail.to_owned(),
            since: DateTime::UNIX_EPOCH,
        };
        let unknown = check("schema", &format!("{NOT_MADE}: Postgres is away"));
        let checks = vec![unknown, check("connections", "97 of 97 are in use")];
        let health = Health { checks, checked_at: None, is_monitored: true };
        let failing: Vec<String> = health.facts().failing.into_iter().map(|check| check.id).collect();
        assert_eq!(failing, ["connections"]);
    }
}
