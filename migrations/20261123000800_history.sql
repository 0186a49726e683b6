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
