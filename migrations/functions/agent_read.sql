-- An agent as a worker reads it. p_follows_file: it is a default agent without changes.
create or replace function houston.agent_read(
    p_name text, p_version bigint, p_enabled boolean, p_follows_file boolean, p_settings jsonb
) returns text language sql stable as $$
    select jsonb_build_object('name', p_name, 'version', p_version, 'enabled', p_enabled,
                              'follows_file', p_follows_file, 'settings', p_settings)::text
$$;
