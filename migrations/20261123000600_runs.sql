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
    mode text check (mode in ('feed_generation', 'agent_check_in')),
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
    slot integer
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
