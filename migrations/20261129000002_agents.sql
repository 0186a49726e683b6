-- Agents: named configurations of a tenant, each based on the file of its kind in jobs/agents. Each kind has one
-- default agent per tenant, created when the tenant first lists its agents; until then workers use the file.
create table houston.agents (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    kind text not null,
    name text not null,
    -- the default agent of its kind
    is_default boolean not null default false,
    -- a default agent that was changed over the API: later changes of the file no longer apply to it
    changed boolean not null default false,
    enabled boolean not null default true,
    -- description, role, guidelines, tools, use_case, provider, model, limits
    settings jsonb not null,
    -- increases with each change; workers cache an agent by id and version
    version bigint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    unique (tenant_id, name)
);
create index agents_by_tenant on houston.agents (tenant_id, id);
-- Each run reads the default agent. Created after the two other indexes that begin with tenant_id: if a plan is made
-- without knowing the tenant, all three have the same cost, and Postgres uses the newest.
create unique index agents_default on houston.agents (tenant_id, kind) where is_default;

-- Teams: agents of one kind, and a router that picks one of them per run.
create table houston.teams (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    kind text not null,
    name text not null,
    description text not null default '',
    -- {by, rules}
    router jsonb not null,
    -- increases with each change
    version bigint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    -- The form of the answers of a team, whichever of its agents answers. See crates/domain/src/answering.rs.
    output jsonb,
    unique (tenant_id, name)
);
create index teams_by_tenant on houston.teams (tenant_id, id);

-- The agents of each team.
create table houston.team_agents (
    team_id uuid not null references houston.teams on delete cascade,
    -- order within the team, from 1
    position integer not null,
    agent_id uuid not null references houston.agents,
    -- the agent that is used when the router picks none
    is_fallback boolean not null default false,
    primary key (team_id, position),
    unique (team_id, agent_id)
);
create index team_agents_by_agent on houston.team_agents (agent_id);
