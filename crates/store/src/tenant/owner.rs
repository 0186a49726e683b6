//! Whose a resource is: what a key that is bound to one user may reach.

use houston_domain::id::{AgentableId, RunId, UserId};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::TenantStore;

/// Whose a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceOwner {
    /// The user.
    pub user: UserId,
    /// The agentable, unless the resource belongs to the user alone.
    pub agentable: Option<AgentableId>,
}

impl TenantStore<'_> {
    /// The user of an agentable.
    pub async fn user_of_agentable(self, agentable: AgentableId) -> Result<UserId> {
        let user = sqlx::query_scalar!(
            "-- store::owner::of_agentable
            select user_id from houston.agentables where tenant_id = $1 and id = $2",
            self.tenant.0,
            agentable.0
        );
        user.fetch_optional(&self.pool).await?.map(UserId).ok_or(Error::NotFound { what: "agentable" })
    }

    /// Whose the row with this id is: a run, a message, a session, a question, a check-in, a trigger, a grant, a todo, a table, a
    /// record, an image, an attachment, or anything that an agentable or a user knows. A plan is that of the agentable which it
    /// works for; a run that will be open after another one, whose that is. Ids are unique over all tables.
    pub async fn owner_of_row(self, id: Uuid) -> Result<ResourceOwner> {
        let owner = sqlx::query!(
            r#"-- store::owner::of_row
            with found as (
                select agentable_id, null::uuid as user_id from houston.runs where tenant_id = $1 and id in ($2, $3)
                union all
                select agentable_id, null from houston.messages where tenant_id = $1 and id = $2
                union all
                select agentable_id, null from houston.sessions where tenant_id = $1 and id = $2
                union all
                select agentable_id, null from houston.questions where tenant_id = $1 and id = $2
                union all
                select agentable_id, null from houston.check_ins where tenant_id = $1 and id = $2
                union all
                select agentable_id, null from houston.triggers where tenant_id = $1 and id = $2
                union all
                select agentable_id, user_id from houston.knowledge_items where tenant_id = $1 and id = $2
                union all
                select parent_id, user_id from houston.plans where tenant_id = $1 and agentable_id = $2
                union all
                select agentable_id, user_id from houston.grants where tenant_id = $1 and id = $2
                union all
                select null, user_id from houston.todos where tenant_id = $1 and id = $2
                union all
                select null, user_id from houston.custom_tables where tenant_id = $1 and id = $2
                union all
                select null, user_id from houston.custom_records where tenant_id = $1 and id = $2
                union all
                select null, user_id from houston.images where tenant_id = $1 and id = $2
                union all
                select null, user_id from houston.attachments where tenant_id = $1 and id = $2
            )
            select coalesce(f.user_id, a.user_id) as "user_id!", f.agentable_id
              from found f left join houston.agentables a on a.tenant_id = $1 and a.id = f.agentable_id
             where coalesce(f.user_id, a.user_id) is not null
             limit 1"#,
            self.tenant.0,
            id,
            RunId(id).predecessor().0
        )
        .fetch_optional(&self.pool)
        .await?;
        let owner = owner.ok_or(Error::NotFound { what: "resource" })?;
        Ok(ResourceOwner { user: UserId(owner.user_id), agentable: owner.agentable_id.map(AgentableId) })
    }
}
