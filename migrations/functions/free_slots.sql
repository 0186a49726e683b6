-- How many more runs of the user may be held, not counting the run of the agentable p_but. Runs whose worker is dead,
-- and runs whose lock was released before they ended, do not count.
create or replace function houston.free_slots(p_user uuid, p_but uuid, p_max_running integer) returns integer
language plpgsql stable as $$
declare
    -- In most cases this read of one index decides.
    v_held integer := (select count(*) from houston.runs r where r.held_for = p_user);
begin
    if v_held >= p_max_running then
        v_held := (select count(*) from houston.runs r
                     join houston.run_locks l on l.agentable_id = r.agentable_id
                     join houston.workers w on w.id = l.holder
                    where r.held_for = p_user and r.agentable_id <> p_but and w.alive_until > clock_timestamp());
    end if;
    return p_max_running - v_held;
end;
$$;
