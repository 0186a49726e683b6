-- Accounts of tenants and users at MCP servers that use OAuth: what a login has given, sealed. A process reads one when it calls
-- such a server, and not before.
create table houston.mcp_accounts (
    -- the user who has logged in, or else the tenant
    account_id uuid not null,
    -- the owner of the server, and its name; the server of a tenant is a row of every cell, so this is no foreign key
    owner_id uuid not null,
    server text collate "C" not null,
    tenant_id uuid not null references houston.tenants on delete cascade,
    user_id uuid references houston.users on delete cascade,
    -- the address that the login was for: another one gets nothing of it
    url text not null,
    -- null: the authorization server has refused to renew it
    sealed bytea,
    -- counts what was stored here
    version bigint not null default 1,
    -- who renews it, and until when no other process does: a refresh token may be used once
    renewing bigint,
    renewing_until timestamptz,
    updated_at timestamptz not null default clock_timestamp(),
    primary key (account_id, owner_id, server),
    check (account_id = coalesce(user_id, tenant_id))
);
create index mcp_accounts_by_tenant on houston.mcp_accounts (tenant_id);
create index mcp_accounts_by_user on houston.mcp_accounts (user_id) where user_id is not null;

-- Logins that have begun: one of each account, for ten minutes.
create table houston.mcp_logins (
    account_id uuid not null,
    owner_id uuid not null,
    server text collate "C" not null,
    tenant_id uuid not null references houston.tenants on delete cascade,
    user_id uuid references houston.users on delete cascade,
    url text not null,
    -- of the `state` that the browser brings back
    state_sha256 bytea not null,
    sealed bytea not null,
    expires_at timestamptz not null,
    primary key (account_id, owner_id, server),
    check (account_id = coalesce(user_id, tenant_id))
);
create unique index mcp_logins_by_state on houston.mcp_logins (state_sha256);
create index mcp_logins_by_tenant on houston.mcp_logins (tenant_id);
create index mcp_logins_by_user on houston.mcp_logins (user_id) where user_id is not null;
