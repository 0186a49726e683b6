-- Sets the title of an agentable that has none, writes the event, and counts the cost of the model call, all of it
-- once. `done` is false when there is a title already; then nothing is written.
create or replace function houston.set_title(
    p_agentable uuid, p_title text, p_write uuid, p_call jsonb,
    out done boolean, out seq bigint, out run_id uuid, out at timestamptz, out between_runs boolean
) language plpgsql as $$
declare
    l houston.run_locks;
begin
    done := false;
    select k.* into l from houston.run_locks k where k.agentable_id = p_agentable for no key update;
    if not found or l.run_id is null then
        return;
    end if;
    delete from houston.title_requests t where t.agentable_id = p_agentable;
    update houston.agentables a set title = p_title where a.id = p_agentable and a.title = '';
    if not found then
        return;
    end if;
    done := true;
    seq := l.last_seq + 1;
    run_id := l.run_id;
    at := clock_timestamp();
    between_runs := not l.run_open;
    insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data, created_at)
    values (p_agentable, seq, l.tenant_id, run_id, l.epoch,
            jsonb_build_object('type', 'title_set', 'title', p_title, 'between_runs', between_runs), at);
    update houston.run_locks k set last_seq = set_title.seq where k.agentable_id = p_agentable;
    if p_call is not null then
        perform houston.count_call(p_agentable, run_id, p_write, at, p_call);
    end if;
end;
$$;
