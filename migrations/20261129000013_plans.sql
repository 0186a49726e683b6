-- A plan: an agentable whose run is driven by a graph of steps instead of a model.
create table houston.plans (
    agentable_id uuid primary key references houston.agentables on delete cascade,
    tenant_id uuid not null,
    user_id uuid not null references houston.users,
    -- the agentable it was made for, and its run that made it; null: it was made by a request
    parent_id uuid not null references houston.agentables on delete cascade,
    parent_run_id uuid,
    -- whether that run waits for it
    attached boolean not null,
    -- number of the document that is in force, and the document
    version integer not null default 1,
    document jsonb not null,
    input jsonb not null,
    -- how often it was changed because a step had failed
    replans integer not null default 0,
    -- calls of tools and models so far
    calls integer not null default 0,
    paused boolean not null default false,
    deadline_at timestamptz not null,
    -- how often something other than its own run has changed it or its steps
    changes bigint not null default 0,
    -- the run of the parent whose stream has the whole list of steps
    listed_in uuid,
    output jsonb,
    created_at timestamptz not null default now(),
    ended_at timestamptz
);
create index plans_by_user on houston.plans (user_id);
create index plans_by_parent on houston.plans (parent_id, agentable_id);
-- Those that a run waits for.
create index plans_attached on houston.plans (parent_run_id) where attached and ended_at is null;
-- For the health monitor: plans that have not ended.
create index plans_open on houston.plans (agentable_id) where ended_at is null;

-- The documents of a plan, and why each was made.
create table houston.plan_versions (
    plan_id uuid not null references houston.plans on delete cascade,
    tenant_id uuid not null,
    version integer not null,
    document jsonb not null,
    reason text not null,
    created_at timestamptz not null default now(),
    primary key (plan_id, version)
);

-- The steps that have begun or settled, by their path. A step without a row is pending.
create table houston.plan_steps (
    plan_id uuid not null references houston.plans on delete cascade,
    tenant_id uuid not null,
    path text not null,
    -- the state: see `houston_domain::plan::State`
    state jsonb not null,
    status text not null generated always as (state ->> 'status') stored,
    attempt integer not null generated always as ((state ->> 'attempt')::integer) stored,
    -- the executor that works on it
    task_id uuid,
    -- what the executor returned, until the plan's run has taken it over
    outcome jsonb,
    -- the question that it asks
    question_id uuid,
    started_at timestamptz,
    ended_at timestamptz,
    primary key (plan_id, path)
) with (fillfactor = 70);
create index plan_steps_by_task on houston.plan_steps (task_id) where task_id is not null;
