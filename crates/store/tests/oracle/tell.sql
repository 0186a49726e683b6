-- Posts a message of Houston's own to an agent: a message of the source 'system' with its event, and before it p_event,
-- if given. An open run reads it at its next step; otherwise it opens a run. With p_mode it must open one: while
-- another run is open, nothing happens and no row is returned.
--
-- An archived agentable is started only by a message of a person. A report (without p_mode) is added to its history for
-- the next run; with p_mode nothing happens. No row is returned.
create or replace function houston.tell(
    p_agentable uuid, p_message uuid, p_run uuid, p_content text, p_metadata jsonb, p_event jsonb, p_mode text,
    p_max_running integer
) returns table (run_id uuid, seq bigint, opened boolean) language plpgsql as $$
#variable_conflict use_column
declare
    v_tenant uuid;
    v_user uuid;
    v_free boolean;
    v_at timestamptz;
    v_last_run uuid;
begin
    -- Archiving takes this lock, too, so the status cannot change after it was read.
    perform from houston.run_locks l where l.agentable_id = p_agentable for no key update;
    select l.run_id into v_last_run from houston.run_locks l join houston.agentables a on a.id = l.agentable_id
     where l.agentable_id = p_agentable and not l.run_open and a.status = 'archived';
    if found then
        if p_mode is null then
            perform houston.note_in_history(p_agentable, v_last_run, array[p_content]);
        end if;
        return;
    end if;
    update houston.run_locks l
       set last_seq = l.last_seq + 1 + (not l.run_open)::int + (p_event is not null)::int,
           waiting_since = case when l.wake then l.waiting_since else clock_timestamp() end,
           wake = true,
           unread = l.unread + 1,
           run_id = case when l.run_open then l.run_id else p_run end,
           failed_attempts = case when l.run_open then l.failed_attempts else 0 end,
           crash_count = case when l.run_open then l.crash_count else 0 end,
           next_attempt_at = case when l.run_open then l.next_attempt_at end,
           run_open = true
     where l.agentable_id = p_agentable and not (l.run_open and p_mode is not null)
    returning l.last_seq, l.run_id, l.run_id = p_run, l.tenant_id, l.user_id, l.holder is null
         into seq, run_id, opened, v_tenant, v_user, v_free;
    if not found then
        return;
    end if;
    v_at := clock_timestamp();
    if opened then
        insert into houston.runs (id, tenant_id, agentable_id, first_seq, mode, created_at)
        values (p_run, v_tenant, p_agentable, seq - 1 - (p_event is not null)::int, p_mode, v_at);
    end if;
    insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata, run_id,
                                  created_at)
    values (p_message, v_tenant, p_agentable, seq, 'system', 'text', p_content, p_metadata, run_id, v_at);
    insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data, created_at)
    select p_agentable, seq - e.before, v_tenant, run_id, 0, e.message_id, e.data, v_at
      from (values (1 + (p_event is not null)::int, null::uuid,
                    case when opened then '{"type": "run_queued"}'::jsonb end),
                   (1, null, p_event),
                   (0, p_message, jsonb_build_object('type', 'message_posted',
                                                     'message_id', houston.shown('msg', p_message)))
           ) as e (before, message_id, data)
     where e.data is not null;
    if v_free and houston.free_slots(v_user, p_agentable, p_max_running) > 0 then
        perform pg_notify('houston', format('1 post %s', p_agentable));
    end if;
    return next;
end;
$$;
