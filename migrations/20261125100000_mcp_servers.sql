-- MCP servers over HTTP of tenants, for all their users, and of users. Requests write them; runs read a summary with the row of
-- their tenant or user, and a server only when their process has not set it up yet.
create table houston.mcp_servers (
    -- the user, or else the tenant
    owner_id uuid not null,
    -- `crates/domain/src/mcp_server.rs` says what a name is
    name text collate "C" not null,
    tenant_id uuid not null references houston.tenants on delete cascade,
    user_id uuid references houston.users on delete cascade,
    url text not null,
    -- kinds, time limit, which tools, what is said of single tools
    settings jsonb not null,
    -- the names of its headers
    header_names text[] not null,
    -- an object of its headers, sealed; null: it has none
    sealed bytea,
    -- the approved tools: an object of their definitions, by the names that the server gives them
    pins jsonb not null default '{}',
    -- the names under which tools are offered
    tools text[] not null default '{}',
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (owner_id, name),
    check (owner_id = coalesce(user_id, tenant_id))
);

-- Servers of a tenant or user that is deleted.
create index mcp_servers_by_tenant on houston.mcp_servers (tenant_id);
create index mcp_servers_by_user on houston.mcp_servers (user_id) where user_id is not null;

-- What runs read of the user's own: as `tenants.tool_sources`.
alter table houston.users add column tool_sources jsonb;
