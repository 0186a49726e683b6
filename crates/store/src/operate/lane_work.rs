//! The work in the lanes, by kind, for operators and for what scales the number of workers.
//!
//! The statement reads agentables that are awake (`run_locks_awake`), runs that are held (`runs_held`) and open questions
//! (`questions_open`), at most [`MOST`] of each; idle agentables cost nothing.

use chrono::{DateTime, Utc};
use houston_domain::id::TenantId;
use houston_domain::lane_work::{KindWork, LaneWork};

use crate::error::Result;
use crate::handle::{ApiStore, Shared, TenantStore};

/// How many agentables of each sort are counted at most.
pub const MOST: i64 = 20_000;

/// The work of each kind at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// When it was counted, by the database's clock.
    pub at: DateTime<Utc>,
    /// The kinds that have any.
    pub kinds: Vec<KindWork>,
}

impl Shared {
    /// The work of a tenant, or of all.
    async fn work(&self, tenant: Option<TenantId>) -> Result<Work> {
        let rows = sqlx::query!(
            r#"-- store::lane_work::by_kind
            with held as materialized (
                select r.held_for as user_id, r.agentable_id,
                       l.holder <> all(array(select w.id from houston.workers w
                                              where w.alive_until > clock_timestamp())) as is_orphaned
                  from houston.runs r
                  join houston.run_locks l on l.agentable_id = r.agentable_id and l.holder is not null
                 where r.held_for is not null and ($1::uuid is null or r.tenant_id = $1) limit $2),
            of_users as (select user_id, count(*) as runs from held group by user_id),
            awake as materialized (
                select l.agentable_id, l.user_id, l.due_at, l.failed_attempts, l.due_at <= now() as is_due
                  from houston.run_locks l
                 where l.wake and l.run_open and ($1::uuid is null or l.tenant_id = $1)
                   and (l.holder is null or not exists (
                           select from houston.workers w where w.id = l.holder and w.alive_until > clock_timestamp()))
                 limit $2),
            placed as (
                select a.*, row_number() over (partition by a.user_id, a.is_due order by a.due_at)
                            + coalesce(u.runs, 0) <= $3 as fits
                  from awake a left join of_users u on u.user_id = a.user_id),
            asking as (
                select distinct q.agentable_id
                  from (select agentable_id from houston.questions
                         where state = 'open' and ($1::uuid is null or tenant_id = $1) limit $2) as q),
            work as (
                select agentable_id, case when is_due then 'queued' when failed_attempts > 0 then 'retrying'
                                          else 'put_off' end as state, due_at, is_due and fits as fits,
                       false as is_orphaned
                  from placed
                union all select agentable_id, 'running', null, false, is_orphaned from held
                union all select agentable_id, 'asking', null, false, false from asking)
            select clock_timestamp() as "at!", k.kind as "kind?", coalesce(k.queued, 0) as "queued!",
                   coalesce(k.claimable, 0) as "claimable!", k.oldest as "oldest?", coalesce(k.retrying, 0) as "retrying!",
                   coalesce(k.put_off, 0) as "put_off!", coalesce(k.running, 0) as "running!",
                   coalesce(k.orphaned, 0) as "orphaned!", coalesce(k.asking, 0) as "asking!", (select count(*) from awake) as "awake!"
              from (select 1) as one
              left join (
                   select a.kind, count(*) filter (where w.state = 'queued') as queued, count(*) filter (where w.fits) as claimable,
                          min(w.due_at) filter (where w.state = 'queued') as oldest,
                          count(*) filter (where w.state = 'retrying') as retrying,
                          count(*) filter (where w.state = 'put_off') as put_off,
                          count(*) filter (where w.state = 'running') as running,
                          count(*) filter (where w.is_orphaned) as orphaned,
                          count(*) filter (where w.state = 'asking') as asking
                     from work w
                    -- One by one: a join might read all agentables.
                    cross join lateral (select g.kind from houston.agentables g where g.id = w.agentable_id limit 1) as a
                    group by a.kind) as k on true"#,
            tenant.map(|tenant| tenant.0),
            MOST,
            i64::from(self.fairness.max_running)
        )
        .fetch_all(&self.pool_of(tenant))
        .await?;
        let at = rows.first().map(|row| row.at).unwrap_or_default();
        let is_capped = rows.first().is_some_and(|row| row.awake >= MOST);
        let kinds = rows.into_iter().filter_map(|row| {
            let work = LaneWork {
                queued: row.queued,
                claimable: row.claimable,
                oldest_age_s: 0,
                retrying: row.retrying,
                put_off: row.put_off,
                running: row.running,
                orphaned: row.orphaned,
                asking: row.asking,
                is_capped,
            };
            Some(KindWork { kind: row.kind?, oldest: row.oldest, work })
        });
        Ok(Work { at, kinds: kinds.collect() })
    }
}

impl TenantStore<'_> {
    /// The work of the tenant.
    pub async fn work(self) -> Result<Work> {
        self.shared.work(Some(self.tenant)).await
    }
}

impl ApiStore {
    /// The work of all tenants: for a caller who operates the installation.
    pub async fn work(&self) -> Result<Work> {
        self.shared.work(None).await
    }
}
