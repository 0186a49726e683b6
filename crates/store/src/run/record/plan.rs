//! Plans that a tool call makes.

use super::{Owner, RecordTx};
use crate::error::Result;
use crate::plan::{NewPlan, PlanOwner, insert_plan};

impl RecordTx<'_> {
    /// Makes a plan that works for the agentable of the run. `depth`: levels above the plan.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres refuses the statement.
    pub async fn create_plan(&mut self, plan: &NewPlan<'_>, depth: i32) -> Result<()> {
        let Owner { tenant, user, agentable, run, untrusted } = self.owner;
        let owner = PlanOwner { tenant, user, parent: agentable, run: Some(run), untrusted };
        insert_plan(self.tx.connection(), owner, plan, depth).await
    }
}
