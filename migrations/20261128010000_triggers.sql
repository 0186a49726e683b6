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
    -- the hour of its limit: when it began, and how often it has fired since
    hour_at timestamptz,
    hour_count integer not null default 0,
    -- events before this time are not heard
    created_at timestamptz not null,
    updated_at timestamptz not null
);

create index triggers_by_user on houston.triggers (user_id, id);
create index triggers_by_agentable on houston.triggers (agentable_id);
create index triggers_due on houston.triggers (next_at) where enabled and next_at is not null;
-- Those that hear events.
create index triggers_hearing on houston.triggers (tenant_id) where enabled and next_at is null;

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
create index trigger_firings_by_time on houston.trigger_firings (created_at);

-- Which triggers caused a run, so that none hears what it has caused itself; null: none.
alter table houston.runs add column trigger_chain uuid[], add column trigger_depth smallint;
alter table houston.runs drop constraint runs_mode_check;
alter table houston.runs add constraint runs_mode_check
    check (mode in ('feed_generation', 'agent_check_in', 'trigger')) not valid;
