//! The keys of a tenant, as its administrators see them.

use houston_domain::id::ApiKeyId;

use super::{ApiKey, KeyRow};
use crate::error::{Error, Result};
use crate::handle::TenantStore;

impl TenantStore<'_> {
    /// The keys of the tenant, the newest first, at most `limit`, older than `before`; no client tokens. `active`: only those
    /// that are neither revoked nor expired.
    ///
    /// # Errors
    /// [`Error::Database`] when Postgres cannot be reached or refuses the statement.
    pub async fn api_keys(self, active: bool, before: Option<ApiKeyId>, limit: i64) -> Result<Vec<ApiKey>> {
        let keys = sqlx::query_as!(
            KeyRow,
            "-- store::api_key::of_tenant::list
            select k.id, k.tenant_id, t.name as tenant, k.name, k.prefix, k.secret_sha256, k.created_at, k.revoked_at,
                   k.scopes, k.user_id, k.agentables, k.expires_at, k.last_used_at, k.parent_id, k.issuer,
                   extract(epoch from k.expires_at - statement_timestamp())::float8 as expires_in,
                   extract(epoch from statement_timestamp() - k.last_used_at)::float8 as used_ago
              from houston.api_keys k join houston.tenants t on t.id = k.tenant_id
             where k.tenant_id = $1 and k.parent_id is null and ($2::uuid is null or k.id < $2)
               and (not $3 or k.revoked_at is null and k.expires_at > statement_timestamp() is not false)
             order by k.id desc limit $4",
            self.tenant.0,
            before.map(|before| before.0),
            active,
            limit
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(keys.into_iter().map(ApiKey::from).collect())
    }

    /// Revokes a key of the tenant; it cannot be reinstated. Revoking it again changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the tenant has no such key, [`Error::Database`] when Postgres cannot be reached or refuses the
    /// statement.
    pub async fn revoke_api_key(self, id: ApiKeyId) -> Result<ApiKey> {
        sqlx::query!(
            "-- store::api_key::of_tenant::revoke
            update houston.api_keys set revoked_at = statement_timestamp()
             where tenant_id = $1 and id = $2 and parent_id is null and revoked_at is null",
            self.tenant.0,
            id.0
        )
        .execute(&self.pool)
        .await?;
        let key = sqlx::query_as!(
            KeyRow,
            "-- store::api_key::of_tenant::get
            select k.id, k.tenant_id, t.name as tenant, k.name, k.prefix, k.secret_sha256, k.created_at, k.revoked_at,
                   k.scopes, k.user_id, k.agentables, k.expires_at, k.last_used_at, k.parent_id, k.issuer,
                   extract(epoch from k.expires_at - statement_timestamp())::float8 as expires_in,
                   extract(epoch from statement_timestamp() - k.last_used_at)::float8 as used_ago
              from houston.api_keys k join houston.tenants t on t.id = k.tenant_id
             where k.tenant_id = $1 and k.id = $2 and k.parent_id is null",
            self.tenant.0,
            id.0
        )
        .fetch_optional(&self.pool)
        .await?;
        key.map(ApiKey::from).ok_or(Error::NotFound { what: "key" })
    }
}
