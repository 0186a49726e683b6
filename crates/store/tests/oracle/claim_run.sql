-- Takes the lock of an agentable that has an open run; the only way to get an epoch. The database's clock decides
-- whether the last holder is alive. Each statement below sees what was committed before the lock was taken, so no
-- message is missed between taking the lock and reading the messages.
--
-- At most p_max_running runs of one user are held at once, over all workers. Claims of one user are serialised by an
-- advisory lock until their commit; a refused claim writes nothing and leaves the agentable awake.
--
-- A holder that did not release the lock is dead, and is added to the workers that the run died with. `deaths` is their
-- number, and `claims` is the number of claims in a row without a committed step. A dying worker takes all its runs
-- with it, and it is unknown which of them was the cause. So a run that will be given up at its next death
-- (p_max_crashes) is never claimed by a worker that already holds such a run: if that worker dies, the cause is known.
-- Before a run is given up, it waits for p_doubt: a worker that is alive but was declared dead takes its death back in
-- that time.
--
-- Returns no row when
--   - another worker holds the lock,
--   - no run is open,
--   - the next attempt is not due,
--   - p_max_running runs of the user are held,
--   - the run must not share a worker, and this worker holds another such run, or
--   - the run would be given up, and p_doubt has not passed.
create or replace function houston.claim_run(
    p_agentable uuid, p_worker uuid, p_token uuid, p_next_message uuid,
    p_max_running integer, p_read_messages integer, p_read_bytes integer, p_max_crashes integer, p_doubt interval
) returns table (
    epoch bigint, tenant_id uuid, user_id uuid, kind text, title text, description text, parent_id uuid,
    run_id uuid, attempt integer, iterations integer, deaths integer, claims integer, failed_attempts integer,
    cancel_seq bigint, usage bigint[], seq bigint, at timestamptz, takeover boolean, error_content text,
    error_metadata jsonb
) language plpgsql as $$
#variable_conflict use_column
declare
    l houston.run_locks;
    v_user uuid;
    v_died uuid[];
    v_waits boolean := false;
    v_read bigint;
    v_blocks jsonb[];
    v_more boolean := false;
    v_elsewhere boolean;
    v_fresh boolean;
begin
    -- Checked before any lock, so that many hints for a user at the limit cause reads only.
    select k.user_id into v_user from houston.run_locks k where k.agentable_id = p_agentable;
    if houston.free_slots(v_user, p_agentable, p_max_running) < 1 then
        return;
    end if;
    select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable and k.run_open
       and (k.next_attempt_at is null or k.next_attempt_at <= clock_timestamp())
       and (k.holder is null or not exists (
               select from houston.workers w where w.id = k.holder and w.alive_until > clock_timestamp()))
       -- A late hint must not give a run to a worker that was reaped or has resigned.
       and exists (select from houston.workers w where w.id = p_worker and w.alive_until > clock_timestamp())
       for no key update;
    if not found then
        return;
    end if;
    -- Counted again, one claim of the user at a time. Locks with a single key belong to the workers' leases.
    perform pg_advisory_xact_lock(1, hashtext(l.user_id::text));
    if houston.free_slots(l.user_id, p_agentable, p_max_running) < 1 then
        return;
    end if;
    v_died := l.died_with;
    if l.holder is not null then
        v_died := v_died || l.holder;
    end if;
    if cardinality(v_died) > 0 and cardinality(v_died) = p_max_crashes - 1 then
        perform pg_advisory_xact_lock(2, hashtext(p_worker::text));
        v_waits := exists (select from houston.run_locks k
                            where k.died_with <> '{}' and cardinality(k.died_with) >= p_max_crashes - 1
                              and k.holder = p_worker and k.agentable_id <> p_agentable);
    elsif cardinality(v_died) >= p_max_crashes and l.holder is not null then
        v_waits := true;
        l.next_attempt_at := clock_timestamp() + p_doubt;
    end if;
    if v_waits then
        -- Without a holder, the next sweep finds it.
        update houston.run_locks k
           set holder = null, wake = true, died_with = v_died, next_attempt_at = l.next_attempt_at,
               -- A column that the release with these functions did not have yet.
               woken_at = case when k.holder is null then k.woken_at else clock_timestamp() end
         where k.agentable_id = p_agentable;
        update houston.runs r set held_for = null where r.id = l.run_id and r.held_for is not null;
        return;
    end if;

    at := clock_timestamp();
    select r.status = 'running' into takeover from houston.runs r where r.id = l.run_id;
    update houston.runs as r
       set status = 'running', attempt = r.attempt + 1, epoch = l.epoch + 1, worker_id = p_worker,
           held_for = l.user_id, slot = houston.lowest_slot(l.user_id),
           started_at = coalesce(r.started_at, at)
     where r.id = l.run_id
    returning r.attempt, r.iterations, r.cancel_seq,
              array[r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.reasoning_tokens]
         into attempt, iterations, cancel_seq, usage;

    if attempt > 1 then
        -- The error message of the run, if its failure is not resolved.
        select m.content, m.metadata into error_content, error_metadata
          from houston.messages m
         where m.id = l.run_id and m.source = 'error' and not m.metadata ? 'resolved';
    end if;
    if l.wake then
        -- The next run reads what was posted after the cancel.
        select b.* into v_read, v_blocks, v_more, v_elsewhere
          from houston.unread_batch(p_agentable, l.read_seq, cancel_seq, l.run_id, p_read_messages,
                                    p_read_bytes) b;
    end if;
    -- The first attempt adds the messages to the history as one user entry. A later attempt finds that entry in the
    -- history, perhaps with open tool calls behind it, and reads newer messages at its next step.
    v_fresh := attempt = 1 and v_read is not null;
    if v_fresh then
        insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
        values (p_agentable, l.last_position + 1, l.tenant_id, l.run_id, l.epoch + 1, 'user', to_jsonb(v_blocks));
        if v_elsewhere then
            update houston.messages m set run_id = l.run_id
             where m.agentable_id = p_agentable and houston.is_for_agent(m.source) and m.seq > l.read_seq
               and m.seq <= v_read;
        end if;
    end if;

    update houston.run_locks as k
       set epoch = l.epoch + 1, run_token = p_token, holder = p_worker, crash_count = l.crash_count + 1,
           died_with = v_died, next_attempt_at = null, last_seq = l.last_seq + 1,
           wake = cancel_seq is not null or v_more or (v_read is not null and not v_fresh),
           read_seq = case when v_fresh then v_read else l.read_seq end,
           unread = case when not v_fresh then l.unread when v_more then l.unread - cardinality(v_blocks) else 0 end,
           last_position = l.last_position + v_fresh::int
     where k.agentable_id = p_agentable;
    insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
    values (p_agentable, l.last_seq + 1, l.tenant_id, l.run_id, l.epoch + 1,
            jsonb_build_object('type', 'attempt_started', 'attempt', attempt, 'iteration', iterations + 1,
                               'next_message_id', houston.shown('msg', p_next_message),
                               'takeover', takeover), at);

    return query
    select l.epoch + 1, l.tenant_id, a.user_id, a.kind, a.title, a.description, a.parent_id, l.run_id, attempt,
           iterations, cardinality(v_died), l.crash_count + 1, l.failed_attempts, cancel_seq, usage,
           l.last_seq + 1, at, takeover,
           error_content, error_metadata
      from houston.agentables a where a.id = p_agentable;
end;
$$;
