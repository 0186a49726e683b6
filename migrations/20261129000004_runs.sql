-- Worker processes: one row per process. The lease belongs to the process and not to each lock, so one small update
-- renews it for any number of runs. A row that was reaped is never used again.
create table houston.workers (
    id uuid primary key,
    name text not null,
    started_at timestamptz not null default clock_timestamp(),
    beat_at timestamptz not null default clock_timestamp(),
    -- the end of the lease
    alive_until timestamptz not null,
    -- What operators see of a worker process, and how they ask it to stop. A worker of an older release leaves these columns empty,
    -- and does not read when it is asked.
    host text,
    pid integer,
    version text,
    -- runs that it drives at once, and how many of them may be of the background
    slots integer,
    background_slots integer,
    -- when an operator asked it to drain
    drain_requested_at timestamptz,
    -- since when it claims nothing new
    draining_since timestamptz,
    -- Since when a worker has lived without a gap in its lease, if there was one: it may have slept, or not have reached Postgres.
    served_since timestamptz
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
    -- Null while it is not awake: so a message whose run is claimed at once changes nothing that is in an index.
    due_at timestamptz generated always as (case when wake then greatest(waiting_since, next_attempt_at) end) stored,
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
    unpriced_calls integer not null default 0,
    -- What is deleted by age ([retention] in jobs/health_monitor.toml), and how far that is.
    -- The events of an agentable below this position were deleted; null: none were. Set under the row's lock, together with the first
    -- deletion, so that no reader takes what is left for the whole. What follows from messages and runs stays, see houston.events.
    events_from bigint
) with (fillfactor = 50);

-- Waiting agentables of each user, in their order. Its columns change only together with `wake`, so all other updates
-- of the row are HOT.
create index run_locks_awake on houston.run_locks (user_id, due_at) where wake;
-- Runs that go on by themselves at a time.
create index run_locks_until on houston.run_locks (next_attempt_at) where next_attempt_at is not null and not wake;
-- Runs that workers died with: few rows, if any. A worker that was declared dead but is alive is removed from them.
create index run_locks_suspects on houston.run_locks (agentable_id) where died_with <> '{}';

-- Runs: one execution for an agentable, from the first unread message to an outcome. Runs of one agentable never overlap:
-- an event belongs to the run with the greatest first_seq up to its position.
--
-- Three events of a run follow from its row and are not stored in houston.events, see there: that it was queued, its
-- first attempt, and its end. What they state does not change once their position is set.
--
-- Columns that change together stand together, and those of a claim last: Postgres logs of an updated row what lies
-- between its first and its last change.
create table houston.runs (
    id uuid primary key,
    tenant_id uuid not null,
    -- No foreign key: a run is opened under the lock of the row of houston.run_locks, which refers to the agentable. A
    -- second check would lock the agentable's row, and log that, at every message that opens a run.
    agentable_id uuid not null,
    -- the position of its first event, and the transaction that wrote it, see houston.events
    first_seq bigint not null,
    first_xid bigint not null default (pg_current_xact_id()::text::bigint),
    created_at timestamptz not null default clock_timestamp(),
    -- why it was opened, unless a user's message opened it
    mode text check (mode in ('feed_generation', 'agent_check_in', 'trigger')),
    -- of a task's run: the mode of the run that created the task; for information only
    origin_type text,
    -- the last event when the cancel was requested; null: none was
    cancel_seq bigint,
    -- who or what requested the cancel; null: the user
    cancel_reason text,
    -- it is cancelled because the agentable it works for is, so its end starts no run there
    cancelled_with_parent boolean not null default false,
    -- titles of the tasks that were cancelled together with it
    cancelled_tasks text[],
    -- it has asked questions: its end closes those that are open
    asked boolean not null default false,
    -- what its driver remembers; null for runs that a model drives
    driver_state jsonb,
    tasks_started integer not null default 0,
    iterations integer not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cache_read_tokens bigint not null default 0,
    cache_write_tokens bigint not null default 0,
    reasoning_tokens bigint not null default 0,
    -- sum of the calls with a price, in US dollars; null: unknown
    cost numeric default 0,
    -- number of calls without a price
    unpriced_calls integer not null default 0,
    model text,
    error_code text,
    error_message text,
    -- the position of the event that ended it, and its transaction; null: it is open
    last_seq bigint,
    last_xid bigint,
    -- the cost that this event states, in US dollars: calls that are counted later change `cost`
    last_cost numeric,
    ended_at timestamptz,
    status text not null default 'queued',
    -- the user, while a worker holds the run
    held_for uuid,
    epoch bigint not null default 0,
    started_at timestamptz,
    -- the position of the event that began its first attempt, its transaction, and the id reserved for a message then
    started_seq bigint,
    started_xid bigint,
    started_message_id uuid,
    worker_id uuid,
    attempt integer not null default 0,
    -- the number of the slot that the run holds, among the slots of its user
    slot integer,
    -- What was counted of the user's limit of tokens when the run was admitted; its end counts the difference to what it
    -- took.
    booked_tokens bigint,
    -- Which triggers caused a run, so that none hears what it has caused itself; null: none.
    trigger_chain uuid[],
    trigger_depth smallint,
    -- Where a run belongs in a trace (W3C Trace Context): the `traceparent` of the request that opened it, if its client sent one, or of
    -- the span in which this process posted the message.
    traceparent text,
    -- The model call of the run that its provider answers later. See crates/domain/src/submission.rs.
    submission jsonb
) with (fillfactor = 50);

-- The runs of a dead worker, and those that a worker must cancel.
create index runs_in_flight on houston.runs (worker_id) where status = 'running';
-- The held runs of a user: a few entries, however many wait. held_for is a separate column so that no other index fits
-- this query. No slot is held twice, so of two claims that take the same one at once, one fails.
create unique index runs_held on houston.runs (held_for, slot) where held_for is not null;
-- Runs that wait for a worker, oldest first, and how the latest ones ended; for the health monitor.
create index runs_waiting on houston.runs (created_at) where status in ('queued', 'retrying');
create index runs_ended on houston.runs (ended_at) where ended_at is not null;
create index runs_dead_lettered on houston.runs (ended_at) where status = 'dead_lettered';
-- The events that follow from a run, by transaction.
create index runs_by_transaction on houston.runs using brin (first_xid, started_xid, last_xid) with (autosummarize = on);
create index runs_by_agentable on houston.runs (agentable_id, first_seq);
-- The runs of a tenant that failed, newest first. Runs that do not fail are in no index of a tenant: a list of all runs goes through
-- the primary key, which is by time.
create index runs_failed on houston.runs (tenant_id, id) where status in ('failed', 'dead_lettered');

-- The lanes of which no worker claims anything new, because an operator has paused them: few rows, if any.
create table houston.paused_lanes (
    lane text primary key,
    paused_at timestamptz not null default clock_timestamp()
);

-- When lanes that had been paused were resumed. What waits in one gets its time from then on.
create table houston.resumed_lanes (
    lane text primary key,
    resumed_at timestamptz not null
);
