-- How many more runs of the user may be held beside that of the agentable p_but. Runs of workers that are dead, or
-- that let go without ending them, take no place.
create function houston.places_left(p_user uuid, p_but uuid, p_max_running integer) returns integer
language plpgsql stable as $$
declare
    v_held integer;
begin
    -- Nearly always this look at one index says enough.
    v_held := (select count(*) from houston.runs r where r.held_for = p_user);
    if v_held < p_max_running then
        return p_max_running - v_held;
    end if;
    return p_max_running - (
        select count(*) from houston.runs r
          join houston.run_locks l on l.agentable_id = r.agentable_id
          join houston.workers w on w.id = l.holder
         where r.held_for = p_user and r.agentable_id <> p_but and w.alive_until > clock_timestamp());
end;
$$;
