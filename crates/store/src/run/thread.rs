//! What a tenant does with threads and tasks: cancelling, archiving.

use houston_domain::id::AgentableId;

use crate::agentable::Agentable;
use crate::cancel::CancelledRun;
use crate::error::Result;
use crate::handle::TenantStore;
use crate::task_result::TaskResult;

impl TenantStore<'_> {
    /// Requests the cancellation of the open run of an agentable of the tenant, and of those of all its tasks;
    /// their workers are notified at once. With `archive` the agentable is also archived and its check-ins are
    /// deleted. Idempotent. Returns the runs that were open.
    pub async fn cancel_agentable(
        self,
        kind: &str,
        id: AgentableId,
        archive: bool,
    ) -> Result<Vec<CancelledRun>> {
        self.shared.cancel_agentable(self.tenant, kind, id, archive).await
    }

    /// Stores a status of an agentable of the tenant; `None`: it follows from its run. An archived agentable leaves the
    /// archive. [`Self::cancel_agentable`] archives one.
    pub async fn store_status(self, kind: &str, id: AgentableId, status: Option<&str>) -> Result<()> {
        self.shared.store_status(self.tenant, kind, id, status).await
    }

    /// Takes an agentable of the tenant out of the archive.
    pub async fn unarchive(self, kind: &str, id: AgentableId) -> Result<()> {
        self.shared.unarchive(self.tenant, kind, id).await
    }

    /// Tasks of an agentable of the tenant, newest first, older than `before` if given, at most `limit`.
    pub async fn tasks(
        self,
        parent: AgentableId,
        before: Option<AgentableId>,
        limit: i64,
    ) -> Result<Vec<Agentable>> {
        self.shared.tasks(self.tenant, parent, before, limit).await
    }

    /// The results of these tasks of the tenant. Tasks with an open run have none and are left out.
    pub async fn task_results(self, tasks: &[AgentableId]) -> Result<Vec<TaskResult>> {
        self.shared.task_results(self.tenant, tasks).await
    }
}
