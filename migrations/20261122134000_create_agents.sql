-- Agents are named configurations of a tenant's: what its kind's file says, changed. Each kind has a default one per
-- tenant, made when the tenant first asks for its agents; where there is none, workers go by the file.
create table houston.agents (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    kind text not null,
    name text not null,
    -- of the file of its kind
    is_default boolean not null default false,
    -- somebody changed what the file says: from then on it is followed no more
    changed boolean not null default false,
    enabled boolean not null default true,
    -- description, role, guidelines, tools, use_case, provider, model, limits
    settings jsonb not null,
    -- rises with each change: what workers keep of an agent is of one version
    version bigint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    unique (tenant_id, name)
);

create index agents_by_tenant on houston.agents (tenant_id, id);
-- Each run asks it. The last of the three that begin with the tenant: where a plan knows no tenant, all seem equally
-- good, and Postgres takes the newest.
create unique index agents_default on houston.agents (tenant_id, kind) where is_default;

-- Agents of one kind and how one of them is picked for a run.
create table houston.teams (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    kind text not null,
    name text not null,
    description text not null default '',
    -- {by, rules}
    router jsonb not null,
    version bigint not null default 1,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp(),
    unique (tenant_id, name)
);

create index teams_by_tenant on houston.teams (tenant_id, id);

create table houston.team_agents (
    team_id uuid not null references houston.teams on delete cascade,
    -- from 1, as listed
    position integer not null,
    agent_id uuid not null references houston.agents,
    -- who answers when nobody else is picked
    is_fallback boolean not null default false,
    primary key (team_id, position),
    unique (team_id, agent_id)
);

create index team_agents_by_agent on houston.team_agents (agent_id);

-- Who answers for an agentable: an agent, a team, or (neither) the default agent of its kind.
alter table houston.agentables
    add column agent_id uuid references houston.agents,
    add column team_id uuid references houston.teams,
    add constraint agentables_served_by_one check (agent_id is null or team_id is null);

create index agentables_by_agent on houston.agentables (agent_id, id) where agent_id is not null;
create index agentables_by_team on houston.agentables (team_id, id) where team_id is not null;

-- An agent as a worker reads it.
create function houston.agent_read(a houston.agents) returns text language sql stable as $$
    select jsonb_build_object('name', a.name, 'version', a.version, 'enabled', a.enabled,
                              'follows_file', a.is_default and not a.changed, 'settings', a.settings)::text
$$;

-- Who may answer a run, as rows of the statement that reads its context:
--   'agent'   the agent its agentable names, or the default one of its kind; no row: the file of the kind holds
--   'routed'  the agent its team's router picked for this run: what was picked stands in the run's events
--   'team' and 'team_agent'  a team whose router has not picked yet, and its agents in their order
create function houston.serving(p_agentable uuid, p_run uuid)
returns table (what text, place bigint, definition text, id uuid) language plpgsql stable as $$
#variable_conflict use_column
declare
    o record;
begin
    select k.tenant_id, k.kind, k.agent_id, k.team_id into o from houston.agentables k where k.id = p_agentable;
    if o.team_id is not null then
        return query
        select 'routed', 0::bigint, houston.agent_read(a), a.id
          from houston.runs r
         cross join lateral (
               select replace(e.data->>'agent_id', 'agent_', '')::uuid as agent_id from houston.events e
                where e.agentable_id = p_agentable and e.seq >= r.first_seq and e.run_id = p_run
                  and e.data->>'type' = 'team_routed'
                order by e.seq limit 1) as picked
          join houston.agents a on a.id = picked.agent_id
         where r.id = p_run;
        if not found then
            return query
            select 'team', 0::bigint,
                   jsonb_build_object('name', t.name, 'version', t.version, 'router', t.router,
                                      'fallback', (select m.position from houston.team_agents m
                                                    where m.team_id = t.id and m.is_fallback))::text, t.id
              from houston.teams t where t.id = o.team_id;
            return query
            select 'team_agent', m.position::bigint, houston.agent_read(a), a.id
              from houston.team_agents m join houston.agents a on a.id = m.agent_id
             where m.team_id = o.team_id;
        end if;
    elsif o.agent_id is not null then
        return query
        select 'agent', 0::bigint, houston.agent_read(a), a.id from houston.agents a where a.id = o.agent_id;
    else
        return query
        select 'agent', 0::bigint, houston.agent_read(a), a.id from houston.agents a
         where a.tenant_id = o.tenant_id and a.kind = o.kind and a.is_default;
    end if;
end;
$$;
