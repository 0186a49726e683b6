//! Statistics of a conversation, from a bounded number of rows however long it is.

use houston_domain::id::AgentableId;
use houston_domain::run::RunStatus;
use houston_domain::statistics::{Bounds, CountedRun, Messages, Runs, Statistics, ToolCalls};

use crate::cost::{Cost, stored_usage};
use crate::error::{Error, Result};
use crate::handle::TenantStore;

impl TenantStore<'_> {
    /// Statistics of a conversation of the tenant, over the latest runs and messages within `bounds`.
    pub async fn statistics(self, agentable: AgentableId, bounds: Bounds) -> Result<Statistics> {
        let row = sqlx::query!(
            r#"-- store::stats::totals
            select l.cost, l.unpriced_calls, l.last_position, l.session_position,
                   (select count(*) from houston.knowledge_items n where n.owner_id = a.id and n.kind = 'note') as "notes!",
                   (select count(*) from houston.knowledge_items n
                     where n.owner_id = a.id and n.kind = 'learning') as "learnings!"
              from houston.agentables a join houston.run_locks l on l.agentable_id = a.id
             where a.tenant_id = $1 and a.id = $2"#,
            self.tenant.0,
            agentable.0
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        let cost = Cost::of(row.cost, row.unpriced_calls);
        Ok(Statistics {
            cost: cost.total.map(|cost| cost.normalize()),
            unpriced_calls: cost.unpriced_calls,
            entries: row.last_position,
            session_entries: row.last_position - row.session_position,
            runs: self.counted_runs(agentable, bounds.runs).await?,
            messages: self.counted_messages(agentable, bounds.messages).await?,
            notes: row.notes,
            learnings: row.learnings,
        })
    }

    async fn counted_runs(self, agentable: AgentableId, most: i64) -> Result<Runs> {
        let rows = sqlx::query!(
            r#"-- store::stats::runs
            select status, iterations, started_at, ended_at,
                   array[input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens] as "tokens!"
              from houston.runs where tenant_id = $3 and agentable_id = $1 order by first_seq desc limit $2"#,
            agentable.0,
            most + 1,
            self.tenant.0
        )
        .fetch_all(&self.pool)
        .await?;
        let runs = rows.into_iter().map(|row| CountedRun {
            status: RunStatus::from_name(&row.status).unwrap_or(RunStatus::Failed),
            iterations: row.iterations,
            usage: stored_usage(&row.tokens),
            started_at: row.started_at,
            ended_at: row.ended_at,
        });
        let mut runs: Vec<CountedRun> = runs.collect();
        let most = usize::try_from(most).unwrap_or(0);
        let more = runs.len() > most;
        runs.truncate(most);
        Ok(Runs::of(&runs, more))
    }

    async fn counted_messages(self, agentable: AgentableId, most: i64) -> Result<Messages> {
        let rows = sqlx::query!(
            r#"-- store::stats::messages
            select m.source, m.tool, count(*) as "count!", count(*) filter (where m.failed) as "failed!"
              from (select source, case when message_type = 'tool' then coalesce(metadata ->> 'tool', content) end as tool,
                           message_type = 'tool' and metadata ->> 'status' = 'failed' as failed
                      from houston.messages where tenant_id = $3 and agentable_id = $1 order by seq desc limit $2) as m
             group by 1, 2 order by 3 desc, 2"#,
            agentable.0,
            most,
            self.tenant.0
        )
        .fetch_all(&self.pool)
        .await?;
        let mut counted = Messages::default();
        for row in rows {
            counted.count += row.count;
            match (row.tool, row.source.as_str()) {
                (Some(name), _) => {
                    counted.tools.push(ToolCalls { name, calls: row.count, failed: row.failed });
                }
                (None, "user") => counted.user += row.count,
                (None, "error") => counted.error += row.count,
                (None, _) => counted.agent += row.count,
            }
        }
        counted.more = counted.count >= most;
        Ok(counted)
    }
}
