-- Agentables: anything an agent runs for. `kind` is the name of an agent type in jobs/agents.
create table houston.agentables (
    id uuid primary key,
    -- null: the erasure of this agentable was requested (houston.erasures), so that no query of a tenant finds the row
    tenant_id uuid references houston.tenants,
    user_id uuid not null references houston.users,
    kind text not null,
    title text not null,
    description text not null default '',
    status text,
    -- created together with its user; the agent types say which kinds are (`made_with_user` in jobs/agents)
    made_with_user boolean not null default false,
    -- the agentable this task works for
    parent_id uuid references houston.agentables,
    -- number of agentables above this one. (parent_id, parent_depth) must be an existing agentable that is one step
    -- nearer to the root, so a chain of parents has no cycle.
    depth integer not null default 0 check (depth >= 0),
    parent_depth integer generated always as (case when parent_id is not null then depth - 1 end) stored,
    -- the conversation this one was copied from; null when it is no copy, or the original was deleted
    forked_from uuid references houston.agentables on delete set null,
    -- the agent or the team that answers; with neither, the default agent of the kind
    agent_id uuid references houston.agents,
    team_id uuid references houston.teams,
    -- the tools it may call, out of those of its kind; null: all of them
    tools text[],
    created_at timestamptz not null default now(),
    constraint agentables_id_depth unique (id, depth),
    constraint agentables_depth_of_root check ((parent_id is null) = (depth = 0)),
    constraint agentables_parent_above
        foreign key (parent_id, parent_depth) references houston.agentables (id, depth),
    constraint agentables_served_by_one check (agent_id is null or team_id is null)
);

-- A user's agentables.
create index agentables_by_user on houston.agentables (user_id, id);
-- One agentable per user of each kind that is created with the user, also when several requests create it at once.
create unique index agentables_made_with_user on houston.agentables (user_id, kind) where made_with_user;
-- A user's agentables of one kind, newest first.
create index agentables_by_user_kind on houston.agentables (user_id, kind, id);
-- A tenant's agentables of one kind.
create index agentables_by_tenant_kind on houston.agentables (tenant_id, kind, id);
-- Old tasks, for the health monitor.
create index agentables_by_kind on houston.agentables (kind, created_at);
-- The tasks of an agentable that is deleted.
create index agentables_by_parent on houston.agentables (parent_id) where parent_id is not null;
-- The copies of an agentable that is deleted.
create index agentables_by_origin on houston.agentables (forked_from) where forked_from is not null;
-- The agentables of an agent or a team.
create index agentables_by_agent on houston.agentables (agent_id, id) where agent_id is not null;
create index agentables_by_team on houston.agentables (team_id, id) where team_id is not null;

-- Agentables that still need a title: they were created without one, and their user has written enough to derive one.
-- The transaction that sets the title deletes the row.
create table houston.title_requests (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    -- a worker is generating the title; until due_at no other worker starts
    taken boolean not null default false,
    due_at timestamptz not null
);

create index title_requests_due on houston.title_requests (due_at);
