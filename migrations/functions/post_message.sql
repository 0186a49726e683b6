-- Posts a user's message from an application's own transaction: `select houston.post_message(goal, 'hi')`. Stores it,
-- opens a run when none is open, and sets `wake`, by which the sweep finds it; their events follow from these rows.
-- Returns the id of the message. Workers are notified at commit, unless a worker holds the run, or as many runs of the
-- user are held as are allowed: they find the message.
--
-- double_texting: what happens to an open run
--   'enqueue'    it reads the message at its next step
--   'reject'     nothing is stored: HO409, whose detail is the run
--   'interrupt'  it is cancelled, and the message opens the next run
--   'rollback'   the same, and the model is no longer sent its entries
--
-- The limits are those of jobs/orchestrator.toml; concurrent posts may exceed that of unread messages slightly. A
-- repeated key returns the first message.
--
-- Raises HO404 when there is no such agentable, HO413 when the message is too long, HO422 when an argument is not
-- allowed or the key was used for another message, HO429 when too many messages of the user are unread.
--
-- The same rules as Rust has in crates/domain/src/post.rs and crates/store/src/run/message, which a test compares.
create or replace function houston.post_message(
    agentable uuid, content text, idempotency_key text default null, double_texting text default 'enqueue'
) returns uuid language plpgsql as $$
#variable_conflict use_variable
declare
    v_message uuid := houston.id_beside(agentable);
    v_new_run constant uuid := houston.id_beside(agentable);
    v_sha256 constant bytea := sha256(convert_to(agentable || ' ' || double_texting || ' ' || content, 'UTF8'));
    v_max_pending constant integer := houston.setting('fairness.max_pending');
    v_pending bigint;
    v_at timestamptz := clock_timestamp();
    l houston.run_locks;
begin
    if content is null or btrim(content) = '' then
        raise exception 'the message is empty' using errcode = 'HO422';
    end if;
    if octet_length(content) > 262144 then
        raise exception 'the message has % bytes, 262144 are allowed', octet_length(content) using errcode = 'HO413';
    end if;
    if double_texting is null or double_texting not in ('enqueue', 'interrupt', 'reject', 'rollback') then
        raise exception 'double_texting is %: enqueue, interrupt, reject and rollback are allowed',
              coalesce(quote_literal(double_texting), 'null') using errcode = 'HO422';
    end if;
    if octet_length(idempotency_key) not between 1 and 255 then
        raise exception 'the idempotency key has % bytes, 1 to 255 are allowed', octet_length(idempotency_key)
              using errcode = 'HO422';
    end if;
    select k.* into l from houston.run_locks k where k.agentable_id = agentable;
    if not found then
        raise exception 'agentable % not found', agentable using errcode = 'HO404';
    end if;
    if idempotency_key is not null then
        perform pg_advisory_xact_lock(3, hashtext(l.tenant_id::text || idempotency_key));
        insert into houston.idempotency_keys (tenant_id, key, request_sha256, resource_id)
        values (l.tenant_id, idempotency_key, v_sha256, v_message)
        on conflict do nothing;
        if not found then
            select m.id into v_message
              from houston.idempotency_keys k left join houston.messages m on m.id = k.resource_id
             where k.tenant_id = l.tenant_id and k.key = idempotency_key and k.request_sha256 = v_sha256;
            if not found then
                raise exception 'the idempotency key % was used before, for another message',
                      quote_literal(idempotency_key)
                      using errcode = 'HO422', hint = 'Use another key for another message.';
            end if;
            return v_message;
        end if;
    end if;
    -- Counted before anything else is written or locked.
    select coalesce(sum(u.unread), 0) into v_pending
      from (select o.unread from houston.run_locks o where o.user_id = l.user_id and o.wake limit v_max_pending) u;
    if v_pending >= v_max_pending then
        raise exception 'too many messages wait unread: % of this user', v_pending using errcode = 'HO429',
              detail = v_pending, hint = 'Post again when some of them have been read.';
    end if;

    select k.* into l from houston.run_locks k where k.agentable_id = agentable for no key update;
    if l.run_open and double_texting = 'reject' then
        raise exception 'run % is open', l.run_id using errcode = 'HO409', detail = l.run_id::text;
    end if;
    update houston.run_locks k
       set last_seq = k.last_seq + case when k.run_open then 1 else 2 end,
           waiting_since = case when k.wake then k.waiting_since else v_at end,
           wake = true,
           unread = k.unread + 1,
           run_id = case when k.run_open then k.run_id else v_new_run end,
           failed_attempts = case when k.run_open then k.failed_attempts else 0 end,
           crash_count = case when k.run_open then k.crash_count else 0 end,
           -- A retry waits for its time; a run that waits for something goes on now.
           next_attempt_at = case when k.run_open and k.wake and double_texting = 'enqueue' then k.next_attempt_at end,
           run_open = true
     where k.agentable_id = agentable
    returning k.* into l;
    v_at := clock_timestamp();
    if l.run_id = v_new_run then
        insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at)
        values (l.run_id, l.tenant_id, agentable, l.last_seq - 1, v_at);
    elsif double_texting in ('interrupt', 'rollback') then
        -- The reason of the first request stays, unless this one rolls the run back.
        update houston.runs r
           set cancel_seq = l.last_seq - 1,
               cancel_reason = case when double_texting = 'rollback' or r.cancel_seq is null then double_texting
                                    else r.cancel_reason end
         where r.id = l.run_id;
        perform pg_notify('houston', format('1 cancel %s %s', agentable, l.run_id));
    end if;
    insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id, created_at)
    values (v_message, l.tenant_id, agentable, l.last_seq, 'user', 'text', content, l.run_id, v_at);
    if l.holder is null and houston.free_slots(l.user_id, agentable, houston.setting('fairness.max_running')) > 0 then
        perform pg_notify('houston', format('1 post %s', agentable));
    end if;
    return v_message;
end;
$$;
