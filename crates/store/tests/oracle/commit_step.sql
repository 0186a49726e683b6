-- Commits one step of a run: history entries, messages, events, intents, tool responses, usage, and, at the end of a
-- run, its outcome and the release of the lock. One statement, so one round trip.
--
-- The first statement is the fence: it locks the row, and finds none when the caller's claim has been superseded. A
-- step whose commit may or may not have happened is sent again with the same p_write; the second call returns 'landed'.
--
-- One call reads at most p_read_messages unread messages and p_read_bytes bytes of them (unread_batch); the others keep
-- the agentable awake and are read at the next step.
--
-- p_then:
--   'go_on'      commit and keep the lock; with p_read, unread messages are added as one more user entry
--   'finish'     end the run; if there are unread messages, read them and go on instead
--   'end'        end the run in any case; unread messages open the next run (p_next_run)
--   'retry'      release the lock until p_retry_at
--   'hand_over'  release the lock now, or until p_retry_at without counting a failed attempt
--
-- A run for which a cancel was requested reads nothing more and ends as cancelled, whatever p_status is: messages
-- posted before the request belong to it, and later ones open the next run.
--
-- A step that only checks for messages is no progress, so it does not reset the deaths of the run. Neither does
-- 'hand_over'.
--
-- outcome: 'committed', 'went_on' ('finish' found unread messages), 'landed' or 'fenced'.
-- waiting: when the run releases the lock, other agentables of the user that may run now, the longest waiting first, at
-- most as many as p_max_running allows. Messages posted at the same time may be missing: the sweep finds them.
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

    -- A request to cancel sets `wake` under this row's lock, and `wake` stays set until the run has ended.
    if l.wake or p_status = 'cancelled' then
        select r.cancel_seq, coalesce(r.cancel_reason, 'user') into cancel_seq, cancelled_by
          from houston.runs r where r.id = l.run_id;
    end if;
    if p_then in ('finish', 'end') and cancelled_by in ('user', 'interrupt', 'rollback')
       and (cancel_seq is not null or p_status = 'cancelled') then
        v_status := 'cancelled';
        v_last_event := p_last_event - 'message'
                        || jsonb_build_object('status', v_status, 'code', cancelled_by);
        -- Messages posted before the request to cancel belong to this run.
        v_read_to := coalesce(cancel_seq, 0);
        update houston.messages m set run_id = l.run_id
         where m.agentable_id = p_agentable and houston.is_for_agent(m.source) and m.seq > l.read_seq
           and m.seq <= v_read_to and m.run_id <> l.run_id;
        if v_read_to > l.read_seq then
            l.unread := (select count(*) from houston.messages m
                          where m.agentable_id = p_agentable and houston.is_for_agent(m.source) and m.seq > v_read_to);
        end if;
    else
        -- A run that the health monitor ends has another status, and unread messages open the next run.
        cancelled_by := null;
    end if;
    -- Unread messages: the transaction that stored them has set `wake` under this row's lock.
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
        -- The error message of a run is updated; every other id is new.
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
           -- The end of a task remains a fact: end_run adds it to the history for the next run.
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
           error_code = case when cancelled_by is not null then null
                             when v_ending then p_error_code else r.error_code end,
           error_message = case when cancelled_by is not null then null
                                when v_ending then p_error_message else r.error_message end
     where r.id = l.run_id
    returning r.cancel_seq into cancel_seq;

    if v_ending and p_then in ('finish', 'end') and v_read is not null then
        -- The run ends without having read these messages: the next run begins with them. Messages beyond this
        -- batch get their run when they are read.
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
            waiting := waiting[:houston.free_slots(l.user_id, p_agentable, p_max_running)];
            waiting_kinds := array(select a.kind from unnest(waiting) with ordinality as w (id, n)
                                     join houston.agentables a on a.id = w.id order by w.n);
        end if;
    end if;
end;
$$;
