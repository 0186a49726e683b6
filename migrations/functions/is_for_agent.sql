-- Whether messages of this source enter the history of the agent. The others are for people only.
create or replace function houston.is_for_agent(p_source text) returns boolean
language sql immutable parallel safe as $$
    select p_source in ('user', 'system');
$$;
