create table houston.runs (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables,
    status text not null default 'queued',
    attempt integer not null default 0,
    epoch bigint not null default 0,
    worker_id uuid,
    -- the user, while a worker drives it
    held_for uuid,
    -- the position of its first event
    first_seq bigint not null,
    iterations integer not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cache_read_tokens bigint not null default 0,
    cache_write_tokens bigint not null default 0,
    reasoning_tokens bigint not null default 0,
    cost numeric,
    model text,
    error_code text,
    error_message text,
    -- somebody asked to cancel, when the stream stood at this position
    cancel_seq bigint,
    -- why it is to end; null: somebody wants it to
    cancel_reason text,
    created_at timestamptz not null default clock_timestamp(),
    started_at timestamptz,
    ended_at timestamptz
) with (fillfactor = 70);

-- The runs of a dead worker, and those it was asked to cancel.
create index runs_in_flight on houston.runs (worker_id) where status = 'running';
-- How many runs of one user are held: a few entries, however many wait. A column of its own, so that no other
-- index can be taken for it.
create index runs_held on houston.runs (held_for) where held_for is not null;
-- Those that wait for a worker, the oldest first; and how the latest ended. For the health monitor.
create index runs_waiting on houston.runs (created_at) where status in ('queued', 'retrying');
create index runs_ended on houston.runs (ended_at, status) where ended_at is not null;
create index runs_by_agentable on houston.runs (agentable_id, first_seq);

-- What the user sees. Never changed but for the metadata of a tool's cell, and of what was rolled back, and for
-- the error message of a run, which has the run's id.
create table houston.messages (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null,
    seq bigint not null,
    source text not null check (source in ('user', 'agent', 'error')),
    message_type text not null check (message_type in ('text', 'tool')),
    content text not null,
    metadata jsonb not null default '{}',
    run_id uuid not null,
    created_at timestamptz not null default clock_timestamp(),
    unique (agentable_id, seq)
);

-- The durable event stream of each agentable: positions without a gap, allocated under its lock row.
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

-- What the model sees: all that is not rolled back.
create table houston.history (
    agentable_id uuid not null,
    position bigint not null,
    tenant_id uuid not null,
    run_id uuid not null,
    epoch bigint not null,
    role text not null check (role in ('user', 'assistant')),
    content jsonb not null,
    -- its run was rolled back: the row stays, so that no position is handed out twice
    rolled_back boolean not null default false,
    created_at timestamptz not null default clock_timestamp(),
    primary key (agentable_id, position)
);

-- Calls of tools that act outside these tables: the row stands before the call executes (the intent), and
-- takes its response when it is back.
create table houston.tool_calls (
    run_id uuid not null,
    call_id text not null,
    agentable_id uuid not null,
    tenant_id uuid not null,
    epoch bigint not null,
    name text not null,
    effect text not null,
    message_id uuid not null,
    response jsonb,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    primary key (run_id, call_id)
);
