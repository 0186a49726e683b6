-- Adds frames to the history of an agentable without an open run, under its lock, for its next run.
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
