-- Adds a model call to the costs, in the transaction of its step: the caller's statement has committed the step behind
-- the fence and holds the lock of the agentable. Steps of one user are serialised from here to their commit.
--
-- p_call: provider, model, iteration, usage (with its cost, if it is known), reported.
create or replace function houston.count_call(
    p_agentable uuid, p_run uuid, p_write uuid, p_at timestamptz, p_call jsonb
) returns boolean language plpgsql as $$
declare
    v_usage jsonb := p_call->'usage';
    v_cost numeric := (v_usage->>'cost')::numeric;
    v_unpriced integer := (v_cost is null)::integer;
    v_tenant uuid;
    v_user uuid;
begin
    update houston.run_locks l
       set cost = case when v_cost is null then l.cost else coalesce(l.cost, 0) + v_cost end,
           unpriced_calls = l.unpriced_calls + v_unpriced
     where l.agentable_id = p_agentable
    returning l.tenant_id, l.user_id into v_tenant, v_user;
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
    insert into houston.spending as s (user_id, day, tenant_id, cost, model_calls, unpriced_calls)
    values (v_user, (p_at at time zone 'UTC')::date, v_tenant, v_cost, 1, v_unpriced)
    on conflict (user_id, day, writer) do update
       set cost = case when v_cost is null then s.cost else coalesce(s.cost, 0) + v_cost end,
           model_calls = s.model_calls + 1,
           unpriced_calls = s.unpriced_calls + v_unpriced;
    return true;
end;
$$;
