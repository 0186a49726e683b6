-- Feeds: when each user's next feed is due, and the latest one.
create table houston.feeds (
    user_id uuid primary key references houston.users on delete cascade,
    tenant_id uuid not null,
    -- '-infinity': the user is new, and the time was not computed yet for their time zone
    due_at timestamptz not null default '-infinity',
    -- the run of the latest feed, and the time it covers
    run_id uuid,
    from_at timestamptz,
    to_at timestamptz
);

create index feeds_due on houston.feeds (due_at);

-- Check-ins: times at which agents wake themselves, or are woken over the API.
create table houston.check_ins (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- the run that scheduled it; null: it was scheduled over the API
    run_id uuid,
    reason text not null,
    -- the requested time, and when it is tried: later while the agent is busy
    wanted_at timestamptz not null,
    due_at timestamptz not null,
    created_at timestamptz not null default clock_timestamp()
);

create index check_ins_due on houston.check_ins (due_at);
create index check_ins_by_agentable on houston.check_ins (agentable_id, id);
