-- What a run died with, instead of how often it was claimed: a run whose worker let go of it, or turned out to live,
-- has killed nobody. `crash_count` stays what it was: claims in a row without a committed step, the last net under
-- what loses its lock again and again and kills nobody.
alter table houston.run_locks
    -- the workers that died while they held it, and the claims of it that broke down, since its last committed step
    add column died_with uuid[] not null default '{}';

-- A few rows, if any: those a worker that turns out to live must be taken off.
create index run_locks_suspects on houston.run_locks (agentable_id) where died_with <> '{}';

drop function houston.claim_run(uuid, uuid, uuid, uuid, integer, integer, integer);

-- Takes the lock of an agentable that has an open run: the only way to get an epoch. The database's clock
-- decides whether the last holder is alive. Each statement below sees what was committed before the lock was
-- taken, so no message slips between the lock and the reading of the messages.
--
-- At most p_max_running runs of one user are held at once, over all workers. Claims of one user take turns (an
-- advisory lock, until the commit); a refused one writes nothing and leaves the agentable awake.
--
-- A holder that did not let go is dead: it joins those the run died with (deaths counts them, claims the claims in a
-- row without a committed step). Who dies takes all its runs along, and which of them killed it nobody knows. So a
-- run whose next death is the p_max_crashes-th is never driven beside another such run of the same worker: what then
-- dies again is to blame. And one that is to be given up waits for p_doubt first: a worker that lives, and was taken
-- for dead, takes the death back by then.
--
-- Returns no row when another holds it, when nothing is open, when the next attempt is not due, when as many
-- runs of the user are held as may be, when the run must be driven alone and this worker drives such a
-- one, or when it is to be given up and that is in doubt.
create function houston.claim_run(
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
    v_texts text[];
    v_content jsonb;
    v_more boolean := false;
    v_elsewhere boolean;
    v_fresh boolean;
begin
    -- Before any lock: a flood of hints for a user who has enough costs a look and no write.
    select k.user_id into v_user from houston.run_locks k where k.agentable_id = p_agentable;
    if houston.places_left(v_user, p_agentable, p_max_running) < 1 then
        return;
    end if;
    select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable and k.run_open
       and (k.next_attempt_at is null or k.next_attempt_at <= clock_timestamp())
       and (k.holder is null or not exists (
               select from houston.workers w where w.id = k.holder and w.alive_until > clock_timestamp()))
       -- A worker that was reaped, or has resigned, may not come back through a late hint.
       and exists (select from houston.workers w where w.id = p_worker and w.alive_until > clock_timestamp())
       for no key update;
    if not found then
        return;
    end if;
    -- Counted again by the one whose turn it is. Two keys: those of one are the workers'.
    perform pg_advisory_xact_lock(1, hashtext(l.user_id::text));
    if houston.places_left(l.user_id, p_agentable, p_max_running) < 1 then
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
        -- In nobody's hands: the next sweep rings for it.
        update houston.run_locks k
           set holder = null, wake = true, died_with = v_died, next_attempt_at = l.next_attempt_at
         where k.agentable_id = p_agentable;
        update houston.runs r set held_for = null where r.id = l.run_id and r.held_for is not null;
        return;
    end if;

    at := clock_timestamp();
    select r.status = 'running' into takeover from houston.runs r where r.id = l.run_id;
    update houston.runs as r
       set status = 'running', attempt = r.attempt + 1, epoch = l.epoch + 1, worker_id = p_worker,
           held_for = l.user_id,
           started_at = coalesce(r.started_at, at)
     where r.id = l.run_id
    returning r.attempt, r.iterations, r.cancel_seq,
              array[r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.reasoning_tokens]
         into attempt, iterations, cancel_seq, usage;

    if attempt > 1 then
        -- Its error message, if it tells of a failure that nothing has settled yet.
        select m.content, m.metadata into error_content, error_metadata
          from houston.messages m
         where m.id = l.run_id and m.source = 'error' and not m.metadata ? 'resolved';
    end if;
    if l.wake then
        -- What came after it was cancelled is for the next run.
        select b.* into v_read, v_texts, v_more, v_elsewhere
          from houston.unread_batch(p_agentable, l.read_seq, cancel_seq, l.run_id, p_read_messages,
                                    p_read_bytes) b;
    end if;
    -- A new run: its messages become one user entry, of many the first. A later attempt finds its own in the
    -- history, perhaps with open tool calls, and reads what came since at its next step.
    v_fresh := attempt = 1 and v_read is not null;
    if v_fresh then
        if cardinality(v_texts) = 1 then
            -- Nearly always: without a query.
            v_content := jsonb_build_array(jsonb_build_object('type', 'text', 'text', v_texts[1]));
        else
            select jsonb_agg(jsonb_build_object('type', 'text', 'text', c.content) order by c.n) into v_content
              from unnest(v_texts) with ordinality as c (content, n);
        end if;
        insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
        values (p_agentable, l.last_position + 1, l.tenant_id, l.run_id, l.epoch + 1, 'user', v_content);
        if v_elsewhere then
            update houston.messages m set run_id = l.run_id
             where m.agentable_id = p_agentable and m.source = 'user' and m.seq > l.read_seq and m.seq <= v_read;
        end if;
    end if;

    update houston.run_locks as k
       set epoch = l.epoch + 1, run_token = p_token, holder = p_worker, crash_count = l.crash_count + 1,
           died_with = v_died, next_attempt_at = null, last_seq = l.last_seq + 1,
           wake = cancel_seq is not null or v_more or (v_read is not null and not v_fresh),
           read_seq = case when v_fresh then v_read else l.read_seq end,
           unread = case when not v_fresh then l.unread when v_more then l.unread - cardinality(v_texts) else 0 end,
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
