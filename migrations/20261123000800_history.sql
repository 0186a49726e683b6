-- The history of each agentable: what its model reads, except entries that were rolled back.
create table houston.history (
    agentable_id uuid not null,
    position bigint not null,
    tenant_id uuid not null,
    run_id uuid not null,
    -- 0: the entry was imported or copied from another conversation
    epoch bigint not null,
    role text not null check (role in ('user', 'assistant')),
    content jsonb not null,
    -- its run was rolled back; the row stays so that its position is not handed out again
    rolled_back boolean not null default false,
    created_at timestamptz not null default clock_timestamp(),
    primary key (agentable_id, position)
);

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
    created_at timestamptz not null default clock_timestamp()
);

-- The newest one of a session, for a run.
create index compressions_by_position on houston.compressions (agentable_id, through_position, id);
-- All of an agentable, for people.
create index compressions_by_agentable on houston.compressions (agentable_id, id);
