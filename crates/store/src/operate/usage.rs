//! What the model calls of ended runs cost: by user, agent, model and day.

use std::time::Duration;

use chrono::NaiveDate;
use houston_domain::id::{AgentId, UserId};
use houston_domain::usage::Spent;
use rust_decimal::Decimal;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::{Shared, TenantStore};
use crate::statement::uuids;

/// How many ended runs are read at most, whosever they are: the latest.
pub const MOST: i64 = 20_000;
/// How many users, agents and models there are at most: those that cost most.
pub const MOST_ROWS: i64 = 50;

/// Whose, or of what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// All of the tenant.
    Tenant,
    /// Of the agentables of a user.
    User(UserId, String),
    /// Of agentables of a kind: those that an agent of their own answers for, or those that have none.
    Agent(String, Option<(AgentId, String)>),
    /// Of calls of a model, as `provider/model`.
    Model(String),
    /// Of runs that ended on a day, UTC.
    Day(NaiveDate),
}

/// What the runs took that ended within some time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// Each user, agent, model and day, those that cost most first, and the whole.
    pub spent: Vec<(Of, Spent)>,
    /// Whether more runs have ended than were read.
    pub is_capped: bool,
}

impl TenantStore<'_> {
    /// What the runs of the tenant took that ended within `window`.
    pub async fn usage(self, window: Duration) -> Result<Usage> {
        self.shared.usage_of_ended(self.tenant.0, window).await
    }

    /// What each of these users has spent today (UTC), as far as there are prices, with what open runs have spent so far.
    pub async fn spent_today(self, users: &[UserId]) -> Result<Vec<(UserId, Decimal)>> {
        let rows = sqlx::query!(
            r#"-- store::usage::today
            select s.user_id, sum(s.cost) as "cost!" from houston.spending s
             where s.tenant_id = $1 and s.user_id = any($2) and s.day = (statement_timestamp() at time zone 'UTC')::date
               and s.cost is not null
             group by s.user_id"#,
            self.tenant.0,
            &uuids(users)
        )
        .map(|row| (UserId(row.user_id), row.cost));
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

impl Shared {
    /// Without row-level security, under which the statement could not count the runs of others that it reads. It names the
    /// tenant.
    async fn usage_of_ended(&self, tenant: Uuid, window: Duration) -> Result<Usage> {
        let rows = sqlx::query!(
            r#"-- store::usage::of_ended
            with ended as materialized (
                select r.id, r.tenant_id, r.agentable_id, coalesce(r.model, '') as model,
                       (r.ended_at at time zone 'UTC')::date as day, r.iterations, r.input_tokens, r.output_tokens,
                       r.cache_read_tokens, r.cost, r.unpriced_calls
                  from houston.runs r
                 where r.ended_at > now() - make_interval(secs => $2) order by r.ended_at desc limit $3),
            -- What the calls of each model took in each run. A run whose calls are not kept any more counts by its sums.
            used as (
                select a.user_id, a.kind, a.agent_id, coalesce(c.model, e.model) as model, e.day,
                       c.nth is null or c.nth = 1 as is_first, coalesce(c.calls, e.iterations) as calls,
                       coalesce(c.input, e.input_tokens) as input, coalesce(c.output, e.output_tokens) as output,
                       coalesce(c.cached, e.cache_read_tokens) as cached,
                       case when c.nth is null then e.cost else c.cost end as cost,
                       coalesce(c.unpriced, e.unpriced_calls) as unpriced
                  from ended e
                 cross join lateral (
                       -- One by one: a join might read all agentables.
                       select g.user_id, g.agent_id, g.kind from houston.agentables g
                        where g.id = e.agentable_id and g.tenant_id = $1 limit 1) as a
                  left join lateral (
                       select m.provider || '/' || m.model as model, row_number() over (order by m.provider, m.model) as nth,
                              count(*) as calls, sum(m.input_tokens) as input, sum(m.output_tokens) as output,
                              sum(m.cache_read_tokens) as cached, sum(m.cost) as cost, count(*) - count(m.cost) as unpriced
                         from houston.model_calls m where m.run_id = e.id group by m.provider, m.model) as c on true
                 where e.tenant_id = $1),
            -- In one go: first by agentable would be slower, because most of them have few of these runs.
            sums as (
                select grouping(u.user_id, u.kind, u.model, u.day) as part, u.user_id, u.kind, u.agent_id, u.model, u.day,
                       -- A run counts once, but for each model that answered in it.
                       case when grouping(u.model) = 0 then count(*) else count(*) filter (where u.is_first) end as runs,
                       sum(u.calls) as calls, sum(u.input) as input, sum(u.output) as output, sum(u.cached) as cached,
                       sum(u.cost) as cost, sum(u.unpriced) as unpriced
                  from used u
                 group by grouping sets ((u.user_id), (u.kind, u.agent_id), (u.model), (u.day), ())),
            placed as (
                select s.*, row_number() over (partition by s.part order by coalesce(s.cost, 0) desc, s.input desc) as place from sums s
                 -- No model has answered.
                 where s.model is distinct from '')
            select p.user_id as "user_id?", p.kind as "kind?", p.agent_id as "agent_id?", p.model as "model?", p.day as "day?",
                   (select u.name from houston.users u where u.id = p.user_id and u.tenant_id = $1) as "user_name?",
                   (select g.name from houston.agents g where g.id = p.agent_id and g.tenant_id = $1) as "agent_name?",
                   coalesce(p.runs, 0)::bigint as "runs!", coalesce(p.calls, 0)::bigint as "calls!",
                   coalesce(p.input, 0)::bigint as "input!", coalesce(p.output, 0)::bigint as "output!",
                   coalesce(p.cached, 0)::bigint as "cached!", coalesce(p.cost, 0) as "cost!",
                   coalesce(p.unpriced, 0)::bigint as "unpriced!", (select count(*) from ended) as "read!"
              from placed p where p.place <= $4 order by p.part, p.place"#,
            tenant,
            window.as_secs_f64(),
            MOST,
            MOST_ROWS
        )
        .fetch_all(&self.pool)
        .await?;
        let is_capped = rows.iter().any(|row| row.read >= MOST);
        let spent = rows.into_iter().map(|row| {
            let of = match (row.user_id, row.kind, row.model, row.day) {
                (Some(user), ..) => Of::User(UserId(user), row.user_name.unwrap_or_default()),
                (_, Some(kind), ..) => {
                    let name = row.agent_name.unwrap_or_default();
                    Of::Agent(kind, row.agent_id.map(|agent| (AgentId(agent), name)))
                }
                (_, _, Some(model), _) => Of::Model(model),
                (_, _, _, Some(day)) => Of::Day(day),
                _ => Of::Tenant,
            };
            let spent = Spent {
                runs: row.runs,
                model_calls: row.calls,
                input_tokens: row.input,
                output_tokens: row.output,
                cache_read_tokens: row.cached,
                cost: Some(row.cost),
                unpriced_calls: row.unpriced,
            };
            (of, spent)
        });
        Ok(Usage { spent: spent.collect(), is_capped })
    }
}
