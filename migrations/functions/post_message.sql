-- Stores a user's message, opens a run when none is open, and sets `wake`, by which the sweep finds it. The message and
-- the run take positions of the event stream; their events follow from their rows. Runs in the caller's transaction.
--
-- p_policy: what happens to an open run
--   'enqueue'    it reads the message at its next step
--   'reject'     nothing is stored: HO409, whose detail is the run
--   'interrupt'  it is cancelled, and the message opens the next run
--   'rollback'   the same, and the model is no longer sent its entries
--
-- At most p_max_pending messages of one user may be unread, over all their agentables; concurrent posts may exceed the
-- limit slightly; null: no limit.
--
-- ring: whether to send a hint. Not while a worker holds the run, because it finds the message; and not while
-- p_max_running runs of the user are held, because the end of one of them starts the next.
--
-- A key that was used for another message, or for another agentable, sets key_reused; with p_notify (posts from an
-- application's own transaction, which does not see key_reused) it raises HO422.
--
-- Raises HO404 when the tenant has no such agentable, HO429 when too many messages are unread.
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
    v_now timestamptz := clock_timestamp();
begin
    replayed := false;
    key_reused := false;
    ring := false;
    if p_key is not null then
        perform houston.lock_key(p_tenant, p_key);
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

    -- Counted before anything is written, so that a refusal writes nothing.
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
           waiting_since = case when l.wake then l.waiting_since else v_now end,
           wake = true,
           unread = l.unread + 1,
           run_id = case when l.run_open then l.run_id else p_run end,
           failed_attempts = case when l.run_open then l.failed_attempts else 0 end,
           crash_count = case when l.run_open then l.crash_count else 0 end,
           -- A retry waits for its time; a run that waits for something goes on now.
           next_attempt_at = case when l.run_open and l.wake and p_policy = 'enqueue' then l.next_attempt_at end,
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
    if p_policy in ('interrupt', 'rollback') and not opened then
        -- The reason of the first request stays, unless this one rolls the run back.
        update houston.runs r
           set cancel_seq = seq - 1,
               cancel_reason = case when p_policy = 'rollback' then p_policy
                                    when r.cancel_seq is null then p_policy
                                    else r.cancel_reason end
         where r.id = post_message.run_id;
        perform pg_notify('houston', format('1 cancel %s %s', p_agentable, run_id));
    end if;
    if ring then
        ring := houston.free_slots(v_user, p_agentable, p_max_running) > 0;
    end if;
    if p_notify and ring then
        perform pg_notify('houston', format('1 post %s', p_agentable));
    end if;
end;
$$;

-- The same for an application that posts from its own transaction: `select houston.post_message(goal, 'hi')`. Workers
-- are notified at commit. Returns the id of the message. `double_texting` is one of the policies above; the limits are
-- those of jobs/orchestrator.toml.
create or replace function houston.post_message(
    agentable uuid, content text, idempotency_key text default null, double_texting text default 'enqueue'
) returns uuid language plpgsql as $$
declare
    v_tenant uuid;
    v_posted record;
begin
    select tenant_id into v_tenant from houston.agentables where id = agentable;
    if content is null or btrim(content) = '' then
        raise exception 'the message is empty' using errcode = 'HO422';
    end if;
    if octet_length(content) > 262144 then
        raise exception 'the message has % bytes, 262144 are allowed', octet_length(content)
              using errcode = 'HO413';
    end if;
    if double_texting is null or double_texting not in ('enqueue', 'interrupt', 'reject', 'rollback') then
        raise exception 'double_texting is %: enqueue, interrupt, reject and rollback are allowed',
              coalesce(quote_literal(double_texting), 'null') using errcode = 'HO422';
    end if;
    if octet_length(idempotency_key) not between 1 and 255 then
        raise exception 'the idempotency key has % bytes, 1 to 255 are allowed', octet_length(idempotency_key)
              using errcode = 'HO422';
    end if;
    select p.message_id, p.key_reused into v_posted
      from houston.post_message(v_tenant, agentable, houston.id_beside(agentable), houston.id_beside(agentable),
                                content, null, idempotency_key,
                                sha256(convert_to(agentable || ' ' || double_texting || ' ' || content, 'UTF8')),
                                true, double_texting, houston.setting('fairness.max_running'),
                                houston.setting('fairness.max_pending')) p;
    if v_posted.key_reused then
        raise exception 'the idempotency key % was used before, for another message', quote_literal(idempotency_key)
              using errcode = 'HO422', hint = 'Use another key for another message.';
    end if;
    return v_posted.message_id;
end;
$$;
