-- One predicate for what agents read, and one function for how it enters the history. The source of a message is tested
-- here alone: claim_run, commit_step and the health monitor used to test for 'user' while unread_batch read 'system',
-- too, so a check-in or the end of a task stayed with a run that had not read it, and was rolled back with that run.

-- Whether messages of this source enter the history of the agent. The others are shown to people only.
create function houston.is_for_agent(p_source text) returns boolean language sql immutable parallel safe as $$
    select p_source in ('user', 'system');
$$;

-- A message as a block of the history. "frame": Houston wrote it, element and all (a check-in is due, a task has ended).
-- Whoever sends it to a model signs it, see houston.frame_mark. The instructions of a task are no frame: a model wrote
-- them.
create function houston.message_block(p_source text, p_metadata jsonb, p_content text) returns jsonb
language sql immutable parallel safe as $$
    select case when p_source = 'system' and p_metadata ->> 'type' is distinct from 'task_started'
                then jsonb_build_object('type', 'text', 'text', p_content, 'frame', true)
                else jsonb_build_object('type', 'text', 'text', p_content) end;
$$;

-- What this installation alone knows. Made once, and returned by no API.
create table houston.installation (
    only_row boolean primary key default true check (only_row),
    -- what the marks of frames are derived from
    frame_secret bytea not null
);

insert into houston.installation (frame_secret)
values (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- The mark that Houston's frames carry in what an agentable's model is sent: 64 bits that nobody can guess. The same
-- for a whole session (p_session: where the one before it ends), so that the prompt a provider has cached stays the same.
create function houston.frame_mark(p_agentable uuid, p_session bigint) returns text language sql stable as $$
    select left(encode(sha256(i.frame_secret || sha256(i.frame_secret || uuid_send(p_agentable) || int8send(p_session))),
                       'hex'), 16)
      from houston.installation i;
$$;

-- The messages one read takes, of those nobody has read after p_after, up to p_up_to if given: in order, p_messages at
-- most, p_bytes at most unless the first alone is longer. The rest is for the next read.
--
-- read_to: the position of the last one, null when there is none. blocks: the messages as blocks of the history.
-- more: whether others wait behind them. elsewhere: whether some were posted for another run than p_run.
drop function houston.unread_batch;
create function houston.unread_batch(
    p_agentable uuid, p_after bigint, p_up_to bigint, p_run uuid, p_messages integer, p_bytes integer,
    out read_to bigint, out blocks jsonb[], out more boolean, out elsewhere boolean
) language plpgsql stable as $$
declare
    m record;
    v_bytes bigint := 0;
begin
    more := false;
    elsewhere := false;
    for m in
        select n.seq, n.source, n.metadata, n.content, n.run_id from houston.messages n
         where n.agentable_id = p_agentable and houston.is_for_agent(n.source) and n.seq > p_after
           and n.seq <= coalesce(p_up_to, 9223372036854775807)
         order by n.seq limit p_messages + 1
    loop
        v_bytes := v_bytes + octet_length(m.content);
        if read_to is not null and (v_bytes > p_bytes or cardinality(blocks) >= p_messages) then
            more := true;
            return;
        end if;
        read_to := m.seq;
        blocks := blocks || houston.message_block(m.source, m.metadata, m.content);
        elsewhere := elsewhere or m.run_id <> p_run;
    end loop;
end;
$$;

-- Takes the lock of an agentable that has an open run, as before; what it reads enters the history as blocks.
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
        select b.* into v_read, v_blocks, v_more, v_elsewhere
          from houston.unread_batch(p_agentable, l.read_seq, cancel_seq, l.run_id, p_read_messages,
                                    p_read_bytes) b;
    end if;
    -- A new run: its messages become one user entry, of many the first. A later attempt finds its own in the
    -- history, perhaps with open tool calls, and reads what came since at its next step.
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

-- Commits one step of a run, as before; see 20261122110100_forgive_deaths.sql.
drop function houston.commit_step;
create or replace function houston.commit_step(
    p_agentable uuid, p_epoch bigint, p_token uuid, p_write uuid,
    p_roles text[], p_contents jsonb[],
    p_events jsonb[], p_event_messages uuid[],
    p_message_ids uuid[], p_message_events integer[], p_message_sources text[], p_message_types text[],
    p_message_contents text[], p_message_metadata jsonb[],
    p_call_ids text[], p_call_names text[], p_call_effects text[], p_call_messages uuid[],
    p_response_calls text[], p_responses jsonb[], p_cell_ids uuid[], p_cell_metadata jsonb[],
    p_then text, p_read boolean, p_last_event jsonb, p_go_on_event jsonb, p_next_run uuid,
    p_status text, p_iterations integer, p_usage bigint[], p_model text, p_error_code text, p_error_message text,
    p_retry_at timestamptz, p_max_running integer, p_read_messages integer, p_read_bytes integer,
    out outcome text, out first_seq bigint, out last_seq bigint, out at timestamptz,
    out read_blocks jsonb[], out cancel_seq bigint, out opened boolean, out cancelled_by text,
    out waiting uuid[], out waiting_kinds text[]
) language plpgsql as $$
declare
    l houston.run_locks;
    v_events jsonb[] := p_events;
    v_event_messages uuid[] := p_event_messages;
    v_ending boolean := p_then <> 'go_on';
    v_read bigint;
    v_read_to bigint := 0;
    v_last_event jsonb := p_last_event;
    v_status text := p_status;
    v_more boolean := false;
    v_elsewhere boolean;
    v_tries_to_read boolean;
    v_looks_only boolean := p_then = 'go_on' and p_go_on_event is null and cardinality(p_roles) = 0
                            and cardinality(p_events) = 0 and cardinality(p_response_calls) = 0;
begin
    opened := false;
    select k.* into l from houston.run_locks k
     where k.agentable_id = p_agentable and k.epoch = p_epoch and k.run_token = p_token
       and k.holder is not null and k.last_write_id is distinct from p_write
       for no key update;
    if not found then
        select case when k.last_write_id = p_write and k.epoch = p_epoch and k.run_token = p_token
                    then 'landed' else 'fenced' end
          into outcome from houston.run_locks k where k.agentable_id = p_agentable;
        return;
    end if;
    at := clock_timestamp();
    outcome := 'committed';

    -- Whoever asks to cancel sets `wake` under this row's lock, and it stays set until the run has ended.
    if l.wake or p_status = 'cancelled' then
        select r.cancel_seq, coalesce(r.cancel_reason, 'user') into cancel_seq, cancelled_by
          from houston.runs r where r.id = l.run_id;
    end if;
    if p_then in ('finish', 'end') and cancelled_by in ('user', 'interrupt', 'rollback')
       and (cancel_seq is not null or p_status = 'cancelled') then
        v_status := 'cancelled';
        v_last_event := p_last_event - 'message'
                        || jsonb_build_object('status', v_status, 'code', cancelled_by);
        -- It takes along what was posted before somebody asked to cancel it.
        v_read_to := coalesce(cancel_seq, 0);
        update houston.messages m set run_id = l.run_id
         where m.agentable_id = p_agentable and houston.is_for_agent(m.source) and m.seq > l.read_seq and m.seq <= v_read_to
           and m.run_id <> l.run_id;
        if v_read_to > l.read_seq then
            l.unread := (select count(*) from houston.messages m
                          where m.agentable_id = p_agentable and houston.is_for_agent(m.source) and m.seq > v_read_to);
        end if;
    else
        -- The health monitor's endings have a status of their own, and what they have not read opens the next run.
        cancelled_by := null;
    end if;
    -- Messages nobody has read: `wake` was set by whoever stored them, under this row's lock.
    v_tries_to_read := p_read and cancel_seq is null or p_then in ('finish', 'end');
    if l.wake and v_tries_to_read then
        select b.* into v_read, read_blocks, v_more, v_elsewhere
          from houston.unread_batch(p_agentable, greatest(l.read_seq, v_read_to), null, l.run_id, p_read_messages,
                                    p_read_bytes) b;
    end if;
    if p_then = 'finish' and v_read is not null and cancel_seq is null then
        outcome := 'went_on';
        v_ending := false;
    end if;
    if v_ending then
        v_events := v_events || v_last_event;
        v_event_messages := v_event_messages || null::uuid;
    elsif p_go_on_event is not null then
        v_events := v_events || p_go_on_event;
        v_event_messages := v_event_messages || null::uuid;
    end if;

    insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
    select p_agentable, l.last_position + e.n, l.tenant_id, l.run_id, l.epoch, e.role, e.content
      from unnest(p_roles, p_contents) with ordinality as e (role, content, n);
    l.last_position := l.last_position + cardinality(p_roles);
    if v_read is not null and not v_ending then
        l.last_position := l.last_position + 1;
        insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
        values (p_agentable, l.last_position, l.tenant_id, l.run_id, l.epoch, 'user', to_jsonb(read_blocks));
        if v_elsewhere then
            update houston.messages m set run_id = l.run_id
             where m.agentable_id = p_agentable and houston.is_for_agent(m.source)
               and m.seq > greatest(l.read_seq, v_read_to) and m.seq <= v_read;
        end if;
    end if;

    first_seq := l.last_seq + 1;
    last_seq := l.last_seq + cardinality(v_events);
    if cardinality(p_message_ids) > 0 then
        insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content,
                                      metadata, run_id, created_at)
        select m.id, l.tenant_id, p_agentable, l.last_seq + m.event, m.source, m.type, m.content, m.metadata,
               l.run_id, at
          from unnest(p_message_ids, p_message_events, p_message_sources, p_message_types,
                      p_message_contents, p_message_metadata) as m (id, event, source, type, content, metadata)
        -- A run has one error message, which changes; every other id is new.
        on conflict (id) do update set content = excluded.content, metadata = excluded.metadata
         where messages.source = 'error';
    end if;
    insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, message_id, data, created_at)
    select p_agentable, l.last_seq + e.n, l.tenant_id, l.run_id, l.epoch, e.message_id, e.data, at
      from unnest(v_events, v_event_messages) with ordinality as e (data, message_id, n);
    if cardinality(p_call_ids) > 0 then
        insert into houston.tool_calls (run_id, call_id, agentable_id, tenant_id, epoch, name, effect,
                                        message_id)
        select l.run_id, c.id, p_agentable, l.tenant_id, l.epoch, c.name, c.effect, c.message_id
          from unnest(p_call_ids, p_call_names, p_call_effects, p_call_messages)
               as c (id, name, effect, message_id);
    end if;
    if cardinality(p_response_calls) > 0 then
        update houston.tool_calls t set response = r.response, finished_at = at
          from unnest(p_response_calls, p_responses) as r (call_id, response)
         where t.run_id = l.run_id and t.call_id = r.call_id;
    end if;
    if cardinality(p_cell_ids) > 0 then
        update houston.messages m set metadata = m.metadata || c.metadata
          from unnest(p_cell_ids, p_cell_metadata) as c (id, metadata)
         where m.id = c.id;
    end if;

    if cancelled_by = 'rollback' then
        update houston.history h set rolled_back = true
         where h.agentable_id = p_agentable and h.position > l.session_position and h.run_id = l.run_id;
        update houston.messages m set metadata = m.metadata || '{"rolled_back": true}'
         where m.agentable_id = p_agentable and m.run_id = l.run_id
           -- A task has ended all the same: end_run tells the next run of it.
           and (not houston.is_for_agent(m.source)
                or m.seq <= v_read_to and (m.metadata ->> 'type') is distinct from 'task_ended');
    end if;

    update houston.runs r
       set status = case when v_ending then v_status else r.status end,
           held_for = case when not v_ending then r.held_for end,
           ended_at = case when p_then in ('finish', 'end') and v_ending then at end,
           iterations = p_iterations,
           input_tokens = r.input_tokens + p_usage[1], output_tokens = r.output_tokens + p_usage[2],
           cache_read_tokens = r.cache_read_tokens + p_usage[3],
           cache_write_tokens = r.cache_write_tokens + p_usage[4],
           reasoning_tokens = r.reasoning_tokens + p_usage[5],
           model = coalesce(p_model, r.model),
           error_code = case when cancelled_by is not null then null when v_ending then p_error_code else r.error_code end,
           error_message = case when cancelled_by is not null then null when v_ending then p_error_message else r.error_message end
     where r.id = l.run_id
    returning r.cancel_seq into cancel_seq;

    if v_ending and p_then in ('finish', 'end') and v_read is not null then
        -- The run ends without having read these: the next one begins with them. Those behind the
        -- first reading follow when they are read.
        opened := true;
        insert into houston.runs (id, tenant_id, agentable_id, first_seq, created_at)
        values (p_next_run, l.tenant_id, p_agentable, last_seq + 1, at);
        update houston.messages m set run_id = p_next_run
         where m.agentable_id = p_agentable and houston.is_for_agent(m.source)
           and m.seq > greatest(l.read_seq, v_read_to) and m.seq <= v_read;
        last_seq := last_seq + 1;
        insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
        values (p_agentable, last_seq, l.tenant_id, p_next_run, l.epoch, '{"type": "run_queued"}', at);
    end if;

    update houston.run_locks k
       set crash_count = case when v_looks_only then k.crash_count else 0 end,
           died_with = case when v_looks_only or p_then = 'hand_over' then k.died_with else '{}' end,
           last_write_id = p_write, last_seq = commit_step.last_seq, last_position = l.last_position,
           read_seq = case when v_read is not null and not v_ending then v_read
                           else greatest(l.read_seq, v_read_to) end,
           wake = case when not v_ending then case when commit_step.cancel_seq is not null then l.wake
                                                   when v_tries_to_read then v_more
                                                   else l.wake end
                       when p_then in ('retry', 'hand_over') then true
                       else opened end,
           waiting_since = case when opened then at else k.waiting_since end,
           unread = case when v_read is not null and not v_ending
                              then case when v_more then l.unread - cardinality(read_blocks) else 0 end
                         when l.wake and v_tries_to_read and v_read is null then 0
                         else l.unread end,
           holder = case when v_ending then null else k.holder end,
           next_attempt_at = case when commit_step.cancel_seq is null then p_retry_at end,
           failed_attempts = case when p_then = 'retry' then k.failed_attempts + 1
                                  when v_ending and p_then <> 'hand_over' then 0 else k.failed_attempts end,
           run_id = case when opened then p_next_run else k.run_id end,
           run_open = not (v_ending and p_then in ('finish', 'end')) or opened
     where k.agentable_id = p_agentable;

    if v_ending and p_then <> 'hand_over' then
        waiting := array(
            select k.agentable_id from houston.run_locks k
             where k.user_id = l.user_id and k.wake and k.run_open and k.holder is null and k.due_at <= at
               and k.agentable_id <> p_agentable
             order by k.due_at limit p_max_running);
        if cardinality(waiting) > 0 then
            waiting := waiting[:houston.places_left(l.user_id, p_agentable, p_max_running)];
            waiting_kinds := array(select a.kind from unnest(waiting) with ordinality as w (id, n)
                                     join houston.agentables a on a.id = w.id order by w.n);
        end if;
    end if;
end;
$$;

-- The numbers of jobs/ that functions of the database need where no caller passes them: each process writes them when it
-- starts (houston_store::settings). What stands here first are the values that Houston comes with, for the time before.
create table houston.settings (
    name text primary key,
    value integer not null
);

insert into houston.settings (name, value) values
    ('tasks.note_chars', 16000), ('tasks.report_chars', 4000), ('tasks.report_notes', 20),
    ('session.extract_chars', 200), ('session.extract_entries', 40), ('session.extract_texts', 5),
    ('fairness.max_running', 10), ('fairness.max_pending', 10000);

create function houston.setting(p_name text) returns integer language sql stable strict as $$
    select s.value from houston.settings s where s.name = p_name;
$$;

-- Adds to the history, under its lock, what an agent without an open run should know when it runs again: frames.
create or replace function houston.note_in_history(p_agentable uuid, p_run uuid, p_texts text[]) returns void
language plpgsql as $$
begin
    with l as (
        update houston.run_locks k set last_position = k.last_position + 1 where k.agentable_id = p_agentable
        returning k.last_position, k.tenant_id, k.epoch)
    insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
    select p_agentable, l.last_position, l.tenant_id, p_run, l.epoch, 'user',
           (select jsonb_agg(jsonb_build_object('type', 'text', 'text', t.text, 'frame', true) order by t.n)
              from unnest(p_texts) with ordinality as t (text, n))
      from l;
end;
$$;

-- What cut a run off: who cancelled it, else its error, else the stop rule that ended it; null for a run that is open,
-- or that ended because its agent was done.
create function houston.stop_reason(r houston.runs) returns text language sql immutable as $$
    select case when r.ended_at is null then null
                when r.status = 'cancelled'
                     then case when r.cancelled_with_parent then 'parent' else coalesce(r.cancel_reason, 'user') end
                when r.error_code is not null then lower(r.error_code)
                when r.status not in ('completed', 'message_sent') then r.status end;
$$;

-- The last text that the agent of a run wrote at p_from or later; null when it wrote none. Of a run that was cut off, from
-- 0: what it had.
create function houston.last_text(p_agentable uuid, p_run uuid, p_from bigint) returns text language sql stable as $$
    select said.text
      from houston.history h
     cross join lateral (
           select string_agg(b.block ->> 'text', E'\n' order by b.n) as text
             from jsonb_array_elements(h.content) with ordinality as b (block, n)
            where b.block ->> 'type' = 'text') as said
     where h.agentable_id = p_agentable and h.position >= p_from and h.run_id = p_run and h.role = 'assistant'
       and btrim(said.text) <> ''
     order by h.position desc limit 1;
$$;

-- What the end of a task means for the agent it worked for: its notes are that agent's from now on, and its result is
-- told, which wakes it. A task that was cut off says so (status "stopped", "failed" or "cancelled", and the reason) and
-- tells what it had written until then. The caller holds the task's lock; this takes the parent's, so whoever takes both
-- takes the task's first.
create or replace function houston.report_task(
    p_task houston.agentables, p_run houston.runs, p_position bigint, p_max_running integer
) returns void language plpgsql as $$
declare
    v_parent houston.run_locks;
    v_reason text := houston.stop_reason(p_run);
    v_status text := case when p_run.status in ('cancelled', 'failed') then p_run.status
                          when p_run.status = 'dead_lettered' then 'failed'
                          when v_reason is not null then 'stopped' else 'completed' end;
    v_id text := houston.shown(p_task.kind, p_task.id);
    v_event jsonb;
    v_result text;
    v_notes text;
begin
    v_event := jsonb_strip_nulls(jsonb_build_object(
        'type', 'task_ended', 'task_id', v_id, 'task_run_id', houston.shown('run', p_run.id),
        'title', p_task.title, 'status', p_run.status, 'reason', v_reason, 'code', p_run.error_code,
        'message', p_run.error_message));
    update houston.run_locks l
       set open_tasks = greatest(l.open_tasks - 1, 0),
           last_seq = l.last_seq + (l.run_open and p_run.cancelled_with_parent)::int
     where l.agentable_id = p_task.parent_id
    returning l.* into v_parent;
    update houston.notes n set agentable_id = p_task.parent_id where n.agentable_id = p_task.id;
    if p_run.cancelled_with_parent then
        -- It knows already; those who watch it work do not.
        if v_parent.run_open then
            insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
            values (p_task.parent_id, v_parent.last_seq, v_parent.tenant_id, v_parent.run_id, 0, v_event);
        end if;
        return;
    end if;
    v_result := houston.last_text(p_task.id, p_run.id, case when v_status = 'completed' then p_position else 0 end);
    if v_status = 'completed' and v_result is not null
       and not exists (select from houston.notes n where n.agentable_id = p_task.parent_id and n.run_id = p_run.id) then
        -- What it found out is kept also when it wrote nothing down.
        insert into houston.notes (id, tenant_id, agentable_id, run_id, title, content)
        values (gen_random_uuid(), p_task.tenant_id, p_task.parent_id, p_run.id, p_task.title,
                left(v_result, houston.setting('tasks.note_chars')));
    end if;
    select string_agg(format('<item id="%s">%s</item>', houston.shown('note', n.id), houston.escaped(n.title)), E'\n')
      into v_notes
      from (select o.id, o.title from houston.notes o
             where o.agentable_id = p_task.parent_id and o.run_id = p_run.id order by o.id
             limit houston.setting('tasks.report_notes')) as n;
    perform houston.tell(
        p_task.parent_id, gen_random_uuid(), gen_random_uuid(),
        format('<task_ended id="%s" title="%s" status="%s"%s>', v_id, houston.escaped(p_task.title), v_status,
               coalesce(' reason="' || houston.escaped(v_reason) || '"', ''))
            || case when v_result is null then ''
                    else format(E'\n<result%s>', case when v_status = 'completed' then '' else ' complete="false"' end)
                         || houston.escaped(left(v_result, houston.setting('tasks.report_chars'))) || '</result>' end
            || coalesce(E'\n<notes>\n' || v_notes || E'\n</notes>', '')
            || coalesce(E'\n<error>' || houston.escaped(p_run.error_message) || '</error>', '')
            || E'\n</task_ended>',
        jsonb_strip_nulls(jsonb_build_object('type', 'task_ended', 'task_id', v_id, 'status', v_status,
                                             'reason', v_reason, 'run_id', houston.shown('run', p_run.id))),
        v_event, null, p_max_running);
end;
$$;

-- What follows from the end of a run, in the transaction that ends it and under the lock of its agentable.
-- p_read_before: up to where messages had been read before that transaction.
create or replace function houston.end_run(p_agentable uuid, p_run uuid, p_read_before bigint, p_max_running integer)
returns boolean language plpgsql as $$
declare
    l houston.run_locks;
    r houston.runs;
    a houston.agentables;
    v_told text[];
    v_rolled_back boolean;
begin
    select k.* into l from houston.run_locks k where k.agentable_id = p_agentable;
    select n.* into r from houston.runs n where n.id = p_run;
    if r.status = 'cancelled' then
        -- A cancel takes unread messages along, and a rollback those that were read, but not what Houston told of tasks.
        v_rolled_back := coalesce(r.cancel_reason = 'rollback', false);
        v_told := array(
            select m.content from houston.messages m
             where m.agentable_id = p_agentable and m.source = 'system'
               and m.seq > case when v_rolled_back then 0 else p_read_before end
               and (m.seq > p_read_before or m.run_id = p_run)
               and m.seq <= l.read_seq and m.metadata ->> 'type' = 'task_ended' order by m.seq);
        if cardinality(r.cancelled_tasks) > 0 then
            v_told := v_told || houston.tasks_cancelled(r.cancelled_tasks);
        end if;
        if cardinality(v_told) > 0 then
            perform houston.note_in_history(p_agentable, p_run, v_told);
        end if;
    elsif r.mode = 'feed_generation' and r.status not in ('failed', 'dead_lettered') then
        perform houston.feed_generation_complete(p_agentable, p_run);
    end if;
    select g.* into a from houston.agentables g where g.id = p_agentable;
    -- One that waits for tasks of its own is not done: the last of them wakes it.
    if a.parent_id is not null and not l.run_open and (l.open_tasks = 0 or r.status = 'cancelled') then
        perform houston.report_task(a, r, l.last_position, p_max_running);
    end if;
    return true;
end;
$$;

-- What the user wrote, shortened, of a stretch of the history: it stands in for a summary. Frames are Houston's, and no
-- word of theirs.
create or replace function houston.session_extract(p_agentable uuid, p_after bigint, p_last bigint) returns text
language sql stable as $$
    select coalesce('The user wrote: ' || string_agg(said.text, ' / ' order by said.position, said.n),
                    'The user wrote nothing.')
      from (select h.position, b.n, left(btrim(regexp_replace(b.block->>'text', '\s+', ' ', 'g')),
                                         houston.setting('session.extract_chars')) as text
              from (select e.position, e.role, e.content from houston.history e
                     where e.agentable_id = p_agentable and e.position > p_after and e.position <= p_last
                       and not e.rolled_back
                     order by e.position limit houston.setting('session.extract_entries')) h
             cross join lateral jsonb_array_elements(h.content) with ordinality as b (block, n)
             where h.role = 'user' and b.block->>'type' = 'text' and btrim(b.block->>'text') <> ''
               and not b.block ? 'frame'
             order by h.position, b.n limit houston.setting('session.extract_texts')) said;
$$;

-- For an application that posts from its own transaction, as before; the limits are those of jobs/orchestrator.toml.
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
      from houston.post_message(v_tenant, agentable, gen_random_uuid(), gen_random_uuid(), content, null,
                                idempotency_key,
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
