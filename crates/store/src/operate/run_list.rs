//! The runs of a tenant, newest first, by what an operator looks for.
//!
//! Runs have no index by tenant, which each of their writes would pay for: the pages come from the primary key, which is by time. A
//! page reads at most `READS` times `SCANNED` runs, whosever they are, and says where the next one begins, even if it found none.
//! Failed runs have an index of their own (`runs_failed`).

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::{AgentId, RunId, UserId};
use houston_domain::run::{ListedRun, RunFilter, RunStatus};
use uuid::Uuid;

use crate::error::Result;
use crate::handle::{Shared, TenantStore};
use crate::run_error;

/// How many runs one statement reads at most, and how many statements a page needs at most.
const SCANNED: i64 = 2_000;
const READS: usize = 10;
/// How many failed runs a page reads to find those of one group of errors.
const COMPARED: i64 = 1_000;

/// An id is made before its run is opened, by as long as the run before it takes. No run takes longer.
const OLDER_ID: TimeDelta = TimeDelta::days(2);
/// How far the clocks of two machines may differ.
pub(super) const LATER_ID: TimeDelta = TimeDelta::minutes(10);

/// Some runs, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<ListedRun>,
    /// Older runs may follow: those before this one.
    pub next: Option<RunId>,
}

/// A run, if one was found, with how many were looked at and which of them is the last.
struct Found {
    id: Option<Uuid>,
    title: Option<String>,
    user_id: Option<Uuid>,
    agent_id: Option<Uuid>,
    scanned: i64,
    last: Option<Uuid>,
}

/// The smallest id that was made at `time`.
pub(super) fn id_at(time: DateTime<Utc>) -> Uuid {
    let millis = u128::try_from(time.timestamp_millis()).unwrap_or(0);
    Uuid::from_u128(millis << 80)
}

/// Runs of a tenant that match, with how many were read for them: after the name of the query, conditions of the runs that are read at
/// all, and further ones of those that match. One of the two names the tenant.
macro_rules! query_found {
    ($before:literal, $read:literal, $match:literal, ($tenant:expr, $filter:expr, $statuses:expr, $older_than:expr, $limit:expr) $(, $more:expr)*) => {
        sqlx::query_as!(
            Found,
            $before + r#"
            with scanned as materialized (
                select r.id from houston.runs r where "# + $read + r#" r.id < $2 and r.id >= $3 order by r.id desc limit $4)
            select f.id as "id?", f.title as "title?", f.user_id as "user_id?", f.agent_id as "agent_id?",
                   (select count(*) from scanned) as "scanned!",
                   (select s.id from scanned s order by s.id limit 1) as "last?"
              from (select 1) as one
              left join lateral (
                   select s.id, a.title, a.user_id, a.agent_id
                     -- Once more, and not from `scanned`: rows of a page are mostly found before all are read, in their order.
                     from (select r.id, r.tenant_id, r.agentable_id, r.status, r.error_code, r.created_at, r.cancel_seq
                             from houston.runs r where "# + $read + r#" r.id < $2 and r.id >= $3
                            order by r.id desc limit $4) as s
                    cross join lateral (
                          -- One by one: a join might read all agentables.
                          select g.title, g.user_id, g.agent_id, g.kind from houston.agentables g
                           where g.id = s.agentable_id and g.tenant_id = $1 limit 1) as a
                    where ($5::text[] is null or s.status = any ($5))
                      and ($6::text is null or a.kind = $6) and ($7::uuid is null or a.agent_id = $7)
                      and ($8::uuid is null or a.user_id = $8) and ($9::text is null or coalesce(s.error_code, upper(s.status)) = $9)
                      and ($10::timestamptz is null or s.created_at >= $10)
                      and ($11::timestamptz is null or s.created_at < $11)
                      "# + $match + r#"
                    order by s.id desc limit $12) as f on true"#,
            $tenant,
            upper($filter, $older_than), lower($filter), SCANNED,
            $statuses.as_deref(), $filter.kind.as_deref(),
            $filter.agent_id.map(|agent| agent.0), $filter.user_id.map(|user| user.0),
            $filter.error_code.as_deref(), $filter.since.map(|since| since.0), $filter.until.map(|until| until.0),
            $limit + 1
            $(, $more)*
        )
    };
}

impl TenantStore<'_> {
    /// Runs of the tenant that match, older than `before`, newest first, at most `limit`.
    pub async fn find_runs(self, filter: &RunFilter, before: Option<RunId>, limit: i64) -> Result<RunPage> {
        let Some(fingerprint) = &filter.fingerprint else {
            return self.page_of_runs(filter, before, limit).await;
        };
        // The rule that makes fingerprints of texts is not in SQL.
        // A run that is at work has the error of its attempt before, and is in no group.
        let grouped = [RunStatus::Failed, RunStatus::DeadLettered, RunStatus::Retrying];
        let is_asked = |status: &RunStatus| filter.status.as_ref().is_none_or(|asked| asked.contains(status));
        let status = Some(grouped.into_iter().filter(is_asked).collect());
        let filter = RunFilter { status, ..filter.clone() };
        let mut page = self.page_of_runs(&filter, before, COMPARED).await?;
        page.runs.retain(|listed| run_error::fingerprint(&listed.run) == *fingerprint);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if page.runs.len() > limit {
            page.runs.truncate(limit);
            page.next = page.runs.last().map(|listed| listed.run.id);
        }
        Ok(page)
    }

    async fn page_of_runs(self, filter: &RunFilter, before: Option<RunId>, limit: i64) -> Result<RunPage> {
        let (mut found, mut next) = (Vec::new(), before);
        for _ in 0..READS {
            let left = limit - i64::try_from(found.len()).unwrap_or(limit);
            let (some, end) = match is_of_failed(filter) {
                true => self.failed_runs(filter, next, left).await?,
                false => self.shared.scan_runs(self.tenant.0, filter, next, left).await?,
            };
            found.extend(some);
            next = end;
            if next.is_none() || i64::try_from(found.len()).is_ok_and(|count| count >= limit) {
                break;
            }
        }
        let ids: Vec<RunId> = found.iter().filter_map(|found| found.id).map(RunId).collect();
        let mut runs = self.runs_with_ids(&ids).await?;
        let listed = found.into_iter().filter_map(|Found { id, title, user_id, agent_id, .. }| {
            // One that was erased meanwhile is left out.
            let nth = runs.iter().position(|run| Some(run.id.0) == id)?;
            let run = runs.swap_remove(nth);
            let (kind, user_id, agent_id) = (run.owner.kind.clone(), UserId(user_id?), agent_id.map(AgentId));
            Some(ListedRun { run, kind, title: title?, user_id, agent_id })
        });
        Ok(RunPage { runs: listed.collect(), next })
    }

    async fn failed_runs(
        self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: i64,
    ) -> Result<(Vec<Found>, Option<RunId>)> {
        let statuses = statuses(filter);
        let rows = query_found!(
            "-- store::run_list::failed",
            "r.tenant_id = $1 and r.status in ('failed', 'dead_lettered') and",
            "",
            (self.tenant.0, filter, statuses, before, limit)
        );
        Ok(page(rows.fetch_all(&self.pool).await?, limit))
    }
}

impl Shared {
    /// Without row-level security, under which the statement could not count the runs of others that it reads. It names the
    /// tenant.
    async fn scan_runs(
        &self,
        tenant: Uuid,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: i64,
    ) -> Result<(Vec<Found>, Option<RunId>)> {
        let statuses = statuses(filter);
        let rows = query_found!(
            "-- store::run_list::scan",
            "",
            "and s.tenant_id = $1 and (s.cancel_seq is null or not $13)",
            (tenant, filter, statuses, before, limit),
            filter.is_not_cancelled
        );
        Ok(page(rows.fetch_all(&self.pool).await?, limit))
    }
}

/// Whether only failed runs match.
fn is_of_failed(filter: &RunFilter) -> bool {
    let is_failed = |status: &RunStatus| matches!(status, RunStatus::Failed | RunStatus::DeadLettered);
    filter.status.as_ref().is_some_and(|statuses| statuses.iter().all(is_failed))
}

fn statuses(filter: &RunFilter) -> Option<Vec<String>> {
    Some(filter.status.as_ref()?.iter().map(|status| status.as_str().to_owned()).collect())
}

fn upper(filter: &RunFilter, before: Option<RunId>) -> Uuid {
    let until = filter.until.map_or(Uuid::max(), |until| id_at(until.0 + LATER_ID));
    before.map_or(until, |before| before.0.min(until))
}

fn lower(filter: &RunFilter) -> Uuid {
    filter.since.map_or(Uuid::nil(), |since| id_at(since.0 - OLDER_ID))
}

/// Cuts what was found to the page, and says where the next one begins.
fn page(mut rows: Vec<Found>, limit: i64) -> (Vec<Found>, Option<RunId>) {
    let last = rows.first().and_then(|row| row.last.filter(|_| row.scanned >= SCANNED));
    rows.retain(|row| row.id.is_some());
    let most = usize::try_from(limit).unwrap_or(0);
    if rows.len() > most {
        rows.truncate(most);
        let next = rows.last().and_then(|row| row.id).map(RunId);
        return (rows, next);
    }
    (rows, last.map(RunId))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_goes_on_where_it_was_cut_or_where_reading_ended() {
        let next = |found: Vec<u128>, (scanned, last): (i64, Option<u128>)| {
            let row = |id: Option<u128>| {
                let (id, last) = (id.map(Uuid::from_u128), last.map(Uuid::from_u128));
                Found {
                    id,
                    title: Some(String::new()),
                    user_id: Some(Uuid::nil()),
                    agent_id: None,
                    scanned,
                    last,
                }
            };
            let rows = match found.is_empty() {
                true => vec![row(None)],
                false => found.into_iter().map(Some).map(row).collect(),
            };
            let (page, next) = page(rows, 2);
            (page.len(), next.map(|next| next.0.as_u128()))
        };
        assert_eq!(next(vec![9, 8, 7], (50, Some(1))), (2, Some(8)));
        assert_eq!(next(vec![9], (SCANNED, Some(3))), (1, Some(3)), "older runs were not read");
        assert_eq!(next(vec![], (SCANNED, Some(3))), (0, Some(3)));
        assert_eq!(next(vec![9], (50, Some(1))), (1, None));
    }
}
