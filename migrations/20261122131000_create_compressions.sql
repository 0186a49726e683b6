-- What stands for the beginning of a long session: a run that starts reads the newest of them and the entries after it.
-- The entries themselves stay where they are, for people.
create table houston.compressions (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- the run that made it, and the position of that run's first entry: when the run is rolled back, so is this, if it
    -- tells of anything the run did
    run_id uuid not null,
    run_position bigint not null,
    -- the session it belongs to begins after this position
    session_position bigint not null,
    -- it stands for the entries of the session up to this position
    through_position bigint not null,
    summary text not null,
    -- why: 'budget' (longer than budget_tokens allow), 'context_length' (longer than the model took)
    reason text not null,
    -- what was sent to the model before, and what after it
    entries_before integer not null,
    entries_after integer not null,
    tokens_before bigint not null,
    tokens_after bigint not null,
    -- who wrote it; null: nobody, it is an extract
    model text,
    -- what that cost in US dollars; null: nobody knows
    cost numeric,
    created_at timestamptz not null default clock_timestamp()
);

-- The newest of a session, for a run; and all of an agentable, for people.
create index compressions_by_position on houston.compressions (agentable_id, through_position, id);
create index compressions_by_agentable on houston.compressions (agentable_id, id);
