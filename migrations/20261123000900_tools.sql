-- Calls of tools that act outside these tables. The row is committed before the call starts (the intent) and gets the
-- response when the call has returned.
create table houston.tool_calls (
    run_id uuid not null,
    call_id text not null,
    agentable_id uuid not null,
    tenant_id uuid not null,
    epoch bigint not null,
    name text not null,
    effect text not null,
    message_id uuid not null,
    response jsonb,
    started_at timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    primary key (run_id, call_id)
);

-- Large results: the history contains the beginning and the id, and the tool `read_result` reads the rest. A copy of a
-- conversation keeps the ids that its texts name, so an id is unique per agentable only.
create table houston.tool_results (
    id uuid not null,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- the agentable that this one works for: it may read the results of its tasks
    parent_id uuid,
    run_id uuid not null,
    call_id text not null,
    tool text not null,
    content text not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (agentable_id, id)
);

create index tool_results_by_parent on houston.tool_results (parent_id, id) where parent_id is not null;
