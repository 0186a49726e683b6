-- What is archived wakes for nobody but a person. A message of Houston's own (a task has ended, a check-in or a feed is
-- due) opens no run there: the report of a task enters the history, for the next run that a person's message opens.
-- Otherwise as before.
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
    -- First the lock, which archiving holds, too: what is read after that stays.
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
      from (values (1 + (p_event is not null)::int, null::uuid, case when opened then '{"type": "run_queued"}'::jsonb end),
                   (1, null, p_event),
                   (0, p_message, jsonb_build_object('type', 'message_posted',
                                                     'message_id', houston.shown('msg', p_message)))
           ) as e (before, message_id, data)
     where e.data is not null;
    if v_free and houston.places_left(v_user, p_agentable, p_max_running) > 0 then
        perform pg_notify('houston', format('1 post %s', p_agentable));
    end if;
    return next;
end;
$$;

-- Stores a user's message, as before. A key that was used for another message, or for another agentable, is refused also
-- in an application's own transaction (p_notify), where nobody would look at key_reused: HO422.
create or replace function houston.post_message(
    p_tenant uuid, p_agentable uuid, p_message uuid, p_run uuid, p_content text, p_metadata jsonb,
    p_key text, p_request_sha256 bytea, p_notify boolean, p_policy text, p_max_running integer,
    p_max_pending integer,
    out message_id uuid, out run_id uuid, out seq bigint, out created_at timestamptz,
    out replayed boolean, out key_reused boolean, out opened boolean, out ring boolean
) language plpgsql as $$
declare
    v_user uuid;
    v_unread integer;
    v_pending bigint := 0;
begin
    replayed := false;
    key_reused := false;
    ring := false;
    if p_key is not null then
        insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id)
        values (p_tenant, p_key, p_request_sha256, p_message)
        on conflict do nothing;
        if not found then
            select m.id, m.run_id, m.seq, m.created_at, true,
                   k.request_sha256 <> p_request_sha256 or coalesce(m.agentable_id <> p_agentable, false), false
              into message_id, run_id, seq, created_at, replayed, key_reused, opened
              from houston.idempotency_keys k left join houston.messages m on m.id = k.resource_id
             where k.tenant_id = p_tenant and k.key = p_key;
            if p_notify and key_reused then
                raise exception 'the idempotency key % was used before, for another message', quote_literal(p_key)
                      using errcode = 'HO422', hint = 'Use another key for another message.';
            end if;
            return;
        end if;
    end if;

    -- Counted before anything is written: a refusal costs no row version.
    if p_max_pending is not null then
        select l.user_id into v_user from houston.run_locks l
         where l.agentable_id = p_agentable and l.tenant_id = p_tenant;
        for v_unread in select l.unread from houston.run_locks l where l.user_id = v_user and l.wake loop
            v_pending := v_pending + v_unread;
            exit when v_pending >= p_max_pending;
        end loop;
    end if;
    if v_pending >= p_max_pending then
        raise exception 'too many messages wait unread: % of this user', v_pending using errcode = 'HO429',
              detail = v_pending, hint = 'Post again when some of them have been read.';
    end if;

    update houston.run_locks l
       set last_seq = l.last_seq + case when l.run_open then 1 else 2 end,
           waiting_since = case when l.wake then l.waiting_since else clock_timestamp() end,
           wake = true,
           unread = l.unread + 1,
           run_id = case when l.run_open then l.run_id else p_run end,
           failed_attempts = case when l.run_open then l.failed_attempts else 0 end,
           crash_count = case when l.run_open then l.crash_count else 0 end,
           next_attempt_at = case when l.run_open and p_policy = 'enqueue' then l.next_attempt_at end,
           run_open = true
     where l.agentable_id = p_agentable and l.tenant_id = p_tenant and not (l.run_open and p_policy = 'reject')
    returning l.last_seq, l.run_id, l.run_id = p_run, l.user_id, l.holder is null
         into seq, run_id, opened, v_user, ring;
    if not found then
        select k.run_id into run_id from houston.run_locks k
         where k.agentable_id = p_agentable and k.tenant_id = p_tenant;
        if found then
            raise exception 'run % is open', run_id using errcode = 'HO409', detail = run_id::text;
        end if;
        raise exception 'agentable % not found', p_agentable using errcode = 'HO404';
    end if;

    message_id := p_message;
    created_at := clock_timestamp();
    if opened then
        insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at)
        values (p_run, p_tenant, p_agentable, seq - 1, created_at);
    end if;
    insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, metadata,
                                  run_id, created_at)
    values (p_message, p_tenant, p_agentable, seq, 'user', 'text', p_content, coalesce(p_metadata, '{}'),
            run_id, created_at);
    insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data, created_at)
    select p_agentable, e.seq, p_tenant, run_id, 0, e.message_id, e.data, created_at
      from (values (seq - 1, null::uuid, '{"type": "run_queued"}'::jsonb),
                   (seq, p_message, jsonb_build_object('type', 'message_posted', 'message_id',
                                                       houston.shown('msg', p_message)))
           ) as e (seq, message_id, data)
     where opened or e.message_id is not null;
    if p_policy in ('interrupt', 'rollback') and not opened then
        -- Whoever asked first is named, unless the run is to be forgotten.
        update houston.runs r
           set cancel_seq = seq - 1,
               cancel_reason = case when p_policy = 'rollback' then p_policy
                                    when r.cancel_seq is null then p_policy
                                    else r.cancel_reason end
         where r.id = post_message.run_id;
        perform pg_notify('houston', format('1 cancel %s %s', p_agentable, run_id));
    end if;
    if ring then
        ring := houston.places_left(v_user, p_agentable, p_max_running) > 0;
    end if;
    if p_notify and ring then
        perform pg_notify('houston', format('1 post %s', p_agentable));
    end if;
end;
$$;
