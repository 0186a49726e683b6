-- Which agent of a team answers a run, as rows of the statement that reads the run's context:
--   'routed'                 the agent that the team's router picked for this run, from the run's events
--   'team' and 'team_agent'  the team, if its router has not picked yet, and its agents in their order
create or replace function houston.team_serving(p_team uuid, p_agentable uuid, p_run uuid)
returns table (what text, place bigint, definition text, id uuid) language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    -- The team's output is apart from the agent's settings: those are cached by the version of the agent.
    select 'routed', 0::bigint,
           case when t.output is null then read.agent
                else (read.agent::jsonb || jsonb_build_object('team_output', t.output))::text end, a.id
      from houston.runs r
     cross join lateral (
           select replace(e.data->>'agent_id', 'agent_', '')::uuid as agent_id from houston.events e
            where e.agentable_id = p_agentable and e.seq >= r.first_seq and e.run_id = p_run
              and e.data->>'type' = 'team_routed'
            order by e.seq limit 1) as picked
      join houston.agents a on a.id = picked.agent_id
     cross join lateral (
           select houston.agent_read(a.name, a.version, a.enabled, a.is_default and not a.changed, a.settings) as agent
           ) as read
      left join houston.teams t on t.id = p_team
     where r.id = p_run;
    if not found then
        return query
        select 'team', 0::bigint,
               jsonb_build_object('name', t.name, 'version', t.version, 'router', t.router, 'output', t.output,
                                  'fallback', (select m.position from houston.team_agents m
                                                where m.team_id = t.id and m.is_fallback))::text, t.id
          from houston.teams t where t.id = p_team;
        return query
        select 'team_agent', m.position::bigint, houston.agent_read(a.name, a.version, a.enabled,
                                                                    a.is_default and not a.changed, a.settings), a.id
          from houston.team_agents m join houston.agents a on a.id = m.agent_id
         where m.team_id = p_team;
    end if;
end;
$$;
