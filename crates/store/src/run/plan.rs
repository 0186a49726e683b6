//! Plans: agentables whose runs are driven by a graph of steps. Made in the transaction of what asked for them, read by their
//! own run, changed with its steps.
//!
//! Whatever writes a plan or its steps holds the lock row of the plan's agentable, and takes that row first. Then comes the
//! row of the agentable that the plan works for. Batches, which wait for no lock, take both in any order.
//!
//! When an executor ends, its plan keeps what it returned, and goes on.

mod insert;
mod requests;

use chrono::{DateTime, Utc};
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, MessageId, QuestionId, RunId, TenantId, UserId};
use houston_domain::plan::{Listing, PlanChanges, State};
use houston_domain::step::Step;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::claim::Fence;
use crate::error::{Error, Result};
use crate::handle::RunStore;
use crate::message::uuid;
use crate::record::Owner;
use crate::statement::{Statement as _, uuids};
use crate::system_message::{LockedRow, lock};
use crate::task::insert_task;

pub(crate) use self::insert::{NewPlans, PlanRow, insert_plan};
pub(crate) use self::requests::announce;
pub use self::requests::{
    MAX_OPEN_PLANS, PlanChange, PlanRefusal, PlanStep, StepsChange, StoredPlan, states,
};
pub(crate) use self::requests::{change, find, plans_of, steps_of};

/// A plan to be made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewPlan<'a> {
    /// The plan's id.
    #[serde(serialize_with = "uuid")]
    pub id: AgentableId,
    /// The id of its run.
    #[serde(rename = "run_id", serialize_with = "uuid")]
    pub run: RunId,
    /// The id of its first message.
    #[serde(rename = "message_id", serialize_with = "uuid")]
    pub message: MessageId,
    /// Its kind, as in `plan`.
    pub kind: &'a str,
    /// Its first stored status.
    pub status: Option<&'a str>,
    /// Its title, one line.
    pub title: &'a str,
    /// The tools that its steps may call.
    pub tools: &'a [String],
    /// The document.
    pub document: &'a Value,
    /// What its expressions read as `input`.
    pub input: &'a Value,
    /// Whether the run that makes it waits for it.
    pub attached: bool,
    /// When it has to have ended.
    pub deadline: DateTime<Utc>,
    /// Where its run belongs in a trace, a `traceparent`; `None`: where the run belongs that makes it. A tool call
    /// leaves it to [`FencedTx::traceparent`](crate::record::FencedTx::traceparent).
    pub traceparent: Option<&'a str>,
}

/// A plan as its run reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct DrivenPlan {
    /// The agentable that it works for.
    pub parent: AgentableId,
    /// Whether a run of that agentable waits for it.
    pub attached: bool,
    /// Number of the document.
    pub version: i32,
    /// The document.
    pub document: Value,
    /// What its expressions read as `input`.
    pub input: Value,
    /// How often it was changed because a step had failed.
    pub replans: i32,
    /// Calls of tools and models so far.
    pub calls: i32,
    /// Whether nothing new may start.
    pub paused: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it has to have ended.
    pub deadline: DateTime<Utc>,
    /// How often something other than its run has changed it.
    pub changes: i64,
    /// Its steps that have begun or settled.
    pub steps: Json<Vec<StoredStep>>,
}

/// A plan step that has begun or settled.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StoredStep {
    /// Its path.
    pub path: String,
    /// Its state.
    pub state: State,
    /// The executor that works on it.
    #[serde(deserialize_with = "of_uuid")]
    pub task_id: Option<AgentableId>,
    /// What that executor has returned, if the plan's run does not know it yet.
    pub outcome: Option<ExecutorOutcome>,
    /// The question that it asks.
    #[serde(deserialize_with = "of_uuid")]
    pub question: Option<QuestionId>,
}

fn of_uuid<'de, T: From<Uuid>, D: Deserializer<'de>>(uuid: D) -> std::result::Result<Option<T>, D::Error> {
    Ok(Option::<Uuid>::deserialize(uuid)?.map(T::from))
}

/// What an executor has returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorOutcome {
    /// Its last text.
    pub text: String,
    /// Why it was not completed: a code, and the reason for people.
    pub error: Option<(String, String)>,
    /// Whether it had read what strangers wrote.
    pub untrusted: bool,
}

impl RunStore {
    /// A plan with its steps; `None`: the agentable is none.
    pub async fn driven_plan(&self, agentable: AgentableId) -> Result<Option<DrivenPlan>> {
        let plan = sqlx::query_as!(
            DrivenPlan,
            r#"-- store::plan::driven
            select p.parent_id as parent, p.attached, p.version, p.document, p.input, p.replans, p.calls, p.paused,
                   p.deadline_at as deadline, p.changes, p.created_at,
                   (select coalesce(json_agg(json_build_object('path', s.path, 'state', s.state, 'task_id', s.task_id,
                                                               'outcome', s.outcome, 'question', s.question_id)
                                             order by s.path), '[]')
                      from houston.plan_steps s where s.plan_id = p.agentable_id) as "steps!: Json<Vec<StoredStep>>"
              from houston.plans p where p.agentable_id = $1"#,
            agentable.0
        );
        Ok(plan.fetch_optional(&self.pool).await?)
    }

    /// Requests the end of the runs of executors, and of what they started. Their locks are taken here, so the caller holds
    /// none.
    pub async fn cancel_executors(&self, tenant: TenantId, executors: &[AgentableId]) -> Result<()> {
        for executor in executors {
            self.cancel_all(tenant, *executor, false).await?;
        }
        Ok(())
    }

    /// How often something other than its run has changed a plan; the end of an executor counts.
    pub async fn plan_changes(&self, agentable: AgentableId) -> Result<i64> {
        let changes = sqlx::query_scalar!(
            "-- store::plan::changes
            select changes from houston.plans where agentable_id = $1",
            agentable.0
        );
        Ok(changes.fetch_optional(&self.pool).await?.unwrap_or_default())
    }

    /// Those of `executors` whose run is open although no worker drives it: they wait for a person, or for a worker.
    pub async fn idle_executors(&self, executors: &[AgentableId]) -> Result<Vec<AgentableId>> {
        let idle = sqlx::query_scalar!(
            "-- store::plan::idle_executors
            select l.agentable_id from houston.run_locks l
             where l.agentable_id = any ($1) and l.run_open
               and not exists (select from houston.workers w
                                where w.id = l.holder and w.alive_until > clock_timestamp())",
            &uuids(executors)
        );
        Ok(idle.fetch_all(&self.pool).await?.into_iter().map(AgentableId).collect())
    }

    /// Whether a run waits for plans that it has made.
    pub async fn has_attached_plans(&self, run: RunId) -> Result<bool> {
        let has = sqlx::query_scalar!(
            r#"-- store::plan::has_attached
            select exists (select from houston.plans where parent_run_id = $1 and attached and ended_at is null) as "has!""#,
            run.0
        );
        Ok(has.fetch_one(&self.pool).await?)
    }
}

/// Keeps the outcome of an executor for the run of its plan, whose lock the caller holds, and wakes that run. An
/// executor that its plan no longer waits for leaves nothing.
pub(crate) async fn keep_outcome(
    connection: &mut PgConnection,
    plan: &LockedRow,
    task: AgentableId,
    outcome: &ExecutorOutcome,
) -> Result<()> {
    let kept = sqlx::query_scalar!(
        r#"-- store::plan::outcome::keep
        with kept as (
            update houston.plan_steps set outcome = $3
             where task_id = $1 and plan_id = $2 and status = 'running'
            returning plan_id),
        counted as (update houston.plans p set changes = p.changes + 1 from kept k where p.agentable_id = k.plan_id)
        select exists (select from kept) as "kept!""#,
        task.0,
        plan.agentable.0,
        Json(outcome) as Json<&ExecutorOutcome>
    )
    .fetch_one(&mut *connection)
    .await?;
    if kept {
        plan.wake(connection).await?;
        houston_faults::fault!("C30")?;
    }
    Ok(())
}

/// A plan before a step.
pub(crate) struct PlanBefore {
    tenant_id: Uuid,
    user_id: Uuid,
    version: i32,
    listed_in: Option<Uuid>,
    depth: i32,
}

/// Reads the plan that a step changes. The caller holds its lock row.
///
/// # Errors
/// [`Error::PlanChanged`] when something else has changed the plan since the run read it: what the step says was decided
/// without that, and would undo it.
pub(crate) async fn read(
    connection: &mut PgConnection,
    plan: AgentableId,
    changes: &PlanChanges,
) -> Result<PlanBefore> {
    sqlx::query_as!(
        PlanBefore,
        "-- store::plan::write::before
        select p.tenant_id, p.user_id, p.version, p.listed_in, a.depth
          from houston.plans p join houston.agentables a on a.id = p.agentable_id
         where p.agentable_id = $1 and p.changes = $2
           -- A batch of a worker that has lost the lock may hold the row: the statement after this one waits for none.
           for no key update of p",
        plan.0,
        changes.seen
    )
    .fetch_optional(connection)
    .await?
    .ok_or(Error::PlanChanged)
}

/// Writes what follows from the step's changes in its plan, whose rows are written.
pub(crate) async fn write(
    connection: &mut PgConnection,
    fence: &Fence,
    step: &Step,
    (changes, before): (&PlanChanges, PlanBefore),
) -> Result<()> {
    let tenant = TenantId(before.tenant_id);
    if !changes.removed.is_empty() {
        sqlx::query!(
            "-- store::plan::write::forget
            delete from houston.plan_steps where plan_id = $1 and path = any ($2)",
            fence.agentable.0,
            &changes.removed
        )
        .execute(&mut *connection)
        .await?;
    }
    if let Some((document, reason)) = &changes.document {
        add_version(connection, fence.agentable, tenant, before.version + 1, document, reason).await?;
        houston_faults::fault!("C31")?;
    }
    for executor in changes.steps.iter().filter_map(|step| step.executor.as_ref()) {
        let owner = Owner {
            tenant,
            user: UserId(before.user_id),
            agentable: fence.agentable,
            run: step.run,
            untrusted: step.untrusted,
        };
        insert_task(connection, owner, executor, before.depth + 1).await?;
        houston_faults::fault!("C28")?;
    }
    if let Some(listed) = &changes.listed {
        let (to, list) = ((tenant, changes.parent), (changes.plan_id.clone(), listed));
        show(connection, fence.agentable, to, list, before.listed_in.map(RunId)).await?;
    }
    Ok(())
}

/// Keeps a document of a plan. `reason`: why it differs from the one before it.
pub(crate) async fn add_version(
    connection: &mut PgConnection,
    plan: AgentableId,
    tenant: TenantId,
    version: i32,
    document: &Value,
    reason: &str,
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
    .run(connection)
    .await
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
    let Listing { checklist, delta, changed } = listed;
    let event = match changed {
        Some((version, reason)) => {
            let (version, reason) = (*version, reason.clone());
            Event::PlanChanged { plan_id, version, reason, checklist: json!(**checklist) }
        }
        None if has_list && !delta.is_empty() => {
            Event::PlanProgress { plan_id, delta: delta.clone(), checklist: None }
        }
        None => Event::PlanProgress { plan_id, delta: Vec::new(), checklist: Some(json!(**checklist)) },
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
    .run(connection)
    .await
}
