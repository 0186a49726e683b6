create table houston.notes (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables,
    run_id uuid not null,
    title text not null,
    content text not null,
    created_at timestamptz not null default clock_timestamp()
);

create index notes_by_agentable on houston.notes (agentable_id, id);

-- What an agent learnt about its user or its aim.
create table houston.learnings (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables,
    content text not null,
    created_at timestamptz not null default clock_timestamp(),
    updated_at timestamptz not null default clock_timestamp()
);

create index learnings_by_agentable on houston.learnings (agentable_id, id);
