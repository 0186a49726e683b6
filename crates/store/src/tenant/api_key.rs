//! Tenants and their API keys, as requests use them and as administrators see them. Only the SHA-256 of a key is stored.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, ApiKeyId, TenantId, UserId};
use houston_domain::issuer::Issuer;
use houston_domain::scope::Scopes;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::handle::{ApiStore, OperatorStore, TenantStore};
use crate::statement::{Statement as _, uuids};

/// How many characters of a key are stored in plain text, to find it by.
pub const PREFIX_CHARS: usize = 12;

/// A stored API key.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// The key's id.
    pub id: ApiKeyId,
    /// The tenant it belongs to.
    pub tenant_id: TenantId,
    /// The tenant's name.
    pub tenant: String,
    /// What it is for, as given when it was created.
    pub name: String,
    /// Its first [`PREFIX_CHARS`] characters.
    pub prefix: String,
    /// SHA-256 of the whole key.
    pub secret_sha256: Vec<u8>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
    /// What it allows.
    pub scopes: Scopes,
    /// The only user that it reads and writes for.
    pub user: Option<UserId>,
    /// The only agentables of that user.
    pub agentables: Option<Vec<AgentableId>>,
    /// When it stops being valid.
    pub expires_at: Option<DateTime<Utc>>,
    /// How long it is still valid, by the clock of Postgres.
    pub expires_in: Option<Duration>,
    /// When it was last used; at most a minute before it truly was.
    pub last_used_at: Option<DateTime<Utc>>,
    /// How long ago that was, by the clock of Postgres.
    pub used_ago: Option<Duration>,
    /// Of a client token: the key that made it.
    pub parent: Option<ApiKeyId>,
    /// Whose JWTs are accepted in place of the key, which then has no secret that anybody knows.
    pub issuer: Option<Issuer>,
}

/// A key to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewApiKey<'a> {
    /// The id under which it is listed and revoked.
    pub id: ApiKeyId,
    /// What it is for.
    pub name: &'a str,
    /// The key itself; only its hash and its first characters are stored. For an issuer: a random text that is not printed.
    pub key: &'a str,
    /// What it allows.
    pub scopes: Scopes,
    /// The only user that it reads and writes for.
    pub user: Option<UserId>,
    /// When it stops being valid.
    pub expires_at: Option<DateTime<Utc>>,
    /// Whose JWTs are accepted in place of the key.
    pub issuer: Option<&'a Issuer>,
}

/// Whose request it is, by its key. Only a key that was read from Postgres has one, and a command of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Principal {
    tenant: TenantId,
    key: ApiKeyId,
}

impl Principal {
    /// The tenant of the key.
    pub fn tenant(self) -> TenantId {
        self.tenant
    }

    /// The key.
    pub fn key(self) -> ApiKeyId {
        self.key
    }
}

impl OperatorStore<'_> {
    /// For requests of a command of the operator, which have no key.
    pub fn principal(self, tenant: TenantId) -> Principal {
        Principal { tenant, key: ApiKeyId(Uuid::nil()) }
    }
}

impl ApiKey {
    /// Whether it is neither revoked nor expired.
    pub fn is_valid(&self) -> bool {
        self.revoked_at.is_none() && self.expires_in != Some(Duration::ZERO)
    }

    /// Whose requests the key authenticates.
    pub fn principal(&self) -> Principal {
        Principal { tenant: self.tenant_id, key: self.id }
    }

    /// What it is found by once it was read: the hash of its secret, or that of issuer and audience.
    pub fn hash(&self) -> Option<[u8; 32]> {
        match &self.issuer {
            Some(issuer) => Some(Issuer::hash(&issuer.issuer, &issuer.audience)),
            None => self.secret_sha256.as_slice().try_into().ok(),
        }
    }
}

/// Reads keys `k`, between the name of the query and the conditions.
macro_rules! query_keys {
    ($before:literal, $after:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $before + "
            select k.id, k.tenant_id, t.name as tenant, k.name, k.prefix, k.secret_sha256, k.created_at, k.revoked_at,
                   k.scopes, k.user_id, k.agentables, k.expires_at, k.last_used_at, k.parent_id, k.issuer,
                   extract(epoch from k.expires_at - statement_timestamp())::float8 as expires_in,
                   extract(epoch from statement_timestamp() - k.last_used_at)::float8 as used_ago
              from houston.api_keys k join houston.tenants t on t.id = k.tenant_id
            " + $after
            $(, $parameter)*
        )
        .map(|row| ApiKey {
            id: ApiKeyId(row.id),
            tenant_id: TenantId(row.tenant_id),
            tenant: row.tenant,
            name: row.name,
            prefix: row.prefix,
            secret_sha256: row.secret_sha256,
            created_at: row.created_at,
            revoked_at: row.revoked_at,
            scopes: Scopes::of_names(row.scopes.iter().map(String::as_str)),
            user: row.user_id.map(UserId),
            agentables: row.agentables.map(|ids| ids.into_iter().map(AgentableId).collect()),
            expires_at: row.expires_at,
            // A time that does not fit is as good as none.
            expires_in: row.expires_in.and_then(seconds),
            last_used_at: row.last_used_at,
            used_ago: row.used_ago.and_then(seconds),
            parent: row.parent_id.map(ApiKeyId),
            // One that a newer version wrote is as good as none: the secret of its key was never printed.
            issuer: row.issuer.and_then(|issuer| serde_json::from_value(issuer).ok()),
        })
    };
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// The SHA-256 under which a key is stored.
pub fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// The part of a key that is stored in plain text.
pub fn prefix(key: &str) -> String {
    key.chars().take(PREFIX_CHARS).collect()
}

impl OperatorStore<'_> {
    /// Stores the hash and the prefix of a new key of the tenant.
    ///
    /// # Errors
    /// [`Error::Exists`] when a tenant has a key for the issuer and its audience that is not revoked.
    pub async fn create_api_key(self, tenant: TenantId, new: &NewApiKey<'_>) -> Result<()> {
        let NewApiKey { id, name, key, scopes, user, expires_at, issuer } = new;
        // A record of texts is always JSON.
        let stored = issuer.map(|issuer| serde_json::to_value(issuer).unwrap_or_default());
        let done = sqlx::query!(
            "-- store::api_key::create
            insert into houston.api_keys (id, tenant_id, name, prefix, secret_sha256, scopes, user_id, expires_at, issuer)
            values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            id.0,
            tenant.0,
            *name,
            issuer.map_or_else(|| prefix(key), |issuer| Issuer::prefix(&issuer.issuer)),
            &hash(key),
            &scopes.names(),
            user.map(|user| user.0),
            *expires_at,
            stored
        )
        .run(&self.pool)
        .await;
        match done {
            Err(error) if issuer.is_some() && error.sqlstate().as_deref() == Some("23505") => {
                Err(Error::Exists { what: "issuer with this audience", existing: None })
            }
            done => done,
        }
    }

    /// The id of the tenant with this name; created with `id` when there is none.
    pub async fn ensure_tenant(self, id: TenantId, name: &str) -> Result<TenantId> {
        sqlx::query!(
            "-- store::api_key::ensure_tenant
            insert into houston.tenants (id, name) values ($1, $2) on conflict (name) do nothing",
            id.0,
            name
        )
        .execute(&self.pool)
        .await?;
        let id = sqlx::query_scalar!(
            "-- store::api_key::tenant_by_name\nselect id from houston.tenants where name = $1",
            name
        );
        Ok(TenantId(id.fetch_one(&self.pool).await?))
    }

    /// All keys of all tenants, oldest first, revoked and expired ones included; no client tokens.
    pub async fn list_api_keys(self) -> Result<Vec<ApiKey>> {
        let keys = query_keys!(
            "-- store::api_key::list",
            "where k.parent_id is null
             order by k.id"
        );
        Ok(keys.fetch_all(&self.pool).await?)
    }

    /// Revokes a key; it cannot be reinstated. Returns its tenant.
    pub async fn revoke_api_key(self, id: ApiKeyId) -> Result<TenantId> {
        let tenant = sqlx::query_scalar!(
            "-- store::api_key::revoke
            update houston.api_keys set revoked_at = statement_timestamp() where id = $1 and revoked_at is null
            returning tenant_id",
            id.0
        );
        tenant.fetch_optional(&self.pool).await?.map(TenantId).ok_or(Error::NotFound { what: "key" })
    }

    /// Deletes keys of people who signed in to the console, once they ended so long ago that the audit log may have forgotten
    /// them, at most 100. Returns their number.
    pub async fn delete_ended_sessions(self, tenant: TenantId) -> Result<u64> {
        let deleted = sqlx::query!(
            "-- store::api_key::delete_ended_sessions
            delete from houston.api_keys k
             where k.tenant_id = $1 and k.id in (
                   select o.id from houston.api_keys o
                    where o.tenant_id = $1 and o.parent_id is null and o.name like 'console: %'
                      and o.expires_at < statement_timestamp() - interval '90 days'
                    order by o.expires_at limit 100)",
            tenant.0
        )
        .execute(&self.pool)
        .await?;
        Ok(deleted.rows_affected())
    }
}

impl ApiStore {
    /// Valid keys with one of these prefixes. The caller compares the hashes in constant time.
    pub async fn api_keys_with(&self, prefixes: &[String]) -> Result<Vec<ApiKey>> {
        let keys = query_keys!(
            "-- store::api_key::like",
            "where k.prefix = any($1) and k.revoked_at is null and k.expires_at > statement_timestamp() is not false
               and coalesce((select p.revoked_at is null and p.expires_at > statement_timestamp() is not false
                               from houston.api_keys p where p.id = k.parent_id), true)",
            prefixes
        );
        Ok(keys.fetch_all(&self.pool).await?)
    }

    /// Notes that the keys were used now.
    pub async fn api_keys_used(&self, keys: &[ApiKeyId]) -> Result<()> {
        sqlx::query!(
            "-- store::api_key::used
            update houston.api_keys set last_used_at = statement_timestamp() where id = any($1)",
            &uuids(keys)
        )
        .run(&self.pool)
        .await
    }

    /// The keys among `keys` that are valid: neither revoked nor expired.
    pub async fn valid_api_keys(&self, keys: &[ApiKeyId]) -> Result<Vec<ApiKeyId>> {
        let valid = sqlx::query_scalar!(
            "-- store::api_key::valid
            select k.id
              from houston.api_keys k
             where k.id = any($1) and k.revoked_at is null and k.expires_at > statement_timestamp() is not false
               and coalesce((select p.revoked_at is null and p.expires_at > statement_timestamp() is not false
                               from houston.api_keys p where p.id = k.parent_id), true)",
            &uuids(keys)
        );
        Ok(valid.fetch_all(&self.pool).await?.into_iter().map(ApiKeyId).collect())
    }
}

impl TenantStore<'_> {
    /// The keys of the tenant, the newest first, at most `limit`, older than `before`; no client tokens. `active`: only those
    /// that are neither revoked nor expired.
    pub async fn api_keys(self, active: bool, before: Option<ApiKeyId>, limit: i64) -> Result<Vec<ApiKey>> {
        let keys = query_keys!(
            "-- store::api_key::of_tenant::list",
            "where k.tenant_id = $1 and k.parent_id is null and ($2::uuid is null or k.id < $2)
               and (not $3 or k.revoked_at is null and k.expires_at > statement_timestamp() is not false)
             order by k.id desc limit $4",
            self.tenant.0,
            before.map(|before| before.0),
            active,
            limit
        );
        Ok(keys.fetch_all(&self.pool).await?)
    }

    /// Revokes a key of the tenant; it cannot be reinstated. Revoking it again changes nothing.
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
        let key = query_keys!(
            "-- store::api_key::of_tenant::get",
            "where k.tenant_id = $1 and k.id = $2 and k.parent_id is null",
            self.tenant.0,
            id.0
        );
        key.fetch_optional(&self.pool).await?.ok_or(Error::NotFound { what: "key" })
    }
}
