//! What model calls cost: each call with its run, and sums by run, agentable, user and day.
//!
//! A call is counted by the transaction that commits the step after it has ended, however it ended, so exactly once. If that step
//! is never committed, because the worker died or lost its lock, the next attempt counts an estimate in its place.

use chrono::{DateTime, Utc};
use houston_domain::budget::{DayCost, Spent};
use houston_domain::id::{AgentableId, RunId, UserId, WriteId};
use houston_domain::model::Usage;
use houston_domain::step::ModelCall;
use rust_decimal::Decimal;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::{RunStore, TenantStore};
use crate::statement::Statement as _;

/// A stored model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredModelCall {
    /// The call.
    pub call: ModelCall,
    /// When its answer was committed.
    pub at: DateTime<Utc>,
}

/// A sum of costs in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// The sum of all calls with a price; `None` when no call has one.
    pub total: Option<Decimal>,
    /// Number of calls without a price.
    pub unpriced_calls: i32,
}

impl Cost {
    /// No call at all.
    pub const NOTHING: Self = Self { total: Some(Decimal::ZERO), unpriced_calls: 0 };

    /// From stored columns. A sum of 0 together with calls without a price means unknown (`None`), not free.
    pub fn of(sum: Option<Decimal>, unpriced_calls: i32) -> Self {
        Self { total: sum.filter(|sum| unpriced_calls == 0 || !sum.is_zero()), unpriced_calls }
    }
}

/// Tokens as they are stored, without a cost: input, output, cache read, cache write, reasoning.
pub(crate) fn stored_usage(tokens: &[i64]) -> Usage {
    let of = |nth: usize| tokens.get(nth).and_then(|count| u64::try_from(*count).ok()).unwrap_or(0);
    Usage {
        input_tokens: of(0),
        output_tokens: of(1),
        cache_read_tokens: of(2),
        cache_write_tokens: of(3),
        reasoning_tokens: of(4),
        ..Usage::default()
    }
}

/// Counts a model call that belongs to no step, such as the one that finds a title. `run`: the run or the session under
/// which it is counted. Locks the agentable's row in `run_locks`.
pub(crate) async fn count_call(
    connection: &mut PgConnection,
    agentable: AgentableId,
    run: Uuid,
    write: WriteId,
    call: &ModelCall,
) -> Result<()> {
    let tokens = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let millis = |millis: u32| i32::try_from(millis).unwrap_or(i32::MAX);
    let usage = &call.usage;
    sqlx::query!(
        "-- store::cost::count_call
        with t as (select clock_timestamp() as at),
        costs as (
            update houston.run_locks l
               set cost = case when $4::numeric is null then l.cost else coalesce(l.cost, 0) + $4 end,
                   unpriced_calls = l.unpriced_calls + ($4 is null)::integer
             where l.agentable_id = $1
            returning l.tenant_id, l.user_id),
        runs as (
            update houston.runs r
               set cost = case when $4 is null then r.cost else coalesce(r.cost, 0) + $4 end,
                   unpriced_calls = r.unpriced_calls + ($4 is null)::integer
             where r.id = $2),
        calls as (
            insert into houston.model_calls (run_id, write_id, tenant_id, agentable_id, iteration, provider, model,
                                             input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                                             reasoning_tokens, cost, reported, first_event_ms, took_ms, estimated, created_at)
            select $2, $3, c.tenant_id, $1, $5, $6, $7, $8, $9, $10, $11, $12, $4, $13, $14, $15, $16, t.at
              from costs c cross join t)
        insert into houston.spending as s (user_id, day, tenant_id, cost, model_calls, unpriced_calls)
        select c.user_id, (t.at at time zone 'UTC')::date, c.tenant_id, $4, 1, ($4 is null)::integer from costs c cross join t
        on conflict (user_id, day, writer) do update
           set cost = case when $4 is null then s.cost else coalesce(s.cost, 0) + $4 end,
               model_calls = s.model_calls + 1, unpriced_calls = s.unpriced_calls + excluded.unpriced_calls",
        agentable.0,
        run,
        write.0,
        usage.cost,
        i32::try_from(call.iteration).unwrap_or(i32::MAX),
        call.provider,
        call.model,
        tokens(usage.input_tokens),
        tokens(usage.output_tokens),
        tokens(usage.cache_read_tokens),
        tokens(usage.cache_write_tokens),
        tokens(usage.reasoning_tokens),
        call.reported,
        call.timing.map(|timing| millis(timing.first_event_ms)),
        call.timing.map(|timing| millis(timing.took_ms)),
        call.estimated
    )
    .run(connection)
    .await
}

impl RunStore {
    /// Counts calls whose answer was of no use: they are paid for all the same. `of`: the run, or what is in its place.
    pub async fn count_calls(
        &self,
        agentable: AgentableId,
        of: Uuid,
        calls: &[(WriteId, ModelCall)],
    ) -> Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let mut tx = self.pool.begin().await?;
        for (write, call) in calls {
            count_call(&mut tx, agentable, of, *write, call).await?;
        }
        Ok(tx.commit().await?)
    }

    /// What was spent so far on a run, on its agentable, and today by its user: the input of the budget checks.
    pub async fn spent(&self, agentable: AgentableId, run: RunId) -> Result<Spent> {
        let spent = sqlx::query_as!(
            Spent,
            r#"-- store::cost::spent
            select (select r.cost from houston.runs r where r.id = $2) as run, l.cost as agentable,
                   (select sum(s.cost) from houston.spending s
                     where s.user_id = l.user_id and s.day = (clock_timestamp() at time zone 'UTC')::date) as user_today
              from houston.run_locks l where l.agentable_id = $1"#,
            agentable.0,
            run.0
        );
        Ok(spent.fetch_optional(&self.pool).await?.unwrap_or_default())
    }

    /// What the model calls of a run cost so far; `None` while no call has a price, so that a run without any call
    /// does not count as free.
    pub async fn cost_of_run(&self, run: RunId) -> Result<Cost> {
        let row = sqlx::query!(
            r#"-- store::cost::of_run
            select sum(cost) as sum, (count(*) - count(cost))::integer as "unpriced!"
              from houston.model_calls where run_id = $1"#,
            run.0
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Cost::of(row.sum, row.unpriced))
    }
}

/// Calls of a tenant that are looked at: the latest ones of the last minutes.
const CALLS: i64 = 5_000;

/// How fast a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpeed {
    /// The part before the slash in `anthropic/claude-…`.
    pub provider: String,
    /// The part after the slash.
    pub model: String,
    /// Number of calls that were measured.
    pub calls: i64,
    /// Milliseconds from a request to the first piece of its answer; half of the calls took longer.
    pub first_event_ms: f64,
    /// Tokens per second from then on; half of the calls were faster. `None`: their answers came at once.
    pub tokens_per_s: Option<f64>,
}

impl TenantStore<'_> {
    /// The model calls of a run of the tenant, in order.
    pub async fn model_calls(self, run: RunId) -> Result<Vec<StoredModelCall>> {
        self.run(run).await?;
        let counted = sqlx::query!(
            r#"-- store::cost::calls
            select iteration, provider, model,
                   array[input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens] as "tokens!",
                   cost, reported, estimated, created_at
              from houston.model_calls where tenant_id = $1 and run_id = $2 order by created_at, iteration"#,
            self.tenant.0,
            run.0
        )
        .map(|call| StoredModelCall {
            call: ModelCall {
                provider: call.provider,
                model: call.model,
                usage: Usage { cost: call.cost, ..stored_usage(&call.tokens) },
                iteration: u32::try_from(call.iteration).unwrap_or(0),
                reported: call.reported,
                estimated: call.estimated,
                timing: None,
            },
            at: call.created_at,
        });
        Ok(counted.fetch_all(&self.pool).await?)
    }

    /// What a user of the tenant spent in total, and on each of the latest `days` days with any spending, newest
    /// first.
    pub async fn user_costs(self, user: UserId, days: i64) -> Result<(Cost, Vec<DayCost>)> {
        let total = self.user(user).await?.cost;
        let days = sqlx::query!(
            r#"-- store::cost::days
            select day, sum(cost) as cost, sum(model_calls)::integer as "model_calls!",
                   sum(unpriced_calls)::integer as "unpriced_calls!"
              from houston.spending
             where tenant_id = $1 and user_id = $2 group by day order by day desc limit $3"#,
            self.tenant.0,
            user.0,
            days
        )
        .map(|row| DayCost {
            day: row.day,
            cost: Cost::of(row.cost, row.unpriced_calls).total.map(|cost| cost.normalize()),
            unpriced_calls: row.unpriced_calls,
            model_calls: row.model_calls,
        });
        Ok((total, days.fetch_all(&self.pool).await?))
    }

    /// How fast models answered the tenant's runs in the last half hour.
    pub async fn model_speeds(self) -> Result<Vec<ModelSpeed>> {
        let rows = sqlx::query_as!(
            ModelSpeed,
            r#"-- store::cost::model_speed::of_tenant
            select c.provider, c.model, count(*) as "calls!",
                   percentile_cont(0.5) within group (order by c.first_event_ms) as "first_event_ms!",
                   -- What arrived at once was written before it was sent.
                   percentile_cont(0.5) within group (
                        order by c.output_tokens::double precision * 1000 / nullif(c.took_ms - c.first_event_ms, 0))
                        filter (where c.took_ms - c.first_event_ms >= 50 and c.output_tokens > 0) as tokens_per_s
              from (select o.provider, o.model, o.first_event_ms, o.took_ms, o.output_tokens
                      from houston.model_calls o
                     where o.tenant_id = $1 and o.created_at > now() - interval '30 minutes'
                       and o.first_event_ms is not null
                     limit $2) c
             group by c.provider, c.model order by c.provider, c.model"#,
            self.tenant.0,
            CALLS
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_of_only_unpriced_calls_is_unknown() {
        let total = |sum, unpriced| Cost::of(Some(Decimal::new(sum, 2)), unpriced).total;
        assert_eq!(total(0, 0), Some(Decimal::ZERO));
        assert_eq!(total(0, 3), None);
        assert_eq!(total(25, 3), Some(Decimal::new(25, 2)));
        assert_eq!(Cost::of(None, 0).total, None);
    }
}
