//! Plans as requests see them: reading them, and making new ones without any model; [`change`] is what people do to a plan that
//! has begun. What their runs read and write is in [`super`].

mod change;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::ensure;
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, QuestionId, TenantId, UserId};
use houston_domain::plan::{
    Document, Heading, MAX_STEPS, Offer, PlanVersion, SKIPPED_BY_HAND, State, States, checklist,
};
use houston_domain::run::RunStatus;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{NewPlan, PlanRow, insert_plan};
use crate::cancel::ARCHIVED;
use crate::creation::refused;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, IdempotencyKey, earlier};
use crate::row_security::with_connection;
use crate::statement::{Statement as _, uuids};
use crate::system_message::{LockedRow, lock};

pub(crate) use self::change::change;
pub use self::change::{PlanChange, PlanRefusal, StepsChange};

/// Maximum number of plans of one agentable that have not ended.
pub const MAX_OPEN_PLANS: i64 = 10;

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPlan {
    /// The plan's id.
    pub id: AgentableId,
    /// Its kind, as in `plan`.
    pub kind: String,
    /// The user whose plan it is.
    pub user: UserId,
    /// The agentable that it works for.
    pub parent: AgentableId,
    /// The kind of that agentable.
    pub parent_kind: String,
    /// The tools that its steps may call.
    pub tools: Vec<String>,
    /// Whether a run of that agentable waits for it.
    pub attached: bool,
    /// Number of the document that is in force.
    pub version: i32,
    /// That document.
    pub document: Value,
    /// What its expressions read as `input`.
    pub input: Value,
    /// How often it was changed because a step had failed.
    pub replans: i32,
    /// Calls of tools and models so far.
    pub calls: i32,
    /// Whether nothing new starts.
    pub paused: bool,
    /// When it has to have ended.
    pub deadline: DateTime<Utc>,
    /// The result, once it is completed.
    pub output: Option<Value>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Its run.
    pub run: Option<Uuid>,
    /// The status of that run.
    pub run_status: Option<String>,
    /// The run of the agentable that it works for whose stream has its list of steps.
    pub listed_in: Option<Uuid>,
}

impl StoredPlan {
    /// The document, read as what it was checked as.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] when it does not pass the checks any more.
    pub fn read(&self) -> Result<Document> {
        read(self.id, &self.document)
    }

    fn run_status(&self) -> Option<RunStatus> {
        self.run_status.as_deref().and_then(RunStatus::from_name)
    }

    /// What people read: the status of its run, or `paused`.
    pub fn status(&self) -> &'static str {
        match self.run_status().unwrap_or(RunStatus::Queued) {
            status if self.paused && self.ended_at.is_none() && !status.is_terminal() => "paused",
            status => status.as_str(),
        }
    }
}

/// Reads a document of a plan. It was checked before it was stored, with the tools that were offered then.
pub(crate) fn read(id: AgentableId, document: &Value) -> Result<Document> {
    let tools = named_tools(document);
    let offer = Offer { tools: &tools, steps: MAX_STEPS };
    Document::parse(&document.to_string(), offer).map_err(|problems| {
        let problem = problems.first().map_or_else(String::new, ToString::to_string);
        let source = <serde_json::Error as serde::de::Error>::custom(problem);
        Error::Inconsistent { table: "plans", column: "document", row: id.0.to_string(), source }
    })
}

/// The tools that a document names.
fn named_tools(document: &Value) -> Vec<&str> {
    match document {
        Value::Array(items) => items.iter().flat_map(named_tools).collect(),
        Value::Object(fields) => {
            let own = fields.get("tool").and_then(Value::as_str);
            let listed = fields.get("tools").and_then(Value::as_array).into_iter().flatten();
            let inner = fields.values().flat_map(named_tools);
            own.into_iter().chain(listed.filter_map(Value::as_str)).chain(inner).collect()
        }
        _ => Vec::new(),
    }
}

/// A step of a plan that has begun or settled.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanStep {
    /// Its path.
    pub path: String,
    /// Its state.
    pub state: State,
    /// Kind and id of the executor that works on it, or has.
    pub task: Option<(String, AgentableId)>,
    /// The question that it asks, or has asked.
    pub question: Option<QuestionId>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it settled.
    pub ended_at: Option<DateTime<Utc>>,
}

/// Reads plans `p`, between the name of the query and the conditions.
macro_rules! query_plans {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            StoredPlan,
            $before + r#"
            select p.agentable_id as id, a.kind, p.user_id as user, p.parent_id as parent, o.kind as parent_kind,
                   coalesce(a.tools, '{}') as "tools!", p.attached, p.version, p.document, p.input, p.replans, p.calls, p.paused,
                   p.deadline_at as deadline, p.output, p.created_at, p.ended_at, l.run_id as run, r.status as "run_status?",
                   p.listed_in
              from houston.plans p
              join houston.agentables a on a.id = p.agentable_id
              join houston.agentables o on o.id = p.parent_id
              join houston.run_locks l on l.agentable_id = p.agentable_id
              left join houston.runs r on r.id = l.run_id
             "# + $after
            $(, $parameter)*
        )
    };
}

pub(crate) const NOT_FOUND: Error = Error::NotFound { what: "plan" };

impl TenantStore<'_> {
    /// A plan of the tenant.
    pub async fn plan(self, id: AgentableId) -> Result<StoredPlan> {
        let found = with_connection!(self.pool, |connection| find(connection, self.tenant, id));
        found.ok_or(NOT_FOUND)
    }

    /// The plans of an agentable of the tenant, newest first, older than `before` if given.
    pub async fn plans_of(
        self,
        parent: AgentableId,
        before: Option<AgentableId>,
        limit: i64,
    ) -> Result<Vec<StoredPlan>> {
        let (tenant, pool) = (self.tenant, self.pool);
        Ok(with_connection!(pool, |connection| plans_of(connection, tenant, parent, (before, limit))))
    }

    /// The steps of plans that have begun or settled, by plan.
    pub async fn plan_steps(self, plans: &[AgentableId]) -> Result<Vec<(AgentableId, PlanStep)>> {
        Ok(with_connection!(self.pool, |connection| steps_of(connection, self.tenant, plans)))
    }

    /// The documents of a plan, newest first, older than version `before` if given.
    pub async fn plan_versions(
        self,
        plan: AgentableId,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<PlanVersion>> {
        let rows = sqlx::query_as!(
            PlanVersion,
            "-- store::plan::requests::versions
            select version, document, reason, created_at from houston.plan_versions
             where tenant_id = $1 and plan_id = $2 and ($3::bigint is null or version < $3)
             order by version desc limit $4",
            self.tenant.0,
            plan.0,
            before,
            limit
        );
        Ok(rows.fetch_all(&self.pool).await?)
    }
}

/// A plan of the tenant; `None`: there is none with this id.
pub(crate) async fn find(
    connection: &mut PgConnection,
    tenant: TenantId,
    id: AgentableId,
) -> Result<Option<StoredPlan>> {
    let plan = query_plans!(
        "-- store::plan::requests::get",
        "where p.tenant_id = $1 and p.agentable_id = $2",
        tenant.0,
        id.0
    );
    Ok(plan.fetch_optional(connection).await?)
}

/// The plans of an agentable, newest first, older than `before` if given.
pub(crate) async fn plans_of(
    connection: &mut PgConnection,
    tenant: TenantId,
    parent: AgentableId,
    (before, limit): (Option<AgentableId>, i64),
) -> Result<Vec<StoredPlan>> {
    let plans = query_plans!(
        "-- store::plan::requests::list",
        "where p.tenant_id = $1 and p.parent_id = $2 and ($3::uuid is null or p.agentable_id < $3)
         order by p.agentable_id desc limit $4",
        tenant.0,
        parent.0,
        before.map(|before| before.0),
        limit
    );
    Ok(plans.fetch_all(connection).await?)
}

/// The steps of plans that have begun or settled, by plan.
pub(crate) async fn steps_of(
    connection: &mut PgConnection,
    tenant: TenantId,
    plans: &[AgentableId],
) -> Result<Vec<(AgentableId, PlanStep)>> {
    let steps = sqlx::query!(
        r#"-- store::plan::requests::steps
        select s.plan_id, s.path, s.state as "state: Json<State>", s.task_id, t.kind as "task_kind?", s.question_id,
               s.started_at, s.ended_at
          from houston.plan_steps s left join houston.agentables t on t.id = s.task_id
         where s.tenant_id = $1 and s.plan_id = any ($2) order by s.plan_id, s.path"#,
        tenant.0,
        &uuids(plans)
    )
    .map(|row| {
        let step = PlanStep {
            path: row.path,
            state: row.state.0,
            task: row.task_kind.zip(row.task_id).map(|(kind, id)| (kind, AgentableId(id))),
            question: row.question_id.map(QuestionId),
            started_at: row.started_at,
            ended_at: row.ended_at,
        };
        (AgentableId(row.plan_id), step)
    });
    Ok(steps.fetch_all(connection).await?)
}

/// The states of steps, by their paths.
pub fn states<'s>(steps: impl IntoIterator<Item = &'s PlanStep>) -> States {
    steps.into_iter().map(|step| (step.path.clone(), step.state.clone())).collect()
}

impl TenantStore<'_> {
    /// Makes a plan for an agentable of the tenant. No run waits for it. `response` is stored under the idempotency key. If it
    /// repeats the plan `again`, what that has done is not done again.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, [`Error::Archived`] when it is archived,
    /// [`Error::Full`] when [`MAX_OPEN_PLANS`] of its plans have not ended.
    pub async fn make_plan(
        self,
        (kind, parent): (&str, AgentableId),
        (plan, again): (&NewPlan<'_>, Option<AgentableId>),
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        if key.is_none() && again.is_none() && !self.is_unbatched {
            let row = PlanRow { parent_kind: Some(kind), ..PlanRow::new(self.tenant, parent, plan) };
            if self.batchers.plans.submit(row.batched()?).await.is_some() {
                return Ok(Created::New(response.clone()));
            }
        }
        let mut tx = self.pool.begin().await?;
        if let Some(earlier) = earlier(&mut tx, self.tenant, key, plan.id.0, response).await? {
            return Ok(earlier);
        }
        let above = sqlx::query!(
            r#"-- store::plan::requests::make::parent
            select status is not distinct from $4 as "archived!", untrusted,
                   exists (select from houston.plans p where p.tenant_id = $1 and p.agentable_id = $5) as "made!"
              from houston.agentables
             where tenant_id = $1 and kind = $2 and id = $3"#,
            self.tenant.0,
            kind,
            parent.0,
            ARCHIVED,
            plan.id.0
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        if above.made && key.is_none() {
            // By a batch whose outcome was unknown.
            return Ok(Created::New(response.clone()));
        }
        ensure!(!above.archived, Error::Archived);
        let row = lock(&mut tx, parent).await?.ok_or(Error::NotFound { what: "agentable" })?;
        // Under the lock, so that two requests do not both find room.
        let open = sqlx::query_scalar!(
            r#"-- store::plan::requests::make::open
            select count(*) as "open!" from houston.plans
             where tenant_id = $1 and parent_id = $2 and ended_at is null"#,
            self.tenant.0,
            parent.0
        )
        .fetch_one(&mut *tx)
        .await?;
        if open >= MAX_OPEN_PLANS {
            return Err(Error::Full {
                what: "plans of an agentable that have not ended",
                limit: MAX_OPEN_PLANS,
            });
        }
        let plan_row =
            PlanRow { untrusted: Some(above.untrusted), ..PlanRow::new(self.tenant, parent, plan) };
        if let Err(error) = insert_plan(&mut tx, plan_row).await {
            return refused(error).map(|()| Created::New(response.clone()));
        }
        if let Some(again) = again {
            copy_done(&mut tx, self.tenant, again, plan.id).await?;
        }
        announce(&mut tx, &row, self.tenant, plan).await?;
        tx.commit().await?;
        Ok(Created::New(response.clone()))
    }
}

/// Gives the plan `to` the steps that `from` has done, and those that a person has skipped.
async fn copy_done(
    connection: &mut PgConnection,
    tenant: TenantId,
    from: AgentableId,
    to: AgentableId,
) -> Result<()> {
    sqlx::query!(
        "-- store::plan::requests::make::copy_done
        insert into houston.plan_steps (plan_id, tenant_id, path, state, started_at, ended_at)
        select $3, s.tenant_id, s.path, s.state, s.started_at, s.ended_at from houston.plan_steps s
         where s.tenant_id = $1 and s.plan_id = $2
           and (s.status = 'succeeded' or s.status = 'skipped' and s.state #>> '{error,code}' = $4)",
        tenant.0,
        from.0,
        to.0,
        SKIPPED_BY_HAND
    )
    .run(connection)
    .await
}

/// Adds the list of steps to the stream of the agentable that the plan works for, while a run of it is open.
pub(crate) async fn announce(
    connection: &mut PgConnection,
    row: &LockedRow,
    tenant: TenantId,
    plan: &NewPlan<'_>,
) -> Result<()> {
    let Some(run) = row.run_id.filter(|_| row.run_open) else { return Ok(()) };
    row.add_event(connection, &created(plan)?).await?;
    sqlx::query!(
        "-- store::plan::requests::make::listed
        update houston.plans set listed_in = $3 where tenant_id = $1 and agentable_id = $2",
        tenant.0,
        plan.id.0,
        run
    )
    .run(connection)
    .await
}

fn created(plan: &NewPlan<'_>) -> Result<Event> {
    let plan_id = plan.id.public_id(plan.kind);
    let document = read(plan.id, plan.document)?;
    let questions = BTreeMap::new();
    let heading = Heading {
        plan_id: Some(&plan_id),
        version: 1,
        status: RunStatus::Queued.as_str(),
        questions: &questions,
    };
    let checklist = json!(checklist(&document, &States::new(), heading));
    Ok(Event::PlanCreated { plan_id, goal: document.goal, checklist })
}
