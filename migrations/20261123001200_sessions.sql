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
    -- what houston.search_sessions looks for, see houston.session_vector. Written together with the summary and not
    -- before, because each update of the row would index it again
    search tsvector,
    unique (agentable_id, number)
);

create index sessions_unsummarised on houston.sessions (summary_due_at) where summary_due_at is not null;
-- One index for the words of all agentables. Each vector contains its agentable's id as a word, so a search reads
-- entries of one agentable only. (An index on agentable and words would need the extension btree_gin, which not every
-- Postgres has.)
create index sessions_by_words on houston.sessions using gin (search) with (fastupdate = off);
create index sessions_by_time on houston.sessions (agentable_id, completed_at);

-- The state of each agentable's sessions, and when the sweep must check whether the open session is over. The row
-- changes once per session and not once per run. It is not part of `run_locks`, so that updates there stay HOT.
create table houston.session_states (
    agentable_id uuid primary key references houston.agentables on delete cascade,
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
