//! Writing a new plan: an agentable with an open run. Requests make plans in batches, of which those are left out that need more:
//! the agentable works, has been archived, or has as many tasks as may be plans. A batch has plans of several tenants, so it is not
//! under [`row_security`](crate::row_security): each names its tenant.

use chrono::{DateTime, Utc};
use houston_domain::id::TenantId;
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{MAX_OPEN_PLANS, NewPlan, PlanOwner};
use crate::batcher::Batch;
use crate::cancel::ARCHIVED;
use crate::error::{Error, Result};

/// A plan as its rows.
#[derive(Debug, Serialize)]
pub(crate) struct PlanRow {
    /// Index of the plan in its batch.
    n: usize,
    id: Uuid,
    tenant_id: Uuid,
    /// The agentable that it works for.
    parent_id: Uuid,
    /// The kind of that, if the statement decides whether it may have the plan. Otherwise the caller holds its lock row.
    parent_kind: Option<String>,
    parent_run: Option<Uuid>,
    /// `None`: as that agentable is.
    untrusted: Option<bool>,
    run_id: Uuid,
    message_id: Uuid,
    kind: String,
    status: Option<String>,
    title: String,
    tools: Vec<String>,
    document: Box<RawValue>,
    input: Box<RawValue>,
    attached: bool,
    deadline: DateTime<Utc>,
    traceparent: Option<String>,
}

impl PlanRow {
    /// A plan that a request makes for an agentable of the tenant.
    pub(super) fn of(
        tenant: TenantId,
        (kind, parent): (&str, Uuid),
        plan: &NewPlan<'_>,
    ) -> serde_json::Result<Self> {
        Ok(Self {
            n: 0,
            id: plan.id.0,
            tenant_id: tenant.0,
            parent_id: parent,
            parent_kind: Some(kind.to_owned()),
            parent_run: None,
            untrusted: None,
            run_id: plan.run.0,
            message_id: plan.message.0,
            kind: plan.kind.to_owned(),
            status: plan.status.map(str::to_owned),
            title: plan.title.to_owned(),
            tools: plan.tools.to_vec(),
            document: to_raw_value(plan.document)?,
            input: to_raw_value(plan.input)?,
            attached: plan.attached,
            deadline: plan.deadline,
            traceparent: plan.traceparent.map(str::to_owned),
        })
    }

    /// The same, decided by the caller.
    fn decided(owner: PlanOwner, plan: &NewPlan<'_>) -> serde_json::Result<Self> {
        Ok(Self {
            parent_kind: None,
            parent_run: owner.run.map(|run| run.0),
            untrusted: Some(owner.untrusted),
            ..Self::of(owner.tenant, ("", owner.parent.0), plan)?
        })
    }
}

/// How new plans are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewPlans;

impl Batch for NewPlans {
    type Item = PlanRow;
    type Done = ();
    /// The agentable that a plan works for.
    type Key = Uuid;
    const CONNECTIONS: usize = 1;

    fn keys(item: &PlanRow) -> impl Iterator<Item = Uuid> {
        std::iter::once(item.parent_id)
    }

    fn bytes(item: &PlanRow) -> usize {
        item.document.get().len() + item.input.get().len() + item.title.len()
    }

    async fn write(&self, connection: &mut PgConnection, items: &mut [PlanRow]) -> Result<Vec<Option<()>>> {
        items.iter_mut().enumerate().for_each(|(n, item)| item.n = n);
        let mut done = vec![None; items.len()];
        for n in insert(connection, items).await? {
            if let Some(place) = usize::try_from(n).ok().and_then(|n| done.get_mut(n)) {
                *place = Some(());
            }
        }
        Ok(done)
    }
}

/// Makes a plan. The caller holds the lock row of the agentable that it works for.
pub(crate) async fn insert_plan(
    connection: &mut PgConnection,
    owner: PlanOwner,
    plan: &NewPlan<'_>,
) -> Result<()> {
    let row = PlanRow::decided(owner, plan).map_err(not_json)?;
    insert(connection, &[row]).await?;
    Ok(houston_faults::fault!("C27")?)
}

pub(super) fn not_json(error: serde_json::Error) -> Error {
    Error::Database(sqlx::Error::Encode(error.into()))
}

/// Writes plans; returns the indices of those that were.
async fn insert(connection: &mut PgConnection, rows: &[PlanRow]) -> Result<Vec<i32>> {
    let written = sqlx::query_scalar!(
        r#"-- store::plan::insert
        with i as materialized (
            select * from jsonb_to_recordset($1) as i (
                n integer, id uuid, tenant_id uuid, parent_id uuid, parent_kind text, parent_run uuid, untrusted boolean,
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
        select l.n as "n!" from l"#,
        Json(rows) as Json<&[PlanRow]>,
        json!({"type": "task_started"}),
        MAX_OPEN_PLANS,
        ARCHIVED
    )
    .fetch_all(connection)
    .await?;
    Ok(written)
}
