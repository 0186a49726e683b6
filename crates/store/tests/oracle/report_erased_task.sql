-- Reports the erasure of a task to the agentable that waits for it, as the end of a cancelled task. The caller holds
-- the locks of both.
create or replace function houston.report_erased_task(p_task uuid, p_max_running integer) returns void
language plpgsql as $$
declare
    a houston.agentables;
    v_id text;
    v_run uuid;
begin
    select g.* into a from houston.agentables g where g.id = p_task;
    select l.run_id into v_run from houston.run_locks l
      left join houston.runs r on r.id = l.run_id
     where l.agentable_id = p_task and (l.run_open or (l.open_tasks > 0 and r.status <> 'cancelled'));
    if not found or a.parent_id is null then
        return;
    end if;
    v_id := houston.shown(a.kind, a.id);
    update houston.run_locks l set open_tasks = greatest(l.open_tasks - 1, 0) where l.agentable_id = a.parent_id;
    perform houston.tell(
        a.parent_id, houston.id_beside(a.parent_id), houston.id_beside(a.parent_id),
        format(
            E'<task_ended id="%s" title="%s" status="cancelled">\n<error>The task was erased.</error>\n</task_ended>',
            v_id, houston.escaped(a.title)),
        jsonb_build_object('type', 'task_ended', 'task_id', v_id, 'status', 'cancelled',
                           'run_id', houston.shown('run', v_run)),
        jsonb_build_object('type', 'task_ended', 'task_id', v_id, 'task_run_id', houston.shown('run', v_run),
                           'title', a.title, 'status', 'cancelled', 'message', 'The task was erased.'),
        null, p_max_running);
end;
$$;
