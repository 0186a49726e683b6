//! What providers have answered about the focuses of messages, per user. An answer is fresh for [`FRESH_S`]; an older one is
//! still shown while one process asks anew.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::id::{TenantId, UserId};
use sqlx::PgPool;

use crate::error::Result;
use crate::handle::RunStore;

/// Seconds for which an answer is fresh.
pub const FRESH_S: f64 = 300.0;
/// The most bytes of an answer that are kept.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The most answers of a user; more are forgotten, the oldest first.
const MAX_ANSWERS: i64 = 200;

/// The answers. Owned, so that an answer can be kept after the run that asked for it has gone on.
#[derive(Debug, Clone)]
pub struct ContextCache {
    pool: PgPool,
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

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedContext {
    /// The answer.
    pub answer: String,
    /// Whether it is fresh.
    pub is_fresh: bool,
}

impl RunStore {
    /// The answers of providers.
    #[must_use]
    pub fn context_cache(&self) -> ContextCache {
        ContextCache { pool: self.pool.clone() }
    }
}

impl ContextCache {
    /// The answer, if there is one.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn get(&self, key: &CacheKey) -> Result<Option<CachedContext>> {
        let CacheKey { tenant, user, kind, id, tool } = key;
        let row = sqlx::query!(
            r#"-- store::context_cache::get
            select c.answer as "answer!", c.fetched_at > clock_timestamp() - make_interval(secs => $6) as "is_fresh!"
              from houston.context_cache c
             where c.tenant_id = $1 and c.user_id = $2 and c.type = $3 and c.id = $4 and c.tool = $5
               and c.answer is not null and c.fetched_at is not null"#,
            tenant.0,
            user.0,
            kind,
            id,
            tool,
            FRESH_S
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| CachedContext { answer: row.answer, is_fresh: row.is_fresh }))
    }

    /// Lets the caller ask the provider, alone for `within`: the time at which it began; `None`: another does. Forgets the oldest
    /// answers of the user beyond a number.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn begin(&self, key: &CacheKey, within: Duration) -> Result<Option<DateTime<Utc>>> {
        let CacheKey { tenant, user, kind, id, tool } = key;
        let began = sqlx::query_scalar!(
            r#"-- store::context_cache::begin
            with old as (
                select c.ctid from houston.context_cache c where c.tenant_id = $1 and c.user_id = $2
                 order by c.fetched_at desc nulls first offset $7),
            forgotten as (
                delete from houston.context_cache c using old
                 where c.ctid = old.ctid and c.tenant_id = $1 and not (c.type = $3 and c.id = $4 and c.tool = $5))
            insert into houston.context_cache as c (tenant_id, user_id, type, id, tool, refreshing_until)
            select u.tenant_id, u.id, $3, $4, $5, clock_timestamp() + make_interval(secs => $6)
              from houston.users u where u.tenant_id = $1 and u.id = $2
            on conflict (user_id, type, id, tool) do update set refreshing_until = excluded.refreshing_until
             where c.tenant_id = $1 and (c.refreshing_until is null or c.refreshing_until < clock_timestamp())
            returning clock_timestamp() as "began!""#,
            tenant.0,
            user.0,
            kind,
            id,
            tool,
            within.as_secs_f64(),
            MAX_ANSWERS
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(began)
    }

    /// Keeps an answer that was asked for at `began`, unless the thing was written since. `None`: there is none, the old one
    /// stays.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn end(&self, key: &CacheKey, began: DateTime<Utc>, answer: Option<&str>) -> Result<()> {
        let CacheKey { tenant, user, kind, id, tool } = key;
        let answer = answer.filter(|answer| answer.len() <= MAX_ANSWER_BYTES);
        sqlx::query!(
            "-- store::context_cache::end
            update houston.context_cache c
               set refreshing_until = null,
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
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Makes the answers about these ids void: tools of the user's agents have written them. An answer that is under way is not
    /// kept, and the provider is asked again.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn void(&self, tenant: TenantId, user: UserId, ids: &[String]) -> Result<()> {
        sqlx::query!(
            "-- store::context_cache::void
            update houston.context_cache c
               set answer = null, fetched_at = null, refreshing_until = null, voided_at = clock_timestamp()
             where c.tenant_id = $1 and c.user_id = $2 and c.id = any ($3)",
            tenant.0,
            user.0,
            ids
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
