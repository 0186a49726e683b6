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

-- Triggers: at a time, at a word or at an event, an agentable gets a message. The row belongs to that agentable.
create table houston.triggers (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    -- who gets the message
    agentable_id uuid not null references houston.agentables on delete cascade,
    name text not null,
    -- what the agent reads first
    instructions text not null,
    -- the text of a `houston_domain::trigger::When`
    rule jsonb not null,
    -- of cron: when it is due next. Who moves it fires, in the same transaction.
    next_at timestamptz,
    enabled boolean not null default true,
    -- how often it has fired, and how often it was refused, and why the last time
    fired bigint not null default 0,
    refused bigint not null default 0,
    refusal text,
    last_at timestamptz,
    -- events before this time are not heard
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- Triggers that start tasks, conditions that fail, and what became of the last firings.
    -- the task that it starts, a `houston_domain::trigger::effect::TriggerTask`; null: it posts a message
    task jsonb,
    -- its limit, as in houston.rates: when no earlier firing counts any more
    free_at timestamptz,
    -- what became of it the last times, the latest first: `houston_domain::trigger::effect::Firing`
    firings jsonb not null default '[]',
    -- What is evaluated of a trigger could end the process. The mark stays when it does.
    -- When the evaluation that runs has ended, or its process is dead.
    evaluated_until timestamptz,
    -- Which process evaluates it, by the end of the ids of its workers: while one of them lives, the process does.
    evaluated_by text,
    -- How many processes have died while they evaluated it.
    deaths smallint not null default 0
);
create index triggers_by_user on houston.triggers (user_id, id);
create index triggers_by_agentable on houston.triggers (agentable_id);
create index triggers_due on houston.triggers (next_at) where enabled and next_at is not null;
-- Those that hear events.
create index triggers_hearing on houston.triggers (tenant_id) where enabled and next_at is null;
-- Those of the users who have new events, however many triggers there are.
create index triggers_hearing_by_user on houston.triggers (user_id) where enabled and next_at is null;
-- What is due next in a tenant, for people; triggers of events, which have no time, come last.
create index triggers_due_of_tenant on houston.triggers (tenant_id, next_at) where enabled;
create index triggers_evaluated on houston.triggers (evaluated_until) where evaluated_until is not null;

-- An event that a trigger has heard. The transaction that deletes it posts the message.
create table houston.trigger_firings (
    trigger_id uuid not null,
    tenant_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    -- the event: its agentable, and its position there
    parent_id uuid not null references houston.agentables on delete cascade,
    seq bigint not null,
    topic text not null,
    cause jsonb not null,
    -- the triggers that caused the event, and how deep it is
    chain uuid[] not null,
    depth smallint not null,
    created_at timestamptz not null,
    -- an event is heard once, whatever reads it twice
    primary key (trigger_id, parent_id, seq)
);
create index trigger_firings_by_agentable on houston.trigger_firings (agentable_id);
create index trigger_firings_by_parent on houston.trigger_firings (parent_id);
-- What triggers have heard, by tenant: tenants take turns.
create index trigger_firings_of_tenant on houston.trigger_firings (tenant_id, created_at, parent_id, seq);
