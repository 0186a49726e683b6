//! What people do to a plan that has begun: pausing it, changing its document, repeating or skipping a step. The plan's run
//! reads it when it goes on, and is woken for that.

use std::collections::BTreeMap;

use houston_domain::id::{AgentableId, RunId, TenantId};
use houston_domain::plan::{Document, Heading, Listing, State, States, checklist};
use houston_domain::question::QuestionState;
use houston_domain::run::RunStatus;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{NOT_FOUND, PlanStep, StoredPlan, find, read, states, steps_of};
use crate::error::Result;
use crate::handle::TenantStore;
use crate::plan::{add_version, show};
use crate::question::{close, report};
use crate::statement::Statement as _;
use crate::system_message::{LockedRow, lock};

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanRefusal<E> {
    /// The plan has ended.
    Ended(RunStatus),
    /// The document has another version by now.
    Stale(i32),
    /// The rule refuses it.
    Refused(E),
}

/// A document that replaces that of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanChange {
    /// The document.
    pub document: Value,
    /// The states of its steps.
    pub states: States,
    /// Why, for people.
    pub reason: String,
}

/// Other states for steps of a plan: those that it contains. A step that is no longer asked about has its question closed.
pub type StepsChange = BTreeMap<String, State>;

/// A plan under its lock.
struct Locked {
    row: LockedRow,
    plan: StoredPlan,
    steps: Vec<PlanStep>,
}

impl TenantStore<'_> {
    /// Lets nothing new of a plan start, or lets it go on. What runs is not interrupted.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) when the tenant has no such plan,
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses a statement. Within: it has ended.
    pub async fn pause_plan(
        self,
        id: AgentableId,
        paused: bool,
    ) -> Result<std::result::Result<(), PlanRefusal<()>>> {
        let mut tx = self.pool.begin().await?;
        let Locked { row, plan, .. } = match lock_plan(&mut tx, self.tenant, id).await? {
            Ok(locked) => locked,
            Err(ended) => return Ok(Err(PlanRefusal::Ended(ended))),
        };
        if plan.paused == paused {
            return Ok(Ok(()));
        }
        sqlx::query!(
            "-- store::plan::requests::change::pause
            update houston.plans set paused = $3, changes = changes + 1 where tenant_id = $1 and agentable_id = $2",
            self.tenant.0,
            id.0,
            paused
        )
        .execute(&mut *tx)
        .await?;
        row.wake(&mut tx).await?;
        tx.commit().await?;
        Ok(Ok(()))
    }

    /// Replaces the document of a plan whose version is `version` by what `rule` makes of document and states.
    ///
    /// # Errors
    /// As [`Self::pause_plan`]. Within: it has ended, has another version, or the rule refuses.
    pub async fn change_plan<E>(
        self,
        id: AgentableId,
        version: i32,
        rule: impl FnOnce(&Value, &States) -> std::result::Result<PlanChange, E>,
    ) -> Result<std::result::Result<(), PlanRefusal<E>>> {
        let mut tx = self.pool.begin().await?;
        let changed = change(&mut tx, self.tenant, (id, version), rule).await?;
        if changed.is_ok() {
            tx.commit().await?;
        }
        Ok(changed)
    }

    /// Gives steps of a plan the states that `rule` returns. Other steps stay as they are.
    ///
    /// # Errors
    /// As [`Self::pause_plan`]. Within: it has ended, or the rule refuses.
    pub async fn change_plan_steps<E>(
        self,
        id: AgentableId,
        rule: impl FnOnce(&Document, &States) -> std::result::Result<StepsChange, E>,
    ) -> Result<std::result::Result<(), PlanRefusal<E>>> {
        let mut tx = self.pool.begin().await?;
        let Locked { row, plan, steps } = match lock_plan(&mut tx, self.tenant, id).await? {
            Ok(locked) => locked,
            Err(ended) => return Ok(Err(PlanRefusal::Ended(ended))),
        };
        let changed = match rule(&plan.read()?, &states(&steps)) {
            Ok(changed) => changed,
            Err(refused) => return Ok(Err(PlanRefusal::Refused(refused))),
        };
        write_states(&mut tx, self.tenant, id, changed.iter()).await?;
        sqlx::query!(
            "-- store::plan::requests::change::count
            update houston.plans set changes = changes + 1 where tenant_id = $1 and agentable_id = $2",
            self.tenant.0,
            id.0
        )
        .execute(&mut *tx)
        .await?;
        row.wake(&mut tx).await?;
        let asked = steps.iter().filter(|step| changed.contains_key(&step.path));
        let questions: Vec<Uuid> = asked.filter_map(|step| step.question).map(|id| id.0).collect();
        let closed = close(&mut tx, &questions, QuestionState::Cancelled, None, None).await?;
        report(&mut tx, &closed, self.fairness).await?;
        tx.commit().await?;
        Ok(Ok(()))
    }
}

/// Replaces the document of a plan whose version is `version` by what `rule` makes of document and states, in the caller's
/// transaction: nothing is written if it is refused. The caller holds no lock, or that of the plan.
pub(crate) async fn change<E>(
    tx: &mut PgConnection,
    tenant: TenantId,
    (id, version): (AgentableId, i32),
    rule: impl FnOnce(&Value, &States) -> std::result::Result<PlanChange, E>,
) -> Result<std::result::Result<(), PlanRefusal<E>>> {
    let locked = match lock_plan(tx, tenant, id).await? {
        Ok(locked) => locked,
        Err(ended) => return Ok(Err(PlanRefusal::Ended(ended))),
    };
    let Locked { row, plan, steps } = &locked;
    if plan.version != version {
        return Ok(Err(PlanRefusal::Stale(plan.version)));
    }
    let before = states(steps);
    let change = match rule(&plan.document, &before) {
        Ok(change) => change,
        Err(refused) => return Ok(Err(PlanRefusal::Refused(refused))),
    };
    let gone: Vec<&str> =
        before.keys().filter(|path| !change.states.contains_key(*path)).map(String::as_str).collect();
    sqlx::query!(
        "-- store::plan::requests::change::document
        with steps as (
            delete from houston.plan_steps where tenant_id = $1 and plan_id = $2 and path = any ($5))
        update houston.plans set document = $3, version = $4, changes = changes + 1
         where tenant_id = $1 and agentable_id = $2",
        tenant.0,
        id.0,
        change.document,
        version + 1,
        &gone as &[&str]
    )
    .execute(&mut *tx)
    .await?;
    add_version(tx, id, tenant, version + 1, &change.document, &change.reason).await?;
    let changed = change.states.iter().filter(|(path, state)| before.get(*path) != Some(*state));
    write_states(tx, tenant, id, changed).await?;
    show_change(tx, tenant, &locked, &change).await?;
    row.wake(tx).await?;
    Ok(Ok(()))
}

/// Takes the lock row of a plan, and reads the plan under it. Within: it has ended.
async fn lock_plan(
    tx: &mut PgConnection,
    tenant: TenantId,
    id: AgentableId,
) -> Result<std::result::Result<Locked, RunStatus>> {
    // Whether it is the tenant's own; that never changes.
    find(&mut *tx, tenant, id).await?.ok_or(NOT_FOUND)?;
    let row = lock(&mut *tx, id).await?.ok_or(NOT_FOUND)?;
    let plan = find(&mut *tx, tenant, id).await?.ok_or(NOT_FOUND)?;
    if !row.run_open || plan.ended_at.is_some() {
        return Ok(Err(plan.run_status().unwrap_or(RunStatus::Completed)));
    }
    let steps = steps_of(tx, tenant, &[id]).await?.into_iter().map(|(_, step)| step).collect();
    Ok(Ok(Locked { row, plan, steps }))
}

async fn write_states<'s>(
    tx: &mut PgConnection,
    tenant: TenantId,
    id: AgentableId,
    changed: impl Iterator<Item = (&'s String, &'s State)>,
) -> Result<()> {
    let rows: Vec<Value> = changed
        .map(|(path, state)| json!({"path": path, "state": state, "settled": state.status.is_settled()}))
        .collect();
    sqlx::query!(
        "-- store::plan::requests::change::states
        insert into houston.plan_steps as s (plan_id, tenant_id, path, state, ended_at)
        select $2, $1, c.path, c.state, case when c.settled then statement_timestamp() end
          from jsonb_to_recordset($3) as c (path text, state jsonb, settled boolean)
        on conflict (plan_id, path) do update
           set state = excluded.state, ended_at = excluded.ended_at,
               outcome = case when excluded.state ->> 'status' = 'running' then s.outcome end",
        tenant.0,
        id.0,
        Value::Array(rows)
    )
    .run(tx)
    .await
}

/// Adds the list to the stream of the agentable that the plan works for.
async fn show_change(
    tx: &mut PgConnection,
    tenant: TenantId,
    Locked { plan, steps, .. }: &Locked,
    change: &PlanChange,
) -> Result<()> {
    let plan_id = plan.id.public_id(&plan.kind);
    let version = plan.version + 1;
    let asking = steps.iter().filter_map(|step| Some((step.path.clone(), step.question?.to_string())));
    let questions: BTreeMap<String, String> = asking.collect();
    let heading = Heading {
        plan_id: Some(&plan_id),
        version: u32::try_from(version).unwrap_or_default(),
        status: plan.status(),
        questions: &questions,
    };
    let checklist = checklist(&read(plan.id, &change.document)?, &change.states, heading);
    let listed = Listing {
        checklist: checklist.into(),
        delta: Vec::new(),
        changed: Some((version, change.reason.clone())),
    };
    show(tx, plan.id, (tenant, plan.parent), (plan_id, &listed), plan.listed_in.map(RunId)).await
}
