-- Closes the open session with the entry at p_last. The caller holds the agentable's lock row and knows that no run has
-- written after that entry. Returns whether there was anything to close: of two concurrent calls the second finds
-- nothing.
create or replace function houston.fold_session(p_agentable uuid, p_last bigint, p_reason text, p_session uuid)
returns boolean language plpgsql as $$
declare
    l record;
    v_first record;
    v_completed timestamptz;
    v_number integer;
begin
    select k.tenant_id, k.session_position into l from houston.run_locks k where k.agentable_id = p_agentable;
    select h.position, h.created_at into v_first from houston.history h
     where h.agentable_id = p_agentable and h.position > l.session_position and h.position <= p_last
     order by h.position limit 1;
    if not found then
        return false;
    end if;
    select h.created_at into v_completed from houston.history h
     where h.agentable_id = p_agentable and h.position <= p_last order by h.position desc limit 1;
    insert into houston.session_states as s (agentable_id, tenant_id, last_number)
    values (p_agentable, l.tenant_id, 1)
    on conflict (agentable_id) do update set last_number = s.last_number + 1, look_at = null, close_reason = null
    returning s.last_number into v_number;
    insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                  completed_at, completion_reason, summary)
    values (p_session, l.tenant_id, p_agentable, v_number, v_first.position, p_last, v_first.created_at, v_completed,
            p_reason, houston.session_extract(p_agentable, l.session_position, p_last));
    update houston.run_locks k set session_position = p_last where k.agentable_id = p_agentable;
    return true;
end;
$$;
