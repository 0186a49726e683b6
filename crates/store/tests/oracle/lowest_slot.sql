-- The lowest number of a slot that no run of the user holds.
create or replace function houston.lowest_slot(p_user uuid) returns integer language sql stable as $$
    select min(c.slot) from (select 1 as slot
                              union all
                             select r.slot + 1 from houston.runs r where r.held_for = p_user) c
     where not exists (select from houston.runs o where o.held_for = p_user and o.slot = c.slot);
$$;
