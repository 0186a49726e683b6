//! Guards of tenants, users, agents and agentables: stored here, read by runs with their context.

use houston_domain::guard::{GuardSettings, LayerKind};
use houston_domain::id::{AgentId, AgentableId, TenantId, UserId};
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::TenantStore;

/// Whose guards they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardOwner {
    /// The tenant's.
    Tenant,
    /// A user's.
    User(UserId),
    /// An agent's.
    Agent(AgentId),
    /// An agentable's, and its tasks'.
    Agentable(AgentableId),
}

impl GuardOwner {
    /// Their layer.
    pub fn layer(self) -> LayerKind {
        match self {
            Self::Tenant => LayerKind::Tenant,
            Self::User(_) => LayerKind::User,
            Self::Agent(_) => LayerKind::Agent,
            Self::Agentable(_) => LayerKind::Agentable,
        }
    }

    fn id(self, tenant: TenantId) -> Uuid {
        match self {
            Self::Tenant => tenant.0,
            Self::User(UserId(id)) | Self::Agent(AgentId(id)) | Self::Agentable(AgentableId(id)) => id,
        }
    }
}

/// Guards as a run reads them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoredGuards {
    /// Whose they are.
    pub layer: LayerKind,
    /// A [`GuardSettings`] as JSON.
    pub settings: String,
}

impl StoredGuards {
    /// Those of the row of the context query with this place: 0 is the tenant, 1 the user, 2 an agentable without a parent.
    pub(crate) fn at(place: i64, settings: String) -> Self {
        let layer = match place {
            0 => LayerKind::Tenant,
            1 => LayerKind::User,
            _ => LayerKind::Agentable,
        };
        Self { layer, settings }
    }
}

impl TenantStore<'_> {
    /// The guards of the tenant, or of what belongs to it; `None`: there are none.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such owner, [`Error::Inconsistent`] when they cannot be decoded.
    pub async fn guards(self, owner: GuardOwner) -> Result<Option<GuardSettings>> {
        let id = owner.id(self.tenant);
        let guards = sqlx::query_scalar!(
            r#"-- store::guards::get
            select coalesce(o.guards, 'null') as "guards!"
              from (select guards, id as tenant_id from houston.tenants where $3 = 'tenant' and id = $1
                    union all
                    select guards, tenant_id from houston.users where $3 = 'user' and id = $1
                    union all
                    select settings->'guards', tenant_id from houston.agents where $3 = 'agent' and id = $1
                    union all
                    select guards, tenant_id from houston.agentables where $3 = 'agentable' and id = $1) o
             where o.tenant_id = $2"#,
            id,
            self.tenant.0,
            owner.layer().as_str()
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: owner.layer().as_str() })?;
        if guards.is_null() {
            return Ok(None);
        }
        let decoded = serde_json::from_value(guards);
        decoded.map(Some).map_err(|source| {
            let (table, column) = (owner.layer().as_str(), "guards");
            Error::Inconsistent { table, column, row: id.to_string(), source }
        })
    }

    /// Sets them, from the next run on, or removes them.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such owner, [`Error::Database`] when Postgres cannot be reached or
    /// refuses the statement.
    pub async fn set_guards(self, owner: GuardOwner, guards: Option<&GuardSettings>) -> Result<()> {
        let id = owner.id(self.tenant);
        let done = sqlx::query_scalar!(
            r#"-- store::guards::set
            with tenant as (
                update houston.tenants set guards = $3 where $4 = 'tenant' and id = $1 and id = $2 returning 1),
            of_user as (
                update houston.users set guards = $3 where $4 = 'user' and id = $1 and tenant_id = $2 returning 1),
            agent as (
                update houston.agents
                   set settings = settings - 'guards' || jsonb_strip_nulls(jsonb_build_object('guards', $3::jsonb)),
                       version = version + 1, updated_at = statement_timestamp()
                 where $4 = 'agent' and id = $1 and tenant_id = $2 returning 1),
            agentable as (
                update houston.agentables set guards = $3 where $4 = 'agentable' and id = $1 and tenant_id = $2 returning 1)
            select exists (select from tenant) or exists (select from of_user) or exists (select from agent)
                   or exists (select from agentable) as "done!""#,
            id,
            self.tenant.0,
            guards.map(Json) as Option<Json<&GuardSettings>>,
            owner.layer().as_str()
        )
        .fetch_one(&self.pool)
        .await?;
        if done { Ok(()) } else { Err(Error::NotFound { what: owner.layer().as_str() }) }
    }
}
