-- Conversations as clients of other protocols name them: the same user, target and thread id always find the same agentable.
create table houston.client_threads (
    user_id uuid not null,
    -- a kind, or the id of an agent
    target text not null,
    -- what the client calls the conversation
    thread text not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    tenant_id uuid not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (user_id, target, thread)
);

-- The threads of an agentable that is deleted.
create index client_threads_by_agentable on houston.client_threads (agentable_id);
