-- How many runs of the user are held by workers that live, that of the agentable p_but left out.
create function houston.held_runs(p_user uuid, p_but uuid) returns integer
language plpgsql stable as $$
begin
    return (select count(*) from houston.runs r
              join houston.run_locks l on l.agentable_id = r.agentable_id
              join houston.workers w on w.id = l.holder
             where r.user_id = p_user and r.status = 'running' and r.agentable_id <> p_but
               and w.alive_until > clock_timestamp());
end;
$$;
