create table houston.users (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    external_id text,
    name text not null,
    time_zone text not null default 'UTC',
    profile text not null default '',
    custom_instructions text not null default '',
    total_llm_cost numeric not null default 0,
    created_at timestamptz not null default now(),
    unique (tenant_id, external_id)
);

-- Anything an agent runs for. `kind` is the name of an agent type in jobs/agents.
create table houston.agentables (
    id uuid primary key,
    tenant_id uuid not null references houston.tenants,
    user_id uuid not null references houston.users,
    parent_id uuid references houston.agentables,
    kind text not null,
    title text not null,
    description text not null default '',
    status text,
    created_at timestamptz not null default now()
);

create index agentables_by_user on houston.agentables (user_id, id);
-- Old tasks, for the health monitor; and the sub-agents of one that is deleted.
create index agentables_by_kind on houston.agentables (kind, created_at);
create index agentables_by_parent on houston.agentables (parent_id) where parent_id is not null;
-- One user agent per user, whoever races to make it.
create unique index agentables_user_agent on houston.agentables (user_id) where kind = 'user_agent';

-- One row per incarnation of a worker process. The lease belongs to the process, not to each lock: renewing
-- it is one tiny update however many runs it holds. A reaped row never comes back.
create table houston.workers (
    id uuid primary key,
    name text not null,
    started_at timestamptz not null default clock_timestamp(),
    beat_at timestamptz not null default clock_timestamp(),
    alive_until timestamptz not null
) with (fillfactor = 50);

-- The lock of an agentable: narrow, and updated in place (no index on what a run changes but `wake`).
create table houston.run_locks (
    agentable_id uuid primary key references houston.agentables,
    tenant_id uuid not null,
    user_id uuid not null,
    -- the fence
    epoch bigint not null default 0,
    run_token uuid,
    holder uuid,
    last_write_id uuid,
    -- positions handed out under this row's lock: events, history entries
    last_seq bigint not null default 0,
    last_position bigint not null default 0,
    -- history up to here belongs to closed sessions
    session_position bigint not null default 0,
    -- user messages up to here have entered the history
    read_seq bigint not null default 0,
    -- somebody must look: set by the transaction that stores the reason, cleared by the run that has read it
    wake boolean not null default false,
    -- since when: whose turn it is among the agentables of one user
    waiting_since timestamptz not null default clock_timestamp(),
    next_attempt_at timestamptz,
    due_at timestamptz not null generated always as (greatest(waiting_since, next_attempt_at)) stored,
    -- user messages nobody has read; for counting, never for deciding whether something is unread
    unread integer not null default 0,
    -- when `wake` was last set by what has no event of its own: a cancel, a crash, the health monitor
    woken_at timestamptz,
    failed_attempts integer not null default 0,
    crash_count integer not null default 0,
    -- the open run, or the latest one
    run_id uuid,
    run_open boolean not null default false
) with (fillfactor = 50);

-- Of each user, what waits, in its order. No column in it changes but together with `wake`, which leaves every
-- other update of the row where it is (HOT).
create index run_locks_awake on houston.run_locks (user_id, due_at) where wake;
