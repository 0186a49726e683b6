-- Thread messages: what the user sees. A row is never changed, except for the metadata of a tool call's message and of
-- a message that is rolled back, and for the error message of a run, which has the id of the run.
create table houston.messages (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null,
    -- the position of its event, and the transaction that wrote it, see houston.events
    seq bigint not null,
    xid bigint not null default (pg_current_xact_id()::text::bigint),
    -- 'system': posted by Houston, and read by the agent like a message of the user
    source text not null check (source in ('user', 'agent', 'error', 'system')),
    message_type text not null check (message_type in ('text', 'tool')),
    content text not null,
    metadata jsonb not null default '{}',
    -- the run it belongs to: another one than when it was posted, if that one ended without having read it
    run_id uuid not null,
    created_at timestamptz not null default clock_timestamp(),
    unique (agentable_id, seq)
);
create index messages_by_transaction on houston.messages using brin (xid) with (autosummarize = on);

-- Durable events that do not follow from other rows. The event stream of an agentable consists of these and of
--   message_posted, message_sent   a row of houston.messages, at its seq
--   run_queued                     a row of houston.runs, at first_seq
--   attempt_started, the first     the same, at started_seq
--   run_finished                   the same, at last_seq
-- A row here takes precedence: the writer of an event stores it unless exactly this event follows from what is written
-- with it (`houston_domain::event::derived`). Positions have no gap; they are handed out under the lock of the agentable's
-- row in houston.run_locks.
--
-- An event of whichever agentable is found by the transaction that wrote it: xid here and in houston.messages, first_xid,
-- started_xid and last_xid in houston.runs. A reader of all events remembers a snapshot, and reads what has become
-- visible since (`houston_store::event::EventPosition`). Positions in time, or in a sequence, would miss what commits late. The
-- columns are bigint, not xid8, because BRIN indexes have no operators for xid8; such an index costs a write nothing.
create table houston.events (
    agentable_id uuid not null,
    seq bigint not null,
    xid bigint not null default (pg_current_xact_id()::text::bigint),
    tenant_id uuid not null,
    run_id uuid not null,
    epoch bigint not null,
    message_id uuid,
    data jsonb not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (agentable_id, seq)
);
create index events_by_transaction on houston.events using brin (xid) with (autosummarize = on);
