//! Accounts at MCP servers that use OAuth, and logins that have begun. Their secrets are sealed by the callers.

use std::collections::BTreeSet;

use houston_domain::id::{TenantId, UserId};
use uuid::Uuid;

use crate::api_key::hash;
use crate::error::Result;
use crate::handle::{ApiStore, RunStore, TenantStore};
use crate::mcp_server::ServerOwner;
use crate::statement::Statement as _;

/// Whose account it is, and at which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountOf {
    /// The owner of the server.
    pub owner: ServerOwner,
    /// The name of the server.
    pub server: String,
    /// Who has logged in; `None`: the tenant, for all its users.
    pub user: Option<UserId>,
}

/// A login that has begun, and what belongs to its tenant.
#[derive(Debug)]
pub struct BegunLogin<'s> {
    /// The handle of its tenant.
    pub store: TenantStore<'s>,
    /// The tenant.
    pub tenant: TenantId,
    /// Whose account it will be.
    pub of: AccountOf,
    /// The address of the server.
    pub url: String,
    /// What was kept, sealed.
    pub sealed: Vec<u8>,
}

/// An account as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAccount {
    /// The address that the login was for.
    pub url: String,
    /// What it has given, sealed; `None`: it was refused, and a person must log in again.
    pub sealed: Option<Vec<u8>>,
    /// Counts what was stored.
    pub version: i64,
}

impl AccountOf {
    fn user(&self) -> Option<Uuid> {
        self.user.map(|UserId(id)| id)
    }
}

impl TenantStore<'_> {
    /// Stores that a login has begun, for ten minutes; one of the same account that has begun before ends. `state`: what the
    /// browser will bring back.
    pub async fn begin_mcp_login(self, of: &AccountOf, url: &str, state: &str, sealed: &[u8]) -> Result<()> {
        sqlx::query!(
            "-- store::mcp_account::begin
            insert into houston.mcp_logins as l
                   (account_id, owner_id, server, tenant_id, user_id, url, state_sha256, sealed, expires_at)
            select coalesce($2::uuid, $1::uuid), $3, $4, $1::uuid, $2::uuid, $5, $6, $7, now() + interval '10 minutes'
             where $2 is null or exists (select from houston.users u where u.id = $2 and u.tenant_id = $1)
            on conflict (account_id, owner_id, server) do update
               set url = excluded.url, state_sha256 = excluded.state_sha256, sealed = excluded.sealed,
                   expires_at = excluded.expires_at
             where l.tenant_id = $1",
            self.tenant.0,
            of.user(),
            of.owner.id(self.tenant),
            of.server,
            url,
            &hash(state),
            sealed
        )
        .run(&self.pool)
        .await
    }

    /// Stores what a login has given, sealed.
    pub async fn put_mcp_account(self, of: &AccountOf, url: &str, sealed: &[u8]) -> Result<()> {
        sqlx::query!(
            "-- store::mcp_account::put
            insert into houston.mcp_accounts as a (account_id, owner_id, server, tenant_id, user_id, url, sealed)
            select coalesce($2::uuid, $1::uuid), $3, $4, $1::uuid, $2::uuid, $5, $6
             where $2 is null or exists (select from houston.users u where u.id = $2 and u.tenant_id = $1)
            on conflict (account_id, owner_id, server) do update
               set url = excluded.url, sealed = excluded.sealed, version = a.version + 1, renewing = null,
                   renewing_until = null, updated_at = statement_timestamp()
             where a.tenant_id = $1",
            self.tenant.0,
            of.user(),
            of.owner.id(self.tenant),
            of.server,
            url,
            sealed
        )
        .run(&self.pool)
        .await
    }

    /// The names of the servers of this owner at which the owner has an account that is not refused.
    pub async fn mcp_logged_in(self, owner: ServerOwner) -> Result<BTreeSet<String>> {
        let names = sqlx::query_scalar!(
            "-- store::mcp_account::logged_in
            select a.server from houston.mcp_accounts a
              join houston.mcp_servers s on s.owner_id = a.owner_id and s.name = a.server and s.url = a.url
             where a.tenant_id = $1 and a.account_id = $2 and a.owner_id = $2 and a.sealed is not null",
            self.tenant.0,
            owner.id(self.tenant)
        );
        Ok(names.fetch_all(&self.pool).await?.into_iter().collect())
    }
}

impl ApiStore {
    /// The login with this `state`, which ends: a state is used once. `None`: there is none, or it took too long.
    pub async fn take_mcp_login(&self, state: &str) -> Result<Option<BegunLogin<'_>>> {
        let login = sqlx::query!(
            "-- store::mcp_account::take_login
            delete from houston.mcp_logins where state_sha256 = $1 and expires_at > now()
            returning owner_id, server, tenant_id, user_id, url, sealed",
            &hash(state)
        )
        .map(|login| {
            let tenant = TenantId(login.tenant_id);
            let is_of_tenant = login.owner_id == login.tenant_id;
            let owner =
                if is_of_tenant { ServerOwner::Tenant } else { ServerOwner::User(UserId(login.owner_id)) };
            let of = AccountOf { owner, server: login.server, user: login.user_id.map(UserId) };
            BegunLogin { store: self.shared.tenant(tenant), tenant, of, url: login.url, sealed: login.sealed }
        });
        Ok(login.fetch_optional(&self.pool).await?)
    }
}

impl RunStore {
    /// An account; `None`: there was no login.
    pub async fn mcp_account(&self, tenant: TenantId, of: &AccountOf) -> Result<Option<StoredAccount>> {
        let row = sqlx::query_as!(
            StoredAccount,
            "-- store::mcp_account::get
            select url, sealed, version from houston.mcp_accounts
             where tenant_id = $1 and account_id = coalesce($2::uuid, $1) and owner_id = $3 and server = $4",
            tenant.0,
            of.user(),
            of.owner.id(tenant),
            of.server
        );
        Ok(row.fetch_optional(&self.pool).await?)
    }

    /// Takes the right to renew this version of an account, for 30 s; says whether that succeeded. It fails while another
    /// process renews it, and when it was renewed: two must not use the same refresh token.
    pub async fn take_mcp_renewal(
        &self,
        tenant: TenantId,
        of: &AccountOf,
        version: i64,
        renewal: i64,
    ) -> Result<bool> {
        let taken = sqlx::query!(
            "-- store::mcp_account::take_renewal
            update houston.mcp_accounts set renewing = $6, renewing_until = now() + interval '30 seconds'
             where tenant_id = $1 and account_id = coalesce($2::uuid, $1) and owner_id = $3 and server = $4
               and version = $5 and sealed is not null and (renewing_until is null or renewing_until < now())",
            tenant.0,
            of.user(),
            of.owner.id(tenant),
            of.server,
            version,
            renewal
        );
        Ok(taken.execute(&self.pool).await?.rows_affected() == 1)
    }

    /// Ends a renewal that was taken: with what it has given, sealed; with `None`, because it was refused. Nothing happens if
    /// there was another login meanwhile.
    pub async fn end_mcp_renewal(
        &self,
        tenant: TenantId,
        of: &AccountOf,
        renewal: i64,
        sealed: Option<&[u8]>,
    ) -> Result<()> {
        sqlx::query!(
            "-- store::mcp_account::end_renewal
            update houston.mcp_accounts
               set sealed = $6, version = version + 1, renewing = null, renewing_until = null,
                   updated_at = statement_timestamp()
             where tenant_id = $1 and account_id = coalesce($2::uuid, $1) and owner_id = $3 and server = $4
               and renewing = $5",
            tenant.0,
            of.user(),
            of.owner.id(tenant),
            of.server,
            renewal,
            sealed
        )
        .run(&self.pool)
        .await
    }

    /// Gives up a renewal that has failed for now, so that another may try.
    pub async fn leave_mcp_renewal(&self, tenant: TenantId, of: &AccountOf, renewal: i64) -> Result<()> {
        sqlx::query!(
            "-- store::mcp_account::leave_renewal
            update houston.mcp_accounts set renewing = null, renewing_until = null
             where tenant_id = $1 and account_id = coalesce($2::uuid, $1) and owner_id = $3 and server = $4
               and renewing = $5",
            tenant.0,
            of.user(),
            of.owner.id(tenant),
            of.server,
            renewal
        )
        .run(&self.pool)
        .await
    }
}
