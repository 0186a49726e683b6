-- What tools answered at length: the history holds its beginning and names this row, `read_result` reads on.
create table houston.tool_results (
    id uuid primary key,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- the agentable that one works for: it may read what its sub-agents were answered
    parent_id uuid,
    run_id uuid not null,
    call_id text not null,
    tool text not null,
    content text not null,
    created_at timestamptz not null default clock_timestamp()
);

create index tool_results_by_agentable on houston.tool_results (agentable_id, id);
create index tool_results_by_parent on houston.tool_results (parent_id, id) where parent_id is not null;
