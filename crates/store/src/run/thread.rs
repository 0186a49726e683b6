//! What a tenant does with threads and tasks: posting, reading, cancelling, archiving.

use houston_domain::id::{AgentableId, MessageId};

use crate::agentable::Agentable;
use crate::cancel::CancelledRun;
use crate::error::Result;
use crate::handle::TenantStore;
use crate::idempotency::{Created, IdempotencyKey};
use crate::message::{NewPost, Posted, ThreadMessage};
use crate::task_result::TaskResult;

impl TenantStore<'_> {
    /// Stores a user's message, its event and, if none is open, its run: one transaction, one round trip. If the
    /// message cancels the open run (`interrupt`, `rollback`), all workers are notified, and the next run opens
    /// when that one has ended.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) when the tenant has no such agentable of this kind,
    /// [`Error::RunInProgress`](crate::Error::RunInProgress) when `double_texting` is `reject` and a run is open,
    /// [`Error::TooManyPending`](crate::Error::TooManyPending) when the user has too many unread messages,
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement. A
    /// repeated request that was accepted before gets its first answer even then.
    pub async fn post_message(
        self,
        agentable: AgentableId,
        post: &NewPost<'_>,
        key: Option<IdempotencyKey<'_>>,
    ) -> Result<Created<Posted>> {
        self.shared.post_message(self.tenant, agentable, post, key).await
    }

    /// Reads a message of the tenant.
    pub async fn message(self, id: MessageId) -> Result<ThreadMessage> {
        self.shared.message(self.tenant, id).await
    }

    /// Messages of an agentable of the tenant, newest first, with a position below `before` if given, at most
    /// `limit`.
    pub async fn messages(
        self,
        agentable: AgentableId,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<ThreadMessage>> {
        self.shared.messages(self.tenant, agentable, before, limit).await
    }

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
