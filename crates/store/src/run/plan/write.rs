//! What a step of a plan's run changes, in the transaction of that step.

use houston_domain::event::Event;
use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_domain::plan::{Listing, NewExecutor, PlanChanges};
use houston_domain::step::Step;
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::claim::Fence;
use crate::error::{Error, Result};
use crate::record::Owner;
use crate::system_message::lock;
use crate::task::{NewTask, insert_task};

/// Writes what the step changes in its plan. The caller holds the lock row of the plan.
///
/// # Errors
/// [`Error::PlanChanged`] when something else has changed the plan since the run read it: what the step says was decided
/// without that, and would undo it.
pub(crate) async fn write(
    connection: &mut PgConnection,
    fence: &Fence,
    step: &Step,
    changes: &PlanChanges,
) -> Result<()> {
    let PlanChanges { seen, calls, document, end, listed, deadline, .. } = changes;
    let document = document.as_ref();
    let plan = sqlx::query!(
        r#"-- store::plan::write::plan
        update houston.plans p
           set calls = p.calls + $2, document = coalesce($3, p.document), version = p.version + $4, replans = p.replans + $4,
               deadline_at = coalesce($6, p.deadline_at)
          from houston.agentables a
         where p.agentable_id = $1 and a.id = $1 and p.changes = $5
        returning p.tenant_id, p.user_id, p.parent_id, p.version, p.listed_in, a.kind, a.depth"#,
        fence.agentable.0,
        i32::try_from(*calls).unwrap_or(i32::MAX),
        document.map(|(document, _)| document),
        i32::from(document.is_some()),
        seen,
        *deadline
    )
    .fetch_optional(&mut *connection)
    .await?
    .ok_or(Error::PlanChanged)?;
    write_steps(connection, fence.agentable, changes).await?;
    if !changes.removed.is_empty() {
        forget_steps(connection, fence.agentable, &changes.removed).await?;
    }
    if let Some(end) = end {
        end_plan(connection, fence.agentable, &end.output).await?;
    }
    let tenant = TenantId(plan.tenant_id);
    if let Some((document, reason)) = document {
        add_version(connection, fence.agentable, tenant, (plan.version, document, reason)).await?;
        houston_faults::fault!("C31")?;
    }
    for executor in changes.steps.iter().filter_map(|step| step.executor.as_ref()) {
        let owner = Owner {
            tenant,
            user: UserId(plan.user_id),
            agentable: fence.agentable,
            run: step.run,
            untrusted: step.untrusted,
        };
        let traceparent = executor.traceparent.as_deref();
        insert_task(connection, owner, &executor.task(), plan.depth + 1, traceparent).await?;
        houston_faults::fault!("C28")?;
    }
    if let Some(listed) = listed {
        let plan_id = fence.agentable.public_id(&plan.kind);
        show(
            connection,
            fence.agentable,
            (tenant, AgentableId(plan.parent_id)),
            (plan_id, listed),
            plan.listed_in.map(RunId),
        )
        .await?;
    }
    Ok(())
}

async fn end_plan(connection: &mut PgConnection, plan: AgentableId, output: &Value) -> Result<()> {
    sqlx::query!(
        "-- store::plan::write::end
        update houston.plans set output = $2, ended_at = statement_timestamp() where agentable_id = $1",
        plan.0,
        output
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn write_steps(connection: &mut PgConnection, plan: AgentableId, changes: &PlanChanges) -> Result<()> {
    if changes.steps.is_empty() {
        return Ok(());
    }
    let rows = changes.steps.iter().map(|step| {
        json!({
            "path": step.path,
            "state": step.state,
            "task_id": step.executor.as_ref().map(|executor| executor.id.0),
            "question_id": step.question.map(|question| question.0),
            "settled": step.state.status.is_settled(),
        })
    });
    sqlx::query!(
        "-- store::plan::write::steps
        insert into houston.plan_steps as s (plan_id, tenant_id, path, state, task_id, question_id, started_at, ended_at)
        select $1, p.tenant_id, c.path, c.state, c.task_id, c.question_id, statement_timestamp(),
               case when c.settled then statement_timestamp() end
          from houston.plans p
         cross join jsonb_to_recordset($2) as c (path text, state jsonb, task_id uuid, question_id uuid, settled boolean)
         where p.agentable_id = $1
        on conflict (plan_id, path) do update
           set state = excluded.state, task_id = coalesce(excluded.task_id, s.task_id), outcome = null,
               question_id = coalesce(excluded.question_id, s.question_id), ended_at = excluded.ended_at",
        plan.0,
        Value::Array(rows.collect())
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn forget_steps(connection: &mut PgConnection, plan: AgentableId, paths: &[String]) -> Result<()> {
    sqlx::query!(
        "-- store::plan::write::forget
        delete from houston.plan_steps where plan_id = $1 and path = any ($2)",
        plan.0,
        paths
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Keeps a document of a plan.
pub(crate) async fn add_version(
    connection: &mut PgConnection,
    plan: AgentableId,
    tenant: TenantId,
    (version, document, reason): (i32, &Value, &str),
) -> Result<()> {
    sqlx::query!(
        "-- store::plan::write::version
        insert into houston.plan_versions (plan_id, tenant_id, version, document, reason) values ($1, $2, $3, $4, $5)",
        plan.0,
        tenant.0,
        version,
        document,
        reason
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds to the stream of the agentable that the plan works for, while a run of it is open, what people see. A run whose
/// stream does not have the list of steps yet gets the whole list.
pub(crate) async fn show(
    connection: &mut PgConnection,
    plan: AgentableId,
    (tenant, parent): (TenantId, AgentableId),
    (plan_id, listed): (String, &Listing),
    listed_in: Option<RunId>,
) -> Result<()> {
    let Some(row) = lock(connection, parent).await?.filter(|row| row.run_open) else { return Ok(()) };
    let run = row.run_id.map(RunId);
    let has_list = run == listed_in;
    let Listing { checklist, delta, changed } = listed.clone();
    let event = match changed {
        Some((version, reason)) => Event::PlanChanged { plan_id, version, reason, checklist },
        None if has_list && !delta.is_empty() => Event::PlanProgress { plan_id, delta, checklist: None },
        None => Event::PlanProgress { plan_id, delta: Vec::new(), checklist: Some(checklist) },
    };
    row.add_event(connection, &event).await?;
    if has_list {
        return Ok(());
    }
    sqlx::query!(
        "-- store::plan::write::listed
        update houston.plans set listed_in = $2 where tenant_id = $3 and agentable_id = $1",
        plan.0,
        run.map(|run| run.0),
        tenant.0
    )
    .execute(connection)
    .await?;
    Ok(())
}

trait Task {
    fn task(&self) -> NewTask<'_>;
}

impl Task for NewExecutor {
    fn task(&self) -> NewTask<'_> {
        NewTask {
            id: self.id,
            run: self.run,
            message: self.message,
            kind: &self.kind,
            status: self.status.as_deref(),
            title: &self.title,
            instructions: &self.instructions,
            tools: &self.tools,
            output: self.output.as_ref(),
            latency: None,
        }
    }
}
