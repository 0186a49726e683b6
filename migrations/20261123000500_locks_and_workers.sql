-- Worker processes: one row per process. The lease belongs to the process and not to each lock, so one small update
-- renews it for any number of runs. A row that was reaped is never used again.
create table houston.workers (
    id uuid primary key,
    name text not null,
    started_at timestamptz not null default clock_timestamp(),
    beat_at timestamptz not null default clock_timestamp(),
    -- the end of the lease
    alive_until timestamptz not null
) with (fillfactor = 50);

-- The lock of each agentable, and the counters that are changed under it. The row is narrow and updated in place (HOT):
-- of what a run changes, only `wake` is in an index. Columns that a post changes come before those that a claim changes, for
-- the reason given at houston.runs.
create table houston.run_locks (
    agentable_id uuid primary key references houston.agentables,
    tenant_id uuid not null,
    user_id uuid not null,
    -- history entries up to this position belong to closed sessions
    session_position bigint not null default 0,
    -- until when a retry waits (`wake` is set), or a run that waits for something else (`wake` is not)
    next_attempt_at timestamptz,
    -- when `wake` was last set for a reason without an event of its own: a cancel, a crash, the health monitor
    woken_at timestamptz,
    failed_attempts integer not null default 0,
    -- number of tasks this agentable waits for
    open_tasks integer not null default 0,
    -- workers that died while they held the run, and claims of it that failed, since its last committed step
    died_with uuid[] not null default '{}',
    -- since when it waits; the order among the agentables of one user
    waiting_since timestamptz not null default clock_timestamp(),
    due_at timestamptz not null generated always as (greatest(waiting_since, next_attempt_at)) stored,
    -- the open run, or the latest one
    run_id uuid,
    -- the last event and the last history entry: positions are handed out under this row's lock
    last_seq bigint not null default 0,
    last_position bigint not null default 0,
    -- number of unread messages; only for limits, never to decide whether there is something to read
    unread integer not null default 0,
    -- claims in a row without a committed step
    crash_count integer not null default 0,
    run_open boolean not null default false,
    -- the agentable has a reason to run: set by the transaction that stores the reason, cleared by the run that read it
    wake boolean not null default false,
    -- the latest committed step, so that a repeated commit is recognised
    last_write_id uuid,
    -- the worker that holds the lock
    holder uuid,
    -- the fence: a write is refused unless it names the current epoch and token
    run_token uuid,
    epoch bigint not null default 0,
    -- messages up to this position have entered the history
    read_seq bigint not null default 0,
    -- sum of the calls with a price, in US dollars; null: unknown. Here, because the step that makes a call changes this
    -- row anyway.
    cost numeric default 0,
    -- number of calls without a price
    unpriced_calls integer not null default 0
) with (fillfactor = 50);

-- Waiting agentables of each user, in their order. Its columns change only together with `wake`, so all other updates
-- of the row are HOT.
create index run_locks_awake on houston.run_locks (user_id, due_at) where wake;
-- Runs that go on by themselves at a time.
create index run_locks_until on houston.run_locks (next_attempt_at) where next_attempt_at is not null and not wake;
-- Runs that workers died with: few rows, if any. A worker that was declared dead but is alive is removed from them.
create index run_locks_suspects on houston.run_locks (agentable_id) where died_with <> '{}';
