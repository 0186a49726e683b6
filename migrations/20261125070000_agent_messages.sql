-- What agents have posted to other conversations of their user: one row each, beside the message. Read only by a run that
-- posts: for the limits on what agents wake.
create table houston.agent_messages (
    -- that of the message
    message_id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users on delete cascade,
    -- the run that posted it
    from_run uuid not null,
    -- whose agent reads it
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- how many agents it has passed, its author included
    hops integer not null check (hops > 0),
    created_at timestamptz not null default clock_timestamp()
);

-- How many a run has posted.
create index agent_messages_by_run on houston.agent_messages (from_run);
-- Those of a user within an hour.
create index agent_messages_by_user on houston.agent_messages (user_id, created_at);
-- Those to an agentable that is deleted.
create index agent_messages_by_agentable on houston.agent_messages (agentable_id);
