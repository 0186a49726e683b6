-- Called by the sweep for an agentable whose session may be over: closes the session if nothing was written for p_quiet
-- or if a close was requested, otherwise stores when to check again. For kinds that are not in p_kinds only a requested
-- close is done. If the lock row is taken, the next sweep tries again.
--
-- Entries of a copied or imported conversation have epoch 0 and keep their times. For them the quiet time starts when
-- the copy was created; otherwise the first message to a copy of an old conversation would close the copied session.
create or replace function houston.close_quiet_session(
    p_agentable uuid, p_kinds text[], p_quiet interval, p_session uuid
) returns boolean language plpgsql as $$
declare
    l houston.run_locks;
    s houston.session_states;
    v_archives boolean;
    v_made timestamptz;
    v_written timestamptz;
    v_look_at timestamptz;
begin
    select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable for no key update skip locked;
    if not found then
        return false;
    end if;
    select x.* into s from houston.session_states x where x.agentable_id = p_agentable;
    if s.look_at is null or s.look_at > clock_timestamp() then
        return false;
    end if;
    select a.kind = any (p_kinds), a.created_at into v_archives, v_made
      from houston.agentables a where a.id = p_agentable;
    select case when h.epoch = 0 then greatest(h.created_at, v_made) else h.created_at end
      into v_written from houston.history h
     where h.agentable_id = p_agentable and h.position > l.session_position order by h.position desc limit 1;
    if l.run_open or l.holder is not null then
        -- A run writes: the session cannot be quiet for p_quiet before then. A requested close may be possible sooner.
        v_look_at := clock_timestamp() + case when s.close_reason is null then p_quiet
                                              else least(p_quiet, interval '10 seconds') end;
    elsif v_written is null or (s.close_reason is null and not v_archives) then
        v_look_at := null;
    elsif s.close_reason is null and v_written + p_quiet > clock_timestamp() then
        v_look_at := v_written + p_quiet;
    else
        return houston.fold_session(p_agentable, l.last_position, coalesce(s.close_reason, 'session_timeout'),
                                    p_session);
    end if;
    update houston.session_states x
       set look_at = v_look_at, close_reason = case when v_look_at is null then null else x.close_reason end
     where x.agentable_id = p_agentable;
    return false;
end;
$$;
