-- Thread messages: what the user sees. A row is never changed, except for the metadata of a tool call's message and of
-- a message that is rolled back, and for the error message of a run, which has the id of the run.
create table houston.messages (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null,
    seq bigint not null,
    -- 'system': posted by Houston, and read by the agent like a message of the user
    source text not null check (source in ('user', 'agent', 'error', 'system')),
    message_type text not null check (message_type in ('text', 'tool')),
    content text not null,
    metadata jsonb not null default '{}',
    run_id uuid not null,
    created_at timestamptz not null default clock_timestamp(),
    unique (agentable_id, seq)
);

-- Durable events: the event stream of each agentable. Positions have no gap; they are handed out under the lock of its
-- row in houston.run_locks.
create table houston.events (
    agentable_id uuid not null,
    seq bigint not null,
    tenant_id uuid not null,
    run_id uuid not null,
    epoch bigint not null,
    message_id uuid,
    data jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (agentable_id, seq)
);
