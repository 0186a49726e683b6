-- What model calls cost, in US dollars. A null is a cost nobody knows. Sums hold what is known, and say beside it of
-- how many calls nothing is.
create table houston.model_calls (
    run_id uuid not null,
    -- the step that took its answer: a call whose step was never committed has no row
    write_id uuid not null,
    tenant_id uuid not null,
    agentable_id uuid not null,
    iteration integer not null,
    provider text not null,
    model text not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cache_read_tokens bigint not null,
    cache_write_tokens bigint not null,
    reasoning_tokens bigint not null,
    cost numeric,
    -- the provider itself said what it cost
    reported boolean not null,
    created_at timestamptz not null,
    primary key (run_id, write_id)
);

-- Of what is there already nobody knows what it cost: null. What is made from now on has cost nothing yet.
alter table houston.runs add column unpriced_calls integer not null default 0;
alter table houston.runs alter column cost set default 0;
alter table houston.agentables add column cost numeric, add column unpriced_calls integer not null default 0;
alter table houston.agentables alter column cost set default 0;
alter table houston.users add column unpriced_calls integer not null default 0;
alter table houston.users alter column total_llm_cost drop not null;
update houston.users set total_llm_cost = null where total_llm_cost = 0;

-- What each user spent on each day, UTC.
create table houston.spending (
    user_id uuid not null,
    day date not null,
    tenant_id uuid not null,
    cost numeric,
    model_calls integer not null,
    unpriced_calls integer not null,
    primary key (user_id, day)
) with (fillfactor = 50);

-- Counts a call in the transaction of its step, behind the fence: the caller has committed the step in the same
-- statement, and holds the lock of the agentable. Steps of one user take turns from here to their commit.
-- p_call: provider, model, iteration, usage (with its cost, if it is known), reported.
create function houston.count_call(
    p_agentable uuid, p_run uuid, p_write uuid, p_at timestamptz, p_call jsonb
) returns boolean language plpgsql as $$
declare
    v_usage jsonb := p_call->'usage';
    v_cost numeric := (v_usage->>'cost')::numeric;
    v_unpriced integer := (v_cost is null)::integer;
    v_tenant uuid;
    v_user uuid;
begin
    update houston.agentables a
       set cost = case when v_cost is null then a.cost else coalesce(a.cost, 0) + v_cost end,
           unpriced_calls = a.unpriced_calls + v_unpriced
     where a.id = p_agentable
    returning a.tenant_id, a.user_id into v_tenant, v_user;
    update houston.runs r
       set cost = case when v_cost is null then r.cost else coalesce(r.cost, 0) + v_cost end,
           unpriced_calls = r.unpriced_calls + v_unpriced
     where r.id = p_run;
    insert into houston.model_calls (run_id, write_id, tenant_id, agentable_id, iteration, provider, model,
                                     input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
                                     reasoning_tokens, cost, reported, created_at)
    values (p_run, p_write, v_tenant, p_agentable, (p_call->>'iteration')::integer, p_call->>'provider',
            p_call->>'model', (v_usage->>'input_tokens')::bigint, (v_usage->>'output_tokens')::bigint,
            (v_usage->>'cache_read_tokens')::bigint, (v_usage->>'cache_write_tokens')::bigint,
            (v_usage->>'reasoning_tokens')::bigint, v_cost, (p_call->>'reported')::boolean, p_at);
    -- Last: these rows are the user's, and others wait for them.
    update houston.users u
       set total_llm_cost = case when v_cost is null then u.total_llm_cost
                                 else coalesce(u.total_llm_cost, 0) + v_cost end,
           unpriced_calls = u.unpriced_calls + v_unpriced
     where u.id = v_user;
    insert into houston.spending as s (user_id, day, tenant_id, cost, model_calls, unpriced_calls)
    values (v_user, (p_at at time zone 'UTC')::date, v_tenant, v_cost, 1, v_unpriced)
    on conflict (user_id, day) do update
       set cost = case when v_cost is null then s.cost else coalesce(s.cost, 0) + v_cost end,
           model_calls = s.model_calls + 1,
           unpriced_calls = s.unpriced_calls + v_unpriced;
    return true;
end;
$$;
