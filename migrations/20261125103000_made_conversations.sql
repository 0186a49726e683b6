-- Conversations that agents have made for their user: one row each, beside the agentable. Read only by a run that makes one:
-- for the limits on how many there may be.
create table houston.made_conversations (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    user_id uuid not null references houston.users on delete cascade,
    -- the run that made it
    from_run uuid not null,
    created_at timestamptz not null default clock_timestamp()
);

-- How many a run has made.
create index made_conversations_by_run on houston.made_conversations (from_run);
-- Those of a user within an hour.
create index made_conversations_by_user on houston.made_conversations (user_id, created_at);

-- Both kinds of rows are deleted by age.
create index made_conversations_by_age on houston.made_conversations (created_at);
create index agent_messages_by_age on houston.agent_messages (created_at);
