//! Writing a new plan: an agentable with an open run. Requests make plans in batches, of which those are left out that need more:
//! the agentable works, has been archived, or has as many tasks as may be plans. A batch has plans of several tenants, so it is not
//! under [`row_security`](crate::row_security): each names its tenant.

use houston_domain::id::{AgentableId, TenantId};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{MAX_OPEN_PLANS, NewPlan};
use crate::batcher::Batch;
use crate::cancel::ARCHIVED;
use crate::error::{Result, not_json};

/// A plan as its rows, with what the agentable decides that it works for.
#[derive(Debug, Serialize)]
pub(crate) struct PlanRow<'a> {
    pub(crate) tenant_id: Uuid,
    pub(crate) parent_id: Uuid,
    /// The kind of that agentable, if the statement decides whether it may have the plan. Otherwise the caller holds its lock row.
    pub(crate) parent_kind: Option<&'a str>,
    /// The run that makes the plan; `None`: a request.
    pub(crate) parent_run: Option<Uuid>,
    /// Whether what it says may come from strangers; `None`: as in the agentable.
    pub(crate) untrusted: Option<bool>,
    #[serde(flatten)]
    pub(crate) plan: &'a NewPlan<'a>,
}

impl<'a> PlanRow<'a> {
    /// A plan that works for this agentable of the tenant.
    pub(crate) fn new(tenant: TenantId, parent: AgentableId, plan: &'a NewPlan<'a>) -> Self {
        let (tenant_id, parent_id) = (tenant.0, parent.0);
        Self { tenant_id, parent_id, parent_kind: None, parent_run: None, untrusted: None, plan }
    }

    /// The same, for a batch.
    pub(super) fn batched(&self) -> Result<BatchedPlan> {
        Ok(BatchedPlan { id: self.plan.id.0, parent_id: self.parent_id, row: self.to_json()? })
    }

    fn to_json(&self) -> Result<Box<RawValue>> {
        to_raw_value(self).map_err(not_json)
    }
}

/// A plan of a batch.
pub(crate) struct BatchedPlan {
    id: Uuid,
    parent_id: Uuid,
    /// A [`PlanRow`].
    row: Box<RawValue>,
}

/// How new plans are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewPlans;

impl Batch for NewPlans {
    type Item = BatchedPlan;
    type Done = ();
    /// The agentable that a plan works for.
    type Key = Uuid;
    const CONNECTIONS: usize = 1;

    fn keys(item: &BatchedPlan) -> impl Iterator<Item = Uuid> {
        std::iter::once(item.parent_id)
    }

    fn bytes(item: &BatchedPlan) -> usize {
        item.row.get().len()
    }

    async fn write(
        &self,
        connection: &mut PgConnection,
        items: &mut [BatchedPlan],
    ) -> Result<Vec<Option<()>>> {
        let rows: Vec<_> = items.iter().map(|item| &*item.row).collect();
        let written = insert(connection, &rows).await?;
        Ok(items.iter().map(|item| written.contains(&item.id).then_some(())).collect())
    }
}

/// Makes a plan. The caller holds the lock row of the agentable that it works for.
pub(crate) async fn insert_plan(connection: &mut PgConnection, row: PlanRow<'_>) -> Result<()> {
    insert(connection, &[&row.to_json()?]).await?;
    Ok(houston_faults::fault!("C27")?)
}

/// Writes plans; returns the ids of those that were.
async fn insert(connection: &mut PgConnection, rows: &[&RawValue]) -> Result<Vec<Uuid>> {
    let written = sqlx::query_scalar!(
        r#"-- store::plan::insert
        with i as materialized (
            select * from jsonb_to_recordset($1) as i (
                id uuid, tenant_id uuid, parent_id uuid, parent_kind text, parent_run uuid, untrusted boolean,
                run_id uuid, message_id uuid, kind text, status text, title text, tools text[], document jsonb, input jsonb,
                attached boolean, deadline timestamptz, traceparent text)),
        l as materialized (
            select i.*, a.user_id, a.depth + 1 as depth, coalesce(i.untrusted, a.untrusted) as marked
              from i cross join lateral (select a.* from houston.agentables a where a.id = i.parent_id) a
             where i.parent_kind is null
                or a.tenant_id = i.tenant_id and a.kind = i.parent_kind
                   -- Plans that have not ended are open tasks.
                   and exists (select from houston.run_locks k
                                where k.agentable_id = i.parent_id and not k.run_open and k.open_tasks < $3::bigint
                                  for no key update skip locked)
                   and exists (select from houston.agentables b where b.id = i.parent_id and b.status is distinct from $4
                                  for share skip locked)),
        t as materialized (select clock_timestamp() as at),
        above as (
            update houston.runs r set tasks_started = r.tasks_started + 1 from l where r.id = l.parent_run
            returning r.id, coalesce(r.mode, r.origin_type) as origin, r.traceparent),
        counted as (
            update houston.run_locks k set open_tasks = k.open_tasks + 1 from l where k.agentable_id = l.parent_id),
        agentables as (
            insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title, status, tools, untrusted)
            select l.id, l.tenant_id, l.user_id, l.parent_id, l.depth, l.kind, l.title, l.status, l.tools, l.marked from l),
        locks as (
            insert into houston.run_locks (agentable_id, tenant_id, user_id, last_seq, wake, unread, run_id, run_open)
            select l.id, l.tenant_id, l.user_id, 2, true, 1, l.run_id, true from l),
        runs as (
            insert into houston.runs (id, tenant_id, agentable_id, first_seq, origin_type, created_at, traceparent)
            select l.run_id, l.tenant_id, l.id, 1, o.origin, t.at, coalesce(l.traceparent, o.traceparent)
              from l cross join t left join above o on o.id = l.parent_run),
        messages as (
            insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata, run_id,
                                          created_at)
            select l.message_id, l.tenant_id, l.id, 2, 'system', 'text', l.title, $2, l.run_id, t.at from l cross join t),
        versions as (
            insert into houston.plan_versions (plan_id, tenant_id, version, document, reason)
            select l.id, l.tenant_id, 1, l.document, '' from l),
        plans as (
            insert into houston.plans (agentable_id, tenant_id, user_id, parent_id, parent_run_id, document, input, attached,
                                       deadline_at, listed_in)
            select l.id, l.tenant_id, l.user_id, l.parent_id, l.parent_run, l.document, l.input, l.attached, l.deadline,
                   l.parent_run
              from l)
        select l.id as "id!" from l"#,
        Json(rows) as Json<&[&RawValue]>,
        json!({"type": "task_started"}),
        MAX_OPEN_PLANS,
        ARCHIVED
    );
    Ok(written.fetch_all(connection).await?)
}
