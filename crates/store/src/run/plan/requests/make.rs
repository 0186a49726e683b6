//! Plans that requests make, without any model.

use std::collections::BTreeMap;

use houston_domain::event::Event;
use houston_domain::id::{AgentableId, TenantId, UserId};
use houston_domain::plan::{Heading, SKIPPED_BY_HAND, States, checklist};
use houston_domain::run::RunStatus;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::read;
use crate::cancel::ARCHIVED;
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::idempotency::{Created, IdempotencyKey, earlier};
use crate::plan::{NewPlan, PlanOwner, insert_plan};
use crate::system_message::{LockedRow, lock};

/// Maximum number of plans of one agentable that have not ended.
pub const MAX_OPEN_PLANS: i64 = 10;

impl TenantStore<'_> {
    /// Makes a plan for an agentable of the tenant. No run waits for it. `response` is stored under the idempotency key. If it
    /// repeats the plan `again`, what that has done is not done again.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such agentable, [`Error::Archived`] when it is archived, [`Error::Full`] when
    /// [`MAX_OPEN_PLANS`] of its plans have not ended, [`Error::Database`] when Postgres cannot be reached or refuses a
    /// statement.
    pub async fn make_plan(
        self,
        (kind, parent): (&str, AgentableId),
        (plan, again): (&NewPlan<'_>, Option<AgentableId>),
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        if let Some(earlier) = earlier(&mut tx, self.tenant, key, plan.id.0, response).await? {
            return Ok(earlier);
        }
        let above = sqlx::query!(
            r#"-- store::plan::requests::make::parent
            select user_id, depth, status is not distinct from $4 as "archived!", untrusted from houston.agentables
             where tenant_id = $1 and kind = $2 and id = $3"#,
            self.tenant.0,
            kind,
            parent.0,
            ARCHIVED
        )
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Error::NotFound { what: "agentable" })?;
        if above.archived {
            return Err(Error::Archived);
        }
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
        let user = UserId(above.user_id);
        let owner = PlanOwner { tenant: self.tenant, user, parent, run: None, untrusted: above.untrusted };
        insert_plan(&mut tx, owner, plan, above.depth + 1).await?;
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
    .execute(connection)
    .await?;
    Ok(())
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
    .execute(connection)
    .await?;
    Ok(())
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
