-- An agent as a worker reads it.
create or replace function houston.agent_read(a houston.agents) returns text language sql stable as $$
    select jsonb_build_object('name', a.name, 'version', a.version, 'enabled', a.enabled,
                              'follows_file', a.is_default and not a.changed, 'settings', a.settings)::text
$$;
