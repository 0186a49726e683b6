-- The history of each agentable: what its model reads, except entries that were rolled back.
create table houston.history (
    agentable_id uuid not null,
    position bigint not null,
    tenant_id uuid not null,
    run_id uuid not null,
    -- 0: the entry was imported or copied from another conversation
    epoch bigint not null,
    -- the position of the message whose text is the entry's only block; so that a text is stored once
    message_seq bigint,
    created_at timestamptz not null default clock_timestamp(),
    role text not null check (role in ('user', 'assistant')),
    -- its run was rolled back; the row stays so that its position is not handed out again
    rolled_back boolean not null default false,
    -- the blocks, unless they are in a message
    content jsonb,
    primary key (agentable_id, position),
    constraint history_content check ((content is null) = (message_seq is not null))
);

-- The history with the texts of messages. The text of a message never changes, except that of an error message, which no
-- entry refers to.
create view houston.entries as
select h.agentable_id, h.position, h.tenant_id, h.run_id, h.epoch, h.role, h.rolled_back, h.created_at,
       coalesce(h.content,
                (select jsonb_build_array(jsonb_build_object('type', 'text', 'text', m.content))
                   from houston.messages m where m.agentable_id = h.agentable_id and m.seq = h.message_seq)) as content
  from houston.history h;

-- A view reads with the rights of its owner unless it says so: then row-level security (crates/store/src/row_security.sql)
-- would not apply to what is read through it.
alter view houston.entries set (security_invoker = true);

-- Compressions: summaries of the beginning of a long session. A run reads the newest one and the entries after it. The
-- summarised entries are kept for people.
create table houston.compressions (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- the run that wrote it, and the position of that run's first entry: a rollback of the run also discards the
    -- compression if it summarises entries of the run
    run_id uuid not null,
    run_position bigint not null,
    -- its session begins after this position
    session_position bigint not null,
    -- it replaces the entries of the session up to this position
    through_position bigint not null,
    summary text not null,
    -- 'budget': the session was longer than budget_tokens; 'context_length': longer than the model accepted
    reason text not null,
    -- what was sent to the model before and after
    entries_before integer not null,
    entries_after integer not null,
    tokens_before bigint not null,
    tokens_after bigint not null,
    -- the model that wrote the summary; null: it is an extract
    model text,
    -- in US dollars; null: unknown
    cost numeric,
    created_at timestamptz not null default clock_timestamp(),
    untrusted boolean not null default false
);

-- The newest one of a session, for a run.
create index compressions_by_position on houston.compressions (agentable_id, through_position, id);
-- All of an agentable, for people.
create index compressions_by_agentable on houston.compressions (agentable_id, id);

-- Closed sessions: stretches of a history. Closing one moves `run_locks.session_position` and inserts a row here; no
-- entry is copied or changed, so the duration does not depend on the number of entries.
create table houston.sessions (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- counts the sessions of the agentable, from 1
    number integer not null,
    -- its first and last entry, and when they were written
    first_position bigint not null,
    last_position bigint not null,
    started_at timestamptz not null,
    completed_at timestamptz not null,
    completion_reason text not null
        check (completion_reason in ('session_timeout', 'feed_generation_complete', 'reset')),
    closed_at timestamptz not null default clock_timestamp(),
    -- an extract of what the user wrote, until a model has written a summary
    summary text not null,
    summarised_by text not null default 'extract' check (summarised_by in ('extract', 'model')),
    -- counted when the summary is written
    message_count integer,
    token_count bigint,
    -- when a worker should write the summary; null: it is written
    summary_due_at timestamptz default clock_timestamp(),
    summary_attempts integer not null default 0,
    -- what searches of sessions look for, see houston.session_vector. Written together with the summary and not
    -- before, because each update of the row would index it again
    search tsvector,
    -- Sessions in which it was read, once a model has summarised them.
    untrusted boolean not null default false,
    unique (agentable_id, number)
);
create index sessions_unsummarised on houston.sessions (summary_due_at) where summary_due_at is not null;
-- By tenant: tenants take turns.
create index sessions_unsummarised_of_tenant on houston.sessions (tenant_id, summary_due_at) where summary_due_at is not null;
-- One index for the words of all agentables. Each vector contains its agentable's id as a word, so a search reads
-- entries of one agentable only. (An index on agentable and words would need the extension btree_gin, which not every
-- Postgres has.)
create index sessions_by_words on houston.sessions using gin (search) with (fastupdate = off);
create index sessions_by_time on houston.sessions (agentable_id, completed_at);

-- The state of each agentable's sessions, and when the sweep must check whether the open session is over. The row
-- changes once per session and not once per run. It is not part of `run_locks`, so that updates there stay HOT.
create table houston.session_states (
    -- No foreign key, as in houston.runs: rows are written under the lock of the agentable's row in houston.run_locks.
    agentable_id uuid primary key,
    tenant_id uuid not null,
    -- the number of the latest closed session, and of the latest one that was reported in the event stream
    last_number integer not null default 0,
    reported_number integer not null default 0,
    -- the open session cannot be over earlier; null: no session is open
    look_at timestamptz,
    -- a request to close the session, for this reason, as soon as no run prevents it
    close_reason text
) with (fillfactor = 70);
create index session_states_due on houston.session_states (look_at) where look_at is not null;
