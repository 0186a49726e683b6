//! What a client of another protocol calls the thread of an agentable.

use houston_domain::id::AgentableId;

use crate::error::Result;
use crate::handle::TenantStore;

impl TenantStore<'_> {
    /// The first name that a client has given the thread of an agentable, if one has.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database) when Postgres cannot be reached or refuses the statement.
    pub async fn client_name_of_thread(self, agentable: AgentableId) -> Result<Option<String>> {
        let name = sqlx::query_scalar!(
            "-- store::thread_name::of_agentable
            select thread from houston.client_threads where tenant_id = $1 and agentable_id = $2 order by created_at limit 1",
            self.tenant.0,
            agentable.0
        );
        Ok(name.fetch_optional(&self.pool).await?)
    }
}
