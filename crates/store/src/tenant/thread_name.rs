//! Threads as clients of other protocols list them: what a client calls the thread of an agentable, and the runs of a user.

use houston_domain::id::{AgentableId, RunId, UserId};
use uuid::Uuid;

use crate::error::Result;
use crate::handle::TenantStore;

impl TenantStore<'_> {
    /// The first name that a client has given the thread of an agentable, if one has.
    pub async fn client_name_of_thread(self, agentable: AgentableId) -> Result<Option<String>> {
        let name = sqlx::query_scalar!(
            "-- store::thread_name::of_agentable
            select thread from houston.client_threads where tenant_id = $1 and agentable_id = $2 order by created_at limit 1",
            self.tenant.0,
            agentable.0
        );
        Ok(name.fetch_optional(&self.pool).await?)
    }

    /// The runs of a user over all agentables of a kind, or of all kinds, newest first; older than `before`, if it is given.
    pub async fn runs_of_user(
        self,
        user: UserId,
        kind: Option<&str>,
        before: Option<RunId>,
        limit: i64,
    ) -> Result<Vec<RunId>> {
        let ids = sqlx::query_scalar!(
            r#"-- store::thread_name::runs_of_user
            select r.id as "id!"
              from houston.agentables a
              cross join lateral (
                    select id from houston.runs
                     where tenant_id = $1 and agentable_id = a.id and id < $4
                     order by first_seq desc limit $5) r
             where a.tenant_id = $1 and a.user_id = $2 and ($3::text is null or a.kind = $3)
             order by r.id desc limit $5"#,
            self.tenant.0,
            user.0,
            kind,
            before.map_or(Uuid::max(), |id| id.0),
            limit
        );
        Ok(ids.fetch_all(&self.pool).await?.into_iter().map(RunId).collect())
    }
}
