-- What runs at a time of its own: feeds, one row per user, and check-ins, which agents set for themselves. Both are
-- found by when they are due; who has nothing due costs nothing.

create table houston.feeds (
    user_id uuid primary key references houston.users on delete cascade,
    tenant_id uuid not null,
    -- the next one; '-infinity': a user so new that nobody has worked it out in their time zone yet
    due_at timestamptz not null default '-infinity',
    -- the latest one: its run, and the time it tells of
    run_id uuid,
    from_at timestamptz,
    to_at timestamptz
);

create index feeds_due on houston.feeds (due_at);

insert into houston.feeds (user_id, tenant_id) select id, tenant_id from houston.users;

create table houston.check_ins (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- the run that set it; null: the API did
    run_id uuid,
    reason text not null,
    -- when it was wanted, and when it is tried: later, while its agent is busy
    wanted_at timestamptz not null,
    due_at timestamptz not null,
    created_at timestamptz not null default clock_timestamp()
);

create index check_ins_due on houston.check_ins (due_at);
create index check_ins_by_agentable on houston.check_ins (agentable_id, id);
