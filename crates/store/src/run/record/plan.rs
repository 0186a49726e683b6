//! Plans that tool calls make, read and change.

use houston_domain::id::AgentableId;
use houston_domain::plan::States;
use serde_json::Value;

use super::{Owner, RecordTx};
use crate::error::Result;
use crate::plan::{
    NewPlan, PlanChange, PlanOwner, PlanRefusal, PlanStep, StoredPlan, change, find, insert_plan, plans_of,
    steps_of,
};
use crate::system_message::lock_at_once;

/// The errors of all methods: [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the
/// statement. None of them sees a plan of another agentable.
impl RecordTx<'_> {
    /// Makes a plan that works for the agentable of the run. `depth`: levels above the plan.
    pub async fn create_plan(&mut self, plan: &NewPlan<'_>, depth: i32) -> Result<()> {
        let Owner { tenant, user, agentable, run, untrusted } = self.owner;
        let owner = PlanOwner { tenant, user, parent: agentable, run: Some(run), untrusted };
        let traceparent = self.tx.traceparent.clone();
        let plan = NewPlan { traceparent: traceparent.as_deref(), ..plan.clone() };
        insert_plan(self.tx.connection(), owner, &plan, depth).await
    }

    /// The plans of the agentable, newest first.
    pub async fn plans(&mut self, limit: i64) -> Result<Vec<StoredPlan>> {
        let Owner { tenant, agentable, .. } = self.owner;
        plans_of(self.tx.connection(), tenant, agentable, (None, limit)).await
    }

    /// A plan of the agentable; `None`: it has none with this id.
    pub async fn plan(&mut self, id: AgentableId) -> Result<Option<StoredPlan>> {
        let Owner { tenant, agentable, .. } = self.owner;
        let found = find(self.tx.connection(), tenant, id).await?;
        Ok(found.filter(|plan| plan.parent.1 == agentable))
    }

    /// The steps of a plan that have begun or settled.
    pub async fn plan_steps(&mut self, id: AgentableId) -> Result<Vec<PlanStep>> {
        let tenant = self.owner.tenant;
        let steps = steps_of(self.tx.connection(), tenant, &[id]).await?;
        Ok(steps.into_iter().map(|(_, step)| step).collect())
    }

    /// Replaces the document of a plan that [`Self::plan`] has returned, as
    /// [`TenantStore::change_plan`](crate::TenantStore::change_plan) does. The caller's transaction holds the lock of the plan's
    /// agentable, which is taken after that of the plan elsewhere. So it does not wait for the plan: if that is locked, the error
    /// is transient, and the step is repeated.
    pub async fn change_plan<E>(
        &mut self,
        id: AgentableId,
        version: i32,
        rule: impl FnOnce(&Value, &States) -> std::result::Result<PlanChange, E>,
    ) -> Result<std::result::Result<(), PlanRefusal<E>>> {
        let tenant = self.owner.tenant;
        lock_at_once(self.tx.connection(), id).await?;
        change(self.tx.connection(), tenant, (id, version), rule).await
    }
}
