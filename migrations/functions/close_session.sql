-- Closes the open session of an agentable. p_reason is 'feed_generation_complete', 'reset' or 'session_timeout'. Runs
-- in the caller's transaction, which holds the agentable's lock row from here on: a message that is posted meanwhile
-- waits for that row and begins the next session.
--
-- p_last: for a caller that knows that no run has written after that entry; the session ends with it.
--
-- Returns
--   'closed'    the session is closed, with the id p_session, or a new id
--   'deferred'  a run has written into the session; it is closed after that run and before the next one
--   'nothing'   all entries are in closed sessions: of two concurrent calls the second finds nothing
--
-- The caller checks whether the agentable's kind archives sessions. Raises HO404 when the agentable does not exist.
create or replace function houston.close_session(
    p_agentable uuid, p_reason text, p_session uuid default null, p_last bigint default null
) returns text language plpgsql as $$
declare
    l houston.run_locks;
    v_first record;
    v_last record;
begin
    select k.* into l from houston.run_locks k where k.agentable_id = p_agentable for no key update;
    if not found then
        raise exception 'agentable % not found', p_agentable using errcode = 'HO404';
    end if;
    -- A run that was never claimed has read nothing: its messages begin the next session.
    if p_last is null and (l.holder is not null or l.run_open and exists (
            select from houston.runs r where r.id = l.run_id and r.attempt > 0)) then
        insert into houston.session_states as s (agentable_id, tenant_id, look_at, close_reason)
        values (p_agentable, l.tenant_id, clock_timestamp(), p_reason)
        on conflict (agentable_id) do update set look_at = excluded.look_at, close_reason = excluded.close_reason;
        return 'deferred';
    end if;
    p_last := coalesce(p_last, l.last_position);
    select h.position, h.created_at into v_first from houston.history h
     where h.agentable_id = p_agentable and h.position > l.session_position and h.position <= p_last
     order by h.position limit 1;
    if not found then
        return 'nothing';
    end if;
    select h.created_at into v_last from houston.history h
     where h.agentable_id = p_agentable and h.position <= p_last order by h.position desc limit 1;
    with s as (
        insert into houston.session_states as s (agentable_id, tenant_id, last_number)
        values (p_agentable, l.tenant_id, 1)
        on conflict (agentable_id) do update set last_number = s.last_number + 1, look_at = null, close_reason = null
        returning s.last_number)
    insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                  completed_at, completion_reason, summary)
    select coalesce(p_session, houston.id_beside(p_agentable)), l.tenant_id, p_agentable, s.last_number,
           v_first.position, p_last, v_first.created_at, v_last.created_at, p_reason,
           houston.session_extract(p_agentable, l.session_position, p_last) from s;
    update houston.run_locks k set session_position = p_last where k.agentable_id = p_agentable;
    return 'closed';
end;
$$;
