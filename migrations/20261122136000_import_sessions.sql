-- A conversation that is imported or forked brings its long results along, under the ids its texts name: the same id may
-- stand for a result of the original and for that of each copy. The index of before becomes the primary key.
alter table houston.tool_results drop constraint tool_results_pkey;
create unique index tool_results_by_agentable_id on houston.tool_results (agentable_id, id);
drop index houston.tool_results_by_agentable;
alter index houston.tool_results_by_agentable_id rename to tool_results_by_agentable;
alter table houston.tool_results
    add constraint tool_results_by_agentable primary key using index tool_results_by_agentable;

-- What a search looks at of a session that is imported: of one with more words than a vector takes, the summary alone.
create function houston.imported_session_vector(p_agentable uuid, p_summary text, p_conversation text) returns tsvector
language plpgsql immutable as $$
begin
    return houston.session_vector(p_agentable, p_summary, p_conversation);
exception when program_limit_exceeded then
    return houston.session_vector(p_agentable, p_summary, '');
end;
$$;

-- What was said in a copy before it was made is as old as it was in the original, but the copy is not left before it
-- begins: quiet counts from when it was made. Otherwise the first message to a copy of an old conversation would close
-- what it was copied for. What came along has epoch 0. As in 20261122130000, but for the two times that are compared.
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
    select a.kind = any (p_kinds), a.created_at into v_archives, v_made from houston.agentables a where a.id = p_agentable;
    select case when h.epoch = 0 then greatest(h.created_at, v_made) else h.created_at end
      into v_written from houston.history h
     where h.agentable_id = p_agentable and h.position > l.session_position order by h.position desc limit 1;
    if l.run_open or l.holder is not null then
        -- It can be quiet for so long at the earliest then; what is wanted may be done sooner.
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

create or replace function houston.turn_session(p_agentable uuid, p_run uuid, p_quiet interval, p_session uuid) returns integer
language plpgsql as $$
declare
    v record;
    v_closed boolean := false;
    v_told integer := 0;
begin
    select k.tenant_id, k.epoch, k.last_seq, h.position,
           case when h.epoch = 0 then greatest(h.created_at, a.created_at) else h.created_at end as created_at,
           r.created_at as posted_at, s.close_reason, s.look_at, coalesce(s.last_number > s.told_number, false) as untold
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
        v_closed := houston.fold_session(p_agentable, v.position, coalesce(v.close_reason, 'session_timeout'), p_session);
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
          join houston.sessions c on c.agentable_id = s.agentable_id and c.number > s.told_number
         where s.agentable_id = p_agentable;
        get diagnostics v_told = row_count;
        update houston.run_locks k set last_seq = k.last_seq + v_told where k.agentable_id = p_agentable;
        update houston.session_states s set told_number = s.last_number where s.agentable_id = p_agentable;
    end if;
    return v_told;
end;
$$;
