//! How tasks ended, for REST. What the agentables that created them read: [`houston_domain::task`].

use houston_domain::id::AgentableId;
use houston_domain::run::RunStatus;
use houston_domain::task::TaskResult;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::TenantStore;

impl TenantStore<'_> {
    /// The results of these tasks of the tenant. Tasks with an open run have none and are left out.
    pub async fn task_results(self, tasks: &[AgentableId]) -> Result<Vec<(AgentableId, TaskResult)>> {
        let ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
        let rows = sqlx::query!(
            r#"-- store::task_result::of
            select a.id, r.status, r.error_code, r.error_message, r.cancel_reason, r.cancelled_with_parent,
                   r.ended_at as "ended_at!", said.text as "text?"
              from houston.agentables a
              join houston.run_locks l on l.agentable_id = a.id
              join houston.runs r on r.id = l.run_id and r.ended_at is not null
              left join lateral (
                    select string_agg(b.block ->> 'text', E'\n' order by b.n) as text
                      from houston.entries h
                     cross join lateral jsonb_array_elements(h.content) with ordinality as b (block, n)
                     where h.agentable_id = a.id and h.run_id = r.id and h.role = 'assistant' and not h.rolled_back
                       and b.block ->> 'type' = 'text' and btrim(b.block ->> 'text') <> ''
                     group by h.position order by h.position desc limit 1) as said on true
             where a.tenant_id = $1 and a.id = any ($2) and a.parent_id is not null"#,
            self.tenant.0,
            &ids
        )
        .map(|row| {
            let status = RunStatus::from_name(&row.status).unwrap_or(RunStatus::Failed);
            let by =
                if row.cancelled_with_parent { Some("parent") } else { row.cancel_reason.as_deref() };
            let result = TaskResult {
                run_status: status,
                reason: status.stopped_by(row.error_code.as_deref(), by),
                message: row.error_message,
                text: row.text,
                ended_at: row.ended_at.into(),
            };
            (AgentableId(row.id), result)
        });
        Ok(rows.fetch_all(&self.pool).await?)
    }
}
