//! Plans: agentables whose runs are driven by a graph of steps. Made in the transaction of what asked for them, read by their
//! own run, changed with its steps.
//!
//! Whatever writes a plan or its steps holds the lock row of the plan's agentable, and takes that row first. Then comes the
//! row of the agentable that the plan works for.

mod outcome;
mod requests;
mod write;

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, MessageId, QuestionId, RunId, TenantId, UserId};
use houston_domain::plan::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::Result;
use crate::handle::RunStore;

pub(crate) use self::outcome::keep_outcome;
pub(crate) use self::requests::announce;
pub use self::requests::{
    MAX_OPEN_PLANS, PlanChange, PlanRefusal, PlanStep, PlanVersion, StepsChange, StoredPlan, states,
};
pub(crate) use self::requests::{change, find, plans_of, steps_of};
pub(crate) use self::write::write;

/// A plan to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlan<'a> {
    /// The plan's id.
    pub id: AgentableId,
    /// The id of its run.
    pub run: RunId,
    /// The id of its first message.
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
    /// leaves it to [`FencedTx::set_traceparent`](crate::record::FencedTx::set_traceparent).
    pub traceparent: Option<&'a str>,
}

/// Whom a plan is made for.
#[derive(Debug, Clone, Copy)]
pub struct PlanOwner {
    /// The tenant.
    pub tenant: TenantId,
    /// The user.
    pub user: UserId,
    /// The agentable that it works for.
    pub parent: AgentableId,
    /// The run that makes it; `None`: a request.
    pub run: Option<RunId>,
    /// Whether what it says may come from strangers.
    pub untrusted: bool,
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
    pub steps: Vec<StoredStep>,
}

/// A plan step that has begun or settled.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredStep {
    /// Its path.
    pub path: String,
    /// Its state.
    pub state: State,
    /// The executor that works on it.
    pub task: Option<AgentableId>,
    /// What that executor has returned, if the plan's run does not know it yet.
    pub outcome: Option<ExecutorOutcome>,
    /// The question that it asks.
    pub question: Option<QuestionId>,
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

/// Makes a plan: an agentable with an open run. The caller holds the lock row of the agentable that it works for. `depth`:
/// levels above the plan.
pub(crate) async fn insert_plan(
    connection: &mut PgConnection,
    owner: PlanOwner,
    plan: &NewPlan<'_>,
    depth: i32,
) -> Result<()> {
    sqlx::query!(
        "-- store::plan::insert
        with t as (select clock_timestamp() as at),
        above as (
            update houston.runs set tasks_started = tasks_started + 1 where id = $5
            returning coalesce(mode, origin_type) as origin, traceparent),
        counted as (update houston.run_locks set open_tasks = open_tasks + 1 where agentable_id = $4),
        plan as (
            insert into houston.agentables (id, tenant_id, user_id, parent_id, depth, kind, title, status, tools, untrusted)
            values ($1, $2, $3, $4, $6, $7, $8, $9, $10, $11)),
        lock as (
            insert into houston.run_locks (agentable_id, tenant_id, user_id, last_seq, wake, unread, run_id, run_open)
            values ($1, $2, $3, 2, true, 1, $12, true)),
        run as (
            insert into houston.runs (id, tenant_id, agentable_id, first_seq, origin_type, created_at, traceparent)
            select $12, $2, $1, 1, (select origin from above), t.at, coalesce($15, (select traceparent from above)) from t)
        insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata, run_id,
                                      created_at)
        select $13, $2, $1, 2, 'system', 'text', $8, $14, $12, t.at from t",
        plan.id.0,
        owner.tenant.0,
        owner.user.0,
        owner.parent.0,
        owner.run.map(|run| run.0),
        depth,
        plan.kind,
        plan.title,
        plan.status,
        plan.tools,
        owner.untrusted,
        plan.run.0,
        plan.message.0,
        json!({"type": "task_started"}),
        plan.traceparent
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "-- store::plan::insert_document
        with version as (
            insert into houston.plan_versions (plan_id, tenant_id, version, document, reason)
            select $1, $2, 1, $6, '')
        insert into houston.plans (agentable_id, tenant_id, user_id, parent_id, parent_run_id, document, input, attached,
                                   deadline_at, listed_in)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $5)",
        plan.id.0,
        owner.tenant.0,
        owner.user.0,
        owner.parent.0,
        owner.run.map(|run| run.0),
        plan.document,
        plan.input,
        plan.attached,
        plan.deadline
    )
    .execute(connection)
    .await?;
    Ok(houston_faults::fault!("C27")?)
}

impl RunStore {
    /// A plan with its steps; `None`: the agentable is none.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn driven_plan(&self, agentable: AgentableId) -> Result<Option<DrivenPlan>> {
        let row = sqlx::query!(
            r#"-- store::plan::driven
            select p.parent_id, p.attached, p.version, p.document, p.input, p.replans, p.calls, p.paused, p.deadline_at,
                   p.changes, p.created_at,
                   (select json_agg(json_build_object('path', s.path, 'state', s.state, 'working', s.task_id,
                                                      'outcome', s.outcome, 'question', s.question_id) order by s.path)
                      from houston.plan_steps s where s.plan_id = p.agentable_id) as "steps: Json<Vec<StepRow>>"
              from houston.plans p where p.agentable_id = $1"#,
            agentable.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|row| DrivenPlan {
            parent: AgentableId(row.parent_id),
            attached: row.attached,
            version: row.version,
            document: row.document,
            input: row.input,
            replans: row.replans,
            calls: row.calls,
            paused: row.paused,
            created_at: row.created_at,
            deadline: row.deadline_at,
            changes: row.changes,
            steps: row
                .steps
                .map_or_else(Vec::new, |steps| steps.0.into_iter().map(StepRow::into_step).collect()),
        }))
    }

    /// Requests the end of the runs of executors, and of what they started. Their locks are taken here, so the caller holds
    /// none.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn cancel_executors(&self, tenant: TenantId, executors: &[AgentableId]) -> Result<()> {
        for executor in executors {
            self.cancel_below(tenant, *executor).await?;
        }
        Ok(())
    }

    /// How often something other than its run has changed a plan; the end of an executor counts.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn plan_changes(&self, agentable: AgentableId) -> Result<i64> {
        let changes = sqlx::query_scalar!(
            "-- store::plan::changes
            select changes from houston.plans where agentable_id = $1",
            agentable.0
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(changes.unwrap_or_default())
    }

    /// Those of `executors` whose run is open although no worker drives it: they wait for a person, or for a worker.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn idle_executors(&self, executors: &[AgentableId]) -> Result<Vec<AgentableId>> {
        let ids: Vec<Uuid> = executors.iter().map(|executor| executor.0).collect();
        let idle = sqlx::query_scalar!(
            "-- store::plan::idle_executors
            select l.agentable_id from houston.run_locks l
             where l.agentable_id = any ($1) and l.run_open
               and not exists (select from houston.workers w
                                where w.id = l.holder and w.alive_until > clock_timestamp())",
            &ids
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(idle.into_iter().map(AgentableId).collect())
    }

    /// Whether a run waits for plans that it has made.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn has_attached_plans(&self, run: RunId) -> Result<bool> {
        let has = sqlx::query_scalar!(
            r#"-- store::plan::has_attached
            select exists (select from houston.plans where parent_run_id = $1 and attached and ended_at is null) as "has!""#,
            run.0
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(has)
    }
}

/// A step in JSON.
#[derive(Debug, Deserialize)]
struct StepRow {
    path: String,
    state: State,
    working: Option<Uuid>,
    outcome: Option<ExecutorOutcome>,
    question: Option<Uuid>,
}

impl StepRow {
    fn into_step(self) -> StoredStep {
        let Self { path, state, working, outcome, question } = self;
        StoredStep {
            path,
            state,
            task: working.map(AgentableId),
            outcome,
            question: question.map(QuestionId),
        }
    }
}
