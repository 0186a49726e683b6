-- The lasting yes of people: calls that they cover are not asked about again. Written with the answer that gives one, read
-- by a run only when it would ask.
create table houston.grants (
    -- that of the question that was answered
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users on delete cascade,
    -- null: it holds for all of the user's agentables
    agentable_id uuid references houston.agentables on delete cascade,
    -- the name of the tool
    tool text not null,
    -- JSON pointers into the arguments, and what they must be
    conditions jsonb not null default '{}',
    -- the pin of the tool's definition at that time; the grant is void for a tool with another one
    pin text,
    granted_by text,
    created_at timestamptz not null default clock_timestamp()
);

-- The grants of a user.
create index grants_by_user on houston.grants (user_id, id);
-- The grants of an agentable that is deleted.
create index grants_by_agentable on houston.grants (agentable_id) where agentable_id is not null;
