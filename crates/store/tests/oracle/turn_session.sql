-- Called by a claim, in its transaction, when a run begins. Closes the session that was over before the run was
-- requested, so that its entries are not sent to the model again; schedules the sweep for the open session; and writes
-- events for sessions that were closed since the last such event. These events are written here because a stream has no
-- events between two runs (AG-UI).
--
-- The quiet time ends when the message opened the run, not when a worker claimed it. For entries that were copied or
-- imported (epoch 0) it starts when the copy was created. Returns the number of sessions that were reported.
create or replace function houston.turn_session(p_agentable uuid, p_run uuid, p_quiet interval, p_session uuid)
returns integer language plpgsql as $$
declare
    v record;
    v_closed boolean := false;
    v_told integer := 0;
begin
    select k.tenant_id, k.epoch, k.last_seq, h.position,
           case when h.epoch = 0 then greatest(h.created_at, a.created_at) else h.created_at end as created_at,
           r.created_at as posted_at, s.close_reason, s.look_at,
           coalesce(s.last_number > s.reported_number, false) as untold
      into v
      from houston.run_locks k
      join houston.agentables a on a.id = k.agentable_id
      join houston.runs r on r.id = p_run
      left join houston.session_states s on s.agentable_id = k.agentable_id
      left join lateral (
           select e.position, e.epoch, e.created_at from houston.history e
            where e.agentable_id = k.agentable_id and e.position > k.session_position and e.run_id <> p_run
            order by e.position desc limit 1) h on true
     where k.agentable_id = p_agentable;
    if v.position is not null and (v.close_reason is not null or v.posted_at - v.created_at >= p_quiet) then
        v_closed := houston.fold_session(p_agentable, v.position, coalesce(v.close_reason, 'session_timeout'),
                                         p_session);
    end if;
    if v_closed or v.look_at is null or v.close_reason is not null then
        insert into houston.session_states as s (agentable_id, tenant_id, look_at)
        values (p_agentable, v.tenant_id, clock_timestamp() + p_quiet)
        on conflict (agentable_id) do update set look_at = excluded.look_at, close_reason = null;
    end if;
    if v_closed or v.untold then
        insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
        select p_agentable, v.last_seq + row_number() over (order by c.number), v.tenant_id, p_run, v.epoch,
               jsonb_build_object('type', 'session_archived', 'session_id', houston.shown('session', c.id),
                                  'number', c.number, 'reason', c.completion_reason,
                                  'started_at', c.started_at, 'completed_at', c.completed_at)
          from houston.session_states s
          join houston.sessions c on c.agentable_id = s.agentable_id and c.number > s.reported_number
         where s.agentable_id = p_agentable;
        get diagnostics v_told = row_count;
        update houston.run_locks k set last_seq = k.last_seq + v_told where k.agentable_id = p_agentable;
        update houston.session_states s set reported_number = s.last_number where s.agentable_id = p_agentable;
    end if;
    return v_told;
end;
$$;
