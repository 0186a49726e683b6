-- Questions that runs ask people. A row is written with the step that asks, and closed once, under the lock of its
-- agentable (houston.run_locks), which is taken first.
create table houston.questions (
    id uuid primary key,
    tenant_id uuid not null,
    user_id uuid not null,
    agentable_id uuid not null references houston.agentables on delete cascade,
    run_id uuid not null,
    kind text not null check (kind in ('approval', 'input', 'budget')),
    -- what it is about, in the words of who asks: the id of a tool call, the path of a step
    subject text,
    text text not null,
    -- the JSON Schema of an answer; null: any JSON value
    schema jsonb,
    -- the answer that holds if no answer comes in time
    default_value jsonb,
    expires_at timestamptz,
    state text not null default 'open' check (state in ('open', 'answered', 'expired', 'superseded', 'cancelled')),
    answer jsonb,
    answered_by text,
    created_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    check ((state = 'open') = (closed_at is null))
);

-- The questions of an agentable and of its runs.
create index questions_by_agentable on houston.questions (agentable_id, id);
-- The open questions of a tenant and of a user.
create index questions_open on houston.questions (tenant_id, id) where state = 'open';
create index questions_open_by_user on houston.questions (user_id, id) where state = 'open';
-- Open questions that expire.
create index questions_expiring on houston.questions (expires_at) where state = 'open' and expires_at is not null;
