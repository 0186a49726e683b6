//! Client tokens: short-lived keys for the browser or the phone of one user, made by a key of the tenant and valid only
//! while that key is.

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::id::{AgentableId, ApiKeyId, UserId};
use houston_domain::scope::Scopes;
use sqlx::PgConnection;

use crate::api_key::{hash, prefix};
use crate::error::{Error, Result};
use crate::handle::TenantStore;
use crate::row_security::with_connection;
use crate::statement::{Statement as _, uuids};

/// A client token to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewClientToken<'a> {
    /// The id under which it is deleted.
    pub id: ApiKeyId,
    /// The key that makes it.
    pub parent: ApiKeyId,
    /// The token itself; only its hash and its first characters are stored.
    pub token: &'a str,
    /// What it allows.
    pub scopes: Scopes,
    /// The user whose browser or phone gets it.
    pub user: UserId,
    /// The only agentables of the user that it is for.
    pub agentables: Option<&'a [AgentableId]>,
    /// How long it is valid.
    pub lifetime: Duration,
}

impl TenantStore<'_> {
    /// Stores a token in the cell of its user, and deletes expired ones of the same key. Returns when it expires. Waits for a move
    /// of the user to another cell, and then does not find the user.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the user does not exist or one of the agentables is not the user's.
    pub async fn create_client_token(self, new: &NewClientToken<'_>) -> Result<DateTime<Utc>> {
        let agentables = new.agentables.map(uuids);
        let mut tx = self.pool.begin().await?;
        let missing = sqlx::query_scalar!(
            r#"-- store::client_token::missing
            with u as materialized (
                select u.id from houston.users u where u.tenant_id = $1 and u.id = $2 for key share)
            select case when not exists (select from u) then 'user'
                        when exists (
                             select from unnest($3::uuid[]) as of (id)
                              where not exists (select from houston.agentables a
                                                 where a.tenant_id = $1 and a.user_id = $2 and a.id = of.id)) then 'agentable'
                   end as missing"#,
            self.tenant.0,
            new.user.0,
            agentables.as_deref()
        )
        .fetch_one(&mut *tx)
        .await?;
        match missing.as_deref() {
            Some("user") => return Err(Error::NotFound { what: "user" }),
            Some(_) => return Err(Error::NotFound { what: "agentable" }),
            None => {}
        }
        let expires_at = self.insert_client_token(&mut tx, new).await?;
        tx.commit().await?;
        Ok(expires_at)
    }

    /// Stores a token that the cell of its user has, in another cell, unless it came there with its user. Returns when it expires.
    pub async fn copy_client_token(self, new: &NewClientToken<'_>) -> Result<DateTime<Utc>> {
        Ok(with_connection!(self.pool, |c| self.insert_client_token(c, new)))
    }

    async fn insert_client_token(
        self,
        connection: &mut PgConnection,
        new: &NewClientToken<'_>,
    ) -> Result<DateTime<Utc>> {
        let agentables = new.agentables.map(uuids);
        let expires_at = sqlx::query_scalar!(
            r#"-- store::client_token::create
            with expired as (
                delete from houston.api_keys k
                 where k.tenant_id = $2 and k.id in (
                       select o.id from houston.api_keys o
                        where o.parent_id = $3 and o.expires_at < statement_timestamp() - interval '1 hour'
                        order by o.expires_at limit 100))
            insert into houston.api_keys
                   (id, tenant_id, parent_id, name, prefix, secret_sha256, scopes, user_id, agentables, expires_at)
            values ($1, $2, $3, 'client token', $4, $5, $6, $7, $8, statement_timestamp() + make_interval(secs => $9))
            on conflict (id) do update set name = excluded.name
            returning expires_at as "expires_at!""#,
            new.id.0,
            self.tenant.0,
            new.parent.0,
            prefix(new.token),
            &hash(new.token),
            &new.scopes.names(),
            new.user.0,
            agentables.as_deref(),
            new.lifetime.as_secs_f64()
        );
        Ok(expires_at.fetch_one(connection).await?)
    }

    /// Deletes a client token in the cell of its user; with `user`, only if it is one of this user's. Waits for a move of the user
    /// to another cell, and then does not find the token: it is to be deleted there.
    pub async fn delete_client_token_of_user(self, id: ApiKeyId, user: Option<UserId>) -> Result<()> {
        sqlx::query!(
            "-- store::client_token::delete_of_user
            with u as materialized (
                select u.id from houston.users u
                 where u.tenant_id = $1
                   and u.id = (select k.user_id from houston.api_keys k where k.tenant_id = $1 and k.id = $2)
                   for key share)
            delete from houston.api_keys
             where tenant_id = $1 and id = $2 and parent_id is not null and user_id = coalesce($3, user_id)
               and user_id in (select u.id from u)",
            self.tenant.0,
            id.0,
            user.map(|user| user.0)
        )
        .run_or(&self.pool, Error::NotFound { what: "client token" })
        .await
    }

    /// Deletes the copy of a client token in another cell than that of its user; with `user`, only if it is one of this user's.
    pub async fn delete_client_token(self, id: ApiKeyId, user: Option<UserId>) -> Result<()> {
        sqlx::query!(
            "-- store::client_token::delete
            delete from houston.api_keys
             where tenant_id = $1 and id = $2 and parent_id is not null and user_id = coalesce($3, user_id)",
            self.tenant.0,
            id.0,
            user.map(|user| user.0)
        )
        .run_or(&self.pool, Error::NotFound { what: "client token" })
        .await
    }
}
