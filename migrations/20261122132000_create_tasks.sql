-- Sub-agents: an agentable that another one began. What it does, its parent is told when it ends.

-- How many stand above it. The pair (parent_id, parent_depth) must be an agentable one step nearer to the root, so no
-- chain of parents can come back to where it began.
alter table houston.agentables
    add column depth integer not null default 0 check (depth >= 0),
    -- the tools it may call, of those of its kind; null: all of them
    add column tools text[],
    add constraint agentables_id_depth unique (id, depth);

with recursive chain as (
    select id, 0 as depth from houston.agentables where parent_id is null
    union all
    select a.id, c.depth + 1 from chain c join houston.agentables a on a.parent_id = c.id)
update houston.agentables a set depth = c.depth from chain c where c.id = a.id and c.depth > 0;

alter table houston.agentables
    add column parent_depth integer generated always as (case when parent_id is not null then depth - 1 end) stored,
    add constraint agentables_depth_of_root check ((parent_id is null) = (depth = 0)),
    add constraint agentables_parent_above
        foreign key (parent_id, parent_depth) references houston.agentables (id, depth);

alter table houston.runs
    -- why it was opened, when nobody's message did: 'feed_generation', 'agent_check_in'
    add column mode text check (mode in ('feed_generation', 'agent_check_in')),
    -- the mode of the run above it that began its agentable; it changes nothing of how this one runs
    add column origin_type text,
    add column tasks_started integer not null default 0,
    -- it is cancelled because what it works for is: its end wakes nobody
    add column cancelled_with_parent boolean not null default false,
    -- titles of the tasks that were cancelled together with it
    add column cancelled_tasks text[];

-- Changed under the lock of the row: by who begins a task, and by the end of one.
alter table houston.run_locks add column open_tasks integer not null default 0;

-- 'system': Houston itself tells the agent something. It is read like a message, and is nobody's words.
alter table houston.messages drop constraint messages_source_check;
alter table houston.messages add constraint messages_source_check
    check (source in ('user', 'agent', 'error', 'system')) not valid;

-- Text inside an element, or an attribute.
create function houston.escaped(p_text text) returns text language sql immutable strict parallel safe as $$
    select replace(replace(replace(replace(p_text, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;');
$$;

-- As before; what Houston itself tells is read like what the user says.
create or replace function houston.unread_batch(
    p_agentable uuid, p_after bigint, p_up_to bigint, p_run uuid, p_messages integer, p_bytes integer,
    out read_to bigint, out contents text[], out more boolean, out elsewhere boolean
) language plpgsql stable as $$
declare
    m record;
    v_bytes bigint := 0;
begin
    more := false;
    elsewhere := false;
    for m in
        select n.seq, n.content, n.run_id from houston.messages n
         where n.agentable_id = p_agentable and n.source in ('user', 'system') and n.seq > p_after
           and n.seq <= coalesce(p_up_to, 9223372036854775807)
         order by n.seq limit p_messages + 1
    loop
        v_bytes := v_bytes + octet_length(m.content);
        if read_to is not null and (v_bytes > p_bytes or cardinality(contents) >= p_messages) then
            more := true;
            return;
        end if;
        read_to := m.seq;
        contents := contents || m.content;
        elsewhere := elsewhere or m.run_id <> p_run;
    end loop;
end;
$$;

-- Houston tells an agent something: a message of the source 'system' with its event, and p_event before it if there
-- is one. A run that is open reads it at its next step; else it opens one. With a mode it must open one: nothing
-- happens, and no row comes back, while another run is open.
create function houston.tell(
    p_agentable uuid, p_message uuid, p_run uuid, p_content text, p_metadata jsonb, p_event jsonb, p_mode text,
    p_max_running integer
) returns table (run_id uuid, seq bigint, opened boolean) language plpgsql as $$
#variable_conflict use_column
declare
    v_tenant uuid;
    v_user uuid;
    v_free boolean;
    v_at timestamptz;
begin
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

-- Adds to the history, under its lock, what an agent without an open run should know when it runs again.
create function houston.note_in_history(p_agentable uuid, p_run uuid, p_texts text[]) returns void
language plpgsql as $$
begin
    with l as (
        update houston.run_locks k set last_position = k.last_position + 1 where k.agentable_id = p_agentable
        returning k.last_position, k.tenant_id, k.epoch)
    insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
    select p_agentable, l.last_position, l.tenant_id, p_run, l.epoch, 'user',
           (select jsonb_agg(jsonb_build_object('type', 'text', 'text', t.text) order by t.n)
              from unnest(p_texts) with ordinality as t (text, n))
      from l;
end;
$$;

create function houston.tasks_cancelled(p_titles text[]) returns text language sql immutable as $$
    select '<tasks_cancelled>' || E'\n'
           || string_agg('<item>' || houston.escaped(t.title) || '</item>', E'\n' order by t.n)
           || E'\n</tasks_cancelled>'
      from unnest(p_titles) with ordinality as t (title, n);
$$;

-- A feed was written, and its run has ended well: in that transaction, under the lock of the agentable.
create function houston.feed_generation_complete(p_agentable uuid, p_run uuid) returns void language plpgsql as $$
begin
    -- The place where the session is closed.
end;
$$;

-- What the end of a task means for the agent it worked for: its notes are that agent's from now on, and its result is
-- told, which wakes it. The caller holds the task's lock; this takes the parent's, so whoever takes both takes the
-- task's first.
create function houston.report_task(
    p_task houston.agentables, p_run houston.runs, p_position bigint, p_max_running integer
) returns void language plpgsql as $$
declare
    v_parent houston.run_locks;
    v_status text := case when p_run.status in ('cancelled', 'failed') then p_run.status
                          when p_run.status = 'dead_lettered' then 'failed' else 'completed' end;
    v_id text := houston.shown(p_task.kind, p_task.id);
    v_event jsonb;
    v_result text;
    v_notes text;
begin
    v_event := jsonb_strip_nulls(jsonb_build_object(
        'type', 'task_ended', 'task_id', v_id, 'task_run_id', houston.shown('run', p_run.id),
        'title', p_task.title, 'status', p_run.status, 'code', p_run.error_code, 'message', p_run.error_message));
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
    select string_agg(b.block ->> 'text', E'\n' order by b.n) into v_result
      from houston.history h
     cross join lateral jsonb_array_elements(h.content) with ordinality as b (block, n)
     where h.agentable_id = p_task.id and h.position = p_position and h.run_id = p_run.id and h.role = 'assistant'
       and b.block ->> 'type' = 'text';
    if v_status = 'completed' and btrim(v_result) <> ''
       and not exists (select from houston.notes n where n.agentable_id = p_task.parent_id and n.run_id = p_run.id) then
        -- What it found out is kept also when it wrote nothing down.
        insert into houston.notes (id, tenant_id, agentable_id, run_id, title, content)
        values (gen_random_uuid(), p_task.tenant_id, p_task.parent_id, p_run.id, p_task.title, left(v_result, 16000));
    end if;
    select string_agg(format('<item id="%s">%s</item>', houston.shown('note', n.id), houston.escaped(n.title)), E'\n')
      into v_notes
      from (select o.id, o.title from houston.notes o
             where o.agentable_id = p_task.parent_id and o.run_id = p_run.id order by o.id limit 20) as n;
    perform houston.tell(
        p_task.parent_id, gen_random_uuid(), gen_random_uuid(),
        format('<task_ended id="%s" title="%s" status="%s">', v_id, houston.escaped(p_task.title), v_status)
            || coalesce(E'\n<result>' || houston.escaped(left(v_result, 4000)) || '</result>', '')
            || coalesce(E'\n<notes>\n' || v_notes || E'\n</notes>', '')
            || coalesce(E'\n<error>' || houston.escaped(p_run.error_message) || '</error>', '')
            || E'\n</task_ended>',
        jsonb_build_object('type', 'task_ended', 'task_id', v_id, 'status', v_status,
                           'run_id', houston.shown('run', p_run.id)),
        v_event, null, p_max_running);
end;
$$;

-- What follows from the end of a run, in the transaction that ends it and under the lock of its agentable.
-- p_read_before: up to where messages had been read before that transaction.
create function houston.end_run(p_agentable uuid, p_run uuid, p_read_before bigint, p_max_running integer)
returns boolean language plpgsql as $$
declare
    l houston.run_locks;
    r houston.runs;
    a houston.agentables;
    v_told text[];
begin
    select k.* into l from houston.run_locks k where k.agentable_id = p_agentable;
    select n.* into r from houston.runs n where n.id = p_run;
    if r.status = 'cancelled' then
        -- A cancel takes unread messages along, but not what Houston told of tasks.
        v_told := array(
            select m.content from houston.messages m
             where m.agentable_id = p_agentable and m.source = 'system' and m.seq > p_read_before
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
