-- Does what follows from the end of a run, in the transaction that ends it and under the lock of its agentable.
-- p_read_before: the position up to which messages had been read before that transaction.
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
        -- A cancel discards unread messages, and a rollback also those that were read. Reports about tasks are kept:
        -- they are added to the history.
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
    -- A task that waits for tasks of its own has not ended: the last of them starts its next run.
    if a.parent_id is not null and not l.run_open and (l.open_tasks = 0 or r.status = 'cancelled') then
        perform houston.report_task(a, r, l.last_position, p_max_running);
    end if;
    return true;
end;
$$;
