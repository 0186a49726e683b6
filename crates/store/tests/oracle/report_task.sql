-- Reports the end of a task to the agentable it works for: moves the task's notes there and posts its result, which
-- starts a run there. For a task that was cut off, the report has the status "stopped", "failed" or "cancelled", the
-- reason, and the last text that the task wrote. The caller holds the task's lock and this function takes the parent's;
-- every transaction that takes both takes the task's first.
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
    update houston.knowledge_items n set agentable_id = p_task.parent_id where n.owner_id = p_task.id and n.kind = 'note';
    if p_run.cancelled_with_parent then
        -- The parent knows, because its cancel caused this one. The event is for the clients of its stream.
        if v_parent.run_open then
            insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
            values (p_task.parent_id, v_parent.last_seq, v_parent.tenant_id, v_parent.run_id, 0, v_event);
        end if;
        return;
    end if;
    v_result := houston.last_text(p_task.id, p_run.id, case when v_status = 'completed' then p_position else 0 end);
    if v_status = 'completed' and v_result is not null
       and not exists (select from houston.knowledge_items n
                        where n.owner_id = p_task.parent_id and n.kind = 'note' and n.run_id = p_run.id) then
        -- Without notes by the task, its result becomes one.
        insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, run_id, title, content)
        values (houston.id_beside(p_task.parent_id), p_task.tenant_id, 'note', p_task.parent_id, p_run.id, p_task.title,
                left(v_result, houston.setting('tasks.note_chars')));
    end if;
    select string_agg(format('<item id="%s">%s</item>', houston.shown('note', n.id), houston.escaped(n.title)), E'\n')
      into v_notes
      from (select o.id, o.title from houston.knowledge_items o
             where o.owner_id = p_task.parent_id and o.kind = 'note' and o.run_id = p_run.id order by o.id
             limit houston.setting('tasks.report_notes')) as n;
    perform houston.tell(
        p_task.parent_id, houston.id_beside(p_task.parent_id), houston.id_beside(p_task.parent_id),
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
