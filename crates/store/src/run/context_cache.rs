//! What providers have answered about the focuses of messages, per user. A fresh answer is used as it is; an older one, of at
//! most [`KEEP_S`], is still used while one process asks anew.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::focus::FocusRef;
use houston_domain::id::{AgentableId, TenantId, UserId};

use crate::connections::Connections;
use crate::error::Result;
use crate::handle::RunStore;
use crate::statement::Statement as _;

/// Seconds for which an answer is kept: what is older says nothing about today, and is asked for instead.
pub const KEEP_S: f64 = 86_400.0;
/// The most bytes of an answer that are kept.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The most answers of a user; more are forgotten, the oldest first.
const MAX_ANSWERS: i64 = 200;

/// The answers. Owned, so that an answer can be kept after the run that asked for it has gone on.
#[derive(Debug, Clone)]
pub struct ContextCache {
    pool: Connections,
}

/// Whose answer about what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey {
    /// The tenant.
    pub tenant: TenantId,
    /// The user.
    pub user: UserId,
    /// The type of the thing.
    pub kind: String,
    /// The id of the thing.
    pub id: String,
    /// The tool that answers.
    pub tool: String,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedContext {
    /// The answer.
    pub answer: String,
    /// Whether it is fresh.
    pub is_fresh: bool,
    /// Seconds since the provider was asked.
    pub age_s: i64,
}

impl CachedContext {
    fn new(answer: String, age: f64, fresh: Duration) -> Self {
        let age = Duration::try_from_secs_f64(age).unwrap_or_default();
        Self { answer, is_fresh: age < fresh, age_s: i64::try_from(age.as_secs()).unwrap_or(i64::MAX) }
    }
}

impl RunStore {
    /// The answers of providers.
    pub fn context_cache(&self) -> ContextCache {
        ContextCache { pool: self.pool.clone() }
    }
}

impl ContextCache {
    /// The answer, if there is one. It is fresh for `fresh`.
    pub async fn get(&self, key: &CacheKey, fresh: Duration) -> Result<Option<CachedContext>> {
        let CacheKey { tenant, user, kind, id, tool } = key;
        let row = sqlx::query!(
            r#"-- store::context_cache::get
            select c.answer as "answer!",
                   extract(epoch from clock_timestamp() - c.fetched_at)::float8 as "age!"
              from houston.context_cache c
             where c.tenant_id = $1 and c.user_id = $2 and c.type = $3 and c.id = $4 and c.tool = $5
               and c.answer is not null and c.fetched_at > clock_timestamp() - make_interval(secs => $6)"#,
            tenant.0,
            user.0,
            kind,
            id,
            tool,
            KEEP_S
        )
        .map(|row| CachedContext::new(row.answer, row.age, fresh));
        Ok(row.fetch_optional(&self.pool).await?)
    }

    /// The same for the user of an agentable, whatever its tenant: for a preview of what is sent for it.
    pub async fn of_agentable(
        &self,
        agentable: AgentableId,
        focus: &FocusRef,
        tool: &str,
        fresh: Duration,
    ) -> Result<Option<CachedContext>> {
        let row = sqlx::query!(
            r#"-- store::context_cache::of_agentable
            select c.answer as "answer!",
                   extract(epoch from clock_timestamp() - c.fetched_at)::float8 as "age!"
              from houston.agentables a
              join houston.context_cache c on c.tenant_id = a.tenant_id and c.user_id = a.user_id
             where a.id = $1 and c.type = $2 and c.id = $3 and c.tool = $4
               and c.answer is not null and c.fetched_at > clock_timestamp() - make_interval(secs => $5)"#,
            agentable.0,
            focus.kind,
            focus.id,
            tool,
            KEEP_S
        )
        .map(|row| CachedContext::new(row.answer, row.age, fresh));
        Ok(row.fetch_optional(&self.pool).await?)
    }

    /// Lets the caller ask the provider, alone for `within`: the time at which it began; `None`: another does. Forgets the oldest
    /// answers of the user beyond a number.
    pub async fn begin(&self, key: &CacheKey, within: Duration) -> Result<Option<DateTime<Utc>>> {
        let CacheKey { tenant, user, kind, id, tool } = key;
        let began = sqlx::query_scalar!(
            r#"-- store::context_cache::begin
            with t as materialized (select clock_timestamp() as at),
            old as (
                select c.ctid from houston.context_cache c where c.tenant_id = $1 and c.user_id = $2
                 order by c.fetched_at desc nulls first offset $7),
            forgotten as (
                delete from houston.context_cache c using old
                 where c.ctid = old.ctid and c.tenant_id = $1 and not (c.type = $3 and c.id = $4 and c.tool = $5))
            insert into houston.context_cache as c (tenant_id, user_id, type, id, tool, refreshing_until)
            select u.tenant_id, u.id, $3, $4, $5, t.at + make_interval(secs => $6)
              from houston.users u cross join t where u.tenant_id = $1 and u.id = $2
            on conflict (user_id, type, id, tool) do update set refreshing_until = excluded.refreshing_until
             where c.tenant_id = $1 and (c.refreshing_until is null or c.refreshing_until < excluded.refreshing_until - make_interval(secs => $6))
            returning c.refreshing_until - make_interval(secs => $6) as "began!""#,
            tenant.0,
            user.0,
            kind,
            id,
            tool,
            within.as_secs_f64(),
            MAX_ANSWERS
        );
        Ok(began.fetch_optional(&self.pool).await?)
    }

    /// Keeps an answer that was asked for at `began`, unless the thing was written since. `None`: there is none, the old one
    /// stays.
    pub async fn end(&self, key: &CacheKey, began: DateTime<Utc>, answer: Option<&str>) -> Result<()> {
        let CacheKey { tenant, user, kind, id, tool } = key;
        let answer = answer.filter(|answer| answer.len() <= MAX_ANSWER_BYTES);
        sqlx::query!(
            "-- store::context_cache::end
            update houston.context_cache c
               set refreshing_until = $6::timestamptz,
                   answer = case when $7::text is null or c.voided_at > $6 then c.answer else $7 end,
                   fetched_at = case when $7::text is null or c.voided_at > $6 then c.fetched_at else $6 end
             where c.tenant_id = $1 and c.user_id = $2 and c.type = $3 and c.id = $4 and c.tool = $5",
            tenant.0,
            user.0,
            kind,
            id,
            tool,
            began,
            answer
        )
        .run(&self.pool)
        .await
    }

    /// Makes the answers about these ids void: tools of the user's agents have written them. An answer that is under way is not
    /// kept, and the provider is asked again.
    pub async fn void(&self, tenant: TenantId, user: UserId, ids: &[String]) -> Result<()> {
        sqlx::query!(
            "-- store::context_cache::void
            update houston.context_cache c
               set answer = null, fetched_at = null, refreshing_until = null, voided_at = now()
             where c.tenant_id = $1 and c.user_id = $2 and c.id = any ($3)",
            tenant.0,
            user.0,
            ids
        )
        .run(&self.pool)
        .await
    }

    /// Forgets at most `batch` answers of all users that are too old to be used. Returns the number.
    pub async fn forget_old(&self, batch: i64) -> Result<u64> {
        let done = sqlx::query!(
            "-- store::context_cache::forget_old
            delete from houston.context_cache c
             where c.ctid = any (array(
                   select o.ctid from houston.context_cache o
                    where greatest(o.fetched_at, o.voided_at, o.refreshing_until) < now() - make_interval(secs => $1)
                    order by greatest(o.fetched_at, o.voided_at, o.refreshing_until)
                    limit $2 for update skip locked))",
            KEEP_S,
            batch
        );
        Ok(done.execute(&self.pool).await?.rows_affected())
    }
}
