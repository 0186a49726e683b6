-- Closes the open session of an agentable. p_reason is 'feed_generation_complete', 'reset' or 'session_timeout'. Runs
-- in the caller's transaction, which holds the agentable's lock row from here on: a message that is posted meanwhile
-- waits for that row and begins the next session.
--
-- Returns
--   'closed'    the session is closed, with the id p_session, or a new id
--   'deferred'  a run has written into the session; it is closed after that run and before the next one
--   'nothing'   all entries are in closed sessions
--
-- The caller checks whether the agentable's kind archives sessions. Raises HO404 when the agentable does not exist.
create or replace function houston.close_session(
    p_agentable uuid, p_reason text, p_session uuid default null
) returns text language plpgsql as $$
declare
    l houston.run_locks;
begin
    if p_reason is null or p_reason not in ('session_timeout', 'feed_generation_complete', 'reset') then
        raise exception 'the reason is %: session_timeout, feed_generation_complete and reset are allowed',
              coalesce(quote_literal(p_reason), 'null') using errcode = 'HO422';
    end if;
    select k.* into l from houston.run_locks k where k.agentable_id = p_agentable for no key update;
    if not found then
        raise exception 'agentable % not found', p_agentable using errcode = 'HO404';
    end if;
    -- A run that was never claimed has read nothing: its messages begin the next session.
    if l.holder is not null
       or (l.run_open and exists (select from houston.runs r where r.id = l.run_id and r.attempt > 0)) then
        insert into houston.session_states as s (agentable_id, tenant_id, look_at, close_reason)
        values (p_agentable, l.tenant_id, clock_timestamp(), p_reason)
        on conflict (agentable_id) do update set look_at = excluded.look_at, close_reason = excluded.close_reason;
        return 'deferred';
    end if;
    return case when houston.fold_session(p_agentable, l.last_position, p_reason,
                                          coalesce(p_session, houston.id_beside(p_agentable)))
                then 'closed' else 'nothing' end;
end;
$$;
