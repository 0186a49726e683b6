//! Users: the people agents work for. Each has agentables of their own, made with them: one of each kind whose agent
//! type says so.

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, TenantId, UserId};
use serde_json::Value;

use crate::agentable::{NewAgentable, insert as insert_agentable};
use crate::cost::Cost;
use crate::error::{Error, Result};
use crate::idempotency::{Created, IdempotencyKey, take};
use crate::pool::Store;

/// A person.
#[derive(Debug, Clone, PartialEq)]
pub struct User {
    /// Their id.
    pub id: UserId,
    /// The client's own id for them.
    pub external_id: Option<String>,
    /// What agents call them.
    pub name: String,
    /// IANA name.
    pub time_zone: String,
    /// When they were made.
    pub created_at: DateTime<Utc>,
    /// What all their model calls cost.
    pub cost: Cost,
}

impl Store {
    /// Makes a user together with the agentables `own` of theirs, each of another kind. `response` is what the client is answered, kept under the
    /// idempotency key.
    ///
    /// # Errors
    /// [`Error::Exists`] when the tenant has a user with this `external_id`.
    pub async fn create_user(
        &self,
        tenant: TenantId,
        user: &User,
        own: &[NewAgentable<'_>],
        key: Option<IdempotencyKey<'_>>,
        response: &Value,
    ) -> Result<Created<Value>> {
        let mut tx = self.pool.begin().await?;
        if let Some(key) = key {
            match take(&mut tx, tenant, key, user.id.0, response).await? {
                Created::New(_) => {}
                earlier => return Ok(earlier),
            }
        }
        let made = sqlx::query!(
            "-- store::user::create
            with made as (
                insert into houston.users (id, tenant_id, external_id, name, time_zone, created_at)
                values ($1, $2, $3, $4, $5, $6) on conflict (tenant_id, external_id) do nothing
                returning id, tenant_id)
            insert into houston.feeds (user_id, tenant_id) select id, tenant_id from made",
            user.id.0,
            tenant.0,
            user.external_id,
            user.name,
            user.time_zone,
            user.created_at
        )
        .execute(&mut *tx)
        .await?;
        if made.rows_affected() == 0 {
            return Err(Error::Exists { what: "user" });
        }
        for agentable in own {
            insert_agentable(&mut tx, tenant, agentable, true).await?;
        }
        tx.commit().await?;
        Ok(Created::New(response.clone()))
    }

    /// A user of the tenant.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn user(&self, tenant: TenantId, id: UserId) -> Result<User> {
        let user = sqlx::query!(
            r#"-- store::user::get
            select u.id, u.external_id, u.name, u.time_zone, u.created_at,
                   coalesce(s.cost, u.total_llm_cost) as cost, s.unpriced_calls as "unpriced_calls!"
              from houston.users u
              cross join (select sum(d.cost) as cost, coalesce(sum(d.unpriced_calls), 0)::integer as unpriced_calls
                            from houston.spending d where d.user_id = $2) s
             where u.tenant_id = $1 and u.id = $2"#,
            tenant.0,
            id.0
        )
        .fetch_optional(&self.pool)
        .await?
        .ok_or(Error::NotFound { what: "user" })?;
        Ok(User {
            id: UserId(user.id),
            external_id: user.external_id,
            name: user.name,
            time_zone: user.time_zone,
            created_at: user.created_at,
            cost: Cost::of(user.cost, user.unpriced_calls),
        })
    }

    /// What was made with a user of the tenant: ids and kinds, in the order of the kinds' names.
    ///
    /// # Errors
    /// What the database says.
    pub async fn made_with_user(&self, tenant: TenantId, user: UserId) -> Result<Vec<(String, AgentableId)>> {
        let rows = sqlx::query!(
            "-- store::user::own
            select id, kind from houston.agentables
             where tenant_id = $1 and user_id = $2 and made_with_user order by kind",
            tenant.0,
            user.0
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|row| (row.kind, AgentableId(row.id))).collect())
    }

    /// The user with this external id and their newest agentable of a kind, for `houston dev`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn user_by_external_id(
        &self,
        tenant: TenantId,
        external_id: &str,
        kind: &str,
    ) -> Result<Option<(UserId, Option<AgentableId>)>> {
        let found = sqlx::query!(
            r#"-- store::user::by_external_id
            select u.id, (select max(a.id::text)::uuid from houston.agentables a
                           where a.user_id = u.id and a.kind = $3) as newest
              from houston.users u where u.tenant_id = $1 and u.external_id = $2"#,
            tenant.0,
            external_id,
            kind
        )
        .fetch_optional(&self.pool)
        .await?;
        Ok(found.map(|found| (UserId(found.id), found.newest.map(AgentableId))))
    }
}
